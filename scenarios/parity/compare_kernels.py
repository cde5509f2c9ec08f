"""Which kernels the Rust workload runs in a step, and which Python eager PyTorch.

    python3 scenarios/parity/compare_kernels.py --scenario FILE --recorder FILE --out DIR [--only WORD]…

FILE of --scenario is the `scenario` binary built for CUDA, FILE of --recorder what
`record_kernels.cpp` became. The rows of `parity.py` that hold each word of --only run once in each
implementation. Writes `MODEL-BATCH[-LENGTH]-PRECISION-CHECKPOINTING.csv` into DIR: a line a kernel
with how often a step runs it and how many microseconds of a step it takes, on either side, the
largest difference first; and prints the sums, and what a step takes from end to end.
"""

import argparse
import collections
import csv
import os
import pathlib
import sys
import tempfile

from parity import library_path, python, row_name, rows, run_file, rust

# Runs once in every step of every model here.
MARK = "nll_loss_forward"
STEPS = 5
# The recorder has the last kernels of a process only in part.
LEFT_OUT = 8
COLUMNS = ["kernel", "rust_count", "python_count", "rust_microseconds", "python_microseconds"]


def steps_of(path):
    """The kernels of some whole steps: name to (runs, microseconds), each per step; and the
    microseconds of a step, from mark to mark."""
    events = sorted(
        (int(begin), int(end), name)
        for begin, end, name in (
            line.rstrip("\n").split("\t") for line in open(path) if line.endswith("\n")
        )
    )
    marks = [begin for begin, _, name in events if MARK in name][:-LEFT_OUT]
    if len(marks) <= STEPS:
        sys.exit(f"{path} has too few steps: after the last {LEFT_OUT}, {STEPS + 1} are needed")
    first, last = marks[-STEPS - 1], marks[-1]
    found = collections.defaultdict(lambda: [0.0, 0.0])
    for begin, end, name in events:
        if first <= begin < last:
            found[name][0] += 1 / STEPS
            found[name][1] += (end - begin) / 1e3 / STEPS
    return found, (last - first) / 1e3 / STEPS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--recorder", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[], help="rows that hold this word")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = library_path() + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    environment["CUDA_INJECTION64_PATH"] = str(arguments.recorder.resolve())
    for model, variant in rows(arguments.only):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            file = run_file(folder, model, variant, warmup=4, measured=20)
            sides = {}
            for side in ("rust", "python"):
                trace = folder / f"{side}.tsv"
                mine = {**environment, "TORCHGAUGE_KERNELS": str(trace)}
                result = (
                    rust(arguments.scenario, folder, file, mine)
                    if side == "rust"
                    else python(file, mine, "--unprofiled")
                )
                if "throughput" not in result:
                    sys.exit(f"{side} {model}: {result['error']}")
                sides[side] = steps_of(trace)
        write(arguments.out / f"{row_name(model, variant)}.csv", sides)
        for side, (kernels, microseconds) in sides.items():
            count = sum(count for count, _ in kernels.values())
            busy = sum(microseconds for _, microseconds in kernels.values())
            print(f"{row_name(model, variant)} {side}: {count:.0f} kernels, {busy / 1e3:.3f} ms in "
                  f"kernels, {microseconds / 1e3:.3f} ms a step", flush=True)  # fmt: skip


def write(path, sides):
    (rust_kernels, _), (python_kernels, _) = sides["rust"], sides["python"]
    lines = []
    for name in {*rust_kernels, *python_kernels}:
        (one_count, one), (other_count, other) = rust_kernels[name], python_kernels[name]
        lines.append([name, round(one_count, 1), round(other_count, 1), round(one, 2), round(other, 2)])
    lines.sort(key=lambda line: (-abs(line[3] - line[4]), line[0]))
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(lines)


main()
