"""Episode logs of several agents."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.envs import EpisodeLog
from sekai.envs.portfolio.log import COST_KINDS
from sekai.envs.portfolio.log_files import read_jsonl, read_parquet, write_jsonl, write_parquet
from tests.envs.agents_apart import AGENTS, alone, many, play_on, together, weights

STEPS = 20


def recorded(**options: Any) -> Any:
    env = together(record=True, starts=15, **options)
    env.reset(seed=7)
    return env


def timeless(log: EpisodeLog) -> list[Any]:
    """All that a log holds but how long steps took and whose it is."""
    parts: list[Any] = [log.env, log.seed, log.episode, log.assets, log.opening_row]
    parts += [log.opening_time, log.opening_cash.tolist(), log.opening_units.tolist()]
    for table in (log.trades, log.steps):
        parts += [
            getattr(table, each.name).tolist()
            for each in fields(table)
            if each.name not in ("seconds", "agent")
        ]
    return parts


def test_each_agent_has_the_log_that_it_has_alone() -> None:
    env = recorded()
    results = play_on(env, STEPS)
    logs = env.take_log()

    assert list(logs) == list(AGENTS)
    assert "bold" not in env.agents
    for place, name in enumerate(AGENTS):
        single = alone(name, record=True, starts=15)
        single.reset(seed=7)
        rng = np.random.default_rng(0)
        for result in results:
            drawn = weights(rng, len(AGENTS))
            if name in result.rewards:
                single.step(drawn[place])
        (log,) = logs[name]
        assert timeless(log) == timeless(single.take_log()[0])
        assert log.agents == (name,)
        assert set(log.steps.agent) | set(log.trades.agent) == {0}
        assert len(log.trades) > 0


def test_steps_are_what_the_env_told_until_an_agent_leaves() -> None:
    env = recorded()
    results = play_on(env, STEPS)

    for name, (log,) in env.take_log().items():
        own = [result for result in results if name in result.rewards]
        assert log.steps.reward.tolist() == [result.rewards[name] for result in own]
        for key in ("equity", "cash", "pnl", "cost", "turnover", "drawdown"):
            assert getattr(log.steps, key).tolist() == [result.info[name][key] for result in own]
        for kind in COST_KINDS:
            reported = [result.info[name][kind] for result in own]
            assert log.steps.cost_of(kind).tolist() == reported
        shown = np.array([result.observations[name]["weights"] for result in own])
        assert np.array_equal(log.steps.weights.astype(np.float32), shown)


def test_a_log_is_of_what_happened_since_it_was_last_taken() -> None:
    env, whole = recorded(), recorded()
    parts = []
    for seed in range(4):
        play_on(env, 5, seed)
        play_on(whole, 5, seed)
        parts.append(env.take_log())

    for name, (log,) in whole.take_log().items():
        own = [part[name][0].steps.equity for part in parts if part[name]]
        assert np.concatenate(own).tolist() == log.steps.equity.tolist()


def test_nothing_is_recorded_unless_asked_for() -> None:
    env = together()
    env.reset(seed=0)

    with pytest.raises(ValueError, match="record=True"):
        env.take_log()


def test_a_vector_env_has_the_logs_of_its_envs() -> None:
    vec = many(3, record=True, episode_rows=8)
    vec.reset(seed=[3, 4, 5])
    singles = [together(record=True, episode_rows=8) for _ in range(3)]
    for place, env in enumerate(singles):
        env.reset(seed=3 + place)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = {name: weights(rng, 3) for name in AGENTS}
        vec.step(actions)
        for place, env in enumerate(singles):
            env.step({name: actions[name][place] for name in env.agents})
            if not env.agents:
                env.reset()

    logs = EpisodeLog.take_by_agent(vec.batch)

    for place, wanted in enumerate(env.take_log() for env in singles):
        for name in AGENTS:
            found = [timeless(log)[1:] for log in logs[name] if log.env == place]
            assert found == [timeless(log)[1:] for log in wanted[name]]


def test_logs_of_all_agents_survive_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    env = recorded()
    play_on(env, STEPS)
    logs = [log for own in env.take_log().values() for log in own]

    write_jsonl(logs, tmp_path / "logs.jsonl")
    write_parquet(logs, tmp_path / "logs.parquet")

    for read in (read_jsonl(tmp_path / "logs.jsonl"), read_parquet(tmp_path / "logs.parquet")):
        assert [log.agents for log in read] == [(name,) for name in AGENTS]
        assert [timeless(log) for log in read] == [timeless(log) for log in logs]


def test_a_joint_log_is_taken_apart_by_name() -> None:
    env = recorded()
    play_on(env, STEPS)

    (log,) = EpisodeLog.take(env.batch)

    assert log.agents == tuple(AGENTS)
    assert timeless(log.of_agent("rich")) == timeless(log.of_agent(2))
    assert log.of_agent("rich").agents == ("rich",)
    with pytest.raises(KeyError, match=r"unknown agent 'poor'; expected one of \['plain', "):
        log.of_agent("poor")


def test_a_restored_env_records_what_follows() -> None:
    env, other = recorded(), recorded()
    play_on(env, 5)
    other.take_log()

    other.load_state_dict(env.state_dict())
    env.take_log()
    play_on(env, 6, 1)
    play_on(other, 6, 1)

    wanted, found = env.take_log(), other.take_log()
    for name in AGENTS:
        parts = [timeless(log) for log in found[name] if len(log.steps)]
        assert parts == [timeless(log) for log in wanted[name] if len(log.steps)]


def test_pictures_take_nothing_out_of_the_log() -> None:
    env, other = recorded(), recorded()
    for seed in range(3):
        play_on(env, 3, seed)
        play_on(other, 3, seed)
        env.scene()

    wanted, found = other.take_log(), env.take_log()
    for name in AGENTS:
        assert [timeless(log) for log in found[name]] == [timeless(log) for log in wanted[name]]
