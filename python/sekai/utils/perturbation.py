"""Perturbed data: copies with other values after some time, and episodes replayed on them.

The time of an array row is its index. Data that becomes known later than its index says
(fundamentals, revisions, another frequency) is passed as `Stamped`.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Space
from sekai.utils.findings import CheckStopped, deep_copy, describe_error, stopping
from sekai.utils.rollout import CheckedEnv, Event, checked_env, play, replay

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Stamped:
    """Rows with the time at which each becomes known."""

    values: NDArray[Any]
    times: NDArray[Any]
    """Time at which each row of `values` becomes known."""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.times):
            raise ValueError(
                f"times must have one entry per row, {len(self.values)}, got {len(self.times)}"
            )


@runtime_checkable
class Perturbable(Protocol):
    """Interface of custom data that can draw another future."""

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Self:
        """Return a copy in which everything known only after `time` is drawn anew."""


def perturbed(
    data: Any, time: Any, kind: str, rng: np.random.Generator, fixed: Collection[str] = ()
) -> Any:
    """Return a copy of `data` with other values after `time`.

    Args:
        data: array, a `Stamped`, a `Perturbable`, or a mapping, tuple, list or frame of them.
        time: last time that stays unchanged.
        kind: `scaled`, `noise`, `reversed` or `truncated`; ignored by a `Perturbable`.
        rng: generator of the new values.
        fixed: names in mappings and frames that stay unchanged.
    """
    if isinstance(data, Perturbable):
        return data.perturb_after(time, rng)
    if isinstance(data, Mapping):
        changed = _changed_items(data.items(), time, kind, rng, fixed)
        return changed if type(data) is dict else type(data)(changed)  # type: ignore[call-arg]
    if isinstance(data, (tuple, list)):
        return type(data)(perturbed(part, time, kind, rng, fixed) for part in data)
    if hasattr(data, "columns"):
        return _perturbed_frame(data, time, kind, rng, fixed)
    return _perturbed_rows(data, time, kind, rng)


def last_time(data: Any) -> Any:
    """Return the latest time in `data`; infinity for a `Perturbable`."""
    if isinstance(data, Perturbable):
        return np.inf
    if isinstance(data, Mapping):
        return max(map(last_time, data.values()))
    if isinstance(data, (tuple, list)):
        return max(map(last_time, data))
    return max(data.times) if isinstance(data, Stamped) else len(data) - 1


def missing_times(data: Any) -> set[Any]:
    """Return the times of rows with missing values, where forward fills may look ahead."""
    if isinstance(data, Mapping):
        return set().union(*map(missing_times, data.values()))
    if isinstance(data, (tuple, list)):
        return set().union(*map(missing_times, data))
    if isinstance(data, Perturbable) or hasattr(data, "columns"):
        return set()
    values, times = _rows(data)
    if values.dtype.kind != "f":
        return set()
    return set(times[np.isnan(values).reshape(len(values), -1).any(axis=1)].tolist())


def _changed_items(
    items: Collection[tuple[str, Any]],
    time: Any,
    kind: str,
    rng: np.random.Generator,
    fixed: Collection[str],
) -> dict[str, Any]:
    return {
        name: copy.deepcopy(part) if name in fixed else perturbed(part, time, kind, rng, fixed)
        for name, part in items
    }


def _perturbed_frame(
    frame: Any, time: Any, kind: str, rng: np.random.Generator, fixed: Collection[str]
) -> Any:
    if kind == "truncated":
        return frame[: time + 1]
    changed = frame.copy()
    for name in frame.columns:
        if name not in fixed:
            changed[name] = _perturbed_rows(np.asarray(frame[name]), time, kind, rng)
    return changed


def _perturbed_rows(data: Any, time: Any, kind: str, rng: np.random.Generator) -> Any:
    values, times = _rows(data)
    later = times > time
    if kind == "truncated":
        values, times = values[~later], times[~later]
    else:
        values = values.copy()
        if values.dtype.names is None:
            values[later] = KINDS[kind](values, later, rng)
        else:
            for name in values.dtype.names:
                values[name][later] = KINDS[kind](values[name], later, rng)
    return Stamped(values, times.copy()) if isinstance(data, Stamped) else values


def _rows(data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if isinstance(data, Stamped):
        return data.values, data.times
    values = np.asarray(data)
    if not values.ndim:
        raise TypeError(f"data must have a time axis, got {data!r}")
    return values, np.arange(len(values))


def _scaled(
    values: NDArray[Any], later: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[Any]:
    """Multiply each column by its own factor; missing values stay missing."""
    old = values[later]
    if values.dtype.kind == "b":
        return ~old
    if values.dtype.kind not in "iuf":
        return old
    factors = np.where(rng.random(values.shape[1:]) < 0.5, 0.5, 1.5)
    factors = factors + rng.uniform(0.01, 0.3, values.shape[1:])
    return np.asarray(np.rint(old * factors) if values.dtype.kind in "iu" else old * factors)


def _noise(
    values: NDArray[Any], later: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[Any]:
    """Draw values between the minimum and maximum of the array; none is missing."""
    old = values[later]
    if values.dtype.kind == "b":
        return rng.random(old.shape) < 0.5
    if values.dtype.kind not in "iuf":
        return old
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0, 1)
    if values.dtype.kind in "iu":
        return rng.integers(low, high, size=old.shape, dtype=values.dtype.type, endpoint=True)
    return rng.uniform(low, high if high > low else low + 1, old.shape)


def _reversed(
    values: NDArray[Any], later: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[Any]:
    """Reverse the order of rows, so that each stays a plausible row."""
    return values[later][::-1] if values.dtype.kind in "biuf" else values[later]


Change = Callable[[NDArray[Any], NDArray[np.bool_], np.random.Generator], NDArray[Any]]

KINDS: dict[str, Change] = {"scaled": _scaled, "noise": _noise, "reversed": _reversed}
"""Perturbations of array values by name. None of them makes values missing."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TimedEvent:
    """Reset or step with its data time and the learned state after it."""

    event: Event
    time: Any
    state: Any


