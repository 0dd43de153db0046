from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.cli.training_source import MAX_POINTS, CurveFollower, TrainingSource
from sekai.experiment.run_folder import LearningCurve, lock_run
from sekai.live.watch import MonitorSource
from tests.live.watch.samples import begin_run, learn


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_training_is_a_source_and_says_how_far_it_is(tmp_path: Path) -> None:
    run = begin_run(tmp_path, rows=30)
    source = TrainingSource(run)

    with lock_run(run.path):
        found = source.read()

    assert isinstance(source, MonitorSource)
    assert (source.kind, source.title) == ("training", "demo")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["state"], found["steps"], found["planned_steps"]) == ("running", 30720, 100_000)
    assert (found["env"], found["algorithm"], found["note"]) == ("Portfolio-v0", "ppo", "")
    rows = run.curve.columns()
    for name in ("episode_return", "loss_critic"):
        assert found["columns"][name] == {"steps": rows["steps"], "values": rows[name]}
        assert found["latest"][name] == rows[name][-1]


def test_speed_and_time_left_are_those_of_late(tmp_path: Path) -> None:
    run = begin_run(tmp_path, rows=10)
    source = TrainingSource(run)
    with lock_run(run.path):
        os.utime(run.curve.file, (1000, 1000))
        first = source.read()
        learn(run, 12)
        os.utime(run.curve.file, (1004, 1004))
        second = source.read()
    source._facts_read = -math.inf
    stopped = source.read()

    assert (first["steps_per_second"], first["seconds_left"]) == (None, None)
    assert second["steps_per_second"] == 512.0
    assert second["seconds_left"] == (100_000 - 12 * 1024) / 512.0
    assert stopped["state"] == "interrupted"
    assert (stopped["steps_per_second"], stopped["seconds_left"]) == (None, None)


def test_a_training_that_went_back_is_followed(tmp_path: Path) -> None:
    run = begin_run(tmp_path, rows=10)
    source = TrainingSource(run)
    before = source.version()
    assert source.read()["steps"] == 10 * 1024

    run.curve.truncate(4 * 1024)

    assert source.version() != before
    assert source.read()["steps"] == 4 * 1024
    learn(run, 5)
    assert source.read()["columns"]["episode_return"]["steps"] == [n * 1024.0 for n in range(1, 6)]


@pytest.mark.parametrize("text", ["{", "[" * 100_000], ids=["half", "deep"])
def test_a_run_that_cannot_be_read_leaves_the_last_with_a_note(tmp_path: Path, text: str) -> None:
    run = begin_run(tmp_path, rows=3)
    clock = Clock()
    source = TrainingSource(run, clock)
    before, version = source.read(), source.version()

    (run.path / "run.json").write_text(text)
    clock.now += 10
    assert source.version() != version
    found = source.read()

    assert found["note"].startswith("cannot read run.json, showing the last valid state")
    assert found["planned_steps"] == before["planned_steps"] == 100_000


@pytest.mark.parametrize(
    "facts",
    [{"state": ""}, {"state": 3, "planned_steps": "9"}, {"state": "x", "planned_steps": 10**400}],
)
def test_odd_facts_are_no_error(tmp_path: Path, facts: dict[str, object]) -> None:
    run = begin_run(tmp_path, rows=3)
    (run.path / "run.json").write_text(json.dumps(facts))
    with run.curve.file.open("a") as lines:
        lines.write(json.dumps({"steps": 10**400}) + "\n")

    found = TrainingSource(run).read()

    assert (found["planned_steps"], found["steps"]) == (0, 3 * 1024)


def test_the_process_is_asked_for_only_now_and_then(tmp_path: Path) -> None:
    run = begin_run(tmp_path, rows=3)
    clock = Clock()
    source = TrainingSource(run, clock)
    source.read()

    run.note(state="finished")
    clock.now += 1
    assert source.read()["state"] == "interrupted"
    clock.now += 1.5

    assert source.read()["state"] == "finished"


def test_a_line_is_read_when_it_is_whole_and_odd_ones_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    curve = CurveFollower(file)
    curve.follow()
    assert curve.columns() == {}

    file.write_text('{"steps": 1, "a": 5}\n{"steps": 2, "a"')
    curve.follow()
    assert curve.columns() == {"a": {"steps": [1.0], "values": [5.0]}}

    with file.open("a") as lines:
        lines.write(': 6}\n[]\n{"a": 1}\n{"steps": 3, "a": "x"}\n{\n{"steps": 4, "a": "inf"}\n')
    curve.follow()

    assert curve.columns() == {"a": {"steps": [1.0, 2.0, 4.0], "values": [5.0, 6.0, None]}}
    assert curve.latest == {"steps": 4.0, "a": 6.0}


def test_long_curves_are_thinned_and_keep_their_ends_and_peaks(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    rows = [{"steps": at, "a": float(at == 7777)} for at in range(20_000)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    curve = CurveFollower(file)

    curve.follow()

    found = curve.columns()["a"]
    assert len(found["steps"]) <= MAX_POINTS
    assert found["steps"][0] == 0
    assert found["steps"][-1] == 19_999
    assert max(one for one in found["values"] if one is not None) == 1.0


@given(
    told=st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(-9, 9)), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
def test_however_it_grows_the_curve_is_the_same(
    told: list[dict[str, float]], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("curve")
    whole = LearningCurve(folder / "whole.jsonl")
    for number, metrics in enumerate(told, start=1):
        whole(number, metrics)
    text = whole.file.read_bytes() if told else b""
    growing = CurveFollower(folder / "growing.jsonl")
    begin = 0
    with (folder / "growing.jsonl").open("wb", buffering=0) as lines:
        for end in sorted([*cuts, len(text)]):
            lines.write(text[begin:end])
            begin = max(begin, min(end, len(text)))
            growing.follow()

    columns = whole.columns()
    for name, found in growing.columns().items():
        pairs = zip(columns["steps"], columns[name], strict=True)
        expected = [(steps, one) for steps, one in pairs if not math.isnan(one)]
        assert list(zip(found["steps"], found["values"], strict=True)) == expected
    named = {name for one in told for name in one}
    assert set(growing.columns()) == named
