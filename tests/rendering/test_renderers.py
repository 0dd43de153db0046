"""Renderers: the contract, several at once, and Matplotlib without a screen."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sekai.error import ClosedError, MissingExtraError
from sekai.rendering import CompositeRenderer, Frame, MatplotlibRenderer, Renderer, Renders
from sekai.wrappers import TimeLimit
from tests.worlds import RandomWalk


class Plain:
    """Inherits nothing."""

    def __init__(self, height: int = 2, width: int = 3, shade: int = 50) -> None:
        self.frame = np.full((height, width, 3), shade, dtype=np.uint8)
        self.closed = 0

    def render(self, env: Any) -> Frame:
        return self.frame

    def close(self) -> None:
        self.closed += 1


class Inheriting(Renderer):
    """Inherits the `with`."""

    def __init__(self) -> None:
        self.closed = 0

    def render(self, env: Any) -> Frame:
        return np.zeros((2, 2, 3), dtype=np.uint8)

    def close(self) -> None:
        self.closed += 1


class Failing(Plain):
    def close(self) -> None:
        super().close()
        raise OSError("the window is gone")


class Walked(MatplotlibRenderer):
    """Draws where the walker is: a red square on white."""

    def draw(self, env: Any, figure: Any) -> None:
        axes = figure.add_axes((0, 0, 1, 1), xlim=(-5, 5), ylim=(-5, 5), autoscale_on=False)
        axes.set_axis_off()
        x, y = env.unwrapped._position
        axes.fill([x - 1, x + 1, x + 1, x - 1], [y - 1, y - 1, y + 1, y + 1], color=(1, 0, 0))


def red_centre(frame: Frame) -> tuple[float, float]:
    """Position of the red pixels, in the coordinates of the walker."""
    is_red = (frame[:, :, 0] > 200) & (frame[:, :, 1] < 50)
    rows, columns = np.nonzero(is_red)
    height, width, _ = frame.shape
    return columns.mean() / width * 10 - 5, 5 - rows.mean() / height * 10


def test_whatever_renders_and_closes_is_a_renderer() -> None:
    plain: Renders = Plain()

    assert isinstance(plain, Renderer)
    assert isinstance(Inheriting(), Renderer)
    assert issubclass(Plain, Renderer)
    assert not isinstance(object(), Renderer)
    assert not isinstance(Plain(), Inheriting)


def test_a_class_that_inherits_can_be_used_in_a_with() -> None:
    renderer = Inheriting()

    with renderer as entered:
        frames = [renderer.render(RandomWalk()) for _ in range(3)]

    assert entered is renderer
    assert len(frames) == 3
    assert renderer.closed == 1


def test_a_with_closes_the_renderer_also_after_an_error() -> None:
    renderer = Inheriting()

    with contextlib.suppress(KeyError), renderer:
        raise KeyError

    assert renderer.closed == 1


def test_a_renderer_must_render() -> None:
    class Blind(Renderer): ...

    with pytest.raises(TypeError, match="render"):
        Blind()  # type: ignore[abstract]


def test_several_renderers_watch_one_env() -> None:
    left, right = Plain(2, 3, shade=50), Plain(4, 1, shade=200)

    with CompositeRenderer(left, right) as both:
        frame = both.render(RandomWalk())
        parts = both.frames

    assert frame.shape == (4, 4, 3)
    assert (frame[:2, :3] == 50).all()
    assert (frame[2:, :3] == 0).all()
    assert (frame[:, 3:] == 200).all()
    assert parts == (left.frame, right.frame)
    assert (left.closed, right.closed) == (1, 1)


def test_renderers_can_stand_one_above_the_other() -> None:
    frame = CompositeRenderer(Plain(2, 3), Plain(1, 5), layout="column").render(RandomWalk())

    assert frame.shape == (3, 5, 3)


def test_all_are_closed_even_when_one_fails() -> None:
    renderers = [Plain(), Failing(), Plain()]
    both = CompositeRenderer(*renderers)

    with pytest.raises(OSError, match="the window is gone"):
        both.close()
    both.close()

    assert [renderer.closed for renderer in renderers] == [1, 1, 1]
    with pytest.raises(ClosedError):
        both.render(RandomWalk())


def test_a_composite_says_which_renderer_gave_a_bad_frame() -> None:
    bad = Plain()
    bad.frame = np.zeros((2, 2), dtype=np.float64)

    with pytest.raises(ValueError, match=r"frame of Plain must be uint8 .*got float64"):
        CompositeRenderer(Plain(), bad).render(RandomWalk())


def test_a_composite_of_nothing_or_in_no_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="needs at least one"):
        CompositeRenderer()
    with pytest.raises(ValueError, match="must be 'row' or 'column'"):
        CompositeRenderer(Plain(), layout="x")  # type: ignore[arg-type]


def test_matplotlib_draws_the_env_as_it_is_now() -> None:
    env = TimeLimit(RandomWalk(), 9)
    env.reset(seed=5)
    with Walked(width=200, height=160) as renderer:
        before = renderer.render(env)
        env.unwrapped._position[:] = (2.0, -3.0)
        after = renderer.render(env)

    assert before.shape == after.shape == (160, 200, 3)
    assert before.dtype == np.uint8
    assert red_centre(after) == pytest.approx((2.0, -3.0), abs=0.1)
    assert not np.array_equal(before, after)


def test_a_frame_is_not_drawn_over_by_the_next() -> None:
    env = RandomWalk()
    with Walked(width=50, height=50) as renderer:
        first = renderer.render(env)
        kept = first.copy()
        env._position[:] = 3
        renderer.render(env)

    assert np.array_equal(first, kept)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 700), st.integers(1, 700), st.integers(30, 300))
@example(29, 58, 100)  # 29 / 100 * 100 is a little less than 29.
def test_the_picture_has_the_size_that_was_asked_for(width: int, height: int, dpi: int) -> None:
    class Empty(MatplotlibRenderer):
        def draw(self, env: Any, figure: Any) -> None: ...

    with Empty(width, height, dpi) as renderer:
        assert renderer.render(None).shape == (height, width, 3)


def test_pyplot_plays_no_part_and_no_screen_is_needed() -> None:
    script = """
