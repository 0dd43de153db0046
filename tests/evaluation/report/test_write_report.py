import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sekai.evaluation import Episode, Evaluation
from sekai.evaluation.report import page, write_report
from sekai.evaluation.report.chart import Chart
from sekai.evaluation.report.elements import Label, ReportContext, label_of
from sekai.evaluation.report.seeds import differences, training_section
from tests.evaluation.report_samples import (
    HOSTILE,
    evaluation_of_orders,
    flagged_evaluation,
    rich_evaluation,
)
from tests.evaluation.samples import sample_evaluation

VOID = {"meta", "br", "input", "hr", "img", "link"}
EVERYTHING = [
    "overview",
    "performance",
    "holdings",
    "costs",
    "seeds",
    "training",
    "validity",
    "provenance",
]


class Reader(HTMLParser):
    """The page as elements: whether they close, what they point at, what they say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1] += data
        elif inside != "style":
            self.words += data

    @property
    def panels(self) -> list[str | None]:
        return [found["id"] for _, found in self.elements if found.get("role") == "tabpanel"]

    def count(self, attribute: str) -> int:
        return sum(attribute in found for _, found in self.elements)


def written(evaluations: Evaluation | list[Evaluation], folder: Path) -> Reader:
    text = write_report(evaluations, folder / "report.html").read_text(encoding="utf-8")
    return Reader(text)


def each_episode(evaluation: Evaluation, change: Callable[[Episode], Episode]) -> Evaluation:
    """The same with every episode changed."""
    return replace(
        evaluation,
        policies={
            name: replace(outcome, episodes=[change(episode) for episode in outcome.episodes])
            for name, outcome in evaluation.policies.items()
        },
    )


@pytest.fixture(scope="module")
def rich() -> Evaluation:
    return rich_evaluation(seeds=3, days=120)


def test_a_report_has_all_sections_in_order(rich: Evaluation, tmp_path: Path) -> None:
    found = written(rich, tmp_path)

    assert found.panels == EVERYTHING
    assert "Monthly returns" in found.words
    assert "sekai evaluate runs/ppo-attention-7" in found.words
    assert rich.provenance.data_digest in found.words


def test_sections_without_data_are_left_out(tmp_path: Path) -> None:
    found = written(evaluation_of_orders(), tmp_path)

    assert found.panels == ["overview", "performance", "seeds", "validity", "provenance"]
    assert "Cumulative reward" in found.words
    assert "Equity and drawdown" not in found.words


def test_months_are_left_out_where_there_are_no_dates(tmp_path: Path) -> None:
    found = written(rich_evaluation(seeds=2, days=90, dates=False), tmp_path)

    assert found.panels == EVERYTHING
    assert "Monthly returns" not in found.words


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"weights": None}, "Weights and exposures"),
        ({"fills": None}, "Fills and prices"),
        ({"costs": {}}, "Costs by kind"),
        ({"equity": np.zeros(0)}, "Equity and drawdown"),
    ],
)
def test_a_chart_without_its_data_is_left_out(
    rich: Evaluation, change: dict[str, object], gone: str, tmp_path: Path
) -> None:
    assert gone in written(rich, tmp_path).words

    less = each_episode(rich, lambda episode: replace(episode, **change))  # type: ignore[arg-type]

    assert gone not in written(less, tmp_path).words


def test_the_learning_curve_of_returns_is_shown_first(rich: Evaluation) -> None:
    reported = {"steps": [0.0, 1.0], "episodes": [0.0, 1.0], "episode_return": [0.0, 1.0],
            "eval/length": [0.0, 1.0], "eval/return": [0.0, 1.0]}  # fmt: skip
    section = training_section(ReportContext(replace(rich, learning=reported)))

    assert section is not None
    (chart,) = section.blocks
    assert isinstance(chart, Chart)
    assert list(chart.views) == ["eval/return", "episode_return", "episodes", "eval/length"]


def test_accounts_of_several_agents_are_drawn_beside_their_sum(
    rich: Evaluation, tmp_path: Path
) -> None:
    assert "Accounts of the agents" not in written(rich, tmp_path).words

    team = each_episode(
        rich,
        lambda one: replace(one, members={"a": one.equity * 0.4, "b": one.equity * 0.6}),
    )
    assert "Accounts of the agents" in written(team, tmp_path).words


def test_the_name_of_the_agent_is_written_as_it_is() -> None:
    sample = sample_evaluation("fx")
    agent, *baselines = sample.policies.values()
    policies = {each.name: each for each in [replace(agent, name="fx"), *baselines]}

    labels = ReportContext(replace(sample, policies=policies)).labels

    assert labels["fx"] == "fx"
    assert labels["equal_weight"] == "Equal weight"


def test_numbers_of_one_of_several_agents_are_written_as_those_of_all() -> None:
    assert label_of("total_return of agent_1") == Label("Total return of Agent 1", "percent")


def test_nothing_of_the_page_points_outside_of_it(rich: Evaluation, tmp_path: Path) -> None:
    found = written(rich, tmp_path)

    outside = {"src", "srcset", "action", "data", "poster", "ping", "manifest"}
    assert not [names for _, names in found.elements if outside & set(names)]
    links = [names["href"] for _, names in found.elements if "href" in names]
    assert links == ["#content"]
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in found.elements}
    ours = "".join(file.read_text(encoding="utf-8") for file in TEMPLATES)
    assert not re.search(r"https?:|//\w|@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", ours)


TEMPLATES = sorted((Path(page.__file__).parent / "templates").iterdir())


def test_a_browser_is_told_to_refuse_everything_else(rich: Evaluation, tmp_path: Path) -> None:
    policies = [
        names["content"] or ""
        for tag, names in written(rich, tmp_path).elements
        if tag == "meta" and names.get("http-equiv") == "Content-Security-Policy"
    ]

    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe-inline'" not in policies[0].partition("script-src")[2].partition(";")[0]


def test_names_and_messages_cannot_act(tmp_path: Path) -> None:
    path = write_report(flagged_evaluation(), tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")

    assert HOSTILE not in text
    assert HOSTILE in Reader(text).words
    scripts = len(page.SCRIPTS) + 2
    assert text.count("<script") == scripts
    assert "<img" not in text


def test_an_error_is_the_first_thing_to_read(tmp_path: Path) -> None:
    words = written(flagged_evaluation(), tmp_path).words
    assert words.index("Results are invalid") < words.index("Comparison with baselines")


def test_the_same_evaluation_gives_the_same_bytes(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.evaluation.report_samples import rich_evaluation as rich;"
        "from sekai.evaluation.report import write_report;"
        "write_report(rich(seeds=2, days=60), sys.argv[1]);"
        "write_report([rich(seeds=2, days=60), rich(seeds=3, days=50)], sys.argv[2])"
    )
    for place in ("1", "2"):
        (tmp_path / place).mkdir()
        names = [str(tmp_path / place / name) for name in ("one.html", "two.html")]
        subprocess.run(
            [sys.executable, "-c", program, *names],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": place},
            cwd=Path(__file__).parents[3],
        )

    for name in ("one.html", "two.html"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_numbers_that_mean_nothing_spoil_nothing(
    rich: Evaluation, value: float, tmp_path: Path
) -> None:
    def spoil(episode: Episode) -> Episode:
        equity = episode.equity.copy()
        equity[40:] = value
        return replace(episode, equity=equity, rewards=np.full(120, value))

    agent = replace(rich.agent, by_seed={"sharpe": [value] * 3})
    spoilt = replace(rich, policies={"agent": agent} | rich.baselines, periods_per_year=value)

    found = written(each_episode(spoilt, spoil), tmp_path)

    assert found.panels[0] == "overview"
    assert not re.search(r"\bnan\b|\binf\b", found.words, re.IGNORECASE)


def test_episodes_that_end_early_are_drawn(rich: Evaluation, tmp_path: Path) -> None:
    def cut(episode: Episode) -> Episode:
        steps = 50 + episode.seed % 7
        assert episode.times is not None
        assert episode.weights is not None
        return replace(
            episode,
            rewards=episode.rewards[:steps],
            equity=episode.equity[: steps + 1],
            times=episode.times[: steps + 1],
            weights=episode.weights[:steps],
        )

    assert written(each_episode(rich, cut), tmp_path).panels == EVERYTHING


def test_accounts_that_begin_with_nothing_are_shown_in_money(
    rich: Evaluation, tmp_path: Path
) -> None:
    made = each_episode(rich, lambda one: replace(one, equity=one.equity - one.equity[0]))
    path = write_report(made, tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")

    assert "Profit, in money" in text
    assert "Monthly returns" not in text


def test_baselines_whose_episodes_are_not_kept_are_still_in_the_tables(
    rich: Evaluation, tmp_path: Path
) -> None:
    bare = {name: replace(one, episodes=[]) for name, one in rich.baselines.items()}
    found = written(replace(rich, policies={"agent": rich.agent} | bare), tmp_path)

    assert found.panels == EVERYTHING
    assert "Minimum variance" in found.words


def test_costs_of_a_kind_that_nobody_paid_are_not_listed(rich: Evaluation, tmp_path: Path) -> None:
    none = np.zeros(120)
    paid = each_episode(rich, lambda one: replace(one, costs={**one.costs, "delisting": none}))
    free = each_episode(rich, lambda one: replace(one, costs={"delisting": none}))
    text = write_report(paid, tmp_path / "report.html").read_text(encoding="utf-8")

    assert '"name":"Commission"' in text
    assert '"name":"Delisting"' not in text
    assert "Costs by kind" not in written(free, tmp_path).words


def test_an_agent_alone_can_be_shown(rich: Evaluation, tmp_path: Path) -> None:
    alone = replace(rich, policies={"agent": rich.agent}, comparisons=[], sensitivity=None)
    assert "Not compared with any baseline" in written(alone, tmp_path).words


def test_long_episodes_make_no_long_page(tmp_path: Path) -> None:
    long = rich_evaluation(seeds=2, days=20_000, assets=3)
    text = write_report(long, tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(text) < 2_000_000


def test_many_seeds_make_no_long_page(tmp_path: Path) -> None:
    many = rich_evaluation(seeds=40, days=1500, assets=3)
    text = write_report(many, tmp_path / "report.html").read_text(encoding="utf-8")

    assert len(text) < 2_000_000
    assert text.count(">Seed 107<") == 2
    assert ">Seed 108<" not in text


def test_several_runs_are_shown_beside_each_other(tmp_path: Path) -> None:
    runs = [rich_evaluation(name, seeds=3, days=60) for name in ("first", "second", "second")]
    found = written(runs, tmp_path)

    assert found.panels == ["overview", "performance", "seeds", "validity", "provenance"]
    assert "Comparable runs" in found.words
    assert "Paired differences to first" in found.words
    assert "second (2)" in found.words


def test_runs_that_were_not_judged_alike_are_told_apart(tmp_path: Path) -> None:
    rich = rich_evaluation(seeds=3, days=60)
    other = replace(
        rich_evaluation(seeds=2, days=60),
        env="Trading-v0",
        provenance=replace(rich.provenance, data_digest="other", settings={"fee_rate": "0"}),
    )

    assert differences([rich, rich]) == []
    assert differences([rich, other]) == [
        "environment", "data", "seeds", "setting fee_rate", "setting fill", "setting spread",
    ]  # fmt: skip
    assert "Runs are not comparable" in written([rich, other], tmp_path).words


def test_runs_on_the_same_data_may_differ_in_settings(tmp_path: Path) -> None:
    rich = rich_evaluation(seeds=3, days=60)
    other = replace(rich, provenance=replace(rich.provenance, settings={"fee_rate": "0"}))
    found = written([rich, other], tmp_path)

    assert "Runs on the same data with different settings" in found.words
    assert "setting fee_rate" in found.words
    assert "Paired differences" in found.words


def test_no_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one evaluation, got none"):
        write_report([], tmp_path / "report.html")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must end in .html"):
        write_report(sample_evaluation(), tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_a_report_needs_no_optional_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plotly", "matplotlib", "pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)

    assert write_report(sample_evaluation(), tmp_path / "report.html").stat().st_size < 500_000


def test_importing_reports_brings_neither_plotly_nor_matplotlib() -> None:
    program = (
        "import sys, sekai.evaluation.report;"
        "sys.exit(bool({'plotly', 'matplotlib', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
