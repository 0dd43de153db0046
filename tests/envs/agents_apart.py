"""Agents in one market without interaction, compared with a `Portfolio` of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.data import MarketData
from sekai.envs import AgentConfig, MemberConfig, MultiPortfolio, Portfolio
from sekai.market import Constraints, Costs, MarginAccount
from tests.envs.portfolio_runs import same
from tests.envs.shared_markets import ASSETS, FEATURES, market

APART = Costs(impact=0.0)
"""All costs but the one that agents have through each other."""

AGENTS: dict[str, AgentConfig] = {
    "plain": AgentConfig(),
    "bold": AgentConfig(
        ruin=0.99, account=MarginAccount(leverage=2.0), constraints=Constraints(leverage=1.8)
    ),
    "rich": AgentConfig(initial_cash=3e6, reward={"return": 1.0, "turnover_penalty": 0.1}),
}

SETTINGS: dict[str, Any] = {
    "features": FEATURES,
    "lookback": 4,
    "costs": APART,
}


def together(data: Any = None, **settings: Any) -> MultiPortfolio:
    """All agents in one market."""
    given = {**SETTINGS, "agents": AGENTS, **settings}
    return MultiPortfolio(data=market() if data is None else data, **given)


def alone(name: str, data: Any = None, **settings: Any) -> Portfolio:
    """One of the agents in the same market without the others."""
    agents = settings.pop("agents", AGENTS)
    own = {each.name: getattr(agents[name], each.name) for each in fields(AgentConfig)}
    given = {**SETTINGS, **own, **settings}
    return Portfolio(data=market() if data is None else data, **given)


def many(count: int, mode: Any = "native", data: Any = None, **settings: Any) -> Any:
    """A vector env of such markets."""
    given = {**SETTINGS, "agents": AGENTS, "data": market() if data is None else data, **settings}
    return sekai.make_vec("MultiPortfolio-v0", count, mode, **given)


def weights(rng: np.random.Generator, *shape: int, assets: int = ASSETS) -> NDArray[np.float64]:
    """Random weights of assets and cash."""
    drawn: NDArray[np.float64] = rng.dirichlet(np.ones(assets + 1), shape)
    return drawn


def is_as_alone(result: Any, singles: Mapping[str, Any]) -> bool:
    """Return True if each agent's results equal those alone, bit for bit."""
    return all(_parts_of(result, name) == _parts(own) for name, own in singles.items())


def recorded(vec: Any, steps: int, seed: int = 5) -> list[Any]:
    """All that the agents of a vector env are given, with a reset of one env among it."""
    rng = np.random.default_rng(0)
    seen = [vec.reset(seed=seed)]
    for number in range(steps):
        seen.append(vec.step(wishes(vec, rng)))
        if vec.vec.autoreset == "disabled" and seen[-1].episode_over.any():
            seen.append(vec.reset(ids=np.flatnonzero(seen[-1].episode_over)))
        if number == steps // 2:
            seen.append(vec.reset(seed=[9], ids=[1]))
    return seen


def wishes(vec: Any, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random actions of all agents in all envs."""
    actions = {}
    for name, space in vec.action_spaces.items():
        shape = (vec.num_envs, *space.shape)
        is_tilt = space.dtype.kind == "i"
        actions[name] = rng.integers(0, 3, shape) if is_tilt else rng.dirichlet(
            np.ones(shape[1]), shape[0]
        )  # fmt: skip
    return actions


def play_on(env: MultiPortfolio, steps: int, seed: int = 0) -> list[Any]:
    """The results of random weights from where the env stands, until all are gone."""
    rng, results = np.random.default_rng(seed), []
    for _ in range(steps):
        drawn = weights(rng, len(env.possible_agents), assets=len(env.data.assets))
        actions = dict(zip(env.possible_agents, drawn, strict=True))
        if not env.agents:
            break
        results.append(env.step({name: actions[name] for name in env.agents}))
    return results


def alike(one: Any, other: Any) -> bool:
    """Return True if two results are equal bit for bit."""
    return all(
        same(_plain(getattr(one, name)), _plain(getattr(other, name)))
        for name in one.__dataclass_fields__
    )


def new_asset(data: MarketData, rows: int | None = None) -> MarketData:
    """The last asset alone, for the first rows."""
    return data.select(data.assets[-1:]).rows(0, len(data) if rows is None else rows)


def member(name: str, **changes: Any) -> MemberConfig:
    """One of the agents with other settings."""
    own = {each.name: getattr(AGENTS[name], each.name) for each in fields(AgentConfig)}
    return MemberConfig(**{**own, **changes})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__.endswith("Infos"):
        return [_plain(item) for item in value]
    return value


def _parts(result: Any) -> Any:
    return (
        {part: (array.dtype, array.tobytes()) for part, array in result.observation.items()},
        {key: float(number).hex() for key, number in result.info.items()},
        None
        if not hasattr(result, "reward")
        else (float(result.reward).hex(), result.terminated, result.truncated),
    )


def _parts_of(result: Any, name: str) -> Any:
    shown = result.observations[name]
    return (
        {part: (array.dtype, array.tobytes()) for part, array in shown.items()},
        {key: float(number).hex() for key, number in result.info[name].items()},
        None
        if not hasattr(result, "rewards")
        else (
            float(result.rewards[name]).hex(),
            result.terminated[name],
            result.truncated[name],
        ),
    )
