"""RecordFrames: recording of an env."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.rendering import Frame, RecordFrames, Trigger, every_episode, first_steps
from sekai.wrappers import TimeLimit
from tests.worlds import AsyncRandomWalk, Market, RandomWalk

STILL = np.zeros(2, dtype=np.float32)


class Shade:
    """Shows the walker's place as a shade, always in the same memory."""

    def __init__(self) -> None:
        self.canvas = np.zeros((2, 2, 3), dtype=np.uint8)
        self.rendered = 0

    def render(self, env: Any) -> Frame:
        base = env.unwrapped
        position = getattr(base, "walk", base)._position
        self.canvas[:] = int(abs(position[0]) * 60) % 256
        self.rendered += 1
        return self.canvas

    def close(self) -> None:
        raise AssertionError("the renderer is its owner's to close")


def recorded(
    trigger: Trigger | None = None, keep: int | None = None, length: int = 3
) -> RecordFrames[Any, Any]:
    return RecordFrames(TimeLimit(RandomWalk(noise=0.01), length), Shade(), trigger, keep)


def play(env: Env[Any, Any], episodes: int, first_seed: int = 0) -> None:
    for seed in range(first_seed, first_seed + episodes):
        env.reset(seed=seed)
        while not env.step(STILL).done:
            pass


def test_every_reset_and_step_gives_a_frame_of_its_own() -> None:
    env = recorded()

    play(env, 2)

    assert [len(episode) for episode in env.episodes] == [4, 4]
    assert len(env.frames) == 8
    shades = {int(episode[0][0, 0, 0]) for episode in env.episodes}
    assert len(shades) == 2
    assert not np.shares_memory(env.frames[0], env.frames[1])


def test_the_recording_changes_nothing_of_the_run() -> None:
    env, bare = recorded(), TimeLimit(RandomWalk(noise=0.01), 3)

    assert env.reset(seed=4) == bare.reset(seed=4)
    assert [env.step(STILL) for _ in range(3)] == [bare.step(STILL) for _ in range(3)]


def test_the_async_path_records_the_same_frames() -> None:
    async def run() -> list[Frame]:
        env = RecordFrames(TimeLimit(AsyncRandomWalk(noise=0.01), 3), Shade())
        await env.async_reset(seed=0)
        while not (await env.async_step(STILL)).done:
            pass
        return env.frames

    env = recorded()
    play(env, 1)

    assert np.array_equal(asyncio.run(run()), env.frames)


@pytest.mark.parametrize(
    ("trigger", "lengths", "rendered"),
    [
        (every_episode(1), [4] * 5, 20),
        (every_episode(2), [4, 4, 4], 12),
        (first_steps(0), [1], 1),
        (first_steps(5), [4, 3], 7),
        (lambda moment: moment.step == 0, [1] * 5, 5),
        (lambda moment: False, [], 0),
    ],
)
def test_a_trigger_says_what_is_recorded(
    trigger: Trigger, lengths: list[int], rendered: int
) -> None:
    env = recorded(trigger)

    play(env, 5)

    assert [len(episode) for episode in env.episodes] == lengths
    # What is not recorded is not drawn either: drawing is what costs time.
    assert env.renderer.rendered == rendered  # type: ignore[attr-defined]


def test_old_episodes_can_be_forgotten() -> None:
    env = recorded(keep=2)

    play(env, 5)
    newest = env.frames
    env.clear()
    play(env, 1, first_seed=9)

    assert len(newest) == 8
    assert len(env.frames) == 4


def test_renderers_can_be_exchanged_on_the_way() -> None:
    env = recorded()
    play(env, 1)

    env.renderer = Shade()
    play(env, 1)

    assert env.renderer.rendered == 4


def test_the_recording_is_no_part_of_the_state() -> None:
    env = recorded()
    env.reset(seed=1)
    env.step(STILL)
    state = env.state_dict()
    other = recorded(first_steps(1))
    other.reset(seed=2)
    kept = other.frames

    other.load_state_dict(state)

    assert len(other.frames) == len(kept) == 1
    assert other.step(STILL) == env.step(STILL)
    assert len(other.frames) == 2


def test_an_env_restored_before_its_first_reset_is_recorded() -> None:
    env, other = recorded(), recorded()
    env.reset(seed=1)

    other.load_state_dict(env.state_dict())
    other.step(STILL)

    assert [len(episode) for episode in other.episodes] == [1]


def test_the_renderer_is_left_open() -> None:
    env = recorded()

    env.close()


def test_a_bad_frame_is_said_to_be_the_renderers() -> None:
    class Grey(Shade):
        def render(self, env: Any) -> Frame:
            return np.zeros((2, 2), dtype=np.uint8)

    env = RecordFrames(Market(), Grey())

    with pytest.raises(ValueError, match=r"frame of Grey must be uint8 of shape \(height"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    "build", [lambda: every_episode(0), lambda: first_steps(-1), lambda: recorded(keep=0)]
)
def test_counts_below_their_least_are_refused(build: Any) -> None:
    with pytest.raises(ValueError, match="at least"):
        build()
