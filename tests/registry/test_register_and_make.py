"""Registering environments by id and making them by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.error import (
    ClosedError,
    DuplicateEnvError,
    InvalidActionError,
    ResetRequired,
    UnknownEnvError,
)
from sekai.registry import EnvSpec, WrapperSpec, all_specs, make, register, spec
from sekai.spaces import Discrete
from sekai.wrappers import RecordEpisodeStatistics, TimeLimit
from tests.worlds import Duel, Market, RandomWalk


class Holder(Env[np.intp, np.intp]):
    """Keeps what it is given, and changes it."""

    closed = 0

    def __init__(self, table: Any = None, **options: Any) -> None:
        self.observation_space = self.action_space = Discrete(2)
        self.table = table
        self.options = options

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[np.intp]:
        self._set_rng(seed)
        return ResetResult(np.intp(0), {})

    def step(self, action: np.intp) -> StepResult[np.intp]:
        return StepResult(np.intp(0), 0.0, False, False, {})

    def close(self) -> None:
        type(self).closed += 1


class Refusing(Wrapper[Any, Any, Any, Any]):
    """A layer that cannot be put around anything."""

    def __init__(self, env: Env[Any, Any]) -> None:
        raise RuntimeError("not around this one")


def layer_names(env: Any) -> list[str]:
    return [type(layer).__name__ for layer in env]


def test_the_document_registers_makes_and_inspects() -> None:
    register(
        id="qc/PortfolioEnv-v1",
        entry_point="tests.worlds:Market",
        max_episode_steps=252,
        kwargs={"length": 50},
        reward_threshold=0.25,
    )

    assert make("qc/PortfolioEnv-v1").unwrapped.length == 50  # type: ignore[attr-defined]
    assert make("qc/PortfolioEnv-v1", length=100).unwrapped.length == 100  # type: ignore[attr-defined]
    found = spec("qc/PortfolioEnv-v1")
    assert (found.id, found.max_episode_steps, found.reward_threshold) == (
        "qc/PortfolioEnv-v1",
        252,
        0.25,
    )
    assert [(each.id, each.max_episode_steps) for each in all_specs()] == [
        ("qc/PortfolioEnv-v1", 252)
    ]


def test_the_document_registers_a_class_by_position() -> None:
    register("qc/Portfolio-v1", Market, max_episode_steps=252)

    env = make("qc/Portfolio-v1")

    assert type(env.unwrapped) is Market
    assert env.spec is not None
    assert (env.spec.namespace, env.spec.name, env.spec.version) == ("qc", "Portfolio", 1)


def test_the_layers_stand_in_their_order() -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=5, wrappers=[RecordEpisodeStatistics])

    names = layer_names(
        make("Walk-v0", wrappers=[WrapperSpec(TimeLimit, {"max_episode_steps": 2})])
    )

    assert names == [
        "TimeLimit",
        "RecordEpisodeStatistics",
        "TimeLimit",
        "OrderEnforcing",
        "ValidateAction",
        "RandomWalk",
    ]


def test_a_multi_agent_env_gets_the_counterparts() -> None:
    register("Duel-v0", Duel, max_episode_steps=3)

    assert layer_names(make("Duel-v0")) == [
        "MultiAgentTimeLimit",
        "MultiAgentOrderEnforcing",
        "MultiAgentValidateAction",
        "Duel",
    ]


def test_flags_switch_layers_off() -> None:
    register("Walk-v0", RandomWalk, order_enforce=False, validate_actions=False)

    assert layer_names(make("Walk-v0")) == ["RandomWalk"]


def test_a_made_env_refuses_bad_order_and_bad_actions() -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=1)
    env = make("Walk-v0")

    with pytest.raises(ResetRequired):
        env.step(np.zeros(2, dtype=np.float32))
    env.reset(seed=0)
    with pytest.raises(InvalidActionError):
        env.step(np.full(2, 9, dtype=np.float32))
    assert env.step(np.zeros(2, dtype=np.float32)).truncated
    env.close()
    with pytest.raises(ClosedError):
        env.reset()


@pytest.mark.parametrize(("limit", "steps"), [(3, 3), (None, None)])
def test_make_can_change_the_time_limit(limit: int | None, steps: int | None) -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=10)

    env = make("Walk-v0", max_episode_steps=limit)

    assert env.spec is not None
    assert env.spec.max_episode_steps == steps
    assert ("TimeLimit" in layer_names(env)) == (limit is not None)
    assert spec("Walk-v0").max_episode_steps == 10


def test_an_id_without_version_means_the_highest() -> None:
    for version, noise in ((2, 0.2), (10, 0.1), (9, 0.9)):
        register(f"qc/Walk-v{version}", RandomWalk, kwargs={"noise": noise})

    assert spec("qc/Walk").id == "qc/Walk-v10"
    assert make("qc/Walk").unwrapped.noise == 0.1  # type: ignore[attr-defined]


def test_an_env_registered_without_version_is_meant_itself() -> None:
    register("Walk-v3", RandomWalk)
    register("Walk", Market)

    assert spec("Walk").id == "Walk"


def test_registering_twice_is_refused_and_changes_nothing() -> None:
    register("Walk-v0", RandomWalk)

    with pytest.raises(DuplicateEnvError, match="'Walk-v0' is already registered"):
        register("Walk-v0", Market)

    assert spec("Walk-v0").entry_point is RandomWalk


def test_force_replaces() -> None:
    register("Walk-v0", RandomWalk)

    register("Walk-v0", Market, force=True)

    assert spec("Walk-v0").entry_point is Market


def test_specs_are_listed_in_order() -> None:
    for id in ("b/Walk-v0", "Walk-v10", "Walk-v2", "Market-v0"):
        register(id, RandomWalk)

    assert [each.id for each in all_specs()] == ["Market-v0", "Walk-v2", "Walk-v10", "b/Walk-v0"]


def test_nobody_can_change_the_registered_arguments() -> None:
    given = {"table": {"rows": [1, 2]}, "array": np.zeros(2)}
    register("Holder-v0", Holder, kwargs=given)

    given["table"]["rows"].append(3)  # type: ignore[index]
    made = make("Holder-v0").unwrapped
    assert isinstance(made, Holder)
    made.table["rows"].append(4)
    made.options["array"] += 1
    spec("Holder-v0").kwargs["table"]["rows"].append(5)
    all_specs()[0].kwargs["array"][:] = 7

    fresh = spec("Holder-v0").kwargs
    assert fresh["table"] == {"rows": [1, 2]}
    assert np.array_equal(fresh["array"], np.zeros(2))


def test_an_override_shares_no_container_with_the_caller_and_reaches_no_later_env() -> None:
    register("Holder-v0", Holder, kwargs={"table": {"rows": [1]}, "size": 1})
    mine = {"rows": [2]}

    made = make("Holder-v0", table=mine)
    assert isinstance(made.unwrapped, Holder)
    made.unwrapped.table["rows"].append(3)

    assert mine == {"rows": [2]}
    mine["rows"].append(9)
    assert made.spec is not None
    assert made.spec.kwargs == {"table": {"rows": [2]}, "size": 1}
    assert spec("Holder-v0").kwargs == {"table": {"rows": [1]}, "size": 1}


def test_an_override_hands_over_the_object_itself() -> None:
    register("Holder-v0", Holder)
    prices = np.arange(3.0)

    made = make("Holder-v0", table=[prices]).unwrapped

    assert isinstance(made, Holder)
    assert made.table[0] is prices


def test_an_argument_that_cannot_be_copied_is_refused_at_registration() -> None:
    generator = (number for number in range(3))

    with pytest.raises(ValueError, match="'table' of Holder-v0 cannot be copied"):
        register("Holder-v0", Holder, kwargs={"table": generator})

    assert all_specs() == []


def test_a_misspelt_argument_names_the_id_and_what_is_accepted() -> None:
    register("Walk-v0", RandomWalk)

    with pytest.raises(TypeError, match=r"Walk-v0 .*'nois'.* takes noise; did you mean 'noise'"):
        make("Walk-v0", nois=0.1)


def test_a_missing_argument_is_named() -> None:
    def needs_name(name: str) -> Env[Any, Any]:
        return Holder(name)

    register("Holder-v0", needs_name)

    with pytest.raises(TypeError, match="Holder-v0 cannot be made: missing a required argument"):
        make("Holder-v0")


def test_an_error_inside_the_constructor_stays_as_it_is() -> None:
    def breaks(**options: Any) -> Env[Any, Any]:
        raise TypeError("the file is not a table")

    register("Broken-v0", breaks)

    with pytest.raises(TypeError, match=r"^the file is not a table$"):
        make("Broken-v0", file="x")


def test_what_is_not_an_env_is_refused() -> None:
    register("List-v0", list)

    with pytest.raises(TypeError, match=r"List-v0 must return.*got \[\].*sekai\.compat"):
        make("List-v0")


def test_a_layer_that_fails_closes_the_env() -> None:
    before = Holder.closed
    register("Holder-v0", Holder, wrappers=[Refusing])

    with pytest.raises(RuntimeError, match="not around this one"):
        make("Holder-v0")

    assert Holder.closed == before + 1


def test_a_wrapper_that_returns_no_env_is_refused() -> None:
    register("Walk-v0", RandomWalk)

    with pytest.raises(TypeError, match=r"wrapper repr of Walk-v0 must return"):
        make("Walk-v0", wrappers=[repr])


def test_a_factory_may_return_a_stack() -> None:
    def limited() -> Env[Any, Any]:
        return TimeLimit(RandomWalk(), 4)

    register("Walk-v0", limited, max_episode_steps=9)

    env = make("Walk-v0")

    assert layer_names(env)[-2:] == ["TimeLimit", "RandomWalk"]
    assert env.spec is not None
    assert env.spec.wrappers == ()
    assert layer_names(make(env.spec)) == layer_names(env)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_episode_steps": 0}, "at least 1"),
        ({"max_episode_steps": 2.5}, "at least 1"),
        ({"max_episode_steps": True}, "at least 1"),
        ({"reward_threshold": "high"}, "must be a number"),
        ({"kwargs": [1]}, "must be a mapping of names"),
        ({"entry_point": "no colon"}, "must look like 'package.module:Class'"),
        ({"entry_point": 3}, "a callable or an import path"),
        ({"vector_entry_point": "no colon"}, "vector_entry_point must look like"),
        ({"id": "a b"}, "must look like"),
    ],
)
def test_a_bad_registration_says_what_was_wanted(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"id": "Walk-v0", "entry_point": RandomWalk, **change}

    with pytest.raises((ValueError, TypeError), match=message):
        register(**arguments)

    assert all_specs() == []


def test_an_unknown_id_suggests_near_misses_and_versions() -> None:
    register("qc/Portfolio-v1", RandomWalk)
    register("qc/Portfolio-v2", RandomWalk)

    with pytest.raises(UnknownEnvError, match="registered as qc/Portfolio-v1, qc/Portfolio-v2"):
        make("qc/Portfolio-v3")
    with pytest.raises(UnknownEnvError, match="did you mean 'qc/Portfolio-v"):
        make("qc/Portfolo-v1")
    with pytest.raises(UnknownEnvError, match=r"unknown namespace 'qd'; expected one of: qc"):
        make("qd/Portfolio-v1")
    with pytest.raises(UnknownEnvError, match="did you mean 'qc/Portfolio-v1'"):
        spec("Portfolio-v1")


def test_a_spec_makes_its_env_without_being_registered() -> None:
    unregistered = EnvSpec("Walk-v0", "tests.worlds:RandomWalk", kwargs={"noise": 0.25})

    env = unregistered.make(noise=0.5)

    assert env.unwrapped.noise == 0.5  # type: ignore[attr-defined]
    assert unregistered.kwargs == {"noise": 0.25}
    assert all_specs() == []


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("no_such_package.envs:Env", "no module named 'no_such_package'"),
        ("tests.no_such_module:Env", "no module named 'tests.no_such_module'"),
        ("tests.worlds:NoSuchEnv", "NoSuchEnv"),
    ],
)
def test_an_entry_point_that_is_not_there_says_so(entry_point: str, message: str) -> None:
    register("Walk-v0", entry_point)

    with pytest.raises(ImportError, match=message):
        make("Walk-v0")


def test_a_module_that_fails_tells_its_own_story(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import a_package_that_is_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    register("Walk-v0", "needs_more:Env")

    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'a_package_that_is_not_inst"):
        make("Walk-v0")
