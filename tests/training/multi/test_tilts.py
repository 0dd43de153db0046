"""QMIX tilts the portfolios of a team: several picks of each agent, one reward for all."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from sekai.data import FeaturePanel, MarketData
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Discrete, MultiDiscrete, Space
from sekai.training import QMIX
from sekai.training.multi_agent.joint_env import JointSpaces
from sekai.training.qmix import QMIXSettings
from sekai.vector.make_vec import make_vec

ASSETS, ROWS, EPISODE, ENVS = 3, 800, 64, 64
TILTS: dict[str, Any] = {"action": "tilts", "tilt": 0.25}
LEARNING: dict[str, Any] = {
    "n_envs": 16,
    "gamma": 0.5,
    "learning_starts": 512,
    "batch_size": 128,
    "learning_rate": 2e-3,
    "train_freq": 2,
    "policy": {"net_arch": (32, 32), "width": 16},
}


def planted(seed: int) -> dict[str, Any]:
    """A market in which a feature that stays for a while tells a part of the next return."""
    rng = np.random.default_rng(seed)
    fresh = rng.standard_normal((ROWS, ASSETS))
    signal = fresh.copy()
    for row in range(1, ROWS):
        signal[row] = 0.9 * signal[row - 1] + np.sqrt(1 - 0.81) * fresh[row]
    returns = 0.01 * rng.standard_normal((ROWS, ASSETS))
    returns[1:] += 0.01 * signal[:-1]
    features = np.stack([signal, rng.standard_normal((ROWS, ASSETS))], axis=-1)
    close = 100.0 * np.exp(np.cumsum(returns, axis=0))
    before = np.concatenate([close[:1], close[:-1]])
    times = np.datetime64("2020-01-01") + np.arange(ROWS).astype("timedelta64[D]")
    names = tuple(f"asset_{place}" for place in range(ASSETS))
    data = MarketData(times, names, ["open", "close"], np.stack([before, close], axis=-1))
    there = np.ones((ROWS, ASSETS), np.bool_)
    shown = FeaturePanel(features.astype(np.float32), ("signal", "noise"), there, data.times, names)
    return {
        "data": data,
        "features": shown,
        "lookback": 1,
        "episode_rows": EPISODE,
        "agents": 2,
        "reward_mode": "cooperative",
    }


def growth(act: Any, options: dict[str, Any]) -> float:
    """The mean reward of a step, after costs."""
    vec: Any = make_vec("MultiPortfolio-v0", ENVS, **options)
    seen, total = vec.reset(seed=0).observations, 0.0
    for _ in range(EPISODE):
        result = vec.step(act(seen))
        seen = result.observations
        total += float(np.mean([paid.mean() for paid in result.rewards.values()]))
    return total / EPISODE


def even(seen: Any) -> Any:
    """Equal weights of all assets and cash."""
    return {name: np.full((ENVS, ASSETS + 1), 1 / (ASSETS + 1)) for name in seen}


def excess(seed: int, steps: int) -> float:
    """By how much a team beats equal weights on prices that it has not seen."""
    learning = {**LEARNING, "exploration_steps": steps // 2}
    agent = QMIX("MultiPortfolio-v0", seed=seed, env_options={**planted(seed), **TILTS}, **learning)
    agent.fit(steps)
    unseen = planted(1_000 + seed)
    return growth(agent.predict_batch, {**unseen, **TILTS}) - growth(even, unseen)


@pytest.mark.timeout(1_200)
def test_a_team_learns_to_tilt_to_what_a_signal_says() -> None:
    assert excess(0, 12_288) > 0.002


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_teams_of_nine_of_ten_seeds_beat_equal_weights_out_of_sample() -> None:
    found = np.array([excess(seed, 16_384) for seed in range(10)])

    assert (found > 0).sum() >= 9
    assert found.mean() / (found.std(ddof=1) / np.sqrt(len(found))) > 3.0


def network(spaces: list[Space[Any]]) -> Any:
    """What QMIX learns for agents of these action spaces, before it has learnt."""
    names = [f"agent_{place}" for place in range(len(spaces))]
    seen = {name: Box(-1.0, 1.0, (2,), np.float32) for name in names}
    joint = JointSpaces(seen, dict(zip(names, spaces, strict=True)))
    settings = QMIXSettings(policy=PolicySettings(net_arch=(8,)))
    torch.manual_seed(0)
    return QMIX.make_team(joint, settings)


def test_the_best_of_each_pick_is_the_best_joint_action() -> None:
    spaces: list[Space[Any]] = [MultiDiscrete([3, 2]), Discrete(4)]
    team = network(spaces)
    rng = np.random.default_rng(0)
    seen = {
        f"seen/agent_{place}": torch.from_numpy(rng.normal(size=(5, 2)).astype(np.float32))
        for place in range(2)
    }
    values = team.values(team.inputs(seen))
    best = team.greedy(values, team.allowed(seen))
    present = torch.ones(5, 2)
    state = team.state(seen, team.inputs(seen), present)

    def worth(picks: Any) -> torch.Tensor:
        rows = {name: torch.tensor([own] * 5) for name, own in picks.items()}
        chosen = (values * team.one_hot(rows)).sum(-1, keepdim=True)
        found: torch.Tensor = team.mixer(chosen, present, state).reshape(-1)
        return found

    every = [
        worth({"agent_0": [one, other], "agent_1": [third]})
        for one, other, third in product(range(3), range(2), range(4))
    ]
    found = (values * team.one_hot(best)).sum(-1, keepdim=True)

    torch.testing.assert_close(
        team.mixer(found, present, state).reshape(-1), torch.stack(every).amax(0)
    )


def test_a_step_of_qmix_is_judged_by_the_picks_that_were_taken() -> None:
    agent = QMIX(
        "MultiPortfolio-v0",
        env_options={**planted(0), **TILTS},
        n_envs=2,
        steps_per_iteration=8,
        learning_starts=8,
        batch_size=8,
        buffer_size=64,
    ).fit(32)

    drawn = agent.replay.sample(8)
    chosen = {name: agent.vec.actions.of(drawn["action"], name) for name in agent.agents}
    taken = agent.network.one_hot(chosen)

    assert taken.shape[1:] == (2, 3 * ASSETS)
    assert bool((taken.reshape(-1, 2, ASSETS, 3).sum(-1) == 1).all())
