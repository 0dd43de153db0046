"""Pictures: the main charts as PNG files, the first screen as PDF or PNG, and plots on axes."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.chart import drawdown, has_equity, is_relative, wealth
from sekai.evaluation.report.elements import ReportContext, format_time, label_of
from sekai.evaluation.report.performance import band_note
from sekai.evaluation.report.summary import (
    quantile_band,
    summary_band,
    summary_numbers,
    summary_sentence,
)
from sekai.evaluation.report.trading import largest_weights
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sekai.evaluation.walk_forward import WalkForwardEvaluation

__all__ = [
    "draw_drawdown",
    "draw_equity",
    "draw_walk_forward",
    "write_pictures",
    "write_summary",
]

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


def write_summary(
    evaluation: Evaluation, path: str | os.PathLike[str], suffix: str | None = None
) -> Path:
    """Write the first screen of the report: verdict, four numbers, equity and drawdown.

    Args:
        evaluation: the evaluation.
        path: file ending in `.pdf`, which has one page, or `.png`; an existing one is replaced
            atomically.
        suffix: required ending; that of the path if None.

    Raises:
        ValueError: the path has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    figures = optional_import("matplotlib.figure", "report", "write_summary")
    kind = suffix or Path(path).suffix
    if kind not in (".pdf", ".png") or Path(path).suffix != kind:
        expected = suffix or ".pdf or .png"
        raise ValueError(f"path must end in {expected}, got {os.fspath(path)!r}")
    figure = figures.Figure(figsize=(11.7, 8.3), facecolor="white")
    _draw_summary(ReportContext(evaluation), figure)
    with replace_file(path, kind) as draft:
        # Without a date, the same evaluation gives the same file.
        details = {"CreationDate": None} if kind == ".pdf" else {}
        figure.savefig(draft, dpi=144, format=kind[1:], metadata=details)
    return Path(path)


def _draw_summary(context: ReportContext, figure: Figure) -> None:
    evaluation = context.evaluation
    figure.text(0.06, 0.95, _plain(evaluation.name), fontsize=18, fontweight="bold", color=INK)
    count = len(evaluation.seeds)
    facts = f"{evaluation.env} · {count} seed{'s' if count != 1 else ''} · "
    facts += format_time(evaluation.provenance.created)
    figure.text(0.06, 0.92, _plain(facts), fontsize=9, color=FAINT)
    sentence = textwrap.fill(_plain(summary_sentence(evaluation)), 105)
    figure.text(0.06, 0.895, sentence, fontsize=13, color=INK, va="top")
    numbers = summary_numbers(evaluation)
    for index, number in enumerate(numbers):
        left = 0.06 + 0.9 * index / max(len(numbers), 1)
        name = textwrap.fill(_plain(number.name), 34)
        figure.text(left, 0.815, name, fontsize=9, color=FAINT, va="top")
        figure.text(left, 0.765, _plain(number.value), fontsize=20, color=INK, va="top")
        note = textwrap.fill(_plain(number.note), 34)
        figure.text(left, 0.718, note, fontsize=8.5, color=FAINT, va="top")
    if not has_equity(context.all_episodes):
        return
    grid = figure.add_gridspec(
        2, 1, left=0.07, right=0.96, top=0.63, bottom=0.09, height_ratios=[2.2, 1], hspace=0.22
    )
    upper = figure.add_subplot(grid[0])
    lower = figure.add_subplot(grid[1], sharex=upper)
    note = _draw_series(context, upper, wealth, "Cumulative return")
    _draw_series(context, lower, drawdown, "Drawdown")
    upper.tick_params(labelbottom=False)
    handles, labels = upper.get_legend_handles_labels()
    figure.legend(
        handles[::-1],
        [_plain(label) for label in labels[::-1]],
        loc="lower left",
        bbox_to_anchor=(0.055, 0.65),
        ncols=len(labels),
        frameon=False,
        fontsize=9,
    )
    figure.text(0.06, 0.03, textwrap.fill(note, 150), fontsize=8.5, color=FAINT)


def draw_equity(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw equity on axes, see `Evaluation.plot_equity`."""
    return _on_axes(evaluation, ax, wealth, "Cumulative return")


def draw_drawdown(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw drawdowns on axes, see `Evaluation.plot_drawdown`."""
    return _on_axes(evaluation, ax, drawdown, "Drawdown")


def draw_walk_forward(result: WalkForwardEvaluation, ax: Axes | None = None) -> Axes:
    """Draw the joined account on axes, see `WalkForwardEvaluation.plot`."""
    axes = draw_equity(result.joined, ax)
    for fold in result.folds:
        times = fold.agent.episodes[0].times
        if times is not None:
            axes.axvline(times[0].astype("datetime64[us]"), color=FAINT, alpha=0.5, linewidth=0.8)
    return axes


def _on_axes(evaluation: Evaluation, ax: Axes | None, series: Any, title: str) -> Axes:
    context = ReportContext(evaluation)
    if not has_equity(context.all_episodes):
        raise ValueError(
            f"episodes of {evaluation.env} have no equity to draw; expected a task with an account"
        )
    if ax is None:
        pyplot = optional_import("matplotlib.pyplot", "report", "plots of an evaluation")
        _, ax = pyplot.subplots(figsize=(9, 4), layout="constrained")
    axes: Axes = ax
    _draw_series(context, axes, series, title)
    _legend(axes)
    return axes


def _draw_series(context: ReportContext, axes: Axes, series: Any, title: str) -> str:
    """Draw medians over seeds, and a band of the agent; returns a note about the band."""
    relative = is_relative(context.all_episodes)
    scale = 100 if relative else 1
    note = band_note(len(context.episodes))
    for index, (name, outcome) in reversed(list(enumerate(context.recorded.items()))):
        low, middle, high = quantile_band(
            [series(episode, relative) for episode in outcome.episodes]
        )
        x = _steps(context, len(middle))
        if index == 0 and len(outcome.episodes) == 1 and series is wealth and relative:
            low, high, note = summary_band(outcome.episodes, relative)
        if index == 0:
            axes.fill_between(
                x, scale * low, scale * high, color=_colour(index), alpha=0.16, linewidth=0
            )
        axes.plot(x, scale * middle, **_line(index), label=context.labels[name])
    _decorate(axes, f"{title}, {'%' if relative else 'money'}")
    return note


def _equity(context: ReportContext, figure: Figure) -> bool:
    if not has_equity(context.all_episodes):
        return False
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    note = _draw_series(context, upper, wealth, "Cumulative return")
    _draw_series(context, lower, drawdown, "Drawdown")
    _legend(upper)
    _caption(figure, context, note)
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
