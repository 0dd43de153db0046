"""Vector envs of stable-baselines3 and gymnasium train our agents."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from sekai.compat import adapt_vector, from_stable_baselines3, to_gymnasium, to_stable_baselines3
from sekai.compat.stable_baselines3 import ImportedSB3VecEnv
from sekai.core.autoreset import FINAL_OBSERVATION
from sekai.training import PPO, SAC, Checkpoint
from sekai.vector import SyncVecEnv, VecEnv
from sekai.vector.batching import Batcher, StepBuffers
from sekai.wrappers import TimeLimit
from tests.worlds import RandomWalk


def walk() -> Any:
    return to_gymnasium(TimeLimit(RandomWalk(), 5))


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


def test_agents_train_on_vector_envs_of_stable_baselines3(tmp_path: Path) -> None:
    agent = PPO(DummyVecEnv([cart_pole] * 3), n_steps=16)

    agent.fit(96, [Checkpoint(tmp_path, every=1)])

    assert agent.steps == 96
    assert agent.episodes.count > 0
    small: dict[str, Any] = {"learning_starts": 16, "batch_size": 8, "steps_per_iteration": 8}
    wrapped = VecNormalize(VecMonitor(DummyVecEnv([walk] * 2)))
    assert SAC(wrapped, buffer_size=100, **small).fit(64).steps == 64


def test_steps_equal_those_of_the_vector_env_inside() -> None:
    def limited() -> Any:
        return TimeLimit(RandomWalk(), 5)

    plain = SyncVecEnv([limited] * 3)
    there_and_back = ImportedSB3VecEnv(to_stable_baselines3(SyncVecEnv([limited] * 3)))
    begun = [vec.reset(seed=[1, 2, 3]) for vec in (plain, there_and_back)]
    assert np.array_equal(begun[0].observations, begun[1].observations)

    rng = np.random.default_rng(0)
    kinds, batcher = set(), Batcher(plain.observation_space)
    for _ in range(30):
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        rows = StepBuffers.allocate(batcher, 3)
        buffers = dataclasses.replace(rows, final_observations=batcher.allocate(3))
        own, other = plain.step(actions), there_and_back.step(actions, out=buffers)
        assert np.array_equal(own.observations, other.observations)
        assert np.allclose(own.rewards, other.rewards)
        assert np.array_equal(own.terminated, other.terminated)
        assert np.array_equal(own.truncated, other.truncated)
        for index in np.flatnonzero(own.terminated | own.truncated).tolist():
            kinds.add(bool(own.terminated[index]))
            last = own.infos[index][FINAL_OBSERVATION]
            assert np.array_equal(other.infos[index][FINAL_OBSERVATION], last)
            assert np.array_equal(buffers.final_observations[index], last)
    assert kinds == {True, False}


def test_our_own_vector_env_is_unwrapped() -> None:
    vec = SyncVecEnv([RandomWalk])

    assert from_stable_baselines3(to_stable_baselines3(vec)) is vec


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
def test_agents_train_on_sync_vector_envs_of_gymnasium_in_any_mode(mode: AutoresetMode) -> None:
    agents = [
        PPO(vec, n_steps=16, seed=2).fit(64)
        for vec in (
            SyncVectorEnv([cart_pole] * 2, autoreset_mode=mode),
            SyncVectorEnv([cart_pole] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
        )
    ]

    pairs = zip(*(agent.network.parameters() for agent in agents), strict=True)
    assert all(torch.equal(own, other) for own, other in pairs)


def test_agents_train_on_async_vector_envs_of_gymnasium() -> None:
    same = AutoresetMode.SAME_STEP
    vec = AsyncVectorEnv([walk] * 2, autoreset_mode=same)
    agent = PPO(vec, n_steps=16).fit(64)
    agent.close()
    sync = PPO(SyncVectorEnv([walk] * 2, autoreset_mode=same), n_steps=16)

    assert agent.steps == 64
    # Final observations of truncated episodes are known, to bootstrap from.
    assert any(rows["observation"].any() for _, _, rows in agent.rollout.cuts)
    assert isinstance(sync.vec, VecEnv)


def test_modes_that_cannot_train_name_the_remedy() -> None:
    vec = AsyncVectorEnv([cart_pole])

    with pytest.raises(ValueError, match=r"autoreset_mode.*SAME_STEP"):
        PPO(vec)
    vec.close()
    with pytest.raises(ValueError, match="make the vector env with autoreset='same_step'"):
        PPO(SyncVecEnv([RandomWalk], autoreset="next_step"))
    foreign = adapt_vector(DummyVecEnv([walk]))
    with pytest.raises(ValueError, match="pass a function that makes a single env"):
        foreign.reset(ids=[0])


PROGRAM = """
import sys

import gymnasium


def cart_pole():
    return gymnasium.make("CartPole-v1")


if __name__ == "__main__":
    # Imported here, not by the workers.
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecMonitor

    from sekai.training import A2C, Checkpoint

    if sys.argv[1] == "SubprocVecEnv":
        vec = SubprocVecEnv([cart_pole] * 2)
    else:
        vec = AsyncVectorEnv([cart_pole] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    step, count = vec.step_async, 0

    def counted(actions):
        global count
        count += 1
        if count == 100:
            print(*[worker.pid for worker in vec.processes], flush=True)
        step(actions)

    vec.step_async = counted
    # A rollout takes a second or more: the interrupt arrives within one.
    agent = A2C(VecMonitor(vec) if sys.argv[1] == "SubprocVecEnv" else vec, n_steps=1024)
    agent.fit(10**7, [Checkpoint("files", every=10**6)])
"""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["SubprocVecEnv", "AsyncVectorEnv"])
def test_an_interrupt_of_envs_in_processes_ends_as_with_our_own(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")
    # As Ctrl-C on a terminal: the signal reaches the workers too.
    run = subprocess.Popen(
        [sys.executable, script, kind],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    workers = [int(word) for word in run.stdout.readline().split()]
    os.killpg(run.pid, signal.SIGINT)
    _, problems = run.communicate(timeout=120)

    assert problems.rstrip().endswith("KeyboardInterrupt"), problems
    assert "training ends after this iteration" in problems
    assert "Error" not in problems
    assert run.returncode == -signal.SIGINT
    assert [file.suffix for file in (tmp_path / "files").iterdir()] == [".safetensors"]
    assert len(workers) == 2
    wait_until_gone(workers)


def wait_until_gone(processes: list[int]) -> None:
    end = time.monotonic() + 30
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < end, processes
        time.sleep(0.1)


def test_the_remedy_for_vector_envs_that_reset_in_the_next_step_trains() -> None:
    with pytest.raises(ValueError, match="vectorization_mode='sync', vector_kwargs") as refused:
        PPO(gymnasium.make_vec("CartPole-v1", num_envs=2))

    call = str(refused.value).partition("make it by ")[2].partition(", or pass")[0]
    vec = eval(call.replace("(...", "('CartPole-v1', num_envs=2"))
    assert PPO(vec, n_steps=16).fit(32).steps == 32
