"""Data signature: bar length, calendar, features and assets that a policy was trained on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import DataMismatchError
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from sekai.data.calendar import Calendar
    from sekai.data.features.pipeline import Pipeline
    from sekai.data.market_data import MarketData

DIFFERENCES = ("bar_length", "calendar", "features", "assets")
"""Names of the differences that `allow` takes."""

BAR_TOLERANCE = 1.25
"""Bars differ if one is longer than the other by this factor: months are of equal length."""

MIN_WEEKEND_SHARE = 0.1
"""Share of days on weekends from which a market trades on them: special sessions are fewer."""

MIN_DAYS = 14
"""Days of rows from which the days of a market are known."""

MAX_LAYERS = 8
SHOWN = 5


@dataclass(frozen=True, slots=True)
class DataSignature:
    """Bar length, calendar, features and assets of the market data of an env."""

    bar_seconds: float | None
    """Usual time between two rows; None for fewer than two."""

    calendar: str
    """Time zone of days, and `weekdays` or `every day` where there are enough rows to know."""

    features: tuple[str, ...]
    """Names of the feature channels, in order."""

    assets: tuple[str, ...]
    """Names of the assets, in order."""

    pipeline: Mapping[str, Any] | None = None
    """Scaling, clipping, mask and dtype of the feature pipeline; None if it is unknown."""

    @classmethod
    def of(
        cls,
        data: MarketData,
        features: Sequence[str],
        pipeline: Pipeline | None = None,
        assets: Sequence[str] | None = None,
    ) -> DataSignature:
        """Signature of market data with its features.

        Args:
            data: market data.
            features: names of the feature channels.
            pipeline: pipeline that computes them.
            assets: names of the assets, if not all of the data.
        """
        seconds = data.calendar.frequency.nanoseconds / 1e9 if len(data) > 1 else None
        return cls(
            seconds,
            _calendar(data.calendar),
            tuple(features),
            tuple(data.assets if assets is None else assets),
            None if pipeline is None else pipeline.settings,
        )

    def to_dict(self) -> dict[str, Any]:
        """Signature in JSON types."""
        return {
            "bar_seconds": self.bar_seconds,
            "calendar": self.calendar,
            "features": list(self.features),
            "assets": list(self.assets),
            "pipeline": None if self.pipeline is None else dict(self.pipeline),
        }

    @classmethod
    def from_dict(cls, values: Any) -> DataSignature:
        """Signature from `to_dict`; malformed values raise `ValueError`."""
        if not isinstance(values, Mapping):
            raise ValueError(f"data signature must be a mapping, got {values!r:.80}")
        seconds, calendar = values.get("bar_seconds"), values.get("calendar")
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < seconds < math.inf):
            raise ValueError(f"bar_seconds must be above 0, got {seconds!r:.80}")
        if not isinstance(calendar, str):
            raise ValueError(f"calendar must be text, got {calendar!r:.80}")
        pipeline = values.get("pipeline")
        if pipeline is not None and not isinstance(pipeline, Mapping):
            raise ValueError(f"pipeline must be a mapping, got {pipeline!r:.80}")
        features, assets = (_names(values, name) for name in ("features", "assets"))
        return cls(seconds, calendar, features, assets, pipeline)

    def differences(self, other: DataSignature) -> dict[str, str]:
        """Differences from the signature of another env, by the names in `DIFFERENCES`."""
        texts = {
            "bar_length": _bars_differ(self.bar_seconds, other.bar_seconds),
            "calendar": _calendars_differ(self.calendar, other.calendar),
            "features": _lists_differ(self.features, other.features)
            or _settings_differ(self.pipeline, other.pipeline),
            "assets": _lists_differ(self.assets, other.assets),
        }
        return {name: text for name, text in texts.items() if text}


def data_signature(env: Any, layers: int = MAX_LAYERS) -> DataSignature | None:
    """Signature of an env, a vector env, an agent or a policy; None without market data.

    Envs of other authors take part by an attribute `data_signature`.
    """
    if env is None or not layers:
        return None
    own = getattr(env, "data_signature", None)
    if isinstance(own, DataSignature):
        return own
    if hasattr(env, "worker_ids"):
        # Envs in worker processes are asked.
        is_there = all(env.call("has_attr", "data_signature"))
        return env.get_attr("data_signature")[0] if is_there else None
    envs = getattr(env, "envs", None)
    inner = [getattr(env, name, None) for name in ("unwrapped", "batch", "inner", "vec")]
    inner += list(envs)[:1] if isinstance(envs, Sequence) else []
    found = (data_signature(part, layers - 1) for part in inner if part is not env)
    return next((signature for signature in found if signature is not None), None)


def require_same_data(policy: Any, env: Any, allow: Collection[str] = ()) -> None:
    """Raise unless an env has the data that a policy was trained on.

    Policies and envs without a signature are not compared.

    Args:
        policy: an agent or a loaded policy, with its own `allow` if it has one.
        env: an env or a vector env.
        allow: names of differences that are allowed: `bar_length`, `calendar`, `features`,
            `assets`.

    Raises:
        DataMismatchError: the data differ in something that is not allowed.
    """
    allowed = {*checked_allow(allow), *(getattr(policy, "allow", None) or ())}
    trained = data_signature(policy)
    if trained is None or allowed >= set(DIFFERENCES):
        return
    current = data_signature(env)
    if current is None:
        return
    found = trained.differences(current)
    refused = {name: text for name, text in found.items() if name not in allowed}
    if refused:
        names = ", ".join(repr(name) for name in refused)
        raise DataMismatchError(
            "the policy was trained on other data than the env has: "
            + "; ".join(f"{name}: {text}" for name, text in refused.items())
            + f". Use the data it was trained for, or allow it by name: allow=({names},), or "
            + " ".join(f"--allow {name}" for name in refused)
        )


class BarLengthGuard:
    """Refuses live rows that follow one another faster than the bars of training.

    Gaps are normal, so that longer intervals pass; a single early row passes too.

    Args:
        policy: an agent or a loaded policy; one without a signature is not checked.
    """

    def __init__(self, policy: Any) -> None:
        signature = data_signature(policy)
        seconds = None if signature is None else signature.bar_seconds
        is_allowed = "bar_length" in (getattr(policy, "allow", None) or ())
        self._trained = 0.0 if seconds is None or is_allowed else seconds
        self._early = 0

    def check(self, nanoseconds: int) -> None:
        """Raise `DataMismatchError` at the second row in a row that is early.

        Args:
            nanoseconds: time since the row before.
        """
        if nanoseconds <= 0:
            return
        is_early = nanoseconds * BAR_TOLERANCE < self._trained * 1e9
        self._early = self._early + 1 if is_early else 0
        if self._early > 1:
            raise DataMismatchError(
                f"rows arrive {nanoseconds / 1e9:g} s apart, and the policy was trained on bars of "
                f"{self._trained:g} s; use a feed of such bars, or allow it by name: "
                "load_policy(path, allow=('bar_length',)), or --allow bar_length"
            )


def checked_allow(allow: Collection[str]) -> tuple[str, ...]:
    """Names of allowed differences; an unknown one raises `ValueError`."""
    names = (allow,) if isinstance(allow, str) else tuple(allow)
    for name in names:
        if name not in DIFFERENCES:
            hint = did_you_mean(str(name), DIFFERENCES)
            raise ValueError(f"unknown difference {name!r} to allow{hint}")
    return names


def _calendar(calendar: Calendar) -> str:
    zone = calendar.timezone or "UTC"
    days = np.sort(calendar.dates.astype(np.int64))
    # `np.unique` imports masked arrays: 10 MB of each live session.
    days = days[np.diff(days, prepend=days[:1] - 1) != 0]
    if not len(days) or days[-1] - days[0] + 1 < MIN_DAYS:
        return zone
    # Day 0, in 1970, was a Thursday.
    weekend = float(np.mean((days + 3) % 7 >= 5))
    return f"{zone} {'every day' if weekend >= MIN_WEEKEND_SHARE else 'weekdays'}"


def _names(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    names = values.get(name)
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        raise ValueError(f"{name} must be a list of names, got {names!r:.80}")
    return tuple(names)


def _bars_differ(trained: float | None, current: float | None) -> str:
    if trained is None or current is None:
        return ""
    if max(trained, current) <= BAR_TOLERANCE * min(trained, current):
        return ""
    return f"trained on bars of {trained:g} s, the env has bars of {current:g} s"


def _calendars_differ(trained: str, current: str) -> str:
    (zone, _, days), (other_zone, _, other_days) = trained.partition(" "), current.partition(" ")
    if zone == other_zone and (days == other_days or not days or not other_days):
        return ""
    return f"trained on {trained}, the env has {current}"


def _lists_differ(trained: Sequence[str], current: Sequence[str]) -> str:
    if tuple(trained) == tuple(current):
        return ""
    parts = [
        f"{text} {_shown([name for name in names if name not in others])}"
        for text, names, others in (
            ("the env lacks", trained, current),
            ("the policy does not know", current, trained),
        )
        if set(names) - set(others)
    ]
    return " and ".join(parts) or f"the order differs, trained on {_shown(trained)}"


def _shown(names: Sequence[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def _settings_differ(trained: Mapping[str, Any] | None, current: Mapping[str, Any] | None) -> str:
    if trained is None or current is None:
        return ""
    names = [name for name in trained if trained[name] != current.get(name)]
    return ", ".join(
        f"trained with {name} {trained[name]!r}, the env has {current.get(name)!r}"
        for name in names
    )
