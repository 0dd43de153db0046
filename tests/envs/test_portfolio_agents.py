"""Agents meet in volume, impact and shared limits, and nowhere else."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given

from sekai.envs.portfolio.config import AgentConfig
from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import FREE, World, market_of, play, settings

LONG_SHORT = Constraints(long_short=True, max_weight=4.0)


def alone(world: World, agent: int) -> World:
    """The same market with one of its agents."""
    own = {field.name: getattr(world.agents[agent], field.name) for field in fields(AgentConfig)}
    width = world.actions.shape[1] // len(world.agents)
    actions = world.actions[:, agent * width :][:, :width]
    return replace(world, config=replace(world.config, **own), others=(), actions=actions)


@given(world=worlds(max_agents=3, execution=Execution(), costs=replace(FREE, proportional=0.01)))
@examples(40)
def test_agents_that_share_nothing_fare_as_if_alone(world: World) -> None:
    world = replace(world, shared_leverage=None, reward_mode="own")
    together = play(world)

    for agent in range(len(world.agents)):
        single = play(alone(world, agent))
        steps = len(single.table)
        assert together.fills(agent)[: len(single.fills())] == single.fills()
        assert np.array_equal(together.of("equity", agent)[:steps], single.of("equity"))
        assert np.array_equal(together.of("reward", agent)[:steps], single.of("reward"))


def test_what_all_want_is_shared_in_proportion() -> None:
    data = market_of([10.0] * 3, volume=[1000.0] * 3)
    config = settings(execution=Execution(participation=0.5))
    actions = np.array([[0.9, 0.1, 0.3, 0.7]])

    episode = play(World(data=data, config=config, others=(AgentConfig(),), actions=actions))

    assert [fill[2] for agent in (0, 1) for fill in episode.fills(agent)] == [375.0, 125.0]


def test_everybody_pays_for_the_size_of_all() -> None:
    data = market_of([10.0, 11.0, 10.0, 10.0], volume=[1e4] * 4)
    costs = replace(FREE, impact=1.0)
    config = settings(costs=costs, starts=2)
    wish = [0.5, 0.5]
    one = play(World(data=data, config=config, actions=np.array([wish])))
    two = play(
        World(data=data, config=config, others=(AgentConfig(),), actions=np.array([wish + wish]))
    )

    # Twice the size costs the root of two times as much, each of the two.
    paid = [two.of("impact", agent)[0] for agent in (0, 1)]
    assert paid == pytest.approx([one.of("impact")[0] * 2**0.5] * 2, rel=1e-12)


def test_a_shared_limit_cuts_everybody_alike() -> None:
    config = settings()
    world = World(
        data=market_of([10.0] * 3), config=config, others=(AgentConfig(),),
        actions=np.array([[0.9, 0.1, 0.3, 0.7]]), shared_leverage=0.3,
    )  # fmt: skip

    episode = play(world)

    assert episode.of("gross", 0)[0] == pytest.approx(45_000.0)
    assert episode.of("gross", 1)[0] == pytest.approx(15_000.0)


def test_what_the_ruined_hold_takes_nothing_from_the_others() -> None:
    short = AgentConfig(
        account=MarginAccount(leverage=4.0, maintenance=0.25), constraints=LONG_SHORT
    )
    data = market_of([10.0, 10.0, 20.0, 20.0, 20.0], open_=[10.0, 10.0, 10.0, 20.0, 20.0])
    world = World(
        data=data, config=settings(costs=Costs(proportional=0.0, half_spread=0.0)), others=(short,),
        actions=np.array([[0.0, 1.0, -2.0, 3.0], [0.0, 1.0, -2.0, 3.0], [0.5, 0.5, 0.0, 1.0]]),
        shared_leverage=2.0,
    )  # fmt: skip

    episode = play(world)

    assert episode.of("equity", 1)[1] <= 0.0
    assert episode.of("gross", 0)[2] == pytest.approx(50_000.0)
