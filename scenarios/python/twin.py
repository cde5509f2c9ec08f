"""Twins of the built-in models in Python, as programs to be measured: training without end, eager or
by torch.compile.

    torchgauge bench --image team/train:new --samples-per-step 64 --mount scenarios/python:/workspace \\
        -- python3 /workspace/twin.py --model resnet50 --batch 64 --compile default

The models are the Python implementations that do the same mathematics with the fewest kernels:
torchvision's ResNet-50, timm's ViT, transformers' BERT and Llama with scaled_dot_product_attention,
and the 3D U-Net of MLPerf's reference for KiTS19, which is no package; the optimizers are PyTorch's
fused ones. With --fp8 linear layers multiply by `torch._scaled_mm`. Several ranks, started by `ranks`
of a suite or by torchrun, train one model by DistributedDataParallel, `fully_shard` or the schedule
1F1B of torch.distributed.pipelining (--parallel).
"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn

COMPILED = ("none", "default", "reduce-overhead", "max-autotune", "cudagraphs")
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16", "bf16")
FP8 = ("none", "tensor", "row")
PARALLEL = ("none", "ddp", "sharded", "pipeline")

RANKS = (("RANK", "0"), ("WORLD_SIZE", "1"))

# What `fully_shard` gathers at once, by the names of their classes.
BLOCKS = ("Bottleneck", "Block", "BertLayer", "LlamaDecoderLayer")


class Resnet50(nn.Module):
    def __init__(self, is_checkpointed):
        super().__init__()
        from torchvision.models import resnet50

        self.net = resnet50(weights=None)
        self.is_checkpointed = is_checkpointed

    def forward(self, images):
        net = self.net
        if not self.is_checkpointed:
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
    def build(is_checkpointed):
        import timm

        model = timm.create_model(name, pretrained=False)
        model.set_grad_checkpointing(is_checkpointed)
        return model

    return build


def bert(**sizes):
    def build(is_checkpointed):
        from transformers import BertConfig, BertForMaskedLM

        model = BertForMaskedLM(BertConfig(attn_implementation="sdpa", **sizes))
        if is_checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    return build


def llama_config(layers, width, heads, key_heads, inner, words, theta, factor=None, **more):
    from transformers import LlamaConfig

    rope = {"rope_type": "default", "rope_theta": theta}
    if factor:
        rope |= {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0}
        rope |= {"high_freq_factor": 4.0}
        rope |= {"original_max_position_embeddings": more.pop("first_positions", 8192)}
    return LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        intermediate_size=inner,
        vocab_size=words,
        max_position_embeddings=131072 if factor else 4096,
        rms_norm_eps=1e-5,
        rope_parameters=rope,
        attn_implementation="sdpa",
        **more,
    )


LLAMAS = {
    "llama-tiny": lambda: llama_config(
        2, 64, 4, 2, 128, 1024, 5e5, 8.0, first_positions=64, tie_word_embeddings=True
    ),
    "llama-2-7b": lambda: llama_config(32, 4096, 32, 32, 11008, 32000, 1e4),
    "llama-3.1-8b": lambda: llama_config(32, 4096, 32, 8, 14336, 128256, 5e5, 8.0),
    "llama-3.2-1b": lambda: llama_config(
        16, 2048, 32, 8, 8192, 128256, 5e5, 32.0, tie_word_embeddings=True
    ),
}


def llama(name):
    def build(is_checkpointed):
        from transformers import LlamaForCausalLM

        model = LlamaForCausalLM(LLAMAS[name]())
        # Training keeps no keys and values for a next token.
        model.config.use_cache = False
        if is_checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    return build


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter, as PEFT's `lora.Linear` computes it."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer, options = layer, {"bias": False, "dtype": layer.weight.dtype}
        self.down = nn.Linear(layer.in_features, rank, **options)
        self.up = nn.Linear(rank, layer.out_features, **options)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x)) * 2.0


def adapt(model, rank, targets):
    """Freezes the model and gives these projections of each layer an adapter."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for target in targets.split("+"):
                name = f"{target}_proj"
                if hasattr(part, name):
                    setattr(part, name, Adapted(getattr(part, name), rank))


def conv(inputs, outputs, stride=1):
    layer = nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(layer, nn.InstanceNorm3d(outputs, affine=True), nn.ReLU())


class Level(nn.Module):
    def __init__(self, inputs, outputs, stride=1, goes_up=False):
        super().__init__()
        self.up = nn.ConvTranspose3d(inputs, outputs, 2, 2) if goes_up else None
        self.conv1 = conv(2 * outputs if goes_up else inputs, outputs, stride)
        self.conv2 = conv(outputs, outputs)

    def forward(self, x, *across):
        if self.up:
            x = self.up(x)
            x = torch.cat((x, *across), dim=1)
        x = self.conv1(x)
        return self.conv2(x)


