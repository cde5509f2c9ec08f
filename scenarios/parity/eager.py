"""One run of a scenario in Python eager PyTorch: the yardstick for the Rust workload.

    python3 eager.py RUN_FILE [--compile MODE] [--unprofiled]

RUN_FILE is what the `scenario` binary reads; on a CPU it gives no metrics of memory, and
`allocations.py` records them. --compile has `torch.compile` compile the model, with
that mode (`default`, `reduce-overhead`) or with the backend `cudagraphs`. --unprofiled leaves out
how busy the GPU is, which PyTorch's profiler tells: another one may be at work.

Prints one JSON object. The models are the Python implementations that do the same
mathematics with the fewest kernels: torchvision's ResNet-50, timm's ViT, transformers' BERT
with scaled_dot_product_attention; the optimizers are PyTorch's fused ones.
"""

import json
import sys
import time

import torch
from torch import nn


def flatten_batch(run):
    variant = run["variant"]
    return variant["batch"], variant.get("sequence_length", 128)


class Resnet50(nn.Module):
    def __init__(self, run):
        super().__init__()
        from torchvision.models import resnet50

        self.net = resnet50(weights=None)
        self.checkpointing = run["variant"]["checkpointing"] == "blocks"

    def forward(self, images):
        net = self.net
        if not self.checkpointing:
            return net(images)
        from torch.utils.checkpoint import checkpoint

        # One variable as in torchvision's own forward: the last block's output goes as soon as it
        # is averaged, and not at the end of this function, as in one long expression.
        x = net.conv1(images)
        x = net.bn1(x)
        x = net.relu(x)
        x = net.maxpool(x)
        for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in layer:
                x = checkpoint(block, x, use_reentrant=False)
        x = net.avgpool(x)
        x = torch.flatten(x, 1)
        return net.fc(x)


def vit(name):
    def build(run):
        import timm

        model = timm.create_model(name, pretrained=False)
        model.set_grad_checkpointing(run["variant"]["checkpointing"] == "blocks")
        return model

    return build


def bert(**sizes):
    def build(run):
        from transformers import BertConfig, BertForMaskedLM

        config = BertConfig(attn_implementation="sdpa", **sizes)
        model = BertForMaskedLM(config)
        if run["variant"]["checkpointing"] == "blocks":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    return build


MODELS = {
    "resnet50": Resnet50,
    "vit-b16": vit("vit_base_patch16_224"),
    "vit-l16": vit("vit_large_patch16_224"),
    "bert-base": bert(),
    "bert-large": bert(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
}


def data(run, device, memory_format):
    batch, length = flatten_batch(run)
    generator = torch.Generator().manual_seed(run["seed"])
    if run["model"].startswith("bert"):
        tokens = torch.randint(1000, 30522, (batch, length), generator=generator)
        masked = torch.rand((batch, length), generator=generator) < 0.15
        labels = torch.where(masked, tokens, -100)
        return tokens.masked_fill(masked, 103).to(device), labels.to(device)
    images = torch.randn((batch, 3, 224, 224), generator=generator)
    labels = torch.randint(0, 1000, (batch,), generator=generator)
    # In one step, so that no second layout of them stays in the allocator's cache.
    return images.contiguous(memory_format=memory_format).to(device), labels.to(device)


def kernels(step, profiled=3):
    """The microseconds of a step in which a kernel runs, and how many kernels it runs."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for number in range(profiled):
            step()
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    busy, reached = 0.0, float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return busy / profiled, len(spans) / profiled


def main():
    run = json.load(open(sys.argv[1]))
    variant = run["variant"]
    device = torch.device(run["device"])
    on_card = device.type == "cuda"
    precision = variant["precision"]
    torch.manual_seed(run["seed"])
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    memory_format = (
        torch.channels_last
        if variant["memory_format"] == "channels-last"
        else torch.contiguous_format
    )
    model = MODELS[run["model"]](run)
    if memory_format is torch.channels_last:
        model = model.to(memory_format=memory_format)
    model.to(device).train()
    options = sys.argv[2:]
    if "--compile" in options:
        mode = options[options.index("--compile") + 1]
        how = {"backend": mode} if mode == "cudagraphs" else {"mode": mode}
        model = torch.compile(model, **how)
    text = run["model"].startswith("bert")
    if variant["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4, fused=True
        )
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "amp-fp16")
    autocast = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(precision)
    loss_of = nn.CrossEntropyLoss()
    accumulation = variant["accumulation"]
    pool = [data(run, device, memory_format) for _ in range(min(accumulation, 2))]
    losses = []

    def step():
        total = None
        optimizer.zero_grad(set_to_none=True)
        for micro in range(accumulation):
            inputs, labels = pool[micro % len(pool)]
            with torch.autocast(
                device.type, dtype=autocast or torch.bfloat16, enabled=autocast is not None
            ):
                if text:
                    loss = model(input_ids=inputs, labels=labels).loss
                else:
                    loss = loss_of(model(inputs), labels)
            loss = loss / accumulation
            scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        scaler.step(optimizer)
        scaler.update()
        losses.append(total)

    for number in range(run["steps"]["warmup"]):
        step()
    if on_card:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    for number in range(run["steps"]["measured"]):
        step()
    if on_card:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    peak_allocated = torch.cuda.max_memory_allocated() if on_card else None
    peak_reserved = torch.cuda.max_memory_reserved() if on_card else None

    samples = variant["batch"] * accumulation * run["steps"]["measured"]
    step_seconds = seconds / run["steps"]["measured"]
    busy, count = kernels(step) if on_card and "--unprofiled" not in options else (None, None)
    print(
        json.dumps(
            {
                "throughput": samples / seconds,
                "peak_allocated": peak_allocated,
                "peak_reserved": peak_reserved,
                "gpu_busy": None if busy is None else min(1.0, busy / 1e6 / step_seconds),
                "kernels_per_step": count,
                "losses": [float(loss) for loss in losses],
                "parameters": sum(p.numel() for p in model.parameters()),
            }
        )
    )


main()
