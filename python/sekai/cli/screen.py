"""Terminal output: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"

DEFAULT_WIDTH = 200
"""Width of tables without a terminal."""


def output() -> Console:
    """Console of standard output; created anew because streams may have been replaced."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=DEFAULT_WIDTH)


def errors() -> Console:
    """Console of standard error."""
    return Console(stderr=True, highlight=False)


def say(text: str | Text = "") -> None:
    """Print a line of results without markup."""
    output().print(text, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a status message."""
    errors().print(text, markup=False, soft_wrap=True)


@contextlib.contextmanager
def waiting(text: str, quiet: bool) -> Iterator[None]:
    """Show a status message while the `with` block runs."""
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
    """Print an error message."""
    errors().print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table; columns whose name begins with ">" are right-aligned."""
    output().print(_table(columns, rows))


@contextlib.contextmanager
def live_table() -> Iterator[Callable[[Sequence[str], Iterable[Sequence[str]]], None] | None]:
    """Function that draws a table in place of the last one; None without a terminal."""
    console = errors()
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda columns, rows: live.update(_table(columns, rows), refresh=True)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    table = Table(title_justify="left", box=None, pad_edge=False)
    for name in columns:
        justify = "right" if name.startswith(">") else "left"
        table.add_column(
            name.removeprefix(">"),
            justify=justify,  # type: ignore[arg-type]
            header_style="bold",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def sparkline(values: Sequence[float], low: float, high: float, width: int) -> str:
    """Line of bars from `low` to `high`; empty if standard output cannot show them.

    Args:
        values: finite values, of which `width` are shown.
        low: value of the lowest bar.
        high: value of the highest bar.
        width: maximum number of bars.
    """
    encoding = output().encoding
    try:
        BARS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ""
    count = min(width, len(values))
    shown = [values[round(index * (len(values) - 1) / max(count - 1, 1))] for index in range(count)]
    span = (high - low) or 1.0
    top = len(BARS) - 1
    return "".join(BARS[min(top, max(0, round((value - low) / span * top)))] for value in shown)
