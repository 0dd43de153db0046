from dataclasses import replace

import pytest

from sekai.evaluation import BaselineComparison, Evaluation, Flag, Interval
from sekai.evaluation.report.summary import deflated_sharpe_sentence, verdict_of
from tests.evaluation.samples import sample_evaluation

LOW = "Better than all 3 baselines, but the deflated Sharpe ratio is low"
AHEAD, OPEN, BEHIND = (0.1, 0.5), (-0.1, 0.5), (-0.5, -0.1)


def judged(*spans: tuple[float, float], deflated: float | None = 0.99) -> Evaluation:
    sample = sample_evaluation()
    names = list(sample.baselines)
    assert sample.deflated_sharpe is not None
    return replace(
        sample,
        comparisons=[
            BaselineComparison(baseline=name, metric="sharpe", wins=0.5,
                       p_value=0.01 if low * high > 0 else 0.1,
                       difference=Interval(value=(low + high) / 2, low=low, high=high))
            for name, (low, high) in zip(names, spans, strict=False)
        ],
        deflated_sharpe=None if deflated is None else replace(
            sample.deflated_sharpe, deflated=deflated),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "deflated", "phrase", "look"),
    [
        ([AHEAD] * 3, 0.99, "Significantly better than all 3 baselines", "good"),
        ([AHEAD] * 3, None, "Significantly better than all 3 baselines", "good"),
        ([AHEAD], 0.99, "Significantly better than its baseline", "good"),
        ([AHEAD] * 3, 0.94, LOW, "inconclusive"),
        ([AHEAD] * 3, float("nan"), LOW, "inconclusive"),
        ([AHEAD, OPEN, AHEAD], 0.99, "Significantly better than 2 of 3 baselines",
         "inconclusive"),
        ([OPEN] * 3, 0.99, "Not significantly different from its baselines", "inconclusive"),
        ([AHEAD, BEHIND, BEHIND], 0.99, "Significantly worse than Buy and hold and Random", "bad"),
        ([BEHIND] * 3, 0.99,
         "Significantly worse than Equal weight, Buy and hold and Random", "bad"),
        ([(float("nan"), float("nan"))] * 3, 0.99,
         "Not significantly different from its baselines", "inconclusive"),
        ([], 0.99, "Not compared with any baseline", "inconclusive"),
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

    assert verdict_of(replace(found, comparisons=many)).look == "inconclusive"


def test_an_error_goes_before_every_success() -> None:
    flag = Flag(name="look_ahead", level="error", message="it saw the future.")
    found = verdict_of(replace(judged(*[AHEAD] * 3), flags=[flag]))

    assert (found.phrase, found.look) == ("Results are invalid", "bad")
    assert found.sentences[0] == "It saw the future."


def test_a_warning_alone_changes_no_verdict() -> None:
    flag = Flag(name="few_seeds", level="warning", message="few")
    assert verdict_of(replace(judged(*[AHEAD] * 3), flags=[flag])).look == "good"


def test_every_baseline_is_named_with_its_interval() -> None:
    first, second, luck = verdict_of(judged(AHEAD, OPEN, AHEAD)).sentences

    size = "(+0.30 [0.10, 0.50])"
    assert first == (
        f"Sharpe ratio is significantly better than Equal weight {size} and Random {size}."
    )
    assert second.startswith("Sharpe ratio is not significantly different from Buy and hold (")
    assert luck.startswith("After 7 trials on this data")


def test_the_deflated_sharpe_ratio_is_compared_with_its_threshold() -> None:
    found = sample_evaluation().deflated_sharpe
    assert found is not None

    assert deflated_sharpe_sentence(replace(found, deflated=0.96)).endswith(
        "is 96.0%, at least the threshold of 95%."
    )
    assert deflated_sharpe_sentence(found).endswith("is 81.0%, below the threshold of 95%.")
    assert "a single trial" in deflated_sharpe_sentence(replace(found, trials=1))
    assert deflated_sharpe_sentence(replace(found, deflated=float("nan"))).endswith("is undefined.")
