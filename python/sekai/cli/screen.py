"""What is shown on the terminal: results on the standard output, the rest on the error stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["complain", "note", "say", "show_table", "table", "waiting"]

WIDE = 200
"""Columns of a table where there is no terminal whose width could be asked."""


def output() -> Console:
    """Where results go. Made anew each time: streams may have been replaced."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def errors() -> Console:
    """Where everything goes that is no result."""
    return Console(stderr=True, highlight=False)


def say(text: str | Text = "") -> None:
    """Show a line of results, as it is."""
    output().print(text, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """Tell what is going on."""
    errors().print(text, markup=False, soft_wrap=True)


@contextlib.contextmanager
def waiting(text: str, quiet: bool) -> Iterator[None]:
    """Tell what is going on for as long as it takes."""
    console = errors()
    if quiet:
        yield
    elif console.is_terminal:
        with console.status(text):
            yield
    else:
        note(text)
        yield


def complain(message: str) -> None:
    """Tell what is wrong."""
    shown = Text.assemble(("error: ", "bold red"), message)
    errors().print(shown, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], title: str = "") -> Table:
    """Rows below names; columns that begin with ">" are of numbers."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        is_number = name.startswith(">")
        made.add_column(name.removeprefix(">"), justify="right" if is_number else "left",
                        header_style="bold", overflow="fold")  # fmt: skip
    for row in rows:
        made.add_row(*(one if isinstance(one, Text) else Text(one) for one in row))
    return made


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Show rows below names."""
    output().print(table(columns, rows))
