"""Trackers of training: runs of MLflow and Weights & Biases."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sekai.compose.logs.trackers import mlflow_client
from sekai.error import MissingExtraError
from sekai.training import PPO, Callback, Checkpoint, MLflowTracker, WandbTracker, latest_checkpoint

ENV = "MarketMaking-v0"


def agent(**changes: Any) -> PPO:
    return PPO(ENV, n_envs=4, n_steps=8, seed=5, **changes)


def test_mlflow_has_settings_and_metrics_of_each_iteration(tmp_path: Path) -> None:
    pytest.importorskip("mlflow.tracking", reason="the package mlflow-skinny is not installed")
    tracker = MLflowTracker(tmp_path, "makers", "first")

    agent(policy={"width": 32}).fit(96, [tracker])

    client = mlflow_client(tmp_path, "the test")
    run = client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "first"
    expected = {"algorithm": "PPO", "env": ENV, "seed": "5", "n_steps": "8", "policy.width": "32"}
    assert expected.items() <= run.data.params.items()
    history = client.get_metric_history(tracker.run_id, "loss_critic")
    assert [row.step for row in history] == [32, 64, 96]


def test_a_resumed_training_continues_its_run(tmp_path: Path) -> None:
    pytest.importorskip("mlflow.tracking", reason="the package mlflow-skinny is not installed")
    first, second = (MLflowTracker(tmp_path / "store") for _ in range(2))
    agent().fit(64, [first, Checkpoint(tmp_path / "files", every=1)])

    file = latest_checkpoint(tmp_path / "files")
    assert file is not None
    PPO.resume(file, 32, [second])

    assert second.run_id == first.run_id
    client = mlflow_client(tmp_path / "store", "the test")
    history = client.get_metric_history(first.run_id, "steps")
    assert [row.step for row in history] == [32, 64, 96]


def test_a_run_that_an_error_interrupts_has_failed(tmp_path: Path) -> None:
    pytest.importorskip("mlflow.tracking", reason="the package mlflow-skinny is not installed")
    tracker = MLflowTracker(tmp_path)
    made = agent()

    class Broken(Callback):
        def after_iteration(self, agent: Any, metrics: Any) -> None:
            agent.is_between_iterations = False
            raise RuntimeError("out of power")

    with pytest.raises(RuntimeError, match="out of power"):
        made.fit(64, [tracker, Broken()])

    run = mlflow_client(tmp_path, "the test").get_run(tracker.run_id)
    assert run.info.status == "FAILED"


def test_wandb_writes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="the package wandb is not installed")
    written: list[tuple[dict[str, float], int]] = []
    monkeypatch.setattr(
        wandb.sdk.wandb_run.Run,
        "log",
        lambda run, metrics, step: written.append((dict(metrics), step)),
    )
    tracker = WandbTracker("makers", mode="offline", folder=tmp_path, settings={"silent": True})

    agent().fit(64, [tracker])

    assert tracker.run_id is not None
    assert [step for _, step in written] == [32, 64]
    assert "loss_critic" in written[0][0]
    assert list(tmp_path.rglob("*.wandb"))


@pytest.mark.parametrize(
    ("make", "package", "extra"),
    [(WandbTracker, "wandb", "wandb"), (lambda: MLflowTracker("runs"), "mlflow", "logging")],
    ids=["wandb", "mlflow"],
)
def test_a_missing_package_is_named_with_its_extra(
    make: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [package, f"{package}.tracking"]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{extra}\]'"):
        make()
