"""Native rollouts: the steps of the Python loop, with keyed samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sekai
from sekai.training import PPO
from sekai.training.rng import EnvSlice, env_slice_drawn
from sekai.vector import NativeVecEnv

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("MarketMaking-v0", {"max_episode_steps": 7}, {}),
    ("OptimalExecution-v0", {"max_episode_steps": 6}, {"backbone": "mlp", "activation": "relu"}),
    ("Trading-v0", {"max_episode_steps": 5}, {}),
    ("Portfolio-v0", {"max_episode_steps": 6}, {"width": 8}),
    ("Portfolio-v0", {"max_episode_steps": 6, "action": "tilts"}, {"width": 8}),
    ("Portfolio-v0", {"max_episode_steps": 6}, {"backbone": "mlp", "net_arch": (8,)}),
]


def agent_of(case: int, **settings: Any) -> PPO:
    name, options, policy = CASES[case]
    defaults = {"n_envs": 20, "n_steps": 9, "seed": 5, "rollout": "native"}
    return PPO(name, policy=policy, env_options=options, **{**defaults, **settings})


def collected(agent: PPO, seed: int = 3) -> dict[str, Any]:
    with agent.randomness:
        agent._start(seed)
        agent._collect()
    return agent.rollout.collected()


def flat(tree: Any) -> list[bytes]:
    if isinstance(tree, dict):
        return [part for value in tree.values() for part in flat(value)]
    if isinstance(tree, (list, tuple)):
        return [part for value in tree for part in flat(value)]
    return [np.asarray(tree).tobytes()]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_threads_do_not_change_a_rollout(case: int) -> None:
    name, options, _ = CASES[case]
    results = []
    for threads in (1, 2):
        vec = sekai.make_vec(name, 70, copy=False, num_threads=threads, **options)
        agent = PPO(vec, policy=CASES[case][2], n_steps=9, seed=5, rollout="native")
        results.append(flat(collected(agent)))

    assert results[0] == results[1]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_rollout_has_the_steps_of_the_python_loop(case: int) -> None:
    native, stepped = agent_of(case), agent_of(case, rollout="torch")
    stored = collected(native)
    chosen = iter(torch.from_numpy(stored["chosen"]))
    with stepped.randomness:
        stepped._start(3)
        stepped.rollout.fill(lambda observations: next(chosen), used=native.network.used)
    expected = stepped.rollout.collected()

    assert len(stored["cuts"]) == len(expected["cuts"]) > 0
    for name in ("terminated", "truncated"):
        assert np.array_equal(stored[name], expected[name])
    assert np.allclose(stored["rewards"], expected["rewards"], rtol=1e-9, atol=1e-12)
    same(stored["observations"], expected["observations"])
    for (step, envs, finals), (other, others, their_finals) in zip(
        stored["cuts"], expected["cuts"], strict=True
    ):
        assert step == other
        assert envs.tolist() == others.tolist()
        same(finals, their_finals)


def same(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        for name in left:
            same(left[name], right[name])
    else:
        assert np.allclose(left, right, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", [0, 1, 3, 5])
def test_means_are_those_of_torch(case: int) -> None:
    agent = agent_of(case)
    with torch.no_grad():
        agent.network.actor.head.log_std.fill_(-30.0)
    collected(agent)

    rows = {name: table[:-1].flatten(0, 1) for name, table in agent.rollout.observed.items()}
    means = agent.network.actor.distribution(rows).mode.detach()

    assert float((agent.rollout.chosen.flatten(0, 1) - means).abs().max()) < 1e-5


@pytest.mark.parametrize("case", [2, 4])
def test_choices_are_those_of_torch_where_one_is_certain(case: int) -> None:
    agent = agent_of(case)
    with torch.no_grad():
        agent.network.actor.head.logits.weight.mul_(1e6)
    collected(agent)

    rows = {name: table[:-1].flatten(0, 1) for name, table in agent.rollout.observed.items()}
    distribution: Any = agent.network.actor.distribution(rows)
    certain = torch.stack([logs.exp().amax(-1) > 0.9999 for logs in distribution.logs], -1)
    equal = agent.rollout.chosen.flatten(0, 1) == distribution.mode

    assert certain.float().mean() > 0.9
    assert bool(equal[certain].all())


def test_noise_is_standard_normal_and_of_each_env_its_own() -> None:
    agent = agent_of(0, n_steps=200, n_envs=30)
    collected(agent)
    rows = {name: table[:-1].flatten(0, 1) for name, table in agent.rollout.observed.items()}
    distribution: Any = agent.network.actor.distribution(rows)

    noise = (agent.rollout.chosen.flatten(0, 1) - distribution.loc) / distribution.scale

    assert abs(float(noise.detach().mean())) < 0.04
    assert abs(float(noise.detach().std()) - 1.0) < 0.03
    assert len(noise.detach().round(decimals=3).unique()) > 2_000


def test_rollouts_after_each_other_have_other_noise() -> None:
    agent = agent_of(0)
    first = collected(agent)["chosen"].copy()
    with agent.randomness:
        agent._collect()

    assert not np.array_equal(first, agent.rollout.chosen.numpy())


def test_a_slice_of_the_envs_acts_as_among_all() -> None:
    whole, part = agent_of(0), agent_of(0, n_envs=5)
    with whole.randomness:
        whole.rollout.begin(list(range(3, 23)))
        whole._act_steps([0])
    with part.randomness, env_slice_drawn(EnvSlice(10, 15, 20)):
        part.rollout.begin(list(range(13, 18)))
        part._act_steps([0])

    assert np.array_equal(part.rollout.chosen, whole.rollout.chosen[:, 10:15])


@pytest.mark.parametrize("case", [0, 3])
def test_resumed_training_is_the_same_bit_for_bit(case: int, tmp_path: Path) -> None:
    once = agent_of(case).fit(720, total=720)
    path = agent_of(case).fit(360, total=720).save(tmp_path / "agent")

    resumed = PPO.resume(path, 360)

    pairs = zip(once.network.parameters(), resumed.network.parameters(), strict=True)
    assert resumed.native_rollout is not None
    assert all(torch.equal(*pair) for pair in pairs)


def test_an_interrupt_ends_a_rollout_and_requires_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = agent_of(0)
    assert isinstance(agent.vec, NativeVecEnv)
    collected(agent)

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(batch, name)

        def rollout(self, *args: Any) -> None:
            raise KeyboardInterrupt

    batch = agent.vec.batch
    monkeypatch.setattr(agent.vec, "batch", Interrupted())

    with pytest.raises(KeyboardInterrupt):
        agent._act_steps([0])
    with pytest.raises(sekai.ResetRequired):
        agent._act_steps([0])


@pytest.mark.parametrize(
    ("env", "settings", "reason"),
    [
        (lambda: sekai.make("MarketMaking-v0"), {}, "SyncVecEnv is not a native vector env"),
        ("MarketMaking-v0", {"learn_where": "ruined"}, "reads infos"),
        ("Portfolio-v0", {"env_options": {"observation": "index"}}, "window indices"),
    ],
)
def test_a_native_rollout_that_is_impossible_names_the_reason(
    env: Any, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=f"rollout cannot be 'native': .*{reason}"):
        PPO(env, n_envs=2, n_steps=4, rollout="native", **settings)
    agent = PPO(env, n_envs=2, n_steps=4, **settings)

    assert agent.native_rollout is None
