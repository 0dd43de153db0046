"""Evaluate a policy against baselines on the same episodes, with confidence intervals."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import os
import platform
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from sekai.data.intraday import Progress
from sekai.evaluation.baselines import (
    IncompatibleBaselineError,
    baseline,
    baseline_names,
    unknown_baseline,
)
from sekai.evaluation.env_source import EnvSource, as_env_source
from sekai.evaluation.evaluation import CapCheck, Episode, Evaluation, Flag, Provenance
from sekai.evaluation.flags import deflated_sharpe_flags, flags_of
from sekai.evaluation.look_ahead import look_ahead_flags
from sekai.evaluation.metrics import periods_per_year
from sekai.evaluation.policy import Policy, as_multi_agent_policy, as_policy
from sekai.evaluation.progress import EvaluationProgress
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.scorer import (
    MIN_RETURNS,
    Scorer,
    compact,
    needs_bootstrap,
    returns_by_date,
    sensitivity_of,
    sensitivity_runs,
)
from sekai.evaluation.statistics.deflated_sharpe import Ledger, record_deflated_sharpe
from sekai.evaluation.tasks import Task, task_of

__all__ = ["evaluate"]

Policies = Sequence[Any] | Mapping[str, Any]

FIRST_SEED = 1_000_000
"""First evaluation seed, far from the seeds that are used in training."""

PACKAGES = ("sekai", "numpy", "torch")
MAX_SETTING_LENGTH = 200

LONG_EPISODE = 2_000
"""Steps beyond which cost and delay sensitivity is left out by default."""

LEFT_OUT = "baseline_left_out"
"""Name of the flag of a baseline that cannot run in the env."""


def evaluate(
    policy: Any,
    env: Any,
    *,
    seeds: int | Sequence[int] = 16,
    baselines: Policies | None = None,
    env_options: Mapping[str, Any] | None = None,
    name: str | None = None,
    level: float = 0.95,
    sensitivity: bool | None = None,
    ledger: Ledger | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    allow: Collection[str] = (),
) -> Evaluation:
    """Evaluate a policy against baselines on the same seeds, costs and fills.

    Args:
        policy: an agent or a policy of `sekai.training`, an object with `predict_batch` or
            `predict`, a function from an observation to an action, the path of a saved agent, or
            the name of a baseline. For multi-agent envs: a policy of all agents, a mapping from
            agent to policy, or one policy for every agent.
        env: an id or a spec, an env of sekai or gymnasium, a function that makes one, or a vector
            env. Cost sensitivity needs an env that can be rebuilt: an id, a spec, or an env made
            by `make`.
        seeds: seeds of the episodes, or their number.
        baselines: names and policies to compare with; the defaults of the task if None, without
            those whose actions are identical. Defaults that cannot run in this env are left out
            with the flag "baseline_left_out".
        env_options: options for an id.
        name: name of the agent.
        level: confidence level.
        sensitivity: also evaluate at other costs and delays, which takes several times as long; if
            None, unless episodes have more than 2,000 steps.
        ledger: trial ledger of this data, or the path of its file; this trial is added.
        command: command that reproduces the evaluation; the command line if None.
        progress: True for a progress bar on standard error, False for none, or a function of the
            done and the total count; if None, a bar on a terminal or in a notebook after a moment.
        allow: differences from the data of training that are allowed: `bar_length`, `calendar`,
            `features`, `assets`.

    Raises:
        DataMismatchError: the env has other bars, features or assets than the policy requires.
        ValueError: there is no baseline, or a single seed without a long dated episode.
        IncompatibleBaselineError: a baseline that was named cannot run in this env, or none of
            the defaults can.
    """
    task = task_of(as_env_source(env, env_options))
    policies = _policies(policy, baselines, task, name, allow)
    chosen = _seeds(seeds)
    source = task.recording_source()
    runs = EvaluationProgress(progress, len(policies) + 1)
    agent_name = next(iter(policies))
    own = run_episodes(policies[agent_name], source, task, chosen, progress=runs)
    sensitivity = _is_short(own) if sensitivity is None else sensitivity
    runs.expect(sensitivity_runs(task) * len(policies) if sensitivity else 0)
    others_played, left_out = _baseline_episodes(
        policies, source, task, chosen, runs, are_named=baselines is not None
    )
    played = {agent_name: own, **others_played}
    if baselines is None:
        played = _without_duplicates(played, agent_name)
    played, chosen = _without_repeats(played, chosen)
    scorer = _scorer(task, played[agent_name], chosen, level)
    agent, *others = (scorer.outcome(key, episodes) for key, episodes in played.items())
    comparisons = scorer.comparisons(agent, others)
    flags = [
        *left_out,
        *flags_of(agent, others, comparisons, scorer.bootstraps),
        *task.flags(),
        *look_ahead_flags(policies[agent_name], task, chosen),
    ]
    deflated_sharpe = record_deflated_sharpe(
        returns_by_date(agent.episodes),
        task.judged_digest,
        agent_name,
        model_of(policy, ""),
        ledger,
        flags,
    )
    flags += deflated_sharpe_flags(deflated_sharpe)
    runs.end_run()
    headlines = {key: scorer.headline(episodes) for key, episodes in played.items()}
    compared = {key: policies[key] for key in played}
    settings = {
        **(task.source.options or {}),
        "seeds": chosen,
        "level": level,
        "baselines": list(compared)[1:],
        **({"allow": list(allow)} if allow else {}),
    }
    costs_and_delays = (
        sensitivity_of(compared, headlines, task, scorer, chosen, runs) if sensitivity else None
    )
    runs.close()
    return Evaluation(
        name=agent_name,
        env=task.source.name,
        task=task.name,
        headline=task.headline,
        higher_is_better=task.higher_is_better,
        periods_per_year=scorer.periods,
        seeds=chosen,
        policies={agent_name: agent, **{other.name: compact(other) for other in others}},
        comparisons=comparisons,
        sensitivity=costs_and_delays,
        flags=flags,
        deflated_sharpe=deflated_sharpe,
        benchmark=task.benchmark,
        caps=CapCheck.joined(agent.episodes),
        provenance=provenance_of(
            command,
            (task.data_digest, task.judged_digest),
            model_of(policy, agent_name),
            settings,
        ),
    )


def provenance_of(
    command: str | None, digests: tuple[str, str], model: str, settings: Mapping[str, Any]
) -> Provenance:
    """Provenance of an evaluation made now; `digests` are those of the data and of judged rows."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        # Packages that were not imported did not take part.
        if package in sys.modules or package == "sekai":
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
    return Provenance(
        command=shlex.join(sys.argv) if command is None else command,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=versions,
        data_digest=digests[0],
        judged_digest=digests[1],
        model=model,
        settings={name: _shortened(str(value)) for name, value in settings.items()},
    )


