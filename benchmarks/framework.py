"""Step overhead of the framework, compared with gymnasium and PyPI's sekai 0.2.0.

The env does nothing, so the measurement is the overhead of the framework: the result object, then
wrappers. Peers that share our import name run in an interpreter of their own, in turn with ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers as gymnasium_wrappers

import sekai
from measure import in_peer, interleaved, medians, peer_python, show

STEPS = 20_000
ROUNDS = 5
TARGETS = {"bare": 0.25, "bare, keywords": 0.25, "limit + statistics": 0.7, "+ normalise": 8.0}
OBSERVATION = np.linspace(-1.0, 1.0, 8, dtype=np.float32)

PEER_SCRIPT = """
import json, sys, time
import numpy as np, sekai
observation = np.linspace(-1.0, 1.0, 8, dtype=np.float32)
class Still(sekai.Env):
    def __init__(self):
        self.observation_space = sekai.Box(-np.inf, np.inf, shape=(8,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return sekai.ResetResult(observation, {})
    def step(self, action):
        return sekai.StepResult(observation, 1.0, False, False, {})
def limited():
    return sekai.RecordEpisodeStatistics(sekai.TimeLimit(Still(), 1000))
def normalised():
    return sekai.NormalizeReward(sekai.NormalizeObservation(limited()))
def keywords():
    class Named(Still):
        def step(self, action):
            return sekai.StepResult(observation, 1.0, terminated=False, truncated=False, info={})
    return Named()
makers = {"bare": Still, "bare, keywords": keywords, "limit + statistics": limited,
          "+ normalise": normalised}
steps, times = int(sys.argv[1]), {}
for name, make in makers.items():
    env = make(); env.reset(seed=0)
    for repeat in range(4):
        begin = time.process_time_ns()
        for _ in range(steps):
            if env.step(0).done:
                env.reset()
        times.setdefault(name, []).append((time.process_time_ns() - begin) / steps)
print(json.dumps({name: values[1:] for name, values in times.items()}))
"""


class Still(sekai.Env[Any, Any]):
    """Env that does nothing."""

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-np.inf, np.inf, shape=(8,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Any]:
        """Start an episode."""
        return sekai.ResetResult(OBSERVATION, {})

    def step(self, action: int) -> sekai.StepResult[Any]:
        """Do nothing."""
        return sekai.StepResult(OBSERVATION, 1.0, False, False, {})


class StillByName(Still):
    """The same env, with flags passed by keyword."""

    def step(self, action: int) -> sekai.StepResult[Any]:
        """Do nothing."""
        return sekai.StepResult(OBSERVATION, 1.0, terminated=False, truncated=False, info={})


class GymnasiumStill(gymnasium.Env[Any, Any]):
    """The same env for gymnasium."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return OBSERVATION, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do nothing."""
        return OBSERVATION, 1.0, False, False, {}


def ours_limited() -> sekai.Env[Any, Any]:
    """Env with two wrappers of sekai."""
    return sekai.RecordEpisodeStatistics(sekai.TimeLimit(Still(), 1000))


def ours_normalised() -> sekai.Env[Any, Any]:
    """Env with four wrappers of sekai."""
    return sekai.NormalizeReward(sekai.NormalizeObservation(ours_limited()))


def theirs_limited() -> gymnasium.Env[Any, Any]:
    """Env with the same two wrappers of gymnasium."""
    limited = gymnasium_wrappers.TimeLimit(GymnasiumStill(), 1000)
    return gymnasium_wrappers.RecordEpisodeStatistics(limited)


def theirs_normalised() -> gymnasium.Env[Any, Any]:
    """Env with the same four wrappers of gymnasium."""
    normalised = gymnasium_wrappers.NormalizeObservation(theirs_limited())
    return gymnasium_wrappers.NormalizeReward(normalised)


OURS = {
    "bare": Still,
    "bare, keywords": StillByName,
    "limit + statistics": ours_limited,
    "+ normalise": ours_normalised,
}
THEIRS = {
    "bare": GymnasiumStill,
    "bare, keywords": GymnasiumStill,
    "limit + statistics": theirs_limited,
    "+ normalise": theirs_normalised,
}


def stepping_ours(env: sekai.Env[Any, Any]) -> Callable[[], int]:
    """Return a run of steps that tests the end of the episode after each."""
    env.reset(seed=0)

    def run() -> int:
        for _ in range(STEPS):
            if env.step(0).done:
                env.reset()
        return STEPS

    return run


def stepping_theirs(env: gymnasium.Env[Any, Any]) -> Callable[[], int]:
    """Return the same run with gymnasium's tuples."""
    env.reset(seed=0)

    def run() -> int:
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                env.reset()
        return STEPS

    return run


def main() -> None:
    """Measure and print the table."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0")
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        subjects = {f"ours {name}": stepping_ours(make()) for name, make in OURS.items()}
        subjects |= {f"gymnasium {name}": stepping_theirs(make()) for name, make in THEIRS.items()}
        for subject, values in interleaved(subjects, repeats=3).items():
            times.setdefault(subject, []).extend(values)
        for name, values in in_peer(python, PEER_SCRIPT, str(STEPS)).items():
            times.setdefault(f"0.2.0 {name}", []).extend(values)
    middle = medians(times)
    rows = []
    for name, target in TARGETS.items():
        ours, theirs, old = (middle[f"{stack} {name}"] for stack in ("ours", "gymnasium", "0.2.0"))
        spread = statistics.quantiles(times[f"ours {name}"], n=4)
        rows.append(
            [
                name,
                f"{ours:,.0f} ({spread[0]:,.0f}-{spread[2]:,.0f})",
                f"{theirs:,.0f}",
                f"{old:,.0f}",
                f"{theirs / ours:.2f}x",
                f"{theirs / old:.2f}x",
                f"{target:.2f}x",
            ]
        )
    show(
        "One step, ns of CPU time (median; ours with quartiles). Ratio: speed against gymnasium",
        ["stack", "sekai", "gymnasium", "sekai 0.2.0", "ratio", "0.2.0's ratio", "target"],
        rows,
    )


if __name__ == "__main__":
    main()
