"""Packages that training needs beside sekai, imported before anything misses them."""

import multiprocessing
from importlib import import_module
from importlib.util import find_spec

from sekai.error import MissingExtraError

__all__ = ["NEEDED"]

NEEDED = ("torch", "tensordict", "torchrl", "safetensors")

for name in NEEDED:
    if find_spec(name) is None:
        raise MissingExtraError.of(name, "train", "sekai.training")

# Importing torchrl sets the start method of the whole process to spawn where the program has set
# none: what the program's own processes start by is not ours to choose.
if multiprocessing.get_start_method(allow_none=True) is None:
    import_module("torchrl")
    # With `force`, None is the state before any method was set.
    multiprocessing.set_start_method(None, force=True)
