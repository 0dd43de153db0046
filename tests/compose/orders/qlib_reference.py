"""Works orders by Qlib itself: its exchange, its nested executors, its TWAP strategy.

Run as a program of its own, since Qlib's settings belong to the whole process: it reads cases
from the standard input and prints the fills of each, both as JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

START, END = "2020-01-03 09:30", "2020-01-03 14:59"


def main() -> None:
    """Answer on the standard output."""
    import pandas as pd  # type: ignore[import-untyped]
    import qlib  # type: ignore[import-not-found]
    from qlib.contrib.ops.high_freq import DayCumsum  # type: ignore[import-not-found]

    asked = json.load(sys.stdin)
    qlib.init(
        provider_uri=asked["folders"], region="cn", expression_cache=None, dataset_cache=None,
        redis_port=-1, kernels=1, auto_mount=False, custom_ops=[DayCumsum],
        logging_level=logging.ERROR,
    )  # fmt: skip
    days = pd.to_datetime(["2020-01-03", "2020-01-04"])
    print(json.dumps([fills(case, pd.Series(0.0, index=days)) for case in asked["cases"]]))  # noqa: T201


def fills(case: dict[str, Any], benchmark: Any) -> list[tuple[str, float, float]]:
    """Time, amount and cost of every fill."""
    import pandas as pd
    from qlib.backtest import get_strategy_executor  # type: ignore[import-not-found]
    from qlib.backtest.backtest import collect_data_loop  # type: ignore[import-not-found]
    from qlib.backtest.decision import Order, TradeDecisionWO  # type: ignore[import-not-found]
    from qlib.backtest.executor import (  # type: ignore[import-not-found]
        NestedExecutor,
        SimulatorExecutor,
    )
    from qlib.contrib.strategy.rule_strategy import TWAPStrategy  # type: ignore[import-not-found]
    from qlib.strategy.base import BaseStrategy  # type: ignore[import-not-found]

    class Amounts(BaseStrategy):  # type: ignore[misc]
        def generate_trade_decision(self, execute_result: Any = None) -> Any:
            step = self.trade_calendar.get_trade_step()
            window = self.trade_calendar.get_step_time(step)
            order = Order("AAA", case["amounts"][step], case["direction"], *window)
            return TradeDecisionWO([order], self)

    start, end = pd.Timestamp(START), pd.Timestamp(END)
    inner = SimulatorExecutor("1min", track_data=True)
    nested = NestedExecutor("30min", inner, TWAPStrategy(), track_data=True)
    strategy, executor = get_strategy_executor(
        start, end, Amounts(), nested, benchmark=benchmark,
        account=10**12 if case["cash"] is None else case["cash"],
        exchange_kwargs={"freq": "1min", "codes": ["AAA"], **exchange(case["exchange"])},
        pos_type="InfPosition" if case["cash"] is None else "Position",
    )  # fmt: skip
    seen: list[tuple[str, float, float]] = []
    deal = executor.trade_exchange.deal_order

    def noted(order: Any, *args: Any, **settings: Any) -> Any:
        result = deal(order, *args, **settings)
        seen.append((str(order.start_time), float(order.deal_amount or 0.0), float(result[1])))
        return result

    executor.trade_exchange.deal_order = noted
    for _ in collect_data_loop(start, end, strategy, executor):
        pass
    return seen


def exchange(config: dict[str, Any]) -> dict[str, Any]:
    """A config as Qlib wants it: JSON has lists where Qlib asks for tuples."""
    caps = config.get("volume_threshold")
    tuples = {"volume_threshold": {side: tuple(cap) for side, cap in caps.items()}} if caps else {}
    return {**config, **tuples}


if __name__ == "__main__":
    main()
