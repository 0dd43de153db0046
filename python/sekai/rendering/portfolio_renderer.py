"""Draws an episode of `Portfolio`: equity beside a benchmark, weights, exposure and turnover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.equity_panel import EquityPanel
from sekai.rendering.look import BUY, FAIR, INK, SELL, Title, caption, dress, explain, money
from sekai.rendering.scene import PortfolioScene, native_scene
from sekai.rendering.time_axis import Dates, edges_of, fit, follow
from sekai.rendering.weight_bands import WeightBands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PortfolioRenderer", "benchmark_growth"]

Floats = NDArray[np.float64]


class PortfolioRenderer(EpisodeRenderer[PortfolioScene]):
    """Shows what a portfolio is worth and made of, how much is at risk, and what it trades.

    Equity is green, and red-purple hangs from its peak; the benchmark of the env, with as much
    money from the first moment that was seen, is dashed. Ticks are rows of the data.
    """

    def look(self, env: Any) -> PortfolioScene:
        """What `env` is like now."""
        return PortfolioScene(agent=0, **native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            4, 1, height_ratios=(2.2, 2.0, 0.9, 0.9), hspace=0.26,
            left=0.13, right=0.84, top=0.88, bottom=0.075,
        )  # fmt: skip
        self.top = figure.add_subplot(grid[0])
        weights, exposure, turnover = (
            figure.add_subplot(grid[place], sharex=self.top) for place in (1, 2, 3)
        )
        self.title = Title(figure, "Portfolio")
        dress(self.top, has_ticks=False)
        caption(self.top, "Equity and drawdown from its peak", "currency")
        self.top.yaxis.set_major_formatter(money)
        self.worth = EquityPanel(self.top)
        (self.benchmark,) = self.top.plot([], [], color=FAIR, linewidth=1.2, linestyle="--")
        self.bands = WeightBands(weights, "")
        self._add_exposure(exposure)
        self._add_turnover(turnover)
        keys = {"equity": self.worth.line, "benchmark": self.benchmark}
        explain(figure, {**keys, "gross": self.gross, "net": self.net, "turnover": self.turnover})

    def _add_exposure(self, axes: Any) -> None:
        dress(axes, has_ticks=False)
        caption(axes, "Exposure", "share of equity")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=3)
        (self.gross,) = axes.plot([], [], color=INK, linewidth=1.4)
        (self.net,) = axes.plot([], [], color=BUY, linewidth=1.4, linestyle=(0, (3, 1)))
        self.exposure = axes

    def _add_turnover(self, axes: Any) -> None:
        dress(axes, has_ticks=True)
        axes.xaxis.set_label_coords(0.5, -0.42)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=3)
        self.turnover = axes.stairs(np.zeros(1), np.array([-0.5, 0.5]), fill=True, color=SELL)
        self.traded = axes
        self.dates = Dates(axes)

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Let what was made show `history`."""
        ticks = history.column("tick")
        self.worth.update(history)
        compared = history.first.equity * benchmark_growth(history)
        self.benchmark.set_data(ticks, compared)
        fit(self.top, np.concatenate([history.column("equity"), history.peaks(), compared]))
        self.bands.update(history)
        gross, net = (
            np.array([getattr(scene, name)[0] for scene in history.scenes])
            for name in ("gross", "net")
        )
        self.gross.set_data(ticks, gross)
        self.net.set_data(ticks, net)
        fit(self.exposure, np.concatenate([[0.0], gross, net]), least=0.1)
        self._show_turnover(history)
        when = self.dates.update(history)
        self.title.update(history.last, float(history.peaks()[-1]), when)
        follow(self.top, history, begin=history.first.tick)

    def _show_turnover(self, history: EpisodeHistory[PortfolioScene]) -> None:
        turnover = history.column("turnover")
        self.turnover.set_data(turnover, edges_of(history))
        self.traded.set_ylim(0, 1.08 * max(float(turnover.max()), 1e-4))
        paid = float((history.column("cost") / history.column("equity")).sum())
        caption(self.traded, f"Turnover (all that is shown has cost {paid:.2%})", "share of equity")


def benchmark_growth(history: EpisodeHistory[PortfolioScene]) -> Floats:
    """What money that was in the benchmark at the first moment has become, as a multiple of it."""
    return history.column("benchmark") / history.first.benchmark
