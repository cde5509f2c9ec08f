"""The twin of a data loader: reads the folder that `scenario --write-folder RUN_FILE FOLDER` wrote by
torch's DataLoader and torchvision's transforms, trains ResNet-50 on it, and prints the figures that a
run of `data: folder` has, as one line of JSON.

    python3 loader.py /tmp/folder --workers 8 --pin-memory

On a GPU a step that waits is timed as the built-in workload times it, by CUDA events around what
comes before forward; on the CPU by the clock.
"""

import argparse
import json
import os
import time

import torch
from torchvision import datasets, transforms

import twin

ALONE_SECONDS = 2.0
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_loader(options):
    """Raises SystemExit where the folder has no whole batch, for which the training would wait."""
    augment = transforms.Compose(
        [
            transforms.RandomResizedCrop(options.image_size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, DEVIATION),
        ]
    )
    loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(options.folder, augment),
        batch_size=options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=options.workers,
        prefetch_factor=options.prefetch_factor,
        pin_memory=options.pin_memory,
        persistent_workers=True,
    )
    if not len(loader):
        raise SystemExit(f"{options.folder} has no whole batch of {options.batch} images")
    return loader


def endless(loader):
    while True:
        yield from loader


def worker_cpu_seconds(batches_of):
    """CPU time of the loader's processes: fields 14 and 15 of their `stat`."""
    total = 0.0
    for worker in batches_of._iterator._workers:
        with open(f"/proc/{worker.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def rate_alone(loader, options):
    """Samples a second where nobody trains, once those that were made ahead are gone."""
    batches, taken = endless(loader), 0
    for _ in range(options.workers * options.prefetch_factor):
        next(batches)
    began = time.perf_counter()
    while time.perf_counter() - began < ALONE_SECONDS:
        next(batches)
        taken += options.batch
    return taken / (time.perf_counter() - began)


class Clock:
    """Marks: of the GPU where there is one."""

    def __init__(self, is_cuda):
        self.is_cuda = is_cuda

    def mark(self):
        if not self.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, earlier, later):
        return earlier.elapsed_time(later) / 1e3 if self.is_cuda else later - earlier

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()


def train(loader, options, device):
    is_cuda = device == "cuda"
    variant = {
        "precision": options.precision,
        "memory_format": "channels-last",
        "checkpointing": "none",
        "optimizer": "sgd-momentum",
        "accumulation": 1,
        "batch": options.batch,
    }
    training = twin.Training("resnet50", variant, device)
    clock, batches, marks, copies = Clock(is_cuda), endless(loader), [], []

    def step():
        begun = clock.mark()
        images, labels = next(batches)
        set_out, size = clock.mark(), images.nbytes
        images = images.to(device, non_blocking=options.pin_memory)
        there = clock.mark()
        images = images.contiguous(memory_format=torch.channels_last)
        training.pool = [(images, labels.to(device, non_blocking=options.pin_memory))]
        ready = clock.mark()
        training.step()
        marks.append((begun, ready, clock.mark()))
        copies.append((size, set_out, there))

    for _ in range(options.warmup):
        step()
    clock.wait()
    marks.clear()
    copies.clear()
    before, began = worker_cpu_seconds(loader), time.perf_counter()
    for _ in range(options.steps):
        step()
    clock.wait()
    seconds, cpu = time.perf_counter() - began, worker_cpu_seconds(loader) - before
    waited = sum(clock.between(begun, ready) for begun, ready, _ in marks)
    whole = sum(clock.between(begun, ended) for begun, _, ended in marks)
    moved = sum(clock.between(set_out, there) for _, set_out, there in copies)
    return {
        "throughput_samples_per_second": options.batch * options.steps / seconds,
        "data_wait_ratio": waited / whole,
        "loader_cpu_seconds": cpu,
        "host_to_device_bytes_per_second": (
            sum(size for size, _, _ in copies) / moved if is_cuda else None
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--pin-memory", action="store_true")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--precision", choices=twin.PRECISIONS, default="amp-bf16")
    # More than the batches that 16 workers make in advance, which would hide how fast they are.
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options.pin_memory = options.pin_memory and device == "cuda"
    loader = make_loader(options)
    figures = {"loader_samples_per_second": rate_alone(loader, options)}
    # An epoch that was begun would go on beside the training.
    loader = make_loader(options)
    figures |= train(loader, options, device)
    print(json.dumps({"workers": options.workers, "pin_memory": options.pin_memory, **figures}))


if __name__ == "__main__":
    main()
