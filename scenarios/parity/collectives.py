"""What Python's collectives reach, as nccl-tests counts it: the yardstick for `task: collectives`.

    torchrun --nproc-per-node N collectives.py [--gloo] [BYTES…]

Prints one JSON object a collective and size: seconds of an iteration, and bytes a second that the
algorithm and the bus move. Values are bfloat16; sizes are of the larger of input and output.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

WARM_UP, BATCHES, ITERATIONS = 5, 5, 20


def collectives(size, ranks, device):
    """A name, what moves the bytes, and the factor from algorithm to bus."""
    whole = torch.ones(size // 2 // ranks * ranks, dtype=torch.bfloat16, device=device)
    part = torch.ones(whole.numel() // ranks, dtype=torch.bfloat16, device=device)
    share = (ranks - 1) / ranks
    yield "all-reduce", lambda: dist.all_reduce(whole), 2 * share
    yield "all-gather", lambda: dist.all_gather_into_tensor(whole, part), share
    if dist.get_backend() == "nccl":
        yield "reduce-scatter", lambda: dist.reduce_scatter_tensor(part, whole), share
    yield "broadcast", lambda: dist.broadcast(whole, 0), 1.0


def main():
    options = sys.argv[1:]
    on_gpu = "--gloo" not in options
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    dist.init_process_group("nccl" if on_gpu else "gloo")
    ranks = dist.get_world_size()
    sizes = [int(one) for one in options if one.isdigit()] or [2**20, 2**24, 2**28, 2**30]
    for size in sizes:
        for name, move, factor in collectives(size, ranks, device):
            for _ in range(WARM_UP):
                move()
            seconds = []
            for _ in range(BATCHES):
                wait()
                dist.barrier()
                wait()
                begun = time.perf_counter()
                for _ in range(ITERATIONS):
                    move()
                wait()
                seconds.append((time.perf_counter() - begun) / ITERATIONS)
            seconds = sorted(seconds)[BATCHES // 2]
            if dist.get_rank() == 0:
                figures = {"collective": name, "bytes": size, "ranks": ranks, "seconds": seconds}
                figures |= {"algorithm": size / seconds, "bus": size / seconds * factor}
                print(json.dumps(figures), flush=True)
    dist.destroy_process_group()


main()
