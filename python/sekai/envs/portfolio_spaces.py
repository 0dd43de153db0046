"""What portfolios are shown and can do, as spaces."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from quant_gym_rs._core import portfolio_names
from sekai.data import MarketData
from sekai.market import CashAccount, MarginAccount
from sekai.spaces import Box, Dict, MultiBinary, MultiDiscrete, Simplex, Space

__all__ = ["ACCOUNT", "INFO", "action_space", "observation_space"]

ACCOUNT, INFO = portfolio_names()


def observation_space(
    data: MarketData,
    *,
    rows: int | None = None,
    lookback: int = 0,
    channels: int = 0,
    dtype: DTypeLike = np.float32,
) -> Dict:
    """What an agent sees: a window, or the number of one of `rows` windows, and its account."""
    assets = len(data.assets)
    if rows is not None:
        seen = {"index": Box(0, rows - 1, (1,), np.int64)}
    else:
        seen = {"windows": Box(-np.inf, np.inf, (lookback, assets, channels), dtype)}
    return Dict(
        {
            **seen,
            "weights": Box(-np.inf, np.inf, (assets + 1,), np.float32),
            "mask": MultiBinary(assets),
            "account": Box(-np.inf, np.inf, (len(ACCOUNT),), np.float32),
        }
    )


def action_space(
    action: Literal["weights", "tilts"], data: MarketData, account: CashAccount | MarginAccount
) -> Space[Any]:
    """What an agent with this account can decide."""
    assets = len(data.assets)
    if action == "tilts":
        return MultiDiscrete([3] * assets)
    if isinstance(account, CashAccount):
        return Simplex(assets + 1)
    most = account.leverage
    return Box(-most, most, (assets + 1,), np.float64)
