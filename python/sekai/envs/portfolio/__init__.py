"""Portfolio environments: target weights over assets and cash, for one agent or several."""

from __future__ import annotations

from sekai.envs.portfolio.portfolio import Portfolio

__all__ = ["Portfolio"]
