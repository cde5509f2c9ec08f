"""A profiler that sees each `torch.work`. `FAKE_PROFILER` is what goes wrong with it: `missing`,
`refuses`, `breaks`; or the number of kernels that each work has."""

import os

import torch

_how = os.environ.get("FAKE_PROFILER", "2")
if _how == "missing":
    raise ImportError("no profiler was built in")


class ProfilerActivity:
    CPU, CUDA = "CPU", "CUDA"


class _Range:
    def __init__(self, microseconds):
        self._microseconds = microseconds

    def elapsed_us(self):
        return self._microseconds


class _Event:
    def __init__(self, name, device, microseconds, own=0, is_range=False):
        self.name, self.device_type = name, "DeviceType." + device
        self.time_range, self.self_cpu_time_total = _Range(microseconds), own
        self.is_user_annotation = is_range


class profile:
    def __init__(self, activities):
        self._is_gpu = activities == [ProfilerActivity.CUDA]

    def start(self):
        if _how == "refuses":
            raise RuntimeError("another profiler is running")
        torch.log.append("profile")
        self._began = len(torch.log)

    def stop(self):
        if _how == "breaks":
            raise RuntimeError("the trace is lost")
        torch.log.append("profile-ended")
        self._count = torch.log[self._began :].count("work")

    def events(self):
        if not self._is_gpu:
            return [
                _Event("aten::linear", "CPU", 9000, own=1000),
                _Event("aten::mm", "CPU", 8000, own=8000),
                _Event("a range", "CPU", 9500, own=500, is_range=True),
            ] * self._count
        kernels = [_Event("a range", "CUDA", 99000, is_range=True)]
        kernels.append(_Event("cudaLaunchKernel", "CPU", 5))
        for i in range(int(_how)):
            name = "void k{}<float>(\x1b[2J\n{})".format(i, "x" * 300 * (i == 1))
            kernels.append(_Event(name, "CUDA", 1000 - i))
        return kernels * self._count
