"""Nested executor configs of Qlib: how long a step and a tick of an order last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sekai.compose.orders.config_keys import Limited, check_values, refuse_unknown

__all__ = ["ExecutorConfig"]

UNITS = {"min": 1, "minute": 1, "h": 60, "hour": 60, "day": None, "d": None}

USED = ("time_per_step", "inner_executor", "inner_strategy")

# Reports and printing, the calendar that Qlib sets to the order's day anyway, and what to do with
# decisions of nothing: the fills of one order are the same whatever these say.
IGNORED = (
    "start_time", "end_time", "indicator_config", "show_indicator", "generate_portfolio_metrics",
    "generate_report", "verbose", "track_data", "skip_empty_decision",
)  # fmt: skip

# Keys that can change fills: the values that do not, and what to do about the others.
LIMITED: Limited = {
    "trade_exchange": ((None,), "must be None: prices and costs come from exchange_config"),
    "common_infra": (
        (None,),
        "must be None: exchange_config is the exchange, cash_limit the account",
    ),
    "settle_type": ((None, "None", "cash"), "must be 'None' or 'cash'"),
    "trade_type": (("serial", "parallel"), "must be 'serial' or 'parallel'"),
    "align_range_limit": ((True,), "must be True: an order is worked in its own window alone"),
}
LATE = "cash"

EXECUTORS = ("NestedExecutor", "SimulatorExecutor")
STRATEGIES = ("ProxySAOEStrategy", "TWAPStrategy")
STRATEGY_SETTINGS = ("outer_trade_decision", "level_infra", "common_infra", "trade_exchange")
WRAPPING = ("class", "module_path", "kwargs")


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Length of a step and of a tick, and when sales are settled."""

    step_minutes: int
    tick_minutes: int
    settles_late: bool = False
    """Whether what is sold pays for nothing before the executor's step is over."""

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
                policy) and `TWAPStrategy`. Settings of Qlib's executors that cannot change the
                fills of one order are ignored; values of others that would are refused.
            freq: the frequency of ticks, where the config does not say it.

        Raises:
            ValueError: when a key is not known, or a value would change fills.
        """
        levels = _levels(config)
        lengths = [minutes(level["time_per_step"]) for level in levels]
        if lengths and lengths[0] is None:
            lengths = lengths[1:]
        tick = minutes(freq)
        if len(lengths) == 1:
            lengths.append(tick)
        if len(lengths) != 2 or None in lengths:
            raise ValueError(
                f"executor_config must nest a step of minutes (and a day around it, and the ticks "
                f"inside of it, if they are named), found time_per_step "
                f"{[level['time_per_step'] for level in levels]}"
            )
        step, inner = lengths
        assert step is not None
        assert inner is not None
        if inner != tick or step % inner:
            raise ValueError(
                f"a step must be a multiple of a tick, and ticks be those of the exchange's freq "
                f"{freq!r}; found steps of {step} min and ticks of {inner} min"
            )
        return cls(step, inner, any(level.get("settle_type") == LATE for level in levels))


def minutes(text: str) -> int | None:
    """How many minutes a duration such as `30min` has; None for a day."""
    found = re.fullmatch(r"(\d*)\s*([a-z]+)", str(text).strip().lower())
    if found is None or found[2] not in UNITS:
        raise ValueError(f"a duration such as '30min' or 'day' was wanted, found {text!r}")
    count, unit = int(found[1] or 1), UNITS[found[2]]
    if count < 1 or (unit is None and count != 1):
        raise ValueError(f"a duration of minutes, hours or one day was wanted, found {text!r}")
    return None if unit is None else count * unit


def _levels(config: Any) -> list[Mapping[str, Any]]:
    """Settings of the outermost executor, of the one inside of it, and so on."""
    settings = _unwrapped(config, "executor_config", EXECUTORS)
    refuse_unknown(settings, (*USED, *IGNORED, *LIMITED), "executor_config")
    if "time_per_step" not in settings:
        raise ValueError(
            f"executor_config has no time_per_step, such as '30min'; found {sorted(settings)}"
        )
    check_values(settings, LIMITED, "executor_config")
    if settings.get("inner_strategy") is not None:
        _check_strategy(settings["inner_strategy"])
    inner = settings.get("inner_executor")
    return [settings, *(_levels(inner) if inner is not None else ())]


def _check_strategy(strategy: Any) -> None:
    if isinstance(strategy, Mapping):
        settings = _unwrapped({"kwargs": {}, **strategy}, "inner_strategy", STRATEGIES)
        refuse_unknown(settings, STRATEGY_SETTINGS, "inner_strategy")
    elif str(strategy).rpartition(".")[2] not in STRATEGIES:
        raise ValueError(f"inner_strategy must be one of {list(STRATEGIES)}, was {strategy!r}")


def _unwrapped(config: Any, what: str, classes: tuple[str, ...]) -> Mapping[str, Any]:
    """Settings without the `class`, `module_path` and `kwargs` that Qlib puts around them."""
    if not isinstance(config, Mapping):
        raise TypeError(f"{what} must be a dict of settings, was {config!r}")
    if not config.keys() & set(WRAPPING):
        return config
    refuse_unknown(config, WRAPPING, what)
    name = str(config.get("class", classes[0])).rpartition(".")[2]
    if name not in classes:
        raise ValueError(f"{what} must be one of {list(classes)}, was {name!r}")
    settings: Mapping[str, Any] = config.get("kwargs") or {}
    return settings
