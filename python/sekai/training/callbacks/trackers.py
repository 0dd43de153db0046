"""Experiment trackers of training: Weights & Biases, and MLflow."""

from __future__ import annotations

import math
import os
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekai.compose.logs.trackers import mlflow_client
from sekai.storage.optional import optional_import
from sekai.training.callbacks.callback import Callback

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["MLflowTracker", "RunTracker", "WandbTracker"]


class RunTracker(Callback):
    """Base class of trackers that write one run: parameters at its start, metrics per iteration.

    The run starts with the first iteration. Its id is saved in checkpoints, so that resumed
    training continues it.
    """

    def __init__(self) -> None:
        self.run_id: str | None = None
        """Id of the run; None before it starts."""
        self._is_open = False

    @abstractmethod
    def _open(self, params: dict[str, Any]) -> str:
        """Start a run, or continue that of `run_id`; return its id."""

    @abstractmethod
    def _write(self, steps: int, metrics: dict[str, float]) -> None:
        """Write metrics of an iteration."""

    @abstractmethod
    def _close(self, is_complete: bool) -> None:
        """Finish the run; it failed if an error interrupted an iteration."""

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Write the known metrics."""
        if not self._is_open:
            self.run_id = self._open(params_of(agent))
            self._is_open = True
        known = {name: value for name, value in metrics.items() if not math.isnan(value)}
        self._write(agent.steps, known)

    def on_end(self, agent: Agent) -> None:
        """Finish the run."""
        if self._is_open:
            self._is_open = False
            self._close(agent.is_between_iterations)

    def state_dict(self) -> dict[str, Any]:
        """Id of the run."""
        return {"run_id": self.run_id}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the id of the run, to continue it."""
        self.run_id = None if state["run_id"] is None else str(state["run_id"])


class WandbTracker(RunTracker):
    """Writes metrics to a run of Weights & Biases (`pip install '.[wandb]'`).

    Args:
        project: project of the run.
        name: name of the run; None for one chosen by W&B.
        mode: "online", "offline" (files for `wandb sync`) or "disabled"; None for WANDB_MODE.
        folder: folder of local files; None for the current one.
        options: further arguments of `wandb.init`, such as `group` and `tags`.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(
        self,
        project: str = "sekai",
        name: str | None = None,
        *,
        mode: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._wandb = optional_import("wandb", "wandb", "WandbTracker")
        directory = None if folder is None else os.fspath(folder)
        self._options = {"project": project, "name": name, "dir": directory, **options}
        if mode is not None:
            self._options["mode"] = mode
        self._run: Any = None

    def _open(self, params: dict[str, Any]) -> str:
        resumed = {} if self.run_id is None else {"id": self.run_id, "resume": "allow"}
        self._run = self._wandb.init(config=params, **self._options, **resumed)
        return str(self._run.id)

    def _write(self, steps: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=steps)

    def _close(self, is_complete: bool) -> None:
        self._run.finish(exit_code=0 if is_complete else 1)


class MLflowTracker(RunTracker):
    """Writes metrics to a run of MLflow (`pip install '.[logging]'`).

    A slash in the name of a metric becomes a dot, as in `MlflowWriter`.

    Args:
        store: folder, created if missing, or a tracking URI such as `"http://..."`.
        experiment: experiment of the run, created if missing.
        name: name of the run; None for one chosen by MLflow.

    Raises:
        MissingExtraError: MLflow is not installed.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        experiment: str = "sekai",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._client = mlflow_client(store, "MLflowTracker")
        self._entities = optional_import("mlflow.entities", "logging", "MLflowTracker")
        self.experiment, self.name = experiment, name

    def _open(self, params: dict[str, Any]) -> str:
        if self.run_id is not None:
            self._client.update_run(self.run_id, status="RUNNING")
            return self.run_id
        existing = self._client.get_experiment_by_name(self.experiment)
        known = self._client.create_experiment(self.experiment) if existing is None else None
        experiment_id = known or existing.experiment_id
        run_id: str = self._client.create_run(experiment_id, run_name=self.name).info.run_id
        rows = [self._entities.Param(key, str(value)) for key, value in params.items()]
        self._client.log_batch(run_id, params=rows)
        return run_id

    def _write(self, steps: int, metrics: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        rows = [
            self._entities.Metric(name.replace("/", "."), value, now, steps)
            for name, value in metrics.items()
        ]
        self._client.log_batch(self.run_id, metrics=rows)

    def _close(self, is_complete: bool) -> None:
        self._client.set_terminated(self.run_id, "FINISHED" if is_complete else "FAILED")


def params_of(agent: Agent) -> dict[str, Any]:
    """Parameters of a run: algorithm, env, seed and settings, those of the policy by a dot."""
    settings = agent.settings.to_dict()
    policy = settings.pop("policy", {})
    return {
        "algorithm": type(agent).__name__,
        "env": agent.env_name,
        "seed": agent.seed,
        **settings,
        **{f"policy.{name}": value for name, value in policy.items()},
    }
