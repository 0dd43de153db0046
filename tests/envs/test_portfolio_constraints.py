"""Constraints of portfolios hold in envs, single and native, as `project_weights` states them."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.market import CashAccount, Constraints, MarginAccount
from tests.envs.portfolio_worlds import Floats, env_of, market_of


def held_weights(data: object, wanted: list[float], **given: object) -> Floats:
    """Weights after one step towards `wanted`."""
    env = env_of(data, **given)  # type: ignore[arg-type]
    env.reset(seed=0)
    weights: Floats = env.step(np.array(wanted)).observation["weights"]
    return weights


def test_a_margin_account_uses_its_leverage_in_one_asset() -> None:
    data = market_of(np.full((4, 1), 10.0))

    held = held_weights(data, [2.0, -1.0], account=MarginAccount(leverage=2.0))

    assert held == pytest.approx([2.0, -1.0])


def test_short_positions_use_the_leverage_of_the_account() -> None:
    data = market_of(np.full((4, 1), 10.0))
    constraints = Constraints(long_short=True)

    held = held_weights(
        data, [-3.0, 4.0], account=MarginAccount(leverage=1.5), constraints=constraints
    )

    assert held == pytest.approx([-1.5, 2.5])


@pytest.mark.parametrize("account", [CashAccount(), MarginAccount(leverage=2.0)])
@pytest.mark.parametrize("cap", [0.5, 1.0, {"A0": 0.5}])
def test_an_explicit_cap_binds(account: CashAccount | MarginAccount, cap: object) -> None:
    data = market_of(np.full((4, 2), 10.0))
    constraints = Constraints(max_weight=cap)  # type: ignore[arg-type]

    held = held_weights(data, [2.0, 0.0, -1.0], account=account, constraints=constraints)

    assert held[0] == pytest.approx(0.5 if isinstance(cap, dict) else cap)


def test_assets_without_a_cap_of_their_own_have_that_of_the_account() -> None:
    data = market_of(np.full((4, 2), 10.0))
    constraints = Constraints(max_weight={"A0": 0.5})

    held = held_weights(
        data, [0.0, 2.0, -1.0], account=MarginAccount(leverage=2.0), constraints=constraints
    )

    assert held == pytest.approx([0.0, 2.0, -1.0])
