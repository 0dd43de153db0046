"""Checks that the async methods do what the sync methods do."""

from __future__ import annotations

from sekai.core import aio
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.rollout import Comparison, replay_async

__all__ = ["check_async_path"]


def check_async_path(inspection: Inspection) -> None:
    """`async_reset` and `async_step` give what `reset` and `step` gave."""
    comparison = aio.run(_compared(inspection))
    if comparison.hard is not None:
        inspection.report.error(
            "async", f"the async path disagrees with the sync path: {comparison.hard}"
        )
    elif comparison.soft is not None:
        inspection.report.warn(
            "async info", f"the async path gives another info than the sync path: {comparison.soft}"
        )


async def _compared(inspection: Inspection) -> Comparison:
    comparison = Comparison()
    recorded = iter(inspection.events)
    async for event in replay_async(inspection.subject, inspection.events):
        if not comparison.add(next(recorded), event):
            break
    return comparison
