"""Writes the golden data: what PyTorch itself makes of the reference models.

    python3 scenarios/golden/make.py [MODEL ...]

Needs torch 2.11, torchvision 0.26, timm and transformers; no GPU, no download. Without
arguments it makes all models. README.md beside this file says what is in the fixtures and
how parameters and inputs come about.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import twin

STEPS = 5
LOGIT_SAMPLES = 64
IGNORED = -100
MASK_TOKEN = 103
# The workload's own, which `scenarios/src/training/optimizer.rs` states.
OPTIMIZERS = {
    "sgd-momentum": lambda parameters: torch.optim.SGD(
        parameters, lr=1e-2, momentum=0.9, weight_decay=1e-4, fused=True
    ),
    "adamw": lambda parameters: torch.optim.AdamW(
        parameters, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, fused=True
    ),
}


def hashes(name, count):
    """SplitMix64 from the FNV-1a hash of the name: number i is the same everywhere."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    z = np.arange(1, count + 1, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(name, count):
    """Multiples of 2^-23 in [-1, 1), which single precision holds exactly."""
    upper = (hashes(name, count) >> np.uint64(40)).astype(np.int32)
    return (upper - np.int32(2**23)).astype(np.float32) / np.float32(2**23)


def below(name, count, bound):
    return (hashes(name, count) % np.uint64(bound)).astype(np.int64)


def middle_and_bound(name, shape):
    """What a tensor's values lie around, and how far from it, both single precision."""
    last = name.rsplit(".", 1)[-1]
    if name.endswith("bn3.weight"):
        # A ResNet's blocks begin near the identity, as trained ones do: with full branches
        # rounding grows from block to block and hides what is to be compared.
        return np.float32(0.2), np.float32(0.1)
    if name == "norm.weight":
        # With its usual size a ViT's last features let the first steps overshoot two images,
        # and rounding grows from step to step.
        return np.float32(0.1), np.float32(0.05)
    if last == "running_var" or (last == "weight" and len(shape) == 1):
        return np.float32(1), np.float32(0.1)
    if len(shape) == 1:
        return np.float32(0), np.float32(0.05)
    # Tables [1, rows, width] as any other table; weights by what one output sums over.
    fan_in = shape[-1] if len(shape) == 3 else math.prod(shape[1:])
    return np.float32(0), np.float32(math.sqrt(3 / fan_in))


def values(name, shape):
    middle, bound = middle_and_bound(name, shape)
    return (middle + bound * uniform(name, math.prod(shape))).reshape(shape)


def named_tensors(model):
    """Parameters, each once, and the buffers of a state_dict."""
    parameters = dict(model.named_parameters())
    kept = set(model.state_dict())
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
    return parameters, buffers


def fill(model):
    """Fills the model by the rule, and makes it one of double precision, in which rounding is
    too small to tell one CPU's kernels from another's. Returns the sum of all bit patterns of
    single precision modulo 2^64."""
    parameters, buffers = named_tensors(model)
    checksum = 0
    with torch.no_grad():
        for name, tensor in (parameters | buffers).items():
            if tensor.dtype == torch.float32:
                array = values(name, tuple(tensor.shape))
                checksum += int(array.view(np.uint32).sum(dtype=np.uint64))
                tensor.copy_(torch.from_numpy(array))
    model.double()
    return checksum % 2**64


def images(batch):
    pixels = uniform("images", batch * 3 * 224 * 224) * np.float32(math.sqrt(3))
    labels = below("labels", batch, 1000)
    return torch.from_numpy(pixels.reshape(batch, 3, 224, 224)).double(), torch.from_numpy(labels)


def sequences(batch, length, padded):
    """The last `padded` positions of the last sequence are [PAD]."""
    count = batch * length
    tokens = below("tokens", count, 30522)
    tokens[count - padded :] = 0
    masked = below("masks", count, 100) < 15
    labels = np.where(masked, tokens, IGNORED)
    tokens = np.where(masked, MASK_TOKEN, tokens)
    shape = (batch, length)
    return torch.from_numpy(tokens.reshape(shape)), torch.from_numpy(labels.reshape(shape))


class Resnet50:
    batch = {"batch": 2}

    @staticmethod
    def build():
        from torchvision.models import resnet50

        return resnet50(weights=None)

    @staticmethod
    def data():
        return images(2)

    @staticmethod
    def scores(model, inputs):
        return model(inputs)


class VitB16(Resnet50):
    @staticmethod
    def build():
        import timm

        return timm.create_model("vit_base_patch16_224", pretrained=False)


class BertBase:
    batch = {"batch": 2, "sequence_length": 64, "padded": 4}

    @staticmethod
    def build():
        from transformers import BertConfig, BertForMaskedLM

        without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return BertForMaskedLM(BertConfig(attn_implementation="sdpa", **without))

    @staticmethod
    def data():
        return sequences(2, 64, 4)

    @staticmethod
    def scores(model, inputs):
        return model(input_ids=inputs).logits


