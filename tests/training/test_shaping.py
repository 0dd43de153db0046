"""Rewards as the user wants them, and steps that are not learnt from."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import StateError
from sekai.training import A2C, PPO, Agent
from sekai.training.shaping import StepBatch
from tests.training.arms import Arms, likes_risk

LONG = partial(Arms, [(1.0, 1.0)], (0.5, 0.5))
SMALL: dict[str, Any] = {
    "n_envs": 4,
    "n_steps": 6,
    "seed": 1,
    "policy": {"net_arch": (4,), "norm_obs": False},
}


class Watched(A2C):
    """Keeps what it learns from."""

    def _update(self, learner: Any, batch: Any) -> Any:
        self.batch = batch
        return super()._update(learner, batch)


def weights(one: Agent) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in one.network.parameters()])


def only_choices(steps: StepBatch) -> Any:
    """Where the choice is still to come."""
    return steps.observations["observation"][..., 0] == 1.0


def test_steps_that_are_left_out_are_in_no_loss() -> None:
    agent = Watched(LONG, learn_where=only_choices, **SMALL).fit(24)

    rows = agent.batch.observations["observation"]
    assert len(rows) == 12
    assert (rows[:, 0] == 1.0).all()


def test_infos_tell_of_the_step_that_was_made_also_when_it_was_the_last() -> None:
    agent = Watched(LONG, learn_where="chose", **SMALL).fit(24)

    rows = agent.batch.observations["observation"]
    assert len(rows) == 12
    assert (rows[:, 0] == 1.0).all()


def test_what_a_reset_says_by_the_same_name_is_not_of_the_step_before_it() -> None:
    class Contrary(Arms):
        def reset(self, **arguments: Any) -> Any:
            first = super().reset(**arguments)
            return type(first)(first.observation, {**first.info, "chose": True})

    contrary = partial(Contrary, [(1.0, 1.0)], (0.5, 0.5))
    one, other = (Watched(env, learn_where="chose", **SMALL).fit(24) for env in (LONG, contrary))

    assert torch.equal(weights(one), weights(other))


def test_what_follows_a_step_still_counts_for_it() -> None:
    everywhere, somewhere = (
        Watched(LONG, learn_where=where, norm_reward=False, gae_lambda=1.0, **SMALL).fit(24)
        for where in (None, only_choices)
    )

    is_choice = everywhere.batch.observations["observation"][:, 0] == 1.0
    assert torch.equal(everywhere.batch.advantages[is_choice], somewhere.batch.advantages)


def test_where_nothing_is_learnt_from_nothing_changes() -> None:
    for kind in (PPO, A2C):
        agent = kind(LONG, learn_where=lambda steps: np.zeros(steps.rewards.shape, bool), **SMALL)
        before = weights(agent)
        assert torch.equal(weights(agent.fit(48)), before)


def test_few_steps_are_enough_to_learn_from() -> None:
    def three(steps: StepBatch) -> Any:
        mask = np.zeros(steps.rewards.shape, bool)
        mask.flat[:3] = True
        return mask

    agent = PPO(LONG, learn_where=three, **SMALL)
    before = weights(agent)
    after = weights(agent.fit(48))

    assert torch.isfinite(after).all()
    assert not torch.equal(after, before)


def test_a_part_of_the_observation_can_tell() -> None:
    agent = Watched("Portfolio-v0", learn_where="mask", n_envs=2, n_steps=3)
    agent.fit(6)
    assert (agent.batch.observations["mask"] != 0).all()


def test_what_tells_nothing_is_an_error() -> None:
    with pytest.raises(StateError, match="learn_where='day' is neither an observation leaf"):
        A2C(LONG, learn_where="day", **SMALL).fit(24)
    with pytest.raises(ValueError, match="truth values of shape"):
        A2C(LONG, learn_where=lambda steps: steps.rewards, **SMALL).fit(24)
    with pytest.raises(TypeError, match="a function or a name"):
        A2C(LONG, learn_where=7, **SMALL)  # type: ignore[arg-type]


def test_rewards_are_those_that_the_function_makes() -> None:
    def against_risk(steps: StepBatch) -> Any:
        return np.where(steps.rewards == 1.0, -1.0, steps.rewards)

    learns = partial(PPO, LONG, learning_rate=0.02, n_envs=8, n_steps=16, batch_size=128)
    plain, shaped = (learns(reward_transform=how).fit(4_000) for how in (None, against_risk))

    assert likes_risk(plain)
    assert not likes_risk(shaped)
    # What is told of episodes is what the env gave.
    assert shaped.episodes.summary.episode_return > 0


def test_rewards_must_be_numbers_of_the_same_shape() -> None:
    for made in (lambda steps: steps.rewards[0], lambda steps: steps.rewards * np.nan):
        with pytest.raises(ValueError, match="finite rewards of shape"):
            A2C(LONG, reward_transform=made, **SMALL).fit(24)
    with pytest.raises(TypeError, match="must be a function"):
        A2C(LONG, reward_transform="double", **SMALL)  # type: ignore[arg-type]
