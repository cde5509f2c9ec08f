"""The hook on torch itself, where somebody asks for it: it needs an environment that has torch.

    TORCHGAUGE_TEST_PYTHON=/venv/bin/python python3 -m unittest real_torch

transformers, accelerate and lightning are tried where that environment has them.
"""

import os
import subprocess
import unittest

from test_torchgauge import Run as OfFake

PYTHON = os.environ.get("TORCHGAUGE_TEST_PYTHON", "")

#: Everything that a program takes steps with.
START = """
    import torch
    torch.set_num_threads(1)
    def model_and_optimizer(make=torch.optim.SGD):
        model = torch.nn.Linear(4, 4)
        return model, make(model.parameters(), lr=0.1)
"""

LOOP = (
    START
    + """
    model, optimizer = model_and_optimizer(torch.optim.{optimizer})
    taken = 0
    for i in range({count}):
        (model(torch.randn(2, 4)).sum() / {accumulation}).backward()
        if (i + 1) % {accumulation} == 0:
            optimizer.step()
            optimizer.zero_grad()
            taken += 1
    print(taken)
"""
)

DISTRIBUTED = (
    START
    + """
    import os, sys
    import torch.distributed as dist
    import torch.multiprocessing as mp
    def train(rank=None):
        if rank is not None:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
        world = {} if rank is None else {"rank": rank, "world_size": 2}
        dist.init_process_group("gloo", **world)
        model, optimizer = model_and_optimizer()
        model = torch.nn.parallel.DistributedDataParallel(model)
        for i in range(12):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
        dist.barrier()
    if __name__ == "__main__":
        if len(sys.argv) == 1:
            train()
        else:
            mp.start_processes(train, nprocs=2, start_method=sys.argv[1])
"""
)

TRAINER = """
    import os, tempfile
    os.environ.update(HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="true")
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    torch.set_num_threads(1)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 400
        def __getitem__(self, i):
            return {"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(i % 2)}
    told = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=30, use_cpu=True,
        gradient_accumulation_steps=3, report_to=[], save_strategy="no", disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=told, train_dataset=Data())
    trainer.train()
    print(trainer.state.global_step)
"""

ACCELERATE = (
    START
    + """
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model, optimizer = model_and_optimizer()
    loader = torch.utils.data.DataLoader(torch.randn(480, 4), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    taken = 0
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
            taken += accelerator.sync_gradients
    print(taken)
"""
)

LIGHTNING = """
    import logging, warnings
    warnings.simplefilter("ignore")
    import torch, lightning
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
        def training_step(self, batch, index):
            return self.layer(batch).sum()
        validation_step = training_step
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())
    loader = torch.utils.data.DataLoader(torch.randn(240, 4), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=2,
    )
    trainer.fit(Module(), loader, loader)
    print(trainer.global_step)
"""


def has(module):
    words = [PYTHON, "-c", "import " + module]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(PYTHON, "names no environment with torch in TORCHGAUGE_TEST_PYTHON")
class RealTorch(unittest.TestCase):
    def run_on_torch(self, program, asked=None, words=()):
        variables = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": os.environ.get("HOME", "/")}
        asked = dict({"warmup": 1, "measured": 1000}, **(asked or {}))
        run = OfFake(program, asked, words, variables, fake="", interpreter=PYTHON)
        self.assertEqual(run.status, 0, run.said)
        self.assertNotIn("torchgauge:", run.said)
        return run

    def check_count(self, program, expected):
        run = self.run_on_torch(program)
        own = int(run.printed.split()[-1])
        self.assertEqual((own, len(run.steps())), (expected, expected - 1))
        self.assertEqual(run.of("finished")[0]["event"], "finished")
        return run

    def test_a_plain_loop_with_and_without_accumulation(self):
        for accumulation in (1, 3):
            for optimizer in ("SGD", "AdamW"):
                count = 12 * accumulation
                program = LOOP.format(count=count, accumulation=accumulation, optimizer=optimizer)
                run = self.check_count(program, 12)
                # Two moments and a count of steps for each of two tensors, 20 numbers together.
                state = run.values().get("optimizer_bytes", 0)
                self.assertIn(state, {"SGD": (0,), "AdamW": (168, 160)}[optimizer])

    def test_operators_of_profiled_steps(self):
        program = LOOP.format(count=20, accumulation=1, optimizer="SGD")
        for until in ("measured", "exit"):
            asked = {"measured": 3, "profiled": 4, "until": until}
            run = self.run_on_torch(program, asked)
            self.assertEqual(len(run.steps()), 3)
            kernels = {line["name"]: line for line in run.of("kernel")}
            # Forward once a step; backward needs a product for the weights alone.
            self.assertEqual(kernels["aten::addmm"]["count"], 1)
            self.assertEqual(kernels["aten::mm"]["count"], 1)
            for kernel in kernels.values():
                self.assertGreaterEqual(kernel["seconds"], 0)
            self.assertLess(sum(kernel["seconds"] for kernel in kernels.values()), 1)
            self.assertEqual(len(run.of("finished")), 1)

    def test_skips_of_a_loss_scaler(self):
        program = START + """
    model, optimizer = model_and_optimizer()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for i in range(14):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(2, 4)).sum()
        if i in (1, 6, 7):
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
        words = [PYTHON, "-c", "import torch; torch.amp.GradScaler('cpu')"]
        if subprocess.run(words, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("this torch has no loss scaler for the CPU")
        run = self.run_on_torch(program, {"warmup": 3, "measured": 4})
        self.assertEqual(run.values()["skipped_steps_count"], 2)
        self.assertEqual(run.facts()["autocast"], "cpu bfloat16")

    def test_compiled_models_and_optimizers(self):
        program = START + """
    model, optimizer = model_and_optimizer(torch.optim.AdamW)
    compiled = torch.compile(model)
    step = torch.compile(lambda: optimizer.step())
    for i in range(8):
        compiled(torch.randn(2, 4)).sum().backward()
        step()
        optimizer.zero_grad()
