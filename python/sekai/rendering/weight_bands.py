"""What a portfolio is made of over time: an area for each of its largest assets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.look import INK, OTHERS, PANEL, SERIES, caption, dress, name_beside
from sekai.rendering.time_axis import edges_of, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sekai.rendering.episode_history import EpisodeHistory
    from sekai.rendering.scene import PortfolioScene

__all__ = ["WeightBands", "banded", "coloured", "largest"]

Floats = NDArray[np.float64]
LONGEST = 10
"""Letters of a name that there is room for."""


class WeightBands:
    """Areas on top of each other: what is held is above zero, what is owed below it.

    The assets that were largest, on average over the ticks that are shown, have a colour each; all
    others share a grey. Cash comes last, and is the palest.
    """

    def __init__(self, axes: Axes, whose: str) -> None:
        """Draw on `axes`."""
        dress(axes, has_ticks=False)
        caption(axes, f"Weights{whose}", "share of equity")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=4)
        axes.axhline(0, color=INK, alpha=0.35, linewidth=0.8, zorder=3)
        self.axes = axes
        none: dict[str, Any] = {"values": np.zeros(1), "edges": np.array([-0.5, 0.5])}
        look: dict[str, Any] = {"fill": True, "linewidth": 0.3, "edgecolor": PANEL}
        # Thin dark edges tell neighbours apart for whoever sees no colours.
        self.bands: list[Any] = [
            axes.stairs(**none, baseline=np.zeros(1), facecolor=colour, **look)
            for colour in (*SERIES, OTHERS, INK)
        ]
        self.bands[-1].set_alpha(0.25)
        self.names: dict[str, int] = {}

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Show the weights of every scene."""
        last = history.last
        weights = np.array([scene.weights[last.agent] for scene in history.scenes], np.float64)
        chosen = coloured(largest(weights[:, :-1], len(SERIES)))
        bottoms, tops = banded(_parts(weights, chosen))
        for band, bottom, top in zip(self.bands, bottoms.T, tops.T, strict=True):
            band.set_data(top, edges_of(history), baseline=bottom)
        fit(self.axes, np.concatenate([bottoms.ravel(), tops.ravel()]))
        names = {last.assets[asset][:LONGEST]: place for place, asset in sorted(chosen.items())}
        more = {"others": -2} if len(last.assets) > len(chosen) else {}
        self._name({**names, **more, "cash": -1})

    def _name(self, names: dict[str, int]) -> None:
        if names != self.names:
            self.names = names
            # In the order in which they lie on top of each other.
            upside_down = reversed(names.items())
            name_beside(self.axes, {name: self.bands[place] for name, place in upside_down})


def largest(weights: Floats, count: int) -> list[int]:
    """The assets with the largest weights on average, at most `count`, in the order of the data."""
    sizes = np.abs(weights).mean(axis=0)
    # A stable sort: of assets that are alike, the first.
    return sorted(np.argsort(-sizes, kind="stable")[:count].tolist())


def coloured(assets: list[int]) -> dict[int, int]:
    """Which asset has which colour, by the colour's place.

    Each asks for a colour of its own first, so that few change theirs when others come and go.
    """
    colours: dict[int, int] = {}
    for asset in assets:
        place = asset % len(SERIES)
        while place in colours:
            place = (place + 1) % len(SERIES)
        colours[place] = asset
    return colours


def banded(parts: Floats) -> tuple[Floats, Floats]:
    """Where each area begins and ends: rows are ticks, columns the areas from the bottom up."""
    held, owed = np.maximum(parts, 0.0), np.minimum(parts, 0.0)
    tops = np.where(parts >= 0, np.cumsum(held, axis=1), np.cumsum(owed, axis=1))
    return tops - parts, tops


def _parts(weights: Floats, chosen: dict[int, int]) -> Floats:
    """A column for each colour: the chosen assets, all others together, and cash."""
    parts = np.zeros((len(weights), len(SERIES) + 2))
    for place, asset in chosen.items():
        parts[:, place] = weights[:, asset]
    parts[:, -2] = weights[:, :-1].sum(axis=1) - parts[:, :-2].sum(axis=1)
    parts[:, -1] = weights[:, -1]
    return parts
