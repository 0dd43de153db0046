"""Wrong options of order execution are refused at construction by their own name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import CurrentStepStateInterpreter, DummyStateInterpreter, Order
from tests.compose.orders.days import DATE, order, panel

DATA = panel(3)
LONG = Order("AAA", 900.0, "buy", f"{DATE} 10:30", "2020-01-04 14:00")
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"order_steps": 0}, "order_steps must be at least 1, got 0"),
    ({"order_steps": 2.5}, "order_steps must be a whole number, got 2.5"),
    ({"order_steps": True}, "order_steps must be a whole number, got True"),
    ({"ticks_per_step": "30"}, "ticks_per_step must be a whole number, got '30'"),
    ({"day_ticks": -1}, "day_ticks must be at least 1, got -1"),
    ({"day_ticks": 100}, "AAA has 240 ticks on 2020-01-02, more than day_ticks=100; raise it"),
    ({"amount": 5}, "amount must be two ascending numbers above 0, got 5"),
    ({"amount": (1, 2, 3)}, r"amount must be two ascending numbers above 0, got \(1, 2, 3\)"),
    ({"amount": ("a", "b")}, r"amount must be two ascending numbers above 0, got \('a', 'b'\)"),
    ({"direction": 1}, "direction must be 'buy', 'sell' or None, got 1"),
    ({"action": None}, "action must be"),
    ({"reward": 3}, "reward must be"),
    ({"penalty": float("nan")}, "penalty must be a finite number, got nan"),
    ({"penalty": "a"}, "penalty must be a finite number, got 'a'"),
    ({"action_values": 0}, "action_values must be at least 1, got 0"),
    ({"action_values": ()}, r"action_values must be shares of at least 0, got \[\]"),
    ({"action_values": (-1.0,)}, r"action_values must be shares of at least 0, got \[-1.0\]"),
    ({"action_values": "abc"}, "action_values must be shares of at least 0, got 'abc'"),
    ({"action_values": 2.5}, "action_values must be shares of at least 0, got 2.5"),
    ({"columns": ()}, "columns must have at least one item"),
    ({"columns": "$close"}, r"columns must be a list, got '\$close'"),
    ({"columns": ("$nope",)}, r"unknown column '\$nope'"),
    ({"vol_threshold": -1}, "vol_threshold must be None or a finite number .*, got -1"),
    ({"vol_threshold": "a"}, "vol_threshold must be None or a finite number .*, got 'a'"),
    ({"costs": 3}, "costs must be of type OrderCosts, got 3"),
    ({"simulated": 3}, "simulated must be of type SimulatedMinutes, got 3"),
    ({"deal_price_type": "vwap"}, "deal_price_type must be one of .*, got 'vwap'"),
    ({"assets": []}, "assets must have at least one item"),
    ({"assets": "AAA"}, "assets must be a list, got 'AAA'"),
    ({"days": "2020-01-02"}, "days must be a list, got '2020-01-02'"),
    ({"days": ["2031-01-01"]}, "days="),
    ({"orders": LONG}, "orders must be"),
    ({"orders": ["x"]}, "orders must be"),
    ({"max_step": 3}, "has no option 'max_step'; did you mean"),
    ({"max_episode_steps": 0}, "max_episode_steps must be"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), WRONG)
@pytest.mark.parametrize("id", ["OrderExecution-v0", "BasketExecution-v0"])
@pytest.mark.parametrize("make", [sekai.make, sekai.make_vec])
def test_a_wrong_option_is_named(make: Any, id: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        make(id, **{"data": DATA, **options})


@pytest.mark.parametrize("id", ["OrderExecution-v0", "BasketExecution-v0"])
@pytest.mark.parametrize("make", [sekai.make, sekai.make_vec])
def test_orders_of_too_many_steps_name_the_option_to_raise(make: Any, id: str) -> None:
    orders: Any = [LONG] if id == "OrderExecution-v0" else [[LONG]]

    with pytest.raises(ValueError, match="at most 6 steps.*raise order_steps or") as error:
        make(id, data=DATA, orders=orders)

    assert "max_step" not in str(error.value)


def test_an_interpreter_names_its_own_argument() -> None:
    env = sekai.make(
        "OrderExecution-v0", data=DATA, orders=[order()], state=CurrentStepStateInterpreter(2)
    )

    with pytest.raises(ValueError, match="at most 2 steps.*raise max_step or"):
        env.reset(seed=0)


def test_a_state_is_a_name_or_an_interpreter() -> None:
    states: list[Any] = [3, None, np.zeros(2)]
    for wrong in states:
        with pytest.raises(TypeError, match="state must be one of .* or a StateInterpreter, got"):
            sekai.make("OrderExecution-v0", state=wrong)
    states = [3, "dummy", DummyStateInterpreter()]
    for wrong in states:
        with pytest.raises((TypeError, ValueError), match=r"one of \['full_history', 'current_ste"):
            sekai.make("BasketExecution-v0", state=wrong)
