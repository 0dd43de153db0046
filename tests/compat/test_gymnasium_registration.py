"""Envs of sekai in gymnasium's registry: made, checked, rendered and vectorized by gymnasium."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordVideo, RenderCollection

import sekai
from sekai.compat import register_gymnasium_envs
from sekai.registry.registry import isolated
from tests.worlds import RandomWalk

SINGLE = [
    "MarketMaking-v0",
    "OptimalExecution-v0",
    "OrderExecution-v0",
    "Portfolio-v0",
    "Trading-v0",
]
SHORT: dict[str, Any] = {"max_ticks": 6, "render_mode": "rgb_array"}


def test_every_env_is_registered() -> None:
    ids = {spec.id for spec in sekai.all_specs() if "/" not in spec.id}

    assert set(SINGLE) < ids
    assert {f"sekai/{id}" for id in ids} <= gymnasium.registry.keys()


@pytest.mark.parametrize("id", SINGLE)
def test_gymnasium_makes_and_checks_an_env(id: str) -> None:
    with warnings.catch_warnings():
        # It would rather have bounded, normalized spaces.
        warnings.simplefilter("ignore", UserWarning)
        env = gymnasium.make(f"sekai/{id}")
        check_env(env.unwrapped)

    assert env.spec is not None
    assert env.metadata["render_modes"] == ["rgb_array"]


def test_an_env_of_gymnasium_gives_the_same_trajectory() -> None:
    env, own = (
        gymnasium.make("sekai/Trading-v0", max_ticks=9),
        sekai.make("Trading-v0", max_ticks=9),
    )
    observation, _ = env.reset(seed=4)
    assert np.array_equal(observation, own.reset(seed=4).observation)

    for action in (2, 1, 0, 2, 2, 1, 0, 0, 1):
        observation, reward, *ends, _ = env.step(action)
        expected = own.step(action)
        assert np.array_equal(observation, expected.observation)
        assert (reward, ends) == (expected.reward, [expected.terminated, expected.truncated])
    assert ends == [False, True]


def test_frames_of_an_episode_make_a_video(tmp_path: Path) -> None:
    env = RenderCollection(gymnasium.make("sekai/Trading-v0", **SHORT))
    env.reset(seed=1)
    for _ in range(5):
        env.step(2)

    frames: Any = env.render()

    assert len(frames) == 6
    assert {(frame.dtype, frame.ndim, frame.shape[2]) for frame in frames} == {
        (np.dtype(np.uint8), 3, 3)
    }
    assert not np.array_equal(frames[0], frames[-1])
    imageio.imwrite(tmp_path / "episode.mp4", np.stack(frames), fps=env.metadata["render_fps"])
    assert (tmp_path / "episode.mp4").stat().st_size > 1_000
    env.close()


def test_record_video_writes_an_episode(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env: Any = RecordVideo(gymnasium.make("sekai/Trading-v0", **SHORT), str(tmp_path / "videos"))
    env.reset(seed=1)
    while not env.step(1)[3]:
        pass
    env.close()

    (video,) = (tmp_path / "videos").glob("*.mp4")
    assert video.stat().st_size > 1_000


@pytest.mark.parametrize("id", SINGLE)
def test_gymnasium_makes_native_vector_envs(id: str) -> None:
    envs: Any = gymnasium.make_vec(f"sekai/{id}", num_envs=3)
    own = sekai.make_vec(id, 3)
    observations, _ = envs.reset(seed=[1, 2, 3])
    expected = own.reset(seed=[1, 2, 3])

    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    own.batched_action_space.seed(0)
    actions = own.batched_action_space.sample()
    for _ in range(5):
        observations, rewards, *_ = envs.step(actions)
        expected_step = own.step(actions)
        assert np.array_equal(rewards, expected_step.rewards)
    names = observations if isinstance(observations, dict) else {"": observations}
    for name, rows in names.items():
        wanted = expected_step.observations[name] if name else expected_step.observations
        assert np.array_equal(rows, wanted)
    assert expected.infos
    envs.close()
    own.close()


def test_gymnasium_vectorizes_single_envs_too() -> None:
    envs = gymnasium.make_vec("sekai/Trading-v0", 2, vectorization_mode="sync", max_ticks=5)
    other = gymnasium.make_vec("sekai/Trading-v0", 2, autoreset="next_step", max_ticks=5)

    assert envs.reset(seed=0)[0].shape == other.reset(seed=0)[0].shape == (2, 54)
    assert other.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_what_gymnasium_cannot_make_is_refused_with_the_remedy() -> None:
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(TypeError, match="MultiPortfolio-v0 has several agents.*use sekai"):
            make("sekai/MultiPortfolio-v0")
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        gymnasium.make("sekai/Trading-v0", render_mode="human")


def test_envs_that_are_registered_later_are_added_by_a_call() -> None:
    with isolated():
        sekai.register("LaterWalk-v3", RandomWalk)
        sekai.register("desk/Walk-v1", RandomWalk)

        ids = register_gymnasium_envs()

        assert {"sekai/LaterWalk-v3", "desk/Walk-v1"} <= set(ids)
        assert gymnasium.make("sekai/LaterWalk-v3").reset(seed=1)[0].shape == (2,)
    for id in ("sekai/LaterWalk-v3", "desk/Walk-v1"):
        del gymnasium.registry[id]


@pytest.mark.parametrize(
    ("lines", "works"),
    [
        ("import gymnasium, sekai", True),
        ("import sekai, gymnasium; sekai.compat.register_gymnasium_envs()", True),
        ("import sekai, gymnasium; gymnasium.register_envs(sekai.compat.gymnasium)", True),
        ("import sekai, gymnasium", False),
        ("import sekai, sys; assert 'gymnasium' not in sys.modules; import gymnasium", False),
    ],
)
def test_envs_are_registered_in_a_new_process(lines: str, works: bool) -> None:
    code = f"{lines}; print('sekai/Trading-v0' in gymnasium.registry)"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == str(works)
