"""Experiment trackers: TensorBoard and MLflow log writers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.compose.logs.collector import LogLevel
from sekai.compose.logs.writer import LogWriter
from sekai.error import ClosedError
from sekai.storage.event_file import EventFile
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MlflowWriter", "TensorBoardWriter", "mlflow_client"]


class TensorBoardWriter(LogWriter):
    """Log writer to a TensorBoard event file: metrics of each episode against global steps.

    Torch is not needed. The event file is created with the first episode and is on disk when all
    envs are done, and after `flush()` or `close()`.

    Args:
        log_dir: folder for `tensorboard --logdir`, created if missing.
        loglevel: entries below this level are left out.
        prefix: prefix of the names of metrics, such as `"val/"`.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        loglevel: int | LogLevel = LogLevel.PERIODIC,
        prefix: str = "",
    ) -> None:
        super().__init__(loglevel)
        self.log_dir = os.fspath(log_dir)
        self.prefix = prefix
        self._file = EventFile(log_dir, "logging", "TensorBoardWriter")

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Write every metric of the episode."""
        points = {f"{self.prefix}{name}": value for name, value in self.numbers(contents).items()}
        self._file.add_scalars(self.global_step, points)

    def on_env_all_done(self) -> None:
        """Flush the metrics of the collection."""
        self.flush()

    def flush(self) -> None:
        """Flush the event file to disk."""
        self._file.flush()

    def close(self) -> None:
        """Close the event file; a second call does nothing."""
        self._file.close()


ALLOW_FILES = "MLFLOW_ALLOW_FILE_STORE"
"""Environment variable that recent versions of MLflow need to store runs in plain folders."""


class MlflowWriter(LogWriter):
    """Log writer to an MLflow run: metrics of each episode against global steps.

    The run starts with the first episode and is finished by `close()`; leaving a `with` by an
    exception marks it as failed. A slash in the name of a metric becomes a dot, because a folder
    cannot hold `reward/pa` beside `reward`.

    Args:
        store: folder, created if missing, or a tracking URI: `"http://..."`, or `"sqlite:///..."`
            where all of MLflow is installed.
        experiment: experiment of the run, created if missing.
        run_name: name of the run; None for one chosen by MLflow.
        params: parameters of the run, logged at its start.
        loglevel: entries below this level are left out.
    """

    state_names: ClassVar[tuple[str, ...]] = ("run_id",)

    def __init__(
        self,
        store: str | os.PathLike[str],
        experiment: str = "sekai",
        run_name: str | None = None,
        params: Mapping[str, Any] | None = None,
        loglevel: int | LogLevel = LogLevel.PERIODIC,
    ) -> None:
        super().__init__(loglevel)
        self.experiment = experiment
        self.run_name = run_name
        self.params = dict(params or {})
        self.run_id: str | None = None
        self._is_closed = False
        self._client = mlflow_client(store, "MlflowWriter")

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Log every metric of the episode."""
        if self._is_closed:
            raise ClosedError("the MlflowWriter is closed; make a new one")
        if self.run_id is None:
            self.run_id = self._start_run()
        metric, now = _mlflow("entities").Metric, int(time.time() * 1000)
        metrics = [
            metric(name.replace("/", "."), value, now, self.global_step)
            for name, value in self.numbers(contents).items()
        ]
        self._client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        """Finish the run; a second call does nothing."""
        self._end_run("FINISHED")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_run("FINISHED" if error is None else "FAILED")

    def _start_run(self) -> str:
        experiment = self._client.get_experiment_by_name(self.experiment)
        if experiment is None:
            experiment_id = self._client.create_experiment(self.experiment)
        else:
            experiment_id = experiment.experiment_id
        run_id: str = self._client.create_run(experiment_id, run_name=self.run_name).info.run_id
        param = _mlflow("entities").Param
        params = [param(name, str(value)) for name, value in self.params.items()]
        self._client.log_batch(run_id, params=params)
        return run_id

    def _end_run(self, status: str) -> None:
        if not self._is_closed and self.run_id is not None:
            self._client.set_terminated(self.run_id, status)
        self._is_closed = True


def mlflow_client(store: str | os.PathLike[str], purpose: str) -> Any:
    """Client of MLflow for a folder or a tracking URI.

    Args:
        store: folder, created if missing, or a tracking URI.
        purpose: what needs MLflow, for the error if it is not installed.
    """
    tracking = optional_import("mlflow.tracking", "logging", purpose)
    uri = os.fspath(store)
    if "://" in uri:
        return tracking.MlflowClient(tracking_uri=uri)
    with _files_allowed():
        return tracking.MlflowClient(tracking_uri=Path(uri).resolve().as_uri())


@contextmanager
def _files_allowed() -> Iterator[None]:
    """Allow MLflow to store runs in a folder."""
    before = os.environ.get(ALLOW_FILES)
    os.environ[ALLOW_FILES] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ALLOW_FILES]
        else:
            os.environ[ALLOW_FILES] = before


def _mlflow(module: str) -> Any:
    return optional_import(f"mlflow.{module}", "logging", "MlflowWriter")
