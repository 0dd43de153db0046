"""Many trainings, one after the other, and what they need to run elsewhere."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch

from sekai.error import MissingExtraError
from sekai.training import A2C, fit_many
from sekai.training.ray.cluster import _options
from tests.training.distributed.walks import walk


def agent_of(seed: int) -> A2C:
    return A2C(walk, n_envs=2, n_steps=8, policy={"net_arch": (8,)}, seed=seed)


def test_every_case_has_an_agent_that_is_kept(tmp_path: Path) -> None:
    found = fit_many(agent_of, [4, 2], 40, tmp_path / "new", training=True)

    assert [(one.case, one.path.name) for one in found] == [
        (4, "0000.safetensors"),
        (2, "0001.safetensors"),
    ]
    alone = agent_of(2).fit(40)
    kept = A2C.resume(found[1].path, env=walk)
    assert kept.steps == alone.steps == found[1].metrics["steps"] == 48
    pairs = zip(kept.network.parameters(), alone.network.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_training_that_fails_says_which_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def make(seed: int) -> A2C:
        if seed == 13:
            raise ArithmeticError("not this one")
        return agent_of(seed)

    with caplog.at_level(logging.ERROR), pytest.raises(ArithmeticError, match="not this one"):
        fit_many(make, [1, 13, 2], 16, tmp_path)

    assert "training run 2 of 3 failed (case 13)" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["0000.safetensors"]


def test_bad_arguments_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="steps must be at least 1"):
        fit_many(agent_of, [1], 0, tmp_path / "a")
    with pytest.raises(ValueError, match="address needs engine='ray'"):
        fit_many(agent_of, [1], 8, tmp_path / "a", address="auto")

    assert not (tmp_path / "a").exists()


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    agent = agent_of(0)

    with pytest.raises(MissingExtraError, match=r"\.\[ray\]"):
        agent.fit(16, engine="ray", workers=1)

    assert agent.fit(16).steps == 16


def test_a_cluster_of_our_own_has_room_for_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    own = _options(None, 300)
    assert own["address"] == "local"
    assert own["num_cpus"] == 300
    assert own["include_dashboard"] is False

    assert "num_cpus" not in _options("ray://somewhere:10001", 300)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:6379")
    assert _options(None, 2)["address"] == "somewhere:6379"
    assert _options("elsewhere:1", 2)["address"] == "elsewhere:1"
