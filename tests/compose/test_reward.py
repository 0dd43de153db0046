"""Rewards, alone and combined: values, logs and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import Reward, RewardCombination, RewardError
from sekai.error import StateError
from tests.compose.walks import Nearness, Place, Rightness, walk_env
from tests.spaces.strategies import law


@pytest.mark.parametrize("paid", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
def test_a_reward_that_is_not_finite_is_an_error_that_names_it(paid: float) -> None:
    class Wild(Reward[Place]):
        def reward(self, simulator_state: Place) -> float:
            return paid

    with pytest.raises(RewardError, match=r"reward 'Wild' must be finite, got -?(nan|inf)"):
        Wild()(Place(0.0, 0))
    both = RewardCombination({"calm": (Nearness(), 1.0), "wild": (Wild(), 0.0)})
    with pytest.raises(RewardError, match=r"reward 'wild' \(Wild\) must be finite"):
        both(Place(0.0, 0))


def test_a_reward_that_is_no_number_is_an_error() -> None:
    class Silent(Reward[Place]):
        def reward(self, simulator_state: Place) -> float:
            return None  # type: ignore[return-value]

    with pytest.raises(RewardError, match="'Silent' must be a number, got NoneType"):
        Silent()(Place(0.0, 0))


WEIGHTS = st.floats(-1e3, 1e3)


@law
@given(weights=st.lists(WEIGHTS, min_size=1, max_size=4), position=st.floats(-1e3, 1e3))
def test_a_combination_pays_the_weighted_sum_and_logs_each_term(
    weights: list[float], position: float
) -> None:
    class Plain(Reward[Place]):
        def reward(self, simulator_state: Place) -> float:
            return simulator_state.position

    terms = {f"term {number}": (Plain(), weight) for number, weight in enumerate(weights)}
    combination = RewardCombination(terms)
    env = walk_env([position], reward=combination, length=1)
    env.reset()

    result = env.step(1)

    assert result.reward == pytest.approx(sum(weight * position for weight in weights))
    for number, weight in enumerate(weights):
        assert result.info["log"][f"term {number}"] == (20, weight * position)
    assert result.reward == sum(result.info["log"][name][1] for name in terms)


def test_a_member_of_a_combination_can_log_and_see_the_env() -> None:
    member = Rightness()
    inner = RewardCombination({"inner": (member, 2.0)})
    env = walk_env(reward=RewardCombination({"outer": (inner, 10.0)}))
    env.reset()

    log = env.step(2).info["log"]

    assert {name: value for name, (_, value) in log.items()} == {
        "position": 1.0,
        "inner": 2.0,
        "outer": 20.0,
        "reward": 20.0,
    }
    assert member.env is env


def test_a_reward_can_be_asked_without_an_env() -> None:
    assert RewardCombination({"right": (Rightness(), 3.0)})(Place(2.0, 0)) == 6.0


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"a": (Nearness(), float("nan"))}, "weight of 'a' must be finite, got nan"),
        ({"a": Nearness()}, "'a' must be a pair"),
        ({"a": (Nearness, 1.0)}, "'a' must be a Reward with its weight"),
        ({"a": (Nearness(), "much")}, "'a' must be a pair"),
    ],
)
def test_a_combination_of_something_else_is_refused(terms: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        RewardCombination(terms)


class Habit(Reward[Place]):
    """Pays for the number of times it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def reward(self, simulator_state: Place) -> float:
        self.asked += 1
        return float(self.asked)


def test_the_state_of_components_is_put_back_into_the_same_objects() -> None:
    habit, other = Habit(), Habit()
    env = walk_env(None, reward=RewardCombination({"a": (habit, 1.0), "b": (other, 10.0)}))
    env.reset()
    env.step(1)
    state = env.state_dict()
    env.step(1)

    env.load_state_dict(state)

    assert (habit.asked, other.asked) == (1, 1)
    assert env.step(1).reward == 22.0
    assert habit.asked == 2


def test_a_state_of_other_rewards_is_refused_and_changes_nothing() -> None:
    one, two = Habit(), Habit()
    first = RewardCombination({"a": (one, 1.0), "b": (two, 1.0)})
    first(Place(0.0, 0))
    state = first.state_dict()
    first(Place(0.0, 0))
    with pytest.raises(StateError, match=r"state must be of the rewards \['a', 'b'\]"):
        first.load_state_dict(RewardCombination({"a": (Habit(), 1.0)}).state_dict())
    state["rewards"]["b"] = Nearness().state_dict()

    with pytest.raises(StateError, match="expected a state of Habit"):
        first.load_state_dict(state)

    assert (one.asked, two.asked) == (2, 2)
