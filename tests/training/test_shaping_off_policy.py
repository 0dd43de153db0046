"""Rewards to learn from, steps to learn from and risk, where steps are drawn from replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.training import A2C, DDPG, DQN, MADDPG, PPO, QMIX, SAC, TD3, Agent, RecurrentPPO
from sekai.training.multi_agent.off_policy import AgentTransitions
from sekai.training.shaping import StepBatch
from tests.training.distributed.walks import picking_walk, walk
from tests.training.multi.worlds import Coming

SMALL: dict[str, Any] = {
    "n_envs": 2,
    "steps_per_iteration": 8,
    "learning_starts": 8,
    "batch_size": 8,
    "buffer_size": 64,
    "seed": 1,
    "policy": {"net_arch": (4,)},
}
SINGLE: list[Any] = [DDPG, TD3, SAC, DQN]
TEAMS: list[Any] = [MADDPG, QMIX]


def ten(steps: StepBatch) -> Any:
    """Ten for every step, whatever it paid."""
    return np.full(steps.rewards.shape, 10.0)


def high(steps: StepBatch) -> Any:
    """Where the first number that is seen is above 0."""
    seen = steps.observations["observation"]
    return seen[..., 0] > 0 if seen.shape[-1] == 3 else seen[..., 0] % 2 == 1


def nowhere(steps: StepBatch) -> Any:
    """Not at all."""
    return np.zeros(steps.rewards.shape, np.bool_)


def weights(agent: Agent) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in agent.network.parameters()])


def returns(agent: Agent) -> list[float]:
    """What the agent reports of its episodes."""
    found: list[float] = agent.episodes.state_dict()["recent"][:, 0].tolist()
    return found


class Leaving(Coming):
    """Agents come and go; what they were told is for tests, and no state."""

    state_excludes = ("told",)


WORLDS: dict[Any, Any] = {
    DDPG: walk,
    TD3: walk,
    SAC: walk,
    DQN: picking_walk,
    MADDPG: Leaving,
    QMIX: Leaving,
}


@pytest.mark.parametrize("kind", SINGLE)
def test_replay_holds_the_rewards_to_learn_from_and_reports_stay_plain(kind: Any) -> None:
    plain = kind(WORLDS[kind], **{**SMALL, "learning_starts": 64}).fit(32)
    agent = kind(WORLDS[kind], reward_transform=ten, **{**SMALL, "learning_starts": 64}).fit(32)

    drawn = agent.replay.sample(32)

    assert bool((drawn["reward"] == 10.0).all())
    assert returns(agent) == returns(plain)


@pytest.mark.parametrize("kind", TEAMS)
def test_replay_of_several_agents_holds_the_rewards_to_learn_from(kind: Any) -> None:
    agent = kind(Coming, reward_transform=ten, **SMALL).fit(96)

    paid = AgentTransitions.of(agent.replay.sample(200))

    assert bool((paid.rewards[paid.acted & (paid.terminated | paid.goes_on)] == 10.0).all())
    assert bool((paid.rewards[~paid.acted] == 0.0).all())
    assert all(value != 10.0 for value in returns(agent))


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("where", [high, "is_high"])
def test_steps_that_are_left_out_are_in_no_loss(kind: Any, where: Any) -> None:
    agent = kind(WORLDS[kind], learn_where=where, **SMALL).fit(64)
    drawn = agent.replay.sample(64)

    # Infos tell of what the step led to, observations of what it came from.
    rows = drawn["observation" if callable(where) else "next"]["observation"]
    told = rows[:, 0] > 0
    over = drawn["terminated"] if not callable(where) else torch.zeros(64, dtype=torch.bool)
    assert bool((told | over).all())
    assert bool(drawn["trained_on"].all())
    assert not agent.replay.trained_on.all()


@pytest.mark.parametrize("kind", TEAMS)
def test_steps_of_agents_that_are_left_out_are_in_no_loss(kind: Any) -> None:
    agent = kind(Coming, learn_where=high, **SMALL).fit(96)
    drawn = agent.replay.sample(64)

    clock = torch.stack([drawn["observation"][f"seen/{name}"][:, 0] for name in "abc"], dim=-1)
    acted = AgentTransitions.of(drawn).acted

    assert bool((drawn["trained_on"] == (clock % 2 == 1))[acted].all())


@pytest.mark.parametrize("kind", [*SINGLE, *TEAMS])
def test_where_nothing_is_learnt_from_nothing_changes(kind: Any) -> None:
    agent = kind(WORLDS[kind], learn_where=nowhere, **SMALL)
    before = weights(agent)

    assert torch.equal(weights(agent.fit(64)), before)


@pytest.mark.parametrize("kind", [*SINGLE, *TEAMS])
@pytest.mark.parametrize(
    "option",
    [{"reward_transform": ten}, {"learn_where": high}, {"risk": "volatility", "risk_weight": 5.0}],
)
def test_training_with_options_resumes_bit_for_bit(
    kind: Any, option: dict[str, Any], tmp_path: Path
) -> None:
    functions = {name: value for name, value in option.items() if callable(value)}
    agent = kind(WORLDS[kind], **option, **SMALL).fit(64)
    plain = kind(WORLDS[kind], **SMALL).fit(64)
    path = agent.save(tmp_path)

    resumed = kind.resume(path, 64, env=WORLDS[kind], **functions)

    assert not torch.equal(weights(agent), weights(plain)), "the option makes a difference"
    assert torch.equal(weights(agent.fit(64)), weights(resumed))


@pytest.mark.parametrize("kind", [*SINGLE, *TEAMS])
def test_volatility_takes_the_squared_distance_from_the_mean_of_now(kind: Any) -> None:
    agent = kind(WORLDS[kind], risk="volatility", risk_weight=2.0, **SMALL).fit(64)
    count = len(agent.risks)
    rewards = torch.tensor([[0.5] * count, [2.0] * count], dtype=torch.float64)
    means = torch.tensor([risk.mean for risk in agent.risks], dtype=torch.float64)

    found = agent._penalized(rewards)

    torch.testing.assert_close(found, rewards - 2.0 * (rewards - means) ** 2)


@pytest.mark.parametrize("risk", ["drawdown", "cvar"])
@pytest.mark.parametrize("kind", [*SINGLE, *TEAMS])
def test_risks_of_whole_episodes_are_refused_by_name(kind: Any, risk: str) -> None:
    with pytest.raises(ValueError, match=f"risk must be 'none' or 'volatility'.*{risk}"):
        kind.settings_type(risk=risk)
    with pytest.raises(ValueError, match="risk_level"):
        kind.settings_type.from_dict({"risk_level": 0.1})


ALGORITHMS: dict[str, list[Any]] = {
    "PPO, RecurrentPPO, A2C": [PPO, RecurrentPPO, A2C],
    "DDPG, TD3, SAC, DQN": [DDPG, TD3, SAC, DQN],
    "MADDPG": [MADDPG],
    "QMIX": [QMIX],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "`reward_transform`": {"reward_transform": ten},
    "`learn_where`, a function": {"learn_where": high},
    "`learn_where`, a part of observations": {"learn_where": "observation"},
    "`learn_where`, a key of infos": {"learn_where": "is_high"},
    '`risk="volatility"`': {"risk": "volatility"},
    '`risk="drawdown"`': {"risk": "drawdown"},
    '`risk="cvar"`': {"risk": "cvar"},
}


def documented() -> dict[tuple[str, str], bool]:
    """Yes or no for each option and algorithm, as docs/training.md has it."""
    text = Path(__file__).parents[2].joinpath("docs/training.md").read_text(encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    start = next(place for place, cells in enumerate(lines) if cells[0] == "option")
    rows = lines[start + 2 : start + 2 + len(OPTIONS)]
    return {
        (cells[0], name): cell == "yes"
        for cells in rows
        for name, cell in zip(lines[start][1:], cells[1:], strict=True)
    }


def test_the_documented_table_names_every_option_and_algorithm() -> None:
    assert set(documented()) == {(option, name) for option in OPTIONS for name in ALGORITHMS}


@pytest.mark.parametrize(("option", "name"), documented())
def test_the_documented_table_is_what_agents_do(option: str, name: str) -> None:
    for kind in ALGORITHMS[name]:
        is_replay = kind not in (PPO, RecurrentPPO, A2C)
        settings = SMALL if is_replay else {"n_envs": 2, "n_steps": 8}
        if documented()[option, name]:
            kind(WORLDS.get(kind, walk), **OPTIONS[option], **settings).fit(32)
        else:
            with pytest.raises(ValueError, match=option.split("`")[1].partition("=")[0]):
                kind(WORLDS.get(kind, walk), **OPTIONS[option], **settings)
