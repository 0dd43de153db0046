"""Every setting of several agents does something, in single envs and in vector envs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from sekai.data import Bar, MarketData
from sekai.envs import EpisodeLog, MultiPortfolio, MultiPortfolioConfig
from sekai.error import NotReadyError
from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.envs.agents_apart import many
from tests.envs.shared_markets import FEATURES, market

WHOLE = market(rows=150)
HALTED = np.ones(WHOLE.tradable.shape, np.bool_)
HALTED[20::5] = False
DATA = WHOLE.replace(tradable=HALTED)
SHARPE = {"reward": "differential_sharpe"}
STREAM = {"stream": True}

CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "initial_cash": ({}, 5e4),
    "account": ({}, MarginAccount(leverage=2.0)),
    "constraints": ({}, Constraints(max_weight=0.3)),
    "reward": ({}, "profit"),
    "reward_memory": (SHARPE, 0.5),
    "risk_aversion": ({"reward": "mean_variance"}, 9.0),
    "ruin": ({}, 0.995),
    "lookback": ({}, 3),
    "observation": ({}, "index"),
    "action": ({}, "tilts"),
    "tilt": ({"action": "tilts"}, 0.2),
    "execution": ({}, Execution(delay=1)),
    "costs": ({}, Costs(proportional=0.01)),
    "episode_rows": ({}, 5),
    "starts": ({}, 30),
    "decisions": ({}, "trading_days"),
    "benchmark": ({"reward": "benchmark_relative"}, "A"),
    "stream": ({}, True),
    "keep_rows": (STREAM, 40),
    "slots": ({}, 2),
    "record": ({}, True),
    "agents": ({}, ["x", "y"]),
    "shared_leverage": ({}, 0.3),
    "reward_mode": ({}, "cooperative"),
}
"""For each setting what it needs beside it, and another value than the usual one."""


def made(settings: dict[str, Any]) -> MultiPortfolio:
    given = {"lookback": 4, **settings}
    return MultiPortfolio(DATA if not given.get("stream") else DATA.rows(0, 60), FEATURES, **given)


def behaviour(settings: dict[str, Any]) -> list[Any]:
    """All that can be seen of an env, whatever its settings are."""
    env = made(settings)
    seen: list[Any] = [repr(env.observation_spaces), repr(env.action_spaces)]
    begun = env.reset(seed=3)
    seen += [plain(begun.observations), plain(begun.info)]
    rng, bars = np.random.default_rng(0), Bar.each(DATA, 60)
    for _ in range(85):
        if not env.agents:
            break
        actions = {name: choice(space, rng) for name, space in env.action_spaces.items()}
        alive = {name: actions[name] for name in env.agents}
        try:
            result = env.step(alive)
        except NotReadyError:
            seen.append("waits")
            env.push(next(bars))
            result = env.step(alive)
        seen += [plain(result.observations), result.rewards, plain(result.info), env.agents]
    seen.append(tried(lambda: [len(log) for log in env.take_log().values()]))
    seen.append(tried(lambda: env.scene()["tick"]))
    return seen


def behaviour_of_many(settings: dict[str, Any]) -> list[Any]:
    """The same of a vector env."""
    settings = {"lookback": 4, **settings}
    data: MarketData = DATA.rows(0, 60) if settings.get("stream") else DATA
    vec = many(2, data=data, **{"agents": 3, "costs": Costs(), **settings})
    seen: list[Any] = [repr(vec.observation_spaces), repr(vec.action_spaces)]
    begun = vec.reset(seed=3)
    seen += [plain(begun.observations), plain(list(begun.infos))]
    rng, bars = np.random.default_rng(0), Bar.each(DATA, 60)
    for _ in range(85):
        actions = {
            name: np.stack([choice(space, rng) for _ in range(2)])
            for name, space in vec.action_spaces.items()
        }
        try:
            result = vec.step(actions)
        except NotReadyError:
            seen.append("waits")
            vec.batch.push(next(bars))
            result = vec.step(actions)
        seen += [plain(result.observations), plain(result.rewards), plain(list(result.infos))]
    seen.append(len(EpisodeLog.take(vec.batch)))
    seen.append(tried(lambda: vec.batch.scene()["tick"]))
    return seen


def choice(space: Any, rng: np.random.Generator) -> Any:
    (width,) = space.shape
    return rng.integers(0, 3, width) if space.dtype.kind == "i" else rng.dirichlet(np.ones(width))


def plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tobytes() if isinstance(value, np.ndarray) else value


def tried(call: Any) -> Any:
    try:
        return call()
    except ValueError as error:
        return str(error)


def test_agents_have_spaces_of_their_own() -> None:
    env, other = made({}), made({})
    for one in (env, other):
        one.observation_spaces["agent_0"].seed(1)
        one.action_spaces["agent_0"].seed(1)
    env.observation_spaces["agent_1"].seed(2)
    env.action_spaces["agent_1"].seed(2)

    for spaces in ("observation_spaces", "action_spaces"):
        first, second = (getattr(one, spaces)["agent_0"].sample() for one in (env, other))
        assert plain(first) == plain(second)


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) == {field.name for field in fields(MultiPortfolioConfig)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_changes_what_is_seen(name: str) -> None:
    beside, value = CHANGES[name]
    usual = getattr(MultiPortfolioConfig(**beside), name)
    assert getattr(MultiPortfolioConfig(**{**beside, name: value}), name) != usual

    assert behaviour(beside) != behaviour({**beside, name: value})


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_changes_what_is_seen_of_many(name: str) -> None:
    beside, value = CHANGES[name]

    assert behaviour_of_many(beside) != behaviour_of_many({**beside, name: value})


def test_the_same_settings_are_seen_the_same() -> None:
    assert behaviour({}) == behaviour({})
    assert behaviour_of_many({}) == behaviour_of_many({})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keep_rows": 40}, "keep_rows needs stream=True"),
        ({"stream": True, "observation": "index"}, "observation must be 'window'"),
        ({"stream": True, "starts": 30}, "a stream begins with the last known row"),
        ({"slots": -1}, "slots must be a whole number"),
        ({"reward_mode": "friendly"}, "reward_mode must be one of"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MultiPortfolio(config=MultiPortfolioConfig(**settings))
