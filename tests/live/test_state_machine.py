"""The state machine of a session: causes restrict trading independently, and ends are final."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.state_machine import (
    CAUSES,
    CauseName,
    Component,
    Lifecycle,
    SessionState,
    SessionStateMachine,
)

CAUSE_NAMES: tuple[CauseName, ...] = get_args(CauseName)
COMPONENTS: tuple[Component, ...] = get_args(Component)
LIFECYCLES: tuple[Lifecycle, ...] = get_args(Lifecycle)

changes = st.lists(st.tuples(st.sampled_from(CAUSE_NAMES), st.booleans()), max_size=30)


def test_every_cause_has_an_owner_and_a_level() -> None:
    assert set(CAUSES) == set(CAUSE_NAMES)
    assert {cause.by for cause in CAUSES.values()} <= set(COMPONENTS)


@given(changes)
def test_the_strictest_cause_decides_and_trading_resumes_with_the_last(
    sequence: list[tuple[CauseName, bool]],
) -> None:
    machine, held = running(), set[CauseName]()
    for name, is_raised in sequence:
        owner = CAUSES[name].by
        if is_raised:
            assert machine.raise_cause(name, owner, f"because of {name}") == (name not in held)
            held.add(name)
        else:
            assert machine.clear_cause(name, owner) == (name in held)
            held.discard(name)
        levels = {CAUSES[cause].level for cause in held}
        expected = "halted" if "halted" in levels else "reducing" if levels else "active"
        assert machine.trading_state == expected
        assert set(machine.causes) == held
        assert (machine.state == "trading") == (not held)
        assert (machine.state == "killed") == ("kill" in held)
        assert bool(machine.reason) == bool(held)


@pytest.mark.parametrize("name", CAUSE_NAMES)
def test_a_cause_belongs_to_one_component(name: CauseName) -> None:
    machine = running()

    for component in set(COMPONENTS) - {CAUSES[name].by}:
        with pytest.raises(RuntimeError, match="belongs to"):
            machine.raise_cause(name, component, "x")
        with pytest.raises(RuntimeError, match="belongs to"):
            machine.clear_cause(name, component)

    assert machine.state == "trading"


@given(st.lists(st.sampled_from(LIFECYCLES), max_size=10), changes)
def test_ends_are_final(sequence: list[Lifecycle], after: list[tuple[CauseName, bool]]) -> None:
    machine = SessionStateMachine()
    for lifecycle in sequence:
        before, was_terminal = machine.lifecycle, machine.is_terminal
        try:
            machine.advance(lifecycle, "x")
        except RuntimeError:
            assert machine.lifecycle == before
        else:
            assert not was_terminal
    if machine.lifecycle == "failed":
        for name, _ in after:
            machine.raise_cause(name, CAUSES[name].by, "x")
        assert machine.state == "failed"


def test_a_session_that_ends_while_killed_keeps_that_state() -> None:
    machine = running()
    machine.raise_cause("kill", "watchdog", "by hand")

    machine.advance("stopped", "the feed ended")

    assert (machine.state, machine.reason) == ("killed", "by hand")


def test_a_kill_is_shown_while_the_session_starts() -> None:
    machine = SessionStateMachine()

    machine.raise_cause("kill", "watchdog", "by hand")

    assert (machine.state, machine.lifecycle) == ("killed", "starting")


def test_every_state_is_reachable() -> None:
    states: set[SessionState] = {SessionStateMachine().state, running().state}
    for name in ("account_mismatch", "broker_lost", "kill"):
        machine = running()
        machine.raise_cause(name, CAUSES[name].by, "x")
        states.add(machine.state)
    for end in ("stopped", "failed"):
        machine = running()
        machine.advance(end, "x")
        states.add(machine.state)

    assert states == set(get_args(SessionState))


def running() -> SessionStateMachine:
    machine = SessionStateMachine()
    machine.advance("running")
    return machine
