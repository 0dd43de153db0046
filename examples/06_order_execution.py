"""Order execution within a day: impact against risk, with a rendered chart."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai.compose import OrderCosts
from sekai.rendering import RecordFrames, renderer_for, save_gif, save_png

ORDERS = 150
# A step is half an hour, and an action so many sixths of the order. The last step trades the rest.
PLANS: dict[str, tuple[int, ...]] = {
    "all at once": (6,),
    "early": (3, 1, 1, 1),
    "evenly (TWAP)": (1, 1, 1, 1, 1, 1),
    "late": (0, 0, 0, 2, 2, 2),
}


def make() -> Any:
    """Synthetic minutes of a day, with costs and market impact."""
    return sekai.make(
        "OrderExecution-v0",
        amount=(5_000.0, 40_000.0),
        state="current_step",
        costs=OrderCosts(open_cost=0.0001, close_cost=0.0001, impact_cost=0.05),
    )


def work(env: Any, plan: tuple[int, ...], seed: int) -> float:
    """Basis points that an order gained against its first price, after costs."""
    result, gained, step = env.reset(seed=seed), 0.0, 0
    while not getattr(result, "done", False):
        result = env.step(plan[min(step, len(plan) - 1)])
        gained, step = gained + result.reward, step + 1
    return gained


def film(folder: Path) -> None:
    """A frame for the reset and each step of one order."""
    env = make()
    recorded = RecordFrames(env, renderer_for(env))
    work(recorded, PLANS["early"], seed=5)
    folder.mkdir(parents=True, exist_ok=True)
    save_gif(recorded.frames, folder / "order.gif", fps=2)
    save_png(recorded.frames[-1], folder / "order.png")
    print(f"\n{len(recorded.frames)} frames: {folder / 'order.gif'}, {folder / 'order.png'}")


def main() -> None:
    """Work the same orders by four plans, in basis points of their value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/order"))
    folder = parser.parse_args().folder
    env = make()
    print(f"{ORDERS} orders to buy or sell, in basis points\n")
    print(f"{'plan':<16}{'gained':>10}{'± error':>10}{'risk of one order':>20}")
    for name, plan in PLANS.items():
        gained = np.array([work(env, plan, seed) for seed in range(ORDERS)])
        error = gained.std() / np.sqrt(ORDERS)
        print(f"{name:<16}{gained.mean():>+10.2f}{error:>10.2f}{gained.std():>20.1f}")
    film(folder)


if __name__ == "__main__":
    main()
