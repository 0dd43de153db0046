"""Configs of Qlib's exchanges and nested executors for order execution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import OrderDir
from sekai.config.checked import CheckedConfig
from sekai.data.intraday import DayTicks
from sekai.storage.names import did_you_mean

__all__ = ["ExchangeConfig", "ExecutorConfig"]

VolumeLimit = tuple[str, str]

# The calendar is the order's day; the others select or store data that is not used.
EXCHANGE_IGNORED = ("start_time", "end_time", "subscribe_fields", "quote_cls")

EXCHANGE_LIMITED: AllowedValues = {
    "extra_quote": ((None,), "must be None: prices come from the data alone"),
    "exchange": ((None,), "must be None: its settings are those of exchange_config"),
    "cash_limit": ((None,), "must be None here: pass it to SingleAssetOrderExecution"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeConfig(CheckedConfig):
    """Exchange settings with Qlib's defaults."""

    freq: str = "1min"
    """Frequency of ticks."""

    codes: str | Sequence[str] = "all"
    """Assets that can be traded."""

    deal_price: str | Sequence[str] | None = None
    """Expressions of the buy and sell price, or one for both; default `$close`."""

    limit_threshold: float | Sequence[str] | None = None
    """Price limit: largest `$change` up (for purchases) or down (for sales) with trading; or two
    expressions that are true where nothing can be bought, and sold."""

    volume_threshold: Mapping[str, VolumeLimit] | VolumeLimit | None = None
    """By `all`, `buy` and `sell`: `("current", expression)` caps each tick, `("cum", expression)`
    all ticks of the day so far. The smallest applies."""

    open_cost: float = 0.0015
    close_cost: float = 0.0025
    min_cost: float = 5.0
    impact_cost: float = 0.0
    trade_unit: float | None = 100
    """Lot size in real shares; None for any amount."""

    def __post_init__(self) -> None:
        for _, (kind, _) in self._volume_limits():
            if kind not in ("current", "cum"):
                raise ValueError(f"a volume threshold must be 'current' or 'cum', got {kind!r}")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ExchangeConfig:
        """Read a config of Qlib's `Exchange`.

        Settings that cannot change the fills of one order are ignored.

        Raises:
            ValueError: a key is unknown, or a value would change fills.
        """
        known = [field.name for field in fields(cls)]
        check_keys(config, (*known, *EXCHANGE_IGNORED, *EXCHANGE_LIMITED), "exchange_config")
        check_values(config, EXCHANGE_LIMITED, "exchange_config")
        return cls(**{name: value for name, value in config.items() if name in known})

    def price(self, direction: OrderDir) -> str:
        """Expression of the price of one direction."""
        expression = "$close" if self.deal_price is None else self.deal_price
        pair = (expression, expression) if isinstance(expression, str) else tuple(expression)
        if len(pair) != 2:
            raise ValueError(f"deal_price must be one expression or two, got {expression!r}")
        price = pair[0] if direction is OrderDir.BUY else pair[1]
        return f"${price}" if price.isidentifier() else price

    def columns(self, direction: OrderDir) -> list[str]:
        """Expressions that an order of one direction needs, except `$factor`."""
        limits = [expression for _, expression in self._caps(direction)]
        return list(
            dict.fromkeys(
                [self.price(direction), "$close", "$volume", *limits, *self._limit(direction)]
            )
        )

    def tradable(self, ticks: DayTicks, direction: OrderDir) -> NDArray[np.bool_]:
        """Mask of ticks in which the asset is neither suspended nor at its price limit."""
        is_open: NDArray[np.bool_] = np.isfinite(ticks.column("$close"))
        if isinstance(self.limit_threshold, (int, float)):
            change = ticks.column("$change")
            return is_open & ~(direction.sign * change >= self.limit_threshold)
        for expression in self._limit(direction):
            # An unknown limit counts as one: NaN is not 0.
            is_open = is_open & (ticks.column(expression) == 0)
        return is_open

    def cap(self, ticks: DayTicks, direction: OrderDir, kind: str) -> NDArray[np.float64] | None:
        """Smallest volume cap of a kind in each tick; None if there is none."""
        caps = [ticks.column(text) for own, text in self._caps(direction) if own == kind]
        return np.minimum.reduce(caps) if caps else None

    def _limit(self, direction: OrderDir) -> list[str]:
        if self.limit_threshold is None:
            return []
        if isinstance(self.limit_threshold, (int, float)):
            return ["$change"]
        pair = list(self.limit_threshold)
        if len(pair) != 2:
            raise ValueError(
                f"limit_threshold must be a number or two expressions, got {self.limit_threshold!r}"
            )
        return [pair[0] if direction is OrderDir.BUY else pair[1]]

    def _caps(self, direction: OrderDir) -> list[VolumeLimit]:
        own = ("all", "buy" if direction is OrderDir.BUY else "sell")
        return [limit for side, limit in self._volume_limits() if side in own]

    def _volume_limits(self) -> list[tuple[str, VolumeLimit]]:
        limits = self.volume_threshold
        if limits is None:
            return []
        sides = limits if isinstance(limits, Mapping) else {"all": limits}
        unknown = sorted(sides.keys() - {"all", "buy", "sell"})
        if unknown:
            raise ValueError(f"volume_threshold must have keys all, buy or sell, got {unknown}")
        for limit in sides.values():
            if isinstance(limit, str) or len(limit) != 2:
                raise ValueError(f"a volume threshold must be a (kind, expression), got {limit!r}")
        return [(side, (limit[0], limit[1])) for side, limit in sides.items()]


UNITS = {"min": 1, "minute": 1, "h": 60, "hour": 60, "day": None, "d": None}

EXECUTOR_KEYS = ("time_per_step", "inner_executor", "inner_strategy")

