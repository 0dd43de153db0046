"""Inspect, validate and convert market data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sekai.cli.failure import FAILED, CommandError, guarded
from sekai.cli.screen import say, show_table

if TYPE_CHECKING:
    from sekai.data import MarketData
    from sekai.experiment.preparation import DataSource

EXAMPLES = ("sekai data inspect bars.csv", "sekai data convert bars/ bars.parquet")

OPTION_HINT = "time= is `-o time=NAME`, Policies(missing='halt') is `-o policies.missing=halt`"

SHOWN = 40
"""Maximum number of assets that are listed."""

SourceName = Annotated[
    str, typer.Argument(help="CSV or Parquet file or folder, Qlib folder, or bundled set.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Reader option: time=Date, timezone=UTC, policies.missing=halt, ...",
    ),
]


@guarded
def inspect(source: SourceName, option: Options = None) -> None:
    """Show the assets, rows, frequency and missing values of market data."""
    panel = read(source, option)
    fields = ", ".join(panel.fields)
    say(f"{source}: {_size(panel)}, fields {fields}")
    if len(panel):
        span = f"{_day(panel.times[0])} to {_day(panel.times[-1])}"
        say(f"{span}, {_frequency(panel)}, {panel.timezone or 'UTC'}\n")
    rows = [_row(panel, index) for index in range(min(SHOWN, len(panel.assets)))]
    show_table(("asset", ">rows", "first", "last", ">halted", ">missing", "sector"), rows)
    if len(panel.assets) > SHOWN:
        others = [_row(panel, index) for index in range(SHOWN, len(panel.assets))]
        incomplete = [row[0] for row in others if row[4:6] != ("0", "0")]
        say(f"and {len(others)} more{_listed(', with halts or missing values: ', incomplete)}")
    if panel.repairs:
        say(f"\nrepaired as configured:\n{panel.repairs}")


@guarded
def validate(source: SourceName, option: Options = None) -> None:
    """Validate market data; exit code 1 if there are problems."""
    from sekai.data import inspect as problems_of

    reader, options = _reader(source, option)
    is_file = Path(source).exists() and not (Path(source) / "calendars").is_dir()
    if is_file:
        problems = problems_of(source, **options)
        if len(problems):
            say(_with_hint(f"{problems}"))
            raise typer.Exit(FAILED)
    else:
        reader.read(**options)
    say(f"{source}: no problems found")


@guarded
def convert(
    source: SourceName,
    target: Annotated[Path, typer.Argument(help="File that ends in .parquet, or a new folder.")],
    option: Options = None,
    to: Annotated[
        str,
        typer.Option(
            help="Format: parquet (one file), parquet-folder (one file per asset) or qlib."
        ),
    ] = "parquet",
) -> None:
    """Convert market data to Parquet, or to a Qlib folder."""
    formats = ("parquet", "parquet-folder", "qlib")
    if to not in formats:
        raise CommandError(f"--to must be one of {', '.join(formats)}, got {to!r}")
    if target.exists():
        raise CommandError(f"{target} exists, and nothing is overwritten; choose another target")
    if to == "parquet" and target.suffix != ".parquet":
        raise CommandError(
            f"target must be a file that ends in .parquet, got {str(target)!r}; --to qlib and "
            "--to parquet-folder write folders"
        )
    panel = read(source, option)
    if to == "qlib":
        # Its files keep the timestamps of the source: whoever reads them passes the delay again.
        delay = _reader(source, option)[1].get("known_after", timedelta(0))
        panel.to_qlib(target, known_after=delay)
    else:
        panel.to_parquet(target, by_asset=to == "parquet-folder")
    say(f"{target}: {_size(panel)}")


def read(source: str, option: list[str] | None) -> MarketData:
    """Read market data from a source."""
    from sekai.error import DataError

    reader, options = _reader(source, option)
    try:
        return reader.read(**options)
    except DataError as error:
        raise DataError(_with_hint(str(error))) from error


def _with_hint(problems: str) -> str:
    """Add the spelling of reader arguments as options of this command."""
    is_option = any(mark in problems for mark in ("time=", "timezone=", "freq=", "Policies("))
    return f"{problems}\n  here: {OPTION_HINT}" if is_option else problems


def _reader(source: str, option: list[str] | None) -> tuple[DataSource, dict[str, Any]]:
    from sekai.experiment.preparation import data_source, known_sources
    from sekai.storage.names import did_you_mean

    reader = data_source(source)
    if reader is None:
        raise CommandError(
            f"unknown source {source!r}; expected a file, a folder or a name"
            f"{did_you_mean(source, known_sources())}"
        )
    return reader, _options(reader.options, option or [])


def _options(known: Mapping[str, Any], texts: list[str]) -> dict[str, Any]:
    from sekai.config.convert import ConversionError, convert, require_known
    from sekai.config.toml_file import ConfigSource, set_option

    source = ConfigSource()
    for text in texts:
        set_option(source, f"--option {text.partition('=')[0]}", text, min_keys=1)
    try:
        require_known("the reader", source.values, known, ())
        return {name: convert(known[name], value, (name,)) for name, value in source.values.items()}
    except ConversionError as error:
        raise CommandError(f"--option {'.'.join(error.path)}: {error}") from error


def _size(panel: MarketData) -> str:
    count = len(panel.assets)
    return f"{len(panel):,} rows, {count} asset{'' if count == 1 else 's'}"


def _listed(prefix: str, names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{prefix}{', '.join(names[:SHOWN])}{more}" if names else ""


def _row(panel: MarketData, index: int) -> tuple[str, ...]:
    listed, quoted = panel.listed[:, index], panel.quoted[:, index]
    rows = np.flatnonzero(listed)
    name = panel.assets[index]
    span = ("", "") if not len(rows) else (_day(panel.times[rows[0]]), _day(panel.times[rows[-1]]))
    halted = (listed & ~quoted).sum()
    missing = np.isnan(panel.values[:, index][listed & quoted]).sum()
    sector = panel.sectors.get(name, "")
    return (name, f"{len(rows):,}", *span, f"{int(halted):,}", f"{int(missing):,}", sector)


def _day(time: Any) -> str:
    text = str(np.datetime64(time, "m")).replace("T", " ")
    return text.removesuffix(" 00:00")


def _frequency(panel: MarketData) -> str:
    seconds = panel.frequency.nanoseconds / 1e9
    units = (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0), ("second", 0.0))
    name, length = next(unit for unit in units if seconds >= unit[1])
    count = seconds / (length or 1.0)
    every = name if count == 1.0 else f"{count:g} {name}s"
    return f"a row every {every}, {panel.frequency.periods_per_year:,.0f} a year"


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
