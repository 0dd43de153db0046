"""The 54 features of a symbol: of a whole series, or bar by bar.

    rows = compute(high, low, close, volume, trades, bid=bid, ask=ask)    # (bars, 54)

    indicators = Indicators()
    indicators.push(high=101.0, low=99.0, close=100.0, volume=5.0, trades=2)
    row = indicators.row(bid=99.5, ask=100.5)                             # (54,)

Both run the same code, bar by bar, so that they agree to the last bit and no row can know of a
later bar.
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

__all__ = ["FEATURES", "Feature", "Indicators", "View", "ViewColumns", "compute", "feature_names"]

BAR_COLUMNS, VIEW_COLUMNS = (tuple(names) for names in feature_columns())
STATE_KEY = "features"


@dataclass(frozen=True, slots=True)
class Feature:
    """What is known of a feature beforehand."""

    index: int
    """Its place in a row."""
    name: str
    group: str
    neutral: float
    """What is shown when the value cannot be computed."""
    low: float
    """The least value that is shown."""
    high: float
    """The largest value that is shown."""
    privileged: bool
    """Whether it tells of the fair value, which no trader sees."""
    price_level: bool
    """Whether it is in units of price, and divided by mid by `normalize=True`."""


FEATURES: tuple[Feature, ...] = tuple(Feature(*row) for row in feature_registry(full55=True))
"""All 55 features in the order of a row; the last is shown only with `full55=True`."""


def feature_names(full55: bool = False) -> tuple[str, ...]:
    """The names of the values of a row."""
    return tuple(name for _, name, *_ in feature_registry(full55))


class View(TypedDict, total=False):
    """What can be seen of a symbol after a bar; what is left out is not known.

    `last` is the close unless it is given. `news_*` describe the first active event, which there
    is if its duration is given; `sentiment` is the sum over all of them.
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


class ViewColumns(TypedDict, total=False):
    """What can be seen after each bar: as `View`, a column each, NaN where it is not known."""

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
    **view: Unpack[ViewColumns],
) -> NDArray[np.float64]:
    """The features after each bar of a series, one row a bar.

    Args:
        high: highest prices.
        low: lowest prices.
        close: last prices.
        volume: what was traded in each bar.
        trades: in how many trades.
        normalize: divide features in units of price by mid.
        privileged: show features that tell of the fair value, instead of their neutral values.
        full55: add `f_net_order_flow` as a 55th column.
        raw: show NaN instead of the neutral value where there is none.
        **view: columns of what can be seen after each bar, see `ViewColumns`.

    Raises:
        ValueError: when columns have other lengths, or a value is one that no bar can have.
    """
    length = np.asarray(close).size
    given = dict(zip(BAR_COLUMNS, (high, low, close, volume, trades), strict=True))
    bars = _matrix(BAR_COLUMNS, given, length)
    views = _matrix(VIEW_COLUMNS, cast("Mapping[str, ArrayLike]", view), length) if view else None
    return FeatureState(normalize, privileged, full55).series(bars, views, raw)


class Indicators:
    """The features of one symbol, bar by bar: for streams and for one's own environments."""

    def __init__(
        self, *, normalize: bool = False, privileged: bool = True, full55: bool = False
    ) -> None:
        """Begin without a bar; the options are those of `compute`."""
        self._options = {"normalize": normalize, "privileged": privileged, "full55": full55}
        self._state = FeatureState(**self._options)

    def __len__(self) -> int:
        """Values in a row."""
        return len(self._state)

    def push(
        self, high: float, low: float, close: float, volume: float = 0.0, trades: int = 0
    ) -> None:
        """Take in the next completed bar; a refused one changes nothing."""
        self._state.push((high, low, close, volume, trades))

    def row(self, *, raw: bool = False, **view: Unpack[View]) -> NDArray[np.float64]:
        """The features after the last bar, seen together with `view`."""
        given = cast("Mapping[str, float]", view)
        _refuse_unknown(VIEW_COLUMNS, given)
        return self._state.row([given.get(name, np.nan) for name in VIEW_COLUMNS], raw)

    def reset(self) -> None:
        """Forget every bar."""
        self._state.reset()

    def state_dict(self) -> dict[str, Any]:
        """All that is kept of the past, as bytes that carry a version and a checksum."""
        return {STATE_KEY: self._state.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, or raise `StateError` and stay as before."""
        saved = state.get(STATE_KEY) if isinstance(state, Mapping) else None
        if not isinstance(saved, bytes):
            raise StateError(
                f"a dict with bytes under {STATE_KEY!r} was wanted, found {_kind(state)}: "
                "pass what state_dict() returned"
            )
        try:
            self._state.decode(saved)
        except ValueError as error:
            raise StateError(f"these indicators cannot be continued: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        # The native state is neither copied nor pickled by itself; its bytes are.
        return _continued, (self._options, self.state_dict())


def _continued(options: dict[str, bool], state: Mapping[str, Any]) -> Indicators:
    indicators = Indicators(**options)
    indicators.load_state_dict(state)
    return indicators


def _matrix(
    names: tuple[str, ...], columns: Mapping[str, ArrayLike], length: int
) -> NDArray[np.float64]:
    """The columns side by side; NaN where one is not given."""
    _refuse_unknown(names, columns)
    matrix = np.full((length, len(names)), np.nan)
    for place, name in enumerate(names):
        if name not in columns:
            continue
        column = np.asarray(columns[name], dtype=np.float64)
        if column.shape not in ((), (length,)):
            raise ValueError(
                f"{name} of {length} values, one a close, was wanted, found shape {column.shape}"
            )
        matrix[:, place] = column
    return matrix


def _refuse_unknown(names: tuple[str, ...], given: Mapping[str, object]) -> None:
    if unknown := sorted(set(given) - set(names)):
        raise TypeError(f"columns named {', '.join(names)} were wanted, found {unknown}")


def _kind(state: object) -> str:
    if not isinstance(state, Mapping):
        return type(state).__name__
    kinds = {key: type(value).__name__ for key, value in state.items()}
    return f"a dict with {kinds}"