class LlamaTiny(BertBase):
    batch = {"batch": 2, "sequence_length": 48}
    # Of them, read by generation, which then makes so many.
    prompt, new_tokens = 20, 24

    @classmethod
    def build(cls):
        from transformers import LlamaForCausalLM

        return LlamaForCausalLM(twin.LLAMAS["llama-tiny"]())

    @staticmethod
    def data():
        """Each token's label is the next one."""
        tokens = torch.from_numpy(below("tokens", 2 * 49, 1024).reshape(2, 49))
        return tokens[:, :-1], tokens[:, 1:]

    @classmethod
    def more(cls):
        """What other models have not: counts, frequencies, and the likeliest tokens after a prompt."""
        from transformers import LlamaForCausalLM
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        counts = {}
        for name, config in twin.LLAMAS.items():
            with torch.device("meta"):
                counts[name] = LlamaForCausalLM(config()).num_parameters()
        model = cls.build()
        fill(model)
        model.float().eval()
        prompt = cls.data()[0][:, : cls.prompt]
        options = {"do_sample": False, "max_new_tokens": cls.new_tokens, "eos_token_id": None}
        mask = torch.ones_like(prompt)
        tokens = model.generate(prompt, attention_mask=mask, pad_token_id=0, **options)
        return {
            "counts": counts,
            "frequencies": {
                name: LlamaRotaryEmbedding(config()).inv_freq.tolist()
                for name, config in twin.LLAMAS.items()
            },
            "generation": {"prompt": cls.prompt, "tokens": tokens[:, cls.prompt :].tolist()},
        }


MODELS = {
    "resnet50": Resnet50,
    "bert-base": BertBase,
    "llama-tiny": LlamaTiny,
    "vit-b16": VitB16,
}


def short(number):
    return float(f"{float(number):.12g}")


def norm(tensor):
    return short(tensor.detach().double().norm())


def norms(tensors):
    return {name: norm(tensor) for name, tensor in tensors.items()}


def logits(scores):
    flat = scores.detach().double().flatten()
    positions = below("samples", LOGIT_SAMPLES, flat.numel())
    return {
        "shape": list(scores.shape),
        "samples": [short(flat[int(position)]) for position in positions],
        "sum": short(flat.sum()),
        "sum_of_magnitudes": short(flat.abs().sum()),
        "norm": norm(flat),
    }


def train(reference, optimizer):
    """What the first step and all steps leave behind."""
    model = reference.build()
    checksum = fill(model)
    model.train()
    parameters, buffers = named_tensors(model)
    inputs, labels = reference.data()
    step = OPTIMIZERS[optimizer](parameters.values())
    losses, first = [], None
    for _ in range(STEPS):
        step.zero_grad(set_to_none=True)
        scores = reference.scores(model, inputs)
        loss = nn.functional.cross_entropy(
            scores.reshape(-1, scores.shape[-1]), labels.reshape(-1), ignore_index=IGNORED
        )
        loss.backward()
        losses.append(short(loss.detach()))
        if first is None:
            first = {
                "logits": logits(scores),
                "gradient_norms": norms({name: p.grad for name, p in parameters.items()}),
                "buffer_norms": norms(buffers),
            }
        step.step()
    moved = {
        name: norm(p.detach().double() - torch.from_numpy(values(name, tuple(p.shape))).double())
        for name, p in parameters.items()
    }
    return checksum, first, {"losses": losses, "moved": moved}


def inference(reference):
    model = reference.build()
    fill(model)
    model.eval()
    with torch.no_grad():
        return logits(reference.scores(model, reference.data()[0]))


def shapes(tensors):
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def ties(model, parameters):
    """Names of the state_dict that are another name's tensor."""
    first = {tensor.data_ptr(): name for name, tensor in parameters.items()}
    everything = model.state_dict(keep_vars=True)
    return {
        name: first[tensor.data_ptr()]
        for name, tensor in everything.items()
        if first.get(tensor.data_ptr(), name) != name
    }


def make(name):
    import timm
    import torchvision
    import transformers

    reference = MODELS[name]
    model = reference.build()
    parameters, buffers = named_tensors(model)
    golden = {
        "versions": {
            package.__name__: package.__version__
            for package in (torch, torchvision, timm, transformers)
        },
        "model": name,
        "input": reference.batch,
        "parameters": shapes(parameters),
        "buffers": shapes(buffers),
        "ties": ties(model, parameters),
    }
    del model, parameters, buffers
    golden["inference"] = inference(reference)
    if name == "llama-tiny":
        golden |= reference.more()
    for optimizer in OPTIMIZERS:
        checksum, first, steps = train(reference, optimizer)
        golden |= {"fill_checksum": checksum, "first_step": first}
        golden.setdefault("training", {})[optimizer] = steps
    return golden


def layout(value, indent=""):
    """JSON with an entry of an object on each line, and lists on one."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value)
    deeper = indent + " "
    entries = (f"{deeper}{json.dumps(key)}: {layout(entry, deeper)}" for key, entry in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def main():
    for name in sys.argv[1:] or MODELS:
        golden = make(name)
        path = Path(__file__).parent / f"{name}.json"
        path.write_text(layout(golden) + "\n")
        print(f"{path}: {path.stat().st_size} bytes")
        for optimizer, steps in golden["training"].items():
            print(f"  {optimizer}: losses {steps['losses']}")


if __name__ == "__main__":
    main()
