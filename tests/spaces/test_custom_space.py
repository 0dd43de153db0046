"""A space of one's own: what it gets for nothing, and which hooks it registers."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import pytest

from sekai.spaces import (
    Box,
    Dict,
    Space,
    Tuple,
    batch_space,
    copy_sample,
    empty_batch,
    flatdim,
    flatten,
    flatten_space,
    stack_samples,
    unflatten,
    unstack,
)


class Word(Space[str]):
    """Words from a list; it flattens to the word's position."""

    json_fields: ClassVar[tuple[str, ...] | None] = ("words",)

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words

    def sample(self, mask: Any = None) -> str:
        return str(self.rng.choice(self.words))

    def mismatch(self, value: object) -> str | None:
        return None if value in self.words else f"expected one of {self.words}, got {value!r}"


class Even(Space[int]):
    """Even numbers, written as the contract says: `sample` and `contains`, nothing else."""

    def sample(self, mask: Any = None) -> int:
        return 2 * int(self.rng.integers(10))

    def contains(self, x: object) -> bool:
        return isinstance(x, int) and x % 2 == 0


class Multiple(Space[int]):
    """Multiples of a number, with a constructor that does not call `super().__init__`."""

    def __init__(self, of: int) -> None:
        self.of = of

    def sample(self, mask: Any = None) -> int:
        return self.of * int(self.rng.integers(10))

    def contains(self, x: object) -> bool:
        return isinstance(x, int) and x % self.of == 0


class Rising(Box):
    """Rows that rise: a narrower box that asks the wider one first."""

    def contains(self, x: object) -> bool:
        return super().contains(x) and bool((np.diff(np.asarray(x)) >= 0).all())


class Steep(Rising):
    """Narrower again."""

    def contains(self, x: object) -> bool:
        return super().contains(x) and bool((np.diff(np.asarray(x)) >= 1).all())


class Bare(Word):
    """A space that says nothing about JSON."""

    json_fields = None


class Wide(Box):
    """A box of one's own."""


@flatdim.register(Word)
def _dim(space: Word) -> int:
    return 1


@flatten.register(Word)
def _flatten(space: Word, x: str) -> np.ndarray[Any, Any]:
    return np.array([space.words.index(x)], np.float32)


@unflatten.register(Word)
def _unflatten(space: Word, flat: Any) -> str:
    return space.words[int(flat[0])]


@flatten_space.register(Word)
def _flatten_space(space: Word) -> Box:
    return Box(0, len(space.words) - 1, (1,))


class Unknown(Space[int]):
    """A space without rules."""

    def sample(self, mask: Any = None) -> int:
        return 7

    def mismatch(self, value: object) -> str | None:
        return None if value == 7 else f"expected 7, got {value!r}"


def test_seeding_comparing_and_copying_come_for_nothing() -> None:
    space = Word(["buy", "hold", "sell"])
    space.seed(4)
    space.sample()

    assert space == Word(["buy", "hold", "sell"])
    assert space != Word(["buy", "sell"])
    assert hash(space) == hash(Word(["buy", "hold", "sell"]))
    assert copy.deepcopy(space).sample() == space.sample()
    assert "buy" in space
    assert "short" not in space


def test_registered_hooks_work_inside_nested_spaces() -> None:
    space = Dict(word=Word(["buy", "hold", "sell"]), box=Box(0, 1, (2,)))
    value = {"word": "sell", "box": np.array([0.5, 1], np.float32)}

    flat = flatten(space, value)

    assert space.is_flattenable
    assert flat.tolist() == [2, 0.5, 1]
    assert flat in flatten_space(space)
    assert unflatten(space, flat)["word"] == "sell"


def test_sample_and_contains_make_a_space() -> None:
    space = Even()
    space.seed(1)

    assert space.sample() in space
    assert space.contains(4)
    assert 3 not in space
    assert space.mismatch(4) is None
    assert space.mismatch(3) == "expected a value of Even, got 3"
    assert Dict(n=space).mismatch({"n": 3}) == "at ['n']: expected a value of Even, got 3"


def test_a_space_may_leave_the_base_constructor_alone() -> None:
    space = Tuple([Multiple(3), Multiple(3)])
    space.seed(1)

    assert copy.deepcopy(space).sample() == space.sample()
    assert Multiple(3) == Multiple(3) != Multiple(4)
    assert (Multiple(3).shape, Multiple(3).dtype) == (None, None)
    assert space.with_backend("numpy").sample() in space


