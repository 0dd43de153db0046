"""DQN: values and choices of a table that is known, within masks; and what its settings do."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.spaces import Box, Dict, MultiBinary, MultiDiscrete
from sekai.training import DQN, load_policy
from sekai.training.dqn import greedy
from sekai.training.off_policy import Transitions
from sekai.training.policies.off_policy import quantile_huber_loss
from sekai.vector.native import NativeVecEnv
from tests.training.barred import PICKS, Barred
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.table import PLACES, Table

GAMMA = 0.6
LEARNING: dict[str, Any] = {
    "gamma": GAMMA,
    "learning_rate": 5e-3,
    "learning_rate_schedule": "linear",
    "learning_starts": 128,
    "batch_size": 128,
    "steps_per_iteration": 16,
    "target_update_interval": 64,
    "exploration_final_eps": 0.3,
    "policy": {"net_arch": (32,), "norm_obs": False},
}
BRIEF: dict[str, Any] = {
    "steps_per_iteration": 4,
    "batch_size": 16,
    "buffer_size": 60,
    "learning_starts": 16,
    "train_freq": 2,
    "target_update_interval": 24,
    "policy": {"net_arch": (8,)},
}
ROUND = 16
"""Steps of single envs in an iteration of `BRIEF` with four envs."""

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"double_q": False},
    "double": {},
    "dueling": {"dueling": True},
    "quantiles": {"n_quantiles": 8},
    "all": {"dueling": True, "n_quantiles": 8, "tau": 0.2, "target_update_interval": 8},
}
every_way = pytest.mark.parametrize("way", WAYS)


def _values(agent: DQN) -> NDArray[np.float64]:
    """What the network says of each place and move, in rewards of the env."""
    places = {"observation": torch.eye(PLACES)}
    with torch.no_grad():
        values = agent.network.action_parameters(places).double().numpy()
    assert agent.scaler is not None
    found: NDArray[np.float64] = values * float(agent.scaler.scale)
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("way", "masked"), [("double", False), *((way, True) for way in WAYS)])
def test_values_are_those_of_the_table(way: str, masked: bool) -> None:
    table = Table(8, masked)
    wanted = table.values(GAMMA)

    agent = DQN(vector(table), seed=1, **{**LEARNING, **WAYS[way]}).fit(8_000)

    found = _values(agent)
    np.testing.assert_allclose(found[table.allowed], wanted[table.allowed], rtol=0.08)
    mask = torch.from_numpy(table.allowed)
    best = greedy(torch.from_numpy(found), mask).numpy()
    assert np.array_equal(best, np.nanargmax(wanted, axis=1))
    # Without masks forbidden moves look best, or this has shown nothing about them.
    free = greedy(torch.from_numpy(found), None).numpy()
    assert np.array_equal(best, free) != masked


def _agent(seed: int = 3, **changes: Any) -> DQN:
    return DQN(vector(Table(4)), seed=seed, **{**BRIEF, **changes})


def _weights(agent: DQN) -> torch.Tensor:
    states = [agent.network.state_dict(), agent.target_values.state_dict()]
    return torch.cat([part.double().flatten() for state in states for part in state.values()])


@every_way
def test_training_resumes_bit_for_bit(way: str, tmp_path: Path) -> None:
    total = 8 * ROUND
    straight = _agent(**WAYS[way]).fit(total)
    half = _agent(**WAYS[way]).fit(total // 2, total=total)
    half.save(tmp_path)

    resumed = DQN.resume(tmp_path, total // 2, env=vector(Table(4)))

    assert torch.equal(_weights(resumed), _weights(straight))
    assert not torch.equal(_weights(resumed), _weights(half))
    assert resumed.episodes.summary == straight.episodes.summary
    assert resumed.target_steps == straight.target_steps > 0


def test_the_seed_decides_the_weights() -> None:
    first, again, other = (_agent(seed).fit(4 * ROUND) for seed in (1, 1, 2))

    assert torch.equal(_weights(first), _weights(again))
    assert not torch.equal(_weights(first), _weights(other))


def test_training_without_a_saved_buffer_keeps_to_the_mask_in_force(tmp_path: Path) -> None:
    agent = _agent(save_replay_buffer=False).fit(4 * ROUND)

    resumed = DQN.resume(agent.save(tmp_path), env=vector(Table(4)))

    mask = resumed.replay.current_observations()["action_mask"]
    assert torch.equal(mask, agent.replay.current_observations()["action_mask"])
    assert len(resumed.replay) == 0
    resumed.fit(4 * ROUND)


@pytest.mark.parametrize("way", ["double", "all"])
def test_a_policy_from_a_file_acts_as_its_agent(way: str, tmp_path: Path) -> None:
    agent = _agent(**WAYS[way]).fit(4 * ROUND)
    seen = np.eye(PLACES, dtype=np.float32)

    policy: Any = load_policy(agent.save(tmp_path, training=False))
    loaded = DQN.load(tmp_path, env=vector(Table(4)))

    for mask in (None, [[0, 1, 1]] * PLACES):
        wanted = agent.predict_batch(seen, action_mask=mask)
        assert np.array_equal(policy.predict_batch(seen, action_mask=mask), wanted)
        assert np.array_equal(loaded.predict_batch(seen, action_mask=mask), wanted)
    assert (wanted > 0).all()


def test_samples_are_random_by_the_exploration_rate() -> None:
    agent = _agent()
    seen = np.tile(np.eye(PLACES, dtype=np.float32)[:1], (4000, 1))
    masks = [[1, 1, 0]] * 4000
    best = agent.predict_batch(seen[:1], action_mask=masks[:1])[0]

    for rate in (0.0, 0.4, 1.0):
        agent.network.exploration_rate.fill_(rate)
        drawn = agent.predict_batch(seen, deterministic=False, action_mask=masks)
        assert not (drawn == 2).any()
        assert float((drawn != best).mean()) == pytest.approx(rate / 2, abs=0.04)


def test_the_exploration_rate_falls_over_a_fraction_of_all_steps() -> None:
    agent = _agent(exploration_fraction=0.5, exploration_initial_eps=0.8, exploration_final_eps=0.2)
    rates: list[float] = []
    run = agent._run_envs

    def watched(step_counts: Any) -> None:
        run(step_counts)
        rates.append(float(agent.network.exploration_rate))

    agent._run_envs = watched  # type: ignore[method-assign]
    agent.fit(4 * ROUND)

    # Eight groups of two steps of four envs, of which four are the first half.
    wanted = [0.8, 0.65, 0.5, 0.35, 0.2, 0.2, 0.2, 0.2]
    assert rates == pytest.approx(wanted)


def test_random_actions_before_learning_keep_to_masks() -> None:
    agent = _agent(learning_starts=40, buffer_size=64).fit(2 * ROUND)

    places = agent.replay.observations(agent.replay.latest(8))["observation"].argmax(-1)
    chosen = agent.replay.chosen[agent.replay.latest(8)].flatten()
    assert Table(4).allowed[places.numpy(), chosen.numpy()].all()
    assert len(np.unique(chosen)) == 3


def test_the_target_network_is_copied_after_so_many_steps() -> None:
    agent = _agent(target_update_interval=32).fit(2 * ROUND)
    moved: list[bool] = []
    update = agent._update

    def watched() -> Any:
        before = deepcopy(agent.target_values.state_dict())
        metrics = update()
        after = agent.target_values.state_dict()
        moved.append(any(not torch.equal(after[name], part) for name, part in before.items()))
        if moved[-1]:
            for name, part in agent.network.values.state_dict().items():
                assert torch.equal(after[name], part)
        return metrics

    agent._update = watched  # type: ignore[method-assign]
    agent.fit(4 * ROUND)

    # A gradient step in eight steps, a copy in thirty-two.
    assert moved == [False, False, False, True] * 2


def _batch(agent: DQN, masked: bool) -> Transitions:
    seen = agent._inputs({"observation": torch.eye(PLACES)})
    following = dict(seen)
    if masked:
        following["action_mask"] = torch.tensor([[0, 1, 1]] * PLACES)
    rewards, ended = torch.zeros(PLACES, 1), torch.zeros(PLACES, 1, dtype=torch.bool)
    actions = torch.zeros(PLACES, 1, dtype=torch.int64)
    return Transitions(seen, actions, following, rewards, ended)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_targets_are_of_the_best_allowed_action(double: bool, masked: bool) -> None:
    agent = _agent(double_q=double, gamma=0.5)
    with torch.no_grad():
        for network in (agent.network.values, agent.target_values):
            network.actions.weight.normal_()
        batch = _batch(agent, masked)
        own, target = (
            network(batch.next_observations)[..., 0]
            for network in (agent.network.values, agent.target_values)
        )
    judges, first = own if double else target, int(masked)

    found = agent._loss(batch)["target_value"]

    best = judges[:, first:].argmax(-1) + first
    torch.testing.assert_close(found, 0.5 * target[torch.arange(PLACES), best])
    others = (target if double else own)[:, first:].argmax(-1) + first
    assert not torch.equal(best, others), "or this has shown nothing"


def test_advantages_of_a_dueling_network_change_no_mean() -> None:
    agent = _agent(dueling=True)
    values = agent.network.values
    features = values.body({"observation": torch.eye(PLACES)}).whole

    found = values({"observation": torch.eye(PLACES)})

    torch.testing.assert_close(found.mean(1), values.state(features))


def test_quantiles_are_those_of_the_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    quantiles = torch.zeros(1, 5, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], 0.3)

    for _ in range(600):
        samples = 100.0 * torch.rand(1, 512, generator=generator)
        optimizer.zero_grad()
        quantile_huber_loss(quantiles, samples).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    wanted = torch.tensor([[10.0, 30.0, 50.0, 70.0, 90.0]])
    torch.testing.assert_close(quantiles.detach(), wanted, atol=3.0, rtol=0.0)


class Shown(Barred):
    """The same masks as a part of the observation."""

    def __init__(self) -> None:
        super().__init__(PICKS)
        parts = {"numbers": self.observation_space, "action_mask": MultiBinary(4)}
        self.observation_space = Dict(parts)

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        seen, _ = super().reset(seed=seed, options=options)
        return ResetResult(self._with_mask(seen), {})

    def step(self, action: Any) -> StepResult[Any]:
        seen, reward, terminated, truncated, _ = super().step(action)
        return StepResult(self._with_mask(seen), reward, terminated, truncated, {})

    def _with_mask(self, seen: Any) -> Any:
        mask = np.ones(4, np.int8) if self._mask is None else self._mask
        return {"numbers": seen, "action_mask": mask}


def test_masks_in_observations_are_kept_to() -> None:
    agent = DQN(Shown, n_envs=4, **BRIEF)

    agent.fit(20 * ROUND)

    assert "action_mask" in agent.replay.sample(4)["next"]


def test_other_actions_are_refused_with_what_takes_them() -> None:
    batch = Chain(2, ends=True)
    numbers = NativeVecEnv(batch, batch.observation_space, Box(-1.0, 1.0, (1,), np.float32))
    several = NativeVecEnv(batch, batch.observation_space, MultiDiscrete([3, 2]))

    with pytest.raises(SpaceError, match="DQN needs Discrete actions, got Box.*; use TD3, SAC"):
        DQN(numbers)
    with pytest.raises(SpaceError, match="DQN needs Discrete actions, got MultiDiscrete.*use PPO"):
        DQN(several)


def test_the_final_mask_of_an_episode_is_that_of_its_last_place() -> None:
    table = Table(4, episode_steps=3)
    agent = DQN(vector(table), seed=3, **BRIEF).fit(4 * ROUND)

    drawn = agent.replay.sample(500)

    places = drawn["next"]["observation"].argmax(-1).numpy()
    masks = drawn["next"]["action_mask"].numpy() != 0
    assert bool(drawn["truncated"].any())
    assert np.array_equal(masks, table.allowed[places])
