"""Which libraries the workload opens on a GPU: what a CUDA image must hold.

    python3 scenarios/parity/opened_libraries.py --scenario FILE --out FILE

Needs a GPU and a Python with the torch that `scenario` was built for, whose libraries are used.
Runs small training and inference runs of every kind under the dynamic linker's LD_DEBUG, and
writes a table of the libraries: how many runs opened each, out of how many.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import tempfile

from parity import library_path, row_name, rows, run_file


def cases():
    """Every row of the table with a small batch, in training, and where nothing is recomputed as a
    CUDA graph and in inference too."""
    for model, variant in rows():
        variant = {**variant, "batch": 4}
        yield model, "training", variant
        if variant["checkpointing"] == "none":
            yield model, "training", {**variant, "execution": "cuda-graph"}
            kept = {k: v for k, v in variant.items() if k not in ("optimizer", "checkpointing", "accumulation")}
            yield model, "inference", kept


def opened(scenario, model, task, variant, environment):
    """The libraries that one run opens, by the linker's own account; None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        file = run_file(folder, model, variant, 4, 2)
        file.write_text(json.dumps({**json.loads(file.read_text()), "task": task}))
        results = folder / "results.ndjson"
        traced = {**environment, "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(folder / "linker")}
        subprocess.run([scenario, file, results], env=traced, capture_output=True)
        if not results.exists() or '"finished"' not in results.read_text():
            return None
        lines = (line for log in folder.glob("linker.*") for line in open(log, errors="replace"))
        found = (re.search(r"calling init: (\S+)", line) for line in lines)
        return {pathlib.Path(match.group(1)).name for match in found if match}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = library_path() + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    counts, runs = collections.Counter(), 0
    for model, task, variant in cases():
        libraries = opened(arguments.scenario, model, task, variant, environment)
        name = row_name(model, {"checkpointing": "none", **variant})
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
