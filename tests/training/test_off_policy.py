"""DDPG, TD3 and SAC: the same seed, the same weights; saved and gone on with, bit for bit."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.spaces import Box, Discrete
from sekai.training import DDPG, SAC, TD3
from sekai.training.off_policy import OffPolicyAgent, Transitions
from sekai.training.policies.off_policy import lesser_values
from sekai.vector.native import NativeVecEnv
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.kelly import MOST, Kelly
from tests.training.optima.merton import Merton

BRIEF: dict[str, Any] = {
    "steps_per_iteration": 4,
    "batch_size": 16,
    "buffer_size": 60,
    "learning_starts": 16,
    "train_freq": 2,
    "policy": {"net_arch": (8,)},
}
ROUND = 16
"""Steps of single envs in an iteration of `BRIEF` with four envs."""

KINDS: list[tuple[type[OffPolicyAgent], dict[str, Any]]] = [
    (DDPG, {}),
    (DDPG, {"noise_autocorrelation": 0.8}),
    (TD3, {}),
    (TD3, {"policy_delay": 3, "gradient_steps": 2}),
    (SAC, {}),
    (SAC, {"norm_reward": False, "gradient_steps": 2}),
    (SAC, {"n_quantiles": 4}),
]


def _vec() -> NativeVecEnv:
    return vector(Kelly(4, (0.5, 0.8), episode_steps=3))


def _agent(kind: type[OffPolicyAgent], seed: int = 3, **changes: Any) -> OffPolicyAgent:
    return kind(_vec(), seed=seed, **{**BRIEF, **changes})


def _weights(agent: OffPolicyAgent) -> NDArray[np.float64]:
    targets = [target.state_dict() for target, _ in agent._target_pairs().values()]
    states = [agent.network.state_dict(), *targets]
    return np.concatenate([w.double().numpy().ravel() for state in states for w in state.values()])


@pytest.mark.parametrize(("kind", "changes"), KINDS)
def test_going_on_from_a_file_is_as_if_nothing_had_been(
    kind: type[OffPolicyAgent], changes: dict[str, Any], tmp_path: Path
) -> None:
    straight = _agent(kind, **changes).fit(8 * ROUND)
    half = _agent(kind, **changes).fit(4 * ROUND)
    half.save(tmp_path)

    resumed = kind.resume(tmp_path, 4 * ROUND, env=_vec())

    assert np.array_equal(_weights(resumed), _weights(straight))
    assert not np.array_equal(_weights(resumed), _weights(half))
    assert resumed.episodes.summary == straight.episodes.summary


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_the_seed_decides_the_weights(kind: type[OffPolicyAgent]) -> None:
    first, again, other = (_agent(kind, seed).fit(4 * ROUND) for seed in (1, 1, 2))

    assert np.array_equal(_weights(first), _weights(again))
    assert not np.array_equal(_weights(first), _weights(other))


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_a_loaded_agent_acts_as_the_saved_one_and_learns_on(
    kind: type[OffPolicyAgent], tmp_path: Path
) -> None:
    agent = _agent(kind).fit(6 * ROUND)
    agent.save(tmp_path, training=False)
    seen = np.linspace(0.5, 0.8, 7, dtype=np.float32)[:, None]

    loaded = kind.load(tmp_path, env=_vec())

    assert np.array_equal(loaded.predict_batch(seen), agent.predict_batch(seen))
    for target, source in loaded._target_pairs().values():
        for own, followed in zip(target.parameters(), source.parameters(), strict=True):
            assert torch.equal(own, followed)
    assert not np.array_equal(_weights(loaded.fit(4 * ROUND)), _weights(agent))


def test_without_memory_the_file_is_small_and_training_gathers_anew(tmp_path: Path) -> None:
    changes = {"buffer_size": 4000, "learning_starts": 2 * ROUND, "train_freq": 4}
    whole = _agent(SAC, **changes).fit(20 * ROUND).save(tmp_path / "whole")
    agent = _agent(SAC, save_replay_buffer=False, **changes).fit(20 * ROUND)
    bare = agent.save(tmp_path / "bare")

    resumed = SAC.resume(bare, env=_vec())

    assert len(resumed.replay) == 0
    assert bare.stat().st_size < whole.stat().st_size - 320 * 8
    assert _same_actor(resumed.fit(ROUND), agent)
    assert not _same_actor(resumed.fit(2 * ROUND), agent)


def _same_actor(one: OffPolicyAgent, other: OffPolicyAgent) -> bool:
    pairs = zip(one.network.actor.parameters(), other.network.actor.parameters(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_without_envs_new_episodes_begin_and_old_steps_stay_whole(tmp_path: Path) -> None:
    agent = _agent(DDPG).fit(3 * ROUND)
    agent.save(tmp_path, envs=False)

    resumed = DDPG.resume(tmp_path, env=_vec())

    assert len(resumed.replay) == len(agent.replay)
    newest = resumed.replay.latest(1)[0]
    done = resumed.replay.truncated[newest] | resumed.replay.terminated[newest]
    assert done.all()
    resumed.fit(ROUND)


def test_nothing_is_learnt_before_the_warm_up_is_over() -> None:
    agent = _agent(SAC, learning_starts=3 * ROUND)
    before = {name: one.clone() for name, one in agent.network.actor.state_dict().items()}

    agent.fit(2 * ROUND)

    after = agent.network.actor.state_dict()
    assert all(torch.equal(after[name], one) for name, one in before.items())
    chosen = agent.replay.chosen[agent.replay.latest(8)]
    assert -1.0 <= float(chosen.min()) < -0.5
    assert 0.5 < float(chosen.max()) <= 1.0


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_targets_follow_by_their_rate(kind: type[OffPolicyAgent]) -> None:
    changes = {"policy_delay": 1} if kind is TD3 else {}
    agent = _agent(kind, tau=0.25, **changes).fit(3 * ROUND)
    pairs = agent._target_pairs()
    before = {name: deepcopy(target) for name, (target, _) in pairs.items()}

    with agent.randomness:
        agent._update()

    moved = 0
    for name, (target, source) in pairs.items():
        parts = (module.parameters() for module in (target, before[name], source))
        for now, then, followed in zip(*parts, strict=True):
            if followed.requires_grad:
                assert torch.allclose(now, then.lerp(followed.detach(), 0.25)), name
                moved += int(not torch.equal(now, then))
    assert moved > 4


def _moved(agent: OffPolicyAgent, before: dict[str, torch.Tensor], prefix: str) -> bool:
    after = agent.network.state_dict()
    return any(
        not torch.equal(after[name], part)
        for name, part in before.items()
        if name.startswith(prefix)
    )


def test_td3_updates_actor_and_targets_once_in_so_many_steps() -> None:
    agent = _agent(TD3, policy_delay=3).fit(2 * ROUND)
    assert isinstance(agent, TD3)
    found = []

    for _ in range(6):
        before = {name: part.clone() for name, part in agent.network.state_dict().items()}
        target = deepcopy(agent.target_critics.state_dict())
        with agent.randomness:
            agent._update()
        is_moved = any(
            not torch.equal(part, target[name])
            for name, part in agent.target_critics.state_dict().items()
        )
        assert _moved(agent, before, "critics.")
        assert _moved(agent, before, "actor.") == is_moved
        found.append(is_moved)

    assert found == [(agent.updates - 5 + step) % 3 == 0 for step in range(6)]


def test_td3_targets_are_the_lesser_of_both_critics() -> None:
    agent = TD3(_vec(), seed=3, target_policy_noise=0.0, gamma=0.5, **BRIEF)
    seen = {"observation": torch.linspace(-5.0, 5.0, 64)[:, None]}
    rewards, ended = torch.zeros(64, 1), torch.zeros(64, 1, dtype=torch.bool)
    with torch.no_grad():
        chosen = agent.target_actor(seen)
        both = [critic(seen, chosen)[:, 0] for critic in agent.target_critics]
        critic: Any
        for critic, values in zip(agent.target_critics, both, strict=True):
            # Each is the lesser one for a part of what is seen.
            critic.value.bias -= values.mean()
        both = [critic(seen, chosen)[:, 0] for critic in agent.target_critics]

    losses = agent._loss(Transitions(seen, torch.zeros(64, 1), seen, rewards, ended))

    assert 0 < int((both[0] < both[1]).sum()) < 64
    torch.testing.assert_close(losses["target_value"], 0.5 * torch.minimum(*both))


def test_td3_noise_on_target_actions_has_its_size_and_its_bounds() -> None:
    agent = TD3(_vec(), seed=3, target_policy_noise=0.2, target_noise_clip=0.3, **BRIEF)

    with agent.randomness:
        noise = agent._smoothed(torch.zeros(20_000, 1))
        edge = agent._smoothed(torch.ones(20_000, 1))

    assert float(noise.abs().max()) == pytest.approx(0.3)
    # A normal number cut at one and a half standard deviations.
    assert float(noise.std()) == pytest.approx(0.2 * 0.882, rel=0.03)
    assert float(edge.max()) == 1.0
    assert float(edge.min()) == pytest.approx(0.7)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_td3_targets_are_of_noisy_actions(noise: float) -> None:
    agent = TD3(_vec(), seed=3, target_policy_noise=noise, **BRIEF)
    seen = {"observation": torch.linspace(-5.0, 5.0, 64)[:, None]}
    rewards, ended = torch.zeros(64, 1), torch.zeros(64, 1, dtype=torch.bool)
    batch = Transitions(seen, torch.zeros(64, 1), seen, rewards, ended)

    with agent.randomness:
        first, again = (agent._loss(batch)["target_value"] for _ in range(2))

    assert torch.equal(first, again) == (noise == 0.0)


def test_sac_samples_differ_and_its_best_guess_does_not() -> None:
    agent = _agent(SAC)
    seen = np.full((50, 1), 0.6, np.float32)

    free, again = (agent.predict_batch(seen, deterministic=False) for _ in range(2))

    assert np.unique(free).size > 40
    assert not np.array_equal(free, again)
    assert np.unique(agent.predict_batch(seen)).size == 1


def test_sac_targets_are_the_quantiles_of_the_critic_with_the_lesser_mean() -> None:
    values = torch.tensor([[[0.0, 9.0], [1.0, 3.0]], [[2.0, 4.0], [5.0, 7.0]]])

    assert torch.equal(lesser_values(values), torch.tensor([[2.0, 4.0], [1.0, 3.0]]))
    assert torch.equal(lesser_values(values[..., :1]), torch.tensor([[0.0], [1.0]]))


def test_sac_critics_estimate_the_quantiles_of_rewards() -> None:
    agent = SAC(
        vector(Kelly(16, (0.5, 0.5), episode_steps=3)),
        seed=3,
        n_quantiles=4,
        gamma=0.0,
        learning_rate=1e-2,
        learning_starts=512,
        norm_reward=False,
        policy={"net_arch": (32,)},
    ).fit(8_000)
    with torch.no_grad():
        inputs = agent.network.inputs({"observation": torch.full((1, 1), 0.5)})
        found = [critic(inputs, torch.zeros(1, 1))[0] for critic in agent.network.critics]

    # Zero is the middle of what can be bet, which is won or lost with equal chances.
    win, loss = np.log1p(MOST / 2), np.log1p(-MOST / 2)
    wanted = torch.tensor([loss, loss, win, win], dtype=torch.float32)
    for quantiles in found:
        torch.testing.assert_close(quantiles.sort().values, wanted, atol=0.1, rtol=0.0)


def _noise(agent: OffPolicyAgent, steps: int) -> NDArray[np.float64]:
    assert isinstance(agent, DDPG)
    found = []
    with agent.randomness:
        agent._start(agent.seed)
        agent.replay.step(torch.zeros(4, 1))
        for _ in range(steps):
            agent._explore(agent.replay.current_observations())
            found.append(agent.noise[:, 0].double().numpy().copy())
    return np.array(found)


@pytest.mark.parametrize("left", [0.0, 0.9])
def test_noise_has_its_size_and_its_persistence(left: float) -> None:
    agent = _agent(DDPG, noise_std=0.3, noise_autocorrelation=left)

    noise = _noise(agent, 4000)

    assert noise.std() == pytest.approx(0.3, rel=0.12)
    alike = np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]
    assert alike == pytest.approx(left, abs=0.05)


def test_noise_begins_anew_with_the_episode() -> None:
    vec = vector(Chain(4, ends=True, episode_steps=1))
    agent = DDPG(vec, seed=1, noise_autocorrelation=0.99, **BRIEF)

    noise = _noise(agent, 2000)

    assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_weights_of_a_simplex_sum_to_one(kind: type[OffPolicyAgent]) -> None:
    agent = kind(vector(Merton(4, 6.0, simplex=True)), seed=1, **BRIEF).fit(3 * ROUND)

    weights = agent.predict_batch(np.zeros((5, 1), np.float32), deterministic=False)

    assert weights.shape == (5, 2)
    assert np.allclose(weights.sum(-1), 1.0)
    assert (weights >= 0).all()


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_spaces_without_bounds_are_refused_in_words(kind: type[OffPolicyAgent]) -> None:
    batch = Chain(2, ends=True)
    endless = NativeVecEnv(batch, batch.observation_space, Box(-np.inf, np.inf, (1,), np.float32))

    with pytest.raises(SpaceError, match=f"{kind.__name__} needs bounded actions, got Box"):
        kind(endless)


def test_ddpg_refuses_picks_in_words() -> None:
    batch = Chain(2, ends=True)

    with pytest.raises(SpaceError, match="DDPG needs continuous actions, got Discrete.*; use PPO"):
        DDPG(NativeVecEnv(batch, batch.observation_space, Discrete(3)))