class Unet3d(nn.Module):
    CLASSES = 3

    def __init__(self, is_checkpointed, channels=(32, 64, 128, 256, 320)):
        super().__init__()
        down = (1, *channels, channels[-1])
        sides = enumerate(zip(down, down[1:]))
        self.down = nn.ModuleList(Level(i, o, 2 if level else 1) for level, (i, o) in sides)
        up = (channels[-1], *reversed(channels))
        self.up = nn.ModuleList(Level(i, o, goes_up=True) for i, o in zip(up, up[1:]))
        self.output = nn.Conv3d(channels[0], self.CLASSES, 1)
        self.is_checkpointed = is_checkpointed

    def apply_stage(self, stage, *inputs):
        if not self.is_checkpointed:
            return stage(*inputs)
        from torch.utils.checkpoint import checkpoint

        return checkpoint(stage, *inputs, use_reentrant=False)

    def forward(self, x):
        across = []
        for stage in self.down:
            x = self.apply_stage(stage, x)
            across.append(x)
        across.pop()
        for stage in self.up:
            x = self.apply_stage(stage, x, across.pop())
        return self.output(x)


def dice_and_entropy(scores, labels):
    truth = F.one_hot(labels, Unet3d.CLASSES).movedim(-1, 1)[:, 1:].float()
    shares = torch.softmax(scores, 1)[:, 1:]
    both, either = (one.sum((2, 3, 4)) for one in (truth * shares, truth + shares))
    dice = (2 * both + 1e-6) / (either + 1e-6)
    return ((1 - dice).mean() + F.cross_entropy(scores, labels)) / 2


def to_fp8(matrix, dtype, by):
    """The matrix in FP8 with a scale for all of it, or for each row, and its scale."""
    largest = matrix.abs().amax(-1, keepdim=True) if by == "row" else matrix.abs().amax()
    scale = largest.float().clamp(min=1e-12) / torch.finfo(dtype).max
    return (matrix / scale).to(dtype), scale


def times(left, right, by, forward, bias=None):
    """`left` times `right` transposed, of two matrices that are not in FP8 yet."""
    kind = torch.float8_e4m3fn if forward else torch.float8_e5m2
    a, of_a = to_fp8(left, kind, by)
    b, of_b = to_fp8(right, torch.float8_e4m3fn, by)
    fast = forward or by == "row"
    more = {"out_dtype": torch.bfloat16, "use_fast_accum": fast, "bias": bias}
    return torch._scaled_mm(a, b.t(), of_a, of_b.t(), **more)


class Fp8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, by):
        ctx.save_for_backward(x, weight)
        ctx.by, ctx.has_bias = by, bias is not None
        rows = x.reshape(-1, x.shape[-1])
        y = times(rows, weight, by, True, bias if bias is None else bias.bfloat16())
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = times(rows, weight.t().contiguous(), ctx.by, False).view_as(x)
        if ctx.needs_input_grad[1]:
            inputs = x.reshape(-1, x.shape[-1]).t().contiguous()
            of_weight = times(rows.t().contiguous(), inputs, ctx.by, False)
        return of_x, of_weight, rows.sum(0) if ctx.has_bias else None, None


class Fp8Linear(nn.Linear):
    by = "tensor"

    def forward(self, x):
        # As autocast does, which knows nothing of this product.
        return Fp8Product.apply(x.bfloat16(), self.weight.bfloat16(), self.bias, self.by)


def make_fp8(model, by):
    """Linear layers multiply in FP8, but those whose sides it does not take, and those of scores."""
    for name, layer in model.named_modules():
        is_fit = type(layer) is nn.Linear and not any(side % 16 for side in layer.weight.shape)
        if is_fit and not name.endswith(("lm_head", "decoder")):
            layer.__class__, layer.by = Fp8Linear, by


