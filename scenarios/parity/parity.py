"""Runs the Rust workload and Python eager PyTorch side by side on one GPU.

    python3 scenarios/parity/parity.py --scenario FILE --out DIR [--blocks N] [--gpus 0,1]
                                       [--only WORD]… [--graphs]

With --graphs, the two small batches of `graphs()` instead, each as eager steps and as a
replayed CUDA graph in Rust, and in Python as eager steps and as `torch.compile` makes them: with
its default mode (fused kernels, launched one by one), with `mode="reduce-overhead"` (the same
kernels out of CUDA graphs) and with `backend="cudagraphs"` (eager's kernels out of CUDA graphs).
Writes `graphs.csv`.

Needs a GPU and a Python with torch, torchvision, timm and transformers; FILE is the
`scenario` binary built for CUDA. Each row runs in all implementations in turn on one GPU, every
run in a process of its own, the order shuffled in each block. Writes `parity.csv` (medians over
the blocks), `parity.md` (the ratios with their intervals) and `runs.ndjson` (every run) into DIR.
Rows that `runs.ndjson` has for a block already are not run again: the same command goes on after
it was ended.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [
    "model", "batch", "seq_len", "precision", "checkpointing", "gpu_busy",
    "rust_throughput", "python_throughput", "rust_peak_allocated", "python_peak_allocated",
    "rust_peak_reserved", "python_peak_reserved",
]  # fmt: skip
GRAPH_COLUMNS = [
    "model", "batch", "seq_len", "rust_eager_throughput", "rust_graph_throughput",
    "python_eager_throughput", "python_compiled_throughput", "python_reduce_overhead_throughput",
    "python_cudagraphs_throughput", "rust_eager_last_loss", "rust_graph_last_loss",
]  # fmt: skip
# What the sides of the graphs are called, and how `eager.py` compiles for them.
COMPILED = {
    "python_compiled": "default",
    "python_reduce_overhead": "reduce-overhead",
    "python_cudagraphs": "cudagraphs",
}
# Model, batch, sequence length, optimizer.
MODELS = [
    ("resnet50", 64, None, "sgd-momentum"),
    ("bert-base", 64, 128, "adamw"),
    ("bert-base", 16, 512, "adamw"),
    ("bert-large", 32, 128, "adamw"),
    ("vit-b16", 64, None, "adamw"),
    ("vit-l16", 32, None, "adamw"),
]


def rows(words=()):
    """The rows of the table that hold each of the words."""
    for model, variant in all_rows():
        if all(word in f"{model} {json.dumps(variant)}" for word in words):
            yield model, variant


def row_name(model, variant):
    length = variant.get("sequence_length")
    parts = [model, variant["batch"], *([length] if length else []), variant["precision"],
             variant["checkpointing"]]  # fmt: skip
    return "-".join(map(str, parts))


def all_rows():
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


def graphs():
    for model, batch, length, optimizer in [
        ("resnet50", 32, None, "sgd-momentum"),
        ("bert-base", 8, 128, "adamw"),
    ]:
        variant = {
            "precision": "amp-bf16",
            "checkpointing": "none",
            "accumulation": 1,
            "memory_format": "channels-last" if model == "resnet50" else "contiguous",
            "optimizer": optimizer,
            "batch": batch,
        }
        if length:
            variant["sequence_length"] = length
        yield model, variant


def run_file(folder, model, variant, warmup, measured):
    path = folder / "run.json"
    # Events inside a step cost something, and Python's steps have none.
    steps = {"warmup": warmup, "measured": measured, "parts": False, "calibrate": False}
    content = {
        "version": 4, "run": "parity", "model": model, "task": "training", "variant": variant,
        "device": "cuda:0", "steps": steps, "seed": 1,
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


def python(file, environment, *options):
    done = subprocess.run(
        [sys.executable, HERE / "eager.py", file, *options],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
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
    parser.add_argument("--gpus", default="0", help="GPUs to use, such as 0,1; a row stays on one")
    parser.add_argument("--graphs", action="store_true", help="CUDA graphs instead of the table")
    parser.add_argument("--only", action="append", default=[], help="rows that hold this word")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = library_path() + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    if arguments.graphs:
        return compare_graphs(arguments, environment)
    work = list(rows(arguments.only))
    begun = time.time()
    found = run_all(arguments, environment, work, compare, lambda side, *told: print(
        f"{time.time() - begun:7.1f} s", side, *told, flush=True
    ))  # fmt: skip
    write(arguments.out / "parity.csv", work, found)
    write_ratios(arguments.out / "parity.md", work, found)


def run_all(arguments, environment, work, compare_one, tell):
    """Every row in every block. The next GPU that is free takes the next row, the longest first,
    and runs all its sides."""
    path = arguments.out / "runs.ndjson"
    found, done, lock = {}, set(), threading.Lock()
    numbers = {identity(*row): number for number, row in enumerate(work)}
    for line in path.read_text().splitlines() if path.exists() else []:
        run = json.loads(line)
        number = numbers.get(identity(run["model"], run["variant"]))
        if number is not None:
            found.setdefault(number, {}).setdefault(run["side"], []).append(run)
            done.add((run["block"], number))
    left = [
        (block, number)
        for block in range(arguments.blocks)
        for number in sorted(range(len(work)), key=lambda number: -weight(*work[number]))
        if (block, number) not in done
    ]
    log = open(path, "a")

    def one_gpu(gpu):
        mine = {**environment, "CUDA_VISIBLE_DEVICES": gpu}
        with tempfile.TemporaryDirectory() as folder:
            while True:
                with lock:
                    if not left:
                        return
                    block, number = left.pop(0)
                order = random.Random(block * len(work) + number)
                kept = []
                compare_one(arguments, mine, pathlib.Path(folder), order,
                            lambda *told: kept.append(told), *work[number])  # fmt: skip
                # A row at a time, so that what goes on later finds whole rows.
                with lock:
                    for side, model, variant, result in kept:
                        record = {"block": block, "gpu": gpu, "side": side, "model": model,
                                  "variant": variant, **result}  # fmt: skip
                        found.setdefault(number, {}).setdefault(side, []).append(record)
                        log.write(json.dumps(record) + "\n")
                        tell(side, block, model, variant["precision"], variant["checkpointing"],
                             result.get("throughput", result.get("error")))  # fmt: skip
                    log.flush()

    threads = [threading.Thread(target=one_gpu, args=(gpu,)) for gpu in arguments.gpus.split(",")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    return found


def identity(model, variant):
    """What a row is known by. Its execution is a side's own."""
    return json.dumps([model, {**variant, "execution": None}], sort_keys=True)


