"""Orders of an env equal the weights of `project_weights`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.market import CashAccount, Constraints, MarginAccount, project_weights
from tests.envs.portfolio_draws import examples
from tests.envs.portfolio_worlds import Floats, World, mandates, market_of, play, settings
from tests.envs.reference_account import mandate_of

ASSETS = 4
SECTORS = {"A0": "S0", "A1": "S1", "A2": "S0"}


def flat(rows: int = 5, halted: int | None = None) -> MarketData:
    tradable = np.ones((rows, ASSETS), np.bool_)
    if halted is not None:
        tradable[2, halted] = False
    return market_of(np.full((rows, ASSETS), 10.0), sectors=SECTORS, tradable=tradable)


@given(
    data=st.data(),
    account=st.sampled_from([CashAccount(), MarginAccount(leverage=2.0)]),
    wanted=st.lists(st.floats(-3, 3), min_size=ASSETS + 1, max_size=ASSETS + 1),
)
@examples(150)
def test_held_weights_become_the_nearest_that_are_allowed(
    data: st.DataObject, account: CashAccount | MarginAccount, wanted: list[float]
) -> None:
    panel = flat()
    constraints = data.draw(mandates(panel, account))
    config = settings(account=account, constraints=constraints)
    actions = np.array([wanted, np.roll(wanted, 1)])

    held = play(World(data=panel, config=config, actions=actions)).weights()

    is_margin = isinstance(account, MarginAccount)
    mandate = mandate_of(constraints, panel, is_margin, account.leverage)
    before = np.append(np.zeros(ASSETS), 1.0)
    for action, found in zip(actions, held, strict=True):
        allowed: Floats = project_weights(action, before, **mandate).weights
        # Changes below a millionth are not traded.
        np.testing.assert_allclose(found, allowed, atol=ASSETS * 1e-6)
        before = found


def test_halted_assets_keep_their_weight_and_the_others_make_room() -> None:
    constraints = Constraints(max_weight=0.5)
    begun, wish = [0.5, 0.2, 0.2, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]
    actions = np.array([begun, begun, wish])
    config = settings(constraints=constraints)
    world = World(data=flat(halted=0), config=config, actions=actions)

    held = play(world).weights()

    movable = [False, True, True, True]
    wanted = project_weights(wish, held[1], movable, upper=0.5).weights
    assert held[2] == pytest.approx(wanted, abs=1e-9)
    assert held[2] == pytest.approx([0.5, 0.5, 0.0, 0.0, 0.0], abs=1e-9)
