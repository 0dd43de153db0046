"""Space base class: sampling, membership, seeding, JSON and array backends."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from sekai.backend import Backend, as_numpy, get_backend
from sekai.backend.numpy_ops import NumpyOps
from sekai.error import StateError
from sekai.spaces.jsonable import checked_fields, register_type, space_type_of, type_name
from sekai.spaces.numbers import checked_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import BackendOps

T_co = TypeVar("T_co", covariant=True)
# For type checkers a tensor is the NumPy array it replaces.
ArrayT = TypeVar("ArrayT", bound="NDArray[Any] | np.generic")


class Space(ABC, Generic[T_co]):
    """Set of values with sampling and a membership test.

    A custom space defines `sample` and either `contains` or, to explain rejections, `mismatch`; the
    other one is derived. Two spaces are equal if they have the same type and equal public
    attributes; neither the backend nor the random generator counts.
    """

    shape: tuple[int, ...] | None = None
    """Shape of a value; None if a value is not one array."""
    dtype: np.dtype[Any] | None = None
    """Dtype of a value; None if a value is not one array."""
    json_fields: ClassVar[tuple[str, ...] | None] = None
    """Keys of the JSON format: constructor arguments that are also attributes."""
    _rng: np.random.Generator | None = None
    _backend: BackendOps = get_backend("numpy")
    _is_numpy: bool = True

    def __init__(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: DTypeLike | None = None,
        *,
        backend: Backend | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._backend = get_backend("numpy" if backend is None else backend)
        self._is_numpy = isinstance(self._backend, NumpyOps)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_type(cls)
        _complete_membership(cls)

    @abstractmethod
    def sample(self, mask: Any = None) -> T_co:
        """Draw a random value from the space's own generator.

        Args:
            mask: restriction of the draw; each space documents its format.
        """

    def contains(self, x: object) -> bool:
        """Return True if `x` is in the space."""
        return self.mismatch(x) is None

    if not TYPE_CHECKING:
        # Not abstract for type checkers: it is derived from `mismatch` if that is defined.
        contains = abstractmethod(contains)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        return None if self.contains(value) else _refusal(self, value)

    def __contains__(self, x: object) -> bool:
        return self.contains(x)

    def children(self) -> Mapping[Any, Space[Any]]:
        """Child spaces by key or index; nested spaces override it."""
        return {}

    @property
    def is_flattenable(self) -> bool:
        """True if `flatten` and the related functions support the space and its children."""
        from sekai.spaces.utils import has_rules  # which imports every space

        return has_rules(type(self)) and all(
            child.is_flattenable for child in self.children().values()
        )

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the space, seeded by the operating system without `seed`."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    def seed(self, seed: int | None = None) -> int:
        """Seed the generator, and an independent one in each nested space.

        Args:
            seed: non-negative integer; None draws one from the operating system.

        Returns:
            The seed used.
        """
        used = fresh_seed() if seed is None else checked_integer(seed, "seed", 0)
        self._rng = np.random.default_rng(used)
        for key, child in self.children().items():
            child.seed(child_seed(used, key))
        return used

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the generators of the space and its children, as plain types."""
        spaces = {str(key): child.state_dict() for key, child in self.children().items()}
        return {"rng": rng_state(self._rng), "spaces": spaces}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the generators from a `state_dict`.

        Raises:
            StateError: the state is not of a space like this one; nothing has changed.
        """
        for space, rng in list(self._streams_of(state, "state")):
            space._rng = rng

    def _streams_of(
        self, state: Any, path: str
    ) -> Iterator[tuple[Space[Any], np.random.Generator | None]]:
        children = {str(key): child for key, child in self.children().items()}
        _require_keys(state, {"rng", "spaces"}, path)
        _require_keys(state["spaces"], set(children), f"{path}['spaces']")
        yield self, restored_rng(state["rng"], f"{path}['rng']")
        for key, child in children.items():
            yield from child._streams_of(state["spaces"][key], f"{path}['spaces'][{key!r}]")

    def to_jsonable(self) -> dict[str, Any]:
        """Return the space as strict JSON, exact to the last bit; infinities are strings."""
        return {"type": type_name(type(self)), **self._to_fields()}

    @classmethod
    def from_jsonable(cls, description: Mapping[str, Any]) -> Self:
        """Create a space from the output of `to_jsonable`; `Space.from_jsonable` reads every type.

        Raises:
            ValueError: the description is of another type, or lacks or adds keys.
        """
        space_type = space_type_of(description)
        if not issubclass(space_type, cls):
            raise ValueError(f"expected the JSON of a {cls.__name__}, got {space_type.__name__}")
        return space_type._from_fields(checked_fields(description, space_type._json_fields()))

    @classmethod
    def _json_fields(cls) -> tuple[str, ...]:
        if cls.json_fields is None:
            raise NotImplementedError(
                f"{cls.__name__} has no JSON format; list its constructor arguments in json_fields"
            )
        return cls.json_fields

    def _to_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._json_fields()}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**fields)

    @property
    def backend(self) -> BackendOps:
        """Array backend of samples."""
        return self._backend

    def with_backend(self, backend: Backend) -> Self:
        """Return a copy, with the same generator state, that samples with `backend`."""
        copied = copy.deepcopy(self)
        copied._set_backend(get_backend(backend))
        return copied

    def to_backend(self, array: ArrayT) -> ArrayT:
        """Convert a NumPy array or scalar to the space's backend."""
        if self._is_numpy:
            return array
        made: ArrayT = self._backend.astype(array, array.dtype)
        return made

    def to_numpy(self, value: Any) -> Any:
        """Convert an array of the space's backend to NumPy; return anything else unchanged."""
        if self._is_numpy or not self._backend.is_array(value):
            return value
        return as_numpy(self._backend, value)

    def _set_backend(self, backend: BackendOps) -> None:
        self._backend = backend
        self._is_numpy = isinstance(backend, NumpyOps)
        for child in self.children().values():
            child._set_backend(backend)

    def __getstate__(self) -> dict[str, Any]:
        # A copy computes its cached properties again.
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def _key(self) -> tuple[Any, ...]:
        own = sorted(self.__getstate__().items())
        return tuple((name, value_key(value)) for name, value in own if not name.startswith("_"))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._key() == cast("Space[Any]", other)._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))