def weight(model, variant):
    """How long a row takes, roughly: enough to begin with the long ones."""
    size = {"resnet50": 1, "bert-base": 2, "bert-large": 6, "vit-b16": 2, "vit-l16": 6}[model]
    speed = {"fp32": 4, "tf32": 2}.get(variant["precision"], 1)
    return size * speed * (1.3 if variant["checkpointing"] == "blocks" else 1)


def compare(arguments, environment, folder, order, keep, model, variant):
    file = run_file(folder, model, variant, arguments.warmup, arguments.measured)
    sides = ["rust", "python"]
    order.shuffle(sides)
    for side in sides:
        result = (
            rust(arguments.scenario, folder, file, environment)
            if side == "rust"
            else python(file, environment)
        )
        keep(side, model, variant, result)


def compare_with_graphs(arguments, environment, folder, order, keep, model, variant):
    sides = ["rust_eager", "rust_graph", "python_eager", *COMPILED]
    order.shuffle(sides)
    for side in sides:
        asked = {**variant, "execution": "cuda-graph" if side == "rust_graph" else "eager"}
        file = run_file(folder, model, asked, arguments.warmup, arguments.measured)
        if side.startswith("rust"):
            result = rust(arguments.scenario, folder, file, environment)
        else:
            compile = ["--compile", COMPILED[side]] if side in COMPILED else []
            result = python(file, environment, *compile)
        keep(side, model, asked, result)


def compare_graphs(arguments, environment):
    work = list(graphs())
    found = run_all(arguments, environment, work, compare_with_graphs, lambda *told: print(
        *told, flush=True
    ))  # fmt: skip
    with open(arguments.out / "graphs.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(GRAPH_COLUMNS)
        for number, (model, variant) in enumerate(graphs()):

            def median(side, read):
                values = [read(run) for run in found[number][side] if "throughput" in run]
                return statistics.median(values) if values else ""

            speeds = [
                median(side, lambda run: run["throughput"])
                for side in ("rust_eager", "rust_graph", "python_eager", *COMPILED)
            ]
            losses = [
                median(side, lambda run: run["losses"][-1]) for side in ("rust_eager", "rust_graph")
            ]
            table.writerow(
                [model, variant["batch"], variant.get("sequence_length", ""), *speeds, *losses]
            )


def write_ratios(path, work, found):
    """The ratios Rust / Python of the blocks: their median, and the 95 % t interval of their
    geometric mean. A moment in which the host had no time for either side moves the mean and the
    interval, and not the median."""
    lines = [
        "| model | batch | seq | precision | checkpointing | busy | throughput | interval of the mean | peak allocated | peak reserved |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, (model, variant) in enumerate(work):
        sides = found[number]
        others = {run["block"]: run for run in sides["python"]}
        pairs = [
            (one, others[one["block"]])
            for one in sides["rust"]
            if "throughput" in one and "throughput" in others.get(one["block"], {})
        ]
        names = [model, variant["batch"], variant.get("sequence_length", ""),
                 variant["precision"], variant["checkpointing"]]  # fmt: skip
        if not pairs:
            lines.append("| " + " | ".join(map(str, names)) + " | no pair of good runs | | | | |")
            continue
        logs = [math.log(one["throughput"] / other["throughput"]) for one, other in pairs]
        mean = statistics.mean(logs)
        # Two-sided 95 % quantiles of Student's t for 1 to 4 degrees of freedom.
        quantile = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}.get(len(logs))
        interval = ""
        if quantile:
            half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
            interval = f"{math.exp(mean - half):.3f} – {math.exp(mean + half):.3f}"
        share = lambda name: statistics.median(o[name] / p[name] for o, p in pairs)  # noqa: E731
        busy = statistics.median(other["gpu_busy"] for _, other in pairs)
        metrics = [f"{busy:.2f}", f"{math.exp(statistics.median(logs)):.3f}", interval,
                   f"{share('peak_allocated'):.4f}", f"{share('peak_reserved'):.3f}"]  # fmt: skip
        lines.append("| " + " | ".join(map(str, names + metrics)) + " |")
    path.write_text("\n".join(lines) + "\n")


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


if __name__ == "__main__":
    main()
