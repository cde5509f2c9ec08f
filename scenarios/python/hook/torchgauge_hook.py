"""Counts and times optimizer steps of a program that does nothing for it.

Waits until the program imports torch, then asks torch to be called after each optimizer step. The
lines are written by `torchgauge.py`, which lies beside this file.
"""

import functools
import importlib
import os
import sys
import weakref


def install():
    """Waits for torch, where somebody asks for events."""
    if not os.environ.get("TORCHGAUGE_EVENTS"):
        return
    # Processes that this one starts see that they are not the first.
    os.environ.setdefault("TORCHGAUGE_PROCESS", str(os.getpid()))
    import atexit

    atexit.register(_at_exit)
    sys.excepthook = _watched(sys.excepthook)
    if "torch" in sys.modules:
        _attach(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _Watch())


def _at_exit():
    import torchgauge

    torchgauge._at_exit()


def _watched(hook):
    def excepthook(kind, error, traceback):
        import torchgauge

        torchgauge.watched(hook)(kind, error, traceback)

    excepthook._torchgauge = True
    return excepthook


class _Watch:
    """Sees the import of torch, and nothing after it."""

    def __init__(self):
        self._is_asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self._is_asking:
            return None
        import importlib.util  # Slow to load, and few programs have it loaded.

        # Others ask as well, such as transformers, which only looks whether torch is there.
        self._is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_asking = False
        loader = getattr(spec, "loader", None)
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module):
            # The program may try again where this fails.
            execute(module)
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _attach(module)

        loader.exec_module = exec_module
        return spec


def _attach(torch):
    import torchgauge

    recorder = torchgauge.current()
    if recorder is None:
        return
    try:
        recorder.imported()
        _Hook(torch, torchgauge)
    except Exception as error:
        torchgauge._note("no hook: {}: {}".format(type(error).__name__, error))


class _Hook:
    """Everything that is asked of torch. Once the steps are measured it does nothing more."""

    def __init__(self, torch, torchgauge):
        self._torch = torch
        self._torchgauge = torchgauge
        #: The optimizer whose steps count: the first one that takes a step, as long as it lives.
        self._main = None
        self._optimizers = weakref.WeakSet()
        self._recorder = None
        self._has_stepped = False
        self._autocast = set()
        self._undo = []
        self._undo_autocast = []
        self._watch_steps()
        self._watch_scaler()
        self._watch_autocast()

    def _watch_steps(self):
        def after_step(optimizer, *_):
            self._stepped(optimizer)

        # torch.compile does not look into it.
        after_step._torchdynamo_disable = True
        module = importlib.import_module("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:
            # For good: torch goes through its hooks where one could be taken back.
            register(after_step)
            return
        # torch 1.13 has no such hook; all optimizers are made by this function.
        owner = self._torch.optim.Optimizer
        make = owner.__init__

        @functools.wraps(make)
        def made(optimizer, *words, **named):
            make(optimizer, *words, **named)
            _wrap_step(type(optimizer), after_step)

        self._undo.append(_replace(owner, "__init__", made))

    def _watch_scaler(self):
        amp = getattr(self._torch, "amp", None)
        owner = getattr(amp, "GradScaler", None) or self._torch.cuda.amp.GradScaler
        step = owner.step

        @functools.wraps(step)
        def watched(scaler, optimizer, *words, **named):
            self._has_stepped = False
            result = step(scaler, optimizer, *words, **named)
            recorder = self._recorder
            if recorder is not None and scaler.is_enabled():
                if getattr(optimizer, "_step_supports_amp_scaling", False):
                    # Its kernel skips by itself; to ask it is to wait for the GPU.
                    recorder.skips = None
                else:
                    recorder.skips = (recorder.skips or 0) + (not self._has_stepped)
            return result

        self._undo.append(_replace(owner, "step", watched))

    def _watch_autocast(self):
        owner = getattr(self._torch, "autocast", None)
        if owner is None:
            return
        make = owner.__init__

        @functools.wraps(make)
        def made(autocast, *words, **named):
            make(autocast, *words, **named)
            if getattr(autocast, "_enabled", False) and len(self._autocast) < 8:
                kind = str(getattr(autocast, "fast_dtype", "")).replace("torch.", "")
                self._autocast.add("{} {}".format(getattr(autocast, "device", ""), kind).strip())

        self._undo_autocast.append(_replace(owner, "__init__", made))

    def _stepped(self, optimizer):
        self._has_stepped = True
        main = self._main() if self._main is not None else None
        if main is optimizer and self._recorder is not None and not self._recorder.ended:
            self._recorder.guarded(self._recorder.step, "hook")
            return
        if main is not optimizer:
            self._optimizers.add(optimizer)
            if main is not None:
                return
            self._main = weakref.ref(optimizer)
        recorder = self._torchgauge.current()
        if recorder is None or recorder.ended:
            return
        if recorder is not self._recorder:
            self._recorder = recorder
            recorder.device_index = _device_of(optimizer)
            recorder.optimizers = self._optimizers
            recorder.main = self._main
            recorder.on_measure.append(self._warmed_up)
            recorder.on_end.append(self._detach)
            recorder.guarded(recorder.begin, "hook")
        recorder.guarded(recorder.step, "hook")

    def _warmed_up(self):
        if self._recorder is not None and self._autocast:
            self._recorder.facts["autocast"] = ", ".join(sorted(self._autocast))
        _call(self._undo_autocast)

    def _detach(self):
        _call(self._undo_autocast)
        _call(self._undo)


def _replace(owner, name, function):
    """Puts a function in place of another; gives what puts that one back."""
    before = getattr(owner, name)
    setattr(owner, name, function)

    def undo():
        # Somebody else may have put a third one there.
        if owner.__dict__.get(name) is function:
            setattr(owner, name, before)

    return undo


def _call(waiting):
    while waiting:
        waiting.pop()()


def _device_of(optimizer):
    """The index of the GPU that the first parameter is on, None where it is on none."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            device = parameter.device
            return device.index if device.type == "cuda" else None
    return None


def _wrap_step(owner, after_step):
    step = owner.step
    if getattr(step, "_torchgauge", False):
        return

    @functools.wraps(step)
    def watched(optimizer, *words, **named):
        result = step(optimizer, *words, **named)
        after_step(optimizer)
        return result

    watched._torchgauge = True
    owner.step = watched
