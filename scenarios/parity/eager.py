"""One run of a scenario in Python eager PyTorch: the yardstick for the Rust workload.

    python3 eager.py RUN_FILE [--compile MODE] [--unprofiled]

RUN_FILE is what the `scenario` binary reads; on a CPU it gives no metrics of memory, and
`allocations.py` records them. --compile has `torch.compile` compile the model, with
that mode (`default`, `reduce-overhead`) or with the backend `cudagraphs`. --unprofiled leaves out
how busy the GPU is, which PyTorch's profiler tells: another one may be at work.

Several ranks are started by torchrun: `torchrun --nproc-per-node N eager.py RUN_FILE`, and the first
one prints the throughput of all and its own memory.

Prints one JSON object. The models are those of `scenarios/python/twin.py`.
"""

import json
import os
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import twin


def kernels(step, profiled=3):
    """The microseconds of a step in which a kernel runs, and how many kernels it runs."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for number in range(profiled):
            step()
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    busy, reached = 0.0, float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return busy / profiled, len(spans) / profiled


def main():
    run = json.load(open(sys.argv[1]))
    variant = run["variant"]
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device(twin.join_ranks() if ranks > 1 else run["device"])
    on_card = device.type == "cuda"
    options = sys.argv[2:]
    compiled = options[options.index("--compile") + 1] if "--compile" in options else "none"
    training = twin.Training(run["model"], variant, device, run["seed"], compiled)
    losses = []

    def step():
        losses.append(training.step())

    for number in range(run["steps"]["warmup"]):
        step()
    if on_card:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    for number in range(run["steps"]["measured"]):
        step()
    if on_card:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    peak_allocated = torch.cuda.max_memory_allocated() if on_card else None
    peak_reserved = torch.cuda.max_memory_reserved() if on_card else None

    samples = ranks * variant["batch"] * variant["accumulation"] * run["steps"]["measured"]
    step_seconds = seconds / run["steps"]["measured"]
    busy, count = kernels(step) if on_card and "--unprofiled" not in options else (None, None)
    if os.environ.get("RANK", "0") != "0":
        return
    print(
        json.dumps(
            {
                "throughput": samples / seconds,
                "peak_allocated": peak_allocated,
                "peak_reserved": peak_reserved,
                "gpu_busy": None if busy is None else min(1.0, busy / 1e6 / step_seconds),
                "kernels_per_step": count,
                "losses": [float(loss) for loss in losses],
                "parameters": sum(p.numel() for p in training.model.parameters()),
            }
        )
    )


main()
