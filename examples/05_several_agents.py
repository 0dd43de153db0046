"""Several portfolios in one market: isolated accounts, shared impact."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.data import simulate_regimes
from sekai.envs import AgentConfig
from sekai.market import Costs, Execution
from sekai.rendering import renderer_for, save_gif, save_png

DATA = simulate_regimes(assets=8, rows=600, seed=4)
CASH = {"small": 1e5, "large": 2e7, "patient": 2e7}
DAYS = 120


def choose(name: str, day: int, observation: dict[str, Any]) -> NDArray[np.float64]:
    """Small and large buy last month's winner every day, patient buys and holds all assets."""
    assets = len(observation["mask"])
    if name == "patient":
        held: NDArray[np.float64] = observation["weights"].astype(np.float64)
        return np.append(np.full(assets, 1 / assets), 0.0) if day == 0 else held
    # Channel 0 of the windows is the log return of each day.
    best = np.argsort(observation["windows"][:, :, 0].sum(axis=0))[-2:]
    return np.append(np.isin(np.arange(assets), best) / 2, 0.0)


def play(names: list[str], renderer: Any = None) -> tuple[dict[str, Any], list[Any]]:
    """Play an episode; return growth and costs by agent, and a frame for every sixth day."""
    env: Any = sekai.make(
        "MultiPortfolio-v0", data=DATA, lookback=20, episode_rows=DAYS, starts="sequential",
        agents={name: AgentConfig(initial_cash=CASH[name]) for name in names},
        # At most 5% of a day's volume, shared; impact depends on the total size of all orders.
        execution=Execution(participation=0.05), costs=Costs(impact=0.5),
    )  # fmt: skip
    result, frames, costs = env.reset(seed=0), [], dict.fromkeys(names, 0.0)
    for day in range(DAYS):
        observations = result.observations
        result = env.step({name: choose(name, day, observations[name]) for name in env.agents})
        for name, info in result.info.items():
            costs[name] += info["cost"] / CASH[name]
        if renderer is not None:
            renderer.watch(env)
            frames += [renderer.render(env)] if day % 6 == 5 else []
    growth = {name: info["equity"] / CASH[name] - 1.0 for name, info in result.info.items()}
    return {name: (growth[name], costs[name]) for name in names}, frames


def main() -> None:
    """Compare agents alone and together in one market, and render the episode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/agents"))
    folder = parser.parse_args().folder
    alone = {name: play([name])[0][name] for name in CASH}
    together, frames = play(
        list(CASH), renderer_for("MultiPortfolio-v0", agent="large", ticks=DAYS)
    )
    print(f"{'':<10}{'cash':>12}{'alone':>24}{'together':>24}")
    for name, cash in CASH.items():
        cells = [
            f"{growth:+.2%} (costs {cost:.2%})" for growth, cost in (alone[name], together[name])
        ]
        print(f"{name:<10}{cash:>12,.0f}{cells[0]:>24}{cells[1]:>24}")
    folder.mkdir(parents=True, exist_ok=True)
    save_gif(frames, folder / "agents.gif", fps=8)
    save_png(frames[-1], folder / "agents.png")
    print(f"\n{len(frames)} frames: {folder / 'agents.gif'}, {folder / 'agents.png'}")


if __name__ == "__main__":
    main()
