"""Report page: one self-contained HTML file with template, style, scripts and charts."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.chart import Chart
from sekai.evaluation.report.elements import Markup, ReportContext, Section, element, format_time
from sekai.evaluation.report.overview import overview_section, provenance_section, validity_section
from sekai.evaluation.report.performance import performance_section
from sekai.evaluation.report.seeds import runs_sections, seeds_section, training_section
from sekai.evaluation.report.trading import costs_section, holdings_section
from sekai.storage.files import replace_file

__all__ = ["charts_as_json", "page", "safe_json", "write_report"]

SECTIONS = (
    overview_section,
    performance_section,
    holdings_section,
    costs_section,
    seeds_section,
    training_section,
    validity_section,
    provenance_section,
)
"""Sections in order; each returns None if it has nothing to show."""

THEME = "theme.js"
"""Runs before the first paint, so that a dark page does not flash white."""

SCRIPTS = ("scales.js", "pointer.js", "charts.js", "tables.js", "tabs.js")

LARGEST_INTEGER = 2**24
"""Largest whole number that is exact in float32; later times in milliseconds are above it."""

DAY = 86_400_000.0
"""Milliseconds of a day."""

ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters that could end a script element, as JSON escapes."""


def write_report(
    evaluations: Evaluation | Sequence[Evaluation], path: str | os.PathLike[str]
) -> Path:
    """Write a self-contained HTML report of one evaluation, or a comparison of several.

    Args:
        evaluations: one evaluation, or several to compare.
        path: file ending in `.html`; an existing one is replaced atomically.

    Raises:
        ValueError: there is no evaluation, or the path does not end in `.html`.
    """
    runs = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
    if not runs:
        raise ValueError("a report needs at least one evaluation, got none")
    # Undefined values are shown as such and need no warning.
    with np.errstate(all="ignore"):
        text = _single_report(runs[0]) if len(runs) == 1 else _comparison_report(runs)
    with replace_file(path, ".html") as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)


def _single_report(evaluation: Evaluation) -> str:
    context = ReportContext(evaluation)
    candidates = [section(context) for section in SECTIONS]
    seeds, baselines = len(evaluation.seeds), len(evaluation.baselines)
    facts = [
        evaluation.env,
        f"{seeds} seed{'s' if seeds != 1 else ''}",
        f"{baselines} baseline{'s' if baselines != 1 else ''}",
        format_time(evaluation.provenance.created),
    ]
    return page(evaluation.name, facts, [section for section in candidates if section is not None])


def _comparison_report(runs: list[Evaluation]) -> str:
    facts = [*dict.fromkeys(run.env for run in runs), *(run.name for run in runs)]
    return page(f"{len(runs)} runs compared", facts, runs_sections(runs))


def page(
    title: str, facts: Sequence[str], sections: Sequence[Section], kind: str = "evaluation report"
) -> str:
    """HTML of a page of a kind, with `facts` under its title."""
    charts = [block for part in sections for block in part.blocks if isinstance(block, Chart)]
    indices = {id(chart): index for index, chart in enumerate(charts)}
    scripts = [_template(THEME), *map(_template, SCRIPTS)]
    parts = {
        "policy": _security_policy(scripts),
        "title": element("title", f"{title} · sekai"),
        "brand": element("p", f"sekai · {kind}", class_="brand"),
        "style": _template("style.css"),
        "heading": element("h1", title),
        "subtitle": element("p", *(element("span", fact) for fact in facts), class_="facts-line"),
        "tabs": Markup("".join(_tab(part, index) for index, part in enumerate(sections))),
        "panels": Markup("".join(_panel(part, indices) for part in sections)),
        "data": charts_as_json(charts),
        "theme": f"<script>{scripts[0]}</script>",
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts[1:]),
    }
    return _filled(_template("page.html"), parts)


def charts_as_json(charts: Sequence[Chart]) -> str:
    """Charts as JSON, with arrays stored once and referred to by index."""
    arrays: dict[str, int] = {}
    packed = [
        {
            "height": chart.height,
            "views": [
                _packed({"traces": view.traces, "layout": view.layout}, arrays)
                for view in chart.views.values()
            ],
        }
        for chart in charts
    ]
    return safe_json({"charts": packed, "arrays": list(arrays)})


def safe_json(value: Any) -> str:
    """Strict JSON without characters that are special in HTML."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _packed(value: Any, arrays: dict[str, int]) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": arrays.setdefault(_encoded(value), len(arrays))}
    if isinstance(value, dict):
        return {name: _packed(part, arrays) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_packed(part, arrays) for part in value]
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _encoded(values: NDArray[Any]) -> str:
    """Kind and little-endian bytes in base64.

    Numbers are stored in four bytes where a chart shows no difference: whole numbers and
    float32 exactly, times as days since the first.
    """
    if values.dtype == np.float32 or _is_small_integer(values):
        return f"f4:{_base64(values, '<f4')}"
    if len(values) and np.isfinite(values).all() and values[0] > LARGEST_INTEGER:
        return f"d4/{values[0]:.0f}:{_base64((values - round(values[0])) / DAY, '<f4')}"
    return f"f8:{_base64(values, '<f8')}"


def _is_small_integer(values: NDArray[Any]) -> bool:
    return bool((np.abs(values) <= LARGEST_INTEGER).all() and (values == np.round(values)).all())


def _base64(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def _filled(template: str, parts: dict[str, str]) -> str:
    """Fill the placeholders of a template; parts themselves are not searched."""
    pieces = template.split("{{")
    written = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        written += [parts[name.strip()], rest]
    return "".join(written)


def _tab(section: Section, index: int) -> Markup:
    return element(
        "button",
        section.title,
        id=f"tab-{section.name}",
        type="button",
        role="tab",
        aria_controls=section.name,
        aria_selected="true" if index == 0 else "false",
        tabindex=None if index == 0 else "-1",
    )


def _panel(section: Section, indices: dict[int, int]) -> Markup:
    blocks = [
        _figure(block, indices[id(block)]) if isinstance(block, Chart) else block
        for block in section.blocks
    ]
    return element(
        "section",
        element("h2", section.title, class_="panel-title"),
        *blocks,
        id=section.name,
        class_="panel",
        role="tabpanel",
        aria_labelledby=f"tab-{section.name}",
        tabindex="0",
    )


def _figure(chart: Chart, index: int) -> Markup:
    options = [element("option", name, value=view) for view, name in enumerate(chart.views)]
    chooser = element(
        "label", f"{chart.choice} ", element("select", *options, data_views=index), class_="choice"
    )
    title = element("h3", chart.title)
    canvas = element(
        "div",
        class_="chart",
        data_chart=index,
        role="img",
        style=f"height:{chart.height}px",
        aria_label=f"Chart: {chart.title}. {chart.note}".strip(),
    )
    return element(
        "figure",
        element("div", title, chooser if len(options) > 1 else None, class_="chart-head"),
        canvas,
        element("figcaption", chart.note, class_="note") if chart.note else None,
        class_="card",
    )


def _security_policy(scripts: Sequence[str]) -> str:
    """Content security policy: these scripts only, and no network access."""
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _template(name: str) -> str:
    return (files("sekai.evaluation.report") / "templates" / name).read_text(encoding="utf-8")
