"""The 54 indicator features of a symbol, for a series or bar by bar.

    rows = compute(high, low, close, volume, trades, bid=bid, ask=ask)    # (bars, 54)

    indicators = Indicators()
    indicators.push(high=101.0, low=99.0, close=100.0, volume=5.0, trades=2)
    row = indicators.row(bid=99.5, ask=100.5)                             # (54,)

Both run the same code bar by bar: they agree bit for bit, and no row depends on a later bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import FeatureState, feature_columns, feature_registry
from sekai.error import StateError

if TYPE_CHECKING:
    from typing_extensions import Unpack

BAR_COLUMNS, VIEW_COLUMNS = (tuple(names) for names in feature_columns())
STATE_KEY = "features"


@dataclass(frozen=True, slots=True)
class Feature:
    """Description of an indicator feature."""

    index: int
    """Position in a row."""
    name: str
    group: str
    neutral: float
    """Value shown when the feature cannot be computed."""
    low: float
    """Lower bound."""
    high: float
    """Upper bound."""
    privileged: bool
    """True if it depends on the fair value, which traders do not see."""
    price_level: bool
    """True if it is in units of price, and divided by the mid price by `normalize=True`."""


FEATURES: tuple[Feature, ...] = tuple(Feature(*row) for row in feature_registry(full55=True))
"""All 55 features in the order of a row; the last one only with `full55=True`."""


def feature_names(full55: bool = False) -> tuple[str, ...]:
    """Names of the values in a row."""
    return tuple(name for _, name, *_ in feature_registry(full55))


class IndicatorInputs(TypedDict, total=False):
    """Market state after a bar besides the bar itself; omitted values are unknown.

    `last` is the close by default. `news_*` describe the first active event, which exists if its
    duration is passed; `sentiment` is the sum over all of them.
    """

    bid: float
    ask: float
    bid_volume: float
    ask_volume: float
    last: float
    buy_volume: float
    sell_volume: float
    news_sentiment: float
    news_magnitude: float
    news_elapsed: float
    news_duration: float
    sentiment: float
    fair: float


class IndicatorInputColumns(TypedDict, total=False):
    """Columns of `IndicatorInputs`, one value per bar, NaN where unknown."""

    bid: ArrayLike
    ask: ArrayLike
    bid_volume: ArrayLike
    ask_volume: ArrayLike
    last: ArrayLike
    buy_volume: ArrayLike
    sell_volume: ArrayLike
    news_sentiment: ArrayLike
    news_magnitude: ArrayLike
    news_elapsed: ArrayLike
    news_duration: ArrayLike
    sentiment: ArrayLike
    fair: ArrayLike


def compute(
    high: ArrayLike,
    low: ArrayLike,
    close: ArrayLike,
    volume: ArrayLike = 0.0,
    trades: ArrayLike = 0,
    *,
    normalize: bool = False,
    privileged: bool = True,
    full55: bool = False,
    raw: bool = False,
    **inputs: Unpack[IndicatorInputColumns],
) -> NDArray[np.float64]:
    """Compute the features after each bar of a series, one row per bar.

    Args:
        high: high prices.
        low: low prices.
        close: close prices.
        volume: volume of each bar.
        trades: number of trades in each bar.
        normalize: divide features in units of price by the mid price.
        privileged: show features that depend on the fair value, instead of neutral values.
        full55: add `f_net_order_flow` as a 55th column.
        raw: show NaN instead of the neutral value where a feature cannot be computed.
        **inputs: columns of quotes, trades and news after each bar, see `IndicatorInputColumns`.

    Raises:
        ValueError: if columns differ in length, or a bar is invalid.
    """
    length = np.asarray(close).size
    columns = dict(zip(BAR_COLUMNS, (high, low, close, volume, trades), strict=True))
    bars = _matrix(BAR_COLUMNS, columns, length)
    others = cast("Mapping[str, ArrayLike]", inputs)
    views = _matrix(VIEW_COLUMNS, others, length) if inputs else None
    return FeatureState(normalize, privileged, full55).series(bars, views, raw)


class Indicators:
    """Streaming features of one symbol, bar by bar; the options are those of `compute`."""

    def __init__(
        self, *, normalize: bool = False, privileged: bool = True, full55: bool = False
    ) -> None:
        self._options = {"normalize": normalize, "privileged": privileged, "full55": full55}
        self._state = FeatureState(**self._options)

    def __len__(self) -> int:
        return len(self._state)

    def push(
        self, high: float, low: float, close: float, volume: float = 0.0, trades: int = 0
    ) -> None:
        """Append the next completed bar; an invalid one raises and changes nothing."""
        self._state.push((high, low, close, volume, trades))

    def row(self, *, raw: bool = False, **inputs: Unpack[IndicatorInputs]) -> NDArray[np.float64]:
        """Compute the features after the last bar, with quotes, trades and news in `inputs`."""
        values = cast("Mapping[str, float]", inputs)
        _reject_unknown(VIEW_COLUMNS, values)
        return self._state.row([values.get(name, np.nan) for name in VIEW_COLUMNS], raw)

    def reset(self) -> None:
        """Remove all bars."""
        self._state.reset()

    def state_dict(self) -> dict[str, Any]:
        """State as bytes with a version and a checksum."""
        return {STATE_KEY: self._state.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state, or raise `StateError` and change nothing."""
        saved = state.get(STATE_KEY) if isinstance(state, Mapping) else None
        if not isinstance(saved, bytes):
            raise StateError(
                f"state must be a dict with bytes under {STATE_KEY!r}, got {_kind(state)}; "
                "pass the result of state_dict()"
            )
        try:
            self._state.decode(saved)
        except ValueError as error:
            raise StateError(f"indicator state cannot be restored: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        # The native state cannot be copied or pickled; its bytes can.
        return _restored, (self._options, self.state_dict())


def _restored(options: dict[str, bool], state: Mapping[str, Any]) -> Indicators:
    indicators = Indicators(**options)
    indicators.load_state_dict(state)
    return indicators


def _matrix(
    names: tuple[str, ...], columns: Mapping[str, ArrayLike], length: int
) -> NDArray[np.float64]:
    """Columns side by side; NaN where one is missing."""
    _reject_unknown(names, columns)
    matrix = np.full((length, len(names)), np.nan)
    for index, name in enumerate(names):
        if name not in columns:
            continue
        column = np.asarray(columns[name], dtype=np.float64)
        if column.shape not in ((), (length,)):
            raise ValueError(
                f"{name} must have {length} values, one per close, got shape {column.shape}"
            )
        matrix[:, index] = column
    return matrix


def _reject_unknown(names: tuple[str, ...], columns: Mapping[str, object]) -> None:
    if unknown := sorted(set(columns) - set(names)):
        raise TypeError(f"unknown columns {unknown}; expected some of {list(names)}")


def _kind(state: object) -> str:
    if not isinstance(state, Mapping):
        return type(state).__name__
    kinds = {key: type(value).__name__ for key, value in state.items()}
    return f"a dict with {kinds}"
