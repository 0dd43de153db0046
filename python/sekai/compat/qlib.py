"""Qlib data folders: `init_qlib` selects them for the process.

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

from sekai.data.qlib import QlibIntraday, QlibProvider
from sekai.data.tick_store import TickStore
from sekai.error import DataError, NotReadyError
from sekai.storage.names import did_you_mean
from sekai.storage.optional import optional_import

__all__ = ["QlibConfig", "current_qlib", "init_qlib"]

PREFIX = "provider_uri_"
FREQUENCIES = ("1min", "5min", "day")
FEATURES = ("feature_root_dir", "feature_columns_today", "feature_columns_yesterday")
KEYS = (*(f"{PREFIX}{freq}" for freq in FREQUENCIES), *FEATURES)

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QlibConfig:
    """Qlib folders of `init_qlib`, opened and checked."""

    provider: QlibProvider
    """Provider directories by frequency."""
    store: TickStore | None = None
    """Processed data of `feature_root_dir`, if it is set."""
    feature_columns_today: tuple[str, ...] = ()
    feature_columns_yesterday: tuple[str, ...] = ()

    def intraday(self, freq: str = "1min", columns: Sequence[str] | None = None) -> QlibIntraday:
        """Ticks of a frequency, by day."""
        return QlibIntraday(self.provider, freq, columns)

    def processed(self, stock_id: str, date: np.datetime64) -> tuple[Floats32, Floats32]:
        """Features of a day and of the day before, ticks by columns."""
        parts = (self.store, self.feature_columns_today, self.feature_columns_yesterday)
        missing = [key for key, part in zip(FEATURES, parts, strict=True) if not part]
        if self.store is None or missing:
            raise NotReadyError(
                f"processed data need {', '.join(missing)}; pass "
                f"{'them' if len(missing) > 1 else 'it'} to init_qlib"
            )
        return self.store.processed(
            stock_id, date, self.feature_columns_today, self.feature_columns_yesterday
        )


_lock = Lock()
_current: QlibConfig | None = None


def init_qlib(config: Mapping[str, Any], *, with_pyqlib: bool = False) -> QlibConfig:
    """Select Qlib's folders, which `current_qlib` returns from now on.

    Calling it again switches to other folders; nothing cached from the former is served. A rejected
    call changes nothing.

    Args:
        config: `provider_uri_1min`, `provider_uri_5min` and `provider_uri_day`, at least one;
            `feature_columns_today` such as `$close` and `feature_columns_yesterday` such as
            `$close_1`, of equal number if both are set; `feature_root_dir`, a folder of
            `TickStore.build` that has them. Each of the three can be left out; `processed` needs
            them all.
        with_pyqlib: initialise pyqlib on the same folders too.

    Raises:
        ValueError: a key is unknown or a value invalid.
        DataError: a folder is missing or not a provider directory.
    """
    global _current
    chosen = _checked(config)
    with _lock:
        if with_pyqlib:
            _init_pyqlib(chosen.provider)
        _current = chosen
    return chosen


def current_qlib() -> QlibConfig:
    """Qlib folders of the last `init_qlib`."""
    if _current is None:
        raise NotReadyError("no Qlib folders are selected; call init_qlib first")
    return _current


def _checked(config: Mapping[str, Any]) -> QlibConfig:
    if not isinstance(config, Mapping):
        raise TypeError(
            f"config must be a mapping with keys such as provider_uri_day, got {config!r}"
        )
    for key in config:
        if key not in KEYS:
            raise ValueError(f"unknown key {key!r} of init_qlib{did_you_mean(str(key), KEYS)}")
    roots = {
        freq: _path(config, f"{PREFIX}{freq}")
        for freq in FREQUENCIES
        if config.get(f"{PREFIX}{freq}") is not None
    }
    if not roots:
        expected = ", ".join(f"{PREFIX}{freq}" for freq in FREQUENCIES)
        raise ValueError(f"config must have at least one of {expected}, got {list(config)}")
    provider = QlibProvider(roots)
    today, yesterday = (_columns(config, key) for key in FEATURES[1:])
    if today and yesterday and len(today) != len(yesterday):
        raise ValueError(
            f"feature_columns_yesterday must be as many as feature_columns_today, got "
            f"{len(yesterday)} and {len(today)}"
        )
    if config.get(FEATURES[0]) is None:
        return QlibConfig(provider, None, today, yesterday)
    store = TickStore(_path(config, FEATURES[0]))
    _check_store(store, (*today, *yesterday))
    return QlibConfig(provider, store, today, yesterday)


def _path(config: Mapping[str, Any], key: str) -> str:
    value = config[key]
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{key} must be a folder, got {value!r}")
    return os.fspath(value)


def _columns(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key)
    if value is None:
        return ()
    end = "_1" if key.endswith("yesterday") else ""
    fits = isinstance(value, Sequence) and not isinstance(value, str) and value
    if not fits or not all(isinstance(name, str) and name[:1] == "$" for name in value):
        raise ValueError(f"{key} must be a list of columns such as '$close{end}', got {value!r}")
    wrong = [name for name in value if name.endswith("_1") != bool(end)]
    if wrong or len(set(value)) != len(value):
        raise ValueError(f"{key} must be columns such as '$close{end}', each once, got {value!r}")
    return tuple(value)


def _check_store(store: TickStore, columns: Sequence[str]) -> None:
    stocks = store.stocks("feature")
    if not stocks:
        raise DataError(
            f"no processed data: {store.folder!r} has no feature/<stock>.parquet; make some by "
            "TickStore.build"
        )
    known = store.feature_columns(stocks[0])
    for name in columns:
        if name not in known:
            raise DataError(f"{store.folder!r} has no column {name!r}{did_you_mean(name, known)}")


def _init_pyqlib(provider: QlibProvider) -> None:
    purpose = "init_qlib(with_pyqlib=True)"
    high_freq = optional_import("qlib.contrib.ops.high_freq", "qlib", purpose)
    operators = (
        *("DayLast", "FFillNan", "BFillNan", "Date", "Select"),
        *("IsNull", "IsInf", "Cut", "DayCumsum"),
    )
    optional_import("qlib", "qlib", purpose).init(
        provider_uri=dict(provider.roots),
        region="cn",
        expression_cache=None,
        dataset_cache=None,
        redis_port=-1,
        kernels=1,
        auto_mount=False,
        custom_ops=[getattr(high_freq, name) for name in operators],
        # Otherwise it would serve data of the former folders.
        clear_mem_cache=True,
    )
