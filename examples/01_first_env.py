"""Custom environment: define it, run the checker, and play it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai

DAYS = 252


class Reversion(sekai.Env[Any, Any]):
    """Trade a mean-reverting spread: short, flat or long, with a cost per change."""

    def __init__(self, cost: float = 0.02) -> None:
        self.cost = cost
        # Observation: the spread and the position. Action: the next position.
        self.observation_space = sekai.Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
        self.action_space = sekai.Discrete(3, start=-1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Any]:
        self._set_rng(seed)  # draw from `self.rng` only: the same seed, the same episode
        self._spread, self._position, self._day = float(self.rng.normal()), 0, 0
        return sekai.ResetResult(self._observe(), info={})

    def step(self, action: Any) -> sekai.StepResult[Any]:
        before, turnover = self._spread, abs(int(action) - self._position)
        self._position, self._day = int(action), self._day + 1
        self._spread = 0.95 * self._spread + 0.3 * float(self.rng.normal())
        reward = self._position * (self._spread - before) - self.cost * turnover
        # There is no ruin, so nothing terminates; after a year the episode is truncated.
        is_over = self._day == DAYS
        return sekai.StepResult(self._observe(), reward, False, is_over, {"turnover": turnover})

    def _observe(self) -> NDArray[np.float64]:
        return np.array([self._spread, self._position], dtype=np.float64)


def against_the_spread(observation: NDArray[np.float64]) -> int:
    """Go short above a high spread, long below a low one, and hold in between."""
    spread, position = observation
    return -1 if spread > 0.5 else 1 if spread < -0.5 else int(position)


def play(env: Reversion, seed: int, choose: Any) -> float:
    """Play one episode and return the sum of its rewards."""
    result: Any = env.reset(seed=seed)
    earned, is_over = 0.0, False
    while not is_over:
        result = env.step(choose(result.observation))
        earned, is_over = earned + result.reward, result.done
    return earned


def main() -> None:
    """Check the env, then compare a rule with random actions."""
    env = Reversion()
    issues = sekai.check_env(env, n_steps=600)
    print("check_env:", issues or "no issues (spaces, seeds, types, aliasing, async, state)")

    env.action_space.seed(0)
    rules = {"random": lambda _: env.action_space.sample(), "reversion": against_the_spread}
    print(f"\n{'rule':<12}{'mean of 40 years':>18}{'± error':>10}")
    for name, choose in rules.items():
        earned = [play(env, seed, choose) for seed in range(40)]
        print(f"{name:<12}{np.mean(earned):>+18.2f}{np.std(earned) / np.sqrt(40):>10.2f}")


if __name__ == "__main__":
    main()
