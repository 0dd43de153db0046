"""What Qlib's configs of nested executors say about the steps of an order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ExecutorConfig"]

UNITS = {"min": 1, "minute": 1, "h": 60, "hour": 60, "day": None, "d": None}

# What Qlib prints or keeps beside the fills, and in which order several orders are served: one
# order is worked here, and all of its fills are kept, whatever these say.
WITHOUT_MEANING = {
    "generate_portfolio_metrics", "generate_report", "indicator_config", "show_indicator",
    "track_data", "trade_type", "verbose",
}  # fmt: skip

STRATEGIES = {"ProxySAOEStrategy", "TWAPStrategy"}
WRAPPING = {"class", "module_path", "kwargs"}


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """How long a step and a tick last."""

    step_minutes: int
    tick_minutes: int

    @property
    def ticks_per_step(self) -> int:
        """How many ticks a step has."""
        return self.step_minutes // self.tick_minutes

    @classmethod
    def of(cls, config: Mapping[str, Any], freq: str) -> ExecutorConfig:
        """Read a config of executors within each other, of which the outermost may be a day.

        Args:
            config: `time_per_step` and `inner_executor`, plain or as Qlib wraps them (`class`,
                `module_path`, `kwargs`). Strategies in between must be `ProxySAOEStrategy` (the
                policy) and `TWAPStrategy`. What Qlib uses for reports alone is accepted.
            freq: the frequency of ticks, where the config does not say it.
        """
        lengths = [minutes(text) for text in _lengths(config)]
        if lengths and lengths[0] is None:
            lengths = lengths[1:]
        tick = minutes(freq)
        if len(lengths) == 1:
            lengths.append(tick)
        if len(lengths) != 2 or None in lengths:
            raise ValueError(
                f"executor_config must nest a step of minutes (and a day around it, and the ticks "
                f"inside of it, if they are named), found time_per_step {list(_lengths(config))}"
            )
        step, inner = lengths
        assert step is not None
        assert inner is not None
        if inner != tick or step % inner:
            raise ValueError(
                f"a step must be a multiple of a tick, and ticks be those of the exchange's freq "
                f"{freq!r}; found steps of {step} min and ticks of {inner} min"
            )
        return cls(step, inner)


def minutes(text: str) -> int | None:
    """How many minutes a duration such as `30min` has; None for a day."""
    found = re.fullmatch(r"(\d*)\s*([a-z]+)", str(text).strip().lower())
    if found is None or found[2] not in UNITS:
        raise ValueError(f"a duration such as '30min' or 'day' was wanted, found {text!r}")
    count, unit = int(found[1] or 1), UNITS[found[2]]
    if count < 1 or (unit is None and count != 1):
        raise ValueError(f"a duration of minutes, hours or one day was wanted, found {text!r}")
    return None if unit is None else count * unit


def _lengths(config: Mapping[str, Any]) -> list[str]:
    """`time_per_step` of the outermost executor, of the one inside of it, and so on."""
    settings = _unwrapped(config)
    unknown = sorted(
        settings.keys() - WITHOUT_MEANING - {"time_per_step", "inner_executor", "inner_strategy"}
    )
    if unknown or "time_per_step" not in settings:
        raise ValueError(
            f"executor_config takes time_per_step, inner_strategy and inner_executor (and ignores "
            f"{sorted(WITHOUT_MEANING)}), found {sorted(settings)}"
        )
    _check_strategy(settings.get("inner_strategy"))
    inner = settings.get("inner_executor")
    return [settings["time_per_step"], *(_lengths(inner) if inner is not None else ())]


def _unwrapped(config: Any) -> Mapping[str, Any]:
    if not isinstance(config, Mapping):
        raise TypeError(f"an executor must be a dict of its settings, was {config!r}")
    if "kwargs" not in config:
        return config
    unknown = sorted(config.keys() - WRAPPING)
    name = str(config.get("class", "NestedExecutor")).rpartition(".")[2]
    if unknown or name not in {"NestedExecutor", "SimulatorExecutor"}:
        raise ValueError(
            f"a NestedExecutor or SimulatorExecutor with its kwargs was wanted, found "
            f"{name!r} and {unknown}"
        )
    settings: Mapping[str, Any] = config["kwargs"]
    return settings


def _check_strategy(strategy: Any) -> None:
    if strategy is None:
        return
    name = strategy.get("class") if isinstance(strategy, Mapping) else strategy
    if str(name).rpartition(".")[2] not in STRATEGIES:
        raise ValueError(f"inner_strategy must be one of {sorted(STRATEGIES)}, was {strategy!r}")
