"""Composed envs through the loop of all agents, with seeds of three kinds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import ActionInterpreter, Reward, Simulator, StateInterpreter
from sekai.error import StateError
from sekai.spaces import Box, Discrete
from sekai.training import A2C, PPO, Callback, Checkpoint, SeedSetError, TrainingVessel
from sekai.training.vessel import EndlessSeeds, some_of

SMALL: dict[str, Any] = {"n_steps": 8, "policy": {"net_arch": (8,)}}


class Guess(Simulator[int, tuple[int, int, bool], int]):
    """Say which of two the seed is: even or odd. It lasts as many steps as the seed, at most 3."""

    begun: ClassVar[Counter[int]] = Counter()

    def __init__(self, initial: int) -> None:
        super().__init__(initial)
        self.seed, self.left, self.is_right = initial, min(initial, 3), False
        self.begun[initial] += 1

    def step(self, action: int) -> None:
        self.is_right = action == self.seed % 2
        self.left -= 1

    def get_state(self) -> tuple[int, int, bool]:
        return self.seed, self.left, self.is_right

    def done(self) -> bool:
        return self.left <= 0


class Parity(StateInterpreter[tuple[int, int, bool], Any]):
    """The parity, and how many steps are left."""

    @property
    def observation_space(self) -> Box:
        return Box(-5.0, 5.0, (2,), np.float32)

    def interpret(self, simulator_state: tuple[int, int, bool]) -> Any:
        seed, left, _ = simulator_state
        return np.array([seed % 2, left], np.float32)


class Said(ActionInterpreter[tuple[int, int, bool], Any, int]):
    """Even or odd."""

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def interpret(self, simulator_state: tuple[int, int, bool], action: Any) -> int:
        return int(action)


class Right(Reward[tuple[int, int, bool]]):
    """One for being right."""

    def reward(self, simulator_state: tuple[int, int, bool]) -> float:
        self.log("right", float(simulator_state[2]))
        return float(simulator_state[2])


class Odd:
    """Always says odd."""

    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        return np.ones(len(observations), np.int64)


def vessel(**given: Any) -> TrainingVessel:
    Guess.begun.clear()
    return TrainingVessel(Guess, Parity(), Said(), Right(), **given)


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_every_validation_seed_is_played_exactly_once(concurrency: int) -> None:
    judged = vessel(validation=range(1, 8), concurrency=concurrency)

    found = judged.validate(Odd())

    assert Guess.begun == Counter(range(1, 8))
    assert found["val/episodes"] == 7
    # Four odd seeds of 1, 3, 3 and 3 steps, all right; three even ones, all wrong.
    assert found["val/return"] == pytest.approx(10 / 7)
    assert found["val/length"] == pytest.approx(18 / 7)
    assert found["val/worst_return"] == 0.0
    assert found["val/right"] == pytest.approx(4 / 7)


def test_test_seeds_are_others_with_a_name_of_their_own() -> None:
    judged = vessel(validation=[2], test=[1, 3])

    assert judged.test(Odd())["test/return"] == 2.0
    assert judged.validate(Odd())["val/return"] == 0.0


def test_a_set_that_was_not_given_is_missed_by_name() -> None:
    empty = vessel(training=[], validation=[1])

    with pytest.raises(SeedSetError, match="no test seeds"):
        empty.test(Odd())
    with pytest.raises(SeedSetError, match="no training seeds"):
        empty.fit(PPO, 100)
    with pytest.raises(SeedSetError, match="no validation seeds"):
        vessel(training=[1]).fit(PPO, 100, validate_every=1)


class Heard(Callback):
    """Remembers metrics."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, float]] = []

    def on_iteration(self, agent: Any, metrics: dict[str, float]) -> bool:
        self.metrics.append(dict(metrics))
        return False


