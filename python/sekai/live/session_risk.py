"""Risk parts of a session: row guard, ledger, price validator, equity references and risk gate."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from sekai.live.account_folder import AccountFolder
from sekai.live.clock import Clock
from sekai.live.config import LiveConfig
from sekai.live.episode import LiveEpisode
from sekai.live.feed import Feed
from sekai.live.ledger import Ledger
from sekai.live.references import EquityReferences, PriceValidator
from sekai.live.risk import RiskGate
from sekai.live.row_guard import RowGuard

__all__ = ["SessionRisk", "fill_seconds", "silence_seconds"]

WARM_UP_ROWS = 20
"""Rows of the history that validate the prices of the first row."""

LEAST_FILL_SECONDS = 60.0
LEAST_SILENCE_SECONDS = 10.0


@dataclass(slots=True)
class SessionRisk:
    """Parts that decide which rows, accounts, prices and orders a session trusts."""

    guard: RowGuard
    ledger: Ledger
    prices: PriceValidator
    references: EquityReferences
    gate: RiskGate

    @classmethod
    def of(
        cls,
        episode: LiveEpisode,
        config: LiveConfig,
        account: AccountFolder,
        feed: Feed,
        clock: Clock,
    ) -> SessionRisk:
        """Parts of a new session; losses continue those of the account's last session."""
        data = episode.portfolio.data
        prices = PriceValidator(config.limits.price_collar)
        closes = data.field("close")[-WARM_UP_ROWS:].tolist()
        prices.warm_up(dict(zip(episode.assets, row, strict=False)) for row in closes)
        days = config.trading_days()
        references = EquityReferences(config.limits, days, on_loss=config.on_loss)
        if account.state.references:
            references.load_state_dict(account.state.references)
        return cls(
            RowGuard(clock, None, data, is_replay=feed.is_replay),
            Ledger(
                episode.assets,
                account_lag_seconds=config.account_lag_seconds,
                max_cash_discrepancy=config.max_cash_discrepancy,
            ),
            prices,
            references,
            RiskGate(config.limits),
        )


def fill_seconds(episode: LiveEpisode, config: LiveConfig) -> float:
    """Deadline for fills: three bars, since simulated brokers fill in the next row."""
    if config.fill_timeout is not None:
        return config.fill_timeout
    return max(LEAST_FILL_SECONDS, 3.0 * _bar_seconds(episode))


def silence_seconds(episode: LiveEpisode, is_replay: bool) -> float:
    """Time without a row after which a feed is silent: three bars; unlimited for a replay."""
    if is_replay:
        return float("inf")
    return max(LEAST_SILENCE_SECONDS, 3.0 * _bar_seconds(episode))


def _bar_seconds(episode: LiveEpisode) -> float:
    times = episode.portfolio.data.calendar.nanoseconds
    # `np.median` imports masked arrays: 10 MB of each session.
    return median(np.diff(times).tolist()) / 1e9 if len(times) > 1 else 0.0
