"""Numbers of a training program for Torchgauge, in three lines.

    import torchgauge

    for batch in torchgauge.steps(loader, samples=len):
        ...
    torchgauge.metric("accuracy", accuracy, "ratio")

Or, where the loop is not a ``for`` over batches::

    torchgauge.start()
    while ...:
        ...
        torchgauge.step(samples=64)
    torchgauge.finish()

Where the variable ``TORCHGAUGE_EVENTS`` is not set, all of it does nothing. Where it is, event
lines go to the file that it names, as ``docs/protocol.md`` of Torchgauge describes them.

One file, no dependencies, Python 3.8 or newer. torch is used where the program has imported it, and
is never imported here.
"""

import atexit
import importlib
import json
import math
import os
import re
import stat
import sys
import time
from collections import deque

__all__ = ["finish", "metric", "start", "step", "steps"]
__version__ = "0.1.0"

#: Version of the event lines and of the run file.
VERSION = 4

#: What a value may be counted in, beside a unit that its name ends with.
UNITS = (
    "samples-per-second",
    "steps-per-second",
    "tokens-per-second",
    "requests-per-second",
    "bytes-per-second",
    "operations-per-second",
    "seconds",
    "bytes",
    "count",
    "joules",
    "watts",
    "ratio",
    "plain",
)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_LONGEST_MESSAGE = 1000
#: Marks that wait for the GPU before the first of them are read.
_MOST_PENDING = 64
_LONGEST_LINE = 1 << 20
#: Bytes of the events file that are looked through for lines of the same rank.
_MOST_READ = 64 << 20
#: Kernels that have a line of their own, and letters of their names.
_MOST_KERNELS = 200
_LONGEST_KERNEL = 200
#: Modules that have a line of their own, and letters of their names.
_MOST_MODULES = 2000
_LONGEST_MODULE = 200
_OUTSIDE = "[outside modules]"
#: Warm-up steps of a deterministic program whose gradients are digested.
_DIGESTED = 4


def steps(iterable, samples=None):
    """Passes the items of ``iterable`` on; what the program does with each is one step.

    ``samples``: samples of a step, as a number, or as a function of the item (``len``). A step
    lasts from the end of the one before it, so waiting for the next item is part of it.
    """
    return _Steps(iterable, samples)


def start():
    """Begins the first step of the warm-up. The second call and later ones do nothing."""
    recorder = current()
    if recorder is not None:
        recorder.guarded(recorder.begin, "helper")


def step(samples=None):
    """Ends a step, of so many samples, and begins the next one."""
    recorder = current()
    if recorder is not None:
        recorder.guarded(recorder.begin, "helper")
        recorder.guarded(recorder.step, "helper", samples)


def finish():
    """Ends measuring, also where fewer steps ran than were asked for."""
    recorder = current()
    if recorder is not None:
        recorder.guarded(recorder.finish)


def metric(name, value, unit=None, better=None):
    """Reports a number of the program's own. A later one of the same name takes its place.

    ``name``: up to 64 of a-z, 0-9 and _, a letter first. ``unit``: one of :data:`UNITS`.
    ``better``: ``"less"`` or ``"more"``, whichever is an improvement. Raises ``ValueError`` where
    one of them is none; a value that is not finite is left out, with a note on standard error.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(
            "the metric {!r}: expected up to 64 of a-z, 0-9 and _, a letter first".format(name)
        )
    if unit is not None and unit not in UNITS:
        raise ValueError("the unit {!r}: expected one of {}".format(unit, ", ".join(UNITS)))
    if better not in (None, "less", "more"):
        raise ValueError("better={!r}: expected less or more".format(better))
    number = float(value)
    recorder = current()
    if recorder is None:
        return
    if not math.isfinite(number):
        _note("the metric {} is {}, which is no number: left out".format(name, number))
        return
    recorder.guarded(recorder.metric, name, number, unit, better)


class _Steps:
    """An iterable whose iterations are steps."""

    def __init__(self, iterable, samples):
        self._iterable = iterable
        self._samples = samples

    def __len__(self):
        return len(self._iterable)

    def __iter__(self):
        if current() is None:
            yield from self._iterable
            return
        start()
        for item in self._iterable:
            count = self._samples(item) if callable(self._samples) else self._samples
            yield item
            step(count)


class _Asked:
    """The run file: what the harness asks for."""

    def __init__(self, text):
        told = {}
        if text:
            if not text.lstrip().startswith("{"):
                with open(text, encoding="utf-8") as file:
                    text = file.read()
            told = json.loads(text)
        self.run = told.get("run", "")
        self.warmup = int(told.get("warmup", 3))
        self.warmup_seconds = float(told.get("warmup_seconds", 0))
        self.measured = int(told.get("measured", 20))
        self.profiled = int(told.get("profiled", 0))
        self.attribution = bool(told.get("attribution", False))
        #: False, True, or "on-out-of-memory".
        self.snapshot = told.get("snapshot", False)
        self.snapshot_entries = int(told.get("snapshot_entries", 100000))
        self.samples_per_step = told.get("samples_per_step")
        self.until_exit = told.get("until", "measured") == "exit"


class _HostTimer:
    """Seconds between marks, by the host's clock. A mark gives the host's time."""

    def __init__(self):
        self.seconds = []
        self._last = None

    def mark(self):
        now = time.perf_counter()
        if self._last is not None:
            self.seconds.append(now - self._last)
        self._last = now
        return now

    def complete(self):
        pass


class _GpuTimer:
    """Seconds between marks in the GPU's stream. A mark waits for nothing."""

    def __init__(self, torch, device):
        self.seconds = []
        self._torch = torch
        self._device = device
        self._pending = deque()
        self._free = []

    def mark(self):
        event = self._free.pop() if self._free else self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self._device))
        self._pending.append(event)
        if len(self._pending) > _MOST_PENDING:
            self._read(wait=False)
        return time.perf_counter()

    def complete(self):
        self._read(wait=True)

    def _read(self, wait):
        pending = self._pending
        while len(pending) > 1:
            if wait:
                pending[1].synchronize()
            elif not pending[1].query():
                return
            first = pending.popleft()
            self.seconds.append(first.elapsed_time(pending[0]) / 1e3)
            self._free.append(first)


