"""Order sizing of several agents, in units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import InvalidActionError, ResetRequired
from sekai.market import Execution
from tests.data.holed_panels import make_panel
from tests.envs.agents_apart import AGENTS, alone, play_on, together, weights

SIZED: dict[str, Any] = {"execution": Execution(sizing="decision"), "starts": 15}


def test_each_agent_orders_what_it_orders_alone_and_nothing_moves() -> None:
    env = together(**SIZED)
    singles = {name: alone(name, **SIZED) for name in AGENTS}
    rng = np.random.default_rng(0)
    for one in (env, *singles.values()):
        one.reset(seed=0)  # type: ignore[attr-defined]

    for _ in range(20):
        drawn = dict(zip(AGENTS, weights(rng, 3), strict=True))
        alive = {name: drawn[name] for name in env.agents}
        before = env.batch.state_dict()
        orders = env.orders(alive)
        assert env.batch.state_dict() == before
        assert list(orders) == env.agents
        for name, units in orders.items():
            assert units.tobytes() == singles[name].orders(drawn[name]).tobytes()
            singles[name].step(drawn[name])
        env.step(alive)

    assert len(env.agents) == 2


@pytest.mark.parametrize("agents", [["only"], ["one", "two"]])
def test_free_places_are_not_among_the_orders(agents: list[str]) -> None:
    env = together(make_panel(rows=40, assets=3, seed=1, holes=0.0), slots=2, agents=agents,
                   features=("log_return",), **SIZED)  # fmt: skip
    env.reset(seed=0)

    orders = env.orders({name: np.full(6, 1 / 6) for name in env.agents})

    assert {name: units.shape for name, units in orders.items()} == dict.fromkeys(agents, (3,))


def test_tilts_are_orders_too() -> None:
    env = together(action="tilts", tilt=0.2, agents=3, **SIZED)
    env.reset(seed=0)

    orders = env.orders({name: [2, 1, 2] for name in env.agents})

    assert all(units[0] > 0 and units[2] > 0 for units in orders.values())


def test_what_cannot_be_ordered_is_refused() -> None:
    env, unsized = together(**SIZED), together()
    shares = {name: np.full(4, 0.25) for name in AGENTS}
    with pytest.raises(ResetRequired):
        env.orders(shares)
    env.reset(seed=0)
    unsized.reset(seed=0)

    with pytest.raises(ValueError, match="sizing"):
        unsized.orders(shares)
    with pytest.raises(InvalidActionError, match=r"agents \['plain', 'bold', 'rich'\], got"):
        env.orders({"plain": np.full(4, 0.25)})
    with pytest.raises(InvalidActionError, match="'rich'.* shape"):
        env.orders({**shares, "rich": np.full(3, 0.25)})
    with pytest.raises(InvalidActionError):
        env.orders({**shares, "rich": np.full(4, np.nan)})
    play_on(env, 20)
    with pytest.raises(InvalidActionError, match="'bold'"):
        env.orders(shares)
