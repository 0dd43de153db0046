"""Result objects: short texts, frames and plots."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from sekai.evaluation import evaluate, walk_forward
from tests.evaluation.report_samples import evaluation_of_orders, rich_evaluation
from tests.evaluation.samples import sample_evaluation
from tests.evaluation.worlds import ASSETS, planted

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def walked() -> Any:
    return walk_forward(
        lambda train, fold: lambda seen: np.eye(ASSETS + 1)[0], planted(), folds=2, train_rows=200,
        test_rows=120, warm_up=20, features=["log_return"], env_options={"lookback": 2},
        baselines=["equal_weight"],
    )  # fmt: skip


def test_results_have_short_texts(walked: Any) -> None:
    rich = rich_evaluation(seeds=3, days=300)
    results = [rich, rich.agent, rich.agent.episodes[0], rich.agent.episodes[0].fills, walked]
    for result in [*results, *rich.comparisons, rich.agent.metrics["sharpe"]]:
        assert len(repr(result)) < 400, type(result)
    assert "sharpe" in repr(rich)
    assert "2 folds" in repr(walked)


def test_a_metric_reads_as_a_number_with_its_bounds() -> None:
    metric = sample_evaluation().agent.metrics["sharpe"]
    assert str(metric) == "0.8 [-0.2, 1.9]"
    assert float(metric) == metric.value


@pytest.mark.parametrize("made", [sample_evaluation, evaluation_of_orders, rich_evaluation])
def test_notebooks_show_the_verdict_and_the_table(made: Any) -> None:
    found = made()
    text = found._repr_html_()
    assert len(text) < 40_000
    assert ("<svg" in text) == bool(len(found.agent.episodes[0].equity))
    for name in found.policies:
        assert name in text
    assert "aseline" in text
    assert ("Median equity: " in text) == ("<svg" in text)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_metrics_are_a_frame(backend: str) -> None:
    found = sample_evaluation()
    frame = found.to_frame(backend)
    count = sum(len(outcome.metrics) for outcome in found.policies.values())
    assert frame.shape == (count, 7)
    with pytest.raises(ValueError, match="backend must be one of"):
        found.to_frame("excel")


def test_rows_of_the_headline_hold_the_comparison() -> None:
    frame = sample_evaluation().to_frame()
    row = frame[(frame.policy == "random") & (frame.metric == "sharpe")].iloc[0]
    assert row.agent_ahead_by == 0.3
    assert row.p_value == 0.08
    assert frame[frame.metric == "calmar"].p_value.isna().all()


def test_folds_are_a_frame(walked: Any) -> None:
    frame = walked.to_frame("polars")
    assert frame["fold"].unique(maintain_order=True).to_list() == ["0", "1", "joined"]
    assert set(frame["policy"]) == set(walked.joined.policies)


def test_steps_of_an_episode_are_a_frame() -> None:
    episode = sample_evaluation().agent.episodes[0]
    assert episode.weights is not None
    frame = episode.to_frame()
    assert len(frame) == len(episode.equity)
    np.testing.assert_array_equal(frame["equity"], episode.equity)
    np.testing.assert_array_equal(frame["return"][1:], episode.returns)
    np.testing.assert_array_equal(frame["weight/cash"][1:], episode.weights[:, -1])
    assert frame["reward"].isna().tolist()[:2] == [True, False]
    orders = evaluation_of_orders().agent.episodes[0].to_frame("polars")
    assert orders.columns == ["step", "reward"]


def test_plots_draw_on_the_axes_that_they_return(walked: Any) -> None:
    from matplotlib.figure import Figure

    found = rich_evaluation(seeds=3, days=60)
    for draw in (found.plot_equity, found.plot_drawdown, walked.plot, walked.joined.plot_equity):
        ax = Figure().subplots()
        assert draw(ax) is ax
        assert len(ax.lines) >= 2
    lines = found.plot_equity(Figure().subplots()).lines
    assert len(lines) == len(found.policies)
    assert found.plot_drawdown() is not None
    with pytest.raises(ValueError, match="no equity to draw"):
        evaluation_of_orders().plot_equity()


@pytest.mark.parametrize("made", [sample_evaluation, evaluation_of_orders])
def test_the_first_screen_is_one_page_or_one_picture(made: Any, tmp_path: Path) -> None:
    found = made()
    page = found.to_pdf(tmp_path / "summary.pdf").read_bytes()
    assert page.startswith(b"%PDF")
    assert page.count(b"/Type /Page\n") + page.count(b"/Type /Page ") == 1
    assert found.to_png(tmp_path / "summary.png").read_bytes().startswith(b"\x89PNG")
    assert found.to_pdf(tmp_path / "again.pdf").read_bytes() == page
    with pytest.raises(ValueError, match=r"path must end in \.pdf"):
        found.to_pdf(tmp_path / "summary.png")


@pytest.mark.parametrize(
    ("name", "env", "words"),
    [
        ("momentum", "MarketMaking-v0", "baseline of the tasks portfolio, trading"),
        ("optimal_quote", "MarketMaking-v0", "did you mean 'optimal_quotes'"),
        ("twap", "Trading-v0", "always_long, hold, idle"),
        ("nothing", "OptimalExecution-v0", "almgren_chriss"),
    ],
)
def test_an_unknown_baseline_error_lists_those_of_the_task(name: str, env: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"unknown baseline '{name}'.*{words}"):
        evaluate(name, env, seeds=2)
    with pytest.raises(ValueError, match=f"unknown baseline '{name}'.*{words}"):
        evaluate("random", env, seeds=2, baselines=[name])