class _Cpu:
    """What a program on the CPU can be asked, with torch or without."""

    facts = {"device": "cpu"}
    cuda = None

    def timer(self):
        return _HostTimer()

    def is_capturing(self):
        return False

    def wait(self):
        pass

    def begin(self):
        pass

    def allocated(self):
        return None

    def values(self):
        return {}

    def shortage(self, _message):
        return None


class _Gpu:
    """One CUDA GPU by torch's public functions, and its caching allocator."""

    def __init__(self, torch, index):
        self._torch = torch
        self._index = index
        self._before = {}
        self._peaks = {}
        self.facts = {"device": "cuda:{}".format(index)}
        get_backend = getattr(torch.cuda, "get_allocator_backend", None)
        if get_backend is not None:
            self.facts["allocator"] = get_backend()
        settings = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
        if settings:
            self.facts["allocator_settings"] = settings

    @property
    def cuda(self):
        torch = self._torch
        found = torch.cuda.get_device_properties(self._index)
        nccl = _try(lambda: torch.cuda.nccl.version())
        uuid = getattr(found, "uuid", None)
        return {
            "device_name": found.name,
            "uuid": "GPU-{}".format(uuid) if uuid else "",
            "capability": "{}.{}".format(found.major, found.minor),
            "multiprocessors": found.multi_processor_count,
            "total_memory_bytes": found.total_memory,
            "runtime_version": torch.version.cuda or "",
            "driver_cuda_version": _try(
                lambda: "{}.{}".format(*_thousands(torch._C._cuda_getDriverVersion()))
            )
            or "",
            "cudnn_version": _cudnn(torch),
            "nccl_version": ".".join(map(str, nccl)) if nccl else None,
        }

    def timer(self):
        return _GpuTimer(self._torch, self._index)

    def is_capturing(self):
        return self._torch.cuda.is_current_stream_capturing()

    def wait(self):
        self._torch.cuda.synchronize(self._index)

    def begin(self):
        self._before = self._torch.cuda.memory_stats(self._index)
        self._torch.cuda.reset_peak_memory_stats(self._index)

    def allocated(self):
        """Bytes in tensors now. A flat dictionary would take several times as long to make."""
        stats = self._torch.cuda.memory_stats_as_nested_dict(self._index)
        return stats["allocated_bytes"]["all"]["current"]

    def note_peaks(self, stats):
        """The peaks are about to be reset, and are the run's nevertheless."""
        for key, value in stats.items():
            if key.endswith(".all.peak"):
                self._peaks[key] = max(value, self._peaks.get(key, 0))

    def values(self):
        stats = self._torch.cuda.memory_stats(self._index)

        def peak_of_run(name):
            key = name + ".all.peak"
            return max(stats.get(key, 0), self._before.get(key, 0), self._peaks.get(key, 0))

        free, total = self._torch.cuda.mem_get_info(self._index)
        found = {
            "allocated_bytes": stats.get("allocated_bytes.all.current"),
            "reserved_bytes": stats.get("reserved_bytes.all.current"),
            "peak_allocated_bytes": stats.get("allocated_bytes.all.peak"),
            "peak_reserved_bytes": stats.get("reserved_bytes.all.peak"),
            "run_peak_allocated_bytes": peak_of_run("allocated_bytes"),
            "run_peak_reserved_bytes": peak_of_run("reserved_bytes"),
            "allocation_retries_count": stats.get("num_alloc_retries"),
            # torch 2.1 and newer.
            "device_allocations_count": stats.get("num_device_alloc"),
            "device_used_bytes": total - free,
            "device_total_bytes": total,
        }
        # Another backend counts neither, and has 0 there.
        if self.facts.get("allocator", "native") == "native":
            found["peak_inactive_split_bytes"] = peak_of_run("inactive_split_bytes")
            found["peak_segments_count"] = peak_of_run("segment")
        return {name: value for name, value in found.items() if value is not None}

    def shortage(self, message):
        asked = re.search(r"Tried to allocate ([0-9.]+) ([KMGT]?i?B|bytes)", message)
        if asked is None:
            return None
        sizes = {"bytes": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
        free, total = self._torch.cuda.mem_get_info(self._index)
        return {
            "requested_bytes": int(float(asked.group(1)) * 2 ** sizes.get(asked.group(2), 0)),
            "free_bytes": free,
            "capacity_bytes": total,
            "allocated_bytes": self._torch.cuda.memory_allocated(self._index),
            "reserved_bytes": self._torch.cuda.memory_reserved(self._index),
        }


class _Profile:
    """What runs in steps, by torch's own profiler: kernels of a GPU, operators of a CPU."""

    def __init__(self, is_gpu):
        if "torch" not in sys.modules:
            raise RuntimeError("the program has not imported torch")
        profiler = importlib.import_module("torch.profiler")
        kinds = profiler.ProfilerActivity
        self._is_gpu = is_gpu
        # To follow the CPU's operators as well would cost the GPU's steps time and tell nothing.
        self._profile = profiler.profile(activities=[kinds.CUDA if is_gpu else kinds.CPU])
        self._profile.start()

    def kernels(self, steps):
        """Ends it. A line a kernel, of what one of so many steps takes, the longest first."""
        self._profile.stop()
        found = {}
        for event in self._profile.events() if steps else ():
            seconds = self._seconds(event)
            if seconds is not None:
                kernel = found.setdefault(_kernel_name(event.name), [0, 0.0])
                kernel[0] += 1
                kernel[1] += seconds
        kernels = sorted(found.items(), key=lambda kernel: (-kernel[1][1], kernel[0]))
        rest = [kernel for _, kernel in kernels[_MOST_KERNELS:]]
        if rest:
            kernels[_MOST_KERNELS:] = [("[the rest]", [sum(column) for column in zip(*rest)])]
        for name, (count, seconds) in kernels:
            yield {
                "event": "kernel",
                "name": name,
                "count": count / steps,
                "seconds": seconds / steps,
            }

    def _seconds(self, event):
        # A range that somebody marked holds kernels, and is none.
        if getattr(event, "is_user_annotation", False):
            return None
        if not self._is_gpu:
            return max(event.self_cpu_time_total, 0) / 1e6
        is_kernel = str(event.device_type).endswith("CUDA")
        return event.time_range.elapsed_us() / 1e6 if is_kernel else None


def _now():
    """Seconds since 1970, by a clock that nobody sets while the program runs."""
    return _EPOCH + time.perf_counter()


_EPOCH = time.time() - time.perf_counter()


class _Modules:
    """What modules take of a step, by hooks on all of them, on tensors between them, and on what
    forward saves for backward."""

    def __init__(self, torch, device, optimizers):
        if _compiled():
            raise RuntimeError("compiled modules have no hooks inside")
        self._torch = torch
        self._device = device
        self._optimizers = optimizers
        self._index = device._index if isinstance(device, _Gpu) else None
        self._in_backward = lambda: torch._C._current_graph_task_id() >= 0
        self._in_backward()
        self._values = {}
        self._step = {}
        self._names = {}
        self._roots = []
        self._undo = []

    def begin(self, of_memory):
        """A step begins. Memory is read in one step, time in another."""
        self._of_memory = of_memory and self._index is not None
        self._timer = None if of_memory else self._device.timer()
        self._spans = []
        self._stack = []
        #: The module that backward has come to.
        self._node = _OUTSIDE
        self._phase = "forward"
        self._entries = {}
        self._allocated = None
        #: What forward of the first micro-batch keeps: bytes and module by address.
        self._saved = {} if of_memory else None
        self._outputs = []
        self._inputs = set()
        self._entry = None
        module = importlib.import_module("torch.nn.modules.module")
        optimizer = importlib.import_module("torch.optim.optimizer")
        graph = importlib.import_module("torch.autograd.graph")
        handles = (
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after),
            optimizer.register_optimizer_step_pre_hook(lambda *_: self._ended()),
        )
        self._undo = [handle.remove for handle in handles]
        if of_memory:
            hooks = graph.saved_tensors_hooks(self._save, lambda tensor: tensor)
            hooks.__enter__()
            self._undo.append(lambda: hooks.__exit__(None, None, None))
        self._boundary()

    def undo(self):
        self._phase = None
        while self._undo:
            self._undo.pop()()

    def end(self):
        """The step has ended, on an idle device."""
        self.undo()
        if self._timer is not None:
            self._timer.complete()
            for (phase, name), seconds in zip(self._spans, self._timer.seconds):
                self._add_span(name, phase + "_seconds", seconds)
        for pointer, (size, name) in (self._saved or {}).items():
            if pointer not in self._inputs:
                self._add(name, "kept_bytes", size)
        if self._saved is not None:
            self._add_parameters()

    def lines(self):
        step = {name: float(value) for name, value in self._step.items()}
        yield {"event": "module", "name": "[step]", "values": step}
        names = sorted(self._values, key=lambda name: (name.count("."), name))
        for name in [name for name in names if len(name) <= _LONGEST_MODULE][:_MOST_MODULES]:
            values = {key: float(value) for key, value in self._values[name].items()}
            yield {"event": "module", "name": name, "values": values}

    def _add(self, name, value, more):
        for around in _path(name):
            values = self._values.setdefault(around, {})
            values[value] = values.get(value, 0) + more

    def _add_span(self, name, value, seconds):
        self._add(name, value, seconds)
        self._step[value] = self._step.get(value, 0.0) + seconds

    def _add_parameters(self):
        state = {}
        for optimizer in list(self._optimizers):
            state.update(optimizer.state)
        totals = self._step
        for root, prefix in self._roots:
            for name, parameter in root.named_parameters():
                own = _local(parameter)
                kept = state.get(parameter)
                kept = kept.values() if isinstance(kept, dict) else ()
                sizes = {
                    "parameter_bytes": _size(own),
                    "gradient_bytes": _size(_local(parameter.grad)),
                    "optimizer_bytes": sum(_size(_local(value)) for value in kept),
                }
                module = (prefix + name).rpartition(".")[0] or _OUTSIDE
                for value, size in sizes.items():
                    self._add(module, value, size)
                    if value != "optimizer_bytes":
                        totals[value] = totals.get(value, 0) + size
        totals["optimizer_bytes"] = _state_bytes(self._optimizers)

    def _name(self, module):
        name = self._names.get(id(module))
        if name is None:
            # The first root's modules are called as it calls them.
            prefix = type(module).__name__.lower() + "." if self._roots else ""
            self._roots.append((module, prefix))
            for name, inner in module.named_modules():
                name = (prefix + name).strip(".")
                self._names.setdefault(id(inner), name or _OUTSIDE)
            # What it saves of these was there before.
            for own in list(module.parameters()) + list(module.buffers()):
                self._inputs.add(_local(own).untyped_storage().data_ptr())
            name = self._names[id(module)]
        return name

    def _current(self):
        return self._stack[-1] if self._stack else self._node

    def _boundary(self):
        """Something else is computed from here on; what was, up to here."""
        if self._timer is not None:
            self._timer.mark()
        if self._of_memory:
            cuda = self._torch.cuda
            stats = cuda.memory_stats(self._index)
            self._allocated = stats["allocated_bytes.all.current"]
            peak = stats["allocated_bytes.all.peak"]
            self._device.note_peaks(stats)
            cuda.reset_peak_memory_stats(self._index)
            for name, entry in self._entries.items():
                values = self._values.setdefault(name, {})
                value = self._phase + "_peak_bytes"
                values[value] = max(values.get(value, 0), peak - entry)

    def _arrive(self):
        """A module has been entered or left: the next span is that of the current one."""
        self._phase = "backward" if self._in_backward() else "forward"
        around = list(_path(self._current()))
        if self._of_memory:
            kept = self._entries
            self._entries = {name: kept.get(name, self._allocated) for name in around}
        self._spans.append((self._phase, around[-1]))

    def _before(self, module, inputs):
        if self._phase is None:
            return
        self._boundary()
        name = self._name(module)
        is_first = not self._spans
        if is_first:
            # All since the step before was outside of modules.
            self._spans.append(("forward", _OUTSIDE))
            self._entry = self._allocated
        for tensor in _tensors(inputs):
            if not self._stack:
                self._inputs.add(tensor.untyped_storage().data_ptr())
            # The graph up to here is not this module's.
            self._claim(tensor, self._current())
        self._stack.append(name)
        self._arrive()

    def _after(self, module, inputs, output):
        if self._phase is None or not self._stack:
            return
        self._boundary()
        name = self._stack.pop()
        for tensor in _tensors(output):
            if self._saved is not None and not self._in_backward():
                storage = tensor.untyped_storage()
                pointer = storage.data_ptr()
                self._outputs.append((_weak(storage), pointer, storage.nbytes(), name))
            self._claim(tensor, name)
        self._arrive()

    def _save(self, tensor):
        pointer = tensor.untyped_storage().data_ptr()
        if self._phase == "forward" and pointer and not self._in_backward():
            size = tensor.untyped_storage().nbytes()
            self._saved.setdefault(pointer, (size, self._current()))
        return tensor

    def _entered(self, name):
        if self._phase is None:
            return
        if self._phase == "forward":
            self._forward_ended()
        elif self._node == name:
            return
        self._boundary()
        self._node = name
        self._arrive()

    def _claim(self, tensor, name):
        """Nodes of the graph that belong to no module so far are this one's."""
        waiting = [tensor.grad_fn]
        while waiting:
            node = waiting.pop()
            # What gathers gradients of parameters has a variable, and follows the node before it.
            if node is None or hasattr(node, "variable") or "torchgauge" in node.metadata:
                continue
            node.metadata["torchgauge"] = name
            node.register_prehook(lambda _, name=name: self._entered(name))
            waiting.extend(inner for inner, _ in node.next_functions)

    def _forward_ended(self):
        """Backward of the first micro-batch begins: what is there now is kept."""
        if self._saved is None or self._outputs is None:
            return
        makers = {}
        for weak, pointer, size, name in self._outputs:
            if pointer and not weak.expired():
                makers.setdefault(pointer, (size, name))
        # Memory is whose it was first, and not whose it was saved by.
        self._saved.update(makers)
        self._outputs = None
        if self._of_memory and self._entry is not None:
            allocated = self._torch.cuda.memory_allocated(self._index)
            self._step["kept_bytes"] = max(allocated - self._entry, 0)

    def _ended(self):
        """The optimizer begins."""
        if self._phase is not None:
            self._boundary()
            self._phase = None


