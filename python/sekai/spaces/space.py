"""What every space can do: sample, judge a value, seed, describe and copy itself."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from sekai.backend import Backend, as_numpy, get_backend
from sekai.backend.numpy_ops import NumpyOps
from sekai.error import StateError
from sekai.spaces import utils
from sekai.spaces.counts import whole_number
from sekai.spaces.jsonable import checked_fields, described_type, remember_type, type_name
from sekai.spaces.rng_state import restored_rng, rng_state
from sekai.spaces.seeding import child_seed, fresh_seed
from sekai.spaces.value_key import value_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import BackendOps

T_co = TypeVar("T_co", covariant=True)
# To type checkers a tensor passes for the NumPy array it replaces.
ArrayT = TypeVar("ArrayT", bound="NDArray[Any] | np.generic")


class Space(ABC, Generic[T_co]):
    """A set of values that can be sampled, and asked whether a value belongs.

    A space of your own implements `sample` and `contains`; or, to say what is wrong with a value,
    `mismatch` instead of `contains`. The other of the two follows. Two spaces are equal when they
    have one type and their public attributes are equal; neither the backend nor the random stream
    counts.
    """

    shape: tuple[int, ...] | None = None
    """The shape of a value; None when a value is not one array."""
    dtype: np.dtype[Any] | None = None
    """The dtype of a value; None when a value is not one array."""
    json_fields: ClassVar[tuple[str, ...] | None] = None
    """The keys of the space's JSON: its constructor's arguments, and attributes of their names."""
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
        remember_type(cls)
        _complete_membership(cls)

    @abstractmethod
    def sample(self, mask: Any = None) -> T_co:
        """A random value of the space, drawn from its own stream.

        Args:
            mask: what may be drawn; each space says in which form.
        """

    def contains(self, x: object) -> bool:
        """Whether `x` belongs to the space."""
        return self.mismatch(x) is None

    if not TYPE_CHECKING:
        # To type checkers it is not abstract: it follows from `mismatch` where that is written.
        contains = abstractmethod(contains)

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else a sentence with what was wanted and what was found."""
        return None if self.contains(value) else _refusal(self, value)

    def __contains__(self, x: object) -> bool:
        return self.contains(x)

    def children(self) -> Mapping[Any, Space[Any]]:
        """The spaces this one is made of, by key or position; override it in a nested space."""
        return {}

    @property
    def is_flattenable(self) -> bool:
        """Whether `flatten` and its kin know the space and all that is nested in it."""
        return utils.has_rules(type(self)) and all(
            child.is_flattenable for child in self.children().values()
        )

    @property
    def rng(self) -> np.random.Generator:
        """The space's own random stream; seeded by the operating system when `seed` was not."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    def seed(self, seed: int | None = None) -> int:
        """Begin the stream anew, and an independent one in each nested space.

        Args:
            seed: a whole number of at least 0; None draws one from the operating system.

        Returns:
            The seed used.
        """
        used = fresh_seed() if seed is None else whole_number(seed, "seed", 0)
        self._rng = np.random.default_rng(used)
        for key, child in self.children().items():
            child.seed(child_seed(used, key))
        return used

    def state_dict(self) -> dict[str, Any]:
        """Where the random streams of the space and its nested spaces stand, as plain types."""
        spaces = {str(key): child.state_dict() for key, child in self.children().items()}
        return {"rng": rng_state(self._rng), "spaces": spaces}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the streams from where `state_dict` found them.

        Raises:
            StateError: the state is not of a space like this one; nothing has changed.
        """
        for space, rng in list(self._streams_of(state, "state")):
            space._rng = rng

    def _streams_of(
        self, state: Any, place: str
    ) -> Iterator[tuple[Space[Any], np.random.Generator | None]]:
        children = {str(key): child for key, child in self.children().items()}
        _require_keys(state, {"rng", "spaces"}, place)
        _require_keys(state["spaces"], set(children), f"{place}['spaces']")
        yield self, restored_rng(state["rng"], f"{place}['rng']")
        for key, child in children.items():
            yield from child._streams_of(state["spaces"][key], f"{place}['spaces'][{key!r}]")

    def to_jsonable(self) -> dict[str, Any]:
        """The space itself in strict JSON, exact to the last bit; infinities are strings."""
        return {"type": type_name(type(self)), **self._to_fields()}

    @classmethod
    def from_jsonable(cls, description: Mapping[str, Any]) -> Self:
        """The space that `to_jsonable` described; `Space.from_jsonable` reads every type.

        Raises:
            ValueError: the description is of another type, or lacks or adds keys.
        """
        found = described_type(description)
        if not issubclass(found, cls):
            raise ValueError(f"wanted the JSON of a {cls.__name__}, found {found.__name__}")
        return found._from_fields(checked_fields(description, found._json_fields()))

    @classmethod
    def _json_fields(cls) -> tuple[str, ...]:
        if cls.json_fields is None:
            raise NotImplementedError(
                f"{cls.__name__} has no JSON yet: list its constructor's arguments in json_fields"
            )
        return cls.json_fields

    def _to_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._json_fields()}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**fields)

    @property
    def backend(self) -> BackendOps:
        """Who makes the arrays that `sample` returns."""
        return self._backend

    def with_backend(self, backend: Backend) -> Self:
        """A copy of the space, at the same point of its stream, that samples with `backend`."""
        copied = copy.deepcopy(self)
        copied._set_backend(get_backend(backend))
        return copied

    def to_backend(self, array: ArrayT) -> ArrayT:
        """A NumPy array or scalar as the space's backend holds it."""
        if self._is_numpy:
            return array
        made: ArrayT = self._backend.astype(array, array.dtype)
        return made

    def to_numpy(self, value: Any) -> Any:
        """An array of the space's backend as NumPy's; anything else as it is."""
        if self._is_numpy or not self._backend.is_array(value):
            return value
        return as_numpy(self._backend, value)

    def _set_backend(self, backend: BackendOps) -> None:
        self._backend = backend
        self._is_numpy = isinstance(backend, NumpyOps)
        for child in self.children().values():
            child._set_backend(backend)

    def __getstate__(self) -> dict[str, Any]:
        # Cached properties follow from the rest, so a copy works them out again.
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
    """Derive `contains` from `mismatch`, or the other way, where a class defines one of them.

    Each follows from the definition in that very class, so that `super().contains(x)` in a
    narrower space asks the wider one, and not the narrower one again.
    """
    contains, mismatch = (_definer_place(cls, name) for name in ("contains", "mismatch"))
    if mismatch < contains:
        cls.contains = _contains_by(cls.mismatch)  # type: ignore[method-assign, assignment]
    elif contains < mismatch:
        cls.mismatch = _mismatch_by(  # type: ignore[method-assign, assignment]
            cls.contains, cls.mismatch
        )


def _definer_place(cls: type, name: str) -> int:
    return next(place for place, ancestor in enumerate(cls.__mro__) if name in vars(ancestor))


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
        # The wider space may know better words; the default of `Space` would ask this one again.
        words = None if inherited is Space.mismatch else inherited(self, value)
        return words or _refusal(self, value)

    mismatch.__doc__ = Space.mismatch.__doc__
    return mismatch


def _refusal(space: Space[Any], value: object) -> str:
    return f"wanted a value of {type(space).__name__}, found {value!r}"


def read_only(numbers: Any) -> NDArray[Any]:
    """The array closed for writing; arithmetic on shape () gives numbers, made arrays again."""
    array = np.asarray(numbers)
    array.flags.writeable = False
    return array


def _require_keys(state: Any, wanted: set[str], place: str) -> None:
    if not isinstance(state, dict) or set(state) != wanted:
        found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise StateError(f"{place} must be a dict with the keys {sorted(wanted)}, found {found}")
