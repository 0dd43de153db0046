"""Progress and size of evaluations by default."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import sekai
from sekai.evaluation import evaluate
from sekai.evaluation.progress import DELAY, EvaluationProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(progress: EvaluationProgress, runs: int, steps: int = 640) -> None:
    for _ in range(runs):
        for _ in range(steps):
            progress.step()
        progress.end_run()


def test_a_function_hears_of_progress_that_never_goes_back() -> None:
    heard: list[tuple[int, int]] = []
    progress = EvaluationProgress(lambda done, total: heard.append((done, total)), runs=2)

    run(progress, 1)
    progress.expect(6)
    run(progress, 7)
    progress.close()

    shares = [done / total for done, total in heard]
    assert shares == sorted(shares)
    assert len(set(shares)) > 20
    assert shares[-1] == 1.0


def test_a_terminal_sees_a_bar_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = EvaluationProgress(None, 4, clock)

    run(progress, 1)
    assert screen.getvalue() == ""
    clock.now = DELAY + 0.1
    run(progress, 3)
    progress.close()

    assert "evaluate [" in screen.getvalue()
    assert screen.getvalue().endswith("1000/1000\n")


def test_a_file_sees_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for progress, expected in ((None, False), (False, False), (True, True)):
        file = io.StringIO()
        monkeypatch.setattr(sys, "stderr", file)
        shown = EvaluationProgress(progress, 2, clock)
        clock.now += DELAY + 1
        run(shown, 2)
        shown.close()
        assert bool(file.getvalue()) == expected


def test_a_short_evaluation_reports_its_runs() -> None:
    heard: list[int] = []
    evaluate("random", "MarketMaking-v0", seeds=4, progress=lambda done, total: heard.append(done))
    assert heard == sorted(heard)
    assert heard[-1] == 1000
    assert len(heard) > 10


def test_the_largest_task_leaves_out_the_grid_and_makes_a_small_page(tmp_path: Path) -> None:
    found = evaluate("always_long", "Trading-v0", seeds=2, baselines=["hold", "random"])

    assert len(found.agent.episodes[0].rewards) == 10_000
    assert found.sensitivity is None
    assert len(repr(found)) < 400
    assert found.to_html(tmp_path / "report.html").stat().st_size < 2_000_000
    assert evaluate("random", "MarketMaking-v0", seeds=4).sensitivity is not None


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("spec", list(sekai.all_specs()), ids=str)
def test_every_registered_env_makes_a_small_page_by_default(spec: Any, tmp_path: Path) -> None:
    found = evaluate("random", spec)
    assert found.to_html(tmp_path / "report.html").stat().st_size < 2_000_000
