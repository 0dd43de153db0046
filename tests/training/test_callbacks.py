"""Who is told of training, in which order, and what comes of it."""

from __future__ import annotations

import io
import math
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import SpaceError, StateError
from sekai.stats import InMemoryTracker
from sekai.training import (
    A2C,
    Agent,
    Callback,
    Checkpoint,
    EarlyStopping,
    Evaluate,
    ProgressBar,
    Track,
    latest_checkpoint,
    load_policy,
)
from sekai.training.shaping import StepBatch
from sekai.training.training_envs import play
from sekai.vector.sync import SyncVecEnv
from tests.training.arms import Arms

ARMS = partial(Arms, [(3.0,), (-1.0,)], (0.8,))
LONG = partial(Arms, [(1.0, 1.0, 1.0)], (0.5,))
"""One arm lasts longer than the other."""


def agent(env: Any = ARMS, **changes: Any) -> A2C:
    small = {"n_envs": 4, "n_steps": 4, "policy": {"net_arch": (4,)}, "seed": 1}
    return A2C(env, **{**small, **changes})


ITERATION = 16


class Spoken(Callback):
    """Says what metrics are to be, and remembers what it heard."""

    def __init__(self, name: str = "score", values: Sequence[float] = ()) -> None:
        self.name, self.values = name, list(values)
        self.heard: list[str] = []

    def on_start(self, agent: Agent) -> None:
        self.heard.append("start")

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        self.heard.append("iteration")
        if agent.iterations <= len(self.values):
            metrics[self.name] = self.values[agent.iterations - 1]
        return False

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        self.heard.append("after")

    def on_end(self, agent: Agent) -> None:
        self.heard.append("end")


