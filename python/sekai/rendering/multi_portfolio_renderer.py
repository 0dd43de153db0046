"""Renderer of `MultiPortfolio`: return and exposure of each agent, weights of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.episode_renderer import EpisodeHistory, EpisodeRenderer, native_scene
from sekai.rendering.panels import NAME_LENGTH, StackedWeights
from sekai.rendering.portfolio_renderer import PortfolioScene, benchmark_growth
from sekai.rendering.style import (
    FOREGROUND,
    SERIES_COLORS,
    DateTicks,
    Title,
    add_side_legend,
    fit_y_limits,
    follow_ticks,
    set_caption,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: tuple[Any, ...] = ("-", (0, (4, 1)), (0, (1, 1)))
"""Line styles; with more agents than colors, colors repeat with the next style."""

LEGEND_AGENTS = 9
"""Number of agents in the legend."""


class MultiPortfolioRenderer(EpisodeRenderer[PortfolioScene]):
    """Renderer of several portfolios: return and exposure of all agents, weights of one.

    The shown agent has the widest line, and its account is in the title. The benchmark is dashed
    and starts at the mean return of the agents at the first recorded tick.

    Args:
        agent: the agent whose weights are shown; the first if None.
        settings: arguments of `EpisodeRenderer`: `ticks`, `width`, `height`, `dpi`.
    """

    def __init__(self, *, agent: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.agent = agent

    def read_scene(self, env: Any) -> PortfolioScene:
        """Read the current scene of `env`."""
        values = native_scene(env, self.env_index)
        agents: tuple[str, ...] = values["agents"]
        if self.agent is not None and self.agent not in agents:
            raise ValueError(f"unknown agent {self.agent!r}; expected one of {list(agents)}")
        index = 0 if self.agent is None else agents.index(self.agent)
        return PortfolioScene(agent=index, **values)

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        heights, margins = (2.4, 1.2, 2.0), {"left": 0.13, "right": 0.83, "bottom": 0.075}
        grid = figure.add_gridspec(3, 1, height_ratios=heights, hspace=0.2, top=0.9, **margins)
        self.top = figure.add_subplot(grid[0])
        exposure, weights = (figure.add_subplot(grid[row], sharex=self.top) for row in (1, 2))
        last = self.history.last
        name = last.agents[last.agent]
        self.title = Title(figure, f"Portfolios, {name}")
        for axes, text, unit in (
            (self.top, "Return of each agent", "share of initial cash"),
            (exposure, "Gross exposure", "share of equity"),
        ):
            style_axes(axes, has_ticks=False)
            set_caption(axes, text, unit)
            axes.locator_params(axis="y", nbins=5)
            axes.yaxis.set_major_formatter("{x:.0%}")
        self.exposure = exposure
        self.returns, self.grosses = (_agent_lines(axes, last) for axes in (self.top, exposure))
        (self.benchmark,) = self.top.plot([], [], color=FOREGROUND, linewidth=1.2, linestyle="--")
        lines = zip(last.agents[:LEGEND_AGENTS], self.returns, strict=False)
        legend = {name[:NAME_LENGTH]: line for name, line in lines}
        add_side_legend(self.top, {**legend, "benchmark": self.benchmark})
        self.weights = StackedWeights(weights, f" of {name}")
        style_axes(weights, has_ticks=True)
        weights.xaxis.set_label_coords(0.5, -0.17)
        self.dates = DateTicks(weights)

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Update the artists to show `history`."""
        ticks, first = history.column("tick"), history.first
        returns = np.array([scene.equities / scene.beginnings for scene in history.scenes]) - 1.0
        initial_growth = float((first.equities / first.beginnings).mean())
        benchmark = initial_growth * benchmark_growth(history) - 1.0
        grosses = np.array([scene.gross for scene in history.scenes])
        for lines, values in ((self.returns, returns), (self.grosses, grosses)):
            for line, column in zip(lines, values.T, strict=True):
                line.set_data(ticks, column)
        self.benchmark.set_data(ticks, benchmark)
        fit_y_limits(self.top, np.append(returns, benchmark), least=0.01)
        fit_y_limits(self.exposure, np.append(grosses, 0.0), least=0.1)
        self.weights.update(history)
        when = self.dates.update(history)
        self.title.update(history.last, float(history.peaks()[-1]), when)
        follow_ticks(self.top, history, begin=history.first.tick)


def _agent_lines(axes: Axes, scene: PortfolioScene) -> list[Any]:
    lines: list[Any] = []
    for index in range(len(scene.agents)):
        turn, color = divmod(index, len(SERIES_COLORS))
        width, zorder = (2.4, 3) if index == scene.agent else (1.3, 2)
        style = {"linestyle": DASHES[turn % len(DASHES)], "linewidth": width, "zorder": zorder}
        lines += axes.plot([], [], color=SERIES_COLORS[color], **style)
    return lines
