"""Data preparation: data sources, splits, features, and the env options made of them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.config.convert import CONVERTERS, pointing_at, type_hints
from sekai.data.calendar import as_timedelta
from sekai.experiment.experiment import Amount, DataSection, Experiment

if TYPE_CHECKING:
    from sekai.data import MarketData, Pipeline

FEATURE_CLIP = 5.0
"""Bound of scaled features, as in the envs that choose features themselves."""

CUSTOM_SOURCES: dict[str, Callable[..., Any]] = {}
"""Functions of the user that return market data, by reference `package.module:name`."""

CONVERTERS[timedelta] = (as_timedelta, "a time such as '1min'")


@dataclass(frozen=True, slots=True)
class DataSource:
    """Function that reads or simulates market data."""

    read: Callable[..., MarketData]
    options: Mapping[str, Any]
    """Types of its options by name."""


@dataclass(frozen=True, slots=True)
class DataSplit:
    """Training, validation and test parts of market data."""

    train: MarketData
    validation: MarketData | None
    test: MarketData
    pipeline: Pipeline | None


@dataclass(frozen=True, slots=True)
class EnvOptions:
    """Options of the env for training, validation and test."""

    train: dict[str, Any]
    validation: dict[str, Any]
    test: dict[str, Any]
    summary: str
    """Rows of each part; empty for an env without data."""


def prepare(experiment: Experiment) -> EnvOptions:
    """Read and split the data of an experiment.

    Raises:
        DataError: the data is invalid.
        ConfigError: the data does not fit the experiment, which is pointed at.
    """
    options = experiment.env_options
    if experiment.data is None or experiment.source is None:
        return EnvOptions(options, options, options, "")
    with pointing_at(experiment.config, "data"):
        panel = experiment.source.read(**experiment.source_options)
    shared_options = getattr(experiment.env.entry, "shared_options", None)
    if shared_options is not None:
        # Of the whole data, so that observations of all parts have the same shape.
        options = {**options, **shared_options(panel, options)}
    with pointing_at(experiment.config, "data", ("split",)):
        parts = split_data(
            experiment.data, panel, observed_rows(experiment), experiment.env.takes_features
        )
    features = {} if parts.pipeline is None else {"features": parts.pipeline}
    validation = parts.train if parts.validation is None else parts.validation
    return EnvOptions(
        {**options, "data": parts.train, **features},
        {**options, "data": validation, **features},
        {**options, "data": parts.test, **features},
        _summary(parts),
    )


def split_data(
    section: DataSection, panel: MarketData, lookback: int, with_features: bool
) -> DataSplit:
    """Split market data.

    Args:
        section: parts, embargo and features.
        panel: the market data.
        lookback: rows in an observation of the env.
        with_features: fit a feature pipeline.
    """
    first = panel.split(*section.parts, embargo=section.embargo)[0]
    pipeline = fit_pipeline(section, first) if with_features else None
    warm_up = warm_up_rows(section, panel, lookback, pipeline)
    parts = panel.split(*section.parts, embargo=section.embargo, warm_up=warm_up)
    if len(parts) not in (2, 3):
        raise ValueError(f"split must give 2 or 3 parts, got {section.split!r} with {len(parts)}")
    return DataSplit(parts[0], parts[1] if len(parts) == 3 else None, parts[-1], pipeline)


def warm_up_rows(
    section: DataSection, panel: MarketData, lookback: int, pipeline: Pipeline | None
) -> Amount:
    """Rows of history before a part: as many as windows and features need, all if they need all."""
    if section.warm_up is not None:
        return section.warm_up
    if pipeline is None:
        return lookback
    return len(panel) if pipeline.lookback is None else lookback + pipeline.lookback


def data_source(name: str) -> DataSource | None:
    """Data source by name: a simulator, a bundled set, a file or a folder; None if unknown."""
    from sekai.data import bundled_sets, load_bundled

    simulators = _simulators()
    if name in simulators:
        return DataSource(simulators[name], _simulator_options(simulators[name]))
    if name in [bundled.name for bundled in bundled_sets()]:
        return DataSource(lambda: load_bundled(name), {})
    if name in CUSTOM_SOURCES:
        read = CUSTOM_SOURCES[name]
        hints = type_hints(read)
        names = inspect.signature(read).parameters
        return DataSource(read, {name: hints.get(name, Any) for name in names})
    path = Path(name)
    try:
        return _file_source(path) if path.exists() else None
    except OSError:
        # The file system rejects the name, for example because it is too long.
        return None


def known_sources() -> list[str]:
    """Names of data sources that are not paths."""
    from sekai.data import bundled_sets

    return [*_simulators(), *(bundled.name for bundled in bundled_sets())]


def observed_rows(experiment: Experiment) -> int:
    """Rows in an observation of the env."""
    config = experiment.env.config
    fields = () if config is None else dataclasses.fields(config)
    default = {field.name: field.default for field in fields}.get("lookback")
    rows = experiment.env_options.get("lookback", default)
    return rows if isinstance(rows, int) else 0


def _summary(parts: DataSplit) -> str:
    def rows(data: MarketData) -> str:
        first, last = data.times[data.warm_up], data.times[-1]
        return f"{len(data) - data.warm_up:,} rows ({str(first)[:10]} to {str(last)[:10]})"

    validation = "" if parts.validation is None else f", validation on {rows(parts.validation)}"
    return f"training on {rows(parts.train)}{validation}, test on {rows(parts.test)}"


def fit_pipeline(section: DataSection, train: MarketData) -> Pipeline:
    """Feature pipeline of an experiment, fitted on training rows."""
    from sekai.data import Pipeline
    from sekai.envs.portfolio.panel import compute_features

    default = compute_features(train, section.features)[1]
    assert default is not None, "names make a pipeline"
    if section.scaling is None and not default.learns:
        return default
    names = section.features or [feature.name for feature in default.features]
    return Pipeline(names, scaling=section.scaling, clip=FEATURE_CLIP).fit(train)


def _simulators() -> dict[str, Callable[..., MarketData]]:
    from sekai.data import simulate_gbm, simulate_regimes

    return {"simulate_regimes": simulate_regimes, "simulate_gbm": simulate_gbm}


def _simulator_options(simulate: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(simulate)
    return {name: hints.get(name, Any) for name in inspect.signature(simulate).parameters}


def _file_source(path: Path) -> DataSource:
    from sekai.data import MarketData, Options
    from sekai.data.qlib.panel import QlibOptions
    from sekai.data.reading.files import CSV_SUFFIXES

    if (path / "calendars").is_dir():
        return DataSource(
            lambda **options: MarketData.from_qlib(path, **options), _field_types(QlibOptions)
        )
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    is_csv = any(file.name.lower().endswith(CSV_SUFFIXES) for file in files)
    read: Any = MarketData.from_csv if is_csv else MarketData.from_parquet
    return DataSource(lambda **options: read(path, **options), _field_types(Options))


def _field_types(options: type) -> dict[str, Any]:
    hints = type_hints(options)
    return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(options)}
