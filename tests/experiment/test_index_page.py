"""Index of runs: results, differing settings and links, on one offline page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sekai.data import simulate_regimes
from sekai.evaluation import evaluate
from sekai.experiment.index_page import run_summary, write_index
from sekai.experiment.run_folder import RunFolder
from tests.cli.commands import call, experiment

HEADLINE = {"metric": "sharpe", "value": "1.5", "low": "0.5", "high": "2.5"}
SUMMARY = {
    "metrics": {"total_return": 0.25, "max_drawdown": -0.1},
    "equity": [1.0, 1.1, 1.25],
    "baseline": "buy_and_hold",
    "baseline_equity": [1.0, 1.05, 1.0],
}


def add_run(root: Path, name: str, config: str = "", **facts: Any) -> RunFolder:
    """A run folder as a finished run leaves it."""
    run = RunFolder(root / name)
    run.begin(
        config or '[env]\nid = "Portfolio-v0"\n',
        {"state": "finished", "env": "Portfolio-v0", "algorithm": "ppo", "seed": 1, **facts},
    )
    run.report.write_text("report", encoding="utf-8")
    return run


class Page(HTMLParser):
    """Elements and rows of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.text = file.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self._is_cell = False
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._is_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self.rows[-1][-1] += data

    def links(self) -> list[str | None]:
        """Targets of the links to reports."""
        return [found["href"] for tag, found in self.elements if tag == "a"][1:]


def test_the_page_shows_results_curves_and_links(tmp_path: Path) -> None:
    add_run(tmp_path, "demo", headline=HEADLINE, summary=SUMMARY)

    page = Page(write_index(tmp_path))

    assert page.rows[1][:2] == ["demo", "Sharpe ratio 1.50[0.50, 2.50]"]
    assert "sekai · runs" in page.text
    assert "evaluation report" not in page.text
    baseline, growth, drawdown = page.rows[1][3:6]
    assert baseline == "Buy and hold"
    assert (growth, drawdown) == ("25.0%", "\N{MINUS SIGN}10.0%")
    assert page.links() == ["demo/report.html"]
    lines = [found["points"] for tag, found in page.elements if tag == "polyline"]
    assert len(lines) == 2
    assert str(lines[1]).split()[0] == "2.0,34.0"
    assert str(lines[1]).split()[-1] == "158.0,2.0"


def test_an_invalid_result_is_marked(tmp_path: Path) -> None:
    add_run(tmp_path, "demo", headline={**HEADLINE, "is_valid": False}, summary=SUMMARY)

    assert Page(write_index(tmp_path)).rows[1][1] == "Sharpe ratio 1.50[0.50, 2.50] (invalid)"


def test_only_settings_that_differ_are_listed(tmp_path: Path) -> None:
    add_run(tmp_path, "a", '[run]\nname = "a"\n[train]\nsteps = 8\ngamma = 0.9\n')
    add_run(tmp_path, "b", '[run]\nname = "b"\n[train]\nsteps = 8\ngamma = 0.5\n')

    rows = Page(write_index(tmp_path)).rows

    assert ["Run", "train.gamma"] in rows
    assert {tuple(row) for row in rows if len(row) == 2} == {
        ("Run", "train.gamma"), ("a", "0.9"), ("b", "0.5"),
    }  # fmt: skip


def test_the_page_makes_no_requests_and_runs_only_its_own_scripts(tmp_path: Path) -> None:
    add_run(tmp_path, "demo", summary=SUMMARY)

    page = Page(write_index(tmp_path))

    policy = next(found["content"] for tag, found in page.elements if "http-equiv" in found)
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"""(src|href)=["']?https?:""", page.text)
    assert len(page.text) < 100_000


@pytest.mark.parametrize(
    "altered",
    [
        {"summary": "<script>alert(1)</script>"},
        {"summary": {"metrics": [1], "equity": "x", "baseline": 3}},
        {"summary": {"metrics": {"total_return": "1"}, "equity": [1, "<b>"], "baseline": "<b>"}},
        {"summary": {"metrics": {"total_return": True}, "equity": [1e308] * 2}},
        {"env": "<img src=x onerror=alert(1)>", "seed": {"a": "<b>"}, "created": 5},
        {"state": 3},
    ],
)
def test_altered_runs_are_shown_as_text(tmp_path: Path, altered: dict[str, Any]) -> None:
    run = add_run(tmp_path, "demo", '[env]\nid = "<b>x</b>"\n')
    facts = json.loads((run.path / "run.json").read_text("utf-8"))
    (run.path / "run.json").write_text(json.dumps({**facts, **altered}), encoding="utf-8")
    add_run(tmp_path, "other")
    plain = tmp_path / "plain"
    add_run(plain, "other")

    page = Page(write_index(tmp_path))

    assert not {"img", "b"} & {tag for tag, _ in page.elements}
    scripts = [
        sum(tag == "script" for tag, _ in each.elements)
        for each in (page, Page(write_index(plain)))
    ]
    assert scripts[0] == scripts[1]
    assert "demo" in {row[0] for row in page.rows}


def test_names_of_runs_are_quoted_in_links(tmp_path: Path) -> None:
    add_run(tmp_path, 'a "b"#?%')

    assert Page(write_index(tmp_path)).links() == ["a%20%22b%22%23%3F%25/report.html"]


@pytest.mark.timeout(300)
def test_the_page_is_refreshed_after_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = experiment(tmp_path)

    for name in ("one", "two"):
        assert call("train", file, "--name", name, "--quiet").code == 0
        assert name in {row[0] for row in Page(Path("runs/index.html")).rows}
    Path("runs/index.html").unlink()
    shown = call("runs", "--html")

    assert shown.out.strip() == "runs/index.html"
    assert Path("runs/index.html").is_file()
    assert "summary" not in call("runs", "one").out


def test_the_summary_of_a_run_is_small_and_finite() -> None:
    evaluation = evaluate(
        "momentum",
        "Portfolio-v0",
        seeds=2,
        baselines=["equal_weight", "random"],
        env_options={"data": simulate_regimes(rows=300), "episode_rows": 100},
        sensitivity=False,
    )

    summary = run_summary(evaluation)

    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    ends = [episode.equity[-1] / episode.equity[0] for episode in evaluation.agent.episodes]
    assert len(summary["equity"]) == 60
    assert summary["equity"][-1] == pytest.approx(sum(ends) / len(ends), rel=1e-5)
    assert summary["baseline"] == "equal_weight"
