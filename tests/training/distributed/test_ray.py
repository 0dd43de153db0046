"""Training in a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sekai.training import A2C, PPO, Agent, Callback
from sekai.training.checkpoint import read_file
from sekai.training.ray.fit_many import fit_many
from tests.training.distributed.sameness import assert_same
from tests.training.distributed.walks import walk

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.timeout(180),
    # Ray leaves files open behind it, and warns of what it will do one day.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Tip. In future versions of Ray:FutureWarning"),
]

SMALL: dict[str, Any] = {"policy": {"net_arch": (8,)}, "n_steps": 16, "seed": 3}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two nodes with a core each; only who says so is connected to them."""
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=100 * 2**20)
    cluster.wait_for_nodes()
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


class KillOnce(Callback):
    """Ends the process of a worker, as nobody can prevent."""

    is_done = False

    def after_iteration(self, agent: Agent, metrics: Any) -> None:
        if agent.iterations == 2:
            crew: Any = agent._engine
            os.kill(crew.pool.ask("greet", [()] * 2)[1], signal.SIGKILL)
            self.is_done = True


def weights(agent: Agent) -> list[torch.Tensor]:
    return [value.clone() for value in agent.network.state_dict().values()]


def same(one: Agent, other: Agent) -> bool:
    pairs = zip(weights(one), weights(other), strict=True)
    return all(torch.equal(first, second) for first, second in pairs)


def test_a_worker_that_is_killed_changes_nothing(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = PPO("MarketMaking-v0", n_envs=5, **SMALL).fit(5 * 16 * 4)
    spread, killing = PPO("MarketMaking-v0", n_envs=5, **SMALL), KillOnce()

    with caplog.at_level(logging.WARNING):
        spread.fit(5 * 16 * 4, [killing], engine="ray", workers=2, address=address)

    assert killing.is_done
    assert "is replaced" in caplog.text
    assert same(alone, spread)
    assert alone.vec.state_dict()["envs"]["batch"] == spread.vec.state_dict()["envs"]["batch"]
    assert not ray.is_initialized()


def agent_of(seed: int) -> A2C:
    return A2C(walk, n_envs=2, n_steps=8, policy={"net_arch": (8,)}, seed=seed)


def test_many_trainings_give_the_same_wherever_they_run(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = fit_many(agent_of, [5, 1], 32, tmp_path / "a")
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", lambda answer, **_: cancelled.append(answer))

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    spread = fit_many(agent_of, [5, 1], 32, tmp_path / "b", engine="ray", address=address)

    assert not cancelled, "what is done is not cancelled"
    assert [one.case for one in spread] == [5, 1]
    assert str([one.metrics for one in spread]) == str([one.metrics for one in alone])
    kept = [[read_file(one.path) for one in found] for found in (alone, spread)]
    assert_same(kept[0], kept[1])
    with pytest.raises(AssertionError):
        assert_same(kept[0][0], kept[0][1])
    assert ray.is_initialized(), "who has connected disconnects"
    with pytest.raises(ValueError, match="is connected to"):
        fit_many(agent_of, [5], 32, tmp_path / "c", engine="ray", address="127.0.0.1:1")
