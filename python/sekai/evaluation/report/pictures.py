"""Pictures: the main charts as PNG files."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.chart import drawdown, has_equity, is_relative, wealth
from sekai.evaluation.report.elements import ReportContext, label_of
from sekai.evaluation.report.performance import band_note, quantile_band
from sekai.evaluation.report.trading import largest_weights
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["write_pictures"]

COLOURS = ("#0072b2", "#d55e00", "#008561", "#b0508a", "#8f6a00", "#5b6b7a", "#6a4bb0", "#7a4420")
"""Line colours of the light theme of the page."""

DASHES: tuple[Any, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (8, 2)),
    (0, (8, 2, 1, 2)),
    (0, (7, 2, 1, 2, 1, 2)),
    (0, (1, 4)),
)
MARKS = ("o", "s", "D", "^", "P", "X", "*", "v")
INK, FAINT, GRID = "#1b2228", "#59636d", "#eceae4"


def write_pictures(evaluation: Evaluation, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the main charts of an evaluation as PNG files, and return their paths.

    Args:
        evaluation: the evaluation; charts without data are left out.
        folder: folder of `equity.png`, `weights.png`, `seeds.png`, `costs.png` and
            `learning.png`; created if needed, existing files are replaced.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figures = optional_import("matplotlib.figure", "report", "write_pictures")
    context = ReportContext(evaluation)
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in PICTURES.items():
        figure = figures.Figure(figsize=(9, 5.4), layout="constrained")
        if draw(context, figure):
            path = Path(folder) / f"{name}.png"
            with replace_file(path, ".png") as draft:
                figure.savefig(draft, dpi=144, facecolor="white")
            written.append(path)
    return written


def _equity(context: ReportContext, figure: Figure) -> bool:
    if not has_equity(context.all_episodes):
        return False
    relative = is_relative(context.all_episodes)
    unit = "%" if relative else "money"
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    for axes, series, title in (
        (upper, wealth, f"Cumulative return, {unit}"),
        (lower, drawdown, f"Drawdown, {unit}"),
    ):
        for index, (name, outcome) in reversed(list(enumerate(context.recorded.items()))):
            rows = [
                series(episode, relative) * (100 if relative else 1) for episode in outcome.episodes
            ]
            low, middle, high = quantile_band(rows)
            x = _steps(context, len(middle))
            if index == 0:
                axes.fill_between(x, low, high, color=_colour(index), alpha=0.16, linewidth=0)
            axes.plot(x, middle, **_line(index), label=context.labels[name])
        _decorate(axes, title)
    _legend(upper)
    _caption(figure, context, band_note(len(context.episodes)))
    return True


def _weights(context: ReportContext, figure: Figure) -> bool:
    episode = context.episodes[0] if context.episodes else None
    if episode is None or episode.weights is None or len(episode.weights) < 2:
        return False
    axes = figure.subplots()
    held = largest_weights(episode)
    names, weights = list(held), 100 * np.array(list(held.values()))
    colours = [_colour(index) for index in range(len(names) - 1)] + ["#c3c7cc"]
    x = _steps(context, weights.shape[1] + 1)[1:]
    for side in (np.fmax(weights, 0), np.fmin(weights, 0)):
        areas = axes.stackplot(x, side, colors=colours, labels=names, alpha=0.85)
        for area in areas[len(COLOURS) : -1]:
            area.set(hatch="//", edgecolor="white", linewidth=0)
        names = [f"_{name}" for name in names]
    _decorate(axes, "Weights, % of equity")
    _legend(axes, outside=True)
    _caption(figure, context, f"The agent on seed {episode.seed}.")
    return True


def _seeds(context: ReportContext, figure: Figure) -> bool:
    metric = context.evaluation.headline
    shown = {name: outcome.by_seed.get(metric, []) for name, outcome in context.policies.items()}
    if len(context.evaluation.seeds) < 2 or not np.isfinite(next(iter(shown.values()))).any():
        return False
    axes = figure.subplots()
    table = [values for values in shown.values() if len(values) == len(context.evaluation.seeds)]
    axes.plot(np.array(table, np.float64), color=INK, alpha=0.15, linewidth=0.8)
    for index, (name, values) in enumerate(shown.items()):
        axes.scatter(
            [index] * len(values),
            values,
            s=34,
            alpha=0.85,
            zorder=3,
            color=_colour(index),
            marker=MARKS[index % len(MARKS)],
        )
        interval = context.policies[name].metrics.get(metric)
        if interval is not None:
            axes.vlines(
                index + 0.18, interval.low, interval.high, color=_colour(index), linewidth=2.5
            )
    axes.set_xticks(range(len(shown)), [_plain(context.labels[name]) for name in shown])
    _decorate(axes, f"{_plain(label_of(metric).text)}, by seed")
    _caption(
        figure,
        context,
        "Lines join policies on one seed; bars are confidence intervals over all seeds.",
    )
    return True


def _costs(context: ReportContext, figure: Figure) -> bool:
    sensitivity = context.evaluation.sensitivity
    if sensitivity is None or len(sensitivity.cost_multiples) < 2:
        return False
    axes = figure.subplots()
    for index, name in enumerate(context.policies):
        if name in sensitivity.by_cost:
            axes.plot(
                sensitivity.cost_multiples,
                sensitivity.by_cost[name],
                **_line(index),
                marker=MARKS[index % len(MARKS)],
                label=context.labels[name],
            )
    axes.set_xlabel("cost multiple", color=FAINT)
    _decorate(axes, f"{_plain(label_of(sensitivity.metric).text)} by cost")
    _legend(axes)
    _caption(figure, context, "")
    return True


def _learning(context: ReportContext, figure: Figure) -> bool:
    curves = context.evaluation.learning
    steps = curves.get("steps", [])
    shown = {
        name: values
        for name, values in curves.items()
        if name != "steps" and len(values) == len(steps) and np.isfinite(values).sum() > 1
    }
    if not shown:
        return False
    name = next((key for key in shown if key.startswith("eval")), next(iter(shown)))
    axes = figure.subplots()
    known = np.isfinite(shown[name])
    axes.plot(np.array(steps)[known], np.array(shown[name])[known], **_line(0), marker="o")
    axes.set_xlabel("training steps", color=FAINT)
    _decorate(axes, _plain(name))
    _caption(figure, context, "")
    return True


PICTURES: dict[str, Callable[[ReportContext, Figure], bool]] = {
    "equity": _equity,
    "weights": _weights,
    "seeds": _seeds,
    "costs": _costs,
    "learning": _learning,
}
"""Functions that draw a picture and return False if there is no data."""


def _steps(context: ReportContext, count: int) -> Any:
    """Dates if all episodes share them, else steps."""
    times = context.episodes[0].times
    if times is not None and context.has_shared_dates() and len(times) >= count:
        return times[:count].astype("datetime64[us]")
    return np.arange(count)


def _plain(text: str) -> str:
    """Escape text for Matplotlib, which interprets dollar signs as formulas."""
    return text.replace("$", r"\$")


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _line(index: int) -> dict[str, Any]:
    return {
        "color": _colour(index),
        "linestyle": DASHES[index % len(DASHES)],
        "linewidth": 2.0 if index == 0 else 1.4,
    }


def _decorate(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=10.5)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=FAINT, length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend(axes: Axes, outside: bool = False) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if not outside:
        handles, labels = handles[::-1], labels[::-1]
    position: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if outside else {}
    axes.legend(handles, [_plain(label) for label in labels], frameon=False, fontsize=9, **position)


def _caption(figure: Figure, context: ReportContext, note: str) -> None:
    figure.suptitle(
        _plain(f"{context.evaluation.name} · {context.evaluation.env}"),
        x=0.012,
        ha="left",
        fontsize=12,
        fontweight="bold",
        color=INK,
    )
    if note:
        figure.supxlabel(textwrap.fill(note, 110), x=0.012, ha="left", fontsize=8.5, color=FAINT)
