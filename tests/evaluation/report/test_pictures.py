import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sekai.error import MissingExtraError
from sekai.evaluation.report import write_pictures
from tests.evaluation.report_samples import evaluation_of_orders, rich_evaluation
from tests.evaluation.samples import sample_evaluation

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_main_charts_are_written_as_png(tmp_path: Path) -> None:
    found = write_pictures(rich_evaluation(seeds=3, days=60), tmp_path / "made" / "here")

    names = ["equity", "weights", "seeds", "costs", "learning"]
    assert found == [tmp_path / "made" / "here" / f"{name}.png" for name in names]
    for path in found:
        picture = path.read_bytes()
        width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
        assert picture.startswith(PNG)
        assert (width, height) == (1296, 777)


def test_pictures_without_data_are_left_out(tmp_path: Path) -> None:
    found = write_pictures(evaluation_of_orders(), tmp_path)
    assert [path.name for path in found] == ["seeds.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds.png"]


def test_the_same_evaluation_gives_the_same_pictures(tmp_path: Path) -> None:
    one = write_pictures(sample_evaluation(), tmp_path / "one")
    two = write_pictures(sample_evaluation(), tmp_path / "two")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_names_are_no_formulae(tmp_path: Path) -> None:
    odd = replace(sample_evaluation("$\\frac$"), headline="sharpe")
    assert write_pictures(odd, tmp_path)


def test_without_matplotlib_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(MissingExtraError, match=r"'matplotlib'.*\.\[report\]"):
        write_pictures(sample_evaluation(), tmp_path / "none")

    assert not (tmp_path / "none").exists()