def _weak(storage):
    return importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef(storage)


def _path(name):
    """The modules around one, and itself: ``a``, ``a.b``, ``a.b.c``."""
    if not name.startswith("["):
        for place, letter in enumerate(name):
            if letter == ".":
                yield name[:place]
    yield name


def _tensors(value):
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _tensors(inner)


def _digest(optimizer):
    """A digest of all bits of the gradients, the same in whatever order a device adds; None where
    torch does not promise the same bits every time."""
    torch = sys.modules.get("torch")
    if optimizer is None or not torch.are_deterministic_algorithms_enabled():
        return None
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    digest = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = _local(parameter.grad)
            if gradient is not None:
                bits = gradient.view(kinds[gradient.element_size()])
                digest = digest * 31 + int(bits.sum(dtype=torch.int64))
    return float(digest % 2**52)


def _local(tensor):
    """The part of it that this process has."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _size(tensor):
    return tensor.numel() * tensor.element_size() if hasattr(tensor, "element_size") else 0


class Recorder:
    """Writes one process's lines: begun by whoever sees the first step, ended once."""

    def __init__(self, path, asked):
        self.pid = os.getpid()
        self.asked = asked
        #: Who sees steps: ``hook``, ``helper``, or nobody yet.
        self.source = None
        self.ended = False
        #: Called when the warm-up is over, and when no more steps are needed.
        self.on_measure = []
        self.on_end = []
        #: The index of the GPU that parameters are on, the optimizers, and the one whose steps
        #: count, where a hook saw them.
        self.device_index = None
        self.optimizers = ()
        self.main = lambda: None
        #: Skips of a loss scaler; None where they cannot be known.
        self.skips = None
        self.facts = {}
        self._path = path
        self._file = None
        self._rank = None
        self._phase = "process-start"
        self._metrics = []
        self._device = None
        self._timer = None
        #: Bytes in tensors after each measured step.
        self._allocated = []
        self._count = 0
        self._samples = 0
        self._beat = 0.0
        self._first = {}
        self._is_measured = False
        self._profile = None
        self._modules = None
        self._is_late = False
        self._has_history = False
        self._asked_steps = asked.measured
        self._samples_per_step = asked.samples_per_step

    def guarded(self, act, *words):
        """Carries something out. What fails in here is no failure of the program."""
        try:
            return act(*words)
        except Exception as error:
            self.ended = True
            self._call(self.on_end)
            _note("recording has ended: {}: {}".format(type(error).__name__, error))
            return None

    def begin(self, source):
        """Steps begin here, and ``source`` sees them. A program's own words win over the hook."""
        if self.ended or self._phase in ("measure", "profile", "teardown"):
            return
        if self.source in ("helper", source):
            return
        self.source = source
        self._count = 0
        self._samples = 0
        if source == "hook":
            # Where a step begins no hook shows: all that is not the process's start is warm-up.
            began = self._start_ended
        else:
            began = _now()
        self._began = began
        self._began_clock = time.perf_counter()
        _watch_end()
        if source == "helper" and self.asked.warmup == 0 and not self.asked.warmup_seconds:
            self._measure()

    #: When the process was ready to work: when torch was imported, or this file.
    _start_ended = _now()

    def imported(self):
        """torch has just been imported."""
        self._start_ended = _now()
        if self.asked.snapshot:
            # Once the program begins to use a GPU.
            _try(lambda: sys.modules["torch"].cuda._lazy_call(self._record_history))

    def _record_history(self):
        torch = sys.modules["torch"]
        try:
            torch.cuda.memory._record_memory_history(
                max_entries=self.asked.snapshot_entries, stacks="python"
            )
            self._has_history = True
            # While all that was allocated is there.
            torch._C._cuda_attach_out_of_memory_observer(lambda *_: self._write_snapshot())
        except Exception as error:
            _note("no snapshot: {}: {}".format(type(error).__name__, error))

    def _write_snapshot(self):
        """Allocations until now, in a file beside the events, of the first rank."""
        if not self._has_history or os.getpid() != self.pid or _rank():
            return
        if self._file is None and not is_first():
            return
        path = os.path.join(os.path.dirname(self._path), "snapshot.pickle")
        try:
            sys.modules["torch"].cuda.memory._dump_snapshot(path)
        except Exception as error:
            _note("no snapshot: {}: {}".format(type(error).__name__, error))

    def step(self, source, samples=None):
        """A step has ended."""
        if self.ended or source != self.source:
            return
        if self._is_measured:
            self._profiled_step()
            return
        timer = self._timer
        if timer is None:
            self._warmup_step()
            return
        # All that happens between two measured steps.
        if self._device.is_capturing():
            return
        now = timer.mark()
        self._count += 1
        self._allocated.append(_try(self._device.allocated))
        samples = self._samples_per_step if samples is None else samples
        if samples is None:
            self._samples = None
        elif self._samples is not None:
            self._samples += samples
        if self._count >= self._asked_steps:
            self._measured(now)
        elif now - self._beat >= 1.0:
            self._heartbeat(now)

    def _warmup_step(self):
        if self._device is None:
            self._device = self._find_device()
        if self._device.is_capturing():
            return
        self._count += 1
        if self._count == 1:
            self._first_step()
            if self.ended:
                return
        digest = _try(lambda: _digest(self.main())) if self._count <= _DIGESTED else None
        if digest is not None:
            self._first["warmup_step_{}_gradient_digest".format(self._count)] = digest
        asked = self.asked
        # Of the last two warm-up steps one is for memory and one for time: to ask for the one takes
        # some of the other.
        if asked.attribution and asked.warmup - 2 <= self._count <= asked.warmup:
            self._attribute(asked.warmup - self._count)
        now = time.perf_counter()
        waited = now - self._began_clock
        if self._count >= max(asked.warmup, 1) and waited >= asked.warmup_seconds:
            self._measure()
        elif now - self._beat >= 1.0:
            self._heartbeat(now)

    def _heartbeat(self, now):
        self._beat = now
        self._write({"event": "heartbeat", "phase": self._phase, "step": self._count})

    def metric(self, name, value, unit=None, better=None, source=None):
        """A value of the run."""
        line = {"event": "value", "name": name, "value": value}
        for key, word in (("unit", unit), ("better", better), ("source", source)):
            if word is not None:
                line[key] = word
        if self.ended:
            self._too_late(name)
        elif self._file is None:
            self._metrics.append(line)
            _watch_end()
        else:
            self._write(line)

    def _too_late(self, name):
        if not self._is_late:
            self._is_late = True
            _note(
                "the metric {} comes after the measured steps: left out, as others may be; the "
                "run has to last until the program's exit".format(name)
            )

    def finish(self):
        """No more steps."""
        if self.ended or self.source is None:
            return
        if self._timer is not None:
            self._measured(None)
        elif self._profile is not None:
            self._end_profile()
        elif not self._is_measured and (self._file is not None or self._open()):
            self._conclude(dict(self._first))
        if not self.ended:
            self._end({"event": "finished", "values": {}})

    def at_exit(self, is_first):
        """The process ends. ``is_first``: no other process of the program started it."""
        if os.getpid() != self.pid:
            return
        if is_first:
            _try(lambda: os.remove(_word_place(self._path)))
        if self.ended:
            return
        if self.source is not None:
            self.finish()
        elif (is_first or self._metrics) and self._open():
            self._without_steps()

    def fail(self, kind, error, is_first):
        """The program ends with an exception."""
        if self.ended or os.getpid() != self.pid:
            return
        is_memory = any(base.__name__ == "OutOfMemoryError" for base in kind.__mro__)
        message = _last_words(kind, error)
        if kind.__name__ == "CalledProcessError":
            # A launcher knows that its command failed; the command knew why.
            word = _try(lambda: _word_left(self._path, error.cmd))
            is_memory, message = word or (is_memory, message)
        # Of a process that has seen no step only the first one, or a launcher's rank, has a say.
        if self._file is None and not (is_first or "RANK" in os.environ):
            _try(lambda: _leave_word(self._path, is_memory, message))
            return
        if self._file is None and not self._open(with_start=False):
            return
        line = {
            "event": "failed",
            "reason": "out-of-memory" if is_memory else "exception",
            "phase": self._phase,
            "message": message,
        }
        if is_memory:
            device = self._device or self._find_device()
            shortage = _try(lambda: device.shortage(str(error)))
            if shortage is not None:
                line["shortage"] = shortage
        self._end(line)

    def _find_device(self):
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        # To ask whether there is a GPU would begin to use it.
        if cuda is None or not _try(cuda.is_initialized):
            return _Cpu()
        index = self.device_index
        if index is None:
            index = cuda.current_device()
            if not cuda.memory_allocated(index):
                return _Cpu()
        return _Gpu(torch, index)

    def _first_step(self):
        if self._file is None and not self._open():
            return
        self._device.wait()
        self._first["time_to_first_step_seconds"] = _now() - process_began()

    def _open(self, with_start=True):
        """Takes the rank and writes what stands first; whether the rank was free."""
        self._rank = _rank()
        self._file = _claim(self._path, self._rank or 0)
        if self._file is None:
            self.ended = True
            self._call(self.on_end)
            return False
        if not with_start:
            return True
        if self._device is None:
            self._device = self._find_device()
        torch = sys.modules.get("torch")
        version = str(getattr(torch, "__version__", ""))
        self._write(
            {
                "event": "started",
                "version": VERSION,
                "run": self.asked.run,
                "libtorch_version": version.split("+")[0],
                "threads": torch.get_num_threads() if torch else os.cpu_count() or 1,
                "cuda": self._device.cuda,
                "nccl": {
                    name: value
                    for name, value in os.environ.items()
                    if name.startswith("NCCL_") and self._device.cuda
                },
            }
        )
        began = process_began()
        ready = max(self._start_ended, began)
        self._write({"event": "phase-began", "phase": "process-start", "at_seconds": began})
        self._write(
            {"event": "phase-ended", "phase": "process-start", "seconds": ready - began}
        )
        if self.source is not None:
            self._phase = "warmup"
            self._write({"event": "phase-began", "phase": "warmup", "at_seconds": self._began})
        for line in self._metrics:
            self._write(line)
        return True

    def _measure(self):
        """The measured steps begin, on an idle device."""
        if self._device is None:
            self._device = self._find_device()
        if self._file is None and not self._open():
            return
        self._call(self.on_measure)
        self._device.wait()
        self._device.begin()
        self._compiled = _compiled()
        self._phase = "measure"
        self._count = 0
        self._samples = 0
        if self.skips is not None:
            self.skips = 0
        self._timer = self._device.timer()
        at = _now()
        self._write({"event": "phase-ended", "phase": "warmup", "seconds": at - self._began})
        self._write({"event": "phase-began", "phase": "measure", "at_seconds": at})
        self._beat = time.perf_counter()
        self._cpu = time.process_time()
        self._clock = time.perf_counter()
        self._timer.mark()

    def _measured(self, now):
        """The measured steps are over. ``now`` is the end of the last one, None where time has
        passed since."""
        self._device.wait()
        if now is not None and isinstance(self._device, _Gpu):
            now = time.perf_counter()
        cpu = time.process_time()
        ended = time.perf_counter()
        self._timer.complete()
        seconds = self._timer.seconds
        measured = sum(seconds) if now is None else now - self._clock
        values = dict(self._first)
        if now is not None:
            values["cpu_seconds"] = cpu - self._cpu
        if seconds:
            values["measured_seconds"] = measured
            if self._samples:
                values["samples_count"] = float(self._samples)
                values["throughput_samples_per_second"] = self._samples / measured
        if self.skips is not None:
            values["skipped_steps_count"] = self.skips
        state = _try(lambda: _state_bytes(self.optimizers))
        if state:
            values["optimizer_bytes"] = state
        compiled = _compiled()
        if compiled:
            values["compile_graphs_count"] = compiled["graphs"] - self._compiled.get("graphs", 0)
            values["run_compile_graphs_count"] = compiled["graphs"]
            values["run_compile_seconds"] = compiled["seconds"]
        self._write(
            {"event": "phase-ended", "phase": "measure", "seconds": ended - self._clock}
        )
        for index, (took, allocated) in enumerate(zip(seconds, self._allocated)):
            step = {"step_seconds": took}
            if allocated is not None:
                step["step_allocated_bytes"] = allocated
            self._write({"event": "step", "index": index, "values": step})
        self._timer = None
        self._is_measured = True
        self._phase = "teardown"
        self._conclude(values)
        if self.asked.snapshot is True:
            self._write_snapshot()
        self._call(self.on_end)
        # A record lists what the first process runs.
        if now is not None and self.asked.profiled and not self._rank:
            self._begin_profile()
        if self._profile is None and not self.asked.until_exit:
            self._end({"event": "finished", "values": {}})

    def _attribute(self, left):
        """``left``: warm-up steps that are asked for and to come."""
        try:
            if left == 2:
                if self.asked.warmup < 3 or self._rank:
                    return
                self._device.wait()
                self._modules = _Modules(sys.modules["torch"], self._device, self.optimizers)
                self._modules.begin(True)
            elif self._modules is not None:
                self._device.wait()
                self._modules.end()
                if left:
                    self._modules.begin(False)
                    return
                modules, self._modules = self._modules, None
                for line in modules.lines():
                    self._write(line)
        except Exception as error:
            if self._modules is not None:
                self._modules.undo()
            self._modules = None
            _note("no modules: {}: {}".format(type(error).__name__, error))

    def _begin_profile(self):
        try:
            self._profile = _Profile(isinstance(self._device, _Gpu))
        except Exception as error:
            _note("no kernels: {}: {}".format(type(error).__name__, error))
            return
        self._phase = "profile"
        self._count = 0
        self._write({"event": "phase-began", "phase": "profile", "at_seconds": _now()})
        self._clock = time.perf_counter()

    def _profiled_step(self):
        if self._profile is None or self._device.is_capturing():
            return
        self._count += 1
        now = time.perf_counter()
        if self._count >= self.asked.profiled:
            self._end_profile()
            if not self.asked.until_exit:
                self._end({"event": "finished", "values": {}})
        elif now - self._beat >= 1.0:
            self._heartbeat(now)

    def _end_profile(self):
        profile, self._profile = self._profile, None
        lines = []
        try:
            self._device.wait()
            lines = list(profile.kernels(self._count))
        except Exception as error:
            _note("no kernels: {}: {}".format(type(error).__name__, error))
        for line in lines:
            self._write(line)
        seconds = time.perf_counter() - self._clock
        self._write({"event": "phase-ended", "phase": "profile", "seconds": seconds})
        self._phase = "teardown"

    def _without_steps(self):
        """The whole life of the program is what was measured."""
        began, now = process_began(), _now()
        self._phase = "measure"
        self._write({"event": "phase-began", "phase": "measure", "at_seconds": began})
        self._write({"event": "phase-ended", "phase": "measure", "seconds": now - began})
        self._conclude({"measured_seconds": now - began, "cpu_seconds": time.process_time()})
        if self.asked.snapshot is True:
            self._write_snapshot()
        self._end({"event": "finished", "values": {}})

    def _conclude(self, values):
        values["run_cpu_seconds"] = time.process_time()
        resident = _try(_peak_resident)
        if resident:
            values["run_host_peak_resident_bytes"] = resident
        values.update(_try(self._device.values) or {})
        source = self.source or "hook"
        for name in sorted(values):
            if math.isfinite(values[name]):
                self.metric(name, values[name], _unit(name), source=source)
        facts = {"step_source": self.source or "none", "torchgauge": __version__}
        facts.update(_software())
        facts.update(self._device.facts)
        facts.update(self.facts)
        if "run_compile_graphs_count" in values:
            facts["compile"] = "torch.compile"
        self._write({"event": "facts", "facts": {key: facts[key][:200] for key in sorted(facts)}})

    def _end(self, line):
        self._write(line)
        self.ended = True
        self._call(self.on_end)

    def _write(self, line):
        if self._rank is not None:
            line["rank"] = self._rank
        text = json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"
        data = text.encode("utf-8")
        # One write a line: other ranks append to the same file.
        if os.write(self._file, data) != len(data):
            raise OSError("the events file has no room")

    @staticmethod
    def _call(waiting):
        while waiting:
            waiting.pop()()


