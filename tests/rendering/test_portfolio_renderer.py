"""PortfolioRenderer: the chart equals the episode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sekai.market import Constraints, MarginAccount
from sekai.rendering import PortfolioRenderer
from sekai.rendering.panels import assign_colors, largest_assets, stacked_areas
from sekai.rendering.style import SERIES_COLORS, format_amount
from tests.rendering.episodes import SMALL, play, portfolio


def drawn(steps: int, **settings: Any) -> tuple[PortfolioRenderer, Any, list[Any]]:
    """A renderer that has watched an episode and drawn its end, its env, and all results."""
    env, renderer = portfolio(**settings), PortfolioRenderer(**SMALL)
    results = play(env, steps, look=renderer.watch)
    renderer.render(env)
    return renderer, env, results


def test_equity_and_its_drawdown_are_those_of_the_env() -> None:
    renderer, _, results = drawn(20)
    equity = np.array([result.info["equity"] for result in results])

    assert renderer.equity.line.get_ydata() == pytest.approx(equity, rel=1e-12)
    peaks = renderer.equity.drawdown.get_data().baseline
    missing = 1 - equity / peaks
    assert missing == pytest.approx([result.info["drawdown"] for result in results], abs=1e-12)


def test_weights_are_those_that_the_agent_sees() -> None:
    renderer, _, results = drawn(20)

    for scene, result in zip(renderer.history.scenes, results, strict=True):
        seen = result.observation["weights"]
        assert scene.weights[0] == pytest.approx(seen, abs=1e-6)
        assert scene.gross[0] * scene.equity == pytest.approx(result.info["gross"], rel=1e-5)
        assert scene.net[0] * scene.equity == pytest.approx(result.info["net"], rel=1e-5)


def test_the_bands_of_one_tick_fill_equity_without_gaps() -> None:
    renderer, _, _ = drawn(20)
    areas = [band.get_data() for band in renderer.weights.areas]

    assert areas[0].baseline == pytest.approx(0.0)
    for lower, upper in itertools.pairwise(areas):
        assert upper.baseline == pytest.approx(lower.values)
    assert areas[-1].values == pytest.approx(1.0, abs=1e-5)


def test_what_is_owed_hangs_below_zero() -> None:
    settings = {"account": MarginAccount(), "constraints": Constraints(long_short=True)}
    env, renderer = portfolio(**settings), PortfolioRenderer(**SMALL)
    env.reset(seed=1)
    wanted = np.zeros(env.action_space.shape)
    wanted[0], wanted[1], wanted[-1] = 0.8, -0.5, 0.7

    env.step(wanted)
    renderer.render(env)

    held, owed = renderer.weights.areas[0].get_data(), renderer.weights.areas[1].get_data()
    assert held.values[-1] == pytest.approx(0.8, abs=0.05)
    assert owed.values[-1] == pytest.approx(-0.5, abs=0.05)
    assert owed.baseline[-1] == pytest.approx(0.0)
    assert np.asarray(renderer.gross.get_ydata())[-1] > np.asarray(renderer.net.get_ydata())[-1]


def test_the_benchmark_begins_with_the_same_money() -> None:
    renderer, env, results = drawn(20)
    line = np.asarray(renderer.benchmark.get_ydata())
    rows = [int(result.info["time_index"]) for result in results]
    closes = env.unwrapped.data.field("close")
    returns = (closes[1:] / closes[:-1] - 1).mean(axis=1)

    grown = 100_000 * np.cumprod([1.0, *(1 + returns[row - 1] for row in rows[1:])])
    assert line == pytest.approx(grown, rel=1e-9)


def test_turnover_and_what_it_cost_are_shown() -> None:
    renderer, _, results = drawn(12)
    infos = [result.info for result in results]
    paid = sum(info["cost"] / info["equity"] for info in infos)

    assert renderer.turnover.get_data().values.tolist() == [info["turnover"] for info in infos]
    assert f"total cost {paid:.2%}" in renderer.turnover_axes.get_title(loc="left")


def test_ticks_are_dates_of_the_data() -> None:
    renderer, env, results = drawn(12)
    row = int(results[-1].info["time_index"])
    date = str(env.unwrapped.data.times[row].astype("datetime64[D]"))

    assert f"seed 24 · {date}" in renderer.title.first.get_text()


@pytest.mark.parametrize("every", [1, 7])
def test_dates_are_written_under_rows_that_were_seen(every: int) -> None:
    env = portfolio(episode_rows=200)
    renderer = PortfolioRenderer(**SMALL | {"ticks": 40})
    rows = [int(env.reset(seed=24).info["time_index"])]
    renderer.watch(env)
    for step in range(1, 99):
        row = int(env.step(env.action_space.sample()).info["time_index"])
        if step % every == 0:
            renderer.watch(env)
            rows.append(row)
        if step in (7, 35, 84, 98):
            renderer.render(env)
            rows.append(row)
            ticks = renderer.turnover_axes.get_xticks().astype(int).tolist()
            names = [label.get_text() for label in renderer.turnover_axes.get_xticklabels()]
            assert 1 <= len(ticks) <= 5
            assert set(ticks) <= set(rows)
            assert names == [str(env.unwrapped.data.times[one])[:10] for one in ticks]
            # Not so near to each other that they would overlap.
            assert all(np.diff(ticks) >= 11 - every)


def test_large_amounts_are_written_short() -> None:
    assert [format_amount(amount) for amount in (-1234.4, 9_999_999, 2e7, -3.25e10)] == [
        "-1,234", "9,999,999", "20.0M", "-32.5B",
    ]  # fmt: skip


@given(arrays.arrays(np.float64, (4, 6), elements=st.floats(-2, 2)))
def test_bands_are_as_high_as_their_weights(parts: Any) -> None:
    bottoms, tops = stacked_areas(parts)

    assert tops - bottoms == pytest.approx(parts, abs=1e-9)
    held = np.maximum(parts, 0).sum(axis=1)
    owed = np.minimum(parts, 0).sum(axis=1)
    assert np.maximum(tops, bottoms).max(axis=1) == pytest.approx(held, abs=1e-9)
    assert np.minimum(tops, bottoms).min(axis=1) == pytest.approx(owed, abs=1e-9)


@given(st.sets(st.integers(0, 60), max_size=len(SERIES_COLORS)))
def test_every_asset_that_is_named_has_a_colour_of_its_own(assets: set[int]) -> None:
    colours = assign_colors(sorted(assets))

    assert sorted(colours.values()) == sorted(assets)
    assert all(0 <= place < len(SERIES_COLORS) for place in colours)


def test_the_largest_assets_are_named() -> None:
    weights = np.array([[0.1, 0.5, -0.6, 0.0], [0.1, 0.5, 0.6, 0.0]])

    assert largest_assets(weights, 2) == [1, 2]
    assert largest_assets(weights, 9) == [0, 1, 2, 3]
