"""Simplex space: non-negative weights that sum to one, as in portfolios and mixtures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.box import Box
from sekai.spaces.jsonable import numbers_from_json, numbers_to_json
from sekai.spaces.masks import allows, zero_one_mask
from sekai.spaces.numbers import checked_integer, number_array, number_dtype
from sekai.spaces.space import Space, read_only

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import Backend
    from sekai.spaces.numbers import Draw

_TOLERANCES = {"float32": 1e-5, "float64": 1e-6}


class Simplex(Space["NDArray[Any]"]):
    """Arrays of `n` weights between zero and their caps that sum to one.

    The sum and the caps have a `tolerance`: 1e-6 for float64 and 1e-5 for float32, so that weights
    normalized in float32 are in both. No weight may be negative. Samples are uniform over the set.

    Args:
        n: number of weights.
        caps: largest weight, one number or one per weight; None is no cap.
        dtype: float32 or float64.
        backend: array backend of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("n", "caps", "dtype")

    def __init__(
        self,
        n: int,
        caps: Any = None,
        dtype: DTypeLike = np.float64,
        *,
        backend: Backend | None = None,
    ) -> None:
        self.n = checked_integer(n, "n", 1)
        super().__init__((self.n,), number_dtype(dtype), backend=backend)
        if self.dtype.name not in _TOLERANCES:
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype}")
        self.tolerance = _TOLERANCES[self.dtype.name]
        limits = number_array(1 if caps is None else caps, self.shape, self.dtype, "caps")
        if (limits < 0).any():
            raise ValueError(f"caps must not be negative, got {limits.min()}")
        self.caps: NDArray[Any] = read_only(np.minimum(limits, self.dtype.type(1)))
        self._require_reach(self.caps, ValueError, "caps")

    def sample(self, mask: Any = None) -> NDArray[Any]:
        """Draw random weights.

        Args:
            mask: 0 for each weight that must be zero and 1 for the others.
        """
        if mask is None:
            weights = self._draw(self.rng)
        else:
            weights = self._masked_weights(zero_one_mask(self.to_numpy(mask), self.shape))
        # Rounding can pass zero or a cap by the last bit.
        rounded = np.minimum(np.maximum(weights, 0.0).astype(self.dtype), self.caps)
        return rounded if self._is_numpy else self.to_backend(rounded)

    @cached_property
    def _draw(self) -> Draw:
        return draw_weights(self.caps.astype(np.float64))

    def _masked_weights(self, allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
        self._require_reach(self.caps[allowed], SpaceError, "caps of the weights that mask allows")
        weights = np.zeros(self.n)
        weights[allowed] = draw_weights(self.caps[allowed].astype(np.float64))(self.rng)
        return weights

    def _require_reach(self, caps: NDArray[Any], error: type[ValueError], name: str) -> None:
        total = float(caps.sum(dtype=np.float64))
        # Half the tolerance, so that weights at all their caps are valid despite rounding.
        if total < 1.0 - self.tolerance / 2:
            raise error(f"{name} must sum to at least 1, got {total}")

    @cached_property
    def box(self) -> Box:
        """Box of the weights without the constraint on their sum."""
        highs = self.caps + self.dtype.type(self.tolerance)
        return Box(0.0, highs, self.shape, self.dtype, backend=self.backend)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        reason = self.box.mismatch(value)
        if reason is not None:
            return reason
        total = float(self.to_numpy(value).sum(dtype=np.float64))
        if abs(total - 1.0) <= self.tolerance:
            return None
        return f"expected weights that sum to 1 within {self.tolerance}, got {total}"

    def _to_fields(self) -> dict[str, Any]:
        return {"n": self.n, "caps": numbers_to_json(self.caps), "dtype": self.dtype.name}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        n = checked_integer(fields["n"], "n", 1)
        return cls(n, numbers_from_json(fields["caps"], (n,), "caps"), fields["dtype"])

    def __repr__(self) -> str:
        caps = "" if (self.caps == 1).all() else f", caps={self.caps.tolist()}"
        return f"{type(self).__name__}({self.n}{caps}, dtype={self.dtype})"


@allows.register(Simplex)
def _simplex_allows(space: Simplex, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    return space.contains(value) and not np.asarray(value)[~np.asarray(mask, bool)].any()


_BATCH = 64
_BATCHES = 4
_LIKELY = 0.05
_SWEEPS = 48


def draw_weights(caps: NDArray[np.float64]) -> Draw:
    """Return a function that draws uniform weights between zero and `caps` that sum to one.

    Loose caps: rejection sampling from the uncapped simplex. Tight caps: the same for the slack
    under the caps, which is a small simplex itself. In between, where both accept too rarely:
    hit-and-run exchanges between random pairs of weights.
    """
    spare = max(float(caps.sum()) - 1.0, 0.0)
    if (caps >= 1.0).all():
        return lambda rng: _free_weights(rng, 1, caps.size)[0]
    if spare == 0.0:
        return lambda _: caps.copy()
    if _acceptance_rate(caps) >= _LIKELY:
        return lambda rng: _first_within(rng, caps, caps)
    if _acceptance_rate(caps / spare) >= _LIKELY:
        return lambda rng: caps - spare * _first_within(rng, caps / spare, caps)
    return lambda rng: _exchanged(rng, caps)


def _acceptance_rate(caps: NDArray[np.float64]) -> float:
    """Approximate acceptance rate of uncapped weights, treating them as independent."""
    exceeds = np.power(1.0 - np.minimum(caps, 1.0), caps.size - 1)
    return float(np.prod(1.0 - exceeds))


def _free_weights(rng: np.random.Generator, rows: int, size: int) -> NDArray[np.float64]:
    gaps = rng.standard_exponential((rows, size))
    # All gaps could be 0; the smallest float avoids a division by zero.
    gaps += np.finfo(np.float64).tiny
    return np.asarray(gaps / gaps.sum(axis=1, keepdims=True))


def _first_within(
    rng: np.random.Generator, limits: NDArray[np.float64], caps: NDArray[np.float64]
) -> NDArray[np.float64]:
    for _ in range(_BATCHES):
        weights = _free_weights(rng, _BATCH, limits.size)
        within = np.flatnonzero((weights <= limits).all(axis=1))
        if within.size:
            return np.asarray(weights[within[0]])
    # No draw accepted: the exchange below always succeeds.
    weights = _exchanged(rng, caps)
    return weights if limits is caps else (caps - weights) / (caps.sum() - 1.0)


def _exchanged(rng: np.random.Generator, caps: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = caps / caps.sum()
    half = caps.size // 2
    for _ in range(_SWEEPS):
        order = rng.permutation(caps.size)
        left, right = order[:half], order[half : 2 * half]
        both = weights[left] + weights[right]
        least = np.maximum(both - caps[right], 0.0)
        most = np.minimum(both, caps[left])
        moved = least + rng.random(half) * (most - least)
        weights[left] = moved
        weights[right] = both - moved
    return np.asarray(weights)
