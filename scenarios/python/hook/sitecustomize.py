"""Python imports this by itself where its folder is on PYTHONPATH, before the program."""

import importlib.machinery
import importlib.util
import os
import sys


def _call_next():
    """The `sitecustomize` that the image itself has, which this one hides."""
    own = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    import torchgauge_hook

    torchgauge_hook.install()
except Exception as error:  # The program is worth more than its numbers.
    sys.stderr.write("torchgauge: no hook: {}: {}\n".format(type(error).__name__, error))
_call_next()
