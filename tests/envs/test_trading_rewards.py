"""Each term of the reward against a plain reference, and their weighed sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs import Trading
from sekai.market import AccountConfig
from tests.envs.reference_rewards import MEMORY, TERMS
from tests.envs.trading_paths import Path, choices, follow

ALL = [*TERMS, "transaction_cost"]
STEPS = 120
seeds = st.integers(0, 2**32)


def played(seed: int, reward: Any, **options: Any) -> Path:
    """An episode that lasts to its end; what is rewarded does not change it."""
    options = {"max_ticks": STEPS, "agent": True, **options}
    return follow(choices(seed, STEPS), seed=seed, reward=reward, **options)


@pytest.mark.parametrize("term", sorted(TERMS))
@settings(max_examples=8, deadline=None)
@given(seed=seeds, memory=st.sampled_from([MEMORY, 0.2, 1.0]))
def test_a_term_is_what_its_definition_says(term: str, seed: int, memory: float) -> None:
    path = played(seed, term, reward_memory=memory)
    expected = TERMS[term](path.infos["equity"].tolist(), memory)

    assert path.truncated
    # Changes are differences of large amounts: as many digits as those have are left.
    assert path.rewards == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("term", sorted(TERMS))
def test_a_term_knows_the_end_of_a_ruined_episode(term: str) -> None:
    account = AccountConfig(cash=20_000.0, ruin=0.97)
    options = {"account": account, "regime": "crisis", "order_size": 300, "max_ticks": 10_000}
    path = follow(choices(3, 400), seed=3, reward=term, agent=True, **options)
    expected = TERMS[term](path.infos["equity"].tolist(), MEMORY)

    assert path.terminated
    assert path.rewards == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, rate=st.sampled_from([0.0, 0.5, 20.0]))
def test_transactions_cost_fees_and_what_is_worse_than_the_mid(seed: int, rate: float) -> None:
    path = played(seed, "transaction_cost", account=AccountConfig(taker_fee=rate))
    paid = np.diff(path.infos["cash"])
    received = np.diff(path.lots[:, 0]) * path.mids[:-1, 0]

    assert path.rewards == pytest.approx(paid + received, rel=1e-9, abs=1e-8)
    assert (path.rewards <= 0).all()
    assert ((path.rewards < 0) == (path.infos["traded"][1:] > 0)).all()


@settings(max_examples=15, deadline=None)
@given(
    seed=seeds,
    weights=st.dictionaries(st.sampled_from(ALL), st.floats(-5.0, 5.0), min_size=1),
)
def test_terms_are_added_with_their_weights(seed: int, weights: dict[str, float]) -> None:
    total = played(seed, weights).rewards
    parts = [weight * played(seed, term).rewards for term, weight in weights.items()]

    assert total == pytest.approx(np.sum(parts, axis=0), rel=1e-9, abs=1e-9)


def test_what_is_rewarded_changes_nothing_else() -> None:
    plain = played(7, "equity_change")

    for term in ALL:
        other = played(7, term)
        assert np.array_equal(other.observations, plain.observations)
        assert np.array_equal(other.infos["equity"], plain.infos["equity"])


def test_an_episode_begins_without_memory_of_the_one_before() -> None:
    rewards = []
    env = Trading(max_ticks=STEPS, reward={"differential_sharpe": 1.0, "drawdown_penalty": 1e-3})
    for _ in range(2):
        env.reset(seed=4)
        rewards.append([env.step(action).reward for action in choices(4, STEPS)])

    assert rewards[0] == rewards[1]


def test_one_term_by_name_is_that_term_with_a_weight_of_one() -> None:
    assert np.array_equal(
        played(1, "log_growth").rewards, played(1, (("log_growth", 1.0),)).rewards
    )


def test_nobody_who_only_holds_is_rewarded_or_punished() -> None:
    for term in ALL:
        path = follow([1] * 40, max_ticks=40, reward=term)
        assert not path.rewards.any(), term
