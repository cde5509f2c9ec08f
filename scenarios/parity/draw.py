"""Writes a suite that measures the built-in workload beside the same models in Python, on shapes
that are drawn at random or on those of the table.

    python3 scenarios/parity/draw.py --random SEED --rows 24 > scenarios/drawn.yaml
    python3 scenarios/parity/draw.py --table > scenarios/table.yaml
    torchgauge bench --suite scenarios/drawn.yaml --image FILE --device cuda

The suite has to lie in `scenarios/`, whose folder `python` it mounts; FILE is the spec of an image
that has torch, torchvision, timm and transformers inside. Each row is two scenarios and three
claims: at least as fast as Python within 2 %, as many bytes allocated within 1 %, as many reserved
within 3 %. One seed always draws the same rows.
"""

import argparse
import random
import sys

# Model, batch, sequence length, optimizer: the table, in all precisions, plain and checkpointed.
MODELS = [
    ("resnet50", 64, None, "sgd-momentum"),
    ("bert-base", 64, 128, "adamw"),
    ("bert-base", 16, 512, "adamw"),
    ("bert-large", 32, 128, "adamw"),
    ("vit-b16", 64, None, "adamw"),
    ("vit-l16", 32, None, "adamw"),
]
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16")
# Samples in fp32 that surely fit in 80 GB, of 512 tokens where there are tokens.
LARGEST = {"resnet50": 320, "bert-base": 48, "bert-large": 20, "vit-b16": 160, "vit-l16": 56}
# What a claim is about, and its bounds as ratios to Python.
CLAIMS = [
    ("is at least as fast as in Python, give or take 2 %", "throughput_samples_per_second", "min: 0.98"),
    ("allocates what it does in Python, within 1 %", "peak_allocated_bytes", "min: 0.99, max: 1.01"),
    ("reserves what it does in Python, within 3 %", "peak_reserved_bytes", "min: 0.97, max: 1.03"),
]  # fmt: skip


def table():
    for model, batch, length, optimizer in MODELS:
        for precision in PRECISIONS:
            for checkpointing in ("none", "blocks"):
                is_last = model == "resnet50" and precision.startswith("amp")
                row = {"batch": batch, "precision": precision, "checkpointing": checkpointing}
                row["memory_format"] = "channels-last" if is_last else "contiguous"
                row |= {"optimizer": optimizer, "accumulation": 1}
                yield model, row | ({"sequence_length": length} if length else {})


def drawn(seed, count):
    """Batches are multiples of four, lengths of eight: as people choose them, but no powers of two."""
    draw = random.Random(seed)
    for _ in range(count):
        model = draw.choice(sorted(LARGEST))
        row = {"precision": draw.choice(PRECISIONS)}
        row["checkpointing"] = draw.choice(("none", "blocks"))
        row["memory_format"] = "contiguous"
        if model == "resnet50":
            row["memory_format"] = draw.choice(("contiguous", "channels-last"))
        row["optimizer"] = "sgd-momentum" if model == "resnet50" else "adamw"
        row["accumulation"] = draw.choice((1, 1, 2, 3, 4))
        length, most = None, LARGEST[model]
        if model.startswith("bert"):
            length = 8 * draw.randint(8, 64)
            most = most * 512 // length
        row["batch"] = 4 * draw.randint(2, max(2, most // 4))
        yield model, row | ({"sequence_length": length} if length else {})


def name_of(model, row):
    length = f"-{row['sequence_length']}" if "sequence_length" in row else ""
    more = "-ckpt" if row["checkpointing"] == "blocks" else ""
    more += f"-{row['accumulation']}x" if row["accumulation"] > 1 else ""
    more += "-last" if row["memory_format"] == "channels-last" else ""
    return f"{model}-{row['batch']}{length}-{row['precision'].removeprefix('amp-')}{more}"


def suite(rows, about):
    yield f"""# yaml-language-server: $schema=suite.schema.json
# Written by scenarios/parity/draw.py.
version: 1
description: The built-in workload beside the same models in Python, {about}
question: Is the built-in workload as fast as PyTorch in Python, and in as much memory?
answered_by: [throughput_samples_per_second, peak_allocated_bytes, peak_reserved_bytes]
yes_when: claims-hold
defaults:
  blocks: 3
  steps: {{warmup: 6, measured: 20, parts: false, calibrate: false}}
  limits: {{time: 10min, memory: 64GiB, shm: 8GiB, pids: 4096}}
scenarios:"""
    claims = []
    for model, row in rows:
        name = name_of(model, row)
        axes = ", ".join(f"{key}: {value}" for key, value in row.items())
        options = ", ".join(f"--{key.replace('_', '-')}, \"{value}\"" for key, value in row.items())
        samples = row["batch"] * row["accumulation"]
        yield f"""  - name: {name}
    model: {model}
    devices: [cuda]
    axes: {{{axes}}}
  - name: {name}-py
    devices: [cuda]
    program:
      command: [python3, /workspace/twin.py, --model, {model}, {options}]
      mounts: ["python:/workspace"]
      samples_per_step: "{samples}\""""
        for statement, metric, bounds in CLAIMS:
            claims.append(f"""  - statement: {name} {statement}
    source: what Torchgauge promises of its workload
    metric: {metric}
    baseline: {{scenario: {name}-py}}
    treated: {{scenario: {name}}}
    expect: {{ratio: {{{bounds}}}}}""")
    yield "claims:"
    yield from claims


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--random", type=int, metavar="SEED", help="draw rows")
    which.add_argument("--table", action="store_true", help="the 48 rows of the table")
    parser.add_argument("--rows", type=int, default=24, help="how many to draw")
    given = parser.parse_args()
    if given.table:
        rows, about = list(table()), "on the shapes of the table"
    else:
        # A row that is drawn twice is measured once.
        found = {name_of(*row): row for row in drawn(given.random, given.rows)}
        rows, about = list(found.values()), f"on shapes drawn from seed {given.random}"
    sys.stdout.writelines(f"{line}\n" for line in suite(rows, about))


if __name__ == "__main__":
    main()
