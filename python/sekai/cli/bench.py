"""`sekai bench`: measure the speed of an env."""

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

EXAMPLES = ("sekai bench Trading-v0", "sekai bench Portfolio-v0 --envs 256 --seconds 5")

ACTION_BATCHES = 16
"""Batches of actions sampled in advance, so that sampling is not timed."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Steps and seconds of one measurement."""

    mode: str
    envs: int
    steps: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Steps of single envs per second."""
        return self.steps / self.seconds


@guarded
def bench(
    id: Annotated[str, typer.Argument(help="Env id, see `sekai list`.")],
    envs: Annotated[int, typer.Option(min=1, help="Number of envs.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.05, help="Duration of each measurement.")] = 2.0,
) -> None:
    """Measure steps per second with random actions, as a native batch and in sync mode."""
    known = spec(id)
    modes: list[Mode] = ["sync"] if known.vector_entry_point is None else ["native", "sync"]
    rows = []
    for mode in modes:
        note(f"{id}: {envs} envs, {mode}, {seconds:g} s")
        speed = speed_of(id, mode, envs, seconds)
        rows.append((speed.mode, f"{speed.envs}", f"{speed.steps:,}", f"{speed.per_second:,.0f}"))
    show_table(("mode", ">envs", ">steps", ">steps/s"), rows)


def speed_of(id: str, mode: Mode, envs: int, seconds: float) -> Speed:
    """Measure the speed of a vector env."""
    from sekai.vector.make_vec import make_vec

    vec: Any = make_vec(id, envs, mode, copy=False)
    with vec:
        vec.reset(seed=0)
        actions = [_sampled(vec) for _ in range(ACTION_BATCHES)]
        for action in actions:
            vec.step(action)
        steps, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            vec.step(actions[steps % ACTION_BATCHES])
            steps += 1
    return Speed(mode, envs, steps * envs, elapsed)


def _sampled(vec: Any) -> Any:
    from sekai.spaces.batch import batch_space
    from sekai.vector.multi_agent import MultiAgentVecEnv

    if isinstance(vec, MultiAgentVecEnv):
        spaces = vec.action_spaces
        return {name: batch_space(space, vec.num_envs).sample() for name, space in spaces.items()}
    return vec.batched_action_space.sample()
