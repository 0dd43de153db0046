"""PPO throughput against stable-baselines3 and a single-file PPO, and time by phase.

Medians of interleaved repeats of CPU time, since the machine is shared; wall time to a score. All
train on the same native env, with the same actor and critic: two layers of 64 units, tanh.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import stable_baselines3
import torch

import sekai
import training_race
from measure import interleaved, medians, show
from plain_ppo import PlainPPO, PlainSettings
from sekai.compat import to_stable_baselines3
from sekai.training import PPO
from sekai.training.native_rollout import Implementation
from sekai.vector import VecEnv
from training_phases import phases_of
from training_race import race
from training_ray import show_ray
from training_score import GOAL, seconds_to_goal

ENV = "MarketMaking-v0"
EPOCHS = 4
RATE = 3e-4


@dataclass(frozen=True)
class Size:
    """Size of a rollout and its minibatches."""

    envs: int
    rollout_steps: int
    minibatches: int

    @property
    def samples(self) -> int:
        """Env-steps per iteration."""
        return self.envs * self.rollout_steps

    def __str__(self) -> str:
        part = self.samples // self.minibatches
        return f"{self.envs} envs x {self.rollout_steps} steps, {EPOCHS} epochs of {part:,}"


SIZES = (Size(64, 128, 4), Size(64, 32, 8), Size(1024, 16, 8))


def envs_of(size: Size) -> VecEnv:
    """Create the vector env, with one thread."""
    return sekai.make_vec(ENV, size.envs, copy=False, num_threads=1)


def ours(size: Size, normalise: bool, mode: Implementation = "auto") -> PPO:
    """PPO of sekai."""
    policy = {"backbone": "mlp", "norm_obs": normalise}
    return PPO(
        envs_of(size), policy=policy, norm_reward=normalise, n_steps=size.rollout_steps,
        n_epochs=EPOCHS, batch_size=size.samples // size.minibatches, learning_rate=RATE,
        rollout=mode, update=mode,
    )  # fmt: skip


def theirs(size: Size) -> Any:
    """PPO of stable-baselines3."""
    return stable_baselines3.PPO(
        "MlpPolicy", to_stable_baselines3(envs_of(size)), device="cpu", n_steps=size.rollout_steps,
        batch_size=size.samples // size.minibatches, n_epochs=EPOCHS, learning_rate=RATE,
    )  # fmt: skip


def subjects(size: Size) -> dict[str, Callable[[], int]]:
    """Return a training run of each implementation; a unit is one env-step."""
    scaled, raw, model = ours(size, True), ours(size, False), theirs(size)
    by_torch = ours(size, False, "torch")
    settings = PlainSettings(
        rollout_steps=size.rollout_steps, epochs=EPOCHS, minibatches=size.minibatches,
        learning_rate=RATE,
    )  # fmt: skip
    plain = PlainPPO(envs_of(size), settings)
    learners: dict[str, Callable[[], object]] = {
        "sekai": lambda: raw.fit(size.samples),
        "sekai, rollouts and updates by torch": lambda: by_torch.fit(size.samples),
        "sekai, observations and rewards normalised": lambda: scaled.fit(size.samples),
        "plain single file": lambda: plain.fit(size.samples),
        "stable-baselines3": lambda: model.learn(size.samples, reset_num_timesteps=False),
    }

    def counted(learn: Callable[[], object]) -> Callable[[], int]:
        def run() -> int:
            learn()
            return size.samples

        return run

    return {name: counted(learn) for name, learn in learners.items()}


def equal_settings(size: Size, repeats: int) -> None:
    """Print env-steps per second of CPU time with the same hyperparameters."""
    found = medians(interleaved(subjects(size), repeats))
    best = found["sekai"]
    rows = [
        [name, f"{1e9 / cost:,.0f}", f"{cost / 1e3:.1f}", f"{cost / best:.2f}x"]
        for name, cost in found.items()
    ]
    show(
        f"PPO, {size} (target: faster than both peers)",
        ["", "steps/CPU s", "us CPU per step", "speed-up of sekai"],
        rows,
    )


def phases(size: Size, iterations: int, mode: Implementation) -> None:
    """Print CPU time by phase of our PPO."""
    agent = ours(size, True, mode)
    agent.fit(size.samples)
    found = phases_of(agent, iterations * size.samples)
    whole = sum(found.values())
    rows = [
        [name, f"{1e3 * seconds / iterations:.1f}", f"{seconds / whole:.1%}"]
        for name, seconds in found.items()
    ]
    rows.append(["all", f"{1e3 * whole / iterations:.1f}", "100.0%"])
    show(f"CPU time by phase, {mode}, {size}", ["", "ms CPU per iteration", "share"], rows)


def time_to_score(goal: str, found: dict[str, list[float]]) -> None:
    """Print wall time to a score, each with tuned hyperparameters."""
    middle = {name: statistics.median(seconds) for name, seconds in found.items()}
    rows = [
        [name, f"{middle[name]:.1f}", ", ".join(f"{one:.1f}" for one in seconds),
         f"{middle[name] / middle['stable-baselines3']:.2f}"]
        for name, seconds in found.items()
    ]  # fmt: skip
    show(
        f"{goal} (target: at most half the time)",
        ["", "seconds, median", "by seed", "of stable-baselines3"],
        rows,
    )


def main() -> None:
    """Run all sections."""
    warnings.simplefilter("ignore")  # a peer's advice on its own settings
    torch.set_num_threads(1)
    for size in SIZES:
        equal_settings(size, repeats=9)
    for size in SIZES[:2]:
        phases(size, 8, "native")
        phases(size, 8, "torch")
    time_to_score(f"{ENV} to a mean wealth of {GOAL}", seconds_to_goal(range(10, 31)))
    time_to_score(f"Portfolio-v0 to {training_race.GOAL} basis points a day", race(range(5)))
    show_ray()


if __name__ == "__main__":
    main()
