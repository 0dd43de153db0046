"""Live sessions carry the state of a recurrent policy, over restarts too, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.live import SessionFolder, read_journal
from tests.live.sessions import FREE, session, world

pytestmark = pytest.mark.timeout(300)

PATIENT = dataclasses.replace(FREE, max_staleness_seconds=None)


class Averaging:
    """Policy whose weights follow a running mean of all observations since the start."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.dies_at, self.calls = dies_at, 0

    def predict(
        self, observation: Any, state: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        assert deterministic
        self.calls += 1
        if self.calls == self.dies_at:
            raise KeyboardInterrupt
        last = np.asarray(observation["windows"][-1, :, 0], np.float32)
        (mean,) = (np.zeros(3, np.float32),) if state is None else state
        mean = np.float32(0.9) * mean + last
        weights = np.append(np.exp(20.0 * np.tanh(mean.astype(np.float64))), 1.0)
        return weights / weights.sum(), (mean,)


def decisions(folder: Path) -> list[dict[str, Any]]:
    records = read_journal(SessionFolder(folder).journal)
    return [dict(record.fields) for record in records if record.kind == "decision"]


def run(folder: Path, policy: Any, snapshot_every: int = 7) -> None:
    folder.mkdir(exist_ok=True)
    place = world()
    broker = place.broker(SessionFolder(folder).paper)
    session(
        place, folder, broker=broker, policy=policy, limits=PATIENT, snapshot_every=snapshot_every
    )


@pytest.mark.parametrize("snapshot_every", [7, 1_000], ids=["snapshots", "journal alone"])
@pytest.mark.parametrize("dies_at", [1, 2, 8, 24])
def test_the_state_of_a_policy_survives_a_restart(
    tmp_path: Path, dies_at: int, snapshot_every: int
) -> None:
    run(tmp_path / "whole", Averaging(), snapshot_every)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", Averaging(dies_at), snapshot_every)
    run(tmp_path / "cut", Averaging(), snapshot_every)

    whole, cut = decisions(tmp_path / "whole"), decisions(tmp_path / "cut")
    assert len(whole) == len(cut) == 60
    for one, other in zip(whole, cut, strict=True):
        assert np.array_equal(one["action"], other["action"])
        assert np.array_equal(one["policy_state"][0], other["policy_state"][0])
    states = [one["policy_state"][0] for one in whole]
    assert not np.array_equal(states[0], states[-1])


def test_a_trained_recurrent_policy_acts_with_the_state_of_the_rows_before(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sekai.training import RecurrentPPO, load_policy

    place = world()
    agent = RecurrentPPO(place.env(), n_steps=8, lstm_hidden_size=8, seed=1)
    policy: Any = load_policy(agent.save(tmp_path / "model", training=False))
    shown: list[Any] = []
    predict = policy.predict

    def seen(observation: Any, **options: Any) -> Any:
        shown.append({name: part.copy() for name, part in observation.items()})
        return predict(observation, **options)

    class Recorded:
        def predict(self, observation: Any, *, state: Any, deterministic: bool) -> Any:
            return seen(observation, state=state, deterministic=deterministic)

    run(tmp_path / "session", Recorded())

    state: Any = None
    for observation, decided in zip(shown, decisions(tmp_path / "session"), strict=True):
        action, state = policy.predict(observation, state=state)
        assert np.array_equal(action, decided["action"])
        assert all(map(np.array_equal, state, decided["policy_state"]))
