"""Which libraries the workload opens on a GPU: what a CUDA image must hold.

    python3 scenarios/parity/opened_libraries.py --scenario FILE --out FILE [--only WORD]…

Needs a GPU and a Python with the torch that `scenario` was built for, whose libraries are used.
Runs small training and inference runs of every kind under the dynamic linker's LD_DEBUG, and
writes a table of the libraries: how many runs opened each, out of how many. --only takes the rows
of `draw.py --table` whose names have all of these words.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import draw
import torch
from allocations import PROTOCOL


def cases(only):
    """Every row of the table with a small batch, in training, and where nothing is recomputed as a
    CUDA graph and in inference too."""
    for model, variant in draw.table():
        if not all(word in draw.name_of(model, variant) for word in only):
            continue
        variant = {**variant, "batch": 4}
        yield model, "training", variant
        if variant["checkpointing"] == "none":
            yield model, "training", {**variant, "execution": "cuda-graph"}
            of_training = ("optimizer", "checkpointing", "accumulation")
            yield model, "inference", {k: v for k, v in variant.items() if k not in of_training}


def opened(scenario, model, task, variant, environment):
    """The libraries that one run opens, by the linker's own account; None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        file, results = folder / "run.json", folder / "results.ndjson"
        run = {
            "version": PROTOCOL, "run": "libraries", "model": model, "task": task, "seed": 1,
            "variant": variant, "device": "cuda:0",
            "steps": {"warmup": 4, "measured": 2, "parts": False, "calibrate": False},
        }  # fmt: skip
        file.write_text(json.dumps(run))
        traced = {**environment, "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(folder / "linker")}
        done = subprocess.run([scenario, file, results], env=traced, capture_output=True, text=True)
        if not results.exists() or '"finished"' not in results.read_text():
            print(done.stderr[-500:], file=sys.stderr)
            return None
        lines = (line for log in folder.glob("linker.*") for line in open(log, errors="replace"))
        found = (re.search(r"calling init: (\S+)", line) for line in lines)
        return {pathlib.Path(match.group(1)).name for match in found if match}


def library_path():
    """The folders of torch's libraries and of NVIDIA's packages beside it."""
    packages = pathlib.Path(torch.__file__).parent.parent
    folders = [packages / "torch" / "lib", *sorted(packages.glob("nvidia/*/lib"))]
    return ":".join(map(str, folders))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = library_path() + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    counts, runs = collections.Counter(), 0
    for model, task, variant in cases(arguments.only):
        libraries = opened(arguments.scenario, model, task, variant, environment)
        name = draw.name_of(model, {"checkpointing": "none", "accumulation": 1, **variant})
        print(name, task, "failed" if libraries is None else len(libraries), flush=True)
        if libraries is None:
            continue
        runs += 1
        counts.update(libraries)
        with open(arguments.out, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["library", "opened_by_runs", "runs"])
            table.writerows([name, counts[name], runs] for name in sorted(counts))


main()
