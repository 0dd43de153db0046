"""What other processes do for the tests of keeping."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sekai.training import A2C, PPO, Agent, Callback, Checkpoint, EarlyStopping, latest_checkpoint
from sekai.training.kept_file import read_file, write_file

KINDS: dict[str, type[Agent]] = {"PPO": PPO, "A2C": A2C}
ENVS = ("MarketMaking-v0", "Portfolio-v0")
ITERATIONS = 6
CUT = 3


def agent(kind: str, env: str) -> Agent:
    """A small agent of whom everything that can be set is in use."""
    small: dict[str, Any] = {
        "num_envs": 3, "rollout_steps": 8, "policy": {"hidden": (8,)}, "risk": "cvar",
        "learning_rate_schedule": "linear", "entropy_weight": 0.01,
    }  # fmt: skip
    return KINDS[kind](env, seed=5, **small)


def callbacks() -> list[Callback]:
    """What has a state of its own."""
    return [EarlyStopping("loss_critic", mode="min", patience=1000, restore_best=True)]


def digest(one: Agent) -> str:
    """Everything that was learnt, in a few letters."""
    found = hashlib.sha256()
    for name, value in sorted(one.network.state_dict().items()):
        found.update(name.encode() + value.numpy().tobytes())
    for state in one.optimiser.state_dict()["state"].values():  # type: ignore[attr-defined]
        for name, value in sorted(state.items()):
            found.update(name.encode() + np.asarray(value).tobytes())
    return found.hexdigest()


class Killed(Callback):
    """Ends the process as nobody can prevent."""

    def after_iteration(self, agent: Any, metrics: Any) -> None:
        if agent.iterations == CUT:
            os.kill(os.getpid(), signal.SIGKILL)


def planned(one: Agent) -> int:
    return ITERATIONS * one.iteration_steps


def train(folder: Path, kind: str, env: str) -> str:
    """Train without a break."""
    one = agent(kind, env)
    return digest(one.fit(planned(one), callbacks()))


def train_and_die(folder: Path, kind: str, env: str) -> str:
    """Train in a process that is killed after a checkpoint, and before the next."""
    child = os.fork()
    if child == 0:
        one = agent(kind, env)
        keeper = Checkpoint(folder / f"{kind}-{env}", every=1)
        one.fit(planned(one), [*callbacks(), keeper, Killed()])
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return str(os.WTERMSIG(status))


def go_on(folder: Path, kind: str, env: str) -> str:
    """Train on from what the killed process left."""
    path = latest_checkpoint(folder / f"{kind}-{env}")
    assert path is not None
    one = KINDS[kind].resume(path)
    return digest(one.fit(planned(one) - one.steps, callbacks()))


def kill_writers(folder: Path) -> str:
    """Kill processes while they write; tell what was found of the file each time."""
    versions = [{"is": name, "numbers": np.full(300_000, name)} for name in (0, 1)]
    path = write_file(folder / "kept", versions[0])
    rng, found = random.Random(3), []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            while True:
                for version in versions:
                    write_file(path, version)
        time.sleep(0.02 + 0.1 * rng.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        content = read_file(path)
        is_whole = bool((content["numbers"] == content["is"]).all())
        found.append(f"{content['is']}{'' if is_whole else '!'}")
    halves = len(list((folder / "kept").iterdir())) - 1
    return f"{''.join(found)} {halves}"


def main(task: str, folder: Path) -> None:
    """Do a task for every kind of agent and env, and write down how it went."""
    tasks: dict[str, Callable[[Path, str, str], str]] = {
        "train": train, "train_and_die": train_and_die, "go_on": go_on,
    }  # fmt: skip
    if task == "kill_writers":
        lines = [kill_writers(folder)]
    else:
        lines = [tasks[task](folder, kind, env) for kind in KINDS for env in ENVS]
    (folder / f"{task}.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