_UNREAD = object()
_recorder = _UNREAD
_is_watching = False


def current():
    """This process's recorder; None where nobody asks for events."""
    global _recorder
    if _recorder is _UNREAD:
        _recorder = None
        path = os.environ.get("TORCHGAUGE_EVENTS")
        if path:
            try:
                _recorder = Recorder(path, _Asked(os.environ.get("TORCHGAUGE_RUN")))
            except (OSError, ValueError, TypeError, AttributeError) as error:
                _note("TORCHGAUGE_RUN cannot be read, nothing is recorded: {}".format(error))
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork)
    return _recorder


def _after_fork():
    """A child writes nothing of what its parent began; it may begin with steps of its own."""
    global _recorder, _is_watching, _began
    _began = None
    if isinstance(_recorder, Recorder):
        has_begun = _recorder.source is not None or _recorder.ended
        _recorder.ended = True
        _recorder = None if has_begun else Recorder(_recorder._path, _recorder.asked)
        _is_watching = False


def is_first():
    """Whether this process was started by no other one that the hook saw."""
    return os.environ.get("TORCHGAUGE_PROCESS", str(os.getpid())) == str(os.getpid())


def _watch_end():
    """Ends the record with the process, whichever way it goes."""
    global _is_watching
    if _is_watching:
        return
    _is_watching = True
    atexit.register(_at_exit)
    if not getattr(sys.excepthook, "_torchgauge", False):
        sys.excepthook = watched(sys.excepthook)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and _try(process.parent_process) is not None:
        # Such a child ends without what is registered for its exit.
        from multiprocessing import util

        util.Finalize(None, _at_exit, exitpriority=0)


