"""What training needs beside sekai, looked for before anything misses it."""

from importlib.util import find_spec

from sekai.error import MissingExtraError

__all__ = ["NEEDED"]

NEEDED = ("torch", "tensordict", "torchrl", "safetensors")

for name in NEEDED:
    if find_spec(name) is None:
        raise MissingExtraError.of(name, "train", "sekai.training")
