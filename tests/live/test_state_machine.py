"""The state machine of a session: only listed transitions happen, and ends are final."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.state_machine import (
    TERMINAL_STATES,
    TRANSITIONS,
    Component,
    SessionState,
    SessionStateMachine,
    Trigger,
)

STATES: tuple[SessionState, ...] = get_args(SessionState)
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
COMPONENTS: tuple[Component, ...] = get_args(Component)
MOST_TRIGGERS = 6

sequences = st.lists(st.tuples(st.sampled_from(TRIGGERS), st.sampled_from(COMPONENTS)), max_size=30)
allowed_sequences = st.lists(st.sampled_from(TRIGGERS), max_size=30)


def test_every_trigger_has_one_transition() -> None:
    assert set(TRANSITIONS) == set(TRIGGERS)
    assert {transition.by for transition in TRANSITIONS.values()} == set(COMPONENTS)
    for transition in TRANSITIONS.values():
        assert (transition.target is None) == (transition.resumes is not None)
        assert not TERMINAL_STATES & set(transition.sources)


@given(sequences)
def test_only_listed_transitions_happen(sequence: list[tuple[Trigger, Component]]) -> None:
    machine = SessionStateMachine()
    interrupted: dict[Trigger, SessionState] = {}
    for trigger, component in sequence:
        before, reason = machine.state, machine.reason
        transition = TRANSITIONS[trigger]
        is_listed = (
            component == transition.by
            and before in transition.sources
            and (transition.resumes is None or transition.resumes in interrupted)
        )
        assert machine.allows(trigger, by=component) == is_listed
        if not is_listed:
            with pytest.raises(RuntimeError, match="is not allowed in state"):
                machine.fire(trigger, by=component, reason="x")
            assert (machine.state, machine.reason) == (before, reason)
            continue
        machine.fire(trigger, by=component, reason="x")
        if transition.resumes is None:
            interrupted[trigger] = before
            assert (machine.state, machine.reason) == (transition.target, "x")
        else:
            assert machine.state == interrupted.pop(transition.resumes)


@given(allowed_sequences, sequences)
def test_terminal_states_stay_terminal(
    triggers: list[Trigger], sequence: list[tuple[Trigger, Component]]
) -> None:
    machine = machine_after(triggers)
    if not machine.is_terminal:
        machine.fire("fail", by="runner", reason="error")
    end = machine.state, machine.reason

    for trigger, component in sequence:
        assert not machine.allows(trigger, by=component)

    assert machine.state in TERMINAL_STATES
    assert (machine.state, machine.reason) == end


@given(allowed_sequences)
def test_a_session_that_has_not_ended_can_fail(triggers: list[Trigger]) -> None:
    machine = machine_after(triggers)

    assert machine.allows("fail", by="runner") != machine.is_terminal


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_reachable(state: SessionState) -> None:
    paths: list[tuple[Trigger, ...]] = [()]
    for _ in range(MOST_TRIGGERS):
        if any(machine_after(path).state == state for path in paths):
            return
        paths = [
            (*path, trigger)
            for path in paths
            for trigger in TRIGGERS
            if machine_after(path).allows(trigger, by=TRANSITIONS[trigger].by)
        ]
    pytest.fail(f"no path of {MOST_TRIGGERS} triggers leads to {state}")


def test_a_reconnected_broker_resumes_the_interrupted_state() -> None:
    machine = SessionStateMachine()
    machine.fire("start", by="runner")
    machine.fire("kill", by="runner", reason="by hand")
    machine.fire("broker_lost", by="execution", reason="no answer")

    machine.fire("broker_reconnected", by="execution")

    assert (machine.state, machine.reason) == ("killed", "by hand")
    machine.fire("release", by="runner")
    assert (machine.state, machine.reason) == ("trading", "")


def test_an_episode_that_is_over_is_not_resumed_by_a_release() -> None:
    machine = machine_after(["start", "kill", "episode_over"])

    assert machine.state == "halted"
    assert not machine.allows("release", by="runner")
    machine.fire("kill", by="runner")
    machine.fire("release", by="runner")
    assert machine.state == "halted"


def machine_after(triggers: list[Trigger] | tuple[Trigger, ...]) -> SessionStateMachine:
    """State machine after those of the triggers that were allowed."""
    machine = SessionStateMachine()
    for trigger in triggers:
        by = TRANSITIONS[trigger].by
        if machine.allows(trigger, by=by):
            machine.fire(trigger, by=by, reason=trigger)
    return machine
