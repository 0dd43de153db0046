from dataclasses import replace

import pytest

from sekai.evaluation import Comparison, Evaluation, Flag, Interval
from sekai.evaluation.report.verdict import luck_in_words, verdict_of
from tests.evaluation.samples import sample_evaluation

AHEAD, OPEN, BEHIND = (0.1, 0.5), (-0.1, 0.5), (-0.5, -0.1)


def judged(*spans: tuple[float, float], deflated: float | None = 0.99) -> Evaluation:
    sample = sample_evaluation()
    names = list(sample.baselines)
    assert sample.honesty is not None
    return replace(
        sample,
        comparisons=[
            Comparison(baseline=name, metric="sharpe", wins=0.5,
                       p_value=0.01 if low * high > 0 else 0.1,
                       difference=Interval(value=(low + high) / 2, low=low, high=high))
            for name, (low, high) in zip(names, spans, strict=False)
        ],
        honesty=None if deflated is None else replace(sample.honesty, deflated=deflated),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "deflated", "phrase", "look"),
    [
        ([AHEAD] * 3, 0.99, "Ahead of all 3 baselines", "good"),
        ([AHEAD] * 3, None, "Ahead of all 3 baselines", "good"),
        ([AHEAD], 0.99, "Ahead of its baseline", "good"),
        ([AHEAD] * 3, 0.94, "Ahead of all 3 baselines, but luck is not ruled out", "open"),
        ([AHEAD] * 3, float("nan"), "Ahead of all 3 baselines, but luck is not ruled out", "open"),
        ([AHEAD, OPEN, AHEAD], 0.99, "Ahead of 2 of 3 baselines, not told apart from the rest",
         "open"),
        ([OPEN] * 3, 0.99, "Not told apart from its baselines", "open"),
        ([AHEAD, BEHIND, BEHIND], 0.99, "Behind Buy and hold and Random", "bad"),
        ([BEHIND] * 3, 0.99, "Behind Equal weight, Buy and hold and Random", "bad"),
        ([(float("nan"), float("nan"))] * 3, 0.99, "Not told apart from its baselines", "open"),
        ([], 0.99, "Judged beside nobody", "open"),
    ],
)  # fmt: skip
def test_the_verdict_claims_no_more_than_intervals_show(
    spans: list[tuple[float, float]], deflated: float | None, phrase: str, look: str
) -> None:
    found = verdict_of(judged(*spans, deflated=deflated))
    assert (found.phrase, found.look) == (phrase, look)


def test_an_interval_alone_is_no_verdict_where_many_were_compared() -> None:
    found = judged(*[AHEAD] * 3)
    many = [replace(one, p_value=0.06) for one in found.comparisons]

    assert verdict_of(replace(found, comparisons=many)).look == "open"


def test_an_error_goes_before_every_success() -> None:
    flag = Flag(name="look_ahead", level="error", message="it saw the future.")
    found = verdict_of(replace(judged(*[AHEAD] * 3), flags=[flag]))

    assert (found.phrase, found.look) == ("Not to be believed", "bad")
    assert found.sentences[0] == "It saw the future."


def test_a_warning_alone_changes_no_verdict() -> None:
    flag = Flag(name="few_seeds", level="warning", message="few")
    assert verdict_of(replace(judged(*[AHEAD] * 3), flags=[flag])).look == "good"


def test_every_baseline_is_named_with_its_interval() -> None:
    first, second, luck = verdict_of(judged(AHEAD, OPEN, AHEAD)).sentences

    size = "(+0.30 [0.10, 0.50])"
    assert first == f"By Sharpe ratio, ahead of Equal weight {size} and Random {size}."
    assert second.startswith("By Sharpe ratio, not told apart from Buy and hold (+0.20 [")
    assert luck.startswith("After 7 trials on this data")


def test_luck_is_told_in_words() -> None:
    honesty = sample_evaluation().honesty
    assert honesty is not None

    assert luck_in_words(replace(honesty, deflated=0.96)).endswith("is 96.0%: enough.")
    assert luck_in_words(honesty).endswith("is 81.0%: less than the 95% asked for.")
    assert "a single trial" in luck_in_words(replace(honesty, trials=1))
    assert luck_in_words(replace(honesty, deflated=float("nan"))).endswith("is not defined.")
