"""Several agents, and agents held to masks, are judged while they learn."""

from __future__ import annotations

from typing import Any

from sekai.spaces import Discrete
from sekai.training import PPO, Evaluate, Track
from sekai.training.multi_agent.joint_env import JointTrainingEnv
from sekai.training.training_envs import play
from sekai.wrappers import ActionMask
from tests.training.games import TwoStep
from tests.training.policies.test_masks import Picky


def test_several_agents_are_judged_together() -> None:
    told: list[dict[str, float]] = []
    judge = Evaluate(TwoStep(4), every=1, episodes=4)
    agent = PPO(TwoStep(4), seed=1, n_steps=4)

    agent.fit(16, [judge, Track(lambda steps, metrics: told.append(dict(metrics)))])

    played = play(agent, JointTrainingEnv(TwoStep(4)), 4, judge.seed)
    assert told[-1]["eval/return"] == played.returns.mean()
    assert told[-1]["eval/length"] == 2.0


def picky() -> Any:
    return ActionMask(Picky(Discrete(3)))


def test_masks_that_infos_tell_are_kept_to_while_an_agent_is_judged() -> None:
    told: list[dict[str, float]] = []
    agent = PPO(picky, n_envs=2, seed=1, n_steps=4)

    # A pick that is not allowed would raise.
    judge = Evaluate(picky, every=1, episodes=2)
    agent.fit(8, [judge, Track(lambda steps, metrics: told.append(dict(metrics)))])

    assert told[-1]["eval/episodes"] == 2.0
