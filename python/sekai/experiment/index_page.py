"""Index of runs: one offline HTML page with the results and the differing settings of all runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from sekai.config.toml_file import ConfigError, read_toml
from sekai.experiment.run_folder import ExperimentError, RunFolder, runs_in
from sekai.storage.files import replace_file

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation, PolicyOutcome
    from sekai.evaluation.report.elements import Cell, Markup, Section

INDEX_FILE = "index.html"
MAX_POINTS = 60
"""Maximum points of an equity curve."""

MAX_SETTINGS = 40
"""Maximum number of differing settings that are shown."""

METRICS = ("total_return", "max_drawdown", "turnover")
"""Metrics of the table beside the headline, where a run has them."""

FACTS = {"env": "Env", "algorithm": "Algorithm", "seed": "Seed", "state": "State"}
"""Entries of run.json in the table, with their headings."""

WIDTH, HEIGHT, MARGIN = 160, 36, 2


def run_summary(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics and equity curves of an evaluation for run.json, in JSON types."""
    best = best_baseline(evaluation)
    known = evaluation.agent.metrics
    values = {name: known[name].value for name in METRICS if name in known}
    return {
        "metrics": {name: value for name, value in values.items() if math.isfinite(value)},
        "equity": _thinned(mean_growth(evaluation.agent)),
        "baseline": best,
        "baseline_equity": [] if best is None else _thinned(mean_growth(evaluation.policies[best])),
    }


def mean_growth(outcome: PolicyOutcome) -> list[float]:
    """Growth of equity by step, averaged over episodes; empty without an account."""
    curves = [
        episode.equity / episode.equity[0]
        for episode in outcome.episodes
        if len(episode.equity) > 1 and episode.equity[0] > 0
    ]
    if not curves:
        return []
    length = min(map(len, curves))
    mean = np.mean([curve[:length] for curve in curves], axis=0)
    return [float(value) for value in mean if math.isfinite(value)]


def best_baseline(evaluation: Evaluation) -> str | None:
    """Name of the baseline with the best headline metric; None if none is defined."""
    values = {
        name: outcome.metrics[evaluation.headline].value
        for name, outcome in evaluation.baselines.items()
    }
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    sign = 1.0 if evaluation.higher_is_better else -1.0
    return max(known, key=lambda name: sign * known[name]) if known else None


def write_index(root: Path) -> Path:
    """Write the index page of all runs in a folder, and return its path."""
    from sekai.evaluation.report.page import page

    runs = runs_in(root)
    sections = [_results_section(runs, root)]
    settings = _settings_section(runs)
    if settings is not None:
        sections.append(settings)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    text = page("Runs", [root.resolve().name, count], sections, "runs")
    with replace_file(root / INDEX_FILE, ".html") as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    return root / INDEX_FILE


def refresh_index(run: RunFolder, log: Callable[[str], None]) -> None:
    """Write the index page of the folder of a run; a message says why it could not be written."""
    try:
        write_index(run.ledger.parent)
    except OSError as error:
        log(f"no index of runs: {error}")


def _results_section(runs: Sequence[RunFolder], root: Path) -> Section:
    from sekai.evaluation.report.elements import Section, card, label_of, table

    facts = {run.path: _facts(run) for run in reversed(runs)}
    summaries = {path: _summary(known) for path, known in facts.items()}
    known = {name for summary in summaries.values() for name in summary["metrics"]}
    shown = [name for name in METRICS if name in known]
    metrics = [label_of(name).heading for name in shown]
    heads = ["Run", "Headline", "Equity", "Best baseline", *metrics, *FACTS.values(), "Created"]
    rows = [
        _result_row(RunFolder(path), known, summaries[path], shown, root)
        for path, known in facts.items()
    ]
    note = (
        "Latest first. Equity is the mean growth over unseen episodes, beside the best baseline "
        "(dashed); headline metrics have confidence intervals in brackets."
    )
    return Section(
        name="runs", title="Runs", blocks=[card("Results", table(heads, rows, "Results"), note)]
    )


def _result_row(
    run: RunFolder,
    facts: Mapping[str, Any],
    summary: Mapping[str, Any],
    metrics: Sequence[str],
    root: Path,
) -> list[Cell]:
    from sekai.evaluation.report.elements import (
        Cell,
        element,
        format_number,
        format_time,
        label_of,
        policy_label,
    )

    name: object = run.name
    if run.report.is_file():
        name = element("a", run.name, href=quote(run.report.relative_to(root).as_posix()))
    texts = [str(facts.get(key, "")) for key in FACTS]
    numbers = [
        Cell(format_number(value, label_of(metric).kind), value)
        for metric in metrics
        for value in [summary["metrics"].get(metric, math.nan)]
    ]
    return [
        Cell(name),
        _headline(facts.get("headline")),
        Cell(_picture(summary["equity"], summary["baseline_equity"], run.name)),
        Cell(policy_label(summary["baseline"] or "")),
        *numbers,
        *(Cell(element("span", text, class_="word")) for text in texts),
        Cell(element("span", format_time(str(facts.get("created", ""))), class_="word")),
    ]


