"""All tasks with known optima, by name."""

from __future__ import annotations

from tests.training.optima.growth import KELLY, MERTON_LOG, MERTON_POWER
from tests.training.optima.markets import EXECUTION, MARKET_MAKING
from tests.training.optima.task import Task
from tests.training.optima.teams import SPREAD, TWO_STEP

__all__ = ["TASKS"]

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        KELLY,
        MERTON_LOG,
        MERTON_POWER,
        EXECUTION,
        MARKET_MAKING,
        TWO_STEP,
        SPREAD,
    )
}
