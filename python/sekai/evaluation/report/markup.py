"""HTML in which nothing that comes from outside can act: text is escaped where it is put in."""

from __future__ import annotations

import html

__all__ = ["Markup", "element", "joined"]

VOID = frozenset({"br", "hr", "input", "meta"})
"""Elements that hold nothing and are not closed."""


class Markup(str):
    """Text that is HTML already; any other text is escaped when it is put into an element."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Markup:
    """An element around `children`.

    Args:
        name: which element.
        children: text, which is escaped, and `Markup`, which is not; None is left out.
        attributes: `class_` stands for class, `data_value` for data-value; None and False are left
            out, True is written without a value.
    """
    opening = f"<{name}{''.join(map(_attribute, attributes, attributes.values()))}>"
    return Markup(opening if name in VOID else f"{opening}{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Texts and elements after one another."""
    return Markup("".join(_inside(child) for child in children if child is not None))


def _inside(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def _attribute(name: str, value: object) -> str:
    written = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {written}" if value is True else f' {written}="{html.escape(str(value))}"'