import os, sys
os.environ.pop("DISPLAY", None)
os.environ["MPLBACKEND"] = "TkAgg"
from tests.rendering.test_renderers import Walked, RandomWalk
with Walked() as renderer:
    assert renderer.render(RandomWalk()).shape == (480, 640, 3)
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_failed_drawing_does_not_spoil_the_next() -> None:
    class Moody(Walked):
        failing = False

        def draw(self, env: Any, figure: Any) -> None:
            super().draw(env, figure)
            if self.failing:
                raise RuntimeError("no ink")

    with Moody(width=40, height=40) as renderer:
        before = renderer.render(RandomWalk())
        renderer.failing = True
        with pytest.raises(RuntimeError, match="no ink"):
            renderer.render(RandomWalk())
        renderer.failing = False

        assert np.array_equal(renderer.render(RandomWalk()), before)


def test_a_closed_matplotlib_renderer_says_so() -> None:
    renderer = Walked()
    renderer.render(RandomWalk())
    renderer.close()
    renderer.close()

    with pytest.raises(ClosedError, match="the Walked is closed"):
        renderer.render(RandomWalk())


@pytest.mark.parametrize("size", [{"width": 0}, {"height": 2.5}, {"dpi": -1}])
def test_a_picture_without_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="integer of at least 1"):
        Walked(**size)


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingExtraError, match=r"'matplotlib'.*\.\[report\]"):
        Walked().render(RandomWalk())


def test_importing_the_renderers_imports_no_drawing_library() -> None:
    script = (
        "import sys\nimport sekai.rendering\n"
        "assert not {'matplotlib', 'PIL', 'imageio', 'imageio_ffmpeg'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", script], check=True)
