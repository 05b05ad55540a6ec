"""Runs at the start of each Python process below `rankscope run`, before its own code: found through PYTHONPATH."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_here = os.path.dirname(os.path.abspath(__file__))
_rest = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _here]

# the sitecustomize that would have run without this one
_other = PathFinder.find_spec("sitecustomize", _rest)
if _other is not None and _other.loader is not None:
    _module = module_from_spec(_other)
    sys.modules["sitecustomize"] = _module
    _other.loader.exec_module(_module)

try:
    from rankscope.collector.launch import watch
except ImportError:
    sys.stderr.write(f"rankscope: is not installed for {sys.executable}; this process is not recorded\n")
else:
    watch()
