"""Numbers of steps: `fit(n)` takes n steps as far as whole iterations allow, and says where not."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.training import A2C, MADDPG, PPO, SAC, Agent, ProgressBar
from tests.worlds import RandomWalk


def agent(kind: type[Agent] = PPO, **changes: Any) -> Any:
    sizes: dict[str, Any] = {"n_steps": 16} if kind in (PPO, A2C) else {"steps_per_iteration": 16}
    return kind(RandomWalk, n_envs=4, **sizes, **changes)


def test_two_thousand_steps_of_default_settings_are_two_thousand_steps() -> None:
    made = PPO(RandomWalk).fit(2_048)

    assert made.steps == 2_048


@pytest.mark.parametrize("kind", [PPO, A2C, SAC])
@settings(max_examples=8)
@given(steps=st.integers(1, 300))
def test_steps_are_rounded_up_to_iterations_or_to_envs(kind: type[Agent], steps: int) -> None:
    made = agent(kind)
    full = made.iteration_steps

    made.fit(steps)

    unit = full if steps >= full else 4
    assert made.steps == -(-steps // unit) * unit
    assert made.iteration_steps == full


def test_several_agents_train_on_short_rollouts() -> None:
    for kind in (PPO, MADDPG):
        size: dict[str, Any] = (
            {"n_steps": 8} if kind is PPO else {"learning_starts": 4, "batch_size": 4}
        )
        made: Any = kind("MultiPortfolio-v0", n_envs=2, **size)
        assert made.fit(6).steps == 6
        assert made.fit(made.iteration_steps).steps == 6 + made.iteration_steps


def test_a_shorter_rollout_equals_that_of_the_same_settings() -> None:
    short = agent().fit(32)
    same = PPO(RandomWalk, n_envs=4, n_steps=8).fit(32)

    pairs = zip(short.network.parameters(), same.network.parameters(), strict=True)
    assert all(torch.equal(own, other) for own, other in pairs)


def test_training_continues_after_a_short_rollout() -> None:
    made = agent()
    first = made.fit(8).rollout.state()["seen"].copy()

    made.fit(64)

    assert (made.rollout.observed["observation"][0].numpy() == first).all()
    assert made.steps == 72


def test_rounding_up_is_logged_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    stream = io.StringIO()

    with caplog.at_level(logging.INFO, logger="sekai.training"):
        agent().fit(100, [ProgressBar(always=True, seconds=0, stream=stream)])

    assert "100 steps were requested and 128 are taken" in caplog.text
    assert "64/128 steps (100 in iterations of 64)" in stream.getvalue()


def test_gradient_steps_are_not_lost_in_short_fits() -> None:
    made = agent(SAC, train_freq=8, learning_starts=8, batch_size=8)

    assert made.fit(4).steps == 32
