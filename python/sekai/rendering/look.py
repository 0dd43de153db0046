"""How pictures of the built-in tasks look: colours that everybody can tell apart, on dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sekai.rendering.scene import Scene

__all__ = [
    "BUY",
    "DRAWDOWN",
    "EQUITY",
    "FAINT",
    "FAIR",
    "INK",
    "OTHERS",
    "PANEL",
    "PAPER",
    "SELL",
    "SERIES",
    "SMALL",
    "Title",
    "caption",
    "dress",
    "explain",
    "money",
    "name_beside",
]

# Blue, orange, yellow, green and purple of the palette of Okabe and Ito, which people with any
# kind of colour vision can tell apart; side is told by shape as well.
PAPER, PANEL, INK, FAINT = "#0d1117", "#131923", "#e8eaed", "#9aa4b0"
BUY, SELL, FAIR, EQUITY, DRAWDOWN = "#56b4e9", "#e69f00", "#f0e442", "#1fbf93", "#cc79a7"

SERIES = (BUY, SELL, EQUITY, FAIR, DRAWDOWN, "#d55e00", "#4a8fd6")
"""For lines and areas of one kind, next to each other: the same palette, its blue made lighter."""

OTHERS = "#6b7684"
"""For what has no colour of its own."""

SMALL, MEDIUM, LARGE = 11, 12, 14
"""Sizes of text, in points: on a phone, which shows 640 pixels at about half their size, the
smallest is as large as that of a newspaper."""


def dress(axes: Axes, *, has_ticks: bool) -> None:
    """Give axes their look; ticks of the episode are written under the lowest of them only."""
    axes.set_facecolor(PANEL)
    axes.grid(color=INK, alpha=0.08, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=FAINT, labelsize=SMALL, length=0, labelbottom=has_ticks)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if has_ticks:
        axes.set_xlabel("tick of the episode", color=FAINT, fontsize=SMALL)
    # Said, not looked for: finding room for labels and titles takes a quarter of the time.
    axes.xaxis.set_label_coords(0.5, -0.2)
    axes.yaxis.set_label_coords(0, 0.5)


def caption(axes: Axes, what: str, unit: str) -> None:
    """Say above axes what they show, and in which unit."""
    axes.set_title(f"{what}, {unit}", loc="left", color=INK, fontsize=SMALL, y=1.0, pad=4)


def money(amount: float, place: float = 0.0) -> str:
    """An amount as it is written beside axes, where there is room for seven digits."""
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if abs(amount) >= 10 * size:
            return f"{amount / size:,.1f}{unit}"
    return f"{amount:,.0f}"


def explain(figure: Figure, artists: dict[str, Any]) -> None:
    """Say under the title what lines and marks mean."""
    figure.legend(
        list(artists.values()),
        list(artists),
        loc="upper left",
        bbox_to_anchor=(0.022, 0.937),
        ncols=len(artists),
        frameon=False,
        labelcolor=FAINT,
        fontsize=SMALL,
        handlelength=1.3,
        handletextpad=0.4,
        columnspacing=1.1,
        borderpad=0,
    )


def name_beside(axes: Axes, artists: dict[str, Any]) -> None:
    """Say to the right of axes what lines and areas are called, the uppermost first."""
    legend = axes.legend(
        list(artists.values()),
        list(artists),
        loc="upper left",
        bbox_to_anchor=(1.01, 1.02),
        frameon=False,
        labelcolor=FAINT,
        fontsize=SMALL - 2,
        handlelength=1.0,
        handletextpad=0.4,
        labelspacing=0.25,
        borderpad=0,
        borderaxespad=0,
    )
    legend.set_in_layout(False)


class Title:
    """Two lines at the top: which episode and when, and what it has come to."""

    def __init__(self, figure: Figure, name: str) -> None:
        """Write on `figure`."""
        self._name = name
        figure.set_facecolor(PAPER)
        place: dict[str, Any] = {"x": 0.03, "va": "top", "color": INK}
        self.first = figure.text(y=0.988, s="", fontsize=LARGE, fontweight="bold", **place)
        self.second = figure.text(y=0.957, s="", fontsize=MEDIUM, **place)

    def update(self, scene: Scene, peak: float, when: str | None = None) -> None:
        """Write the numbers of `scene`; its tick says when that is, unless `when` does."""
        profit = scene.equity - scene.initial_cash
        when = when or f"tick {scene.tick:,}"
        self.write(
            f"seed {scene.seed} · {when}",
            f"equity {scene.equity:,.2f}   profit {profit:+,.2f}"
            f"   drawdown {peak - scene.equity:,.2f}",
        )

    def write(self, when: str, numbers: str) -> None:
        """Write what the picture is of behind its name, and numbers below."""
        self.first.set_text(f"{self._name} · {when}")
        self.second.set_text(numbers)
