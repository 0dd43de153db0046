"""The state of a random stream as plain types, and back with every doubt refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.error import StateError


def rng_state(rng: np.random.Generator | None) -> dict[str, Any] | None:
    """Where the stream stands; None when it has not begun."""
    return None if rng is None else dict(rng.bit_generator.state)


def restored_rng(state: object, place: str) -> np.random.Generator | None:
    """A stream that continues from `state`.

    Args:
        state: what `rng_state` gave.
        place: where in the whole state this one stands, for the error.

    Raises:
        StateError: `state` is anything else.
    """
    if state is None:
        return None
    bits = np.random.PCG64()
    try:
        bits.state = state  # type: ignore[assignment]
    # Before 2.0 NumPy only warned of numbers out of bounds, which some make an error.
    except (TypeError, ValueError, KeyError, OverflowError, DeprecationWarning) as cause:
        raise StateError(f"{place} must be the state of a PCG64 stream: {cause}") from cause
    # NumPy drops what it does not know and rounds what is not whole.
    if bits.state != state:
        raise StateError(f"{place} must be the state of a PCG64 stream, was {state!r}")
    return np.random.Generator(bits)
