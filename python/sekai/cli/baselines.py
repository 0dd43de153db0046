"""Who agents are judged beside."""

from __future__ import annotations

__all__ = ["baselines_for"]


def baselines_for(id: str) -> list[str]:
    """Who agents in an env can be judged beside: first those who are if nobody is named."""
    from sekai.evaluation.arena import arena_of
    from sekai.evaluation.baselines import baseline_names
    from sekai.evaluation.tasks import task_of

    task = task_of(arena_of(id))
    others = [name for name in baseline_names(task.name) if name not in task.baselines]
    return [*task.baselines, *others]
