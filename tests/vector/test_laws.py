"""Sync = Async = Proc, bit for bit, over random envs, spaces, modes and episode lengths."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sekai.core.result import equal_values
from sekai.vector import VecEnv
from tests.spaces.equality import identical
from tests.vector.worlds import SPACES, Drifter, actions_for, build

modes = st.sampled_from(["same_step", "next_step", "disabled"])
names = st.sampled_from(sorted(SPACES))
seeds = st.integers(0, 2**63)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    observes, acts = draw(names), draw(names)
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    return {
        "factories": [partial(Drifter, observes, acts, length) for length in lengths],
        "autoreset": draw(modes),
        "copy": draw(st.booleans()),
        "seed": draw(seeds),
        "reset_at": draw(st.integers(0, 14)),
    }


def record(backend: str, case: dict[str, Any], **options: Any) -> list[Any]:
    """All that an agent sees in some steps, with a partial reset among them."""
    options = {"autoreset": case["autoreset"], "copy": case["copy"], **options}
    with build(backend, case["factories"], **options) as vec:
        return list(_seen(vec, case))


def _seen(vec: VecEnv, case: dict[str, Any]) -> Any:
    yield _parts(vec.reset(seed=case["seed"]))
    for number, actions in enumerate(actions_for(vec, 14)):
        result = vec.step(actions)
        yield _parts(result)
        if vec.autoreset == "disabled" and result.dones.any():
            yield _parts(vec.reset(ids=result.dones))
        if number == case["reset_at"]:
            yield _parts(vec.reset(seed=number, ids=[vec.num_envs - 1]))


def _parts(result: Any) -> tuple[Any, ...]:
    copied = [_copied(getattr(result, name)) for name in result.__dataclass_fields__]
    return tuple(copied)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if hasattr(value, "dtype") else list(value)


@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_async_equals_sync(case: dict[str, Any]) -> None:
    assert identical(record("sync", case), record("async", case))


@pytest.mark.parametrize("workers", [1, 2, 5])
@given(case=cases())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_processes_equal_sync(workers: int, case: dict[str, Any]) -> None:
    assert identical(record("sync", case), record("proc", case, num_workers=workers))


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
@given(case=cases())
@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_processes_equal_sync_however_they_begin(start_method: str, case: dict[str, Any]) -> None:
    assert identical(record("sync", case), record("proc", case, start_method=start_method))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 2, 5])
@given(case=cases())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_processes_equal_sync_over_many_cases(
    start_method: str, workers: int, case: dict[str, Any]
) -> None:
    options = {"start_method": start_method, "num_workers": workers}
    assert identical(record("sync", case), record("proc", case, **options))


@given(case=cases(), count=st.integers(1, 4), backend=st.sampled_from(["sync", "async"]))
@settings(max_examples=30, deadline=None)
def test_an_env_does_not_know_how_many_others_there_are(
    case: dict[str, Any], count: int, backend: str
) -> None:
    case = {**case, "autoreset": "same_step", "reset_at": 99}
    few = {**case, "factories": case["factories"][:count]}

    for some, everyone in zip(record(backend, few), record(backend, case), strict=True):
        for part, whole in zip(some[1:], everyone[1:], strict=True):
            assert equal_values(list(part), list(whole[: len(few["factories"])]))
