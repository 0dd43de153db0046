"""Several agents behind the same `fit`: who shares what, who is refused, what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.compat import to_pettingzoo
from sekai.error import SpaceError
from sekai.training import A2C, DDPG, MADDPG, PPO, QMIX, Agent
from sekai.training.multi_agent.groups import groups_of
from sekai.training.multi_agent.joint_env import JointTrainingEnv
from sekai.vector.multi_agent import MultiAgentVecEnv
from tests.training.games import Chain, Climbing, Spread, TwoStep, played
from tests.training.multi.worlds import AGENTS, Coming

SMALL = {"net_arch": (8,)}
REMEMBERING: dict[str, Any] = {
    "learning_starts": 16,
    "batch_size": 8,
    "steps_per_iteration": 8,
    "policy": SMALL,
}

WAYS: dict[str, tuple[type[Agent], dict[str, Any]]] = {
    "share_features_extractor": (PPO, {"n_steps": 8, "policy": SMALL}),
    "alone": (PPO, {"n_steps": 8, "policy": SMALL, "share": "none"}),
    "central": (A2C, {"n_steps": 8, "policy": SMALL, "critic": "central"}),
    "maddpg": (MADDPG, REMEMBERING),
    "qmix": (QMIX, REMEMBERING),
}


def weights(agent: Agent) -> dict[str, Any]:
    return {name: value.clone() for name, value in agent.network.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("way", WAYS)
def test_training_that_goes_on_is_training_that_never_stopped(way: str, tmp_path: Path) -> None:
    kind, settings = WAYS[way]
    once = kind(Spread(4), seed=1, **settings).fit(128)
    half = kind(Spread(4), seed=1, **settings).fit(64)
    before = weights(half)
    half.save(tmp_path)

    whole = kind.resume(tmp_path, 64, env=Spread(4))

    assert same(weights(once), weights(whole))
    assert not same(before, weights(whole))


@pytest.mark.parametrize("way", WAYS)
def test_agents_that_come_and_go_can_be_learnt_for(way: str, tmp_path: Path) -> None:
    kind, settings = WAYS[way]
    agent = kind(Coming, seed=1, n_envs=3, **settings).fit(96)
    agent.save(tmp_path, training=False)
    loaded = kind.load(tmp_path, env=Coming)
    first = Coming().reset(seed=0).observations

    assert all(bool(value.isfinite().all()) for value in weights(agent).values())
    assert loaded.predict(first) == agent.predict(first)
    assert loaded.predict({"b": first["b"]}) == {"b": agent.predict(first)["b"]}


@pytest.mark.parametrize("kind", [PPO, MADDPG])
def test_agents_may_act_by_numbers(kind: type[Agent]) -> None:
    settings: dict[str, Any] = REMEMBERING if kind is MADDPG else {"n_steps": 8, "policy": SMALL}
    agent = kind(lambda: Coming(numbers=True), seed=1, n_envs=3, **settings).fit(96)

    actions = agent.predict(Coming(numbers=True).reset(seed=0).observations)

    assert sorted(actions) == AGENTS
    assert all(action in agent.vec.action_space["a"] for action in actions.values())  # type: ignore[index]


@pytest.mark.parametrize("kind", [PPO, MADDPG, QMIX])
def test_agents_may_differ(kind: type[Agent]) -> None:
    settings: dict[str, Any] = {"n_steps": 8, "policy": SMALL} if kind is PPO else REMEMBERING
    agent = kind(lambda: Coming(mixed=True), seed=1, n_envs=3, **settings).fit(96)

    actions = agent.predict(Coming(mixed=True).reset(seed=0).observations)

    assert {int(actions[name]) for name in "ab"} <= {0, 1}
    assert int(actions["c"]) in (0, 1, 2)


def test_chance_is_the_agents_own_and_differs_from_draw_to_draw() -> None:
    agent = PPO(TwoStep(2), seed=0, n_steps=4, policy=SMALL)
    seen = TwoStep(64).reset(seed=0).observations

    one, other = (agent.predict_batch(seen, deterministic=False) for _ in range(2))

    assert not np.array_equal(one["agent_0"], other["agent_0"])
    assert not np.array_equal(one["agent_0"], one["agent_1"])


def test_groups_follow_spaces_names_or_nothing() -> None:
    spaces = JointTrainingEnv(MultiAgentVecEnv([lambda: Coming(mixed=True)])).spaces

    shared = {group.name: group.agents for group in groups_of(spaces, "all")}
    alone = {group.name: group.agents for group in groups_of(spaces, "none")}
    named = {group.name: group.agents for group in groups_of(spaces, {"x": ["c"], "y": ["b", "a"]})}

    assert shared == {"a": ("a", "b"), "c": ("c",)}
    assert alone == {name: (name,) for name in AGENTS}
    assert named == {"x": ("c",), "y": ("b", "a")}


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ({"x": ["a", "b"]}, "name each of the agents"),
        ({"x": ["a", "b", "c", "a"]}, "name each of the agents"),
        ({"x": ["a", "c"], "y": ["b"]}, "must have equal spaces"),
        ("some", "'all', 'none' or groups"),
    ],
)
def test_groups_that_cannot_be_are_refused(share: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PPO(lambda: Coming(mixed=True), n_envs=1, share=share)


def test_a_policy_that_is_told_nothing_apart_does_the_same_for_all() -> None:
    agent: Any = PPO(TwoStep(2), seed=0, agent_indicator=False, policy=SMALL)
    apart: Any = PPO(TwoStep(2), seed=0, policy=SMALL)

    assert "which_agent" not in agent.network.groups[0].leaves
    assert "which_agent" in apart.network.groups[0].leaves
    actions = agent.predict_batch(TwoStep(1).reset(seed=0).observations)
    assert actions["agent_0"] == actions["agent_1"]


@pytest.mark.parametrize(
    ("settings", "words"), [({"share": "none"}, "share"), ({"critic": "central"}, "critic")]
)
def test_what_needs_several_agents_is_refused_for_one(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"{words} must be .* for an env with one agent"):
        PPO("Portfolio-v0", n_envs=1, **settings)


@pytest.mark.parametrize("kind", [MADDPG, QMIX])
def test_algorithms_for_several_agents_refuse_one(kind: type[Agent]) -> None:
    with pytest.raises(TypeError, match="needs a multi-agent env"):
        kind("Portfolio-v0", n_envs=1)


def test_algorithms_for_one_agent_refuse_several() -> None:
    with pytest.raises(TypeError, match="use PPO, A2C, MADDPG or QMIX"):
        DDPG(Chain(1, True, discrete=False))


def test_qmix_refuses_numbers() -> None:
    with pytest.raises(SpaceError, match="needs Discrete or MultiDiscrete actions"):
        QMIX(Chain(1, True, discrete=False))


def test_observations_of_strangers_are_refused() -> None:
    agent = PPO(Climbing(1), policy=SMALL)

    with pytest.raises(SpaceError, match=r"unknown agents \['stranger'\]"):
        agent.predict({"stranger": np.ones(1, np.float32)})
    with pytest.raises(SpaceError, match="observation of 'agent_0' does not match"):
        agent.predict({"agent_0": np.ones(2, np.float32)})


def test_a_pettingzoo_env_can_be_passed_as_it_is() -> None:
    env = to_pettingzoo(Coming())

    agent = PPO(env, seed=0, n_steps=32, policy=SMALL).fit(64)

    assert agent.steps == 64
    assert agent.episodes.count > 0


@pytest.mark.parametrize("share", ["all", "none"])
def test_portfolios_next_to_each_other_are_learnt(share: str, tmp_path: Path) -> None:
    options = {"agents": 2, "lookback": 4, "episode_rows": 16}
    agent = PPO(
        "MultiPortfolio-v0",
        seed=0,
        n_envs=4,
        n_steps=20,
        share=share,
        env_options=options,
        policy=SMALL,
    ).fit(160)
    agent.save(tmp_path)
    again = PPO.resume(tmp_path, 80)

    assert len(agent.learners) == (1 if share == "all" else 2)
    assert same(weights(again), weights(agent.fit(80)))
    assert agent.episodes.count > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("critic", ["own", "central"])
def test_both_dare_in_the_game_of_two_steps(critic: str) -> None:
    agent = PPO(
        TwoStep(16),
        seed=0,
        critic=critic,
        n_steps=16,
        n_epochs=4,
        batch_size=None,
        learning_rate=5e-3,
        norm_reward=False,
        ent_coef=0.05,
        policy={"net_arch": (32,)},
    )
    agent.fit(6_000)

    assert played(agent, TwoStep(1)) == TwoStep.optimum