def watched(hook):
    """``sys.excepthook`` that reports what ends the program, then calls ``hook``."""

    def excepthook(kind, error, traceback):
        recorder = current()
        if recorder is not None:
            recorder.guarded(recorder.fail, kind, error, is_first())
        hook(kind, error, traceback)

    excepthook._torchgauge = True
    return excepthook


def _at_exit():
    recorder = current()
    if recorder is not None:
        recorder.guarded(recorder.at_exit, is_first())


def process_began():
    """When this process began, in seconds since 1970."""
    global _began
    if _began is None:
        _began = _now() - (_try(_age) or 0.0)
    return _began


_began = None


def _age():
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks, 0.0)


def _unit(name):
    ends = {"_per_second": "samples-per-second", "_seconds": "seconds", "_bytes": "bytes"}
    return next((ends[end] for end in ends if name.endswith(end)), "count")


def _kernel_name(text):
    text = "".join(letter if letter.isprintable() else " " for letter in str(text))
    text = " ".join(text.split()) or "?"
    return text if len(text) <= _LONGEST_KERNEL else text[: _LONGEST_KERNEL - 1] + "…"


def _peak_resident():
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return None


def _rank():
    """Which process of the run this is; None where nothing says so, as in a launcher."""
    for name in ("RANK", "LOCAL_RANK"):
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None:
        found = _try(lambda: distributed.get_rank() if distributed.is_initialized() else None)
        if found is not None:
            return int(found)
    return None


