"""As much of torch as the hook asks, without any arithmetic. `FAKE_CUDA` gives it a GPU whose work
takes 10 ms a step; `FAKE_OLD` takes away what torch 1.13 lacks; `FAKE_BROKEN` fails its import."""

import os
import types

if os.environ.get("FAKE_BROKEN") and not os.path.exists(os.environ["FAKE_BROKEN"]):
    open(os.environ["FAKE_BROKEN"], "w").close()
    raise ImportError("the first import fails")

__version__ = "1.13.1+fake" if os.environ.get("FAKE_OLD") else "2.99.0+fake"

#: What the program and the hook asked of the GPU, in order.
log = []
#: Time on the GPU, in seconds.
_gpu_time = [0.0]
_memory = {"allocated": 0, "reserved": 0, "peak_allocated": 0, "peak_reserved": 0}


class OutOfMemoryError(RuntimeError):
    pass


class _Device:
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index


class Parameter:
    def __init__(self, device="cpu", index=None):
        self.device = _Device(device, index)

    def numel(self):
        return 10

    def element_size(self):
        return 4


def work(allocated=0, seconds=0.01, kept=0):
    """A forward and a backward: memory that comes and goes, or is kept, and time on the GPU."""
    _memory["allocated"] += kept
    log.append("work")
    _gpu_time[0] += seconds
    for name in ("allocated", "reserved"):
        _memory["peak_" + name] = max(_memory["peak_" + name], allocated)
    _memory["reserved"] = max(_memory["reserved"], allocated)


def get_num_threads():
    return 3


class autocast:
    def __init__(self, device_type, dtype=None, enabled=True):
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class GradScaler:
    def is_enabled(self):
        return True

    def step(self, optimizer, is_finite=True):
        if is_finite:
            optimizer.step()


class _Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        self.at = None

    def record(self, _stream):
        log.append("record")
        self.at = _gpu_time[0]

    def query(self):
        return True

    def synchronize(self):
        log.append("event-synchronize")

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


def _synchronize(_device=None):
    log.append("synchronize")


def _reset(_device=None):
    log.append("reset")
    _memory["peak_allocated"] = _memory["allocated"]
    _memory["peak_reserved"] = _memory["reserved"]


def _stats(_device=None):
    return {
        "allocated_bytes.all.current": _memory["allocated"],
        "allocated_bytes.all.peak": _memory["peak_allocated"],
        "reserved_bytes.all.current": _memory["reserved"],
        "reserved_bytes.all.peak": _memory["peak_reserved"],
        "num_alloc_retries": 2,
    }


class _Properties:
    name, uuid, major, minor = "Fake 100", "f-1", 9, 0
    multi_processor_count, total_memory = 132, 80 << 30


class _Nccl:
    @staticmethod
    def version():
        return (2, 27, 3)


def _module(**content):
    module = types.ModuleType("fake")
    module.__dict__.update(content)
    return module


_has_gpu = bool(os.environ.get("FAKE_CUDA"))
_C = types.SimpleNamespace(
    _cuda_attach_out_of_memory_observer=lambda call: _observers.append(call)
)
_observers = []


def run_out():
    for call in _observers:
        call(0, 1, 2, 3)
    raise OutOfMemoryError("Tried to allocate 1.50 GiB.")


def _dump(path):
    if os.environ.get("FAKE_NO_SNAPSHOT"):
        raise RuntimeError("no room")
    with open(path, "a") as file:
        file.write("{};".format(log.count("work")))


cuda = _module(
    _lazy_call=lambda call: _has_gpu and call(),
    memory=_module(
        _record_memory_history=lambda **named: log.append(named),
        _dump_snapshot=_dump,
    ),
    Event=_Event,
    OutOfMemoryError=OutOfMemoryError,
    amp=_module(GradScaler=GradScaler),
    current_device=lambda: 0,
    current_stream=lambda device=None: "stream",
    get_device_properties=lambda device: _Properties(),
    is_current_stream_capturing=lambda: False,
    is_initialized=lambda: _has_gpu,
    mem_get_info=lambda device=None: (70 << 30, 80 << 30),
    memory_allocated=lambda device=None: _memory["allocated"],
    memory_reserved=lambda device=None: _memory["reserved"],
    memory_stats=_stats,
    memory_stats_as_nested_dict=lambda device=None: {
        "allocated_bytes": {"all": {"current": _memory["allocated"]}}
    },
    nccl=_Nccl,
    reset_peak_memory_stats=_reset,
    synchronize=_synchronize,
)
if not os.environ.get("FAKE_OLD"):
    amp = _module(GradScaler=GradScaler)
    cuda.get_allocator_backend = lambda: "native"
version = _module(cuda="13.0")
backends = _module(cudnn=_module(version=lambda: 91900))

from torch import optim  # noqa: E402
