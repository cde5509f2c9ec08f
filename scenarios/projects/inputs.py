"""Writes what the examples read: data and weights drawn at random, the same in each image."""

import json
import pathlib
import random
import struct
import sys

import numpy
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("the gauge reads what an image costs and a step takes before memory runs out of room "
         "while batches wait for tensors that kernels make in turn").split()


def idx(path, array):
    """MNIST's own format."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())


def mnist(folder, draw):
    folder = folder / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, count in (("train", 4096), ("t10k", 512)):
        images = draw.integers(0, 256, (count, 28, 28), dtype=numpy.uint8)
        idx(folder / f"{name}-images-idx3-ubyte", images)
        idx(folder / f"{name}-labels-idx1-ubyte", draw.integers(0, 10, count, dtype=numpy.uint8))


def boxes(folder, draw):
    """Images with one box each, as YOLO reads them."""
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for index in range(64):
        pixels = draw.integers(0, 256, (64, 64, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{index}.png")
        x, y = draw.uniform(0.3, 0.7, 2)
        (folder / "labels" / f"{index}.txt").write_text(f"{index % 2} {x:.4f} {y:.4f} 0.4 0.4\n")
    (folder / "boxes.yaml").write_text(
        f"path: {folder}\ntrain: images\nval: images\nnames: {{0: one, 1: two}}\n"
    )


def molecules(path, draw):
    lines = ["smiles,value"]
    for _ in range(512):
        smiles = "".join(draw.choice(["C", "CO", "CN", "C(C)", "C(=O)"], draw.integers(2, 9)))
        lines.append(f"{smiles},{len(smiles) + draw.normal():.4f}")
    path.write_text("\n".join(lines) + "\n")


def language_model(folder):
    texts = [" ".join(random.choices(WORDS, k=64)) for _ in range(512)]
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>",
    )
    tokenizer.save_pretrained(folder / "llama")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=4, max_position_embeddings=256,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "llama")
    (folder / "texts").mkdir()
    with open(folder / "texts" / "train.jsonl", "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    (folder / "questions").mkdir()
    with open(folder / "questions" / "questions.jsonl", "w") as file:
        for text in texts[:128]:
            *start, last = text.split()
            choices = [last, *random.sample([word for word in WORDS if word != last], 3)]
            question = {"question": " ".join(start), "choices": choices, "answer": 0}
            file.write(json.dumps(question) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir()
    random.seed(0)
    draw = numpy.random.default_rng(0)
    mnist(folder / "mnist", draw)
    boxes(folder / "boxes", draw)
    molecules(folder / "molecules.csv", draw)
    language_model(folder)


main()
