"""Look into market data, check it, and turn it into another form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sekai.cli.failure import FAILED, CommandError, guarded
from sekai.cli.screen import say, show_table

if TYPE_CHECKING:
    from sekai.cli.experiment.market import Reader
    from sekai.data import MarketData

__all__ = ["COMMANDS", "EXAMPLES", "convert", "inspect", "validate"]

EXAMPLES = ("sekai data inspect bars.csv", "sekai data convert bars/ bars.parquet")

AS_OPTIONS = "time= is `-o time=NAME`, Policies(missing='halt') is `-o policies.missing=halt`"

SHOWN = 40
"""Assets that are listed one by one."""

SourceName = Annotated[
    str, typer.Argument(help="A CSV or Parquet file or folder, a Qlib folder, or a bundled set.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE",
                 help="How to read it: time=Date, timezone=UTC, policies.missing=halt, ..."),
]  # fmt: skip


@guarded
def inspect(source: SourceName, option: Options = None) -> None:
    """Show what is in market data: assets, rows, frequency and holes."""
    panel = read(source, option)
    say(f"{source}: {len(panel):,} rows, {len(panel.assets)} assets, "
        f"fields {', '.join(panel.fields)}")  # fmt: skip
    if len(panel):
        say(f"{_day(panel.times[0])} to {_day(panel.times[-1])}, {_often(panel)}, "
            f"{panel.timezone or 'UTC'}\n")  # fmt: skip
    rows = [_row(panel, place) for place in range(min(SHOWN, len(panel.assets)))]
    show_table(("asset", ">rows", "first", "last", ">halted", ">holes", "sector"), rows)
    if len(panel.assets) > SHOWN:
        say(f"and {len(panel.assets) - SHOWN} more")
    if panel.repairs:
        say(f"\nrepaired as the options say:\n{panel.repairs}")


@guarded
def validate(source: SourceName, option: Options = None) -> None:
    """Look for what is wrong with market data; exit code 1 if anything was found."""
    from sekai.data import inspect as problems_of

    reader, options = _reader(source, option)
    is_file = Path(source).exists() and not (Path(source) / "calendars").is_dir()
    if is_file:
        problems = problems_of(source, **options)
        if len(problems):
            say(_as_options(f"{problems}"))
            raise typer.Exit(FAILED)
    else:
        reader.read(**options)
    say(f"{source}: nothing found")


@guarded
def convert(
    source: SourceName,
    target: Annotated[Path, typer.Argument(help="A file that ends in .parquet, or a new folder.")],
    option: Options = None,
    to: Annotated[
        str, typer.Option(help="parquet for a file, parquet-folder by asset, or qlib.")
    ] = "parquet",
) -> None:
    """Turn market data into Parquet, or into a folder for Qlib."""
    writers = {
        "parquet": lambda panel: panel.to_parquet(target),
        "parquet-folder": lambda panel: panel.to_parquet(target, by_asset=True),
        "qlib": lambda panel: panel.to_qlib(target),
    }
    if to not in writers:
        raise CommandError(f"--to must be one of {', '.join(writers)}, was {to!r}")
    if target.exists():
        raise CommandError(f"{target} is there, and nothing is overwritten: name another")
    panel = read(source, option)
    writers[to](panel)
    say(f"{target}: {len(panel):,} rows, {len(panel.assets)} assets")


def read(source: str, option: list[str] | None) -> MarketData:
    """The panel that a source holds."""
    from sekai.error import DataError

    reader, options = _reader(source, option)
    try:
        return reader.read(**options)
    except DataError as error:
        raise DataError(_as_options(str(error))) from error


def _as_options(problems: str) -> str:
    """The same, with what is said of arguments in the words of this command."""
    is_option = "time=" in problems or "Policies(" in problems
    return f"{problems}\n  here: {AS_OPTIONS}" if is_option else problems


def _reader(source: str, option: list[str] | None) -> tuple[Reader, dict[str, Any]]:
    from sekai.cli.experiment.market import known_sources, reader_of
    from sekai.data.near_names import near

    reader = reader_of(source)
    if reader is None:
        raise CommandError(
            f"there is no file or folder {source!r}, and no source is called so"
            f"{near(source, known_sources())}"
        )
    return reader, _options(reader.options, option or [])


def _options(known: Mapping[str, Any], texts: list[str]) -> dict[str, Any]:
    from sekai.cli.experiment.source import Source, set_by_text
    from sekai.cli.experiment.values import Misfit, converted
    from sekai.data.near_names import near

    said = Source()
    for text in texts:
        set_by_text(said, f"--option {text.partition('=')[0]}", text, least=1)
    for name in said.values:
        if name not in known:
            raise CommandError(f"--option {name}: there is no such option{near(name, known)}")
    try:
        return {name: converted(known[name], one, (name,)) for name, one in said.values.items()}
    except Misfit as misfit:
        raise CommandError(f"--option {'.'.join(misfit.path)}: {misfit}") from misfit


def _row(panel: MarketData, place: int) -> tuple[str, ...]:
    listed, quoted = panel.listed[:, place], panel.quoted[:, place]
    rows = np.flatnonzero(listed)
    name = panel.assets[place]
    span = ("", "") if not len(rows) else (_day(panel.times[rows[0]]), _day(panel.times[rows[-1]]))
    holes = np.isnan(panel.values[:, place][listed & quoted]).sum()
    return (name, f"{len(rows):,}", *span, f"{int((listed & ~quoted).sum()):,}", f"{int(holes):,}",
            panel.sectors.get(name, ""))  # fmt: skip


def _day(time: Any) -> str:
    text = str(np.datetime64(time, "m")).replace("T", " ")
    return text.removesuffix(" 00:00")


def _often(panel: MarketData) -> str:
    seconds = panel.frequency.nanoseconds / 1e9
    units = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 0.0))
    name, length = next(one for one in units if seconds >= one[1])
    yearly = panel.frequency.periods_per_year
    return f"a row every {seconds / (length or 1.0):g} {name}, {yearly:.0f} a year"


COMMANDS: tuple[tuple[str, Callable[..., None], tuple[str, ...]], ...] = (
    ("inspect", inspect, ("sekai data inspect bars.csv", "sekai data inspect sp500")),
    (
        "validate",
        validate,
        (
            "sekai data validate bars/",
            "sekai data validate bars.csv -o time=Date -o policies.missing=halt",
        ),
    ),
    (
        "convert",
        convert,
        (
            "sekai data convert bars.csv bars.parquet -o timezone=America/New_York",
            "sekai data convert bars.parquet qlib_data --to qlib",
        ),
    ),
)