def model_of(policy: Any, name: str) -> str:
    """Identifier of an agent: the digest of its file, or its name."""
    if not isinstance(policy, (str, os.PathLike)) or not Path(policy).exists():
        return name
    path = Path(policy)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(path.parent).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SETTING_LENGTH else f"{text[: MAX_SETTING_LENGTH - 1]}…"


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (int, np.integer)):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return list(range(FIRST_SEED, FIRST_SEED + int(seeds)))
    chosen = [int(seed) for seed in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"seeds must be distinct and at least one, got {chosen}")
    return chosen


def _policies(
    policy: Any,
    baselines: Policies | None,
    task: Task,
    name: str | None,
    allow: Collection[str],
) -> dict[str, Policy]:
    agent = _policy(policy, task, name, allow)
    if baselines is None:
        baselines = task.baselines
    pairs = baselines.items() if isinstance(baselines, Mapping) else ((None, b) for b in baselines)
    others: dict[str, Policy] = {}
    for label, candidate in pairs:
        other = _policy(candidate, task, label, allow)
        label = label or other.name
        key, number = label, 2
        while key in others:
            key, number = f"{label} {number}", number + 1
        others[key] = other
    if not others:
        raise ValueError(
            f"baselines must not be empty; omit the argument to use {', '.join(task.baselines)}"
        )
    own = name or agent.name
    return {own if own not in others else f"{own} (evaluated)": agent, **others}


