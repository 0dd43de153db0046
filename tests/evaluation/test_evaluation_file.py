import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.evaluation import EvaluationFileError, load_evaluation, save_evaluation
from tests.evaluation.samples import sample_evaluation


def same(one: Any, other: Any) -> bool:
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in names
        )
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other)) and type(one) is type(other)


def test_an_evaluation_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = sample_evaluation()
    save_evaluation(written, tmp_path / "evaluation.json")
    assert same(load_evaluation(tmp_path / "evaluation.json"), written)


def test_files_are_strict_json(tmp_path: Path) -> None:
    save_evaluation(sample_evaluation(), tmp_path / "evaluation.json")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads((tmp_path / "evaluation.json").read_text(), parse_constant=refuse)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"format": "sekai evaluation 2", "evaluation": {}}',
        '{"format": "sekai evaluation 1", "evaluation": {}}',
        '{"format": "sekai evaluation 1", "evaluation": []}',
    ],
)
def test_what_is_no_evaluation_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(EvaluationFileError, match="is not an evaluation"):
        load_evaluation(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("name", 3), ("seeds", ["one"]), ("policies", []), ("unknown", 1), ("flags", [{"name": 1}])],
)
def test_a_field_of_another_kind_is_refused(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "evaluation.json"
    save_evaluation(sample_evaluation(), path)
    found = json.loads(path.read_text())
    found["evaluation"][name] = value
    path.write_text(json.dumps(found))
    with pytest.raises(EvaluationFileError):
        load_evaluation(path)


@pytest.mark.parametrize(
    "packed",
    [
        {"$array": ["<f8", [2**60], "", "zlib"]},
        {"$array": ["<f8", [-1], "", "zlib"]},
        {"$array": ["<f8", [3], "!", "zlib"]},
        {"$array": ["<f8", [3], "AAAA", "zlib"]},
        {"$array": ["|O", [1], "", "zlib"]},
        {"$array": ["<f8", [1]]},
    ],
)
def test_arrays_that_are_none_are_refused(tmp_path: Path, packed: dict[str, Any]) -> None:
    path = tmp_path / "evaluation.json"
    save_evaluation(sample_evaluation(), path)
    found = json.loads(path.read_text())
    found["evaluation"]["policies"]["agent"]["episodes"][0]["equity"] = packed
    path.write_text(json.dumps(found))
    with pytest.raises(EvaluationFileError):
        load_evaluation(path)


def test_bytes_that_unpack_to_more_than_was_said_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    save_evaluation(sample_evaluation(), path)
    found = json.loads(path.read_text())
    equity = found["evaluation"]["policies"]["agent"]["episodes"][0]["equity"]
    equity["$array"][1] = [equity["$array"][1][0] - 1]
    path.write_text(json.dumps(found))
    with pytest.raises(EvaluationFileError, match="expected an array of shape"):
        load_evaluation(path)
