"""Runs the Rust workload and Python eager PyTorch side by side on one card.

    python3 scenarios/parity/parity.py --scenario FILE --out DIR [--blocks N] [--only WORD]…

Needs a GPU and a Python with torch, torchvision, timm and transformers; FILE is the
`scenario` binary built for CUDA. Each row runs in both implementations in turn, every run in
a process of its own, the order shuffled in each block. Writes `parity.csv` (medians over
the blocks) and `runs.ndjson` (every run) into DIR, and prints the table.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [
    "model", "batch", "seq_len", "precision", "checkpointing", "gpu_busy",
    "rust_throughput", "python_throughput", "rust_peak_allocated", "python_peak_allocated",
    "rust_peak_reserved", "python_peak_reserved",
]  # fmt: skip
# Model, batch, sequence length, optimizer.
MODELS = [
    ("resnet50", 64, None, "sgd-momentum"),
    ("bert-base", 64, 128, "adamw"),
    ("bert-base", 16, 512, "adamw"),
    ("bert-large", 32, 128, "adamw"),
    ("vit-b16", 64, None, "adamw"),
    ("vit-l16", 32, None, "adamw"),
]


def rows():
    for model, batch, length, optimizer in MODELS:
        for precision in ("fp32", "tf32", "amp-fp16", "amp-bf16"):
            for checkpointing in ("none", "blocks"):
                variant = {
                    "precision": precision,
                    "checkpointing": checkpointing,
                    "accumulation": 1,
                    "allocator": "native",
                    "memory_format": "channels-last"
                    if model == "resnet50" and precision.startswith("amp")
                    else "contiguous",
                    "optimizer": optimizer,
                    "batch": batch,
                }
                if length:
                    variant["sequence_length"] = length
                yield model, variant


def run_file(folder, model, variant, warmup, measured):
    path = folder / "run.json"
    content = {
        "version": 1, "run": "parity", "model": model, "task": "training", "variant": variant,
        "device": "cuda:0", "steps": {"warmup": warmup, "measured": measured}, "seed": 1,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def rust(scenario, folder, file, environment):
    results = folder / "results.ndjson"
    results.unlink(missing_ok=True)
    done = subprocess.run(
        [scenario, file, results], env=environment, capture_output=True, text=True
    )
    events = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for event in events:
        if event["event"] == "finished":
            memory = event["memory"]
            return {
                "throughput": event["throughput_samples_per_second"],
                "peak_allocated": memory["peak_allocated_bytes"],
                "peak_reserved": memory["peak_reserved_bytes"],
                "losses": [e["loss"] for e in events if e["event"] == "step"],
                "parameters": event["parameters"],
            }
    return {"error": (events[-1:] or [""])[0] if events else done.stderr[-2000:]}


def python(file):
    done = subprocess.run(
        [sys.executable, HERE / "eager.py", file], capture_output=True, text=True
    )
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": done.stderr[-2000:]}


def library_path():
    import torch

    site = pathlib.Path(torch.__file__).resolve().parent.parent
    folders = [site / "torch" / "lib", *sorted(site.glob("nvidia/*/lib"))]
    return ":".join(map(str, folders))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--measured", type=int, default=20)
    parser.add_argument("--only", action="append", default=[], help="rows that hold this word")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = library_path() + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    work = [
        (model, variant)
        for model, variant in rows()
        if all(word in f"{model} {json.dumps(variant)}" for word in arguments.only)
    ]
    found = {}
    begun = time.time()
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, open(arguments.out / "runs.ndjson", "w") as log:
        folder = pathlib.Path(folder)
        for block in range(arguments.blocks):
            for number, (model, variant) in enumerate(work):
                file = run_file(folder, model, variant, arguments.warmup, arguments.measured)
                sides = ["rust", "python"]
                order.shuffle(sides)
                for side in sides:
                    result = (
                        rust(arguments.scenario, folder, file, environment)
                        if side == "rust"
                        else python(file)
                    )
                    found.setdefault(number, {}).setdefault(side, []).append(result)
                    record = {"block": block, "side": side, "model": model, "variant": variant, **result}
                    log.write(json.dumps(record) + "\n")
                    log.flush()
                ends = {side: found[number][side][-1] for side in sides}
                speeds = {side: end.get("throughput", end.get("error")) for side, end in ends.items()}
                print(f"{time.time() - begun:7.1f} s block {block} {model} {variant['precision']} "
                      f"{variant['checkpointing']}: {speeds}", flush=True)  # fmt: skip
    write(arguments.out / "parity.csv", work, found)


def write(path, work, found):
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for number, (model, variant) in enumerate(work):
            sides = found[number]

            def median(side, name):
                values = [run[name] for run in sides[side] if name in run]
                return statistics.median(values) if values else ""

            table.writerow(
                [model, variant["batch"], variant.get("sequence_length", ""), variant["precision"],
                 variant["checkpointing"], median("python", "gpu_busy"),
                 median("rust", "throughput"), median("python", "throughput"),
                 median("rust", "peak_allocated"), median("python", "peak_allocated"),
                 median("rust", "peak_reserved"), median("python", "peak_reserved")]
            )  # fmt: skip


main()
