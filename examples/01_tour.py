"""A tour: write an env, check it, wrap it, run many, look at the outcome; then trade a market."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel
from rich.progress import track
from rich.syntax import Syntax
from rich.table import Table

import sekai

Policy = Callable[[NDArray[Any]], NDArray[Any]]
console = Console(width=100, highlight=False)
EPISODES, ENVS, DAYS = 256, 64, 252
BOOKS, TICKS = 256, 500


class Reversion(sekai.Env[Any, Any]):
    """Hold or leave a spread that wanders and returns to zero; changing one's mind costs."""

    def __init__(self, cost: float = 0.02) -> None:
        self.cost = cost
        self.observation_space = sekai.Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
        self.action_space = sekai.Discrete(3, start=-1)  # short, flat, long

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Any]:
        self._set_rng(seed)
        self._spread, self._position = float(self.rng.normal()), 0
        return sekai.ResetResult(self._observe(), info={})

    def step(self, action: Any) -> sekai.StepResult[Any]:
        before, turnover = self._spread, abs(int(action) - self._position)
        self._position = int(action)
        self._spread = 0.95 * self._spread + 0.3 * float(self.rng.normal())
        profit = self._position * (self._spread - before) - self.cost * turnover
        return sekai.StepResult(self._observe(), profit, False, False, {"turnover": turnover})

    def _observe(self) -> NDArray[np.float64]:
        return np.array([self._spread, self._position], dtype=np.float64)


def at_random(rng: np.random.Generator) -> Policy:
    """Any position, whatever the spread."""
    return lambda observations: rng.integers(-1, 2, size=len(observations))


def against_the_spread(observations: NDArray[Any]) -> NDArray[Any]:
    """Short what is dear, long what is cheap, and keep the position in between."""
    spread, position = observations[:, 0], observations[:, 1]
    return np.where(spread > 0.5, -1, np.where(spread < -0.5, 1, position)).astype(int)


def play(policy: Policy, name: str) -> list[float]:
    """The returns of many episodes, stepped together."""
    make = lambda: sekai.RecordEpisodeStatistics(sekai.TimeLimit(Reversion(), DAYS))  # noqa: E731
    returns: list[float] = []
    with sekai.SyncVecEnv([make] * ENVS) as vec:
        observations = vec.reset(seed=1).observations
        for _ in track(range(DAYS * EPISODES // ENVS), f"   {name:<12}", console=console):
            batch = vec.step(policy(observations))
            observations = batch.observations
            for index in np.flatnonzero(batch.dones).tolist():
                stats = batch.infos[index]["final_info"]["episode"]
                returns.append(stats.episode_return)
    return returns


def trade(choose: Policy) -> NDArray[np.float64]:
    """What each of many accounts earned in a market of its own."""
    profit = np.zeros(BOOKS)
    settings: dict[str, Any] = {"max_ticks": TICKS, "regime": "volatile", "agent": True}
    with sekai.make_vec("Trading-v0", num_envs=BOOKS, **settings) as vec:
        observations = vec.reset(seed=1).observations
        for _ in range(TICKS):
            batch = vec.step(choose(observations))
            observations = batch.observations
            profit += batch.rewards
    return profit


def below_worth(observations: NDArray[Any]) -> NDArray[Any]:
    """Buy far below the fair value, which no real trader sees, and sell when that is over."""
    deviation, position = observations[:, 47], observations[:, 54]
    sells = (deviation > 1e-3) | ((position > 0) & (deviation > 0))
    buys = (deviation < -1e-3) | ((position < 0) & (deviation < 0))
    return np.where(sells, 0, np.where(buys, 2, 1))


def trade_in_a_market() -> None:
    """Rules in the same 256 markets, and how fast those are."""
    rng = np.random.default_rng(0)
    rules: dict[str, Policy] = {
        "hold": lambda observations: np.ones(len(observations), np.int64),
        "random": lambda observations: rng.integers(0, 3, len(observations)),
        "below worth": below_worth,
    }
    begin = time.perf_counter()
    profits = {name: trade(rule) for name, rule in rules.items()}
    speed = len(rules) * BOOKS * TICKS / (time.perf_counter() - begin)
    table = Table("rule", "profit ± error", "accounts that gained")
    for name, profit in profits.items():
        error = profit.std() / np.sqrt(BOOKS)
        table.add_row(name, f"{profit.mean():+.2f} ± {error:.2f}", f"{(profit > 0).mean():.0%}")
    console.print(table)
    console.print(f"   {speed:,.0f} env-steps a second; spread and fees are paid")


def histogram(values: list[float], low: float, high: float) -> str:
    """A row of bars."""
    counts, _ = np.histogram(values, bins=40, range=(low, high))
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)


def main() -> None:
    """Tell the story."""
    console.print(Panel.fit("[bold]sekai[/bold] · an environment from nothing to statistics"))
    console.print("\n[bold]1. Write it[/bold]: two spaces, two methods, typed results")
    console.print(Syntax(inspect.getsource(Reversion), "python", theme="ansi_dark"))

    console.print("[bold]2. Check it[/bold]: sekai.check_env(Reversion())")
    issues = sekai.check_env(Reversion(), n_steps=300)
    console.print(f"   {issues or 'no issues'}: seeds, types, aliasing, async, state")

    console.print("\n[bold]3. Wrap it[/bold]: a trading year per episode, statistics at its end")
    env = sekai.RecordEpisodeStatistics(sekai.TimeLimit(Reversion(), DAYS))
    console.print(f"   {env}")

    console.print(f"\n[bold]4. Vectorise it[/bold]: {ENVS} at once, {EPISODES} episodes a policy")
    begin = time.perf_counter()
    outcomes = {
        "random": play(at_random(np.random.default_rng(0)), "random"),
        "reversion": play(against_the_spread, "reversion"),
    }
    speed = 2 * EPISODES * DAYS / (time.perf_counter() - begin)
    console.print(f"   {speed:,.0f} env-steps a second in one process, progress bar included")

    console.print("\n[bold]5. Look at it[/bold]: what an episode earned")
    low, high = min(map(min, outcomes.values())), max(map(max, outcomes.values()))
    table = Table("policy", "mean ± error", "episodes", f"from {low:+.0f} to {high:+.0f}")
    for name, returns in outcomes.items():
        error = np.std(returns) / np.sqrt(len(returns))
        mean = f"{np.mean(returns):+.2f} ± {error:.2f}"
        table.add_row(name, mean, str(len(returns)), histogram(returns, low, high))
    console.print(table)

    console.print(f"\n[bold]6. Trade a market[/bold]: {BOOKS} books, 100 traders in each, in Rust")
    trade_in_a_market()
    console.print("Next: docs/market.md, examples/02_market.py for pictures, or `make test`.")


if __name__ == "__main__":
    main()
