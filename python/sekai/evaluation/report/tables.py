"""Tables that sort by a click on their heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sekai.evaluation.report.chart import Style
from sekai.evaluation.report.markup import Markup, element

__all__ = ["Cell", "card", "named", "table"]


class Cell(NamedTuple):
    """What a cell shows, and the number that it sorts by."""

    text: object
    value: float | None = None
    look: str = ""


def table(
    heads: Sequence[object],
    rows: Sequence[Sequence[Cell]],
    caption: str,
    row_looks: Sequence[str] = (),
    *,
    sortable: bool = True,
) -> Markup:
    """A table whose first column names its rows; wider than the page, it scrolls by itself."""
    head = element("tr", *(_head(text, place, sortable) for place, text in enumerate(heads)))
    looks = row_looks or [""] * len(rows)
    body = [
        element("tr", _first(row[0]), *map(_cell, row[1:]), class_=look or None)
        for row, look in zip(rows, looks, strict=True)
    ]
    made = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", *body),
        class_="figures",
    )
    return element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def card(title: str, body: Markup, note: str) -> Markup:
    """A part of a section under its title, with what to know when reading it."""
    return element(
        "section", element("h3", title), body, element("p", note, class_="note"), class_="card"
    )


def named(label: str, style: Style | None) -> Markup:
    """A policy by its name, and how it looks on charts."""
    drawn = None if style is None else _swatch(style)
    return element("span", drawn, element("span", label), class_="named")


def _swatch(style: Style) -> Markup:
    stroke = element("line", x1=1, x2=27, y1=5, y2=5)
    return element("svg", stroke, class_=f"swatch c{style.colour[1:]}",
                   viewBox="0 0 28 10", aria_hidden="true")  # fmt: skip


def _head(text: object, place: int, sortable: bool) -> Markup:
    sorter = element("button", text, type="button", data_sort=place)
    return element("th", sorter if sortable else text, scope="col")


def _first(cell: Cell) -> Markup:
    return element(
        "th", cell.text, scope="row", data_value=_sorted_by(cell), class_=cell.look or None
    )


def _cell(cell: Cell) -> Markup:
    return element("td", cell.text, data_value=_sorted_by(cell), class_=cell.look or None)


def _sorted_by(cell: Cell) -> str | None:
    """The number in JavaScript's words; none where there is none, which sorts last."""
    if cell.value is None or math.isnan(cell.value):
        return None
    if math.isinf(cell.value):
        return "Infinity" if cell.value > 0 else "-Infinity"
    return repr(float(cell.value))
