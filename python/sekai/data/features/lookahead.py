"""Proves that features do not see the future, by changing it, and that they see the past."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.features.events import Events
from sekai.data.features.feature import PanelFeature, as_feature
from sekai.data.features.held_data import held_data
from sekai.data.features.other_futures import changed, holed, perturbed, truncated
from sekai.data.features.pipeline import Pipeline
from sekai.data.market_data import MarketData
from sekai.utils.checks.report import CheckStopped, Report, described
from sekai.utils.perturbation import KINDS

__all__ = ["check_features"]

Floats = NDArray[np.float64]
OTHER_TIMES = np.timedelta64(3 * 86_400 + 5 * 3_600 + 7 * 60, "s")


def check_features(
    features: str | PanelFeature | Pipeline | Callable[..., Any],
    data: MarketData,
    *,
    cuts: int = 16,
    seed: int = 0,
    events: Sequence[Events] = (),
    lookback: int | None = None,
) -> list[str]:
    """Where features know of rows after their own, as `check_env` tells it.

    Features are computed again on panels that end after some row t, and on panels that differ
    after it: in values, in halts and in delistings. Up to t nothing may differ, bit for bit; and
    the same once more on a panel with holes put into it, because fillers leak nowhere else.
    Then the past is changed: a feature that varies in time and never reacts to what it is given
    has its values from elsewhere, and nothing else is proven of it. Last, the first rows are
    left out: a feature must follow the rows, and not their positions.

    A number that was computed beforehand over the whole sample, such as a mean that a function
    subtracts, looks like any other constant: no check from the outside can find it.

    Args:
        features: a spec, a feature, a function `(data, *events)`, or a pipeline. One that is not
            fitted is fitted on the first half.
        data: what they are computed of; holes in it are where leaks show.
        cuts: how many different t are tried, and as many again beside holes.
        seed: of what is drawn.
        events: given to a function after the panel, and changed where published after t.
        lookback: the rows that one row needs, if the feature does not state them itself.
    """
    report = Report()
    if len(data) < 4:
        raise ValueError(f"a panel of at least 4 rows was wanted, found {len(data)}")

    def examine() -> None:
        subject = _subject(features, data, tuple(events), lookback, report)
        rng = np.random.default_rng(seed)
        check = _Check(subject, data, tuple(events), report, rng)
        check.repeats()
        check.future(_cuts(data, cuts))
        check.past()
        check.positions()
        _check_with_holes(subject, data, tuple(events), report, rng, cuts)

    report.guarded(examine)
    return report.lines()


def _check_with_holes(
    subject: _Subject,
    data: MarketData,
    events: tuple[Events, ...],
    report: Report,
    rng: np.random.Generator,
    cuts: int,
) -> None:
    """Look for leaks once more where assets are halted, come and go: fillers leak nowhere else."""
    panel = holed(data, rng)
    try:
        check = _Check(subject, panel, events, report, rng)
    except Exception as error:
        report.warn(
            "holes",
            f"it cannot be computed of a panel with halts and delistings, where nothing is proven: "
            f"{described(error)}",
        )
        return
    check.future(_cuts(panel, cuts))


@dataclass(frozen=True)
class _Subject:
    """What is checked: how it is computed, and what it says of itself."""

    run: Callable[[MarketData, tuple[Events, ...]], tuple[Floats, tuple[str, ...]]]
    other: Callable[[Any, np.random.Generator], _Subject]
    lookback: int | None
    is_recursive: bool
    held: list[str]


def _subject(
    given: Any, data: MarketData, events: tuple[Events, ...], lookback: int | None, report: Report
) -> _Subject:
    if isinstance(given, Pipeline):
        return _of_pipeline(_fitted(given, data, report), data)
    if events:
        function = given

        def run(panel: MarketData, others: tuple[Events, ...]) -> tuple[Floats, tuple[str, ...]]:
            return _computed(PanelFeature(lambda data: function(data, *others), name="it"), panel)

        held = held_data(function, len(data))
        return _Subject(run, lambda _, __: _subject(given, data, events, lookback, report),
                        lookback, False, held)  # fmt: skip
    return _of_feature(as_feature(given), data, lookback)


def _of_feature(feature: PanelFeature, data: MarketData, lookback: int | None) -> _Subject:
    if not feature.fitted:
        feature = copy.deepcopy(feature).fit(data.rows(0, len(data) // 2))
    is_named = feature.spec is not None
    return _Subject(
        run=lambda panel, _: _computed(feature, panel),
        other=lambda time, rng: _of_feature(feature.perturb_after(time, rng), data, lookback),
        lookback=feature.lookback if lookback is None else lookback,
        is_recursive=is_named,
        held=[] if is_named else held_data(feature.compute, len(data)),
    )


def _of_pipeline(pipeline: Pipeline, data: MarketData) -> _Subject:
    def run(panel: MarketData, _: tuple[Events, ...]) -> tuple[Floats, tuple[str, ...]]:
        shown = pipeline.transform(panel)
        return shown.values.astype(np.float64), shown.names

    def other(time: Any, rng: np.random.Generator) -> _Subject:
        changed = copy.copy(pipeline)
        changed.features = tuple(feature.perturb_after(time, rng) for feature in pipeline.features)
        return _of_pipeline(changed, data)

    nameless = [feature for feature in pipeline.features if feature.spec is None]
    held = [name for feature in nameless for name in held_data(feature.compute, len(data))]
    return _Subject(run, other, pipeline.lookback, True, held)


def _fitted(pipeline: Pipeline, data: MarketData, report: Report) -> Pipeline:
    if pipeline.learns and pipeline.fitted_on == data.digest:
        report.warn("fit", "the pipeline was fitted on the very data it is checked on: what it "
                    "learned knows the whole sample")  # fmt: skip
    if pipeline.fitted:
        return pipeline
    return copy.deepcopy(pipeline).fit(data.rows(0, max(2, len(data) // 2)))


def _computed(feature: PanelFeature, panel: MarketData) -> tuple[Floats, tuple[str, ...]]:
    values = np.array(feature(panel))
    return values, feature.channels(values.shape[2])


class _Check:
    """One subject on one panel, and what is found."""

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
        """Stop if the same data gives something else the second time."""
        if not _same(self._subject.run(self._data, self._events)[0], self._base).all():
            raise CheckStopped("the same data gave something else the second time, so nothing can "
                               "be said about the future")  # fmt: skip

    def future(self, rows: Sequence[int]) -> None:
        """Compare with panels that end after a row, and with those that differ after it."""
        for row in rows:
            time = self._data.times[row]
            self._compare(row, "ends there", truncated(self._data, row + 1), time)
            for kind in KINDS:
                other = perturbed(self._data, time, self._rng, kind)
                self._compare(row, f"differs after it ({kind})", other, time)

    def _compare(self, row: int, what: str, panel: MarketData, time: Any) -> None:
        found = self._run(panel, time)
        if found is None:
            return
        same = _same(found[: row + 1], self._base[: row + 1])
        for channel in np.flatnonzero(~same.all(axis=(0, 1))):
            at, asset = (int(place[0]) for place in np.nonzero(~same[:, :, channel]))
            self._report.error(
                f"future {self._names[channel]}",
                f"{self._names[channel]} sees the future: at {self._data.times[at]} "
                f"{self._data.assets[asset]} has {self._base[at, asset, channel]}, and "
                f"{found[at, asset, channel]} if the data up to {time} is the same and {what}",
            )

    def _run(self, panel: MarketData, time: Any) -> Floats | None:
        """What is computed of another panel, with events that differ after `time`."""
        events = tuple(each.perturb_after(time, self._rng) for each in self._events)
        try:
            values, names = self._subject.other(time, self._rng).run(panel, events)
        except Exception as error:
            self._report.error(
                "raised",
                f"it cannot be computed of rows up to {panel.times[-1]}, or of others after "
                f"{time}: {type(error).__name__}: {error}",
            )
            return None
        if names != self._names:
            self._report.error(
                "channels", f"it has channels {self._names}, and {names} if the future is another"
            )
            return None
        return values

    def past(self) -> None:
        """Find channels that vary in time and take nothing from what they are given."""
        everything = np.ones(len(self._data), bool)
        values = [changed(self._data, everything, self._rng, k, holes=False) for k in KINDS]
        holes = [changed(self._data, everything, self._rng, k) for k in KINDS]
        late = self._data.replace(times=self._data.times + OTHER_TIMES)
        by_values = self._reactions(values)
        by_others = self._reactions([*holes, late])
        early = self._data.times[0] - np.timedelta64(100 * 365, "D")
        by_events = self._reactions([self._data], early)
        for place in np.flatnonzero(_varies(self._base) & ~by_values & ~by_events):
            self._judge(self._names[place], bool(by_others[place]))
        if self._subject.held and (by_values | by_events).any():
            self._report.warn(
                "held",
                f"it holds data of its own ({', '.join(self._subject.held)}), of which nothing is "
                f"proven: give it as events, or as fields of the panel",
            )

    def _judge(self, name: str, reacts: bool) -> None:
        held = ", ".join(self._subject.held)
        if not reacts:
            self._report.error(
                f"closed {name}",
                f"{name} varies in time and never reacts to the data it is given: its values come "
                f"from elsewhere{f', such as {held} that it holds' if held else ''}",
            )
        elif held:
            self._report.error(
                f"closed {name}",
                f"{name} takes no value from the data it is given, and holds data of its own "
                f"({held}): what that knows at a time cannot be told",
            )

    def _reactions(self, panels: Sequence[MarketData], time: Any = None) -> NDArray[np.bool_]:
        reacted = np.zeros(len(self._names), bool)
        for panel in panels:
            found = self._run(panel, self._data.times[-1] if time is None else time)
            if found is not None:
                reacted |= ~_same(found, self._base).all(axis=(0, 1))
        return reacted

    def positions(self) -> None:
        """Leave out the first rows: what is left must be the same, as far as it looks back."""
        lookback = self._subject.lookback
        if lookback is None and self._subject.is_recursive:
            return
        for first in sorted({1, 2, len(self._data) // 4}):
            found = self._run(self._data.rows(first, len(self._data)), self._data.times[-1])
            if found is None:
                return
            there = np.isfinite(self._base[first:]) | np.isfinite(found)
            # Where neither has a number they agree on nothing.
            same = np.asarray((_same(found, self._base[first:]) | ~there).all(axis=1))
            for place, name in enumerate(self._names):
                shown = np.asarray(there[:, :, place].any(axis=1))
                self._judge_position(name, first, same[:, place], shown, lookback)

    def _judge_position(
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
                f"{name} looks further back than the {lookback} rows it states, or matches rows by "
                f"position: at {self._data.times[first + at]} it is another if the data begins "
                f"{first} rows later",
            )
        half = len(same) // 2
        if lookback is None and shown[half:].any() and not (same & shown)[half:].any():
            self._report.warn(
                f"position {name}",
                f"no row of {name} is the same if the data begins {first} rows later: state a "
                f"lookback, or make sure that rows are not matched by position",
            )


def _cuts(data: MarketData, count: int) -> list[int]:
    """Rows after which the data is changed: spread over it, and beside holes."""
    rows = np.arange(len(data) - 1)
    masks = np.concatenate([data.listed, data.quoted], axis=1)
    beside = np.flatnonzero((masks[1:] != masks[:-1]).any(axis=1))
    return sorted({*_spread(rows, count), *_spread(beside, count)})


def _spread(rows: NDArray[np.intp], count: int) -> list[int]:
    if len(rows) <= count:
        return [int(row) for row in rows]
    return [int(rows[place]) for place in np.linspace(0, len(rows) - 1, count).astype(int)]


def _same(left: Floats, right: Floats) -> NDArray[np.bool_]:
    """Where two arrays are the same to the last bit; any NaN is as good as another."""
    bits = np.ascontiguousarray(left).view(np.int64) == np.ascontiguousarray(right).view(np.int64)
    return np.asarray(bits | (np.isnan(left) & np.isnan(right)))


def _varies(values: Floats) -> NDArray[np.bool_]:
    """Which channels have, of some asset, two different numbers."""
    lowest = np.where(np.isnan(values), np.inf, values).min(axis=0)
    highest = np.where(np.isnan(values), -np.inf, values).max(axis=0)
    return np.asarray((highest > lowest).any(axis=0))
