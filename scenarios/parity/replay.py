"""Replays what a program asked of PyTorch's CUDA caching allocator, on other addresses.

    python3 scenarios/parity/replay.py HISTORY [--replays N]
        [--build FILE --build-batch BYTES --batch BYTES]

HISTORY is what `record_allocator.cpp` wrote of a run on a GPU, plain or compressed by gzip. The
allocator takes the smallest free block that is large enough, and of several alike the one with
the lowest address; which that is, the driver decides by where it maps memory. So the same
requests in the same order can end with different amounts reserved. This replays them N times
(1000 by default), each time with other addresses, and prints how often each peak of reserved
memory came out, as CSV. Needs no GPU.

With --build, what another program asked for while it built its model takes the place of what
HISTORY has before the first batch: FILE is a record of `allocations.py` (`NAME-rust.log`), the
first batch in it a block of --build-batch bytes (before the header that Rust's counting allocator
adds), and that of HISTORY one of --batch bytes. Between the two, cached memory is given back, as
the scenarios do. Blocks that the record leaves out as small are taken as HISTORY has them, so
peaks may be off by a few segments of 2 MiB. For the record in the gallery:

    --build reports/gallery/parity/allocator/rust-build-after.log
    --build-batch 1204224 --batch 38535168

(2 and 64 images of 3 × 224 × 224 in single precision.)

A call to give cached memory back is in a history only where it gave back something; in a replay it
takes place then alone. All addresses are equally likely here, which the driver's are not: which
peaks come out is the finding, and how often only says that none is a freak.

The rules are those of PyTorch 2.11's native allocator without settings
(`c10/cuda/CUDACachingAllocator.cpp`).
"""

import argparse
import bisect
import collections
import gzip
import pathlib
import random
import sys
import zlib

from allocations import RUST_HEADER_BYTES

MIB = 1 << 20
# Sizes are multiples of this.
ROUND = 512
# Up to here blocks come from small segments of SMALL_SEGMENT bytes.
SMALL = MIB
SMALL_SEGMENT = 2 * MIB
# Below this, larger blocks come from segments of LARGE_SEGMENT bytes; from here on each has a
# segment of its own, a multiple of SMALL_SEGMENT.
OWN_SEGMENT = 10 * MIB
LARGE_SEGMENT = 20 * MIB
# What `record_allocations.c` leaves out.
RECORDED = 192 << 10


class Block:
    """A piece of a segment, between its neighbours."""

    __slots__ = ("address", "size", "small", "free", "before", "after")

    def __init__(self, address, size, small, before=None, after=None):
        self.address, self.size, self.small = address, size, small
        self.before, self.after = before, after
        self.free = True


class Allocator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.taken = set()
        # Free blocks by size and address, of large and of small segments.
        self.pools = {False: [], True: []}
        self.reserved = self.peak = 0

    def map(self):
        """An address for a segment, as far from the others as a GPU's memory is large."""
        while (address := self.random.randrange(1 << 20) << 40) in self.taken:
            pass
        self.taken.add(address)
        return address

    def keep(self, block):
        bisect.insort(self.pools[block.small], (block.size, block.address, block))

    def drop(self, block):
        pool = self.pools[block.small]
        pool.pop(bisect.bisect_left(pool, (block.size, block.address)))

    def take(self, size):
        size = max(ROUND, -(-size // ROUND) * ROUND)
        small = size <= SMALL
        pool = self.pools[small]
        place = bisect.bisect_left(pool, (size,))
        if place < len(pool):
            block = pool.pop(place)[2]
        else:
            if small:
                segment = SMALL_SEGMENT
            elif size < OWN_SEGMENT:
                segment = LARGE_SEGMENT
            else:
                segment = -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
            block = Block(self.map(), segment, small)
            self.reserved += segment
            self.peak = max(self.peak, self.reserved)
        rest = block.size - size
        if rest >= ROUND if small else rest > SMALL:
            other = Block(block.address + size, rest, small, block, block.after)
            if block.after:
                block.after.before = other
            block.after, block.size = other, size
            self.keep(other)
        block.free = False
        return block

    def give(self, block):
        before, after = block.before, block.after
        if before and before.free:
            self.drop(before)
            before.size += block.size
            before.after = after
            if after:
                after.before = before
            block = before
        if after and after.free:
            self.drop(after)
            block.size += after.size
            block.after = after.after
            if after.after:
                after.after.before = block
        block.free = True
        self.keep(block)

    def empty_cache(self):
        for small, pool in self.pools.items():
            whole = [entry for entry in pool if not entry[2].before and not entry[2].after]
            self.reserved -= sum(size for size, _, _ in whole)
            self.pools[small] = [entry for entry in pool if entry not in whole]


def requests_of(lines, words):
    """Requests out of a record: ("take", number, bytes), ("give", number), ("empty",)."""
    live, requests, number, emptying = {}, [], 0, False
    for line in lines:
        try:
            word, address, size, *_ = line.split()
        except ValueError:
            sys.exit(f"not a record's line: {line[:80]!r}")
        word = words.get(word, word)
        if word == "take":
            live[address] = number
            requests.append(("take", number, int(size)))
            number += 1
        elif word == "give" and address in live:
            requests.append(("give", live.pop(address)))
        # Segments that go one after the other go at once.
        elif word == "segment_free" and not emptying:
            requests.append(("empty",))
        emptying = word == "segment_free"
    return requests


def first_take(requests, size):
    """Where the first block of this size is asked for."""
    for place, request in enumerate(requests):
        if request[0] == "take" and request[2] == size:
            return place
    sys.exit(f"no block of {size} bytes in the record: name the first batch's size")


def with_build(history, batch, build, build_batch):
    """The history with another program's model in front."""
    begin = first_take(history, batch)
    small = [it for it in history[:begin] if it[0] == "take" and it[2] < RECORDED]
    build = build[: first_take(build, build_batch + RUST_HEADER_BYTES)]
    # Numbers of its own, so that the two do not mix.
    build = [
        (word, -1 - number, *(size - RUST_HEADER_BYTES for size in sizes))
        for word, number, *sizes in build
    ]
    return build + [("empty",)] + small + history[begin:]


def peak(requests, seed):
    allocator, live = Allocator(seed), {}
    for word, *rest in requests:
        if word == "take":
            live[rest[0]] = allocator.take(rest[1])
        elif word == "give":
            # What the part in front has is not the history's to give back.
            if rest[0] in live:
                allocator.give(live.pop(rest[0]))
        else:
            allocator.empty_cache()
    return allocator.peak


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", errors="replace") as file:
            return file.read().splitlines()
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f"cannot read {path}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("history", type=pathlib.Path)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--build-batch", type=int)
    parser.add_argument("--batch", type=int)
    given = parser.parse_args()
    requests = requests_of(read(given.history), {"alloc": "take", "free": "give"})
    if not requests:
        sys.exit(f"{given.history} asks for nothing: is it a record of record_allocator.cpp?")
    if given.build:
        if given.batch is None or given.build_batch is None:
            parser.error("--build needs --batch and --build-batch")
        build = requests_of(read(given.build), {"+": "take", "-": "give"})
        requests = with_build(requests, given.batch, build, given.build_batch)
    peaks = collections.Counter(peak(requests, seed) for seed in range(given.replays))
    print("peak_reserved_mib,replays")
    for size, times in sorted(peaks.items()):
        print(f"{size // MIB},{times}")


if __name__ == "__main__":
    main()
