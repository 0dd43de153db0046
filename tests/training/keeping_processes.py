"""What other processes do for the tests of keeping."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sekai.training import (
    A2C,
    DDPG,
    DQN,
    MADDPG,
    PPO,
    QMIX,
    SAC,
    TD3,
    Agent,
    Callback,
    Checkpoint,
    EarlyStopping,
    RecurrentPPO,
    latest_checkpoint,
)
from sekai.training.checkpoint import read_file, write_file
from tests.training.distributed.walks import picking_walk
from tests.training.games import TwoStep

ITERATIONS = 6
CUT = 3

BOTH: dict[str, Any] = {
    "n_envs": 3,
    "policy": {"net_arch": (8,)},
    "learning_rate_schedule": "linear",
}
ON: dict[str, Any] = {**BOTH, "n_steps": 8, "risk": "cvar", "ent_coef": 0.01}
OFF: dict[str, Any] = {
    **BOTH,
    "steps_per_iteration": 8,
    "learning_starts": 16,
    "batch_size": 8,
    "buffer_size": 100,
}
CASES: dict[str, tuple[type[Agent], str, dict[str, Any]]] = {
    "PPO": (PPO, "MarketMaking-v0", ON),
    "RecurrentPPO": (RecurrentPPO, "MarketMaking-v0", {**ON, "rnn_type": "gru"}),
    "A2C": (A2C, "Portfolio-v0", ON),
    "DDPG": (DDPG, "MarketMaking-v0", {**OFF, "noise_autocorrelation": 0.5}),
    "TD3": (TD3, "MarketMaking-v0", {**OFF, "policy_delay": 3}),
    "SAC": (SAC, "Portfolio-v0", OFF),
    "PPO of several": (PPO, "MultiPortfolio-v0", {**ON, "critic": "central"}),
    "MADDPG": (MADDPG, "MultiPortfolio-v0", OFF),
    "DQN": (DQN, "walk", {**OFF, "dueling": True, "n_quantiles": 4}),
    "QMIX": (QMIX, "two steps", OFF),
}
"""Small agents of whom much that can be set is in use."""


def world(env: str) -> Any:
    """What to learn on, where it is not an id."""
    worlds: dict[str, Callable[[], Any]] = {
        "two steps": lambda: TwoStep(3),
        "walk": lambda: picking_walk,
    }
    return worlds[env]() if env in worlds else env


def agent(case: str) -> Agent:
    """The agent of a case, new."""
    kind, env, settings = CASES[case]
    return kind(world(env), seed=5, **settings)


def callbacks() -> list[Callback]:
    """What has a state of its own."""
    return [EarlyStopping("episode_return", patience=1000, restore_best=True)]


def digest(one: Agent) -> str:
    """Everything that was learnt, in a few letters."""
    found = hashlib.sha256()
    state = one._training_state(envs=True)
    for path, value in leaves({"network": one.network.state_dict(), "learnt": state["learning"]}):
        found.update(path.encode() + np.asarray(value).tobytes())
    return found.hexdigest()


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and array of a state, with where it is."""
    if isinstance(tree, Mapping):
        for key in sorted(tree, key=str):
            yield from leaves(tree[key], f"{path}/{key}")
    elif isinstance(tree, (list, tuple)):
        for place, part in enumerate(tree):
            yield from leaves(part, f"{path}/{place}")
    elif tree is not None:
        yield path, tree


class Killed(Callback):
    """Ends the process as nobody can prevent."""

    def after_iteration(self, agent: Any, metrics: Any) -> None:
        if agent.iterations == CUT:
            os.kill(os.getpid(), signal.SIGKILL)


def planned(one: Agent) -> int:
    return ITERATIONS * one.iteration_steps


def train(folder: Path, case: str) -> str:
    """Train without a break."""
    one = agent(case)
    return digest(one.fit(planned(one), callbacks()))


def train_and_die(folder: Path, case: str) -> str:
    """Train in a process that is killed after a checkpoint, and before the next."""
    child = os.fork()
    if child == 0:
        one = agent(case)
        keeper = Checkpoint(folder / case, every=1)
        one.fit(planned(one), [*callbacks(), keeper, Killed()])
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return str(os.WTERMSIG(status))


def go_on(folder: Path, case: str) -> str:
    """Train on from what the killed process left."""
    path = latest_checkpoint(folder / case)
    assert path is not None
    kind, env, _ = CASES[case]
    one = kind.resume(path, env=None if world(env) == env else world(env))
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
    """Do a task for every case, and write down how it went."""
    tasks: dict[str, Callable[[Path, str], str]] = {
        "train": train,
        "train_and_die": train_and_die,
        "go_on": go_on,
    }
    if task == "kill_writers":
        lines = [kill_writers(folder)]
    else:
        lines = [tasks[task](folder, case) for case in CASES]
    (folder / f"{task}.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
