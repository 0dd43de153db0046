"""One file a task: what an episode of it consists of, and what it is judged by."""

from __future__ import annotations

from sekai.evaluation.arena import Arena
from sekai.evaluation.tasks.task import Task

__all__ = ["task_of"]


def task_of(arena: Arena) -> Task:
    """What is played there; any env that is not known is judged by its rewards."""
    if arena.kind == "Portfolio":
        from sekai.evaluation.tasks.portfolio import PortfolioTask

        return PortfolioTask(arena)
    if arena.kind == "MultiPortfolio":
        from sekai.evaluation.tasks.multi_portfolio import MultiPortfolioTask

        return MultiPortfolioTask(arena)
    if arena.kind == "Trading":
        from sekai.evaluation.tasks.trading import TradingTask

        return TradingTask(arena)
    if arena.kind == "MarketMaking":
        from sekai.evaluation.tasks.market_making import MarketMakingTask

        return MarketMakingTask(arena)
    if arena.kind == "OptimalExecution":
        from sekai.evaluation.tasks.execution import ExecutionTask

        return ExecutionTask(arena)
    if arena.kind == "OrderExecution":
        from sekai.evaluation.tasks.order_execution import OrderExecutionTask

        return OrderExecutionTask(arena)
    return Task(arena)
