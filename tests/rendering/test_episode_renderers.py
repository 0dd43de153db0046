"""Laws of the renderers of all built-in tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import sekai
from sekai.error import ClosedError, MissingExtraError, ResetRequired
from sekai.rendering import (
    CompositeRenderer,
    EpisodeRenderer,
    MarketMakingRenderer,
    OptimalExecutionRenderer,
    PortfolioRenderer,
    RecordFrames,
    TradingRenderer,
    Watches,
    every_step,
    save_gif,
    save_png,
)
from tests.rendering.episodes import (
    SMALL,
    as_bytes,
    market_making,
    optimal_execution,
    play,
    portfolio,
    shades,
    trading,
)
from tests.worlds import RandomWalk

Make = Callable[..., Any]
OF_ONE_THING: list[tuple[Any, Make]] = [
    (TradingRenderer, trading),
    (MarketMakingRenderer, market_making),
    (OptimalExecutionRenderer, optimal_execution),
]
LOTS = pytest.mark.parametrize(("kind", "make"), OF_ONE_THING)
ALL = pytest.mark.parametrize(("kind", "make"), [*OF_ONE_THING, (PortfolioRenderer, portfolio)])


def equity_of(info: dict[str, Any]) -> float:
    """Equity of the account, under the task's name for it."""
    if "shortfall" in info:
        return -float(info["shortfall"])
    return float(info["equity"] if "equity" in info else info["wealth"])


@ALL
def test_a_frame_has_its_size_and_is_not_blank(kind: Any, make: Make) -> None:
    env = make()
    play(env, 5)

    with kind(**SMALL) as renderer:
        frame = renderer.render(env)
        colours = shades(renderer, env)

    assert frame.shape == (400, 320, 3)
    assert frame.dtype == np.uint8
    assert colours > 50


@ALL
def test_an_episode_is_the_same_with_and_without_pictures(kind: Any, make: Make) -> None:
    env, bare = make(), make()

    with kind(**SMALL) as renderer:
        drawn = play(RecordFrames(env, renderer, every_step(4)), 12)
    plain = play(bare, 12)

    assert as_bytes(drawn) == as_bytes(plain)
    assert env.state_dict() == bare.state_dict()


@ALL
def test_the_ticks_between_two_pictures_are_drawn_as_well(kind: Any, make: Make) -> None:
    with kind(**SMALL) as every, kind(**SMALL) as seldom:
        all_frames = RecordFrames(make(), every)
        some_frames = RecordFrames(make(), seldom, every_step(5))
        play(all_frames, 10)
        play(some_frames, 10)

    assert len(some_frames.frames) == 3
    assert np.array_equal(some_frames.frames[-1], all_frames.frames[-1])


@LOTS
def test_position_and_equity_are_those_of_the_env(kind: Any, make: Make) -> None:
    env = make()
    infos: list[dict[str, Any]] = []
    with kind(**SMALL) as renderer:
        results = play(env, 15, look=renderer.watch)
        renderer.render(env)
        infos = [result.info for result in results]
        account, title = renderer.account, renderer.title

    equity = [equity_of(info) for info in infos]
    assert account.equity.line.get_xdata().tolist() == list(range(16))
    assert account.equity.line.get_ydata().tolist() == equity
    position = account.position.get_ydata()
    assert np.any(position != 0)
    assert np.array_equal(account.long.get_data().values, np.maximum(position, 0))
    assert np.array_equal(account.short.get_data().values, np.minimum(position, 0))
    start = results[0].info.get("equity", 0.0)
    peaks = np.maximum.accumulate([start, *equity])[1:]
    assert account.equity.drawdown.get_data().baseline.tolist() == peaks.tolist()
    assert "seed 24 · tick 15" in title.first.get_text()
    profit = equity[-1] - start
    assert f"equity {equity[-1]:,.2f}   profit {profit:+,.2f}" in title.second.get_text()


@ALL
def test_a_new_episode_begins_a_new_picture(kind: Any, make: Make) -> None:
    with kind(**SMALL) as renderer, kind(**SMALL) as fresh:
        env, other = make(), make()
        play(env, 8, look=renderer.watch)
        play(env, 3, seed=5, look=renderer.watch)
        play(other, 3, seed=5, look=fresh.watch)

        assert np.array_equal(renderer.render(env), fresh.render(other))
        env.reset()
        renderer.render(env)

    assert len(renderer.history.scenes) == 1
    assert (renderer.history.last.seed, renderer.history.last.episode) == (5, 1)


@ALL
def test_an_episode_that_is_joined_late_begins_a_new_picture(kind: Any, make: Make) -> None:
    env = make()
    with kind(**SMALL) as renderer:
        play(env, 3, look=renderer.watch)
        play(env, 5, seed=5)
        renderer.watch(env)

    (scene,) = renderer.history.scenes
    assert scene.seed == 5
    assert renderer.history.first is scene


@ALL
def test_going_back_in_time_forgets_what_came_after(kind: Any, make: Make) -> None:
    env = make()
    with kind(**SMALL) as renderer:
        play(env, 4, look=renderer.watch)
        state = env.state_dict()
        before = renderer.render(env)
        env.step(env.action_space.sample())
        renderer.watch(env)

        env.load_state_dict(state)

        assert np.array_equal(renderer.render(env), before)
        assert len(renderer.history.scenes) == 5


