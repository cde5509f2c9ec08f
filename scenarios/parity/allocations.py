"""Holds the order in which Rust and Python take and give back memory against each other.

    python3 scenarios/parity/allocations.py --scenario FILE --libtorch DIR --out DIR
                                            [--only WORD]… [--batch N]

Needs gcc and a Python with torch, torchvision, timm and transformers, and no GPU: FILE is the
`scenario` binary built for CPUs, DIR the `lib` folder of the libtorch it runs with. Both
sides take two steps of each row of the parity table (fp32 and amp-bf16; N samples, 2 unless
said) with `record_allocations.so` before them. For each row it prints how many of the events in
steps are the same ones in the same order, and lists those that are not with the functions behind
them. Where the orders are equal, a difference between the memory metrics on a GPU does not come
from how long either side holds its tensors.

Left out of the comparison, and counted: what is given back in a row with nothing taken in
between, in another order. An autocast scope that ends drops its copies of the weights in the
order of a hash table by address, which no two processes share; a caching allocator is in the
same state after either order.
"""

import argparse
import difflib
import json
import os
import pathlib
import subprocess
import sys

import draw

HERE = pathlib.Path(__file__).resolve().parent
# What the scenario's counting allocator puts before each block.
RUST_HEADER_BYTES = 64
# As many events the same in a row belong to the steps on both sides.
STEP_EVENTS = 40
# Of run files: `protocol::VERSION`.
PROTOCOL = 4


def build_recorder(folder):
    library = folder / "record_allocations.so"
    source = HERE / "record_allocations.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def recorded(command, log, library, environment):
    """The events of a command: sign and bytes, and the functions of each."""
    log.unlink(missing_ok=True)
    environment = environment | {"LD_PRELOAD": str(library), "ALLOCATIONS_LOG": str(log)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    if not log.exists():
        sys.exit(f"{command[0]} took no large block: is libtorch's allocator another here?")
    events = []
    for line in log.read_text(errors="replace").splitlines():
        sign, _, size, *functions = line.split(" ")
        events.append((sign, int(size), functions))
    # What comes after the last block taken is the end of the program.
    while events and events[-1][0] == "-":
        events.pop()
    return events


def released_in_order(events):
    """What is given back with nothing taken in between, the largest first."""
    ordered, run = [], []
    for event in events:
        if event[0] == "-":
            run.append(event)
            continue
        ordered += sorted(run, key=lambda event: -event[1])
        run = []
        ordered.append(event)
    return ordered + sorted(run, key=lambda event: -event[1])


def compare(rust, python):
    """How many events of the steps there are, and those that only one side has. Steps begin with
    the first STEP_EVENTS events that are the same: what is before belongs to the models."""
    keys = [[(sign, size) for sign, size, _ in events] for events in (rust, python)]
    matcher = difflib.SequenceMatcher(None, *keys, autojunk=False)
    alike = [block for block in matcher.get_matching_blocks() if block.size >= STEP_EVENTS]
    if not alike:
        sys.exit("no events in common: one of the two does not do the same work")
    first = alike[0].a
    differing = [
        (rust[a:a_end], python[b:b_end])
        for tag, a, a_end, b, b_end in matcher.get_opcodes()
        if tag != "equal" and first <= a
    ]
    return len(rust) - first, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", type=pathlib.Path, required=True)
    parser.add_argument("--libtorch", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--batch", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    library = build_recorder(given.out)
    results = given.out / "results.ndjson"
    failed = False
    rows = [
        (model, variant)
        for model, variant in draw.table()
        if variant["precision"] in ("fp32", "amp-bf16")
        and all(word in draw.name_of(model, variant) for word in given.only)
    ]
    if not rows:
        sys.exit("no row of fp32 or amp-bf16 holds these words")
    for model, variant in rows:
        name, file = draw.name_of(model, variant), given.out / "run.json"
        run = {
            "version": PROTOCOL, "run": "parity", "model": model, "task": "training", "seed": 1,
            "variant": variant | {"batch": given.batch}, "device": "cpu",
            "steps": {"warmup": 1, "measured": 1, "parts": False, "calibrate": False},
        }  # fmt: skip
        file.write_text(json.dumps(run))
        results.unlink(missing_ok=True)
        rust = recorded(
            [given.scenario, file, results],
            given.out / f"{name}-rust.log", library,
            os.environ | {"LD_LIBRARY_PATH": str(given.libtorch)},
        )  # fmt: skip
        rust = [(sign, size - RUST_HEADER_BYTES, functions) for sign, size, functions in rust]
        python = recorded(
            [sys.executable, HERE / "eager.py", file],
            given.out / f"{name}-python.log", library, os.environ,
        )  # fmt: skip
        _, as_they_came = compare(rust, python)
        total, differing = compare(released_in_order(rust), released_in_order(python))
        reordered = len(as_they_came) - len(differing)
        print(
            f"{name}: {total} events in steps, {len(differing)} places differ, and {reordered} in"
            " the order alone of what is given back in a row",
            flush=True,
        )
        for ours, theirs in differing:
            failed = True
            for side, events in (("rust", ours), ("python", theirs)):
                for sign, size, functions in events:
                    print(f"  {side} {sign} {size}: {' '.join(functions[:12])}")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"allocations.py: {error}")
