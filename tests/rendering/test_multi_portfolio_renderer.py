"""MultiPortfolioRenderer: the chart equals the episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.envs import AgentConfig
from sekai.error import ResetRequired
from sekai.rendering import MultiPortfolioRenderer
from tests.rendering.episodes import SMALL, multi_portfolio, play


def drawn(
    steps: int, agent: str | None = None, **settings: Any
) -> tuple[MultiPortfolioRenderer, list[Any]]:
    """A renderer that has watched an episode and drawn its end, and all results."""
    env, renderer = multi_portfolio(**settings), MultiPortfolioRenderer(agent=agent, **SMALL)
    results = play(env, steps, look=renderer.watch)
    renderer.render(env)
    return renderer, results


def test_every_agent_has_a_line_that_is_its_return() -> None:
    cash = {"small": 1e4, "middle": 1e6, "large": 1e9}
    agents = {name: AgentConfig(initial_cash=amount) for name, amount in cash.items()}
    renderer, results = drawn(15, agents=agents)

    for name, line in zip(cash, renderer.returns, strict=True):
        returns = [result.info[name]["equity"] / cash[name] - 1 for result in results]
        assert line.get_ydata() == pytest.approx(returns, rel=1e-9, abs=1e-12)
    colours = {line.get_color() for line in renderer.returns}
    assert len(colours) == 3


def test_the_weights_and_numbers_are_those_of_the_agent_that_was_asked_for() -> None:
    renderer, results = drawn(15, agent="agent_1")
    last = results[-1]

    seen = last.observations["agent_1"]["weights"]
    assert renderer.history.last.weights[1] == pytest.approx(seen, abs=1e-6)
    tops = [band.get_data().values[-1] for band in renderer.weights.areas]
    assert tops[-1] - tops[-2] == pytest.approx(seen[-1], abs=1e-5)
    assert f"equity {last.info['agent_1']['equity']:,.2f}" in renderer.title.second.get_text()
    widths = [line.get_linewidth() for line in renderer.returns]
    assert np.argmax(widths) == 1


def test_the_benchmark_has_what_agents_had_at_first() -> None:
    renderer, _ = drawn(10)
    levels = renderer.history.column("benchmark")

    assert renderer.benchmark.get_ydata() == pytest.approx(levels / levels[0] - 1, abs=1e-12)


def test_gross_exposures_are_those_of_the_agents() -> None:
    renderer, results = drawn(10)

    for place, line in enumerate(renderer.grosses):
        infos = [result.info[f"agent_{place}"] for result in results]
        assert line.get_ydata() == pytest.approx(
            [info["gross"] / info["equity"] for info in infos], abs=1e-5
        )


def test_an_agent_that_is_not_there_is_refused_with_those_who_are() -> None:
    env = multi_portfolio()
    env.reset(seed=0)

    renderer = MultiPortfolioRenderer(agent="nobody", **SMALL)

    with pytest.raises(ValueError, match=r"unknown agent 'nobody'; expected one of \['agent_0'"):
        renderer.render(env)


def test_an_episode_is_the_same_with_and_without_pictures() -> None:
    env, bare = multi_portfolio(), multi_portfolio()
    with MultiPortfolioRenderer(**SMALL) as renderer:
        drawn_results = play(env, 8, look=renderer.watch)
    plain = play(bare, 8)

    assert env.state_dict() == bare.state_dict()
    for one, other in zip(drawn_results[1:], plain[1:], strict=True):
        assert one.rewards == other.rewards


def test_looking_leaves_a_log_that_is_kept_alone() -> None:
    env = multi_portfolio()
    env.unwrapped.batch.keep_log(True)
    with MultiPortfolioRenderer(**SMALL) as renderer:
        play(env, 5, look=renderer.watch)

    (log,) = env.unwrapped.batch.take_log()
    assert len(log["steps"]) == 5 * 3


def test_going_back_in_time_forgets_what_came_after() -> None:
    env = multi_portfolio()
    with MultiPortfolioRenderer(**SMALL) as renderer:
        play(env, 4, look=renderer.watch)
        state, before = env.state_dict(), renderer.render(env)
        env.step({name: space.sample() for name, space in env.action_spaces.items()})
        renderer.watch(env)

        env.load_state_dict(state)

        assert np.array_equal(renderer.render(env), before)


def test_more_agents_than_colours_are_told_apart_by_dashes() -> None:
    renderer, _ = drawn(3, agents=9)
    looks = {(line.get_color(), line.get_linestyle()) for line in renderer.returns}

    assert len(looks) == 9


def test_an_env_before_its_first_episode_is_refused() -> None:
    with pytest.raises(ResetRequired, match="env 0 is in no episode"):
        MultiPortfolioRenderer(**SMALL).render(multi_portfolio())
