"""One page that needs nothing else: template, style, scripts and charts in a single file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from sekai.error import MissingExtraError
from sekai.evaluation.report.chart import Chart
from sekai.evaluation.report.markup import Markup, element
from sekai.evaluation.report.page_data import charts_as_json
from sekai.evaluation.report.section import Section

__all__ = ["page"]

THEME = "theme.js"
"""Runs before anything is shown, so that a dark page does not begin with a flash of white."""

SCRIPTS = ("charts.js", "tables.js", "tabs.js")
"""In the order in which they run."""


def page(title: str, facts: Sequence[str], sections: Sequence[Section]) -> str:
    """The whole page as text, with `facts` under its title."""
    charts = [block for part in sections for block in part.blocks if isinstance(block, Chart)]
    places = {id(chart): place for place, chart in enumerate(charts)}
    scripts = [_template(THEME), _plotly(), *map(_template, SCRIPTS)]
    parts = {
        "policy": _security_policy(scripts),
        "title": element("title", f"{title} · sekai report"),
        "style": _template("style.css"),
        "heading": element("h1", title),
        "subtitle": element("p", *(element("span", fact) for fact in facts), class_="facts-line"),
        "tabs": Markup("".join(_tab(part, place) for place, part in enumerate(sections))),
        "panels": Markup("".join(_panel(part, places) for part in sections)),
        "data": charts_as_json(charts),
        "theme": f"<script>{scripts[0]}</script>",
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts[1:]),
    }
    return _filled(_template("page.html"), parts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with its parts; what a part holds is never searched for places again."""
    pieces = template.split("{{")
    written = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        written += [parts[name.strip()], rest]
    return "".join(written)


def _tab(section: Section, place: int) -> Markup:
    return element(
        "button",
        section.title,
        id=f"tab-{section.name}",
        type="button",
        role="tab",
        aria_controls=section.name,
        aria_selected="true" if place == 0 else "false",
        tabindex=None if place == 0 else "-1",
    )


def _panel(section: Section, places: dict[int, int]) -> Markup:
    blocks = [
        _figure(block, places[id(block)]) if isinstance(block, Chart) else block
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


def _figure(chart: Chart, place: int) -> Markup:
    options = [element("option", name, value=view) for view, name in enumerate(chart.views)]
    chooser = element(
        "label", f"{chart.choice} ", element("select", *options, data_views=place), class_="choice"
    )
    title = element("h3", chart.title)
    canvas = element(
        "div",
        class_="chart",
        data_chart=place,
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
    """What a browser lets the page do: run these very scripts, and reach nothing and nobody."""
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(one).decode('ascii')}'" for one in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _template(name: str) -> str:
    return (files("sekai.evaluation.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtraError.of("plotly", "report", "write_report") from error
    # A browser reads line ends as one character, and checks what it read against the digest.
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
