"""Benchmark of steps of Portfolio-v0, of one env and of many, and their scaling.

CPU time on one thread, medians of interleaved repeats, since the machine is shared. Every other
action is off the simplex, so that weights are projected; allowed weights are those of a softmax
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
    file_of,
    finrl_peer,
    sekai_peer,
    single_run,
    vector_run,
    world,
)
from sekai.envs import PortfolioState

ENVS, ASSETS, LOOKBACK = 1024, 20, 30
AGENTS = 16
STEPS = 20


def many(rounds: int) -> None:
    """Many envs in one call, by index and materialised, beside memcpy and the peer."""
    with tempfile.TemporaryDirectory() as folder:
        found = medians(interleaved(many_runs(folder), rounds))
    copied = found["memcpy of the windows alone"]
    peer = sekai_peer(ENVS, ASSETS, LOOKBACK, STEPS, rounds)
    rows = [
        [*rate(name, cost), f"{copied / cost:.0%}" if "windows" in name else "", times(peer, cost)]
        for name, cost in found.items()
    ]
    rows.append([*rate("sekai 0.2.0, one feature", peer), "", "1x"])
    show(
        titled(f"{ENVS:,} envs, {ASSETS} assets, lookback {LOOKBACK}, {FEATURES} features (wanted: "
               "4 M by index, half of memcpy)"),
        ["", "env-steps a CPU second", "ns each", "of memcpy", "of the peer"], rows,
    )  # fmt: skip


def many_runs(folder: str) -> dict[str, Callable[[], int]]:
    """What is measured of many envs; a file is written into the folder."""
    made = world(ASSETS)
    shown: dict[str, Any] = {"lookback": LOOKBACK}
    index = {**shown, "observation": "index"}
    file = {**shown, "features": file_of(made, LOOKBACK, folder)}
    return {
        "memcpy of the windows alone": memcpy(),
        "windows": vector_run(ENVS, STEPS, made, **shown),
        "windows, new arrays each step": vector_run(ENVS, STEPS, made, **shown, copy=True),
        "windows from a file": vector_run(ENVS, STEPS // 4, made, **file),
        "index, the batch alone": core_run(ENVS, 5 * STEPS, made, lookback=LOOKBACK),
        "index": vector_run(ENVS, 5 * STEPS, made, **index),
        "index, allowed weights": vector_run(ENVS, 5 * STEPS, made, **index, allowed=True),
        "index, new arrays each step": vector_run(ENVS, 5 * STEPS, made, **index, copy=True),
        "index, reward in Python": vector_run(ENVS, STEPS, made, **index, reward=growth),
    }


def single(rounds: int) -> None:
    """One env, step by step from Python."""
    made = world(ASSETS)
    found = medians(
        interleaved(
            {
                "windows": single_run(2_000, made, lookback=LOOKBACK),
                "index": single_run(2_000, made, observation="index"),
                "index, reward in Python": single_run(
                    1_000, made, observation="index", reward=growth
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
        [*rate(name, cost), *(times(peer, cost) for peer in peers.values())]
        for name, cost in {**found, **peers}.items()
    ]
    show(
        titled(f"one env from Python, {ASSETS} assets (wanted: 60,000/s)"),
        ["", "steps a CPU second", "ns each", "of sekai 0.2.0", "of FinRL"], rows,
    )  # fmt: skip


def agents(rounds: int) -> None:
    """Several agents in one market."""
    made = world(ASSETS)
    runs = {
        f"{envs} market{'s' * (envs > 1)}, {AGENTS} agents": core_run(
            envs, 1_280 // envs, made, AGENTS
        )
        for envs in (1, 64)
    }
    rows = [rate(name, cost) for name, cost in medians(interleaved(runs, rounds)).items()]
    show(
        titled(f"{AGENTS} agents share a market (wanted: 500,000 agent-steps/s)"),
        ["", "agent-steps a CPU second", "ns each"], rows,
    )  # fmt: skip


def growth_of_costs(rounds: int) -> None:
    """How the cost of a step grows with envs, assets and lookback."""
    made = world(ASSETS)
    index: dict[str, Any] = {"observation": "index"}
    table(
        "envs, by index",
        {
            f"{envs:,} env{'s' * (envs > 1)}": vector_run(
                envs, max(4, min(2_000, 2**15 // envs)), made, **index
            )
            for envs in (1, 16, 256, 1_024, 4_096, 16_384)
        },
        rounds,
    )
    worlds = {assets: world(assets) for assets in (5, 20, 100, 500)}
    table(
        "assets, 256 envs, by index",
        {
            f"{assets} assets": vector_run(256, max(4, 1_600 // assets), made, **index)
            for assets, made in worlds.items()
        },
        rounds,
    )
    table(
        f"lookback, 256 envs, {ASSETS} assets, windows",
        {
            f"lookback {lookback}": vector_run(256, 4 * STEPS, made, lookback=lookback)
            for lookback in (1, 10, 30, 60, 120)
        },
        rounds,
    )


SECTIONS = {"many": many, "single": single, "agents": agents, "growth": growth_of_costs}


def growth(state: PortfolioState) -> Any:
    """A reward in Python."""
    return np.log(state.equity / state.previous_equity)


def memcpy() -> Callable[[], int]:
    """Copies as many bytes as the windows of all envs have."""
    source = np.ones((ENVS, LOOKBACK, ASSETS, FEATURES), np.float32)
    target = np.zeros_like(source)

    def run() -> int:
        for _ in range(STEPS):
            np.copyto(target, source)
        return STEPS * ENVS

    return run


def table(title: str, runs: Mapping[str, Callable[[], int]], rounds: int) -> None:
    """What each of the runs costs."""
    rows = [rate(name, cost) for name, cost in medians(interleaved(runs, rounds)).items()]
    show(titled(f"growth with {title}"), ["", "env-steps a CPU second", "ns each"], rows)


def rate(name: str, nanoseconds: float) -> list[str]:
    """The beginning of a row."""
    return [name, f"{1e9 / nanoseconds:,.0f}", f"{nanoseconds:,.0f}"]


def times(peer: float, cost: float) -> str:
    """How many times as fast as the peer."""
    return f"{peer / cost:,.1f}x"


def titled(title: str) -> str:
    """A title that says how busy the machine was."""
    return f"{title}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main() -> None:
    """Run the sections that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7, help="repeats of each measurement")
    arguments = parser.parse_args()
    for name in arguments.names:
        SECTIONS[name](arguments.rounds)


if __name__ == "__main__":
    main()