def _claim(path, rank):
    """The events file, to append to; None where another process wrote or writes as this rank."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError("{} is no regular file".format(path))
    try:
        # A lock of the process's: it goes with it, and no child has it.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        is_free = not _has_lines_of(file, rank)
    except BlockingIOError:
        is_free = False
    if is_free:
        return file
    os.close(file)
    return None


def _has_lines_of(file, rank):
    rest, place = b"", 0
    while place < _MOST_READ:
        data = os.pread(file, 1 << 16, place)
        if not data:
            return False
        place += len(data)
        lines = (rest + data).split(b"\n")
        rest = lines.pop()[-_LONGEST_LINE:]
        for line in lines:
            try:
                if json.loads(line.decode("utf-8")).get("rank", 0) == rank:
                    return True
            except (ValueError, AttributeError):
                continue
    return False


def _software():
    found = {"python": sys.version.split()[0]}
    torch = sys.modules.get("torch")
    if torch is None:
        return found
    found["torch"] = str(torch.__version__)
    cuda = getattr(torch.version, "cuda", None)
    if cuda:
        found["cuda"] = str(cuda)
    cudnn = _cudnn(torch)
    if cudnn:
        found["cudnn"] = cudnn
    triton = getattr(sys.modules.get("triton"), "__version__", None)
    if triton:
        found["triton"] = str(triton)
    return found


def _cudnn(torch):
    version = _try(torch.backends.cudnn.version)
    if not version:
        return None
    # 9.19.0 is 91900, 8.9.2 is 8902.
    major, rest = divmod(version, 10_000 if version >= 90_000 else 1_000)
    return "{}.{}.{}".format(major, rest // 100, rest % 100)


def _thousands(version):
    return version // 1000, version % 1000 // 10


def _compiled():
    """Graphs that torch.compile made, and the seconds it took; empty where it was not used."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    graphs = _try(lambda: int(counters["stats"]["unique_graphs"])) or 0
    if not graphs:
        return {}
    times = getattr(utils, "compilation_time_metrics", {})
    names = ("_compile.compile_inner", "_compile", "entire_frame_compile")
    known = next((name for name in names if name in times), None)
    return {"graphs": graphs, "seconds": float(sum(times[known])) if known else 0.0}


