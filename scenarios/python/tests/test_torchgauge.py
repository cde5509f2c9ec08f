"""The helper and the hook, on a torch that computes nothing. `python3 -m unittest discover`."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FAKE = os.path.join(HERE, "fake")

LOOP = """
    import torch
    optimizer = torch.optim.SGD([torch.Parameter()])
    for i in range(10):
        torch.work()
        optimizer.step()
"""


class Run:
    """A program that ran: its lines, its status, and what it printed."""

    def __init__(
        self,
        program,
        asked,
        words=(),
        variables=(),
        is_hooked=True,
        interpreter=sys.executable,
        python=(),
        fake=FAKE,
        folders=(),
        ranks=None,
    ):
        with tempfile.TemporaryDirectory() as folder:
            hook = os.path.join(folder, "hook")
            shutil.copytree(os.path.join(ROOT, "hook"), hook)
            shutil.copy(os.path.join(ROOT, "torchgauge.py"), hook)
            events = os.path.join(folder, "events")
            script = os.path.join(folder, "program.py")
            with open(script, "w") as file:
                file.write(textwrap.dedent(program))
            open(events, "w").close()
            path = [hook if is_hooked else ROOT, fake, *folders]
            environment = {
                "PATH": os.environ.get("PATH", ""),
                "PYTHONPATH": ":".join(filter(None, path)),
            }
            if asked is not None:
                told = {"version": 4, "run": "r", "warmup": 2, "measured": 3, "until": "measured"}
                told.update(asked)
                environment["TORCHGAUGE_EVENTS"] = events
                environment["TORCHGAUGE_RUN"] = json.dumps(told)
            environment.update(variables)
            command = [interpreter, *python, script, *words]
            if ranks is not None:
                launcher = os.path.join(hook, "torchgauge_ranks.py")
                command = [interpreter, "-IS", launcher, str(ranks), events, *command]
            ended = subprocess.run(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
                timeout=300,
            )
            self.status, self.printed, self.said = ended.returncode, ended.stdout, ended.stderr
            snapshot = os.path.join(folder, "snapshot.pickle")
            self.snapshot = None
            if os.path.exists(snapshot):
                with open(snapshot) as file:
                    self.snapshot = file.read()
            with open(events) as file:
                self.lines = [json.loads(line) for line in file if line.endswith("\n")]

    def of(self, event, rank=0):
        return [line for line in self.lines if line["event"] == event and line.get("rank", 0) == rank]

    def values(self, rank=0):
        return {line["name"]: line["value"] for line in self.of("value", rank)}

    def facts(self):
        return self.of("facts")[0]["facts"]

    def steps(self, rank=0):
        return [line["values"]["step_seconds"] for line in self.of("step", rank)]


class Ranks(unittest.TestCase):
    """The launcher of ranks."""

    QUICK = {"TORCHGAUGE_RANKS_GRACE": "0.5", "TORCHGAUGE_RANKS_OTHERS": "1"}

    def test_each_rank_has_the_environment_of_torchrun_and_lines_of_its_own(self):
        program = """
            import os
            names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR".split()
            print(*(os.environ[name] for name in names), int(os.environ["MASTER_PORT"]) > 0)
        """
        program += textwrap.indent(textwrap.dedent(LOOP), " " * 12)
        run = Run(program, {"samples_per_step": 8}, ranks=3)
        self.assertEqual((run.status, run.said), (0, ""))
        expected = ["{0} {0} 3 3 127.0.0.1 True".format(rank) for rank in range(3)]
        self.assertEqual(sorted(run.printed.splitlines()), expected)
        for rank in range(3):
            self.assertEqual(len(run.steps(rank)), 3)
            self.assertEqual(len(run.of("started", rank)), 1)
            self.assertEqual(len(run.of("finished", rank)), 1)

    def check(self, program, status, rank, reason, words, ranks=2):
        run = Run(program, {"until": "exit"}, variables=self.QUICK, ranks=ranks)
        self.assertEqual(run.status, status, run.said)
        failed = [line for line in run.lines if line["event"] == "failed"]
        self.assertEqual([line["rank"] for line in failed], [rank], failed)
        self.assertEqual(failed[0]["reason"], reason)
        self.assertIn(words, failed[0]["message"])
        return failed[0]

    def test_the_first_that_is_lost_is_named_and_ends_all(self):
        wait = "import os, signal, sys, time\nrank = int(os.environ['RANK'])\n{}\ntime.sleep(60)\n"
        kill = "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)"
        self.check(wait.format(kill), 1, 1, "rank-crash", "ended by signal 9")
        # The hook has nothing to say of it without torch.
        self.check(wait.format("if rank == 2: os._exit(3)"), 1, 2, "rank-exit", "status 3", 3)
        # Its own words stay.
        raises = "if rank == 1: raise KeyError('shard')"
        program = textwrap.dedent(LOOP) + wait.format(raises)
        line = self.check(program, 1, 1, "exception", "shard")
        self.assertEqual(line["phase"], "teardown")
        # Neither SIGTERM nor a wait ends it.
        deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif rank == 0: sys.exit(4)"
        self.check(wait.format(deaf), 1, 0, "rank-exit", "status 4")

    def test_one_that_hangs_while_others_are_done_is_ended(self):
        hangs = "import os, time\nif os.environ['RANK'] == '1': time.sleep(60)\n"
        self.check(hangs, 1, 1, "rank-hang", "still ran 1 s after the first rank was done")
        slow = Run("import os, time\ntime.sleep(0.3 * int(os.environ['RANK']))", {}, ranks=3)
        self.assertEqual(slow.status, 0, slow.said)

    def test_a_command_that_is_not_there_is_said(self):
        with tempfile.NamedTemporaryFile("r") as events:
            launcher = os.path.join(ROOT, "hook", "torchgauge_ranks.py")
            words = [sys.executable, "-IS", launcher, "2", events.name, "/no/such/program"]
            ended = subprocess.run(words, stderr=subprocess.PIPE, universal_newlines=True)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("rank 0: cannot be started", ended.stderr)
            self.assertEqual(json.loads(events.read())["reason"], "rank-exit")


class Hook(unittest.TestCase):
    def test_a_plain_loop(self):
        run = Run(LOOP, {"samples_per_step": 8})
        self.assertEqual((run.status, run.said), (0, ""))
        order = [line["event"] for line in run.lines if line["event"] != "heartbeat"]
        self.assertEqual(order[0], "started")
        self.assertEqual(order[-1], "finished")
        self.assertLess(order.index("phase-began"), order.index("step"))
        self.assertEqual(len(run.steps()), 3)
        self.assertEqual(run.of("started")[0]["libtorch_version"], "2.99.0")
        self.assertEqual(run.of("started")[0]["run"], "r")
        values = run.values()
        self.assertEqual(values["samples_count"], 24)
        rate = values["throughput_samples_per_second"]
        self.assertAlmostEqual(rate * values["measured_seconds"], 24)
        self.assertGreater(values["time_to_first_step_seconds"], 0)
        self.assertEqual(values["optimizer_bytes"], 40)
        self.assertEqual(run.facts()["step_source"], "hook")
        for line in run.of("value"):
            self.assertEqual(line["source"], "hook")

    def test_a_gpu_is_waited_for_before_and_after_the_measured_steps_alone(self):
        program = """
            import torch
            optimizer = torch.optim.SGD([torch.Parameter("cuda", 1)])
            for i in range(10):
                torch.work(allocated=1000 if i < 2 else 600)
                torch.log.append("step")
                optimizer.step()
            first = torch.log.index("reset")
            steps = [i for i, word in enumerate(torch.log) if word == "step" and i > first]
            print(torch.log[first:steps[2]])
            print(torch.log[steps[2]:steps[3]])
        """
        run = Run(program, {"samples_per_step": 1}, variables={"FAKE_CUDA": "1"})
        self.assertEqual((run.status, run.said), (0, ""))
        within, after = run.printed.splitlines()
        self.assertNotIn("synchronize", within)
        self.assertEqual(within.count("record"), 3, "one before the steps, one after each")
        self.assertIn("synchronize", after)
        for seconds in run.steps():
            self.assertAlmostEqual(seconds, 0.01)
        values = run.values()
        self.assertEqual(values["peak_allocated_bytes"], 600)
        self.assertEqual(values["run_peak_allocated_bytes"], 1000)
        self.assertEqual(values["reserved_bytes"], 1000)
        self.assertEqual(values["allocation_retries_count"], 2)
        self.assertEqual(values["device_total_bytes"], 80 << 30)
        cuda = run.of("started")[0]["cuda"]
        self.assertEqual((cuda["uuid"], cuda["capability"]), ("GPU-f-1", "9.0"))
        self.assertEqual(cuda["cudnn_version"], "9.19.0")
        facts = run.facts()
        self.assertEqual((facts["device"], cuda["nccl_version"]), ("cuda:1", "2.27.3"))

    def test_gradients_of_the_first_warm_up_steps_have_a_digest_where_they_repeat(self):
        program = """
            import sys
            import torch

            class Gradient:
                def element_size(self):
                    return 4

                def view(self, kind):
                    return self

                def sum(self, dtype):
                    return int(sys.argv[1])

            torch.int16 = torch.int32 = torch.int64 = "whole"
            torch.are_deterministic_algorithms_enabled = lambda: sys.argv[1] != "0"
            parameters = [torch.Parameter(), torch.Parameter()]
            for parameter in parameters:
                parameter.grad = Gradient()
            optimizer = torch.optim.SGD(parameters)
            for _ in range(10):
                torch.work()
                optimizer.step()
        """

        def digests(word):
            values = Run(program, {}, [word]).values()
            return {name: values[name] for name in values if "digest" in name}

        digest = (-3 * 31 - 3) % 2**52
        names = ["warmup_step_1_gradient_digest", "warmup_step_2_gradient_digest"]
        self.assertEqual(digests("-3"), dict.fromkeys(names, digest))
        self.assertEqual(digests("0"), {})

    def test_what_a_program_keeps_shows_after_each_step(self):
        program = LOOP.replace("Parameter()", "Parameter('cuda', 0)")
        program = program.replace("torch.work()", "torch.work(kept=7)")
        run = Run(program, {}, variables={"FAKE_CUDA": "1"})
        after = [step["values"]["step_allocated_bytes"] for step in run.of("step")]
        self.assertEqual([later - now for now, later in zip(after, after[1:])], [7, 7])
        run = Run(LOOP, {})
        self.assertNotIn("step_allocated_bytes", run.of("step")[0]["values"], "of a CPU unknown")

    def test_many_measured_steps_on_a_gpu_are_all_timed(self):
        program = LOOP.replace("Parameter()", "Parameter('cuda', 0)").replace("10", "400")
        run = Run(program, {"measured": 300}, variables={"FAKE_CUDA": "1"})
        self.assertEqual(len(run.steps()), 300)
        self.assertAlmostEqual(sum(run.steps()), 3.0)

    def test_torch_without_the_hook_for_steps(self):
        run = Run(LOOP, {}, variables={"FAKE_OLD": "1"})
        self.assertEqual((run.status, run.said, len(run.steps())), (0, "", 3))

    def test_a_second_import_of_torch_after_one_that_failed(self):
        program = "try:\n    import torch\nexcept ImportError:\n    pass\n" + textwrap.dedent(LOOP)
        with tempfile.TemporaryDirectory() as folder:
            marker = os.path.join(folder, "marker")
            run = Run(program, {}, variables={"FAKE_BROKEN": marker})
        self.assertEqual((run.status, len(run.steps())), (0, 3))

    def test_a_library_that_asks_whether_torch_is_there_before_anybody_imports_it(self):
        program = "import importlib.util\nassert importlib.util.find_spec('torch')\n"
        run = Run(program + textwrap.dedent(LOOP), {})
        self.assertEqual((run.status, run.said, len(run.steps())), (0, "", 3))

    def test_a_hook_of_somebody_else_is_called_as_ever(self):
        program = """
            import torch
            from torch.optim.optimizer import register_optimizer_step_post_hook as register
            seen = []
            register(lambda *_: seen.append(1))
            optimizer = torch.optim.SGD([torch.Parameter()])
            for i in range(10):
                optimizer.step()
            print(len(seen))
        """
        run = Run(program, {})
        self.assertEqual((run.printed, run.said, len(run.steps())), ("10\n", "", 3))

    def test_of_two_optimizers_the_first_one_counts_as_long_as_it_lives(self):
        program = """
            import torch
            one, two = [torch.optim.SGD([torch.Parameter()]) for _ in range(2)]
            for i in range(4):
                one.step()
                two.step()
            del one
            for i in range(%d):
                two.step()
        """
        self.assertEqual(len(Run(program % 0, {}).steps()), 2)
        self.assertEqual(len(Run(program % 1, {}).steps()), 3)

    def test_skips_of_a_loss_scaler_and_autocast(self):
        program = """
            import torch
            optimizer, scaler = torch.optim.SGD([torch.Parameter()]), torch.GradScaler()
            for i in range(10):
                with torch.autocast("cuda", "torch.bfloat16"):
                    torch.work()
                scaler.step(optimizer, is_finite=i not in (1, 4, 5))
        """
        run = Run(program, {})
        self.assertEqual(run.values()["skipped_steps_count"], 2)
        self.assertEqual(run.facts()["autocast"], "cuda bfloat16")

    def test_children_write_nothing_of_their_parent(self):
        program = """
            import os
            import torch
            optimizer = torch.optim.SGD([torch.Parameter()])
            for i in range(10):
                optimizer.step()
                if i in (0, 3):
                    child = os.fork()
                    if child == 0:
                        for _ in range(9):
                            optimizer.step()
                        raise SystemExit(0)
                    os.waitpid(child, 0)
        """
        run = Run(program, {})
        self.assertEqual(len(run.of("started")), 1)
        self.assertEqual((run.status, len(run.steps())), (0, 3))

    def test_a_child_that_trains_is_the_one_that_reports(self):
        program = """
            import multiprocessing
            import torch
            def train():
                optimizer = torch.optim.SGD([torch.Parameter()])
                for i in range(4):
                    optimizer.step()
            if __name__ == "__main__":
                multiprocessing.set_start_method("fork")
                child = multiprocessing.Process(target=train)
                child.start()
                child.join()
        """
        run = Run(program, {})
        self.assertEqual((len(run.of("started")), len(run.steps())), (1, 2))
        self.assertEqual(len(run.of("finished")), 1)

    def test_ranks_share_the_file_and_no_two_processes_a_rank(self):
        program = """
            import os, subprocess, sys
            if len(sys.argv) == 1:
                for rank in ("0", "1", "1"):
                    environment = dict(os.environ, RANK=rank)
                    subprocess.run([sys.executable, __file__, "child"], env=environment, check=True)
                raise SystemExit
            import torch
            optimizer = torch.optim.SGD([torch.Parameter()])
            for i in range(10):
                optimizer.step()
        """
        run = Run(program, {})
        self.assertEqual(run.status, 0, run.said)
        for rank in (0, 1):
            self.assertEqual([line["rank"] for line in run.of("started", rank)], [rank])
            self.assertEqual(len(run.steps(rank)), 3)

    def test_a_clock_that_is_set_meanwhile_changes_no_duration(self):
        jump = "optimizer = torch.optim.SGD([torch.Parameter()])\n    import time\n    " \
               "time.time = lambda told=time.time: told() {} 3600"
        without_steps = "import torch\nimport time\ntime.time = lambda told=time.time: told() {} 3600"
        for sign in "+-":
            jumping = LOOP.replace("optimizer = torch.optim.SGD([torch.Parameter()])", jump.format(sign))
            for program in (jumping, without_steps.format(sign)):
                run = Run(program, {})
                self.assertEqual((run.status, run.said), (0, ""))
                seconds = [line["seconds"] for line in run.of("phase-ended")]
                seconds += [value for name, value in run.values().items() if name.endswith("_seconds")]
                self.assertGreater(len(seconds), 3)
                for duration in seconds:
                    self.assertTrue(0 <= duration < 600, (sign, seconds))

    def test_fewer_steps_than_asked_for_are_what_there_is(self):
        run = Run(LOOP.replace("range(10)", "range(4)"), {"samples_per_step": 1})
        self.assertEqual(len(run.steps()), 2)
        self.assertEqual(run.values()["samples_count"], 2)
        self.assertEqual(len(run.of("finished")), 1)

    def test_a_program_without_steps_is_measured_from_its_start_to_its_exit(self):
        run = Run("import torch\ntorch.work()", {})
        self.assertEqual(run.facts()["step_source"], "none")
        self.assertEqual(run.steps(), [])
        self.assertGreater(run.values()["measured_seconds"], 0)
        self.assertEqual(run.lines[-1]["event"], "finished")

    def test_the_last_words_of_a_program_that_fails(self):
        for error, reason, message in [
            ("ValueError('bad')", "exception", "ValueError: bad"),
            ("ValueError('a\\nb\\nc')", "exception", "ValueError: a … c"),
            ("KeyboardInterrupt()", "exception", "KeyboardInterrupt"),
            (
                "torch.OutOfMemoryError('Tried to allocate 1.50 GiB.')",
                "out-of-memory",
                "OutOfMemoryError: Tried to allocate 1.50 GiB.",
            ),
        ]:
            for at in (0, 3):
                program = LOOP + "        if i == {}: raise {}\n".format(at, error)
                program = program.replace("Parameter()", "Parameter('cuda', 0)")
                run = Run(program, {}, variables={"FAKE_CUDA": "1"})
                self.assertNotEqual(run.status, 0)
                self.assertIn(message.split()[0], run.said, "the traceback is still printed")
                last = run.lines[-1]
                self.assertEqual(
                    (last["event"], last["reason"], last["message"]), ("failed", reason, message)
                )
                self.assertEqual("shortage" in last, reason == "out-of-memory")
                self.assertNotIn("rank", last, "nothing says that it is one of several")
        shortage = last["shortage"] if "shortage" in last else {}
        self.assertEqual(shortage.get("requested_bytes"), 3 << 29)

    def test_allocations_are_recorded_where_that_is_asked_for(self):
        loop = LOOP.replace("Parameter()", "Parameter('cuda', 0)")
        out = loop + "        if i == 3: torch.run_out()\n"
        on_out = "on-out-of-memory"
        gpu = {"FAKE_CUDA": "1"}
        for program, asked, variables, expect in [
            (loop, False, gpu, None),
            # The measured steps end with the fifth.
            (loop, True, gpu, "5;"),
            (loop, on_out, gpu, None),
            (out, on_out, gpu, "4;"),
            (out, True, gpu, "4;"),
            (loop, True, {}, None),
            ("import torch; torch.work()", True, gpu, "1;"),
        ]:
            run = Run(program, {"snapshot": asked, "snapshot_entries": 5000}, variables=variables)
            self.assertEqual(run.snapshot, expect, (asked, variables, run.said))
        words = loop + "    print(torch.log[0])"
        run = Run(words, {"snapshot": True, "snapshot_entries": 5000}, variables=gpu)
        self.assertIn("{'max_entries': 5000, 'stacks': 'python'}", run.printed)
        run = Run(loop, {"snapshot": True}, variables={**gpu, "FAKE_NO_SNAPSHOT": "1"})
        self.assertEqual((run.status, run.snapshot, len(run.steps())), (0, None, 3))
        self.assertIn("no snapshot: RuntimeError: no room", run.said)

    def test_why_a_launchers_command_failed_and_not_that_it_did(self):
        program = """
            import subprocess, sys
            if len(sys.argv) == 1:
                # One that may fail, before the one that is not to.
                probe = [sys.executable, "-c", "import nothing_of_this_name"]
                subprocess.run(probe, stderr=subprocess.DEVNULL)
                subprocess.run([sys.executable, __file__, "child"], check=True)
            if sys.argv[1] == "child":
                # A launcher of its own.
                subprocess.run([sys.executable, __file__, "grandchild"], check=True)
            import torch
            raise {}
        """
        for error, reason, message in [
            ("RuntimeError('no compiler')", "exception", "RuntimeError: no compiler"),
            ("torch.OutOfMemoryError('full')", "out-of-memory", "OutOfMemoryError: full"),
        ]:
            run = Run(program.format(error), {})
            self.assertIn("CalledProcessError", run.said)
            last = run.lines[-1]
            self.assertEqual((last["reason"], last["message"]), (reason, message))

    def test_a_command_that_fails_after_another_one_that_was_to(self):
        program = """
            import subprocess, sys
            probe = [sys.executable, "-c", "import nothing_of_this_name", "probe"]
            subprocess.run(probe, stderr=subprocess.DEVNULL)
            subprocess.run(["false"], check=True)
        """
        last = Run(program, {}).lines[-1]
        self.assertTrue(last["message"].startswith("CalledProcessError: "), last)

    def test_a_process_that_another_one_started_does_not_fail_in_its_name(self):
        program = """
            import subprocess, sys
            subprocess.run([sys.executable, "-c", "import torch; 1 / 0"], stderr=subprocess.DEVNULL)
            import torch
            optimizer = torch.optim.SGD([torch.Parameter()])
            for i in range(10):
                optimizer.step()
        """
        run = Run(program, {})
        self.assertEqual((len(run.of("failed")), len(run.steps())), (0, 3))

    def test_the_sitecustomize_of_the_image_is_called(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
                file.write("import builtins\nbuiltins.of_the_image = 7\n")
            program = "import sitecustomize\nprint(of_the_image, sitecustomize.__file__)\n"
            run = Run(program + textwrap.dedent(LOOP), {}, folders=[folder])
        self.assertEqual(run.printed.split()[0], "7")
        self.assertTrue(run.printed.split()[1].startswith(folder))
        self.assertEqual(len(run.steps()), 3)

    def test_without_anybody_who_asks_nothing_happens(self):
        program = LOOP + "\n    import sys\n    print('torchgauge' in sys.modules)\n"
        run = Run(program, None)
        self.assertEqual((run.status, run.said, run.printed, run.lines), (0, "", "False\n", []))

    def test_a_run_file_that_cannot_be_read_costs_the_program_nothing(self):
        for text in ("{", "/no/such/file", '{"measured":"x"}', "[]"):
            run = Run(LOOP, {}, variables={"TORCHGAUGE_RUN": text})
            self.assertEqual((run.status, run.lines), (0, []))
            self.assertIn("TORCHGAUGE_RUN cannot be read", run.said)

    def test_a_file_that_cannot_be_written_costs_the_program_nothing(self):
        full = """
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
        """
        for path in ("/no/such/folder/events", "/dev/full", "/", None):
            program = (LOOP if path else textwrap.dedent(full) + textwrap.dedent(LOOP))
            program = textwrap.dedent(program) + "print('end')\n"
            run = Run(program, {}, variables={"TORCHGAUGE_EVENTS": path} if path else {})
            self.assertEqual((run.status, run.printed), (0, "end\n"), run.said)
            self.assertEqual(run.said.count("recording has ended"), 1, run.said)

    def test_an_isolated_python_has_no_hook(self):
        program = "import sys\nsys.path.insert(0, {!r})\n".format(FAKE) + textwrap.dedent(LOOP)
        run = Run(program, {}, python=["-I"])
        self.assertEqual((run.status, run.lines), (0, []))


class Traces(unittest.TestCase):
    def test_a_snapshot_becomes_a_trace(self):
        moves = [("free_completed", 9, 5), ("alloc", 1, 7), ("segment_alloc", 1, 8), ("alloc", 9, 6)]
        moves += [("free_requested", 1, 7), ("free_completed", 1, 7), ("alloc", 1, 3)]
        trace = [{"action": action, "addr": at, "size": size} for action, at, size in moves]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            with open(path, "wb") as file:
                pickle.dump({"segments": [], "device_traces": [trace]}, file)
            command = [sys.executable, os.path.join(ROOT, "trace.py"), path]
            told = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True)
        self.assertEqual(told.stdout.split("\n"), ["+1 5", "-1", "+2 7", "+3 6", "-2", "+4 3", ""])


class Kernels(unittest.TestCase):
    GPU = LOOP.replace("Parameter()", "Parameter('cuda', 0)")

    def run_on_gpu(self, kernels="2", asked=None, program=GPU):
        asked = asked or {"profiled": 4}
        return Run(program, asked, variables={"FAKE_CUDA": "1", "FAKE_PROFILER": kernels})

    def test_kernels_of_steps_after_the_measured_ones(self):
        program = self.GPU + "    print(torch.log[torch.log.index('reset'):])\n"
        run = self.run_on_gpu(program=program)
        self.assertEqual((run.status, run.said), (0, ""))
        first, second = run.of("kernel")
        self.assertEqual(first["name"], "void k0<float>( [2J )")
        self.assertEqual((first["count"], second["count"]), (1, 1), "of one step")
        self.assertAlmostEqual(first["seconds"], 1000e-6)
        self.assertAlmostEqual(second["seconds"], 999e-6)
        self.assertEqual((len(second["name"]), second["name"][-1]), (200, "…"))
        log = run.printed
        self.assertEqual(log[: log.index("'profile'")].count("'work'"), 3, "all measured")
        within = log[log.index("'profile'") : log.index("'profile-ended'")]
        self.assertEqual(within.count("'work'"), 4)
        self.assertNotIn("'record'", within)
        order = [line["event"] for line in run.lines]
        self.assertLess(order.index("facts"), order.index("kernel"), "memory was read before")
        self.assertEqual(order[-1], "finished")
        phases = [line["phase"] for line in run.of("phase-ended")]
        self.assertEqual(phases[-2:], ["measure", "profile"])
        self.assertEqual(len(run.steps()), 3)

    def test_operators_of_a_cpu_by_the_time_of_their_own(self):
        run = Run(LOOP, {"profiled": 2})
        found = [(line["name"], line["count"], line["seconds"]) for line in run.of("kernel")]
        self.assertEqual(found, [("aten::mm", 1, 0.008), ("aten::linear", 1, 0.001)])

    def test_of_many_kernels_the_rest_is_one_sum(self):
        found = self.run_on_gpu("250").of("kernel")
        self.assertEqual(len(found), 201)
        self.assertEqual((found[-1]["name"], found[-1]["count"]), ("[the rest]", 50))
        self.assertAlmostEqual(found[-1]["seconds"], sum(1000 - i for i in range(200, 250)) / 1e6)

    def test_nobody_asks_for_kernels(self):
        run = self.run_on_gpu("missing", {"profiled": 0})
        self.assertEqual((run.status, run.said, run.of("kernel")), (0, "", []))
        self.assertNotIn("profile", [line["phase"] for line in run.of("phase-ended")])

    def test_modules_that_cannot_be_attributed_cost_the_run_nothing(self):
        run = Run(LOOP, {"attribution": True, "warmup": 3})
        self.assertEqual((run.status, len(run.steps())), (0, 3))
        self.assertEqual(run.said.count("torchgauge: no modules: AttributeError"), 1, run.said)
        self.assertEqual(run.of("module"), [])
        for asked in ({"attribution": True, "warmup": 2}, {"warmup": 3}):
            run = Run(LOOP, asked)
            self.assertEqual((run.said, run.of("module")), ("", []))

    def test_a_profiler_that_does_not_work_costs_the_run_nothing(self):
        for how, why in [
            ("missing", "ImportError: no profiler was built in"),
            ("refuses", "RuntimeError: another profiler is running"),
            ("breaks", "RuntimeError: the trace is lost"),
        ]:
            for until in ("measured", "exit"):
                run = self.run_on_gpu(how, {"profiled": 2, "until": until})
                self.assertEqual((run.status, run.of("kernel")), (0, []))
                self.assertEqual(run.said, "torchgauge: no kernels: {}\n".format(why))
                self.assertEqual(len(run.steps()), 3)
                self.assertEqual(run.lines[-1]["event"], "finished")

    def test_a_program_that_ends_among_the_profiled_steps(self):
        for count, expect in [(5, 0), (6, 2), (7, 2)]:
            program = self.GPU.replace("10", str(count))
            run = self.run_on_gpu(program=program)
            self.assertEqual((run.status, run.said, len(run.steps())), (0, "", 3))
            self.assertEqual([line["count"] for line in run.of("kernel")], [1] * expect)
            self.assertEqual(len(run.of("finished")), 1)

    def test_metrics_come_after_the_profiled_steps_until_the_exit(self):
        program = self.GPU + "    import torchgauge\n    torchgauge.metric('bleu', 1)\n"
        run = self.run_on_gpu(asked={"profiled": 2, "until": "exit"}, program=program)
        self.assertEqual((run.said, len(run.of("kernel"))), ("", 2))
        self.assertEqual(run.values()["bleu"], 1)

    def test_of_several_ranks_the_first_one_reports_kernels(self):
        program = "import os\nos.environ['RANK'] = '1'\n" + textwrap.dedent(self.GPU)
        run = self.run_on_gpu(program=program)
        self.assertEqual((len(run.steps(1)), run.of("kernel", 1)), (3, []))
        self.assertEqual(run.lines[-1]["event"], "finished")

    def test_the_helper_s_steps_without_torch(self):
        program = "import torchgauge\nfor i in torchgauge.steps(range(9)): pass\n"
        run = Run(program, {"profiled": 2}, is_hooked=False)
        self.assertIn("no kernels: RuntimeError: the program has not imported torch", run.said)
        self.assertEqual((run.status, len(run.of("finished"))), (0, 1))


class Helper(unittest.TestCase):
    PROGRAM = """
        import torchgauge
        for epoch in range(3):
            for batch in torchgauge.steps([[1, 2]] * 3, samples=len):
                pass
            torchgauge.metric("accuracy", 0.25 * epoch, "ratio", better="more")
    """

    def test_three_lines_with_and_without_the_hook(self):
        for is_hooked in (True, False):
            run = Run(self.PROGRAM, {"until": "exit"}, is_hooked=is_hooked)
            self.assertEqual((run.status, run.said), (0, ""))
            self.assertEqual(len(run.steps()), 3)
            self.assertEqual(run.values()["samples_count"], 6)
            self.assertEqual(run.values()["accuracy"], 0.5)
            accuracy = [line for line in run.of("value") if line["name"] == "accuracy"][0]
            self.assertEqual((accuracy["unit"], accuracy["better"]), ("ratio", "more"))
            self.assertNotIn("source", accuracy)
            self.assertEqual(run.facts()["step_source"], "helper")
            self.assertEqual(run.lines[-1]["event"], "finished")

    def test_its_steps_win_over_the_hook_s(self):
        program = """
            import torch, torchgauge
            optimizer = torch.optim.SGD([torch.Parameter()])
            optimizer.step()
            for i in torchgauge.steps(range(6)):
                for _ in range(2):
                    optimizer.step()
        """
        run = Run(program, {})
        self.assertEqual(len(run.steps()), 3)
        self.assertEqual(run.facts()["step_source"], "helper")
        self.assertEqual(len(run.of("started")), 1)

    def test_start_step_finish(self):
        program = """
            import torchgauge
            torchgauge.start()
            for i in range(4):
                torchgauge.step(samples=5)
            torchgauge.finish()
            torchgauge.step()
            torchgauge.metric("late", 1)
            torchgauge.metric("later", 1)
        """
        run = Run(program, {"warmup": 0, "measured": 100}, is_hooked=False)
        self.assertEqual((len(run.steps()), run.values()["samples_count"]), (4, 20))
        self.assertEqual(run.lines[-1]["event"], "finished")
        self.assertEqual(run.said.count("left out"), 1)

    def test_metrics_alone(self):
        run = Run("import torchgauge\ntorchgauge.metric('bleu', 31.5)", {}, is_hooked=False)
        self.assertEqual(run.values()["bleu"], 31.5)
        self.assertEqual(run.lines[0]["event"], "started")
        self.assertEqual(run.lines[-1]["event"], "finished")

    def test_what_is_no_metric_is_refused_everywhere(self):
        for words, error in [
            ("'Bad name', 1", "the metric 'Bad name'"),
            ("'a', 1, 'furlongs'", "the unit 'furlongs'"),
            ("'a', 1, None, 'up'", "better='up'"),
            ("'a', 'x'", "could not convert"),
        ]:
            program = "import torchgauge\ntorchgauge.metric({})".format(words)
            for asked in ({}, None):
                run = Run(program, asked, is_hooked=False)
                self.assertEqual(run.status, 1)
                self.assertIn(error, run.said)

    def test_a_metric_that_is_no_number_is_left_out(self):
        program = "import torchgauge\ntorchgauge.metric('loss', float('nan'))\nprint('end')"
        run = Run(program, {}, is_hooked=False)
        self.assertEqual((run.status, run.printed), (0, "end\n"))
        self.assertIn("the metric loss is nan", run.said)

    def test_nobody_asks(self):
        run = Run(self.PROGRAM + "\n        print(len(torchgauge.steps([1])))", None, is_hooked=False)
        self.assertEqual((run.status, run.printed, run.said, run.lines), (0, "1\n", "", []))


if __name__ == "__main__":
    unittest.main()
