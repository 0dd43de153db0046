"""A trading episode: what may be done, how it ends, and that seeds decide everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs import Trading
from sekai.error import InvalidActionError, ResetRequired, StateError
from sekai.market import AccountConfig
from sekai.spaces import Box, Discrete, MultiDiscrete
from sekai.utils.checker import check_env
from tests.envs.native_tasks import TASKS, composed, native, plan, record
from tests.envs.trading_paths import choices, follow, weights

TASK = "Trading-v0"
VARIANTS: dict[str, dict[str, Any]] = {
    "several symbols": {"symbols": 3},
    "weights": {"action": "weights"},
    "weights of several symbols": {"action": "weights", "symbols": 2},
    "everything shown": {"agent": True, "normalize": True, "full55": True},
    "nothing privileged": {"privileged": False, "symbols": 2, "agent": True},
    "all rewards": {"reward": {"differential_sharpe": 1.0, "terminal_sharpe": 2.0}},
    "standard": {"population": "standard"},
}
RUIN = AccountConfig(cash=20_000.0, ruin=0.97)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_variant_passes_the_checker(variant: str) -> None:
    assert check_env(sekai.make(TASK, **{**TASKS[TASK], **VARIANTS[variant]})) == []


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_variant_is_the_same_as_a_batch_and_one_by_one(variant: str) -> None:
    options = VARIANTS[variant]

    assert record(native(TASK, 3, **options)) == record(composed(TASK, 3, "sync", **options))


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_variant_continues_from_a_state_as_if_nothing_had_happened(variant: str) -> None:
    vec, other = (native(TASK, 2, **VARIANTS[variant]) for _ in range(2))
    vec.reset(seed=9)
    for actions in plan(vec, 13):
        vec.step(actions)
    other.load_state_dict(vec.state_dict())

    assert record(vec, seed=None) == record(other, seed=None)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_a_batch_equals_its_single_envs_over_thousands_of_steps(mode: Any) -> None:
    options = {"autoreset": mode, "max_ticks": 40, "order_size": 60, "agent": True}
    batch, singles = native(TASK, 3, **options), composed(TASK, 3, "sync", **options)

    assert record(batch, steps=1000) == record(singles, steps=1000)


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, other = (follow(choices(0, 300), seed=5) for _ in range(2))

    assert one.observations.tobytes() == other.observations.tobytes()
    assert one.rewards.tobytes() == other.rewards.tobytes()


def test_other_seeds_and_later_episodes_are_other_markets() -> None:
    env = Trading()
    seen = [env.reset(seed=seed).observation for seed in range(20)]
    seen += [env.reset().observation for _ in range(20)]

    for place, one in enumerate(seen):
        for other in seen[:place]:
            # Prices may agree by chance; what rests in the book and the fair value do not.
            assert not np.array_equal(one[[43, 47]], other[[43, 47]])


def test_episodes_begin_in_markets_with_different_pasts() -> None:
    env = Trading()
    changes = [env.reset(seed=seed).observation[[0, 12]] for seed in range(60)]

    # The price of 64 bars ago, before an episode runs in a stream of its own.
    past = {round(float(mid / (1 + change / 100)), 2) for mid, change in changes}
    assert len(past) > 20


def test_what_an_agent_does_changes_the_market_and_what_it_does_not_do_does_not() -> None:
    held, again = (follow([1] * 50, privileged=True) for _ in range(2))
    bought = follow([2] + [1] * 49, privileged=True)

    assert np.array_equal(held.observations, again.observations)
    assert np.array_equal(held.observations[0], bought.observations[0])
    assert not np.array_equal(held.observations[1], bought.observations[1])
    # Nobody's trades move the fair value: fair = mid / price_to_fair.
    fair = [path.mids[:, 0] / path.feature("f_price_to_fair") for path in (held, bought)]
    assert fair[0] == pytest.approx(fair[1], rel=1e-12)


def test_spaces_follow_the_symbols_and_the_way_to_act() -> None:
    assert Trading().action_space == Discrete(3)
    assert Trading(symbols=3).action_space == MultiDiscrete([3, 3, 3])
    assert Trading(action="weights").action_space == Box(-1.0, 1.0, (1,), np.float64)
    assert Trading(action="weights", symbols=2).action_space == Box(-1.0, 1.0, (2,), np.float64)
    assert Trading(symbols=3).observation_space.shape == (3 * 54,)
    assert Trading(symbols=2, agent=True, full55=True).observation_space.shape == (2 * 55 + 6,)


REFUSED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "choice": (
        {},
        [3, -1, 1.5, True, False, np.True_, "1", None, [1, 1], [], np.nan, 2**70, np.array([3])],
    ),
    "choices": ({"symbols": 2}, [1, [1], [1, 3], [1, 1, 1], [1, 1.0], [True, 1], None]),
    "weight": (
        {"action": "weights"},
        [np.nan, 1.0001, -1.5, np.inf, True, "all", None, [0.5, 0.5], [np.nan], [np.array([0.5])]],
    ),
    "weights": (
        {"action": "weights", "symbols": 2},
        [0.5, [0.5], [0.5, np.nan], [0.5, -1.01], [0.1] * 3, np.full((1, 2), 0.1), [True, 0.1]],
    ),
}


@pytest.mark.parametrize(
    ("kind", "action"), [(kind, action) for kind in REFUSED for action in REFUSED[kind][1]]
)
def test_an_action_that_does_not_fit_is_refused_and_nothing_moves(kind: str, action: Any) -> None:
    env = Trading(**REFUSED[kind][0])
    env.reset(seed=0)
    before = env.state_dict()["parts"]["batch"]

    with pytest.raises(InvalidActionError, match="^the action does not fit: expected .*, got "):
        env.step(action)
    assert env.state_dict()["parts"]["batch"] == before


@pytest.mark.parametrize(
    ("options", "wrong", "wanted"),
    [
        ({}, 3, r"env 2: expected 0 \(sell\), 1 \(hold\), or 2 \(buy\), got 3"),
        ({}, -1, r"env 2: expected 0 \(sell\), 1 \(hold\), or 2 \(buy\), got -1"),
        ({"action": "weights"}, np.nan, "env 2: expected a share of equity from -1 to 1, got NaN"),
        ({"action": "weights"}, 1.5, "env 2: expected a share of equity from -1 to 1, got 1.5"),
    ],
)
def test_the_env_whose_action_does_not_fit_is_named_and_nobody_moves(
    options: dict[str, Any], wrong: float, wanted: str
) -> None:
    vec = native(TASK, 4, **options)
    vec.reset(seed=0)
    before = vec.batch.state_dict()
    actions = plan(vec, 1)[0]
    actions[2] = wrong

    with pytest.raises(InvalidActionError, match=wanted):
        vec.step(actions)
    assert vec.batch.state_dict() == before


@pytest.mark.parametrize("actions", [[1.0, 1.0], [1], [1, 1, 1], [[1, 1]], None])
def test_actions_of_a_batch_are_whole_numbers_one_for_each_env(actions: Any) -> None:
    vec = native(TASK, 2)
    vec.reset(seed=0)
    before = vec.batch.state_dict()

    with pytest.raises(InvalidActionError):
        vec.step(np.array(actions))
    assert vec.batch.state_dict() == before


@pytest.mark.parametrize("action", [2, np.int64(2), np.array([2]), [2], (2,), np.array(2)])
def test_a_choice_may_come_in_any_form_that_holds_a_whole_number(action: Any) -> None:
    env, other = Trading(), Trading()
    env.reset(seed=0)
    other.reset(seed=0)

    assert env.step(action) == other.step(2)


@pytest.mark.parametrize("max_ticks", [1, 7, 130])
def test_max_ticks_truncates_and_nothing_goes_on_after_that(max_ticks: int) -> None:
    env = Trading(max_ticks=max_ticks)
    env.reset(seed=0)
    results = [env.step(1) for _ in range(max_ticks)]

    assert [result.truncated for result in results] == [False] * (max_ticks - 1) + [True]
    assert not any(result.terminated for result in results)
    assert [result.info["tick"] for result in results] == list(range(1, max_ticks + 1))
    with pytest.raises(ResetRequired, match="the episode is over: call reset"):
        env.step(1)


def test_ruin_terminates_when_equity_falls_to_its_level_and_not_before() -> None:
    options = {"account": RUIN, "regime": "crisis", "order_size": 300, "max_ticks": 40}
    vec = native(TASK, 64, autoreset="disabled", **options)
    vec.reset(seed=0)
    ended = {"ruin": 0, "time": 0}
    draw = np.random.default_rng(0)
    for _ in range(400):
        # Always short, or always long: the population takes the other side of a bad bet.
        result = vec.step(2 * draw.integers(0, 2, 64))
        infos = vec.batch.infos()
        assert np.array_equal(result.terminated, infos["equity"] <= 0.97 * 20_000.0)
        assert np.array_equal(result.truncated, (infos["tick"] == 40) & ~result.terminated)
        ended["ruin"] += int(result.terminated.sum())
        ended["time"] += int(result.truncated.sum())
        if result.dones.any():
            vec.reset(ids=result.dones)
    assert min(ended.values()) > 20, ended


def test_the_last_observation_of_a_ruined_episode_is_kept() -> None:
    options: Any = {"account": RUIN, "regime": "crisis", "order_size": 300, "max_ticks": 400}
    vec, alone = sekai.make_vec(TASK, 1, "native", **options), Trading(**options)
    vec.reset(seed=[3])
    alone.reset(seed=3)
    for action in choices(3, 400):
        many, one = vec.step(np.array([action])), alone.step(action)
        if one.done:
            break

    assert one.terminated
    assert many.terminated[0]
    assert many.infos[0]["final_observation"].tobytes() == one.observation.tobytes()
    assert many.infos[0]["final_info"] == one.info
    assert many.infos[0]["tick"] == 0.0
    assert many.observations[0].tobytes() != one.observation.tobytes()


def test_a_state_is_loaded_only_under_the_settings_it_was_saved_under() -> None:
    env = Trading(max_ticks=9)
    env.reset(seed=0)
    state = env.batch.state_dict()
    rules: list[dict[str, Any]] = [
        {"max_ticks": 10},
        {"max_ticks": 9, "regime": "calm"},
        {"max_ticks": 9, "symbols": 2},
        {"max_ticks": 9, "reward": "log_growth"},
        {"max_ticks": 9, "agent": True},
        {"max_ticks": 9, "tick_size": 0.001},
    ]
    for others in rules:
        other = Trading(**others)
        other.reset(seed=1)
        before = other.batch.state_dict()

        with pytest.raises(StateError, match="a Trading-v0 with these settings, got"):
            other.batch.load_state_dict(state)
        assert other.batch.state_dict() == before
    by_weights = Trading(max_ticks=9, action="weights")
    with pytest.raises(StateError, match="Trading-v0 by weights, got .* Trading-v0"):
        by_weights.batch.load_state_dict(state)


def test_a_saved_episode_ends_as_the_one_that_went_on() -> None:
    actions = weights(1, 60, symbols=2)
    options: Any = {"action": "weights", "symbols": 2, "max_ticks": 60}
    options["reward"] = "terminal_sharpe"
    env = Trading(**options)
    env.reset(seed=2)
    states, results = [], []
    for action in actions:
        states.append(env.state_dict())
        results.append(env.step(action))

    for place in range(60):
        again = Trading(**options)
        again.load_state_dict(states[place])
        assert [again.step(action) for action in actions[place:]] == results[place:]
