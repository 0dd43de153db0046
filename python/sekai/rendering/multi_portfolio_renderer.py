"""Draws an episode of `MultiPortfolio`: a line for each agent, and what one of them holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.look import INK, SERIES, Title, caption, dress, name_beside
from sekai.rendering.portfolio_renderer import benchmark_growth
from sekai.rendering.scene import PortfolioScene, native_scene
from sekai.rendering.time_axis import Dates, fit, follow
from sekai.rendering.weight_bands import LONGEST, WeightBands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MultiPortfolioRenderer"]

Floats = NDArray[np.float64]

DASHES: tuple[Any, ...] = ("-", (0, (4, 1)), (0, (1, 1)))
"""Agents beyond the colours that there are have them again, dashed."""

NAMED = 9
"""Agents whose names there is room for."""


class MultiPortfolioRenderer(EpisodeRenderer[PortfolioScene]):
    """Shows what agents have earned, how much each has at risk, and the weights of one.

    The agent that is looked at has the widest line, and the title tells its numbers. The benchmark
    of the env, with as much as they had on average at the first moment that was seen, is dashed.
    """

    def __init__(self, *, agent: str | None = None, **settings: Any) -> None:
        """Look at one agent, and show all.

        Args:
            agent: whose weights are shown; the first one's if not given.
            settings: those of every `EpisodeRenderer`: `ticks`, `width`, `height`, `dpi`.
        """
        super().__init__(**settings)
        self.agent = agent

    def look(self, env: Any) -> PortfolioScene:
        """What `env` is like now."""
        told = native_scene(env, self.env_index)
        agents: tuple[str, ...] = told["agents"]
        if self.agent is not None and self.agent not in agents:
            raise ValueError(f"agent must be one of {', '.join(agents)}, was {self.agent!r}")
        place = 0 if self.agent is None else agents.index(self.agent)
        return PortfolioScene(agent=place, **told)

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            3, 1, height_ratios=(2.4, 1.2, 2.0), hspace=0.2,
            left=0.13, right=0.83, top=0.9, bottom=0.075,
        )  # fmt: skip
        self.top = figure.add_subplot(grid[0])
        exposure, weights = (figure.add_subplot(grid[n], sharex=self.top) for n in (1, 2))
        last = self.history.last
        name = last.agents[last.agent]
        self.title = Title(figure, f"Portfolios, {name}")
        for axes, what, unit in (
            (self.top, "Return of each agent since it began", "share of its cash"),
            (exposure, "Gross exposure", "share of equity"),
        ):
            dress(axes, has_ticks=False)
            caption(axes, what, unit)
            axes.locator_params(axis="y", nbins=5)
            axes.yaxis.set_major_formatter("{x:.0%}")
        self.exposure = exposure
        self.returns, self.grosses = (_lines(axes, last) for axes in (self.top, exposure))
        (self.benchmark,) = self.top.plot([], [], color=INK, linewidth=1.2, linestyle="--")
        lines = zip(last.agents[:NAMED], self.returns, strict=False)
        keys = {name[:LONGEST]: line for name, line in lines}
        name_beside(self.top, {**keys, "benchmark": self.benchmark})
        self.bands = WeightBands(weights, f" of {name}")
        dress(weights, has_ticks=True)
        weights.xaxis.set_label_coords(0.5, -0.17)
        self.dates = Dates(weights)

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Let what was made show `history`."""
        ticks, first = history.column("tick"), history.first
        returns = np.array([scene.equities / scene.beginnings for scene in history.scenes]) - 1.0
        begun = float((first.equities / first.beginnings).mean())
        compared = begun * benchmark_growth(history) - 1.0
        grosses = np.array([scene.gross for scene in history.scenes])
        for lines, values in ((self.returns, returns), (self.grosses, grosses)):
            for line, column in zip(lines, values.T, strict=True):
                line.set_data(ticks, column)
        self.benchmark.set_data(ticks, compared)
        fit(self.top, np.append(returns, compared), least=0.01)
        fit(self.exposure, np.append(grosses, 0.0), least=0.1)
        self.bands.update(history)
        when = self.dates.update(history)
        self.title.update(history.last, float(history.peaks()[-1]), when)
        follow(self.top, history, begin=history.first.tick)


def _lines(axes: Axes, scene: PortfolioScene) -> list[Any]:
    """A line for each agent, in a colour and dashes of its own."""
    lines: list[Any] = []
    for place in range(len(scene.agents)):
        turn, colour = divmod(place, len(SERIES))
        is_own = place == scene.agent
        lines += axes.plot(
            [], [], color=SERIES[colour], linestyle=DASHES[turn % len(DASHES)],
            linewidth=2.4 if is_own else 1.3, zorder=3 if is_own else 2,
        )  # fmt: skip
    return lines
