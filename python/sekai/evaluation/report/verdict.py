"""What the numbers say, in words that claim no more than they show."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sekai.evaluation.evaluation import Comparison, Evaluation, Honesty
from sekai.evaluation.report.labels import label_of, policy_label
from sekai.evaluation.report.numbers import bounds, shown, signed, size_of

__all__ = ["CONFIDENT", "Verdict", "luck_in_words", "verdict_of"]

CONFIDENT = 0.95
"""The chance from which a deflated ratio counts as more than luck."""

STANDINGS = {"ahead": "ahead of", "open": "not told apart from", "behind": "behind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judgement: in a phrase, in sentences, and how it looks."""

    phrase: str
    sentences: list[str]
    look: str
    """ "good", "open" or "bad"."""


def verdict_of(evaluation: Evaluation) -> Verdict:
    """The agent's, beside its baselines, after luck is counted."""
    phrase, look = _phrase(evaluation)
    errors = [flag for flag in evaluation.flags if flag.level == "error"]
    sentences = _sentences(evaluation)
    if evaluation.honesty is not None:
        sentences.append(luck_in_words(evaluation.honesty))
    if errors:
        told = "; ".join(flag.message.rstrip(".") for flag in errors)
        told = f"{told[:1].upper()}{told[1:]}."
        return Verdict(phrase="Not to be believed", sentences=[told, *sentences], look="bad")
    return Verdict(phrase=phrase, sentences=sentences, look=look)


def _phrase(evaluation: Evaluation) -> tuple[str, str]:
    """How it stands with all baselines, and whether luck would do."""
    places = [comparison.standing for comparison in evaluation.comparisons]
    if not places:
        return "Judged beside nobody", "open"
    if "behind" in places:
        behind = [policy_label(one.baseline) for one in evaluation.comparisons
                  if one.standing == "behind"]  # fmt: skip
        many = f"{len(behind)} of {len(places)} baselines"
        return f"Behind {_listed(behind) if len(behind) < 4 else many}", "bad"
    ahead = places.count("ahead")
    if ahead == 0:
        return "Not told apart from its baselines", "open"
    count = f"all {ahead} baselines" if ahead > 1 else "its baseline"
    if ahead < len(places):
        return f"Ahead of {ahead} of {len(places)} baselines, not told apart from the rest", "open"
    if evaluation.honesty is not None and not evaluation.honesty.deflated >= CONFIDENT:
        return f"Ahead of {count}, but luck is not ruled out", "open"
    return f"Ahead of {count}", "good"


def _sentences(evaluation: Evaluation) -> list[str]:
    """One for each standing, with all baselines that it holds for."""
    found = []
    for place, words in STANDINGS.items():
        those = [one for one in evaluation.comparisons if one.standing == place]
        if those:
            metric = label_of(those[0].metric)
            sizes = _listed([_size(one, metric.kind) for one in those])
            found.append(f"By {metric.text}, {words} {sizes}.")
    return found


def _size(comparison: Comparison, kind: str) -> str:
    found = comparison.difference
    size = f"{signed(found.value, kind, size_of(found))} {bounds(found, kind)}"
    return f"{policy_label(comparison.baseline)} ({size.strip()})"


def luck_in_words(honesty: Honesty) -> str:
    """What is left of a Sharpe ratio after the trials are counted."""
    trials = f"{honesty.trials} trials" if honesty.trials != 1 else "a single trial"
    if math.isnan(honesty.deflated):
        return f"After {trials} on this data, the chance that this is skill is not defined."
    enough = "enough" if honesty.deflated >= CONFIDENT else "less than the 95% asked for"
    return (
        f"After {trials} on this data, the chance that the Sharpe ratio is more than the best of "
        f"luck is {shown(honesty.deflated, 'chance')}: {enough}."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