@ALL
def test_old_ticks_leave_and_the_peak_is_remembered(kind: Any, make: Make) -> None:
    with kind(ticks=6, **SMALL) as renderer, kind(**SMALL) as whole:
        env = make()
        play(env, 25, look=lambda env: (renderer.watch(env), whole.watch(env)))
        renderer.render(env)
        limits = (renderer.top if kind is PortfolioRenderer else renderer.prices).get_xlim()

    ticks = whole.history.column("tick").tolist()
    assert (
        renderer.history.column("tick").tolist() == ticks[19:] == list(ticks[0] + np.arange(19, 26))
    )
    assert renderer.history.peaks().tolist() == whole.history.peaks()[-7:].tolist()
    assert limits == (ticks[19] - 0.5, ticks[-1] + 0.5)
    assert renderer.history.first.tick == ticks[0]


@ALL
def test_one_env_of_a_vector_env_can_be_drawn(kind: Any, make: Make) -> None:
    name = make().spec.id
    vec = sekai.make_vec(name, 3, "native")
    vec.reset(seed=[4, 5, 6])
    single = sekai.make(name)
    single.reset(seed=6)

    with kind(env_index=2, **SMALL) as of_vec, kind(**SMALL) as of_single:
        assert np.array_equal(of_vec.render(vec), of_single.render(single))
        assert of_vec.history.last.seed == 6
    with kind(env_index=3, **SMALL) as beyond:
        with pytest.raises(ValueError, match="an env from 0 to 2, got 3"):
            beyond.render(vec)
        assert not beyond.history.scenes


@ALL
def test_an_env_that_cannot_be_drawn_is_named(kind: Any, make: Make) -> None:
    with kind(**SMALL) as renderer:
        with pytest.raises(TypeError, match="cannot draw RandomWalk"):
            renderer.render(RandomWalk())
        with pytest.raises(ResetRequired, match="env 0 is in no episode"):
            renderer.render(make())
    with pytest.raises(ClosedError, match=f"the {kind.__name__} is closed"):
        renderer.render(make())


@ALL
def test_a_failed_drawing_does_not_spoil_the_next(
    kind: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make()
    play(env, 2)
    with kind(**SMALL) as renderer:
        before = renderer.render(env)
        with monkeypatch.context() as patch:
            # Fails with half of the picture gone.
            damage = renderer.title.first.remove
            patch.setattr(renderer.title, "update", lambda *_: (damage(), 1 / 0))
            with pytest.raises(ZeroDivisionError):
                renderer.render(env)

        assert np.array_equal(renderer.render(env), before)


@ALL
def test_bad_settings_are_refused(kind: Any, make: Make) -> None:
    for ticks in (0, 2.5, True):
        with pytest.raises(ValueError, match="ticks must be an integer of at least 1"):
            kind(ticks=ticks)
    with pytest.raises(ValueError, match="width must be"):
        kind(width=0)


@ALL
def test_missing_matplotlib_is_named(
    kind: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    env = make()
    env.reset(seed=0)

    with pytest.raises(MissingExtraError, match=r"'matplotlib'.*\.\[report\]"):
        kind().render(env)


def test_a_composite_lets_watch_whoever_watches() -> None:
    env = trading()
    seen: EpisodeRenderer[Any] = TradingRenderer(**SMALL)

    with CompositeRenderer(seen, TradingRenderer(symbol=0, **SMALL)) as both:
        assert isinstance(both, Watches)
        play(RecordFrames(env, both, every_step(3)), 3)

    assert [scene.tick for scene in seen.history.scenes] == [0, 1, 2, 3]
    with pytest.raises(ClosedError):
        both.watch(env)


def test_a_gif_has_as_many_frames_as_were_drawn(tmp_path: Path) -> None:
    with TradingRenderer(**SMALL) as renderer:
        film = RecordFrames(trading(), renderer, every_step(2))
        play(film, 8)

    save_gif(film.frames, tmp_path / "episode.gif", fps=5)

    with Image.open(tmp_path / "episode.gif") as image:
        assert getattr(image, "n_frames", 1) == len(film.frames) == 5
        assert image.size == (320, 400)


def test_a_png_is_read_back_pixel_for_pixel(tmp_path: Path) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)

    save_png(frame, tmp_path / "episode.png")

    with Image.open(tmp_path / "episode.png") as image:
        assert np.array_equal(np.asarray(image.convert("RGB")), frame)


def test_what_is_no_picture_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frame must be uint8 of shape"):
        save_png(np.zeros((3, 3), np.uint8), tmp_path / "episode.png")
    with pytest.raises(ValueError, match=r"must end in \.png"):
        save_png(np.zeros((3, 3, 3), np.uint8), tmp_path / "episode.gif")

    assert list(tmp_path.iterdir()) == []


def test_missing_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(MissingExtraError, match=r"'pillow'.*\.\[report\]"):
        save_png(np.zeros((3, 3, 3), np.uint8), tmp_path / "episode.png")


def test_a_trigger_of_no_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 step"):
        every_step(0)