class Noted(Callback):
    """Remembers the metrics of every iteration, all of them."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, float]] = []

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        self.metrics.append(dict(metrics))


class Raising(Callback):
    """Raises in an iteration of its choice."""

    def __init__(self, error: BaseException, at: int = 2) -> None:
        self.error, self.at = error, at

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        if agent.iterations == self.at:
            raise self.error
        return False


def weights(one: Agent) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in one.network.parameters()])


def test_everybody_hears_everything_also_when_somebody_stops() -> None:
    stop, late = EarlyStopping("score", patience=1), Spoken()
    agent().fit(10 * ITERATION, [Spoken("score", [1.0, 1.0, 2.0]), stop, late])

    assert late.heard == ["start", *["iteration", "after"] * 2, "end"]
    assert stop.stopped_at == 2


def test_who_heard_of_the_start_hears_of_the_end_whatever_happens() -> None:
    early, learner = Spoken(), agent()

    with pytest.raises(LookupError):
        learner.fit(10 * ITERATION, [early, Raising(LookupError())])
    assert early.heard[-1] == "end"
    with pytest.raises(TypeError, match="callbacks must be"):
        learner.fit(ITERATION, ["progress"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("values", "options", "stops_at"),
    [
        ([1, 2, 3, 3, 3, 9], {"patience": 2}, 5),
        ([3, 2, 1, 1, 1, 0], {"patience": 2, "mode": "min"}, 5),
        ([1, 1.4, 1.5, 1.6], {"patience": 2, "min_delta": 0.5}, 3),
        ([1, 2, 3, 4, 5], {"patience": 2, "baseline": 10.0}, 2),
        ([11, 2, 3, 4, 5], {"patience": 2, "baseline": 10.0}, 3),
        ([1, math.nan, math.nan, 0, 0], {"patience": 2}, 5),
        ([1, 2, 3, 4, 5], {"patience": 1}, None),
    ],
)
def test_training_stops_when_nothing_has_been_better_for_long(
    values: list[float], options: dict[str, Any], stops_at: int | None
) -> None:
    stop = EarlyStopping("score", **options)
    agent().fit(len(values) * ITERATION, [Spoken("score", values), stop])

    assert stop.stopped_at == stops_at


def test_the_best_weights_come_back_when_training_is_stopped() -> None:
    best = agent().fit(2 * ITERATION)
    learner = agent()
    stop = EarlyStopping("score", patience=3, restore_best=True)
    learner.fit(9 * ITERATION, [Spoken("score", [1, 2, 0, 0, 0, 0]), stop])

    assert stop.stopped_at == 5
    assert torch.equal(weights(learner), weights(best))


def test_a_metric_that_does_not_exist_is_warned_of_once() -> None:
    with pytest.warns(UserWarning, match="unknown metric 'sharpe'") as told:
        agent().fit(3 * ITERATION, [EarlyStopping("sharpe")])
    assert len(told) == 1


def test_evaluation_plays_whole_episodes_and_leaves_training_alone() -> None:
    alone, judged, noted = agent(LONG), agent(LONG), Noted()
    judge = Evaluate(LONG, every=2, episodes=6)
    alone.fit(6 * ITERATION)
    judged.fit(6 * ITERATION, [noted, judge])

    assert torch.equal(weights(alone), weights(judged))
    returns = [told["eval/return"] for told in noted.metrics]
    assert [math.isnan(value) for value in returns] == [True, False] * 3
    last = noted.metrics[-1]
    is_long = int(judged.predict(np.array([1.0, 0.0], np.float32))) == 0
    assert last["eval/return"] == (3.0 if is_long else 0.5)
    assert last["eval/length"] == (3.0 if is_long else 1.0)
    assert last["eval/episodes"] == 6


def test_the_best_agent_is_kept_to_act(tmp_path: Path) -> None:
    class Falling(Evaluate):
        """Judges that it gets worse and worse."""

        def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
            self.best = self.best if agent.iterations == 1 else math.inf
            return super().on_iteration(agent, metrics)

    first = agent().fit(ITERATION)
    agent().fit(3 * ITERATION, [Falling(ARMS, every=1, episodes=4, save=tmp_path)])

    kept = load_policy(tmp_path, backend="torch")
    for name, value in first.network.state_dict().items():
        assert torch.equal(kept.network.state_dict()[name], value)


def test_an_env_of_other_spaces_cannot_judge() -> None:
    with pytest.raises(SpaceError, match="another observation_space"):
        agent().fit(ITERATION, [Evaluate("MarketMaking-v0", episodes=2)])


def test_checkpoints_are_the_last_ones_and_the_best(tmp_path: Path) -> None:
    keeper = Checkpoint(tmp_path, every=2, keep=2, monitor="score")
    learner = agent().fit(7 * ITERATION, [keeper, Spoken("score", [1, 9, 3, 4, 5, 6, 7])])

    found = sorted(file.name for file in tmp_path.iterdir())
    assert found == ["00000006.safetensors", "00000007.safetensors", "best.safetensors"]
    latest = latest_checkpoint(tmp_path)
    assert latest == tmp_path / "00000007.safetensors"
    assert torch.equal(weights(A2C.resume(latest, env=ARMS)), weights(learner))
    assert A2C.resume(tmp_path / "best.safetensors", env=ARMS).iterations == 2


def test_the_latest_is_that_of_the_highest_number(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    for name in ("00000009", "100000000", "best", "٣", "99999999"):
        (tmp_path / f"{name}.safetensors").touch()

    assert latest_checkpoint(tmp_path) == tmp_path / "100000000.safetensors"


def test_seconds_bring_checkpoints_too(tmp_path: Path) -> None:
    agent().fit(3 * ITERATION, [Checkpoint(tmp_path, every=None, seconds=1e-9, keep=9)])
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(ValueError, match="every must be a number"):
        Checkpoint(tmp_path, every=None)


def test_two_trainings_are_not_mixed_in_one_folder(tmp_path: Path) -> None:
    agent().fit(4 * ITERATION, [Checkpoint(tmp_path, every=2)])
    before = sorted(tmp_path.iterdir())
    learner = agent()

    with pytest.raises(ValueError, match="holds iteration 4, and this training is at 0"):
        learner.fit(2 * ITERATION, [Checkpoint(tmp_path, every=2)])
    assert learner.iterations == 0
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".00000002.safetensors-abc").write_bytes(b"half")
    agent().fit(ITERATION, [Checkpoint(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == ["00000001.safetensors"]


VALUES = [1, 5, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_resumed_run_stops_where_the_uninterrupted_one_did(
    tmp_path: Path, cut: int, order: int
) -> None:
    def told(folder: str) -> list[Callback]:
        stop = EarlyStopping("score", patience=4, restore_best=True)
        keeper = Checkpoint(tmp_path / folder, every=1, monitor="score", keep=99)
        return [Spoken("score", VALUES), *[stop, keeper][::order]]

    whole = agent().fit(8 * ITERATION, told("whole"))
    part = agent().fit(cut * ITERATION, told("part"))
    path = latest_checkpoint(tmp_path / "part")
    assert path is not None
    resumed = A2C.resume(path, (8 - cut) * ITERATION, told("part"), env=ARMS)

    assert whole.iterations == resumed.iterations == 6
    assert part.iterations == cut
    assert torch.equal(weights(whole), weights(resumed))
    again = A2C.resume(tmp_path / "part" / "00000006.safetensors", 50, told("part"), env=ARMS)
    assert again.iterations == 6


def test_an_interrupt_ends_after_the_iteration_with_a_checkpoint(tmp_path: Path) -> None:
    seen: list[StepBatch] = []

    def interrupting(steps: StepBatch) -> Any:
        """Presses the keys in the middle of the third iteration."""
        seen.append(steps)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return steps.rewards

    uninterrupted = agent().fit(5 * ITERATION)
    learner = agent(learn_where=None, reward_transform=interrupting)
    # A file names functions, and this one has no name.
    learner.shaping.names = dict  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        learner.fit(5 * ITERATION, [Checkpoint(tmp_path, every=100)])

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    path = latest_checkpoint(tmp_path)
    assert path == tmp_path / "00000003.safetensors"
    resumed = A2C.resume(path, 2 * ITERATION, env=ARMS)
    assert torch.equal(weights(uninterrupted), weights(resumed))


def test_what_broke_off_in_mid_iteration_is_not_kept(tmp_path: Path) -> None:
    seen: list[StepBatch] = []

    def breaking(steps: StepBatch) -> Any:
        seen.append(steps)
        if len(seen) == 2:
            raise LookupError
        return steps.rewards

    learner = agent(reward_transform=breaking)
    learner.shaping.names = dict  # type: ignore[method-assign]
    with pytest.raises(LookupError):
        learner.fit(5 * ITERATION, [Checkpoint(tmp_path, every=100)])
    assert learner.iterations == 1
    assert list(tmp_path.iterdir()) == []


class ByRow:
    """Takes the long arm in every second env."""

    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        return np.arange(len(observations)) % 2


def test_episodes_that_end_early_are_not_played_more_often() -> None:
    played = play(ByRow(), SyncVecEnv([LONG] * 4), 8, seed=1)

    assert sorted(played.returns) == [0.5] * 4 + [3.0] * 4
    assert sorted(played.lengths) == [1] * 4 + [3] * 4
    with pytest.raises(StateError, match="longer than 2 steps"):
        play(ByRow(), SyncVecEnv([LONG] * 2), 2, seed=1, longest=2)


def test_a_tracker_hears_of_every_episode() -> None:
    tracker = InMemoryTracker(window=1000)
    learner = agent(LONG).fit(3 * ITERATION, [Track(tracker)])

    assert tracker.total_episodes == learner.episodes.count > 0
    assert {episode.episode_return for episode in tracker.episodes} <= {0.5, 3.0}
    assert all(episode.terminated and not episode.truncated for episode in tracker.episodes)


def test_a_function_gets_the_metrics_that_are_known() -> None:
    written: list[tuple[int, dict[str, float]]] = []
    track = Track(lambda steps, metrics: written.append((steps, dict(metrics))))
    agent().fit(2 * ITERATION, [track, Spoken("score", [math.nan, 2.0])])

    assert [steps for steps, _ in written] == [ITERATION, 2 * ITERATION]
    assert "score" not in written[0][1]
    assert written[1][1]["score"] == 2.0
    with pytest.raises(TypeError, match="a folder, a StatsTracker or a function"):
        Track(7)  # type: ignore[arg-type]


def test_a_folder_gets_curves(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    agent().fit(2 * ITERATION, [Spoken("score", [1.0, 2.0]), Track(tmp_path)])

    curves = accumulators.EventAccumulator(str(tmp_path)).Reload()
    points = [(point.step, point.value) for point in curves.Scalars("score")]
    assert points == [(ITERATION, 1.0), (2 * ITERATION, 2.0)]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_bar_is_quiet_where_nobody_looks_unless_asked() -> None:
    quiet, asked = io.StringIO(), io.StringIO()
    bars = [ProgressBar(stream=quiet), ProgressBar(always=True, seconds=0, stream=asked)]
    agent().fit(3 * ITERATION, bars)

    assert quiet.getvalue() == ""
    lines = asked.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(" 33%  16/48 steps")
    assert lines[-1].startswith("100%  48/48 steps")
    for word in ("/s", "return", "length", "loss_critic", "left 0:00"):
        assert word in lines[-1]


@pytest.mark.parametrize("has_rich", [True, False])
def test_the_bar_is_drawn_with_rich_or_without(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    terminal = Terminal()
    agent().fit(2 * ITERATION, [ProgressBar(seconds=0, stream=terminal)])

    assert "32/32 steps" in terminal.getvalue()
    assert ("\r100%" in terminal.getvalue()) != has_rich


def test_fit_draws_a_bar_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    agent().fit(ITERATION, progress=True)
    assert "16/16 steps" in terminal.getvalue()