def _state_bytes(optimizers):
    seen = {}
    for optimizer in list(optimizers):
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                value = value.to_local() if hasattr(value, "to_local") else value
                if hasattr(value, "element_size"):
                    seen[id(value)] = value.numel() * value.element_size()
    return sum(seen.values())


def _last_words(kind, error):
    """The last line of the traceback; of a message of several lines the first one as well."""
    words = "{}: {}".format(kind.__name__, error) if str(error) else kind.__name__
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    text = lines[0] if len(lines) == 1 else "{} … {}".format(lines[0], lines[-1])
    return text[:_LONGEST_MESSAGE]


def _word_place(path):
    """Where a process that may not report leaves why it failed, for the one that started it."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(folder, "torchgauge" + path.replace(os.sep, "-")[-200:])


def _leave_word(path, is_memory, message):
    place = _word_place(path)
    own = "{}.{}".format(place, os.getpid())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(own, flags, 0o600), "w") as file:
        json.dump([sys.argv[1:], is_memory, message], file)
    os.replace(own, place)


def _word_left(path, command):
    """Of the process that this command started."""
    with open(_word_place(path)) as file:
        arguments, is_memory, message = json.load(file)
    words = [str(word) for word in command] if isinstance(command, (list, tuple)) else None
    # What failed before, and was expected to, is another.
    if words is not None and arguments and words[-len(arguments) :] != arguments:
        return None
    return is_memory, message


def _try(act):
    try:
        return act()
    except Exception:
        return None


def _note(text):
    sys.stderr.write("torchgauge: {}\n".format(text))
