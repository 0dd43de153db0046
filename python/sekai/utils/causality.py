"""Proves that an environment does not see the future, by changing the future."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from typing import Any

import numpy as np

from sekai.utils.checks.difference import field_differences
from sekai.utils.checks.foreknown_fills import check_fills
from sekai.utils.checks.foresight import Foresight
from sekai.utils.checks.moments import Clock, Moment, learned_state
from sekai.utils.checks.report import CheckStopped, Report
from sekai.utils.checks.worlds import Refused, Worlds
from sekai.utils.perturbation import KINDS, Perturbable, Stamped, missing_times

__all__ = ["FILL_KEYS", "Perturbable", "Stamped", "check_causal"]

FILL_KEYS = ("fill", "fills", "fill_price", "fill_prices", "executed_price", "executed_prices")
"""Names in `info` under which envs tell at what price an order was executed."""


def check_causal(
    env_factory: Callable[[Any], Any],
    data: Any,
    n_steps: int = 64,
    *,
    time_of: Callable[[Any, Any], Any] | None = None,
    first_time: int = 0,
    seed: int = 0,
    n_episodes: int = 2,
    max_cuts: int = 16,
    kinds: Collection[str] = tuple(KINDS),
    fixed: Collection[str] = (),
    fill_keys: Collection[str] = FILL_KEYS,
    allow_known_fills: bool = False,
    state_of: Callable[[Any], Any] = learned_state,
) -> list[str]:
    """Where `env_factory(data)` depends on data from its own future, as `check_env` tells it.

    Episodes are played with random actions, and played again with the same seed and actions on
    data that differs after some time t. Up to t nothing may differ, bit for bit: observation,
    action mask, executed price, reward, end of episode, and what normalisers have learned.

    Args:
        env_factory: makes an env from data of the type of `data`.
        data: an array whose first axis is time, a `Stamped`, a mapping, tuple, list or frame of
            them, or an object with `perturb_after(time, rng)`.
        n_steps: the steps of an episode that are looked at.
        time_of: `time_of(env, result)` tells the time of the latest data that a result may know.
            Without it `info["time_index"]` does, or else the steps since the reset are counted.
        first_time: the time of a reset where steps are counted: `lookback - 1` for an env that
            begins by showing `lookback` rows.
        seed: the seed of the first episode.
        n_episodes: how many episodes are played, each with a seed of its own.
        max_cuts: how many different t are tried in an episode, and as many again beside gaps.
        kinds: how the future is changed: `scaled`, `noise`, `reversed`, and if asked for
            `truncated` (for envs that do not tell how much time is left).
        fixed: names in mappings and frames that stay as they are, such as time stamps.
        fill_keys: where `info` tells executed prices.
        allow_known_fills: whether orders may be filled at prices seen before the decision.
        state_of: what the env has learned; by default all its parts that have a `state_dict`.
    """
    report = Report()
    clock = Clock(time_of, first_time)
    worlds = Worlds(
        env_factory=env_factory, data=data, clock=clock, observe=state_of,
        kinds=kinds, fixed=fixed, seed=seed,
    )  # fmt: skip
    foresight = Foresight(worlds, report, fill_keys)
    unknown = sorted(set(kinds) - {*KINDS, "truncated"})
    if unknown or not kinds:
        raise ValueError(f"kinds must be some of {[*KINDS, 'truncated']}, was {list(kinds)}")

    def examine() -> None:
        for episode_seed in range(seed, seed + n_episodes):
            moments = worlds.recorded(episode_seed, n_steps)
            _require_repeatable(worlds, moments)
            _check_use(worlds, report, moments)
            for time, kind in itertools.product(_cuts(worlds, moments, max_cuts), kinds):
                foresight.check(moments, time, kind)
            if not allow_known_fills:
                check_fills(worlds, report, moments, fill_keys)

    report.guarded(examine)
    return report.lines()


def _require_repeatable(worlds: Worlds, moments: list[Moment]) -> None:
    with closing(worlds.repeated(moments)) as repeats:
        found = _first_effect(moments, repeats)
    if found is not None:
        raise CheckStopped(
            f"the same data, seed and actions gave something else the second time ({found}), so "
            f"nothing can be said about the future"
        )


def _check_use(worlds: Worlds, report: Report, moments: list[Moment]) -> None:
    """Warn if the env takes no changed data, or if it makes no difference to it."""
    answers = [_answer(worlds, moments, kind) for kind in worlds.kinds]
    if "" in answers:
        return
    if None in answers:
        report.warn(
            "unused",
            f"nothing is proven, no result of {len(moments) - 1} steps depends on data after time "
            f"{moments[0].time}: does env_factory use the data it is given?",
        )
    else:
        report.warn("refused", f"nothing is proven, the env takes no changed data: {answers[0]}")


def _answer(worlds: Worlds, moments: list[Moment], kind: str) -> str | None:
    """Nothing if changed data makes no difference, why it is refused, or "" if all is well."""
    try:
        with closing(worlds.changed(moments, moments[0].time, kind)) as repeats:
            return None if _first_effect(moments, repeats) is None else ""
    except Refused as refused:
        return str(refused)
    except CheckStopped:
        return ""


def _first_effect(moments: list[Moment], repeats: Iterable[Moment]) -> str | None:
    for moment, again in zip(moments, repeats, strict=True):
        for found in field_differences(moment.event.values, again.event.values):
            if found.path[0] != "info":
                return f"at {moment.event.label} {found.sentence()}"
    return None


def _cuts(worlds: Worlds, moments: list[Moment], max_cuts: int) -> list[Any]:
    """The times after which the data is changed: spread over the episode, and beside gaps."""
    times = sorted({moment.time for moment in moments if worlds.has_future(moment.time)})
    gaps = missing_times(worlds.data)
    return sorted({*_spread(times, max_cuts), *_spread([t for t in times if t in gaps], max_cuts)})


def _spread(times: list[Any], count: int) -> list[Any]:
    if len(times) <= count:
        return times
    return [times[place] for place in np.linspace(0, len(times) - 1, count).astype(int).tolist()]