def _headline(headline: Mapping[str, Any] | None) -> Cell:
    from sekai.evaluation.report.elements import Cell, element, format_number, joined, label_of

    if headline is None:
        return Cell("")
    label = label_of(headline["metric"])
    value, low, high = (float(headline[key]) for key in ("value", "low", "high"))
    size = max((abs(each) for each in (value, low, high) if math.isfinite(each)), default=0.0)
    own, *bounds = (format_number(each, label.kind, size) for each in (value, low, high))
    mark = "" if headline.get("is_valid", True) else " (invalid)"
    lines = (("value", f"{label.text} {own}"), ("bounds", f"[{', '.join(bounds)}]{mark}"))
    content = joined(*(element("span", text, class_=look) for look, text in lines))
    # Invalid results have no place in the order.
    return Cell(content, math.nan if mark else value)


def _settings_section(runs: Sequence[RunFolder]) -> Section | None:
    """Table of the settings that are not the same in all runs; None if there is none."""
    from sekai.evaluation.report.elements import Cell, Section, card, table

    settings = {run.name: _settings(run) for run in reversed(runs)}
    keys = dict.fromkeys(key for values in settings.values() for key in values)
    differing = [key for key in keys if len({values.get(key) for values in settings.values()}) > 1]
    if not differing:
        return None
    shown = differing[:MAX_SETTINGS]
    rows = [
        [Cell(name), *(Cell(values.get(key, "")) for key in shown)]
        for name, values in settings.items()
    ]
    more = len(differing) - len(shown)
    note = "Settings that are not the same in all runs, defaults included."
    note += f" {more} more are in the config.toml of each run." if more else ""
    body = table(["Run", *shown], rows, "Settings that differ")
    return Section(name="settings", title="Settings", blocks=[card("Differences", body, note)])


def _settings(run: RunFolder) -> dict[str, str]:
    """Settings of a run by section and key; empty if they cannot be read."""
    try:
        values = read_toml(run.config)[0]
    except ConfigError:
        return {}
    flat: dict[str, str] = {}
    _flatten("", values, flat)
    flat.pop("run.name", None)
    return flat


def _flatten(prefix: str, values: Mapping[str, Any], flat: dict[str, str]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _flatten(f"{prefix}{key}.", value, flat)
        else:
            flat[f"{prefix}{key}"] = str(value)


def _facts(run: RunFolder) -> dict[str, Any]:
    try:
        return run.facts
    except ExperimentError:
        return {"state": "unreadable"}


def _summary(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Summary in run.json, which may have been altered; empty parts where it does not fit."""
    found = facts.get("summary")
    found = found if isinstance(found, dict) else {}
    metrics, name = found.get("metrics"), found.get("baseline")
    return {
        "metrics": {
            key: float(value)
            for key, value in (metrics.items() if isinstance(metrics, dict) else ())
            if _is_number(value)
        },
        "equity": _numbers(found.get("equity")),
        "baseline": name if isinstance(name, str) else None,
        "baseline_equity": _numbers(found.get("baseline_equity")),
    }


def _numbers(values: Any) -> list[float]:
    is_list = isinstance(values, list) and len(values) <= MAX_POINTS
    return [float(value) for value in values] if is_list and all(map(_is_number, values)) else []


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300


def _thinned(values: Sequence[float]) -> list[float]:
    count = min(MAX_POINTS, len(values))
    indices = [round(index * (len(values) - 1) / max(count - 1, 1)) for index in range(count)]
    return [float(f"{values[index]:.6g}") for index in indices]


def _picture(equity: Sequence[float], baseline: Sequence[float], name: str) -> Markup | str:
    """Equity curve of a run, beside that of its best baseline, as a small picture."""
    from sekai.evaluation.report.elements import element

    if len(equity) < 2:
        return ""
    low, high = min(*equity, *baseline), max(*equity, *baseline)
    lines = [("base", baseline), ("own", equity)]
    drawn = [
        element("polyline", points=_points(values, low, high), class_=look)
        for look, values in lines
        if len(values) > 1
    ]
    label = f"Equity of {name}: growth of 1 to {equity[-1]:.3g}"
    return element(
        "svg",
        *drawn,
        class_="spark",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=label,
    )


def _points(values: Sequence[float], low: float, high: float) -> str:
    span, last = (high - low) or 1.0, len(values) - 1
    return " ".join(
        f"{MARGIN + index / last * (WIDTH - 2 * MARGIN):.1f},"
        f"{HEIGHT - MARGIN - (value - low) / span * (HEIGHT - 2 * MARGIN):.1f}"
        for index, value in enumerate(values)
    )
