"""Probability of backtest overfitting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from sekai.evaluation.statistics import multiple_testing, overfitting_probability

Floats = NDArray[np.float64]


def by_hand(returns: Floats, parts: int) -> float:
    """Compute the probability directly from its definition."""
    cut = np.split(returns, parts)
    below = []
    for chosen in combinations(range(parts), parts // 2):
        rest = [place for place in range(parts) if place not in chosen]
        seen = np.concatenate([cut[place] for place in chosen])
        unseen = np.concatenate([cut[place] for place in rest])
        best = int(np.argmax(seen.mean(axis=0) / seen.std(axis=0, ddof=1)))
        evaluated = unseen.mean(axis=0) / unseen.std(axis=0, ddof=1)
        share = (np.argsort(np.argsort(evaluated))[best] + 1) / (len(evaluated) + 1)
        below.append(1.0 if share < 0.5 else 0.5 if share == 0.5 else 0.0)
    return float(np.mean(below))


@pytest.mark.parametrize("agents", [2, 5, 8])
def test_it_is_what_the_method_gives_by_hand(agents: int) -> None:
    returns = np.random.default_rng(agents).normal(0.0, 1.0, (96, agents))

    assert overfitting_probability(returns, parts=6) == pytest.approx(by_hand(returns, 6))


def test_among_agents_without_skill_the_best_is_as_often_below_as_above() -> None:
    rng = np.random.default_rng(0)
    found = [overfitting_probability(rng.normal(size=(320, 20)), parts=8) for _ in range(60)]

    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


def test_an_agent_with_skill_is_picked_rightly() -> None:
    returns = np.random.default_rng(0).normal(size=(1600, 20))
    returns[:, 7] += 0.3

    assert overfitting_probability(returns) == 0.0


def test_agents_that_are_best_where_others_fail_are_overfitted() -> None:
    rng = np.random.default_rng(0)
    returns = rng.normal(0.0, 0.1, (160, 16))
    for place in range(16):
        returns[10 * place : 10 * place + 10, place] += 3.0
        returns[:, place] -= returns[:, place].mean()

    assert overfitting_probability(returns) > 0.9


def test_the_scale_and_the_memory_at_once_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = np.random.default_rng(1).normal(size=(200, 9))
    whole = overfitting_probability(returns, parts=10)
    monkeypatch.setattr(multiple_testing, "BATCH_SIZE", 100)

    assert overfitting_probability(1e-4 * returns, parts=10) == pytest.approx(whole)


def test_steps_that_do_not_fill_the_parts_are_left_out_at_the_beginning() -> None:
    returns = np.random.default_rng(2).normal(size=(103, 5))

    assert overfitting_probability(returns, 10) == overfitting_probability(returns[3:], 10)


@pytest.mark.parametrize("parts", [0, 1, 7])
def test_parts_that_have_no_half_are_refused(parts: int) -> None:
    with pytest.raises(ValueError, match=f"even number of at least 2, got {parts}"):
        overfitting_probability(np.zeros((100, 3)), parts)


def test_too_little_to_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 steps of at least 2 agents, got 31 by 2"):
        overfitting_probability(np.zeros((31, 2)))
    with pytest.raises(ValueError, match="got 100 by 1"):
        overfitting_probability(np.zeros((100, 1)))
    with pytest.raises(ValueError, match="finite"):
        overfitting_probability(np.full((100, 2), np.nan))
