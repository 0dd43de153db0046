"""Markets whose answers are known."""

from __future__ import annotations

import numpy as np

from sekai.data import MarketData

ROWS, ASSETS = 700, 5


def planted(strength: float = 0.004, rows: int = ROWS, seed: int = 0) -> MarketData:
    """Assets whose return of a row, seen by everybody, is followed by one of the same sign."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0.0, 0.01, (rows, ASSETS))
    moves = np.zeros((rows, ASSETS))
    for row in range(1, rows):
        moves[row] = noise[row] + strength * np.sign(moves[row - 1])
    return market(moves)


def market(moves: np.ndarray) -> MarketData:
    """Assets that open where they closed, and move so."""
    close = 100.0 * np.exp(np.cumsum(moves, axis=0))
    opened = np.vstack([close[:1], close[:-1]])
    high, low = np.maximum(opened, close), np.minimum(opened, close)
    values = np.stack([opened, high, low, close], axis=2)
    days = np.datetime64("2015-01-05", "ns") + np.arange(len(moves)) * np.timedelta64(1, "D")
    names = tuple(f"A{place}" for place in range(moves.shape[1]))
    return MarketData(
        times=days, assets=names, fields=("open", "high", "low", "close"), values=values
    )
