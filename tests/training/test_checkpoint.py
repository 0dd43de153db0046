"""What checkpoints do about envs that cannot be kept."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sekai.error import StateError
from sekai.training import PPO, Checkpoint, latest_checkpoint

CART_POLE = "gymnasium/CartPole-v1"


def learner() -> PPO:
    return PPO(CART_POLE, n_envs=2, n_steps=8)


def test_envs_are_kept_where_they_can_be_if_nobody_insists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gymnasium")

    with caplog.at_level(logging.WARNING):
        learner().fit(48, [Checkpoint(tmp_path, every=1, envs=None)])

    assert [record.message for record in caplog.records] == [
        "running episodes cannot be saved; resumed training starts new ones"
    ]
    file = latest_checkpoint(tmp_path)
    assert file is not None
    assert PPO.resume(file, 16, env=CART_POLE).steps == 64


def test_who_insists_on_envs_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")

    with pytest.raises(StateError, match="envs=False"):
        learner().fit(16, [Checkpoint(tmp_path, every=1)])