MODELS = {
    **{name: llama(name) for name in LLAMAS},
    "resnet50": Resnet50,
    "unet-3d": Unet3d,
    "unet-3d-tiny": lambda is_checkpointed: Unet3d(is_checkpointed, (4, 8, 16)),
    "vit-b16": vit("vit_base_patch16_224"),
    "vit-l16": vit("vit_large_patch16_224"),
    "bert-base": bert(),
    "bert-large": bert(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
    "bert-tiny": bert(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    ),
}


def join_ranks():
    """The device of this process, after it has joined the others where there are several."""
    on_gpu = torch.cuda.is_available()
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return "cuda" if on_gpu else "cpu"
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    return device


def shard(model, precision):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    # Under autocast the products are in bf16 either way: parameters travel so too.
    policy = MixedPrecisionPolicy()
    if precision == "amp-bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in model.modules():
        if type(module).__name__ in BLOCKS:
            fully_shard(module, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


class Stage(nn.Module):
    """A rank's consecutive blocks of BERT or a ViT, with what lies before and after all of them."""

    def __init__(self, model, rank, world):
        super().__init__()
        self.is_first, self.is_last = rank == 0, rank + 1 == world
        is_bert = hasattr(model, "bert")
        blocks = model.bert.encoder.layer if is_bert else model.blocks
        begin, end = (one * len(blocks) // world for one in (rank, rank + 1))
        self.blocks = blocks[begin:end]
        self.tied = []
        if self.is_first:
            self.before = model.bert.embeddings if is_bert else Patches(model)
        if self.is_last:
            self.after = model.cls if is_bert else nn.Sequential(model.norm, Head(model))
        if is_bert and (self.is_first or self.is_last):
            self.tied = [model.bert.embeddings.word_embeddings.weight]

    def forward(self, x):
        if self.is_first:
            x = self.before(x)
        for block in self.blocks:
            x = block(x)
            # Older versions of transformers give a tuple.
            x = x[0] if isinstance(x, tuple) else x
        return self.after(x) if self.is_last else x

    def add_up_tied(self, group):
        """The embedding is the head too: each of the two ranks has a part of its gradient."""
        if group is not None:
            for weight in self.tied:
                torch.distributed.all_reduce(weight.grad, group=group)


class Patches(nn.Module):
    def __init__(self, vit):
        super().__init__()
        self.patch_embed = vit.patch_embed
        self.cls_token, self.pos_embed = vit.cls_token, vit.pos_embed

    def forward(self, images):
        x = self.patch_embed(images)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
        return x + self.pos_embed


class Head(nn.Module):
    def __init__(self, vit):
        super().__init__()
        self.head = vit.head

    def forward(self, x):
        return self.head(x[:, 0])


class Training:
    """One model with its optimizer and its data; `step` takes a step and gives its loss."""

    def __init__(self, model, variant, device, seed=1, compiled="none"):
        self.device, self.variant = torch.device(device), variant
        self.is_llama = model in LLAMAS
        self.is_text = self.is_llama or model.startswith("bert")
        self.is_volumes = model.startswith("unet-3d")
        precision = variant["precision"]
        torch.manual_seed(seed)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        is_last = variant["memory_format"] == "channels-last"
        last = torch.channels_last_3d if self.is_volumes else torch.channels_last
        self.memory_format = last if is_last else torch.contiguous_format
        is_checkpointed = variant["checkpointing"] == "blocks"
        if precision == "bf16":
            # On the device itself: a CPU takes minutes for billions of random weights.
            torch.set_default_dtype(torch.bfloat16)
            with self.device:
                self.model = MODELS[model](is_checkpointed)
            torch.set_default_dtype(torch.float32)
        else:
            self.model = MODELS[model](is_checkpointed)
        if variant.get("fp8", "none") != "none":
            make_fp8(self.model, variant["fp8"])
        if variant.get("lora_rank"):
            adapt(self.model, variant["lora_rank"], variant.get("lora_targets") or "q+v")
        self.words = getattr(getattr(self.model, "config", None), "vocab_size", None)
        # Each rank has data of its own.
        self.parallel = variant.get("parallel") or "none"
        rank, world = (int(os.environ.get(name, usual)) for name, usual in RANKS)
        if self.parallel == "pipeline" and world > 1:
            self.model = Stage(self.model, rank, world)
        else:
            seed += 1000 * rank
        if is_last:
            self.model = self.model.to(memory_format=self.memory_format)
        self.model.to(self.device).train()
        if self.parallel == "ddp":
            self.model = nn.parallel.DistributedDataParallel(self.model)
        elif self.parallel == "sharded":
            shard(self.model, precision)
        if compiled != "none":
            how = {"backend": compiled} if compiled == "cudagraphs" else {"mode": compiled}
            self.model = torch.compile(self.model, **how)
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        if variant["optimizer"] == "adamw":
            self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        else:
            self.optimizer = torch.optim.SGD(
                parameters, lr=1e-2, momentum=0.9, weight_decay=1e-4, fused=True
            )
        kind = self.device.type
        self.scaler = torch.amp.GradScaler(kind, enabled=precision == "amp-fp16")
        self.autocast = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(precision)
        self.loss_of = dice_and_entropy if self.is_volumes else nn.CrossEntropyLoss()
        self.schedule = None
        if isinstance(self.model, Stage):
            self.in_stages(rank, world)
        self.pool = [self.data(seed) for _ in range(min(variant["accumulation"], 2))]

    def in_stages(self, rank, world):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        # A group's making is every rank's.
        self.ends = torch.distributed.new_group([0, world - 1])
        stage = PipelineStage(self.model, rank, world, self.device)

        def loss(scores, labels):
            return self.loss_of(scores.flatten(0, -2).float(), labels.flatten())

        self.schedule = Schedule1F1B(stage, self.variant["accumulation"], loss_fn=loss)

    def step_in_stages(self):
        accumulation, count = self.variant["accumulation"], len(self.pool)
        parts = [self.pool[micro % count] for micro in range(accumulation)]
        inputs, labels = (torch.cat(of) for of in zip(*parts))
        given = (inputs,) if self.model.is_first else ()
        losses = [] if self.model.is_last else None
        self.schedule.step(*given, target=labels if self.model.is_last else None, losses=losses)
        self.model.add_up_tied(self.ends)
        return torch.stack(losses).mean().detach() if losses else None

    def data(self, seed):
        batch, generator = self.variant["batch"], torch.Generator().manual_seed(seed)
        if self.is_text:
            shape = (batch, self.variant.get("sequence_length") or 128)
            if self.is_llama:
                # The model shifts its labels by itself.
                tokens = torch.randint(1, self.words, shape, generator=generator).to(self.device)
                return tokens, tokens
            tokens = torch.randint(1000, 30522, shape, generator=generator)
            masked = torch.rand(shape, generator=generator) < 0.15
            labels = torch.where(masked, tokens, -100)
            return tokens.masked_fill(masked, 103).to(self.device), labels.to(self.device)
        if self.is_volumes:
            size = (batch, *[self.variant.get("image_size") or 128] * 3)
            images = torch.randn(size, generator=generator).unsqueeze(1)
            labels = torch.randint(0, Unet3d.CLASSES, size, generator=generator)
        else:
            images = torch.randn((batch, 3, 224, 224), generator=generator)
            labels = torch.randint(0, 1000, (batch,), generator=generator)
        # In one step, so that no second layout of them stays in the allocator's cache.
        images = images.contiguous(memory_format=self.memory_format).to(self.device)
        return images, labels.to(self.device)

    def patch(self, inputs, labels, edge):
        places = torch.randint(0, inputs.shape[-1] - edge + 1, (3,)).tolist()
        cut = (..., *(slice(at, at + edge) for at in places))
        return inputs[cut].contiguous(), labels[cut]

    def step(self):
        total, accumulation = None, self.variant["accumulation"]
        self.optimizer.zero_grad(set_to_none=True)
        fast = {"dtype": self.autocast or torch.bfloat16, "enabled": self.autocast is not None}
        if self.schedule:
            with torch.autocast(self.device.type, **fast):
                total = self.step_in_stages()
            self.optimizer.step()
            return total
        for micro in range(accumulation):
            inputs, labels = self.pool[micro % len(self.pool)]
            if self.variant.get("patch_size"):
                inputs, labels = self.patch(inputs, labels, self.variant["patch_size"])
            # Gradients are exchanged once a step.
            is_last = micro + 1 == accumulation
            if self.parallel == "ddp":
                self.model.require_backward_grad_sync = is_last
            elif self.parallel == "sharded":
                self.model.set_requires_gradient_sync(is_last)
            with torch.autocast(self.device.type, **fast):
                if self.is_text:
                    loss = self.model(input_ids=inputs, labels=labels).loss
                else:
                    loss = self.loss_of(self.model(inputs), labels)
            loss = loss / accumulation
            self.scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--image-size", type=int, help="edges of a volume")
    parser.add_argument("--patch-size", type=int, help="train on patches of volumes")
    parser.add_argument("--precision", choices=PRECISIONS, default="amp-bf16")
    parser.add_argument("--fp8", choices=FP8, default="none")
    parser.add_argument("--checkpointing", choices=("none", "blocks"), default="none")
    parser.add_argument("--memory-format", choices=("contiguous", "channels-last"))
    parser.add_argument("--optimizer", choices=("adamw", "sgd-momentum"))
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--lora-rank", type=int)
    parser.add_argument("--lora-targets", default="q+v")
    parser.add_argument("--parallel", choices=PARALLEL, default="none")
    parser.add_argument("--compile", choices=COMPILED, default="none")
    parser.add_argument("--steps", type=int, help="end after so many; without, never")
    variant = vars(parser.parse_args())
    model, compiled, steps = (variant.pop(name) for name in ("model", "compile", "steps"))
    is_staged = model.startswith(("bert", "vit"))
    if variant["parallel"] == "pipeline" and not is_staged:
        parser.error(f"{model} is not cut into stages here; use a bert or a vit")
    is_resnet = model == "resnet50"
    variant["memory_format"] = variant["memory_format"] or (
        "channels-last" if is_resnet else "contiguous"
    )
    variant["optimizer"] = variant["optimizer"] or ("sgd-momentum" if is_resnet else "adamw")
    training = Training(model, variant, join_ranks(), compiled=compiled)
    taken = 0
    while steps is None or taken < steps:
        training.step()
        taken += 1


if __name__ == "__main__":
    main()
