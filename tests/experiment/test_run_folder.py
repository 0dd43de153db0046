from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import BusyError
from sekai.experiment.run_folder import (
    ExperimentError,
    LearningCurve,
    RunFolder,
    find_run,
    free_name,
    is_run_locked,
    latest_name,
    lock_run,
    runs_in,
)
from tests.cli.commands import call


def begun(root: Path, name: str, **facts: object) -> RunFolder:
    run = RunFolder(root / name)
    run.begin("", {"state": "running", **facts})
    return run


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    run = begun(tmp_path, "one", steps=1)

    with pytest.raises(ExperimentError, match="--resume continues it, --name chooses another"):
        run.begin("", {"state": "running"})

    assert run.facts["steps"] == 1


def test_names_count_up(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        names.append(free_name(tmp_path, "demo"))
        begun(tmp_path, names[-1])

    assert names == ["demo", "demo-2", "demo-3"]
    assert latest_name(tmp_path, "demo") == "demo-3"
    assert [run.name for run in runs_in(tmp_path)] == names


def test_a_run_is_found_by_its_name_and_by_its_folder(tmp_path: Path) -> None:
    run = begun(tmp_path, "one")

    assert find_run("one", tmp_path) == run
    assert find_run(str(run.path), tmp_path / "elsewhere") == run
    with pytest.raises(ExperimentError, match="there is no run 'oen' in .*; did you mean 'one'?"):
        find_run("oen", tmp_path)
    with pytest.raises(ExperimentError, match="there are no runs yet"):
        find_run("one", tmp_path / "elsewhere")


def test_a_run_is_running_as_long_as_somebody_holds_its_lock(tmp_path: Path) -> None:
    run = begun(tmp_path, "one")

    with lock_run(run.path):
        assert run.facts["state"] == "running"
        with pytest.raises(BusyError, match="another process"), lock_run(run.path):
            pass
    assert run.facts["state"] == "interrupted"
    assert not is_run_locked(run.path)


def test_what_is_noted_is_beside_what_was_known(tmp_path: Path) -> None:
    run = begun(tmp_path, "one", env="X-v0")

    run.note(state="finished", steps=5)

    assert {"env": "X-v0", "state": "finished", "steps": 5}.items() <= run.facts.items()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_folder_that_is_no_run_is_misuse(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text(text)

    told = call("runs", "odd", "--runs", tmp_path)

    assert told.code == 2
    assert "is not a valid run" in told.err


def test_one_broken_run_does_not_hide_the_others(tmp_path: Path) -> None:
    begun(tmp_path, "whole", env="X-v0")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text("{")

    told = call("runs", "--runs", tmp_path)

    assert told.code == 0
    assert "whole" in told.out
    assert "odd" in told.out


values = st.floats(allow_nan=False) | st.just(math.inf)


@given(
    told=st.lists(st.dictionaries(st.sampled_from("abc"), values), max_size=6),
    steps=st.integers(0, 70),
)
def test_going_back_leaves_what_was_told_until_then(
    told: list[dict[str, float]], steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    curve = LearningCurve(tmp_path_factory.mktemp("curve") / "metrics.jsonl")
    for number, metrics in enumerate(told, start=1):
        curve(10 * number, metrics)
    whole = curve.rows()

    curve.truncate(steps)

    assert curve.rows() == whole[: steps // 10]
    assert whole == [{**one, "steps": 10.0 * place} for place, one in enumerate(told, start=1)]


def test_a_line_that_broke_off_counts_as_none(tmp_path: Path) -> None:
    curve = LearningCurve(tmp_path / "metrics.jsonl")
    curve(10, {"a": 1.0})
    with curve.file.open("a") as lines:
        lines.write('{"a": 2')

    assert curve.last_steps() == 10
    curve.truncate(10)
    assert json.loads(curve.file.read_text()) == {"a": 1.0, "steps": 10}


def test_what_was_not_told_in_an_iteration_is_nan(tmp_path: Path) -> None:
    curve = LearningCurve(tmp_path / "metrics.jsonl")
    curve(10, {"a": 1.0})
    curve(20, {"b": 2.0})

    columns = curve.columns()

    assert columns["steps"] == [10.0, 20.0]
    assert math.isnan(columns["b"][0])
    assert math.isnan(columns["a"][1])
