"""Native policy inference against torch: one observation, and batches of 256.

Times are medians of interleaved repeats of CPU time; torch has one thread.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from sekai.data.simulators import simulate_regimes
from sekai.policy import load_policy
from sekai.training import PPO

REPEATS = 15
ROWS = 256

DEMO = {"width": 16, "encoder_layers": 1, "activation": "silu", "std_init": 0.25}
"""Network of examples/demo.toml."""


def cpu_seconds(call: Callable[[], Any], calls: int) -> float:
    """CPU time of one call."""
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def compare(name: str, calls: int, sides: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Print and return medians of interleaved repeats."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for call in sides.values():
        call()
    for _ in range(REPEATS):
        for side, call in sides.items():
            times[side].append(cpu_seconds(call, calls))
    medians = {side: median(values) for side, values in times.items()}
    shown = "   ".join(f"{side} {1e6 * value:9.1f} us" for side, value in medians.items())
    ratio = medians["torch"] / medians["native"]
    print(f"{name:34} {shown}   {ratio:6.1f} times faster")
    return medians


def saved(folder: Path, env: str, options: dict[str, Any], **settings: Any) -> Path:
    """Model file of an agent that was trained for one iteration."""
    agent = PPO(env, env_options=options, n_envs=4, n_steps=8, **settings)
    return agent.fit(32).save(folder / f"{env}{len(list(folder.iterdir()))}", training=False)


def main() -> None:
    """Run the comparisons."""
    torch.set_num_threads(1)
    data = simulate_regimes(rows=600, assets=10, seed=3)
    portfolio = {"data": data, "lookback": 1}
    windows = {"data": data, "lookback": 32}
    networks: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("demo.toml: mean of 10 assets", "Portfolio-v0", portfolio, {"policy": DEMO}),
        ("MLP 64-64", "MarketMaking-v0", {}, {}),
        ("attention, width 64", "Portfolio-v0", windows, {"policy": {"backbone": "attention"}}),
        ("GRU, width 64", "Portfolio-v0", windows, {"policy": {"encoder": "gru"}}),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, env, options, settings in networks:
            path = saved(Path(folder), env, options, **settings)
            native, trained = load_policy(path), load_policy(path, backend="torch")
            observation = native.observation_space.sample()
            batch = native._observation_batcher.stack([observation] * ROWS)
            assert np.allclose(native.predict(observation), trained.predict(observation), atol=1e-5)
            compare(
                f"{name}, predict",
                300,
                {
                    "native": partial(native.predict, observation),
                    "torch": partial(trained.predict, observation),
                },
            )
            compare(
                f"{name}, batch of {ROWS}",
                20,
                {
                    "native": partial(native.predict_batch, batch),
                    "torch": partial(trained.predict_batch, batch),
                },
            )


if __name__ == "__main__":
    main()
