"""`sekai bench`: how fast an env is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sekai.cli.failure import guarded
from sekai.cli.screen import note, show_table
from sekai.registry import spec

if TYPE_CHECKING:
    from sekai.vector.make_vec import Mode

__all__ = ["EXAMPLES", "Speed", "bench", "speed_of"]

EXAMPLES = ("sekai bench Trading-v0", "sekai bench Portfolio-v0 --envs 256 --seconds 5")

DRAWN = 16
"""Batches of actions that are drawn beforehand, so that drawing them is not timed."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What was timed."""

    mode: str
    envs: int
    steps: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Steps of single envs in a second."""
        return self.steps / self.seconds


@guarded
def bench(
    id: Annotated[str, typer.Argument(help="The id of an env, see `sekai list`.")],
    envs: Annotated[int, typer.Option(min=1, help="Envs that act together.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each way is timed.")] = 2.0,
) -> None:
    """Count steps in a second with random actions: as a native batch, and one env after another."""
    known = spec(id)
    modes: list[Mode] = ["sync"] if known.vector_entry_point is None else ["native", "sync"]
    rows = []
    for mode in modes:
        note(f"{id}: {envs} envs, {mode}, {seconds:g} s")
        found = speed_of(id, mode, envs, seconds)
        rows.append((found.mode, f"{found.envs}", f"{found.steps:,}", f"{found.per_second:,.0f}"))
    show_table(("mode", ">envs", ">steps", ">steps/s"), rows)


def speed_of(id: str, mode: Mode, envs: int, seconds: float) -> Speed:
    """Step envs for so long."""
    from sekai.vector.make_vec import make_vec

    vec: Any = make_vec(id, envs, mode, copy=False)
    with vec:
        vec.reset(seed=0)
        actions = [_drawn(vec) for _ in range(DRAWN)]
        for action in actions:
            vec.step(action)
        steps, begun = 0, time.perf_counter()
        while (passed := time.perf_counter() - begun) < seconds:
            vec.step(actions[steps % DRAWN])
            steps += 1
    return Speed(mode, envs, steps * envs, passed)


def _drawn(vec: Any) -> Any:
    from sekai.spaces.batch import batch_space
    from sekai.vector.multi_agent import MultiAgentVecEnv

    if isinstance(vec, MultiAgentVecEnv):
        spaces = vec.action_spaces
        return {name: batch_space(one, vec.num_envs).sample() for name, one in spaces.items()}
    return vec.batched_action_space.sample()
