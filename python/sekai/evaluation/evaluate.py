"""Judge an agent beside baselines, on the same episodes, and say whether to believe it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sekai.evaluation.arena import arena_of
from sekai.evaluation.baselines import baseline, baseline_names
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.flags import flags_of
from sekai.evaluation.honesty import Ledger, judged_honesty, luck_flags
from sekai.evaluation.look_ahead import look_ahead_flags
from sekai.evaluation.metrics import periods_per_year
from sekai.evaluation.outcomes import Measure, lighter, needs_bootstrap
from sekai.evaluation.players import Player, player_of
from sekai.evaluation.playing import play
from sekai.evaluation.provenance import model_of, provenance_of
from sekai.evaluation.sensitivity import sensitivity_of
from sekai.evaluation.tasks import task_of
from sekai.evaluation.tasks.task import Task
from sekai.evaluation.team import team_of

__all__ = ["evaluate"]

Policies = Sequence[Any] | Mapping[str, Any]

FIRST_SEED = 1_000_000
"""Seeds from here on are judged on, far from those that people train with."""


def evaluate(
    policy: Any,
    env: Any,
    *,
    seeds: int | Sequence[int] = 16,
    baselines: Policies | None = None,
    env_options: Mapping[str, Any] | None = None,
    name: str | None = None,
    level: float = 0.95,
    sensitivity: bool = True,
    ledger: Ledger | None = None,
    command: str | None = None,
) -> Evaluation:
    """Judge a policy beside baselines that play the same episodes with the same costs and fills.

    Args:
        policy: an agent or a policy of `sekai.training`, an object with `predict_batch` or
            `predict`, a function from an observation to an action, the path of a saved agent, or
            the name of a baseline. Where several agents act: a policy of them all, one of these
            for each of them by name, or one that plays every agent.
        env: an id or a spec, an env of sekai or gymnasium, a function that makes one, or a vector
            env. Costs can be changed only where the env can be made again: from an id, a spec, or
            an env that `make` has made.
        seeds: those of the episodes, or how many.
        baselines: names and policies to judge it beside; if not given those that suit the task,
            of which two that do the same in every step count once.
        env_options: what an id is made with.
        name: what the agent is called.
        level: of intervals.
        sensitivity: whether costs and delays are varied.
        ledger: the trials on this data so far, or the path of their file; this one is added.
        command: what to run to get the same again; the command line if not given.

    Raises:
        ValueError: there is one seed and no long episode with dates, or no baseline.
    """
    task = task_of(arena_of(env, env_options))
    players = _players(policy, baselines, task, name)
    chosen = _seeds(seeds)
    played = _played(players, task, chosen)
    agent_name = next(iter(players))
    if baselines is None:
        played = _without_copies(played, agent_name)
    played, chosen = _without_repeats(played, chosen)
    measure = _measure(task, played[agent_name], chosen, level)
    outcomes = {one: measure.outcome(one, episodes) for one, episodes in played.items()}
    agent, *others = outcomes.values()
    comparisons = measure.comparisons(agent, others)
    digest = task.data_digest
    honesty = judged_honesty(
        agent.episodes, digest or task.arena.name, agent_name, model_of(policy, ""), ledger
    )
    flags = [
        *flags_of(agent, others, comparisons, measure.bootstraps),
        *task.flags(),
        *look_ahead_flags(players[agent_name], task, chosen),
        *luck_flags(honesty),
    ]
    headlines = {one: measure.headline(episodes) for one, episodes in played.items()}
    kept = {one: players[one] for one in played}
    return Evaluation(
        name=agent_name, env=task.arena.name, task=task.name, headline=task.headline,
        higher_is_better=task.higher_is_better, periods_per_year=measure.periods,
        seeds=chosen, comparisons=comparisons,
        policies={agent_name: agent, **{one.name: lighter(one) for one in others}},
        sensitivity=sensitivity_of(kept, headlines, task, measure, chosen) if sensitivity else None,
        flags=flags, honesty=honesty,
        provenance=provenance_of(command, digest, model_of(policy, agent_name), {
            **(task.arena.options or {}), "seeds": chosen, "level": level,
            "baselines": list(kept)[1:],
        }),
    )  # fmt: skip


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (int, np.integer)):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, was {seeds}")
        return list(range(FIRST_SEED, FIRST_SEED + int(seeds)))
    chosen = [int(seed) for seed in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"seeds that are all different were wanted, found {chosen}")
    return chosen


def _players(
    policy: Any, baselines: Policies | None, task: Task, name: str | None
) -> dict[str, Player]:
    agent = _player(policy, task, name)
    if baselines is None:
        given: list[tuple[str | None, Any]] = [(None, one) for one in task.baselines]
    elif isinstance(baselines, Mapping):
        given = list(baselines.items())
    else:
        given = [(None, one) for one in baselines]
    if not given:
        raise ValueError(
            "a number on its own says nothing: at least one baseline was wanted, found none; "
            f"leave baselines out for {', '.join(task.baselines)}"
        )
    others = [_other(called, one, task) for called, one in given]
    taken = {called for called, _ in others}
    own = name or agent.name
    return {own if own not in taken else f"{own} (judged)": agent, **_distinct(others)}


def _other(called: str | None, given: Any, task: Task) -> tuple[str, Player]:
    if isinstance(given, str) and not os.path.exists(given):
        # Says which there are, where there is none of that name.
        baseline(given, task.name)
    player = _player(given, task, called)
    return called or player.name, player


def _player(policy: Any, task: Task, called: str | None) -> Player:
    def known(name: str) -> Player | None:
        return baseline(name, task.name) if name in baseline_names(task.name) else None

    if task.arena.has_team:
        return team_of(policy, called, known)
    found = known(policy) if isinstance(policy, str) else None
    return player_of(policy, called) if found is None else found


def _distinct(others: Sequence[tuple[str, Player]]) -> dict[str, Player]:
    found: dict[str, Player] = {}
    for called, player in others:
        key, number = called, 2
        while key in found:
            key, number = f"{called} {number}", number + 1
        found[key] = player
    return found


def _played(
    players: Mapping[str, Player], task: Task, seeds: Sequence[int]
) -> dict[str, list[Episode]]:
    arena = task.recorded()
    return {name: play(player, arena, task, seeds) for name, player in players.items()}


def _without_copies(played: dict[str, list[Episode]], agent: str) -> dict[str, list[Episode]]:
    """Those that nobody has named once each, where they all do the same: one says as much."""
    found: dict[str, list[Episode]] = {}
    for name, episodes in played.items():
        others = [one for other, one in found.items() if other != agent]
        if name == agent or not any(_same_play(episodes, other) for other in others):
            found[name] = episodes
    return found


def _same_play(one: Sequence[Episode], other: Sequence[Episode]) -> bool:
    return all(
        mine.actions.size > 0
        and np.array_equal(mine.actions, theirs.actions)
        and np.array_equal(mine.rewards, theirs.rewards)
        for mine, theirs in zip(one, other, strict=True)
    )


def _without_repeats(
    played: dict[str, list[Episode]], seeds: list[int]
) -> tuple[dict[str, list[Episode]], list[int]]:
    """One episode where all begin on the same date: seeds that change nothing count once."""
    agent = next(iter(played.values()))
    starts = {str(one.times[0]) for one in agent if one.times is not None}
    lengths = {len(one.rewards) for one in agent}
    if len(seeds) == 1 or len(starts) != 1 or len(lengths) != 1:
        return played, seeds
    return {name: episodes[:1] for name, episodes in played.items()}, seeds[:1]


def _measure(
    task: Task, episodes: Sequence[Episode], seeds: Sequence[int], level: float
) -> Measure:
    bootstraps = needs_bootstrap(episodes)
    if len(seeds) == 1 and not bootstraps:
        raise ValueError(
            f"one episode of {len(episodes[0].rewards)} steps is a number without an interval, "
            f"which says nothing: give more seeds, or an episode of 100 steps or more with dates"
        )
    times = task.times
    if times is None and episodes[0].times is not None:
        times = max((one.times for one in episodes if one.times is not None), key=len)
    periods = math.nan if times is None else periods_per_year(times)
    return Measure(task, periods, level, bootstraps)
