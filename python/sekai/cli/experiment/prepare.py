"""What envs are made with: to learn, to be looked at meanwhile, and to be judged."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sekai.cli.experiment.experiment import Experiment
from sekai.cli.experiment.market import Parts, parts_of

if TYPE_CHECKING:
    from sekai.data import MarketData

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Options of the env, by what it is for."""

    train: dict[str, Any]
    validation: dict[str, Any]
    test: dict[str, Any]
    about: str
    """What is learnt from and judged on, in words; "" where all is made up from seeds."""


def prepare(experiment: Experiment) -> Prepared:
    """Read the data and cut it.

    Raises:
        DataError: it is not what it should be.
        ValueError: it cannot be cut so.
    """
    own = experiment.env_options
    if experiment.data is None or experiment.reader is None:
        return Prepared(own, own, own, "")
    panel = experiment.reader.read(**experiment.reader_options)
    shows = experiment.env.takes_features
    parts = parts_of(experiment.data, panel, _lookback(experiment), shows)
    unseen = parts.validation if parts.validation is not None else parts.train
    train, validation, test = (_with(own, one, parts) for one in (parts.train, unseen, parts.test))
    return Prepared(train, validation, test, _about(parts))


def _lookback(experiment: Experiment) -> int:
    """Rows of the window that the env shows."""
    config = experiment.env.config
    fields = () if config is None else dataclasses.fields(config)
    usual = {one.name: one.default for one in fields}.get("lookback")
    rows = experiment.env_options.get("lookback", usual)
    return rows if isinstance(rows, int) else 0


def _with(own: dict[str, Any], part: MarketData, parts: Parts) -> dict[str, Any]:
    shown = {} if parts.pipeline is None else {"features": parts.pipeline}
    return {**own, "data": part, **shown}


def _about(parts: Parts) -> str:
    def span(data: MarketData) -> str:
        first, last = data.times[data.warm_up], data.times[-1]
        return f"{len(data) - data.warm_up} rows ({str(first)[:10]} to {str(last)[:10]})"

    middle = "" if parts.validation is None else f", looks at {span(parts.validation)}"
    return f"learns from {span(parts.train)}{middle}, is judged on {span(parts.test)}"