def _policy(policy: Any, task: Task, name: str | None, allow: Collection[str]) -> Policy:
    def find_baseline(name: str) -> Policy | None:
        if name in baseline_names(task.name):
            return baseline(name, task.name)
        if not os.path.exists(name):
            error = unknown_baseline(name, task.name)
            raise ValueError(f"{error}, or the path of a saved agent")
        return None

    if task.source.is_multi_agent:
        return as_multi_agent_policy(policy, name, find_baseline, allow)
    known = find_baseline(policy) if isinstance(policy, str) else None
    return as_policy(policy, name, allow) if known is None else known


def _baseline_episodes(
    policies: Mapping[str, Policy],
    source: EnvSource,
    task: Task,
    seeds: Sequence[int],
    progress: EvaluationProgress,
    *,
    are_named: bool,
) -> tuple[dict[str, list[Episode]], list[Flag]]:
    """Episodes of all baselines that can run, and flags of the others, unless they are named."""
    _, *baselines = policies
    played: dict[str, list[Episode]] = {}
    flags: list[Flag] = []
    for name in baselines:
        try:
            played[name] = run_episodes(policies[name], source, task, seeds, progress=progress)
        except IncompatibleBaselineError as error:  # noqa: PERF203 - an episode takes longer
            if are_named:
                raise IncompatibleBaselineError(f"{error}; leave it out of baselines=") from error
            if len(flags) == len(baselines) - 1:
                raise
            flags.append(Flag(name=LEFT_OUT, level="warning", message=str(error)))
    return played, flags


def _is_short(episodes: Sequence[Episode]) -> bool:
    return max(len(episode.rewards) for episode in episodes) <= LONG_EPISODE


def _without_duplicates(played: dict[str, list[Episode]], agent: str) -> dict[str, list[Episode]]:
    """Drop default baselines whose episodes equal those of an earlier baseline."""
    unique: dict[str, list[Episode]] = {}
    for name, episodes in played.items():
        others = [other for key, other in unique.items() if key != agent]
        if name == agent or not any(_are_equal(episodes, other) for other in others):
            unique[name] = episodes
    return unique


def _are_equal(episodes: Sequence[Episode], others: Sequence[Episode]) -> bool:
    return all(
        own.actions.size > 0
        and np.array_equal(own.actions, other.actions)
        and np.array_equal(own.rewards, other.rewards)
        for own, other in zip(episodes, others, strict=True)
    )


def _without_repeats(
    played: dict[str, list[Episode]], seeds: list[int]
) -> tuple[dict[str, list[Episode]], list[int]]:
    """Keep one episode if all start on the same date, since the seeds make no difference."""
    agent = next(iter(played.values()))
    starts = {str(episode.times[0]) for episode in agent if episode.times is not None}
    lengths = {len(episode.rewards) for episode in agent}
    if len(seeds) == 1 or len(starts) != 1 or len(lengths) != 1:
        return played, seeds
    return {name: episodes[:1] for name, episodes in played.items()}, seeds[:1]


def _scorer(task: Task, episodes: Sequence[Episode], seeds: Sequence[int], level: float) -> Scorer:
    bootstraps = needs_bootstrap(episodes)
    if len(seeds) == 1 and not bootstraps:
        raise ValueError(
            f"one episode of {len(episodes[0].rewards)} steps has no confidence interval; pass "
            f"more seeds, or an episode of at least {MIN_RETURNS} steps with dates"
        )
    times = task.times
    if times is None and episodes[0].times is not None:
        times = max((episode.times for episode in episodes if episode.times is not None), key=len)
    periods = math.nan if times is None else periods_per_year(times)
    return Scorer(task, periods, level, bootstraps)
