"""Policies are loaded from files: without torch where possible, and never by running a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.policy import ModelFileError, NativePolicy, load_policy
from sekai.policy.files import read_arrays, write_arrays
from sekai.storage.codec import ArrayStore
from sekai.training import A2C, DDPG, PPO, TrainedPolicy

WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None  # importing it fails, as where it is not installed
import numpy as np
from sekai.error import MissingExtraError
from sekai.policy import load_policy
try:
    policy = load_policy(sys.argv[1])
except MissingExtraError as error:
    print(json.dumps({"error": str(error)}))
else:
    observation = policy.observation_space.sample() if len(sys.argv) < 3 else None
    seen = np.load(sys.argv[2])
    action = policy.predict_batch(seen)
    print(json.dumps({"actions": action.tolist(), "kind": type(policy).__name__}))
assert sys.modules["torch"] is None
"""


def without_torch(*arguments: Any) -> dict[str, Any]:
    """Result of loading and acting in a process in which torch cannot be imported."""
    command = [sys.executable, "-c", WITHOUT_TORCH, *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


LIVE = """
import sys
import sekai.live
from sekai.policy import load_policy
policy = load_policy(sys.argv[1])
policy.predict(policy.observation_space.sample())
heavy = {"torch", "pandas", "polars", "pyarrow", "scipy", "matplotlib", "plotly", "numpy.ma"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = PPO("MarketMaking-v0", n_envs=2, n_steps=8, policy={"net_arch": (8,)})
    return agent.fit(16).save(tmp_path_factory.mktemp("saved"))


def changed(path: Path, folder: Path, **fields: Any) -> Path:
    """A copy of a model file with other fields, and a right digest."""
    return write_arrays(folder, {**read_arrays(path), **fields}, ArrayStore({}))


def test_a_policy_acts_where_torch_is_not_installed(saved: Path, tmp_path: Path) -> None:
    policy: Any = load_policy(saved, backend="torch")
    batch = np.stack([policy.observation_space.sample() for _ in range(20)])
    np.save(tmp_path / "seen.npy", batch)

    result = without_torch(saved, tmp_path / "seen.npy")

    assert result["kind"] == "NativePolicy"
    assert np.allclose(result["actions"], policy.predict_batch(batch), atol=1e-5)


def test_acting_live_imports_no_heavy_package(saved: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", LIVE, str(saved)], capture_output=True, text=True, check=True
    )

    assert finished.stdout.strip() == "[]"


def test_the_backend_is_native_unless_torch_is_named(saved: Path) -> None:
    assert isinstance(load_policy(saved), NativePolicy)
    assert isinstance(load_policy(saved, backend="native"), NativePolicy)
    assert isinstance(load_policy(saved, backend="torch"), TrainedPolicy)
    with pytest.raises(ValueError, match="unknown backend 'onnx'; expected one of"):
        load_policy(saved, backend="onnx")


def test_a_team_falls_back_to_torch_or_says_that_it_is_missing(tmp_path: Path) -> None:
    team = PPO("MultiPortfolio-v0", n_envs=2, n_steps=4).fit(8).save(tmp_path)

    assert "team" in type(load_policy(team)).__name__.lower()
    with pytest.raises(ValueError, match="no native program"):
        load_policy(team, backend="native")
    error = without_torch(team)["error"]
    assert "a team of agents" in error
    assert "'.[train]'" in error


def test_an_unknown_backbone_is_left_to_torch(saved: Path, tmp_path: Path) -> None:
    settings = {"policy": {"backbone": "own"}}
    file = changed(saved, tmp_path, settings=settings)

    assert "'own'" in without_torch(file)["error"]
    with pytest.raises(ModelFileError, match="backbone must be one of"):
        load_policy(file)


def test_a_saved_agent_and_its_policy_act_alike(tmp_path: Path) -> None:
    for kind in (A2C, DDPG):
        options: dict[str, Any] = {"learning_starts": 8, "batch_size": 4} if kind is DDPG else {}
        agent = kind("MarketMaking-v0", n_envs=2, **options).fit(32)
        policy = load_policy(agent.save(tmp_path / kind.__name__))
        batch = agent.vec.reset(seed=3).observations

        assert np.allclose(policy.predict_batch(batch), agent.predict_batch(batch), atol=1e-5)


MOMENTS = "inputs.normalizer.mean_0"


@pytest.mark.parametrize(
    ("name", "weights", "expected"),
    [
        ("actor.head.rest.bias", np.zeros(3, np.float32), r"needs \(2,\) float32"),
        ("actor.head.rest.bias", np.zeros(2, np.float64), "the file has"),
        ("actor.head.rest.bias", [0.0, 0.0], "the file has"),
        ("actor.head.other", np.zeros(2, np.float32), "actor.head.other differ"),
        (f"actor.{MOMENTS}", np.ones(1), "needs"),
    ],
)
def test_weights_of_another_network_are_refused(
    saved: Path, tmp_path: Path, name: str, weights: Any, expected: str
) -> None:
    network = {**read_arrays(saved)["network"], name: weights}

    with pytest.raises(ModelFileError, match=expected):
        load_policy(changed(saved, tmp_path, network=network))


def test_moments_that_modules_share_must_be_equal(saved: Path, tmp_path: Path) -> None:
    network = dict(read_arrays(saved)["network"])
    network[f"critic.{MOMENTS}"] = network[f"critic.{MOMENTS}"] + 1.0

    with pytest.raises(ModelFileError, match="differ"):
        load_policy(changed(saved, tmp_path, network=network))


def test_weights_that_are_not_numbers_are_data(saved: Path, tmp_path: Path) -> None:
    network = dict(read_arrays(saved)["network"])
    network["actor.head.rest.bias"] = np.full_like(network["actor.head.rest.bias"], np.nan)

    policy: Any = load_policy(changed(saved, tmp_path, network=network))

    means, _ = policy.action_parameters(np.stack([policy.observation_space.sample()]))
    assert np.isnan(means).all()
