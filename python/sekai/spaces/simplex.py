"""Weights that are not negative and sum to one: portfolios, mixtures, probabilities."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.bounds import number_array, number_dtype
from sekai.spaces.box import Box
from sekai.spaces.capped_simplex import draw_weights
from sekai.spaces.counts import whole_number
from sekai.spaces.jsonable import numbers_from_json, numbers_to_json
from sekai.spaces.sampling_mask import zero_one_mask
from sekai.spaces.space import Space, read_only

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import Backend
    from sekai.spaces.draw import Draw

_TOLERANCES = {"float32": 1e-5, "float64": 1e-6}


class Simplex(Space["NDArray[Any]"]):
    """Arrays of `n` weights from zero to their caps that sum to one.

    The sum may miss one, and a weight its cap, by `tolerance`: 1e-6 for float64 and 1e-5 for
    float32, so that weights normalised in float32 belong to both. No weight may be negative.
    Samples are uniform over the set.
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
        """Count the weights and cap them.

        Args:
            n: how many weights there are.
            caps: the greatest weight allowed, one for all or one for each; None is no cap.
            dtype: float32 or float64.
            backend: who makes the samples.
        """
        self.n = whole_number(n, "n", 1)
        super().__init__((self.n,), number_dtype(dtype), backend=backend)
        if self.dtype.name not in _TOLERANCES:
            raise ValueError(f"dtype must be float32 or float64, was {self.dtype}")
        self.tolerance = _TOLERANCES[self.dtype.name]
        limits = number_array(1 if caps is None else caps, self.shape, self.dtype, "caps")
        if (limits < 0).any():
            raise ValueError(f"caps must not be negative, was {limits.min()}")
        self.caps: NDArray[Any] = read_only(np.minimum(limits, self.dtype.type(1)))
        self._require_reach(self.caps, ValueError, "caps")

    def sample(self, mask: Any = None) -> NDArray[Any]:
        """Random weights.

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
        self._require_reach(
            self.caps[allowed], SpaceError, "the caps of the weights that mask allows"
        )
        weights = np.zeros(self.n)
        weights[allowed] = draw_weights(self.caps[allowed].astype(np.float64))(self.rng)
        return weights

    def _require_reach(self, caps: NDArray[Any], error: type[ValueError], place: str) -> None:
        total = float(caps.sum(dtype=np.float64))
        # Half the tolerance, so that weights at all their caps belong whatever is rounded.
        if total < 1.0 - self.tolerance / 2:
            raise error(f"{place} must sum to at least 1, was {total}")

    @cached_property
    def box(self) -> Box:
        """The box around the weights, which belong whatever they sum to."""
        highs = self.caps + self.dtype.type(self.tolerance)
        return Box(0.0, highs, self.shape, self.dtype, backend=self.backend)

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else what was wanted and what was found."""
        sentence = self.box.mismatch(value)
        if sentence is not None:
            return sentence
        total = float(self.to_numpy(value).sum(dtype=np.float64))
        if abs(total - 1.0) <= self.tolerance:
            return None
        return f"wanted weights that sum to 1 within {self.tolerance}, found {total}"

    def _to_fields(self) -> dict[str, Any]:
        return {"n": self.n, "caps": numbers_to_json(self.caps), "dtype": self.dtype.name}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        n = whole_number(fields["n"], "n", 1)
        return cls(n, numbers_from_json(fields["caps"], (n,), "caps"), fields["dtype"])

    def __repr__(self) -> str:
        caps = "" if (self.caps == 1).all() else f", caps={self.caps.tolist()}"
        return f"{type(self).__name__}({self.n}{caps}, dtype={self.dtype})"
