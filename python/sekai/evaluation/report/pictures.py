"""The main charts as PNG files, for slides and papers."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import MissingExtraError
from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.labels import label_of
from sekai.evaluation.report.section import Subject
from sekai.evaluation.report.sections.growth import spread, spread_note
from sekai.evaluation.report.sections.holdings import largest
from sekai.evaluation.report.series import drawdown, has_equity, is_relative, wealth
from sekai.rendering.replacement import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["write_pictures"]

COLOURS = ("#0072b2", "#d55e00", "#008561", "#b0508a", "#8f6a00", "#5b6b7a", "#6a4bb0", "#7a4420")
"""Those of the page's light theme."""

DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (8, 2)), (0, (8, 2, 1, 2)),
                           (0, (7, 2, 1, 2, 1, 2)), (0, (1, 4)))  # fmt: skip
MARKS = ("o", "s", "D", "^", "P", "X", "*", "v")
INK, FAINT, GRID = "#1b2228", "#59636d", "#eceae4"


def write_pictures(evaluation: Evaluation, folder: str | os.PathLike[str]) -> list[Path]:
    """Draw the main charts of an evaluation; those that it has nothing for are left out.

    Args:
        evaluation: what is drawn.
        folder: where `equity.png`, `weights.png`, `seeds.png`, `costs.png` and `learning.png` go;
            it is made if it is not there, and files that are there are replaced.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    new_figure = _figures()
    subject = Subject(evaluation)
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in PICTURES.items():
        figure = new_figure()
        if draw(subject, figure):
            path = Path(folder) / f"{name}.png"
            with replacing(path, ".png") as draft:
                figure.savefig(draft, dpi=144, facecolor="white")
            written.append(path)
    return written


def _figures() -> Callable[[], Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError.of("matplotlib", "report", "write_pictures") from error
    return lambda: Figure(figsize=(9, 5.4), layout="constrained")


def _equity(subject: Subject, figure: Figure) -> bool:
    if not has_equity(subject.all_episodes):
        return False
    relative = is_relative(subject.all_episodes)
    unit = "%" if relative else "money"
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    for axes, series, title in (
        (upper, wealth, f"Growth, {unit}"),
        (lower, drawdown, f"Drawdown, {unit}"),
    ):
        for place, (name, outcome) in reversed(list(enumerate(subject.played.items()))):
            rows = [
                series(episode, relative) * (100 if relative else 1) for episode in outcome.episodes
            ]
            low, middle, high = spread(rows)
            x = _steps(subject, len(middle))
            if place == 0:
                axes.fill_between(x, low, high, color=_colour(place), alpha=0.16, linewidth=0)
            axes.plot(x, middle, **_line(place), label=subject.labels[name])
        _dress(axes, title)
    _legend(upper)
    _caption(figure, subject, spread_note(len(subject.episodes)))
    return True


def _weights(subject: Subject, figure: Figure) -> bool:
    episode = subject.episodes[0] if subject.episodes else None
    if episode is None or episode.weights is None or len(episode.weights) < 2:
        return False
    axes = figure.subplots()
    held = largest(episode)
    names, weights = list(held), 100 * np.array(list(held.values()))
    colours = [_colour(place) for place in range(len(names) - 1)] + ["#c3c7cc"]
    x = _steps(subject, weights.shape[1] + 1)[1:]
    for side in (np.fmax(weights, 0), np.fmin(weights, 0)):
        areas = axes.stackplot(x, side, colors=colours, labels=names, alpha=0.85)
        for area in areas[len(COLOURS) : -1]:
            area.set(hatch="//", edgecolor="white", linewidth=0)
        names = [f"_{name}" for name in names]
    _dress(axes, "Weights, % of equity")
    _legend(axes, outside=True)
    _caption(figure, subject, f"The agent on seed {episode.seed}.")
    return True


def _seeds(subject: Subject, figure: Figure) -> bool:
    metric = subject.evaluation.headline
    shown = {name: outcome.by_seed.get(metric, []) for name, outcome in subject.policies.items()}
    if len(subject.evaluation.seeds) < 2 or not np.isfinite(next(iter(shown.values()))).any():
        return False
    axes = figure.subplots()
    table = [values for values in shown.values() if len(values) == len(subject.evaluation.seeds)]
    axes.plot(np.array(table, np.float64), color=INK, alpha=0.15, linewidth=0.8)
    for place, (name, values) in enumerate(shown.items()):
        axes.scatter([place] * len(values), values, s=34, alpha=0.85, zorder=3,
                     color=_colour(place), marker=MARKS[place % len(MARKS)])  # fmt: skip
        found = subject.policies[name].metrics.get(metric)
        if found is not None:
            axes.vlines(place + 0.18, found.low, found.high, color=_colour(place), linewidth=2.5)
    axes.set_xticks(range(len(shown)), [_plain(subject.labels[name]) for name in shown])
    _dress(axes, f"{_plain(label_of(metric).text)}, by seed")
    _caption(figure, subject, "Lines join policies on one seed; bars are intervals of all seeds.")
    return True


def _costs(subject: Subject, figure: Figure) -> bool:
    sensitivity = subject.evaluation.sensitivity
    if sensitivity is None or len(sensitivity.cost_multiples) < 2:
        return False
    axes = figure.subplots()
    for place, name in enumerate(subject.policies):
        if name in sensitivity.by_cost:
            axes.plot(sensitivity.cost_multiples, sensitivity.by_cost[name], **_line(place),
                      marker=MARKS[place % len(MARKS)], label=subject.labels[name])  # fmt: skip
    axes.set_xlabel("times the costs", color=FAINT)
    _dress(axes, f"{_plain(label_of(sensitivity.metric).text)} if trading cost more")
    _legend(axes)
    _caption(figure, subject, "")
    return True


def _learning(subject: Subject, figure: Figure) -> bool:
    told = subject.evaluation.learning
    steps = told.get("steps", [])
    shown = {
        name: values
        for name, values in told.items()
        if name != "steps" and len(values) == len(steps) and np.isfinite(values).sum() > 1
    }
    if not shown:
        return False
    name = next((one for one in shown if one.startswith("eval")), next(iter(shown)))
    axes = figure.subplots()
    known = np.isfinite(shown[name])
    axes.plot(np.array(steps)[known], np.array(shown[name])[known], **_line(0), marker="o")
    axes.set_xlabel("steps learnt", color=FAINT)
    _dress(axes, _plain(name))
    _caption(figure, subject, "")
    return True


PICTURES: dict[str, Callable[[Subject, Figure], bool]] = {
    "equity": _equity,
    "weights": _weights,
    "seeds": _seeds,
    "costs": _costs,
    "learning": _learning,
}
"""Each says whether it had anything to draw."""


def _steps(subject: Subject, count: int) -> Any:
    """Dates where all episodes share them, else steps."""
    times = subject.episodes[0].times
    if times is not None and subject.has_shared_dates() and len(times) >= count:
        return times[:count].astype("datetime64[us]")
    return np.arange(count)


def _plain(text: str) -> str:
    """Text in which Matplotlib finds no formulae."""
    return text.replace("$", r"\$")


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _line(place: int) -> dict[str, Any]:
    return {
        "color": _colour(place),
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 2.0 if place == 0 else 1.4,
    }


def _dress(axes: Axes, title: str) -> None:
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
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if outside else {}
    axes.legend(handles, [_plain(label) for label in labels], frameon=False, fontsize=9, **place)


def _caption(figure: Figure, subject: Subject, note: str) -> None:
    figure.suptitle(_plain(f"{subject.evaluation.name} · {subject.evaluation.env}"), x=0.012,
                    ha="left", fontsize=12, fontweight="bold", color=INK)  # fmt: skip
    if note:
        figure.supxlabel(textwrap.fill(note, 110), x=0.012, ha="left", fontsize=8.5, color=FAINT)
