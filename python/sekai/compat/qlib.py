"""Qlib's folders, chosen once for all that asks for them.

init_qlib({"provider_uri_1min": "data/1min", "provider_uri_day": "data/day"})
ticks = current_qlib().intraday("1min").day("SH600000", np.datetime64("2020-01-02"))
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.near_names import near
from sekai.data.qlib import QlibIntraday, QlibProvider
from sekai.data.tick_store import TickStore
from sekai.error import DataError, MissingExtraError, NotReadyError

__all__ = ["QlibConfig", "current_qlib", "init_qlib"]

PREFIX = "provider_uri_"
FREQUENCIES = ("1min", "5min", "day")
FEATURES = ("feature_root_dir", "feature_columns_today", "feature_columns_yesterday")
KEYS = (*(f"{PREFIX}{freq}" for freq in FREQUENCIES), *FEATURES)

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QlibConfig:
    """What `init_qlib` was given, opened and checked."""

    provider: QlibProvider
    """The provider directories, by frequency."""
    store: TickStore | None = None
    """The processed data, if `feature_root_dir` was given."""
    feature_columns_today: tuple[str, ...] = ()
    feature_columns_yesterday: tuple[str, ...] = ()

    def intraday(self, freq: str = "1min", columns: Sequence[str] | None = None) -> QlibIntraday:
        """The ticks of a frequency, a day at a time."""
        return QlibIntraday(self.provider, freq, columns)

    def processed(self, stock_id: str, date: np.datetime64) -> tuple[Floats32, Floats32]:
        """The features of a day and those of the day before, ticks by columns."""
        parts = (self.store, self.feature_columns_today, self.feature_columns_yesterday)
        missing = [key for key, part in zip(FEATURES, parts, strict=True) if not part]
        if self.store is None or missing:
            raise NotReadyError(
                f"processed data need {', '.join(missing)}: give init_qlib "
                f"{'them' if len(missing) > 1 else 'it'} too"
            )
        return self.store.processed(
            stock_id, date, self.feature_columns_today, self.feature_columns_yesterday
        )


_lock = Lock()
_current: QlibConfig | None = None


def init_qlib(config: Mapping[str, Any], *, with_pyqlib: bool = False) -> QlibConfig:
    """Choose Qlib's folders; from now on `current_qlib` gives them.

    Calling it again switches to others in one move; nothing that was read from the former is
    served again. A refused call changes nothing.

    Args:
        config: `provider_uri_1min`, `provider_uri_5min` and `provider_uri_day`, at least one;
            `feature_columns_today` such as `$close` and `feature_columns_yesterday` such as
            `$close_1`, of the same number if both are given; `feature_root_dir`, a folder that
            `TickStore.build` made, which has them. Each of the three can be left out; `processed`
            needs them all.
        with_pyqlib: initialise pyqlib on the same folders too, for those who want its `D`.

    Raises:
        ValueError: when a key is not known or a value is not what it should be.
        DataError: when a folder is not there or is no provider directory.
    """
    global _current
    chosen = _checked(config)
    with _lock:
        if with_pyqlib:
            _init_pyqlib(chosen.provider)
        _current = chosen
    return chosen


def current_qlib() -> QlibConfig:
    """What the last `init_qlib` chose."""
    if _current is None:
        raise NotReadyError("Qlib's folders were wanted and none are chosen: call init_qlib first")
    return _current


def _checked(config: Mapping[str, Any]) -> QlibConfig:
    if not isinstance(config, Mapping):
        raise TypeError(f"a mapping of keys such as provider_uri_day was wanted, found {config!r}")
    for key in config:
        if key not in KEYS:
            raise ValueError(f"no key {key!r} of init_qlib{near(str(key), KEYS)}")
    roots = {freq: _path(config, f"{PREFIX}{freq}") for freq in FREQUENCIES
             if config.get(f"{PREFIX}{freq}") is not None}  # fmt: skip
    if not roots:
        wanted = ", ".join(f"{PREFIX}{freq}" for freq in FREQUENCIES)
        raise ValueError(f"at least one of {wanted} was wanted, found {list(config)}")
    provider = QlibProvider(roots)
    today, yesterday = (_columns(config, key) for key in FEATURES[1:])
    if today and yesterday and len(today) != len(yesterday):
        raise ValueError(
            f"as many columns of yesterday as of today were wanted, found {len(yesterday)} and "
            f"{len(today)}"
        )
    if config.get(FEATURES[0]) is None:
        return QlibConfig(provider, None, today, yesterday)
    store = TickStore(_path(config, FEATURES[0]))
    _check_store(store, (*today, *yesterday))
    return QlibConfig(provider, store, today, yesterday)


def _path(config: Mapping[str, Any], key: str) -> str:
    value = config[key]
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{key} must be a folder, was {value!r}")
    return os.fspath(value)


def _columns(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key)
    if value is None:
        return ()
    end = "_1" if key.endswith("yesterday") else ""
    fits = isinstance(value, Sequence) and not isinstance(value, str) and value
    if not fits or not all(isinstance(name, str) and name[:1] == "$" for name in value):
        raise ValueError(f"{key} must be a list of columns such as '$close{end}', was {value!r}")
    wrong = [name for name in value if name.endswith("_1") != bool(end)]
    if wrong or len(set(value)) != len(value):
        raise ValueError(f"{key} must be columns such as '$close{end}', each once, was {value!r}")
    return tuple(value)


def _check_store(store: TickStore, columns: Sequence[str]) -> None:
    stocks = store.stocks("feature")
    if not stocks:
        raise DataError(
            f"processed data were wanted, {store.folder!r} has no feature/<stock>.parquet: make "
            f"some by TickStore.build"
        )
    there = store.feature_columns(stocks[0])
    for name in columns:
        if name not in there:
            raise DataError(f"{store.folder!r} has no column {name!r}{near(name, there)}")


def _init_pyqlib(provider: QlibProvider) -> None:
    try:
        import qlib  # type: ignore[import-not-found]
        from qlib.contrib.ops import high_freq  # type: ignore[import-not-found]
    except ImportError as error:
        raise MissingExtraError.of("pyqlib", "qlib", "init_qlib(with_pyqlib=True)") from error
    operators = ("DayLast", "FFillNan", "BFillNan", "Date", "Select", "IsNull", "IsInf", "Cut",
                 "DayCumsum")  # fmt: skip
    qlib.init(
        provider_uri=dict(provider.roots), region="cn", expression_cache=None,
        dataset_cache=None, redis_port=-1, kernels=1, auto_mount=False,
        custom_ops=[getattr(high_freq, name) for name in operators],
        # Otherwise it goes on to serve what it read from the folders before.
        clear_mem_cache=True,
    )  # fmt: skip
