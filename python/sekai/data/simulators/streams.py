"""A stream of random numbers for each part of a simulation, found by its name."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["stream"]


def stream(seed: int, *names: str) -> np.random.Generator:
    """The stream that `names` have under this seed: nobody else's numbers change what it gives.

    Args:
        seed: what the whole simulation is called by, 0 or above.
        names: what the numbers are for, such as an asset and one of its parts.
    """
    if seed < 0:
        raise ValueError(f"seed must be 0 or above, was {seed}")
    # Each name is hashed by itself: ("ab", "c") and ("a", "bc") are different parts.
    key = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in names)
    words = np.frombuffer(key, "<u4")
    sequence = np.random.SeedSequence(seed, spawn_key=[int(word) for word in words])
    return np.random.Generator(np.random.PCG64DXSM(sequence))
