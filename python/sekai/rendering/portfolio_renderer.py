"""Renderer of `Portfolio`: equity beside the benchmark, weights, exposure and turnover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_renderer import EpisodeHistory, EpisodeRenderer, native_scene
from sekai.rendering.panels import EMPTY_STAIRS, EquityPanel, StackedWeights
from sekai.rendering.style import (
    BUY,
    FAIR,
    FOREGROUND,
    SELL,
    DateTicks,
    Title,
    add_legend,
    fit_y_limits,
    follow_ticks,
    format_amount,
    set_caption,
    style_axes,
    tick_edges,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PortfolioScene:
    """State of the portfolios of one or several agents at one row of the data."""

    seed: int
    episode: int
    tick: int
    """Row of the data."""
    time: np.datetime64
    """Timestamp of the row."""
    agent: int
    """Index of the shown agent."""
    agents: tuple[str, ...]
    assets: tuple[str, ...]
    beginnings: Floats
    """Initial cash of each agent."""
    equities: Floats
    """Equity of each agent."""
    weights: NDArray[np.float32]
    """Weights by agent and asset, with cash in the last column."""
    benchmark: float
    """Level of the benchmark, in arbitrary units."""
    cost: float | None = None
    """Costs of the last step; None with several agents."""
    turnover: float | None = None
    """Traded value of the last step over equity."""

    @property
    def initial_cash(self) -> float:
        """Initial cash of the shown agent."""
        return float(self.beginnings[self.agent])

    @property
    def equity(self) -> float:
        """Equity of the shown agent."""
        return float(self.equities[self.agent])

    @property
    def gross(self) -> Floats:
        """Gross exposure of each agent as a share of equity."""
        return np.asarray(np.abs(self.weights[:, :-1]).sum(axis=1), np.float64)

    @property
    def net(self) -> Floats:
        """Net exposure of each agent as a share of equity."""
        return np.asarray(self.weights[:, :-1].sum(axis=1), np.float64)


class PortfolioRenderer(EpisodeRenderer[PortfolioScene]):
    """Renderer of a portfolio: equity and benchmark, weights, exposure, turnover and costs.

    The drawdown hangs from the peak of equity. The benchmark is dashed and starts at the equity of
    the first recorded tick. Ticks are rows of the data.
    """

    def read_scene(self, env: Any) -> PortfolioScene:
        """Read the current scene of `env`."""
        return PortfolioScene(agent=0, **native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        heights, margins = (2.2, 2.0, 0.9, 0.9), {"left": 0.13, "right": 0.84, "bottom": 0.075}
        grid = figure.add_gridspec(4, 1, height_ratios=heights, hspace=0.26, top=0.88, **margins)
        self.top = figure.add_subplot(grid[0])
        weights, exposure, turnover = (
            figure.add_subplot(grid[row], sharex=self.top) for row in (1, 2, 3)
        )
        self.title = Title(figure, "Portfolio")
        style_axes(self.top, has_ticks=False)
        set_caption(self.top, "Equity and drawdown from its peak", "currency")
        self.top.yaxis.set_major_formatter(format_amount)
        self.equity = EquityPanel(self.top)
        (self.benchmark,) = self.top.plot([], [], color=FAIR, linewidth=1.2, linestyle="--")
        self.weights = StackedWeights(weights, "")
        self._add_exposure(exposure)
        self._add_turnover(turnover)
        lines = {"equity": self.equity.line, "benchmark": self.benchmark}
        shares = {"gross": self.gross, "net": self.net, "turnover": self.turnover}
        add_legend(figure, {**lines, **shares})

    def _add_exposure(self, axes: Any) -> None:
        style_axes(axes, has_ticks=False)
        set_caption(axes, "Exposure", "share of equity")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=3)
        (self.gross,) = axes.plot([], [], color=FOREGROUND, linewidth=1.4)
        (self.net,) = axes.plot([], [], color=BUY, linewidth=1.4, linestyle=(0, (3, 1)))
        self.exposure_axes = axes

    def _add_turnover(self, axes: Any) -> None:
        style_axes(axes, has_ticks=True)
        axes.xaxis.set_label_coords(0.5, -0.42)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=3)
        self.turnover = axes.stairs(*EMPTY_STAIRS, fill=True, color=SELL)
        self.turnover_axes = axes
        self.dates = DateTicks(axes)

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Update the artists to show `history`."""
        ticks = history.column("tick")
        self.equity.update(history)
        benchmark = history.first.equity * benchmark_growth(history)
        self.benchmark.set_data(ticks, benchmark)
        equities = history.column("equity")
        fit_y_limits(self.top, np.concatenate([equities, history.peaks(), benchmark]))
        self.weights.update(history)
        gross, net = (
            np.array([getattr(scene, name)[0] for scene in history.scenes])
            for name in ("gross", "net")
        )
        self.gross.set_data(ticks, gross)
        self.net.set_data(ticks, net)
        fit_y_limits(self.exposure_axes, np.concatenate([[0.0], gross, net]), least=0.1)
        self._update_turnover(history)
        when = self.dates.update(history)
        self.title.update(history.last, float(history.peaks()[-1]), when)
        follow_ticks(self.top, history, begin=history.first.tick)

    def _update_turnover(self, history: EpisodeHistory[PortfolioScene]) -> None:
        turnover = history.column("turnover")
        self.turnover.set_data(turnover, tick_edges(history))
        self.turnover_axes.set_ylim(0, 1.08 * max(float(turnover.max()), 1e-4))
        cost = float((history.column("cost") / history.column("equity")).sum())
        set_caption(self.turnover_axes, f"Turnover (total cost {cost:.2%})", "share of equity")


def benchmark_growth(history: EpisodeHistory[PortfolioScene]) -> Floats:
    """Growth of the benchmark since the first recorded tick, as a multiple."""
    return history.column("benchmark") / history.first.benchmark
