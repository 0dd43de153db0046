"""Checks that the seed and the actions, and nothing else, decide what happens."""

from __future__ import annotations

from itertools import islice

from sekai.utils.checks.difference import first_difference
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.rollout import Comparison, compared, play, replay
from sekai.utils.checks.streams import StreamWatch, global_states

__all__ = ["check_other_seeds", "check_same_seed", "check_unseeded"]

OTHER_SEEDS = 4
"""How many other seeds may show that the seed matters."""

SHORT_STEPS = 20
"""Steps after which two episodes are taken to be the same."""


def check_same_seed(inspection: Inspection) -> bool:
    """The same seed and actions give the same results; whether they do."""
    before = global_states()
    comparison = compared(inspection.events, replay(inspection.subject, inspection.events))
    moved = first_difference(before, global_states())
    if moved is not None:
        inspection.report.error(
            "global",
            f"the env draws from {moved.path[0]}, which it shares with the whole process: "
            f"draw from self.rng",
        )
    _report_difference(inspection, comparison)
    return comparison.hard is None


def check_other_seeds(inspection: Inspection) -> bool:
    """An env that draws random numbers plays differently with different seeds; whether it does.

    An env counts as random if a generator it holds has been drawn from, or if its metadata says
    `"stochastic": True`; with `"stochastic": False` it is taken at its word.
    """
    declared = inspection.env.metadata.get("stochastic")
    watch = StreamWatch(inspection.env)
    seeds = range(inspection.seed + 1, inspection.seed + 1 + OTHER_SEEDS)
    for seed in seeds:
        if not _is_same(inspection, seed, watch):
            return True
    is_random = watch.has_drawn if declared is None else bool(declared)
    if is_random:
        inspection.report.error(
            "seed",
            f"the env is random and ignores its seed: the seeds {inspection.seed} to {seeds[-1]} "
            f"gave the same {inspection.n_steps} steps; call self._set_rng(seed) in reset() and "
            f'draw from self.rng (or say metadata = {{"stochastic": False}})',
        )
    return False


def check_unseeded(inspection: Inspection) -> None:
    """Where seeds matter, `reset()` without one begins another episode each time."""
    subject = inspection.subject
    n_steps = min(SHORT_STEPS, inspection.n_steps)
    episodes = []
    for _ in range(2):
        events = islice(play(subject, None, n_steps), n_steps + 1)
        episodes.append(list(events))
    comparison = compared(episodes[0], iter(episodes[1]))
    seeded = list(play(subject, inspection.seed, n_steps))
    other = compared(seeded, play(subject, inspection.seed + 1, n_steps))
    if comparison.hard is None and other.hard is not None:
        inspection.report.warn(
            "unseeded",
            "reset() without a seed begins the same episode every time: self._set_rng(None) "
            "goes on with the stream",
        )


def _is_same(inspection: Inspection, seed: int, watch: StreamWatch) -> bool:
    comparison = compared(
        inspection.events,
        play(inspection.subject, seed, inspection.n_steps),
        after=lambda _: watch.look(),
    )
    watch.look()
    return comparison.hard is None and comparison.soft is None


def _report_difference(inspection: Inspection, comparison: Comparison) -> None:
    label = f"reset(seed={inspection.seed})"
    if comparison.hard is not None and comparison.hard.startswith(f"at {label} "):
        inspection.report.error(
            "same seed",
            f"{label} is not deterministic, the env ignores its seed: {comparison.hard}; call "
            f"self._set_rng(seed) in reset() and draw from self.rng only",
        )
    elif comparison.hard is not None:
        inspection.report.error(
            "same seed",
            f"the same seed and the same actions gave something else the second time: "
            f"{comparison.hard}; draw from self.rng only, and reset everything in reset()",
        )
    elif comparison.soft is not None:
        inspection.report.warn(
            "same info", f"the same seed and actions gave another info: {comparison.soft}"
        )
