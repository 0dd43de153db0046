"""renderer_for: every built-in env has a renderer."""

from __future__ import annotations

import itertools
import resource
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

import sekai
from sekai.rendering import Frame, MatplotlibRenderer, renderer_for, save_gif, save_video
from tests.rendering.episodes import SMALL, acting
from tests.rendering.test_saving import read_video
from tests.worlds import RandomWalk

BUILT_IN = [
    "BasketExecution-v0",
    "MarketMaking-v0",
    "MultiPortfolio-v0",
    "OptimalExecution-v0",
    "OrderExecution-v0",
    "Portfolio-v0",
    "Trading-v0",
]
STEPS = 4


def film(env: Any, renderer: Any) -> list[Frame]:
    """A frame of the reset, and of each step."""
    env.reset(seed=3)
    # An order that is worked at random is soon done.
    ones = {"OrderExecution-v0": 1, "BasketExecution-v0": np.ones(4, np.int64)}
    act = (lambda: ones[env.spec.id]) if env.spec.id in ones else acting(env)
    frames = [renderer.render(env)]
    for _ in range(STEPS):
        env.step(act())
        frames.append(renderer.render(env))
    return frames


def test_every_built_in_env_is_in_the_list() -> None:
    ours = [spec.id for spec in sekai.all_specs() if str(spec.entry_point).startswith("sekai.")]

    assert sorted(ours) == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_env_is_drawn_and_each_step_changes_the_picture(name: str) -> None:
    env = sekai.make(name)
    renderer = renderer_for(env, **SMALL)

    frames = film(env, renderer)
    renderer.close()

    assert {(frame.shape, frame.dtype.name) for frame in frames} == {((400, 320, 3), "uint8")}
    for before, after in itertools.pairwise(frames):
        assert not np.array_equal(before, after)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_film_has_as_many_frames_as_moments(name: str, tmp_path: Path) -> None:
    renderer = renderer_for(name, **SMALL)
    frames = film(sekai.make(name), renderer)
    renderer.close()

    save_gif(frames, tmp_path / "episode.gif", fps=5)
    save_video(frames, tmp_path / "episode.mp4", fps=5)

    with Image.open(tmp_path / "episode.gif") as image:
        assert getattr(image, "n_frames", 1) == STEPS + 1
    assert len(read_video(tmp_path / "episode.mp4")[0]) == STEPS + 1


@pytest.mark.parametrize("name", ["Portfolio-v0", "MultiPortfolio-v0"])
def test_memory_does_not_grow_with_the_episode(name: str) -> None:
    env: Any = sekai.make(name, lookback=1, episode_rows=None, starts="sequential")
    renderer: Any = renderer_for(env, ticks=20, **SMALL)
    env.reset(seed=0)
    act = acting(env)

    def go_on(steps: int) -> int:
        for _ in range(steps):
            env.step(act())
            renderer.watch(env)
        renderer.render(env)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = go_on(300)
    after = go_on(1500)

    assert len(renderer.history.scenes) == 21
    # 1500 scenes that were kept would be less than this; pictures and copies of data far more.
    assert after - before < 20_000
    assert len(renderer.top.figure.axes) <= 4
    assert sum(len(axes.get_children()) for axes in renderer.top.figure.axes) < 120


class Dot(MatplotlibRenderer):
    def draw(self, env: Any, figure: Any) -> None:
        figure.add_subplot().plot([0], [0], "o")


class Drawn(RandomWalk):
    metadata: ClassVar[dict[str, Any]] = {"renderer": Dot}


def test_an_env_of_ones_own_names_its_renderer() -> None:
    renderer = renderer_for(sekai.TimeLimit(Drawn(), 5), width=40, height=30)

    assert isinstance(renderer, Dot)
    assert (renderer.width, renderer.height) == (40, 30)


def test_an_env_that_names_no_renderer_is_told_what_to_do() -> None:
    with pytest.raises(TypeError, match="no renderer in the metadata of .*RandomWalk.*subclass"):
        renderer_for(RandomWalk())
