import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.evaluation.statistics import holm, paired

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([0.01, math.nan, 0.04], [0.02, math.nan, 0.04]),
        ([math.nan], [math.nan]),
        ([], []),
    ],
)
def test_holm_gives_what_is_found_by_hand(given: list[float], wanted: list[float]) -> None:
    assert holm(given) == pytest.approx(wanted, nan_ok=True)


@given(CHANCES)
def test_holm_keeps_the_order_and_lies_between_each_alone_and_bonferroni(
    chances: list[float],
) -> None:
    found = holm(chances)

    for raw, adjusted in zip(chances, found, strict=True):
        assert raw <= adjusted <= min(1.0, len(chances) * raw) + 1e-12
    order = np.argsort(chances, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0).all()


@given(CHANCES, st.floats(0.001, 0.2))
def test_holm_refuses_the_rest_from_the_first_that_is_not_small_enough(
    chances: list[float], level: float
) -> None:
    believed = 0
    for done, chance in enumerate(sorted(chances)):
        if (len(chances) - done) * chance >= level:
            break
        believed += 1

    assert sum(one < level for one in holm(chances)) == believed


def test_beside_six_baselines_like_itself_an_agent_is_seldom_told_apart_from_any() -> None:
    rng, runs = np.random.default_rng(3), 1000
    alone = together = 0
    for _ in range(runs):
        agent = rng.normal(size=12)
        chances = [paired(list(agent), list(rng.normal(size=12)))[1] for _ in range(6)]
        alone += min(chances) < 0.05
        together += min(holm(chances)) < 0.05

    # Three standard errors of 1,000 runs are 2 %.
    assert together / runs <= 0.07
    assert alone / runs > 0.12