def _complete_membership(cls: type[Space[Any]]) -> None:
    """Derive `contains` from `mismatch` or the reverse in a class that defines one of them.

    Each is derived from the definition in that very class, so that `super().contains(x)` in a
    subclass does not call the subclass again.
    """
    contains, mismatch = (_definer_index(cls, name) for name in ("contains", "mismatch"))
    if mismatch < contains:
        cls.contains = _contains_by(cls.mismatch)  # type: ignore[method-assign, assignment]
    elif contains < mismatch:
        cls.mismatch = _mismatch_by(  # type: ignore[method-assign, assignment]
            cls.contains, cls.mismatch
        )


def _definer_index(cls: type, name: str) -> int:
    return next(path for path, ancestor in enumerate(cls.__mro__) if name in vars(ancestor))


def _contains_by(mismatch: Callable[[Any, object], str | None]) -> Callable[[Any, object], bool]:
    def contains(self: Any, x: object) -> bool:
        return mismatch(self, x) is None

    contains.__doc__ = Space.contains.__doc__
    return contains


def _mismatch_by(
    contains: Callable[[Any, object], bool], inherited: Callable[[Any, object], str | None]
) -> Callable[[Any, object], str | None]:
    def mismatch(self: Any, value: object) -> str | None:
        if contains(self, value):
            return None
        # The parent's message is more specific; the default of `Space` would recurse.
        reason = None if inherited is Space.mismatch else inherited(self, value)
        return reason or _refusal(self, value)

    mismatch.__doc__ = Space.mismatch.__doc__
    return mismatch


def _refusal(space: Space[Any], value: object) -> str:
    return f"expected a value of {type(space).__name__}, got {value!r}"


def read_only(numbers: Any) -> NDArray[Any]:
    """Return a read-only array; scalars, which arithmetic on shape () returns, become arrays."""
    array = np.asarray(numbers)
    array.flags.writeable = False
    return array


def _require_keys(state: Any, expected: set[str], path: str) -> None:
    if not isinstance(state, dict) or set(state) != expected:
        description = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise StateError(
            f"{path} must be a dict with the keys {sorted(expected)}, got {description}"
        )


def rng_state(rng: np.random.Generator | None) -> dict[str, Any] | None:
    """Return the state of a generator; None if there is none yet."""
    return None if rng is None else dict(rng.bit_generator.state)


def restored_rng(state: object, path: str) -> np.random.Generator | None:
    """Create a generator from a state.

    Args:
        state: a result of `rng_state`.
        path: path of this state in the whole state, for the error.

    Raises:
        StateError: `state` is not the state of a PCG64 generator.
    """
    if state is None:
        return None
    bits = np.random.PCG64()
    try:
        bits.state = state  # type: ignore[assignment]
    # Before 2.0 NumPy only warned of numbers out of bounds, and warnings may be errors.
    except (TypeError, ValueError, KeyError, OverflowError, DeprecationWarning) as cause:
        raise StateError(f"{path} must be the state of a PCG64 stream: {cause}") from cause
    # NumPy ignores unknown keys and rounds floats.
    if bits.state != state:
        raise StateError(f"{path} must be the state of a PCG64 stream, got {state!r}")
    return np.random.Generator(bits)


def fresh_seed() -> int:
    """Draw a seed from the operating system."""
    entropy = np.random.SeedSequence().entropy
    assert isinstance(entropy, int), "an unseeded SeedSequence draws one integer"
    return entropy


def child_seed(seed: int, key: str | int) -> int:
    """Derive the seed of the space nested under `key`.

    It depends on the parent's seed and the key only: equal spaces under two keys draw different
    numbers, and a new sibling changes nothing.
    """
    # The first number distinguishes names from indices.
    spawn_key = (0, *key.encode()) if isinstance(key, str) else (1, key)
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    return int(sequence.generate_state(1, np.uint64)[0])


def value_key(value: Any) -> Any:
    """Convert arrays, dicts and lists to hashable tuples; the order of a dict counts."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((key, value_key(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(value_key, value))
    return value
