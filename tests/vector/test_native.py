"""Native batches: the same contract, one call per step, straight into the caller's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.autoreset import Autoreset
from sekai.core.result import equal_values
from sekai.error import ClosedError, InvalidActionError, ResetRequired, StateError
from sekai.vector import NativeBatch, NativeVecEnv, StepBuffers, SyncVecEnv, stack_infos
from tests.spaces.equality import identical
from tests.vector.native_batch import Lottery, LotteryBatch, lottery_vector
from tests.vector.worlds import actions_for

MODES = ["same_step", "next_step", "disabled"]


def test_the_reference_batch_fulfils_the_protocol() -> None:
    assert isinstance(LotteryBatch(2), NativeBatch)


def parts(result: Any) -> tuple[Any, ...]:
    *arrays, infos = (getattr(result, name) for name in result.__dataclass_fields__)
    return (*(array.copy() for array in arrays), list(infos))


def record(vec: Any) -> list[Any]:
    seen = [parts(vec.reset(seed=3))]
    for number, actions in enumerate(actions_for(vec, 30)):
        result = vec.step(np.array(actions))
        seen.append(parts(result))
        if vec.autoreset == "disabled" and result.dones.any():
            seen.append(parts(vec.reset(ids=result.dones)))
        if number == 9:
            seen.append(parts(vec.reset(seed=[5, None], ids=[2, 0])))
    return seen


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_equals_its_single_envs_bit_for_bit(mode: Any, copy: bool) -> None:
    single = SyncVecEnv([Lottery] * 4, autoreset=mode)

    assert identical(record(lottery_vector(4, autoreset=mode, copy=copy)), record(single))


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_batch_continues_bit_for_bit(mode: Any) -> None:
    vec = lottery_vector(3, autoreset=mode)
    vec.reset(seed=0)
    for actions in actions_for(vec, 4):
        if vec.step(actions).dones.any() and mode == "disabled":
            vec.reset()
    state = vec.state_dict()
    expected = record(vec)
    vec.load_state_dict(state)

    assert identical(record(vec), expected)
    with pytest.raises(StateError):
        lottery_vector(4, autoreset=mode).load_state_dict(state)
    of_single_envs = SyncVecEnv([Lottery] * 3, autoreset=mode).state_dict()
    with pytest.raises(StateError, match="the state of a native batch"):
        vec.load_state_dict(of_single_envs)


def test_results_do_not_change_when_the_batch_goes_on() -> None:
    vec = lottery_vector(4)
    vec.reset(seed=0)
    results = [vec.step([0] * 4) for _ in range(12)]
    copies = [result.observations.copy() for result in results]
    finals = [dict(enumerate(map(str, result.infos))) for result in results]
    for _ in range(12):
        vec.step([1] * 4)

    for result, copy, final in zip(results, copies, finals, strict=True):
        assert np.array_equal(result.observations, copy)
        assert dict(enumerate(map(str, result.infos))) == final


def test_without_copies_two_results_take_turns() -> None:
    vec = lottery_vector(4, copy=False)
    vec.reset(seed=0)
    first, second, third = (vec.step([0] * 4).observations for _ in range(3))

    assert first is third
    assert not np.shares_memory(first, second)


def test_the_batch_writes_straight_into_the_callers_storage() -> None:
    vec = lottery_vector(4)
    other = lottery_vector(4)
    storage = np.zeros((20, 4, 2), np.float32)
    rewards, flags = np.zeros((20, 4)), np.zeros((2, 20, 4), np.bool_)
    finals = np.zeros((20, 4, 2), np.float32)
    vec.reset(seed=1)
    other.reset(seed=1)
    for row in range(20):
        out = StepBuffers(storage[row], rewards[row], flags[0, row], flags[1, row], finals[row])
        result = vec.step([1] * 4, out=out)
        expected = other.step([1] * 4)

        assert result.observations is out.observations
        assert result == expected
        for index in np.flatnonzero(expected.dones).tolist():
            last = expected.infos[index]["final_observation"]
            assert np.array_equal(finals[row, index], last)
    assert flags.any()


def test_columns_of_infos_need_no_dicts() -> None:
    vec = lottery_vector(1000)
    vec.reset(seed=0)
    infos: Any = vec.step([1] * 1000).infos

    assert np.array_equal(stack_infos(infos)["drawn"], vec.batch.drawn)  # type: ignore[attr-defined]
    ended = infos.column("final_info")
    assert set(ended.values[0]) == {"drawn"}
    assert [info["drawn"] for info in ended.values[:2]] == [1, 1]
    assert infos._built is None


def test_what_only_the_end_of_an_episode_says_is_a_column_of_its_own() -> None:
    class Telling(LotteryBatch):
        def final_infos(self) -> dict[str, Any]:
            masks = np.ones((self.num_envs, 2), np.int8)
            return {**super().final_infos(), "total": 10 * self.ended, "action_mask": masks}

    source = lottery_vector(1)
    vec = NativeVecEnv(Telling(1000), source.observation_space, source.action_space)
    vec.reset(seed=0)
    result = vec.step([1] * 1000)
    infos: Any = result.infos

    ended = np.flatnonzero(result.dones)
    assert 0 < len(ended) < 1000
    assert infos.column("total").indices.tolist() == ended.tolist()
    assert infos.column("total").values.tolist() == [10] * len(ended)
    assert infos.column("action_mask").indices.tolist() == []
    assert np.array_equal(stack_infos(infos, np.nan)["total"][ended], [10.0] * len(ended))
    assert infos._built is None
    first = infos[int(ended[0])]
    assert (first["drawn"], first["total"], first["final_info"]["drawn"]) == (0, 10, 1)


def test_the_contract_holds_for_batches_too() -> None:
    vec = lottery_vector(3, autoreset="disabled")
    with pytest.raises(ResetRequired):
        vec.step([0] * 3)
    vec.reset(seed=0)
    before = vec.state_dict()
    with pytest.raises(InvalidActionError, match="expected 3 actions"):
        vec.step([0] * 4)
    assert equal_values(vec.state_dict(), before)
    while not (result := vec.step([0] * 3)).dones.any():
        pass
    with pytest.raises(ResetRequired, match="are over"):
        vec.step([0] * 3)
    assert vec.get_attr("num_envs") == [3, 3, 3]
    assert np.array_equal(vec.get_attr("drawn"), [info["drawn"] for info in result.infos])
    vec.set_attr("name", "lottery")
    assert vec.get_attr("name") == ["lottery"] * 3
    assert len(vec.call("infos")) == 3
    vec.close()
    vec.close()
    with pytest.raises(ClosedError):
        vec.step([0] * 3)


def test_closing_a_vector_closes_its_batch() -> None:
    closed = []

    class Closing(LotteryBatch):
        def close(self) -> None:
            closed.append(True)

    source = lottery_vector(1)
    NativeVecEnv(Closing(1), source.observation_space, source.action_space).close()

    assert closed == [True]


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_a_clone_goes_the_way_of_what_it_was_cloned_from(autoreset: Autoreset) -> None:
    vector = lottery_vector(4, autoreset=autoreset)
    vector.reset(seed=0)
    for _ in range(3):
        vector.step(np.zeros(4, np.int64))

    vector.clone(1, 3)

    for _ in range(20):
        result = vector.step(np.zeros(4, np.int64))
        assert np.array_equal(result.observations[1], result.observations[3])
        assert result.rewards[1] == result.rewards[3]
