import collections
import functools
import os

_hooks = collections.OrderedDict()


class _Handle:
    def __init__(self, number):
        self.number = number

    def remove(self):
        _hooks.pop(self.number, None)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}
        _watch(type(self))


class SGD(Optimizer):
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] = {"momentum": parameter}


def _watch(owner):
    step = owner.step
    if getattr(step, "hooked", False):
        return

    @functools.wraps(step)
    def hooked(optimizer, *words, **named):
        result = step(optimizer, *words, **named)
        for hook in _hooks.values():
            hook(optimizer, words, named)
        return result

    hooked.hooked = True
    owner.step = hooked


def register_optimizer_step_post_hook(hook):
    handle = _Handle(len(_hooks))
    _hooks[handle.number] = hook
    return handle


if os.environ.get("FAKE_OLD"):
    del register_optimizer_step_post_hook
