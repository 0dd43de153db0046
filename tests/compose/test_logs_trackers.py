"""Writers for TensorBoard and MLflow, read back by TensorBoard and MLflow."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sekai.compose import MlflowWriter, TensorBoardWriter
from sekai.error import ClosedError, MissingExtraError
from tests.compose.episodes import broken_off, tell, tell_all

EPISODES: list[list[dict[str, Any]]] = [
    [{"reward": 1.0, "reward/pa": 2.0, "word": "a"}, {"reward": 2.0, "reward/pa": 4.0}],
    [{"reward": 5.0}],
]


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """The points that TensorBoard itself finds."""
    reader: Any = importlib.import_module(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(folder))
    reader.Reload()
    return [(point.step, point.value) for point in reader.Scalars(tag)]


@pytest.fixture
def tensorboard() -> Any:
    return pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")


@pytest.mark.usefixtures("tensorboard")
class TestTensorBoard:
    def test_curves_are_on_disk_when_all_envs_are_done(self, tmp_path: Path) -> None:
        writer = TensorBoardWriter(tmp_path / "a" / "b", prefix="val/")
        assert not (tmp_path / "a").exists()

        tell_all(writer, EPISODES)

        assert curve(tmp_path / "a" / "b", "val/reward") == [(2, 3.0), (3, 5.0)]
        assert curve(tmp_path / "a" / "b", "val/reward/pa") == [(2, 3.0)]
        writer.close()

    def test_a_second_collection_continues_the_curve(self, tmp_path: Path) -> None:
        with TensorBoardWriter(str(tmp_path)) as writer:
            tell_all(writer, EPISODES)
            # The first points of a file are flushed at once, by TensorBoard itself.
            time.sleep(0.1)
            tell_all(writer, EPISODES)

            assert curve(tmp_path, "reward") == [(2, 3.0), (3, 5.0), (5, 3.0), (6, 5.0)]

    def test_a_flush_brings_points_to_disk(self, tmp_path: Path) -> None:
        with TensorBoardWriter(tmp_path) as writer:
            tell(writer, EPISODES[0])
            writer.flush()

            assert curve(tmp_path, "reward") == [(2, 3.0)]

    def test_a_restored_writer_continues_the_curve(self, tmp_path: Path) -> None:
        with TensorBoardWriter(tmp_path / "first") as writer:
            tell_all(writer, EPISODES)
        with TensorBoardWriter(tmp_path / "second") as restored:
            restored.load_state_dict(writer.state_dict())
            tell(restored, [{"reward": 7.0}])

        assert curve(tmp_path / "second", "reward") == [(4, 7.0)]

    def test_a_closed_writer_says_so(self, tmp_path: Path) -> None:
        writer = TensorBoardWriter(tmp_path)
        tell(writer, EPISODES[0])
        writer.close()
        writer.close()

        with pytest.raises(ClosedError, match="is closed"):
            tell(writer, EPISODES[0])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a folder of runs."""
    # Nothing is sent anywhere from a test.
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    tracking = pytest.importorskip(
        "mlflow.tracking", reason="the package mlflow (or mlflow-skinny) is not installed"
    )

    def read() -> Any:
        with monkeypatch.context() as patch:
            patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
            return tracking.MlflowClient(tracking_uri=(tmp_path / "runs").as_uri())

    return read


def history(client: Any, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in client.get_metric_history(run_id, name)]


def runs_of(client: Any, experiment: str = "sekai") -> list[Any]:
    number = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([number]))


@pytest.mark.timeout(180)  # Importing MLflow takes seconds, on a busy machine many.
class TestMlflow:
    def test_metrics_and_params_are_read_back(self, tmp_path: Path, store: Any) -> None:
        params = {"rate": 0.1, "name": "a"}
        with MlflowWriter(tmp_path / "runs", "orders", "first", params) as writer:
            tell_all(writer, EPISODES)
        client = store()

        (run,) = runs_of(client, "orders")
        assert run.info.run_id == writer.run_id
        assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
        assert run.data.params == {"rate": "0.1", "name": "a"}
        assert history(client, run.info.run_id, "reward") == [(2, 3.0), (3, 5.0)]
        assert history(client, run.info.run_id, "reward.pa") == [(2, 3.0)]
        assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ

    def test_runs_of_one_experiment_stand_beside_each_other(
        self, tmp_path: Path, store: Any
    ) -> None:
        for _ in range(2):
            with MlflowWriter(str(tmp_path / "runs")) as writer:
                tell_all(writer, EPISODES)

        assert len(runs_of(store())) == 2

    def test_an_exception_marks_the_run_as_failed_and_keeps_its_metrics(
        self, tmp_path: Path, store: Any
    ) -> None:
        writer = MlflowWriter(tmp_path / "runs")
        with pytest.raises(RuntimeError, match="broken off"), writer:
            broken_off(writer, EPISODES[0])
        client = store()

        (run,) = runs_of(client)
        assert run.info.status == "FAILED"
        assert history(client, run.info.run_id, "reward") == [(2, 3.0)]

    def test_a_restored_writer_goes_on_with_the_same_run(self, tmp_path: Path, store: Any) -> None:
        writer = MlflowWriter(tmp_path / "runs")
        tell_all(writer, EPISODES)
        with MlflowWriter(tmp_path / "runs") as restored:
            restored.load_state_dict(writer.state_dict())
            tell(restored, [{"reward": 7.0}])
        client = store()

        (run,) = runs_of(client)
        assert history(client, run.info.run_id, "reward") == [(2, 3.0), (3, 5.0), (4, 7.0)]

    def test_no_run_begins_before_the_first_episode(self, tmp_path: Path, store: Any) -> None:
        with MlflowWriter(tmp_path / "runs") as writer:
            tell_all(writer, [])

        assert writer.run_id is None
        assert store().get_experiment_by_name("sekai") is None

    def test_a_closed_writer_says_so(self, tmp_path: Path, store: Any) -> None:
        writer = MlflowWriter(tmp_path / "runs")
        writer.close()
        writer.close()

        with pytest.raises(ClosedError, match="make a new one"):
            tell(writer, EPISODES[0])


@pytest.mark.parametrize(("writer", "package"), [(TensorBoardWriter, "tensorboard"),
                                                 (MlflowWriter, "mlflow")])  # fmt: skip
def test_a_missing_package_is_named_at_once(
    writer: Any, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    words = rf"{writer.__name__} needs .*'{package}'.*\.\[logging\]"
    with pytest.raises(MissingExtraError, match=words):
        writer(tmp_path)
