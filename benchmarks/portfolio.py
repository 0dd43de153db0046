"""Step time of Portfolio-v0, for one env and many, and its scaling.

CPU time on one thread, medians of interleaved repeats, since the machine is shared. Every other
action is off the simplex, so that weights are projected; feasible weights are those of a softmax
policy. Peers run in interpreters of their own, in the same run: PyPI's sekai 0.2.0,
whose observations have one feature, and FinRL's StockTradingEnv.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from measure import interleaved, medians, show
from portfolio_worlds import (
    FEATURES,
    core_run,
    finrl_peer,
    make_market,
    sekai_peer,
    single_run,
    vector_run,
    write_windows,
)
from sekai.envs import PortfolioState

ENVS, ASSETS, LOOKBACK = 1024, 20, 30
AGENTS = 16
STEPS = 20


def many(rounds: int) -> None:
    """Measure many envs in one call, by index and materialized, against memcpy and the peer."""
    with tempfile.TemporaryDirectory() as folder:
        times = medians(interleaved(many_runs(folder), rounds))
    copied = times["memcpy of the windows alone"]
    peer = sekai_peer(ENVS, ASSETS, LOOKBACK, STEPS, rounds)
    rows = [
        [
            *rate(name, cost),
            f"{copied / cost:.0%}" if "windows" in name else "",
            speed_up(peer, cost),
        ]
        for name, cost in times.items()
    ]
    rows.append([*rate("sekai 0.2.0, one feature", peer), "", "1x"])
    show(
        with_load(f"{ENVS:,} envs, {ASSETS} assets, lookback {LOOKBACK}, {FEATURES} features "
                  "(target: 4 M by index, half of memcpy)"),
        ["", "env-steps/CPU s", "ns each", "of memcpy", "speed-up"], rows,
    )  # fmt: skip


def many_runs(folder: str) -> dict[str, Callable[[], int]]:
    """Return the measured runs of many envs; window files go into `folder`."""
    market = make_market(ASSETS)
    windows: dict[str, Any] = {"lookback": LOOKBACK}
    index = {**windows, "observation": "index"}
    file = {**windows, "features": write_windows(market, LOOKBACK, folder)}
    return {
        "memcpy of the windows alone": memcpy(),
        "windows": vector_run(ENVS, STEPS, market, **windows),
        "windows, new arrays each step": vector_run(ENVS, STEPS, market, **windows, copy=True),
        "windows from a file": vector_run(ENVS, STEPS // 4, market, **file),
        "index, the batch alone": core_run(ENVS, 5 * STEPS, market, lookback=LOOKBACK),
        "index": vector_run(ENVS, 5 * STEPS, market, **index),
        "index, feasible weights": vector_run(ENVS, 5 * STEPS, market, **index, feasible=True),
        "index, new arrays each step": vector_run(ENVS, 5 * STEPS, market, **index, copy=True),
        "index, reward in Python": vector_run(ENVS, STEPS, market, **index, reward=growth),
    }


def single(rounds: int) -> None:
    """Measure one env, step by step from Python."""
    market = make_market(ASSETS)
    times = medians(
        interleaved(
            {
                "windows": single_run(2_000, market, lookback=LOOKBACK),
                "index": single_run(2_000, market, observation="index"),
                "index, reward in Python": single_run(
                    1_000, market, observation="index", reward=growth
                ),
            },
            rounds,
        )
    )
    peers = {
        "sekai 0.2.0": sekai_peer(1, ASSETS, LOOKBACK, 1_000, rounds),
        "FinRL 0.3.7, a table of 2,520 rows": finrl_peer(ASSETS, 200, rounds),
    }
    rows = [
        [*rate(name, cost), *(speed_up(peer, cost) for peer in peers.values())]
        for name, cost in {**times, **peers}.items()
    ]
    show(
        with_load(f"one env from Python, {ASSETS} assets (target: 60,000/s)"),
        ["", "steps/CPU s", "ns each", "over sekai 0.2.0", "over FinRL"], rows,
    )  # fmt: skip


def agents(rounds: int) -> None:
    """Measure several agents in one market."""
    market = make_market(ASSETS)
    runs = {
        f"{envs} market{'s' * (envs > 1)}, {AGENTS} agents": core_run(
            envs, 1_280 // envs, market, AGENTS
        )
        for envs in (1, 64)
    }
    rows = [rate(name, cost) for name, cost in medians(interleaved(runs, rounds)).items()]
    show(
        with_load(f"{AGENTS} agents share a market (target: 500,000 agent-steps/s)"),
        ["", "agent-steps/CPU s", "ns each"], rows,
    )  # fmt: skip


def scaling(rounds: int) -> None:
    """Measure scaling with envs, assets and lookback."""
    market = make_market(ASSETS)
    index: dict[str, Any] = {"observation": "index"}
    table(
        "envs, by index",
        {
            f"{envs:,} env{'s' * (envs > 1)}": vector_run(
                envs, max(4, min(2_000, 2**15 // envs)), market, **index
            )
            for envs in (1, 16, 256, 1_024, 4_096, 16_384)
        },
        rounds,
    )
    markets = {assets: make_market(assets) for assets in (5, 20, 100, 500)}
    table(
        "assets, 256 envs, by index",
        {
            f"{assets} assets": vector_run(256, max(4, 1_600 // assets), market, **index)
            for assets, market in markets.items()
        },
        rounds,
    )
    table(
        f"lookback, 256 envs, {ASSETS} assets, windows",
        {
            f"lookback {lookback}": vector_run(256, 4 * STEPS, market, lookback=lookback)
            for lookback in (1, 10, 30, 60, 120)
        },
        rounds,
    )


SECTIONS = {"many": many, "single": single, "agents": agents, "growth": scaling}


def growth(state: PortfolioState) -> Any:
    """Log growth of equity, as a reward function in Python."""
    return np.log(state.equity / state.previous_equity)


def memcpy() -> Callable[[], int]:
    """Return a run that copies as many bytes as the windows of all envs."""
    source = np.ones((ENVS, LOOKBACK, ASSETS, FEATURES), np.float32)
    target = np.zeros_like(source)

    def run() -> int:
        for _ in range(STEPS):
            np.copyto(target, source)
        return STEPS * ENVS

    return run


def table(title: str, runs: Mapping[str, Callable[[], int]], rounds: int) -> None:
    """Measure runs and print a table."""
    rows = [rate(name, cost) for name, cost in medians(interleaved(runs, rounds)).items()]
    show(with_load(f"scaling with {title}"), ["", "env-steps/CPU s", "ns each"], rows)


def rate(name: str, nanoseconds: float) -> list[str]:
    """First cells of a table row: name, rate and time."""
    return [name, f"{1e9 / nanoseconds:,.0f}", f"{nanoseconds:,.0f}"]


def speed_up(peer: float, cost: float) -> str:
    """Speed-up over the peer."""
    return f"{peer / cost:,.1f}x"


def with_load(title: str) -> str:
    """Title with the load of the machine."""
    return f"{title}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main() -> None:
    """Run the named sections, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7, help="repeats of each measurement")
    arguments = parser.parse_args()
    for name in arguments.names:
        SECTIONS[name](arguments.rounds)


if __name__ == "__main__":
    main()
