"""Step time of vector envs, compared with gymnasium, stable-baselines3 and sekai 0.2.0.

CPU time within one process, wall time with several processes; medians of interleaved repeats, since
the machine is shared. Peers that share our import name run in an interpreter of their own, in the
same run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import sekai
from measure import in_peer, peer_python, show
from sekai.vector import (
    AsyncVecEnv,
    NativeVecEnv,
    NormalizeVecObservation,
    NormalizeVecReward,
    ProcVecEnv,
    RecordVecEpisodeStatistics,
    SyncVecEnv,
    VecEnv,
)

ENVS = 16
WORKERS = 2
EPISODE_STEPS = 100
WALL = time.perf_counter

PEER_SCRIPT = """
import json, sys, time
import numpy as np, sekai
class Quick(sekai.Env):
    def __init__(self):
        self.observation_space = sekai.Box(-1.0, 1.0, shape=(4,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)
        self.shown, self.steps = np.zeros(4, np.float32), 0
    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return sekai.ResetResult(self.shown, {})
    def step(self, action):
        self.steps += 1
        return sekai.StepResult(self.shown, 1.0, False, self.steps >= 100, {})
kind, envs, steps = getattr(sekai, sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
vec = kind([Quick] * envs)
vec.reset(seed=0)
actions, times = np.zeros(envs, np.int64), []
clock = time.process_time if sys.argv[1] == "SyncVecEnv" else time.perf_counter
for repeat in range(4):
    begin = clock()
    for _ in range(steps):
        vec.step(actions)
    times.append((clock() - begin) / steps * 1e6)
vec.close()
print(json.dumps({"us": times[1:]}))
"""


class Quick(sekai.Env[Any, Any]):
    """Env with almost no work and an observation of `numbers` floats."""

    def __init__(self, numbers: int = 4) -> None:
        self.observation_space = sekai.Box(-1.0, 1.0, shape=(numbers,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)
        self._shown = np.zeros(numbers, np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Any]:
        """Start an episode."""
        self._steps = 0
        return sekai.ResetResult(self._shown, {})

    def step(self, action: Any) -> sekai.StepResult[Any]:
        """Count."""
        self._steps += 1
        return sekai.StepResult(self._shown, 1.0, False, self._steps >= EPISODE_STEPS, {})


class GymnasiumQuick(gymnasium.Env[Any, Any]):
    """The same env for gymnasium and stable-baselines3."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._shown = np.zeros(4, np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._steps = 0
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count."""
        self._steps += 1
        return self._shown, 1.0, False, self._steps >= EPISODE_STEPS, {}


class Busy(Quick):
    """Env that computes for 200 microseconds per step."""

    def step(self, action: Any) -> sekai.StepResult[Any]:
        """Compute."""
        until = time.thread_time_ns() + 200_000
        while time.thread_time_ns() < until:
            pass
        return super().step(action)


class Waiting(Quick):
    """Env that waits 20 milliseconds per step."""

    async def async_step(self, action: Any) -> sekai.StepResult[Any]:
        """Wait."""
        await asyncio.sleep(0.02)
        return sekai.StepResult(self._shown, 1.0, False, False, {})


class StillBatch:
    """Native batch that costs one copy, to measure the Python code around it."""

    def __init__(self, num_envs: int, numbers: int, ends: bool) -> None:
        self.num_envs = num_envs
        self._ends = ends
        generator = np.random.default_rng(0)
        self._shown = generator.normal(size=(num_envs, numbers)).astype(np.float32)
        self._rewards = generator.normal(size=num_envs)
        self._steps = 0

    def reset(self, ids: Any, seeds: Any, observations: Any, options: Any) -> None:
        """Start episodes."""
        observations[ids] = self._shown[ids]

    def step(self, actions: Any, observations: Any, *results: Any) -> None:
        """Copy; optionally end one episode in a hundred."""
        rewards, terminated, truncated, finals, _ = results
        self._steps += 1
        np.copyto(observations, self._shown)
        np.copyto(rewards, self._rewards)
        terminated[:] = False
        truncated[:] = False
        if self._ends:
            ended = slice(self._steps % EPISODE_STEPS, None, EPISODE_STEPS)
            truncated[ended] = True
            finals[ended] = self._shown[ended]

    def clone_env(self, source: int, target: int) -> None:
        """Do nothing: all envs are equal."""

    def infos(self) -> dict[str, Any]:
        """Return no infos."""
        return {}

    final_infos = infos
    state_dict = infos

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


def steps_of(
    step: Callable[[], object], count: int, clock: Callable[[], float] = time.process_time
) -> Callable[[], float]:
    """Microseconds per step, over `count` steps."""

    def run() -> float:
        begin = clock()
        for _ in range(count):
            step()
        return (clock() - begin) / count * 1e6

    return run


def in_turn(subjects: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median time of each subject, interleaved so that noise is shared."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for run in subjects.values():
        run()
    for _ in range(rounds):
        for name, run in subjects.items():
            times[name].append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def peer(kind: str, steps: int) -> float:
    """Measure a step of sekai 0.2.0 in its own interpreter."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    return statistics.median(in_peer(python, PEER_SCRIPT, kind, str(ENVS), str(steps))["us"])


def ready(vec: VecEnv) -> Callable[[], object]:
    """Reset a vector env and return a function that steps it."""
    vec.reset(seed=0)
    return partial(vec.step, np.zeros(vec.num_envs, np.int64))


def trivial_envs_in_one_process(rounds: int) -> None:
    """Compare SyncVecEnv with those of the peers."""
    actions = np.zeros(ENVS, np.int64)
    theirs = gymnasium.vector.SyncVectorEnv([GymnasiumQuick] * ENVS)
    theirs.reset(seed=0)
    # The default of our envs: the step that ends an episode also begins the next.
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    same_step = gymnasium.vector.SyncVectorEnv([GymnasiumQuick] * ENVS, autoreset_mode=mode)
    same_step.reset(seed=0)
    dummy = DummyVecEnv([GymnasiumQuick] * ENVS)
    dummy.reset()
    times = in_turn(
        {
            "sekai SyncVecEnv": steps_of(ready(SyncVecEnv([Quick] * ENVS)), 500),
            "gymnasium SyncVectorEnv": steps_of(partial(theirs.step, actions), 500),
            "gymnasium SyncVectorEnv, same step": steps_of(partial(same_step.step, actions), 500),
            "stable-baselines3 DummyVecEnv": steps_of(partial(dummy.step, actions), 500),
            "sekai 0.2.0 SyncVecEnv": partial(peer, "SyncVecEnv", 500),
        },
        rounds,
    )
    show_rates(f"{ENVS} trivial envs in one process (target: 1.2x gymnasium)", times)


def trivial_envs_in_processes(rounds: int) -> None:
    """Compare ProcVecEnv with those of the peers, which have one process per env."""
    actions = np.zeros(ENVS, np.int64)
    theirs = gymnasium.vector.AsyncVectorEnv([GymnasiumQuick] * ENVS)
    theirs.reset(seed=0)
    subproc = SubprocVecEnv([GymnasiumQuick] * ENVS)
    subproc.reset()
    with ProcVecEnv([Quick] * ENVS, num_workers=WORKERS) as vec:
        times = in_turn(
            {
                f"sekai ProcVecEnv, {WORKERS} workers": steps_of(ready(vec), 300, WALL),
                "gymnasium AsyncVectorEnv": steps_of(partial(theirs.step, actions), 100, WALL),
                "stable-baselines3 SubprocVecEnv": steps_of(
                    partial(subproc.step, actions), 100, WALL
                ),
                "sekai 0.2.0 ProcVecEnv": partial(peer, "ProcVecEnv", 100),
            },
            rounds,
        )
    theirs.close()
    subproc.close()
    show_rates(f"{ENVS} trivial envs in processes (target: 3x the best peer)", times)


def show_rates(title: str, times: Mapping[str, float]) -> None:
    """Print times, rates and ratios to the first subject."""
    ours = next(iter(times.values()))
    rows = [
        [name, f"{us:,.0f}", f"{ENVS / us * 1e6:,.0f}", f"{us / ours:.2f}x"]
        for name, us in times.items()
    ]
    show(title, ["", "us per step", "env-steps/s", "our speed-up"], rows)


def envs_that_compute(rounds: int) -> None:
    """Compare vector envs on expensive envs."""
    with ProcVecEnv([Busy] * ENVS, num_workers=WORKERS) as vec:
        subjects = {
            "sync": steps_of(ready(SyncVecEnv([Busy] * ENVS)), 20, WALL),
            f"proc, {WORKERS} workers": steps_of(ready(vec), 20, WALL),
        }
        times = in_turn(subjects, rounds)
    sync = times["sync"]
    rows = [[name, f"{us:,.0f}", f"{sync / us:.2f}x"] for name, us in times.items()]
    show(
        f"{ENVS} envs of 200 us (target: proc 1.6x sync on two free cores)",
        ["", "us per step", "speed-up"],
        rows,
    )


def envs_that_wait(rounds: int) -> None:
    """Compare vector envs on envs that wait."""
    vec = AsyncVecEnv([Waiting] * 1000)
    (step,) = in_turn({"async": steps_of(ready(vec), 3, WALL)}, rounds).values()
    show(
        "1,000 asyncio envs that wait 20 ms (target: 60 ms per step)",
        ["", "ms per step"],
        [["AsyncVecEnv", f"{step / 1e3:.1f}"]],
    )


def layers(rounds: int) -> None:
    """Measure the overhead of normalization and statistics, with and without episode ends."""
    stacks: dict[str, Callable[[VecEnv], VecEnv]] = {
        "the batch alone": lambda vec: vec,
        "statistics": RecordVecEpisodeStatistics,
        "normalise observation": NormalizeVecObservation,
        "normalise reward": NormalizeVecReward,
        "statistics, observation": lambda vec: NormalizeVecObservation(
            RecordVecEpisodeStatistics(vec)
        ),
        "statistics, observation, reward": lambda vec: NormalizeVecReward(
            NormalizeVecObservation(RecordVecEpisodeStatistics(vec))
        ),
    }
    times = in_turn(
        {
            f"{name}, {ends}": steps_of(ready(wrap(still_vector(ends))), 200)
            for name, wrap in stacks.items()
            for ends in (False, True)
        },
        rounds,
    )
    rows = []
    for name in stacks:
        for ends in (False, True):
            stack, bare = times[f"{name}, {ends}"], times[f"the batch alone, {ends}"]
            rows.append([name, "ten" if ends else "none", f"{stack:,.0f}", f"{stack - bare:,.0f}"])
    show(
        "1,024 envs of 64 floats, same_step autoreset (target: wrappers add less than 150 us)",
        ["wrappers", "endings per step", "CPU us per step", "of which wrappers"],
        rows,
    )


def still_vector(ends: bool) -> VecEnv:
    """Create 1,024 trivial envs; ten episodes end in every step, or none."""
    quick = Quick(64)
    still = StillBatch(1024, 64, ends)
    return NativeVecEnv(still, quick.observation_space, quick.action_space, copy=False)


def cost_against_size(rounds: int) -> None:
    """Measure scaling with the number of envs and the size of observations."""
    rows = []
    for numbers, size in [(4, "16 B"), (1024, "4 KB"), (65536, "256 KB")]:
        for count in (1, 16, 256, 4096):
            if count * numbers > 2**26:
                rows.append([size, f"{count:,}", *["-"] * 5])
                continue
            rows.append([size, f"{count:,}", *sizes(count, numbers, rounds)])
    columns = ["observation", "envs", "sync", "of which envs", "batch", "proc", "proc, copy=False"]
    show("microseconds per step, by size", columns, rows)


def sizes(count: int, numbers: int, rounds: int) -> list[str]:
    """Measure one number of envs and one size of observations."""
    factories = [partial(Quick, numbers)] * count
    steps = max(2, min(200, 20_000 // count, 2**26 // (count * numbers)))
    sync = SyncVecEnv(factories)
    actions = list(np.zeros(count, np.int64))
    with (
        ProcVecEnv(factories, num_workers=WORKERS) as proc,
        ProcVecEnv(factories, num_workers=WORKERS, copy=False) as views,
    ):
        times = in_turn(
            {
                "sync": steps_of(ready(sync), steps),
                "envs": steps_of(partial(step_alone, sync.envs, actions), steps),
                "proc": steps_of(ready(proc), steps, WALL),
                "views": steps_of(ready(views), steps, WALL),
            },
            rounds,
        )
    batch = max(0.0, times["sync"] - times["envs"])
    columns = [times["sync"], times["envs"], batch, times["proc"], times["views"]]
    return [f"{us:,.0f}" for us in columns]


def step_alone(envs: list[Any], actions: list[Any]) -> None:
    """Step envs without a vector env."""
    for env, action in zip(envs, actions, strict=True):
        if env.step(action).done:
            env.reset()


def main() -> None:
    """Run the named comparisons, or all of them."""
    comparisons = {
        "sync": trivial_envs_in_one_process,
        "proc": trivial_envs_in_processes,
        "compute": envs_that_compute,
        "wait": envs_that_wait,
        "layers": layers,
        "sizes": cost_against_size,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(comparisons), help=", ".join(comparisons))
    parser.add_argument("--rounds", type=int, default=9, help="repeats of each measurement")
    arguments = parser.parse_args()
    for name in arguments.names:
        comparisons[name](arguments.rounds)


if __name__ == "__main__":
    main()
