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
# A step is half an hour, an action a number of sixths of the order. The last step trades the rest.
SCHEDULES: dict[str, tuple[int, ...]] = {
    "all at once": (6,),
    "early": (3, 1, 1, 1),
    "evenly (TWAP)": (1, 1, 1, 1, 1, 1),
    "late": (0, 0, 0, 2, 2, 2),
}


def make_env() -> Any:
    """Order execution on synthetic minute bars, with costs and market impact."""
    return sekai.make(
        "OrderExecution-v0",
        amount=(5_000.0, 40_000.0),
        state="current_step",
        costs=OrderCosts(open_cost=0.0001, close_cost=0.0001, impact_cost=0.05),
    )


def execute(env: Any, schedule: tuple[int, ...], seed: int) -> float:
    """Execute an order; return its gain on the arrival price in basis points, after costs."""
    result, gain, step = env.reset(seed=seed), 0.0, 0
    while not getattr(result, "done", False):
        result = env.step(schedule[min(step, len(schedule) - 1)])
        gain, step = gain + result.reward, step + 1
    return gain


def render(folder: Path) -> None:
    """Render one order: a frame for the reset and each step."""
    env = make_env()
    recorded = RecordFrames(env, renderer_for(env))
    execute(recorded, SCHEDULES["early"], seed=5)
    folder.mkdir(parents=True, exist_ok=True)
    save_gif(recorded.frames, folder / "order.gif", fps=2)
    save_png(recorded.frames[-1], folder / "order.png")
    print(f"\n{len(recorded.frames)} frames: {folder / 'order.gif'}, {folder / 'order.png'}")


def main() -> None:
    """Compare four schedules on the same orders, in basis points of their value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/order"))
    folder = parser.parse_args().folder
    env = make_env()
    print(f"{ORDERS} orders to buy or sell, in basis points\n")
    print(f"{'schedule':<16}{'gain':>10}{'± error':>10}{'risk of one order':>20}")
    for name, schedule in SCHEDULES.items():
        gain = np.array([execute(env, schedule, seed) for seed in range(ORDERS)])
        error = gain.std() / np.sqrt(ORDERS)
        print(f"{name:<16}{gain.mean():>+10.2f}{error:>10.2f}{gain.std():>20.1f}")
    render(folder)


if __name__ == "__main__":
    main()