"""
        if not has("torch._dynamo"):
            self.skipTest("this torch cannot compile")
        run = self.run_on_torch(program, {"warmup": 3, "measured": 4})
        self.assertEqual(len(run.steps()), 4)
        self.assertEqual(run.values()["compile_graphs_count"], 0)
        self.assertGreaterEqual(run.values()["run_compile_graphs_count"], 1)

    def test_modules_add_up_and_change_nothing(self):
        program = START + """
    import sys
    from torch.utils.checkpoint import checkpoint
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)
            self.fc1 = torch.nn.Linear(16, 64)
            self.act = torch.nn.ReLU(inplace=True)
            self.fc2 = torch.nn.Linear(64, 16)
        def forward(self, x):
            return x + self.fc2(self.act(self.fc1(self.norm(x))))
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(100, 16)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
            self.head = torch.nn.Linear(16, 100)
        def forward(self, x):
            x = self.embed(x)
            for block in self.blocks:
                again = sys.argv[1:] == ["checkpoint"]
                x = checkpoint(block, x, use_reentrant=False) if again else block(x)
            return self.head(x)
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    data = torch.randint(0, 100, (8, 32))
    for _ in range(12):
        optimizer.zero_grad()
        scores = net(data).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(scores, data.flatten())
        loss.backward()
        optimizer.step()
    print(loss.item())
"""
        asked = {"warmup": 4, "measured": 3, "until": "exit"}
        said = set()
        for words, kept in ([], 4 * 8 * 32 * (16 + 64 + 16) + 2 * 4 * 8 * 32), (["checkpoint"], 16384):
            for attribution in (True, False):
                run = OfFake(
                    program,
                    dict(asked, attribution=attribution),
                    words,
                    {"PYTHONDONTWRITEBYTECODE": "1"},
                    fake="",
                    interpreter=PYTHON,
                )
                self.assertEqual(run.status, 0, run.said)
                self.assertNotIn("no modules", run.said)
                said.add(run.printed)
                modules = {line["name"]: line["values"] for line in run.of("module")}
                self.assertEqual(bool(modules), attribution)
                if not attribution:
                    continue
                # The normed input, the inner one, the block's output, and LayerNorm's statistics.
                self.assertEqual(modules["blocks.0"]["kept_bytes"], kept)
                self.assertEqual(modules["blocks.0.fc1"]["parameter_bytes"], 4 * (16 * 64 + 64))
                self.assertEqual(modules["blocks.0.fc1"]["optimizer_bytes"], 8 * (16 * 64 + 64) + 8)
                self.assertGreater(modules["blocks.0.fc1"]["backward_seconds"], 0)
                outermost = [name for name in modules if "." not in name and name != "[step]"]
                for value, whole in modules["[step]"].items():
                    found = sum(modules[name].get(value, 0) for name in outermost)
                    self.assertAlmostEqual(found, whole, delta=0.01 * whole, msg=value)
        self.assertEqual(len(said), 1, "the same loss to the bit")

    def test_workers_of_a_data_loader_report_nothing(self):
        program = START + """
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 48
        def __getitem__(self, i):
            return torch.randn(4)
    if __name__ == "__main__":
        model, optimizer = model_and_optimizer()
        for kind in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(
                Data(), batch_size=8, num_workers=2, multiprocessing_context=kind
            )
            for batch in loader:
                model(batch).sum().backward()
                optimizer.step()
        print(12)
"""
        run = self.check_count(program, 12)
        self.assertEqual(len(run.of("started")), 1)

    def test_ranks_however_they_are_started(self):
        for words in ([], ["spawn", "29511"], ["fork", "29512"]):
            launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port"]
            with self.subTest(words=words):
                run = OfFake(
                    DISTRIBUTED,
                    {"warmup": 2, "measured": 5},
                    words,
                    {"PYTHONDONTWRITEBYTECODE": "1"},
                    fake="",
                    interpreter=PYTHON,
                    python=[] if words else launcher + ["29510"],
                )
                self.assertEqual(run.status, 0, run.said)
                for rank in (0, 1):
                    self.assertEqual(len(run.of("started", rank)), 1)
                    self.assertEqual(len(run.steps(rank)), 5)
                    self.assertEqual(len(run.of("finished", rank)), 1)

    def test_libraries_that_have_the_loop(self):
        for module, program in [
            ("transformers", TRAINER),
            ("accelerate", ACCELERATE),
            ("lightning", LIGHTNING),
        ]:
            with self.subTest(module=module):
                if not has(module):
                    self.skipTest("the environment has no " + module)
                self.check_count(program, 30)


if __name__ == "__main__":
    unittest.main()
