"""A paper broker equals the env bit for bit, for any rules."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sekai.data import Bar
from sekai.envs import Portfolio
from sekai.live.account import BrokerAccount
from sekai.live.orders import BrokerOrder
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from tests.envs.streamed_worlds import LOOKBACK
from tests.live.test_paper_account import chosen, decided_worlds


class OrderClient:
    """Submits the orders of an env by id, as a session does."""

    def __init__(self, env: Portfolio) -> None:
        self.broker = PaperBroker.like(env)
        self.open: dict[str, set[str]] = {asset: set() for asset in env.assets}

    async def order(self, number: int, orders: Mapping[str, float]) -> None:
        for asset, units in orders.items():
            if units == 0.0:
                for order_id in self.open[asset]:
                    await self.broker.cancel(order_id)
            else:
                order = BrokerOrder(
                    id=f"{number}-{asset}", asset=asset, units=units, reference_price=1.0
                )
                await self.broker.submit(order)
                self.open[asset].add(order.id)

    async def see(self, bar: Bar) -> BrokerAccount:
        await self.broker.see(bar)
        return await self.broker.account()


def assert_same(found: BrokerAccount, paper: PaperAccount) -> None:
    assert (found.cash, found.units) == (paper.cash, paper.units)
    assert found.costs == paper.costs
    standing = {asset: units for asset, units in paper.open_units.items() if units}
    assert dict(found.open_units) == standing


@given(world=decided_worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_a_broker_like_an_env_has_the_account_that_the_env_would_have(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data = world.pop("data")
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    env = Portfolio(data=data.rows(0, start + 1), stream=True, episode_rows=None, **world)
    assume(env.reset(seed=seed).info["time_index"] == start)
    paper, client = PaperAccount.like(env), OrderClient(env)
    rng = np.random.default_rng(seed)

    async def session() -> None:
        bars, is_done, decisions = list(Bar.each(data, start + 1)), False, 0
        while bars and not is_done:
            action, decisions = chosen(rng, world, len(data.assets)), decisions + 1
            units = env.orders(action)
            orders = {
                asset: wanted
                for asset, wanted in zip(env.assets, units.tolist(), strict=True)
                if not np.isnan(wanted)
            }
            await client.order(decisions, orders)
            while bars and env.batch.waits():
                bar = bars.pop(0)
                paper.advance(bar, orders)
                assert_same(await client.see(bar), paper)
                env.report(paper.report())
                env.push(bar)
                orders = {}
            is_done = env.batch.waits() or env.step(action).done

    asyncio.run(session())
