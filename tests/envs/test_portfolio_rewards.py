"""A function in Python rewards all envs at once, and single envs the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sekai.envs import PortfolioState
from sekai.envs.native_env import BatchOfOne
from sekai.error import ResetRequired, StateError
from sekai.utils.checker import check_env
from sekai.vector import NativeBatch, NativeVecEnv
from tests.envs.portfolio_runs import plans, record, same, single, vector

MODES = ["same_step", "next_step", "disabled"]

Floats = NDArray[np.float64]


def growth(state: PortfolioState) -> Floats:
    return state.equity / state.previous_equity - 1.0


def everything(state: PortfolioState) -> Floats:
    """A number that any field can change."""
    kinds = state.commission + state.spread + state.impact + state.borrow + state.financing
    money = (state.cash + state.gross - 2 * state.net + 3 * state.cost + kinds) / state.equity
    ends = state.terminated + 2.0 * state.truncated + 4.0 * state.margin_call
    shares = state.weights @ np.arange(4.0) + state.drawdown + state.turnover
    reward: Floats = money + ends + shares + 1e-3 * state.time_index + state.pnl
    return reward


class Smooth:
    """The mean of the last returns of the episode, which it remembers."""

    def __init__(self) -> None:
        self.sums = self.counts = np.zeros(0)

    def reset(self, ids: NDArray[np.int64]) -> None:
        if not self.sums.size:
            self.sums, self.counts = np.zeros(len(ids)), np.zeros(len(ids))
        self.sums[ids] = self.counts[ids] = 0.0

    def __call__(self, state: PortfolioState) -> Floats:
        self.sums[state.ids] += growth(state)
        self.counts[state.ids] += 1.0
        mean: Floats = self.sums[state.ids] / self.counts[state.ids]
        return mean

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.copy(), "counts": self.counts.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["sums"].shape != self.sums.shape:
            raise StateError(f"expected sums of shape {self.sums.shape}, got {state['sums'].shape}")
        self.sums, self.counts = state["sums"].copy(), state["counts"].copy()

    def clone_env(self, source: int, target: int) -> None:
        self.sums[target], self.counts[target] = self.sums[source], self.counts[source]


class Forgetful:
    """Remembers, and cannot be saved."""

    def reset(self, ids: NDArray[np.int64]) -> None: ...

    def __call__(self, state: PortfolioState) -> Floats:
        return state.pnl


def test_a_rewarded_batch_fulfils_the_protocols() -> None:
    vec = vector(2, reward=growth)
    assert isinstance(vec, NativeVecEnv)
    one: BatchOfOne[Any] = single(reward=growth).unwrapped.batch

    assert isinstance(vec.batch, NativeBatch)
    assert vec.get_attr("rows") == [80, 80]
    assert one.state_dict().keys() == {"batch", "reward"}


@pytest.mark.parametrize("reward", [growth, everything, Smooth()])
def test_the_checker_finds_nothing_to_report(reward: Any) -> None:
    assert check_env(single(reward=reward)) == []


@pytest.mark.parametrize("mode", MODES)
def test_returns_in_python_are_those_of_the_core_to_the_end_of_every_episode(mode: Any) -> None:
    reported, own = (
        vector(5, autoreset=mode, reward="return"),
        vector(5, autoreset=mode, reward=growth),
    )
    reported.reset(seed=3)
    own.reset(seed=3)
    endings = 0
    for actions in plans(5, 40):
        wanted, found = reported.step(actions), own.step(actions)
        np.testing.assert_allclose(found.rewards, wanted.rewards, rtol=1e-9, atol=1e-12)
        endings += wanted.dones.sum()
        if mode == "disabled" and wanted.dones.any():
            reported.reset(ids=wanted.dones)
            own.reset(ids=wanted.dones)

    assert endings > 20


@pytest.mark.parametrize("reward", [everything, Smooth()])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_rewarded_as_its_single_envs_bit_for_bit(
    mode: Any, copy: bool, reward: Any
) -> None:
    options = {"autoreset": mode, "copy": copy, "reward": reward}

    assert same(record(vector(4, **options)), record(vector(4, "sync", **options)))


def test_envs_in_worker_processes_are_rewarded_the_same() -> None:
    options: Any = {"num_workers": 2, "vector_kwargs": {"start_method": "spawn"}}
    with vector(3, "proc", reward=everything, **options) as workers:
        assert same(record(vector(3, reward=everything)), record(workers))


def test_an_ended_episode_is_told_as_it_ended_and_not_as_the_next_begins() -> None:
    states: list[PortfolioState] = []

    def watched(state: PortfolioState) -> Floats:
        states.append(state)
        return state.pnl

    vec = vector(5, reward=watched)
    vec.reset(seed=3)
    for actions in plans(5, 30):
        result = vec.step(actions)
        state = states.pop()
        for env in np.flatnonzero(result.dones):
            last = result.infos[env]["final_info"]
            shown = result.infos[env]["final_observation"]
            assert state.equity[env] == last["equity"]
            assert state.time_index[env] == last["time_index"]
            assert state.cost[env] == last["cost"]
            assert np.array_equal(state.weights[env], shown["weights"])
            assert state.terminated[env] == result.terminated[env]
            assert state.truncated[env] == result.truncated[env]
        for env in np.flatnonzero(~result.dones):
            assert state.equity[env] == result.infos[env]["equity"]
            assert np.array_equal(state.weights[env], result.observations["weights"][env])


def test_costs_are_the_sum_of_their_kinds_and_pnl_the_change_of_equity() -> None:
    def checked(state: PortfolioState) -> Floats:
        kinds = (state.commission, state.fixed, state.spread, state.impact, state.borrow,
                 state.financing, state.delisting)  # fmt: skip
        np.testing.assert_allclose(sum(kinds), state.cost, rtol=1e-12)
        np.testing.assert_allclose(state.previous_equity + state.pnl, state.equity, rtol=1e-12)
        assert (state.cost > 0).any()
        return state.pnl

    vec = vector(3, reward=checked)
    equity = vec.reset(seed=0).infos.column("equity").values
    for actions in plans(3, 5):
        result = vec.step(actions)
        np.testing.assert_allclose(result.rewards, result.infos.column("equity").values - equity)
        equity = result.infos.column("equity").values


def test_envs_that_begin_instead_of_acting_are_not_among_those_rewarded() -> None:
    seen: list[list[int]] = []

    def watched(state: PortfolioState) -> Floats:
        seen.append(state.ids.tolist())
        assert len(state) == len(state.equity) == len(state.weights) == len(state.ids)
        return state.pnl

    vec = vector(4, reward=watched, autoreset="next_step")
    vec.reset(seed=3)
    begins = np.zeros(4, np.bool_)
    for actions in plans(4, 20):
        result = vec.step(actions)
        # Not called when all envs begin.
        assert (seen.pop() if seen else []) == np.flatnonzero(~begins).tolist()
        begins = result.dones


def test_a_function_is_not_asked_when_all_envs_begin() -> None:
    def largest(state: PortfolioState) -> Floats:
        behind: Floats = state.pnl - state.pnl.max()
        return behind

    vec = vector(2, reward=largest, autoreset="next_step", ruin=0.0)
    vec.reset(seed=0)
    dones = [vec.step(actions).dones.tolist() for actions in plans(2, 9)]

    assert dones == [[False, False]] * 6 + [[True, True]] + [[False, False]] * 2


def test_logs_have_the_rewards_that_were_given() -> None:
    vec = vector(3, reward=everything)
    vec.batch.keep_log(True)
    vec.reset(seed=0)
    given: list[list[float]] = [[], [], []]
    logged: list[list[float]] = [[], [], []]
    for number, actions in enumerate(plans(3, 30)):
        rewards = vec.step(actions).rewards
        for env in range(3):
            given[env].append(rewards[env])
        if number == 11:
            vec.clone(0, 2)
            given[2] = given[0].copy()
        if number in (11, 17, 29):
            for log in vec.batch.take_log():
                logged[log["env"]].extend(log["steps"][:, 1])

    assert logged == given
    vec.batch.keep_log(False)
    vec.step(actions)
    assert vec.batch.take_log() == []


def test_nobody_can_write_into_a_state() -> None:
    def greedy(state: PortfolioState) -> Floats:
        state.equity[:] = 1e9
        return state.pnl

    env = single(reward=greedy)
    env.reset(seed=0)

    with pytest.raises(ValueError, match="read-only"):
        env.step(np.array([0.0, 0.0, 0.0, 1.0]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.0, r"reward said must return numbers of shape \(3,\), one for each env, got 0.0"),
        (np.zeros((3, 1)), r"shape \(3,\).* got shape \(3, 1\)"),
        (np.zeros(4), r"shape \(3,\).* got shape \(4,\)"),
        (None, r"reward said must .*got None"),
        (["a", "b", "c"], r"reward said must .*got \['a', 'b', 'c'\]"),
        ([0.0, np.nan, 0.0], r"reward said must be finite, got nan for env 1"),
        ([0.0, 0.0, -np.inf], r"got -inf for env 2 in row \d+"),
    ],
)
def test_what_is_no_reward_is_refused_by_name(given: Any, message: str) -> None:
    def said(state: PortfolioState) -> Any:
        return given

    said.__qualname__ = "said"
    vec = vector(3, reward=said)
    vec.reset(seed=0)

    with pytest.raises(ValueError, match=message):
        vec.step(plans(3, 1)[0])


def test_after_a_failed_reward_all_envs_have_to_be_reset() -> None:
    fails = [True]

    def sometimes(state: PortfolioState) -> Floats:
        if fails[0]:
            raise KeyError("no such column")
        return state.pnl

    vec, actions = vector(3, reward=sometimes), plans(3, 1)[0]
    vec.reset(seed=0)
    with pytest.raises(KeyError, match="no such column"):
        vec.step(actions)
    fails[0] = False

    with pytest.raises(ResetRequired, match="sometimes failed after env 0 had moved"):
        vec.step(actions)
    vec.reset(ids=[0, 1])
    with pytest.raises(ResetRequired, match="after env 2 had moved"):
        vec.step(actions)
    vec.reset(ids=[2])

    assert vec.step(actions).rewards.shape == (3,)


def test_every_batch_has_a_memory_of_its_own() -> None:
    reward = Smooth()
    one, other = vector(3, reward=reward), vector(3, reward=reward)
    apart = vector(3, reward=Smooth())
    for vec in (one, other, apart):
        vec.reset(seed=0)
    for actions in plans(3, 12):
        one.step(actions)
        result, expected = other.step(actions), apart.step(actions)
        assert result.rewards.tobytes() == expected.rewards.tobytes()

    assert reward.sums.size == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_batch_remembers_what_its_reward_did(mode: Any) -> None:
    vec, other = (vector(3, reward=Smooth(), autoreset=mode) for _ in range(2))
    vec.reset(seed=0)
    for actions in plans(3, 4):
        vec.step(actions)
    other.load_state_dict(vec.state_dict())

    assert same(record(vec, seed=None), record(other, seed=None))


def test_a_cloned_env_is_rewarded_as_its_source() -> None:
    vec = vector(3, reward=Smooth())
    vec.reset(seed=0)
    moves = plans(3, 12)
    for actions in moves[:3]:
        vec.step(actions)
    vec.clone(0, 2)
    for actions in moves[3:]:
        actions[2] = actions[0]
        rewards = vec.step(actions).rewards
        assert rewards[2] == rewards[0] != rewards[1]


def test_a_memory_that_cannot_be_saved_or_branched_is_named() -> None:
    vec = vector(2, reward=Forgetful())
    vec.reset(seed=0)

    with pytest.raises(StateError, match=r"Forgetful is stateful.*add state_dict\(\)"):
        vec.state_dict()
    with pytest.raises(StateError, match=r"Forgetful is stateful.*add clone_env\(\)"):
        vec.clone(0, 1)


@pytest.mark.parametrize(
    ("own", "others"), [(growth, "return"), (growth, Smooth()), (Smooth(), growth)]
)
def test_the_state_of_another_kind_of_reward_is_refused_and_changes_nothing(
    own: Any, others: Any
) -> None:
    vec, other = vector(2, reward=own), vector(2, reward=others)
    vec.reset(seed=0)
    other.reset(seed=1)
    before = vec.state_dict()

    with pytest.raises(StateError):
        vec.load_state_dict(other.state_dict())

    assert same(vec.state_dict(), before)


def test_a_memory_that_is_refused_leaves_the_batch_as_it_was() -> None:
    vec = vector(2, reward=Smooth())
    vec.reset(seed=0)
    vec.step(plans(2, 1)[0])
    state = vec.state_dict()
    vec.step(plans(2, 1)[0])
    before = vec.state_dict()
    memory = {"sums": np.zeros(5), "counts": np.zeros(5)}
    state["envs"]["batch"]["reward"] = {"portfolio": memory}

    with pytest.raises(StateError, match="expected sums"):
        vec.load_state_dict(state)

    assert same(vec.state_dict(), before)
