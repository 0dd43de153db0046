"""Look-ahead check: perturb the future of a panel and compare features bit for bit."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.features.events import Events
from sekai.data.features.feature import PanelFeature, as_feature
from sekai.data.features.perturb import add_gaps, perturb_panel, perturb_rows, truncate
from sekai.data.features.pipeline import Pipeline
from sekai.data.market_data import MarketData
from sekai.utils.findings import CheckStopped, Report, describe_error
from sekai.utils.perturbation import KINDS

Floats = NDArray[np.float64]
TIME_SHIFT = np.timedelta64(3 * 86_400 + 5 * 3_600 + 7 * 60, "s")
MAX_DEPTH = 4
"""Levels of objects that `captured_data` descends to."""


def check_features(
    features: str | PanelFeature | Pipeline | Callable[..., Any],
    data: MarketData,
    *,
    cuts: int = 16,
    seed: int = 0,
    events: Sequence[Events] = (),
    lookback: int | None = None,
) -> list[str]:
    """Report look-ahead of features, in the format of `check_env`.

    Features are computed again on panels truncated after some row t, and on panels that differ
    after it in values, halts and delistings. Up to t nothing may differ, bit for bit. This is
    repeated on a panel with added gaps, where forward and backward filling leaks. Then the past is
    changed: a feature that varies in time and never reacts to its input takes its values from
    elsewhere. Last, the first rows are dropped: features must follow rows, not their positions.

    A constant computed in advance from the full sample, such as a mean that a function subtracts,
    cannot be detected from the outside.

    Args:
        features: spec, feature, function `(data, *events)`, or pipeline. If not fitted, it is
            fitted on the first half.
        data: panel to compute features of; leaks show at gaps in it.
        cuts: number of rows t, and as many again beside gaps.
        seed: seed of the perturbations.
        events: passed to a function after the panel, and changed where published after t.
        lookback: rows that one row depends on, if the feature does not state them itself.
    """
    report = Report()
    if len(data) < 4:
        raise ValueError(f"data must have at least 4 rows, got {len(data)}")

    def examine() -> None:
        subject = _subject(features, data, tuple(events), lookback, report)
        rng = np.random.default_rng(seed)
        check = _Check(subject, data, tuple(events), report, rng)
        check.repeats()
        check.future(_cuts(data, cuts))
        check.past()
        check.positions()
        _check_with_gaps(subject, data, tuple(events), report, rng, cuts)

    report.guarded(examine)
    return report.lines()


def _check_with_gaps(
    subject: _Subject,
    data: MarketData,
    events: tuple[Events, ...],
    report: Report,
    rng: np.random.Generator,
    cuts: int,
) -> None:
    panel = add_gaps(data, rng)
    try:
        check = _Check(subject, panel, events, report, rng)
    except Exception as error:
        report.warn(
            "holes",
            f"it cannot be computed of a panel with halts and delistings, so look-ahead there was "
            f"not checked: {describe_error(error)}",
        )
        return
    check.future(_cuts(panel, cuts))


@dataclass(frozen=True)
class _Subject:
    """Feature or pipeline under check."""

    run: Callable[[MarketData, tuple[Events, ...]], tuple[Floats, tuple[str, ...]]]
    other: Callable[[Any, np.random.Generator], _Subject]
    """Copy whose own data differ after a time."""
    lookback: int | None
    is_recursive: bool
    captured: list[str]
    """Types of the data that it holds itself."""


def _subject(
    source: Any, data: MarketData, events: tuple[Events, ...], lookback: int | None, report: Report
) -> _Subject:
    if isinstance(source, Pipeline):
        return _of_pipeline(_fitted(source, data, report), data)
    if not events:
        return _of_feature(as_feature(source), data, lookback)

    def run(panel: MarketData, others: tuple[Events, ...]) -> tuple[Floats, tuple[str, ...]]:
        return _computed(PanelFeature(lambda data: source(data, *others), name="it"), panel)

    def other(_: Any, __: np.random.Generator) -> _Subject:
        return _subject(source, data, events, lookback, report)

    return _Subject(run, other, lookback, False, captured_data(source, len(data)))


def _of_feature(feature: PanelFeature, data: MarketData, lookback: int | None) -> _Subject:
    if not feature.fitted:
        feature = copy.deepcopy(feature).fit(data.rows(0, len(data) // 2))
    is_named = feature.spec is not None
    return _Subject(
        run=lambda panel, _: _computed(feature, panel),
        other=lambda time, rng: _of_feature(feature.perturb_after(time, rng), data, lookback),
        lookback=feature.lookback if lookback is None else lookback,
        is_recursive=is_named,
        captured=[] if is_named else captured_data(feature.compute, len(data)),
    )


def _of_pipeline(pipeline: Pipeline, data: MarketData) -> _Subject:
    def run(panel: MarketData, _: tuple[Events, ...]) -> tuple[Floats, tuple[str, ...]]:
        shown = pipeline.transform(panel)
        return shown.values.astype(np.float64), shown.names

    def other(time: Any, rng: np.random.Generator) -> _Subject:
        other_pipeline = copy.copy(pipeline)
        other_pipeline.features = tuple(
            feature.perturb_after(time, rng) for feature in pipeline.features
        )
        return _of_pipeline(other_pipeline, data)

    unnamed = [feature for feature in pipeline.features if feature.spec is None]
    captured = [name for feature in unnamed for name in captured_data(feature.compute, len(data))]
    return _Subject(run, other, pipeline.lookback, True, captured)


def _fitted(pipeline: Pipeline, data: MarketData, report: Report) -> Pipeline:
    if pipeline.learns and pipeline.fitted_on == data.digest:
        report.warn(
            "fit",
            "the pipeline was fitted on the data it is checked on: its fitted state knows the "
            "full sample",
        )
    if pipeline.fitted:
        return pipeline
    return copy.deepcopy(pipeline).fit(data.rows(0, max(2, len(data) // 2)))


def _computed(feature: PanelFeature, panel: MarketData) -> tuple[Floats, tuple[str, ...]]:
    values = np.array(feature(panel))
    return values, feature.channels(values.shape[2])


class _Check:
    """Look-ahead check of one subject on one panel."""

    def __init__(
        self,
        subject: _Subject,
        data: MarketData,
        events: tuple[Events, ...],
        report: Report,
        rng: np.random.Generator,
    ) -> None:
        self._subject = subject
        self._data = data
        self._events = events
        self._report = report
        self._rng = rng
        self._base, self._names = subject.run(data, events)

    def repeats(self) -> None:
        """Stop if the features are not deterministic."""
        if not _same(self._subject.run(self._data, self._events)[0], self._base).all():
            raise CheckStopped(
                "the same data gave different values the second time, so look-ahead cannot be "
                "checked"
            )

    def future(self, rows: Sequence[int]) -> None:
        """Compare with panels truncated after a row, and with panels that differ after it."""
        for row in rows:
            time = self._data.times[row]
            self._compare(row, "ends there", truncate(self._data, row + 1), time)
            for kind in KINDS:
                other = perturb_panel(self._data, time, self._rng, kind)
                self._compare(row, f"differs after it ({kind})", other, time)

    def _compare(self, row: int, change: str, panel: MarketData, time: Any) -> None:
        values = self._run(panel, time)
        if values is None:
            return
        same = _same(values[: row + 1], self._base[: row + 1])
        for channel in np.flatnonzero(~same.all(axis=(0, 1))):
            at, asset = (int(index[0]) for index in np.nonzero(~same[:, :, channel]))
            self._report.error(
                f"future {self._names[channel]}",
                f"{self._names[channel]} sees the future: at {self._data.times[at]} "
                f"{self._data.assets[asset]} has {self._base[at, asset, channel]}, but "
                f"{values[at, asset, channel]} if the data is the same up to {time} and {change}",
            )

    def _run(self, panel: MarketData, time: Any) -> Floats | None:
        """Compute features of another panel, with events that differ after `time`."""
        events = tuple(series.perturb_after(time, self._rng) for series in self._events)
        try:
            values, names = self._subject.other(time, self._rng).run(panel, events)
        except Exception as error:
            self._report.error(
                "raised",
                f"it cannot be computed of rows up to {panel.times[-1]}, or of a panel that "
                f"differs after {time}: {type(error).__name__}: {error}",
            )
            return None
        if names != self._names:
            self._report.error(
                "channels", f"its channels are {self._names}, but {names} if the future differs"
            )
            return None
        return values

    def past(self) -> None:
        """Report channels that vary in time and do not depend on their input."""
        everywhere = np.ones(len(self._data), bool)
        values = [perturb_rows(self._data, everywhere, self._rng, k, holes=False) for k in KINDS]
        holes = [perturb_rows(self._data, everywhere, self._rng, k) for k in KINDS]
        late = self._data.replace(times=self._data.times + TIME_SHIFT)
        by_values = self._reactions(values)
        by_others = self._reactions([*holes, late])
        early = self._data.times[0] - np.timedelta64(100 * 365, "D")
        by_events = self._reactions([self._data], early)
        for channel in np.flatnonzero(_varies(self._base) & ~by_values & ~by_events):
            self._report_closed(self._names[channel], bool(by_others[channel]))
        if self._subject.captured and (by_values | by_events).any():
            self._report.warn(
                "held",
                f"it holds data of its own ({', '.join(self._subject.captured)}), which cannot be "
                f"checked; pass them as events, or as fields of the panel",
            )

    def _report_closed(self, name: str, reacts: bool) -> None:
        captured = ", ".join(self._subject.captured)
        if not reacts:
            self._report.error(
                f"closed {name}",
                f"{name} varies in time and never reacts to its input: its values come from "
                f"elsewhere{f', such as captured {captured}' if captured else ''}",
            )
        elif captured:
            self._report.error(
                f"closed {name}",
                f"{name} takes no value from its input, and holds data of its own ({captured}), "
                f"which cannot be checked for look-ahead",
            )

    def _reactions(self, panels: Sequence[MarketData], time: Any = None) -> NDArray[np.bool_]:
        reacted = np.zeros(len(self._names), bool)
        for panel in panels:
            values = self._run(panel, self._data.times[-1] if time is None else time)
            if values is not None:
                reacted |= ~_same(values, self._base).all(axis=(0, 1))
        return reacted

    def positions(self) -> None:
        """Drop the first rows: the rest must be equal as far as the lookback allows."""
        lookback = self._subject.lookback
        if lookback is None and self._subject.is_recursive:
            return
        for first in sorted({1, 2, len(self._data) // 4}):
            values = self._run(self._data.rows(first, len(self._data)), self._data.times[-1])
            if values is None:
                return
            valid = np.isfinite(self._base[first:]) | np.isfinite(values)
            # Rows without a number on either side count as equal.
            same = np.asarray((_same(values, self._base[first:]) | ~valid).all(axis=1))
            for channel, name in enumerate(self._names):
                shown = np.asarray(valid[:, :, channel].any(axis=1))
                self._report_position(name, first, same[:, channel], shown, lookback)

    def _report_position(
        self,
        name: str,
        first: int,
        same: NDArray[np.bool_],
        shown: NDArray[np.bool_],
        lookback: int | None,
    ) -> None:
        if lookback is not None and not same[lookback - 1 :].all():
            at = lookback - 1 + int(np.argmin(same[lookback - 1 :]))
            self._report.error(
                f"position {name}",
                f"{name} depends on more than its lookback of {lookback} rows, or matches rows by "
                f"position: at {self._data.times[first + at]} it differs if the data begins "
                f"{first} rows later",
            )
        half = len(same) // 2
        if lookback is None and shown[half:].any() and not (same & shown)[half:].any():
            self._report.warn(
                f"position {name}",
                f"no row of {name} is equal if the data begins {first} rows later; state a "
                f"lookback, or make sure that rows are not matched by position",
            )


def _cuts(data: MarketData, count: int) -> list[int]:
    """Rows after which the data is changed: evenly spaced, and beside gaps."""
    rows = np.arange(len(data) - 1)
    masks = np.concatenate([data.listed, data.quoted], axis=1)
    beside = np.flatnonzero((masks[1:] != masks[:-1]).any(axis=1))
    return sorted({*_spread(rows, count), *_spread(beside, count)})


def _spread(rows: NDArray[np.intp], count: int) -> list[int]:
    if len(rows) <= count:
        return [int(row) for row in rows]
    return [int(rows[index]) for index in np.linspace(0, len(rows) - 1, count).astype(int)]


def _same(left: Floats, right: Floats) -> NDArray[np.bool_]:
    """Mask of equal bits; all NaN count as equal."""
    bits = np.ascontiguousarray(left).view(np.int64) == np.ascontiguousarray(right).view(np.int64)
    return np.asarray(bits | (np.isnan(left) & np.isnan(right)))


def _varies(values: Floats) -> NDArray[np.bool_]:
    """Mask of channels with two different numbers for some asset."""
    lowest = np.where(np.isnan(values), np.inf, values).min(axis=0)
    highest = np.where(np.isnan(values), -np.inf, values).max(axis=0)
    return np.asarray((highest > lowest).any(axis=0))


def captured_data(function: Any, rows: int) -> list[str]:
    """Types of captured data about as long as the panel: closures, globals and attributes."""
    least = max(8, rows // 2)
    parts = _parts(function, MAX_DEPTH)
    return sorted({type(part).__name__ for part in parts if _is_long(part, least)})


def _is_long(part: Any, least: int) -> bool:
    if isinstance(part, np.ndarray):
        return part.ndim > 0 and max(part.shape) >= least
    if isinstance(part, (Mapping, list, tuple)):
        return len(part) >= least
    # Frames and panels.
    is_table = hasattr(part, "columns") or hasattr(part, "times") or hasattr(part, "iloc")
    return is_table and hasattr(part, "__len__") and len(part) >= least


def _parts(holder: Any, depth: int) -> Iterator[Any]:
    """Yield captured objects recursively, without those that can be perturbed themselves."""
    for part in _direct(holder):
        if isinstance(part, type) or _is_perturbable(part):
            continue
        yield part
        if depth > 1:
            yield from _parts(part, depth - 1)


def _is_perturbable(part: Any) -> bool:
    # A captured panel is not the panel that is passed in.
    return hasattr(part, "perturb_after") and not isinstance(part, MarketData)


def _direct(holder: Any) -> Iterator[Any]:
    if isinstance(holder, functools.partial):
        yield from (holder.func, *holder.args, *holder.keywords.values())
    elif isinstance(holder, MethodType):
        yield from (holder.__self__, holder.__func__)
    elif isinstance(holder, FunctionType):
        yield from holder.__defaults__ or ()
        yield from (holder.__kwdefaults__ or {}).values()
        yield from _cells(holder)
        names = holder.__code__.co_names
        yield from (holder.__globals__[name] for name in names if name in holder.__globals__)
    elif type(holder).__module__ not in ("builtins", "numpy") and hasattr(holder, "__dict__"):
        yield from () if isinstance(holder, ModuleType) else vars(holder).values()


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        # The cell of a name that is bound later is empty.
        with suppress(ValueError):
            yield cell.cell_contents
