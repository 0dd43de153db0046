"""Data whose values after a moment are others, and whose values up to it are the same.

A row of an array is stamped with its position. Data that becomes known later than its position
says (fundamentals, revisions, another frequency) is given as `Stamped`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["KINDS", "Perturbable", "Stamped", "last_time", "missing_times", "perturbed"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Stamped:
    """Rows with the time at which each becomes known."""

    values: NDArray[Any]
    times: NDArray[Any]
    """For each row of `values`, the first time at which anyone could know it."""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.times):
            raise ValueError(
                f"times needs one entry for each of the {len(self.values)} rows, "
                f"has {len(self.times)}"
            )


@runtime_checkable
class Perturbable(Protocol):
    """Data of a type of its own, which knows what else its future could have been."""

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Self:
        """A copy in which everything that becomes known after `time` is drawn anew."""


def perturbed(
    data: Any, time: Any, kind: str, rng: np.random.Generator, fixed: Collection[str] = ()
) -> Any:
    """A copy of `data` with other values after `time`.

    Args:
        data: an array, a `Stamped`, a `Perturbable`, or a mapping, tuple, list or frame of them.
        time: the last moment that stays as it is.
        kind: `scaled`, `noise`, `reversed` or `truncated`; a `Perturbable` decides for itself.
        rng: where the new values come from.
        fixed: the names in mappings and frames that stay as they are.
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
    """The latest stamp in `data`; infinity where only the data itself knows."""
    if isinstance(data, Perturbable):
        return np.inf
    if isinstance(data, Mapping):
        return max(map(last_time, data.values()))
    if isinstance(data, (tuple, list)):
        return max(map(last_time, data))
    return max(data.times) if isinstance(data, Stamped) else len(data) - 1


def missing_times(data: Any) -> set[Any]:
    """The stamps of rows with missing values: the places where fillers look ahead."""
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
        raise TypeError(f"data must have rows in time, was {data!r}")
    return values, np.arange(len(values))


def _scaled(
    values: NDArray[Any], later: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[Any]:
    """Each column multiplied by a factor of its own; what is missing stays missing."""
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
    """Numbers between the least and the greatest of the array; nothing is missing any more."""
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
    """The same rows in the opposite order: each row stays a row that could be."""
    return values[later][::-1] if values.dtype.kind in "biuf" else values[later]


Change = Callable[[NDArray[Any], NDArray[np.bool_], np.random.Generator], NDArray[Any]]

KINDS: dict[str, Change] = {"scaled": _scaled, "noise": _noise, "reversed": _reversed}
"""The ways to change the values of an array, by name. None of them makes values go missing."""
