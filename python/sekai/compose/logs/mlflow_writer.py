"""Episodes as metrics of an MLflow run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.packages import needed
from sekai.compose.logs.writer import LogWriter
from sekai.error import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MlflowWriter"]

ALLOW_FILES = "MLFLOW_ALLOW_FILE_STORE"
"""Recent versions of MLflow keep runs in plain folders only if this variable says so."""


class MlflowWriter(LogWriter):
    """Logs every metric of each episode, over all the steps taken until then.

    The run begins with the first episode and is finished by `close()`; leaving a `with` by an
    exception marks it as failed. A slash in the name of a metric becomes a dot: in a folder,
    `reward/pa` would have no place beside `reward`.
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
        """Log to `store`.

        Args:
            store: a folder, which is made if it is not there, or what MLflow calls a tracking
                URI: `"http://..."`, or `"sqlite:///..."` where all of MLflow is installed.
            experiment: the experiment that the run belongs to; made if it is not there.
            run_name: what to call the run; None lets MLflow choose.
            params: what the run was made with; logged once, at its beginning.
            loglevel: the least level of entries to take.
        """
        super().__init__(loglevel)
        self.experiment = experiment
        self.run_name = run_name
        self.params = dict(params or {})
        self.run_id: str | None = None
        self._is_closed = False
        uri = os.fspath(store)
        if "://" in uri:
            self._client = _mlflow("tracking").MlflowClient(tracking_uri=uri)
        else:
            with _files_allowed():
                self._client = _mlflow("tracking").MlflowClient(
                    tracking_uri=Path(uri).resolve().as_uri()
                )

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Log every metric of the episode."""
        if self._is_closed:
            raise ClosedError("the MlflowWriter is closed: make a new one")
        if self.run_id is None:
            self.run_id = self._begin_run()
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

    def _begin_run(self) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if found is None else (
            found.experiment_id
        )  # fmt: skip
        run_id: str = self._client.create_run(number, run_name=self.run_name).info.run_id
        param = _mlflow("entities").Param
        params = [param(name, str(value)) for name, value in self.params.items()]
        self._client.log_batch(run_id, params=params)
        return run_id

    def _end_run(self, status: str) -> None:
        if not self._is_closed and self.run_id is not None:
            self._client.set_terminated(self.run_id, status)
        self._is_closed = True


@contextmanager
def _files_allowed() -> Iterator[None]:
    """Let MLflow open a folder: whoever names one wants it."""
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
    """A module of MLflow, imported when it is needed."""
    return needed(f"mlflow.{module}", "logging", "MlflowWriter")
