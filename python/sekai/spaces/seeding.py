"""Seeds: a fresh one from the operating system, and independent ones for nested spaces."""

from __future__ import annotations

import numpy as np


def fresh_seed() -> int:
    """A seed nobody chose."""
    entropy = np.random.SeedSequence().entropy
    assert isinstance(entropy, int), "an unseeded SeedSequence draws one whole number"
    return entropy


def child_seed(seed: int, key: str | int) -> int:
    """The seed of the space nested under `key`: equal spaces under two keys draw different numbers.

    It depends on the parent's seed and the key alone, so a new sibling changes nothing.
    """
    # The first number keeps names and positions apart.
    spawn_key = (0, *key.encode()) if isinstance(key, str) else (1, key)
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    return int(sequence.generate_state(1, np.uint64)[0])
