"""The panel that `[data]` names, and the parts of it that agents learn and are judged on."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.cli.experiment.sections import DataSection
from sekai.cli.field_facts import hints_of

if TYPE_CHECKING:
    from sekai.data import MarketData, Pipeline

__all__ = ["Parts", "Reader", "parts_of", "reader_of"]

CLIP = 5.0
"""How far from 0 features are shown, as envs that choose them have it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What makes a panel, and what it can be told."""

    read: Callable[..., MarketData]
    options: Mapping[str, Any]
    """The types of its options, by name."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The rows to learn from, to look at meanwhile, and to be judged on."""

    train: MarketData
    validation: MarketData | None
    test: MarketData
    pipeline: Pipeline | None


def reader_of(source: str) -> Reader | None:
    """What reads a source: a simulator, a bundled set, a file or a folder; None for none of it."""
    from sekai.data import bundled_sets, load_bundled

    simulators = _simulators()
    if source in simulators:
        return Reader(simulators[source], _told(simulators[source]))
    if source in [one.name for one in bundled_sets()]:
        return Reader(lambda: load_bundled(source), {})
    path = Path(source)
    try:
        return _file_reader(path) if path.exists() else None
    except OSError:
        # A name that no file system takes, too long for example: there is no such file.
        return None


def known_sources() -> list[str]:
    """The names of sources that are no paths."""
    from sekai.data import bundled_sets

    return [*_simulators(), *(one.name for one in bundled_sets())]


def parts_of(section: DataSection, panel: MarketData, lookback: int, shows: bool) -> Parts:
    """Cut a panel as the section says.

    Args:
        section: how.
        panel: what is cut.
        lookback: rows of a window that the env shows.
        shows: whether features are made from it.
    """
    first = panel.split(*section.parts, embargo=section.embargo)[0]
    pipeline = _pipeline(section, first) if shows else None
    warm_up = section.warm_up
    if warm_up is None:
        warm_up = lookback + (0 if pipeline is None else pipeline.lookback or 0)
    cut = panel.split(*section.parts, embargo=section.embargo, warm_up=warm_up)
    if len(cut) not in (2, 3):
        raise ValueError(
            f"split must give 2 or 3 parts, was {section.split!r}, which gives {len(cut)}"
        )
    return Parts(cut[0], cut[1] if len(cut) == 3 else None, cut[-1], pipeline)


def _pipeline(section: DataSection, train: MarketData) -> Pipeline:
    from sekai.data import Pipeline
    from sekai.envs.portfolio_panel import features_of

    usual = features_of(train, section.features)[1]
    assert usual is not None, "names make a pipeline"
    if section.scaling is None and not usual.learns:
        return usual
    names = section.features or [feature.name for feature in usual.features]
    return Pipeline(names, scaling=section.scaling, clip=CLIP).fit(train)


def _simulators() -> dict[str, Callable[..., MarketData]]:
    from sekai.data import simulate_gbm, simulate_regimes

    return {"simulate_regimes": simulate_regimes, "simulate_gbm": simulate_gbm}


def _told(simulate: Callable[..., Any]) -> dict[str, Any]:
    from sekai.data.simulators.world import WorldOptions

    parameters = inspect.signature(simulate).parameters.values()
    named = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    # `Unpack` is there for type checkers alone; what is unpacked is asked for beside it.
    hints = typing.get_type_hints(simulate, localns={"Unpack": type})
    return {name: hints.get(name, Any) for name in named} | hints_of(WorldOptions)


def _file_reader(path: Path) -> Reader:
    from sekai.data import MarketData, Options
    from sekai.data.qlib.options import QlibOptions
    from sekai.data.reading.files import CSV_SUFFIXES

    if (path / "calendars").is_dir():
        return Reader(lambda **told: MarketData.from_qlib(path, **told), _fields(QlibOptions))
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    is_csv = any(file.name.lower().endswith(CSV_SUFFIXES) for file in files)
    read: Any = MarketData.from_csv if is_csv else MarketData.from_parquet
    return Reader(lambda **told: read(path, **told), _fields(Options))


def _fields(options: type) -> dict[str, Any]:
    hints = hints_of(options)
    return {one.name: hints.get(one.name, Any) for one in dataclasses.fields(options)}