def test_an_agent_learns_what_the_seeds_show_and_callbacks_hear_how_well() -> None:
    heard = Heard()
    school = vessel(training=range(1, 20), validation=range(20, 30), test=range(30, 40))

    agent = school.fit(
        PPO,
        3_000,
        callbacks=[heard],
        n_envs=8,
        validate_every=4,
        learning_rate=0.02,
        batch_size=64,
        **SMALL,
    )

    assert school.test(agent)["test/return"] == 3.0
    known = [told["val/return"] for told in heard.metrics if not np.isnan(told["val/return"])]
    assert len(known) == len(heard.metrics) // 4
    assert known[-1] == 3.0


def test_iterations_can_be_counted_instead_of_steps() -> None:
    agent = vessel(training=[1, 2]).fit(A2C, iterations=3, n_envs=4, **SMALL)

    assert agent.steps == 3 * 4 * 8
    with pytest.raises(ValueError, match="steps must be given, or iterations"):
        vessel(training=[1]).fit(A2C, 5, iterations=3)


def test_the_same_seed_gives_the_same_weights_and_another_shuffle_others() -> None:
    vessels = [vessel(training=range(1, 9), seed=seed) for seed in (0, 0, 1)]
    agents = [one.fit(A2C, iterations=3, n_envs=4, **SMALL) for one in vessels]

    weights = [torch.cat([part.flatten() for part in one.network.parameters()]) for one in agents]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_fast_run_takes_some_seeds_of_each_set() -> None:
    fast = vessel(training=range(1, 50), validation=range(50, 90), fast_dev_run=3, seed=4)

    fast.validate(Odd())
    assert len(Guess.begun) == 3
    fast.fit(A2C, iterations=5, n_envs=4, **SMALL)
    assert len([seed for seed in Guess.begun if seed < 50]) == 3


def test_a_composed_simulator_is_kept_without_its_episode(tmp_path: Path) -> None:
    school = vessel(training=range(1, 9))
    agent = school.fit(A2C, iterations=2, n_envs=4, **SMALL)

    with pytest.raises(StateError, match="envs=False"):
        agent.save(tmp_path, envs=True)
    school.fit(A2C, iterations=2, n_envs=4, callbacks=[Checkpoint(tmp_path, envs=False)], **SMALL)
    again = A2C.resume(tmp_path / "00000002.safetensors", env=school.training_envs(4))
    assert again.iterations == 2


@given(
    count=st.integers(1, 12),
    envs=st.integers(1, 5),
    seed=st.integers(0, 9),
    rounds=st.integers(1, 4),
)
def test_all_envs_together_take_each_seed_equally_often(
    count: int, envs: int, seed: int, rounds: int
) -> None:
    shares = [EndlessSeeds(range(count), first, envs, seed) for first in range(envs)]
    total = count * rounds * envs

    taken = [next(shares[place % envs]) for place in range(total)]

    assert set(Counter(taken).values()) == {rounds * envs}
    for begin in range(0, total, count):
        assert sorted(taken[begin : begin + count]) == list(range(count))


def test_every_round_has_an_order_of_its_own() -> None:
    seeds = EndlessSeeds(range(20), 0, 1, seed=3)
    rounds = [[next(seeds) for _ in range(20)] for _ in range(3)]
    assert len({tuple(order) for order in [*rounds, range(20)]}) == 4


@given(taken=st.integers(0, 30), seed=st.integers(0, 5))
def test_seeds_go_on_from_their_place(taken: int, seed: int) -> None:
    one, other = (EndlessSeeds(range(7), 1, 3, seed) for _ in range(2))
    for _ in range(taken):
        next(one)

    other.load_state_dict(one.state_dict())

    assert [next(one) for _ in range(9)] == [next(other) for _ in range(9)]
    with pytest.raises(StateError):
        EndlessSeeds(range(8), 1, 3, seed).load_state_dict(one.state_dict())


@given(size=st.integers(0, 20), count=st.integers(1, 25), seed=st.integers(0, 5))
def test_some_seeds_are_different_ones(size: int, count: int, seed: int) -> None:
    found = some_of(range(size), count, seed)

    assert len(found) == min(size, count) == len(set(found))
    assert list(found) == list(some_of(range(size), count, seed))