class DataClock:
    """Time of the latest data that a result may use.

    `time_of(env, result)` if passed, else `info["time_index"]`, else the steps since the reset
    counted from `first_time`.
    """

    def __init__(self, time_of: Callable[[Any, Any], Any] | None, first_time: int) -> None:
        self._time_of = time_of
        self._first_time = first_time
        self._steps = 0
        self.is_counting = False

    def time(self, checked: CheckedEnv, event: Event) -> Any:
        """Return the time of the event that has just happened."""
        self._steps = 0 if event.is_reset else self._steps + 1
        if self._time_of is not None:
            return self._time_of(checked.env, event.result)
        for part in checked.parts(event.result).values():
            if isinstance(part.get("info"), dict) and "time_index" in part["info"]:
                return part["info"]["time_index"]
        self.is_counting = True
        return self._first_time + self._steps


Observe = Callable[[Any], Any]


def record(
    checked: CheckedEnv, clock: DataClock, observe: Observe, seed: int, n_steps: int
) -> list[TimedEvent]:
    """Play one episode with random actions, of at most `n_steps` steps."""
    moments = []
    for moment in _moments(checked, clock, observe, play(checked, seed, n_steps, seed)):
        moments.append(moment)
        if moment.event.ends_episode:
            break
    return moments


def repeat(
    checked: CheckedEnv, clock: DataClock, observe: Observe, moments: Iterable[TimedEvent]
) -> Iterator[TimedEvent]:
    """Replay the same calls, on an env that may have other data."""
    events = (moment.event for moment in moments)
    return _moments(checked, clock, observe, replay(checked, events))


def learned_state(env: Any) -> dict[str, Any]:
    """Return the states of all parts of a stack with a `state_dict`, such as normalizers."""
    return {
        f"{type(layer).__name__}.{name}": deep_copy(value.state_dict())
        for layer in env
        for name, value in list(vars(layer).items())
        if name != "env" and not isinstance(value, Space) and _has_state(value)
    }


def _moments(
    checked: CheckedEnv, clock: DataClock, observe: Observe, events: Iterable[Event]
) -> Iterator[TimedEvent]:
    for event in events:
        yield TimedEvent(event, clock.time(checked, event), observe(checked.env))


def _has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


class DataRefused(Exception):  # noqa: N818 - it is no fault: not every env takes all data
    """The env rejects the perturbed data."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedRuns:
    """Episodes of one env on perturbed copies of its data."""

    env_factory: Callable[[Any], Any]
    data: Any
    clock: DataClock
    observe: Callable[[Any], Any]
    kinds: Collection[str]
    fixed: Collection[str]
    seed: int
    _numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    def recorded(self, seed: int, n_steps: int) -> list[TimedEvent]:
        """Play one episode on the original data."""
        with _opened(self._made(copy.deepcopy(self.data))) as checked:
            return record(checked, self.clock, self.observe, seed, n_steps)

    def repeated(self, moments: Iterable[TimedEvent]) -> Generator[TimedEvent, None, None]:
        """Replay an episode on the original data."""
        with _opened(self._made(copy.deepcopy(self.data))) as checked:
            yield from repeat(checked, self.clock, self.observe, moments)

    def changed(
        self, moments: Iterable[TimedEvent], time: Any, kind: str
    ) -> Generator[TimedEvent, None, None]:
        """Replay an episode on data that is perturbed after `time`.

        Raises:
            DataRefused: the env could not be created or reset with this data.
            CheckStopped: a step failed.
        """
        rng = np.random.default_rng([self.seed, next(self._numbers)])
        data = perturbed(self.data, time, kind, rng, self.fixed)
        try:
            checked = self._made(data)
        except Exception as error:
            raise DataRefused(describe_error(error)) from error
        with _opened(checked):
            repeats = repeat(checked, self.clock, self.observe, moments)
            try:
                first = next(repeats)
            except CheckStopped as stopped:
                raise DataRefused(str(stopped)) from stopped
            yield first
            yield from repeats

    def has_future(self, time: Any) -> bool:
        """Return True if there is data after `time`."""
        return bool(last_time(self.data) > time)

    def _made(self, data: Any) -> CheckedEnv:
        with stopping("env_factory(data)"):
            env = self.env_factory(data)
        return checked_env(env)


@contextmanager
def _opened(checked: CheckedEnv) -> Iterator[CheckedEnv]:
    try:
        yield checked
    finally:
        checked.env.close()