def test_a_narrower_space_says_what_the_wider_one_would() -> None:
    space = Steep(0, 9, (3,), np.int64)

    assert np.array([1, 3, 5]) in space
    assert np.array([1, 1, 5]) not in space
    assert space.mismatch(np.array([1, 3, 5])) is None
    assert space.mismatch(np.array([1, 3])) == "expected shape (3,), got (2,)"
    assert space.mismatch(np.array([1, 1, 5])) == "expected a value of Steep, got array([1, 1, 5])"
    assert np.array([1, 1, 5]) in Rising(0, 9, (3,), np.int64)
    assert np.array([5, 1, 1]) in Box(0, 9, (3,), np.int64)


def test_a_space_of_one_s_own_serves_an_env_and_its_checks() -> None:
    import sekai

    class Counter(sekai.Env[int, int]):
        def __init__(self) -> None:
            self.observation_space = Even()
            self.action_space = Even()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._set_rng(seed)
            return sekai.ResetResult(0, {})

        def step(self, action: int) -> Any:
            return sekai.StepResult(2, 0.0, False, False, {})

    assert sekai.check_env(Counter(), n_steps=20) == []
    with sekai.SyncVecEnv([Counter] * 2) as vec:
        assert vec.reset(seed=0).observations == (0, 0)
        assert vec.step([2, 4]).observations == (2, 2)


def test_a_rule_s_row_takes_the_dtype_that_is_asked_for() -> None:
    space = Dict(word=Word(["buy", "hold", "sell"]), box=Box(0, 1, (1,), np.float64))
    value = {"word": "sell", "box": np.array([0.1])}

    assert flatten(Word(["buy", "sell"]), "sell", dtype=np.float64).dtype == np.float64
    assert flatten(space, value).tolist() == [2.0, float(np.float32(0.1))]
    assert flatten(space, value, dtype=np.float64).tolist() == [2.0, 0.1]
    assert flatten_space(Word(["buy", "sell"]), dtype=np.float64).dtype == np.float64


def test_rules_can_be_registered_by_their_annotation() -> None:
    class Mark(Word):
        """Another kind of word."""

    @flatten.register
    def _(space: Word, x: str) -> np.ndarray[Any, Any]:
        return np.array([space.words.index(x)], np.float32)

    assert flatten(Mark(["a", "b"]), "b").tolist() == [1.0]


def test_json_carries_the_module_and_is_read_once_it_is_imported() -> None:
    space = Tuple([Word(["buy"]), Wide(0, 1)])
    description = space.to_jsonable()

    assert description["spaces"][0] == {"type": f"{__name__}:Word", "words": ["buy"]}
    assert description["spaces"][1]["type"] == f"{__name__}:Wide"
    assert Space.from_jsonable(description) == space
    assert Box.from_jsonable(description["spaces"][1]) == Wide(0, 1)
    assert Wide(0, 1) != Box(0, 1)


def test_a_space_without_json_says_what_it_lacks() -> None:
    with pytest.raises(NotImplementedError, match="list its constructor arguments in json_fields"):
        Bare(["buy"]).to_jsonable()


@pytest.mark.parametrize(
    "hook",
    [
        lambda space: flatdim(space),
        lambda space: flatten(space, 7),
        lambda space: unflatten(space, np.zeros(1)),
        lambda space: flatten_space(space),
        lambda space: flatten(Dict(a=space), {"a": 7}),
    ],
)
def test_without_a_rule_the_error_names_the_hook(hook: Any) -> None:
    words = r"has no rule for Unknown; register one with @sekai.spaces.utils.\w+.register\(Unknown"
    with pytest.raises(TypeError, match=words):
        hook(Unknown())


def test_without_rules_a_space_is_not_flattenable_wherever_it_is_nested() -> None:
    assert not Unknown().is_flattenable
    assert not Tuple([Box(0, 1), Dict(a=Unknown())]).is_flattenable


def test_without_rules_a_batch_is_a_tuple() -> None:
    space = Dict(word=Word(["buy", "sell"]))
    samples = [{"word": "buy"}, {"word": "sell"}]

    batch = stack_samples(space, samples, out=empty_batch(space, 2))

    assert batch == {"word": ("buy", "sell")}
    assert batch in batch_space(space, 2)
    assert unstack(space, batch) == samples
    assert copy_sample(space, samples[0]) == samples[0]


def test_a_space_must_say_how_to_sample_and_what_belongs() -> None:
    class Silent(Space[int]):
        """Says how to sample, and not what belongs."""

        def sample(self, mask: Any = None) -> int:
            return 7

    with pytest.raises(TypeError, match="abstract"):
        Space()  # type: ignore[abstract]
    with pytest.raises(TypeError, match="abstract.*contains"):
        Silent()