# Reports, the calendar (which Qlib sets to the order's day) and empty decisions: none of these
# changes the fills of one order.
EXECUTOR_IGNORED = (
    "start_time",
    "end_time",
    "indicator_config",
    "show_indicator",
    "generate_portfolio_metrics",
    "generate_report",
    "verbose",
    "track_data",
    "skip_empty_decision",
)

# Keys that can change fills: the supported values, and the message for others.
EXECUTOR_LIMITED: AllowedValues = {
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
class ExecutorConfig(CheckedConfig):
    """Executor settings: length of a step and of a tick, and settlement of sales."""

    step_minutes: int
    tick_minutes: int
    settles_late: bool = False
    """Proceeds of sales are available only after the executor's step."""

    @property
    def ticks_per_step(self) -> int:
        """Ticks in a step."""
        return self.step_minutes // self.tick_minutes

    @classmethod
    def of(cls, config: Mapping[str, Any], freq: str) -> ExecutorConfig:
        """Read a config of nested executors, of which the outermost may be a day.

        Args:
            config: `time_per_step` and `inner_executor`, plain or as Qlib wraps them (`class`,
                `module_path`, `kwargs`). Strategies in between must be `ProxySAOEStrategy` (the
                policy) and `TWAPStrategy`. Settings of Qlib's executors that cannot change the
                fills of one order are ignored; values of others that would are rejected.
            freq: frequency of ticks, where the config does not have it.

        Raises:
            ValueError: a key is unknown, or a value would change fills.
        """
        levels = _levels(config)
        lengths = [parse_minutes(level["time_per_step"]) for level in levels]
        if lengths and lengths[0] is None:
            lengths = lengths[1:]
        tick = parse_minutes(freq)
        if len(lengths) == 1:
            lengths.append(tick)
        if len(lengths) != 2 or None in lengths:
            raise ValueError(
                f"executor_config must nest a step of minutes (optionally in a day, and with ticks "
                f"inside), got time_per_step {[level['time_per_step'] for level in levels]}"
            )
        step, inner = lengths
        assert step is not None
        assert inner is not None
        if inner != tick or step % inner:
            raise ValueError(
                f"a step must be a multiple of a tick of the exchange's freq {freq!r}, got "
                f"steps of {step} min and ticks of {inner} min"
            )
        return cls(step, inner, any(level.get("settle_type") == LATE for level in levels))


def parse_minutes(text: str) -> int | None:
    """Minutes in a duration such as `30min`; None for a day."""
    match = re.fullmatch(r"(\d*)\s*([a-z]+)", str(text).strip().lower())
    if match is None or match[2] not in UNITS:
        raise ValueError(f"a duration must be such as '30min' or 'day', got {text!r}")
    count, unit = int(match[1] or 1), UNITS[match[2]]
    if count < 1 or (unit is None and count != 1):
        raise ValueError(f"a duration must be minutes, hours or one day, got {text!r}")
    return None if unit is None else count * unit


def _levels(config: Any) -> list[Mapping[str, Any]]:
    """Settings of the executors, outermost first."""
    settings = _unwrapped(config, "executor_config", EXECUTORS)
    check_keys(settings, (*EXECUTOR_KEYS, *EXECUTOR_IGNORED, *EXECUTOR_LIMITED), "executor_config")
    if "time_per_step" not in settings:
        raise ValueError(
            f"executor_config has no time_per_step, such as '30min'; got {sorted(settings)}"
        )
    check_values(settings, EXECUTOR_LIMITED, "executor_config")
    if settings.get("inner_strategy") is not None:
        _check_strategy(settings["inner_strategy"])
    inner = settings.get("inner_executor")
    return [settings, *(_levels(inner) if inner is not None else ())]


def _check_strategy(strategy: Any) -> None:
    if isinstance(strategy, Mapping):
        settings = _unwrapped({"kwargs": {}, **strategy}, "inner_strategy", STRATEGIES)
        check_keys(settings, STRATEGY_SETTINGS, "inner_strategy")
    elif str(strategy).rpartition(".")[2] not in STRATEGIES:
        raise ValueError(f"inner_strategy must be one of {list(STRATEGIES)}, got {strategy!r}")


def _unwrapped(config: Any, what: str, classes: tuple[str, ...]) -> Mapping[str, Any]:
    """Settings without Qlib's wrapping in `class`, `module_path` and `kwargs`."""
    if not isinstance(config, Mapping):
        raise TypeError(f"{what} must be a dict of settings, got {config!r}")
    if not config.keys() & set(WRAPPING):
        return config
    check_keys(config, WRAPPING, what)
    name = str(config.get("class", classes[0])).rpartition(".")[2]
    if name not in classes:
        raise ValueError(f"{what} must be one of {list(classes)}, got {name!r}")
    settings: Mapping[str, Any] = config.get("kwargs") or {}
    return settings


AllowedValues = Mapping[str, tuple[tuple[Any, ...], str]]
"""Supported values of a key, and the message for others."""


def check_keys(settings: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Raise a `ValueError` for the first unknown key, with the closest known one."""
    names = tuple(known)
    for name in settings:
        if name not in names:
            raise ValueError(f"{what}: unknown key {str(name)!r}{did_you_mean(str(name), names)}")


def check_values(settings: Mapping[str, Any], limited: AllowedValues, what: str) -> None:
    """Raise a `ValueError` for the first unsupported value that would change results."""
    for name, (values, remedy) in limited.items():
        if name not in settings:
            continue
        setting = settings[name]
        # An unsupported value can be any object, also one whose comparison is not a bool.
        if not any(setting is value for value in values) and not (
            isinstance(setting, (str, bool)) and setting in values
        ):
            raise ValueError(f"{what}: {name} {remedy}, got {setting!r}")
