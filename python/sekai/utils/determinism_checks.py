"""Checks of determinism: seeding, saved state, call order, aliasing and async methods."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.sync_async import run_coroutine
from sekai.core.wrapper import BaseWrapper
from sekai.error import SekaiError, StateError
from sekai.spaces import Space
from sekai.utils.findings import (
    CheckStopped,
    deep_copy,
    describe_error,
    fields_of,
    first_difference,
    overwrite,
    stopping,
)
from sekai.utils.rollout import (
    CheckRun,
    Event,
    RunComparison,
    compare_runs,
    play,
    replay,
    replay_async,
)

OTHER_SEEDS = 4
"""Number of other seeds that are tried to see an effect of the seed."""

SHORT_STEPS = 20
"""Number of equal steps after which two episodes count as equal."""


def check_same_seed(run: CheckRun) -> bool:
    """Check that the same seed and actions give the same results; return True if they do."""
    before = global_states()
    comparison = compare_runs(run.events, replay(run.checked, run.events))
    moved = first_difference(before, global_states())
    if moved is not None:
        run.report.error(
            "global",
            f"env draws from the process-wide generator {moved.path[0]}; draw from self.rng",
        )
    _report_difference(run, comparison)
    return comparison.hard is None


def check_other_seeds(run: CheckRun) -> bool:
    """Check that a random env differs between seeds; return True if it does.

    An env counts as random if a generator that it holds has been used, or if its metadata has
    `"stochastic": True`; `"stochastic": False` is trusted.
    """
    declared = run.env.metadata.get("stochastic")
    watch = RngWatch(run.env)
    # Envs that say that they are random may have few outcomes.
    count = OTHER_SEEDS * (4 if declared else 1)
    seeds = range(run.seed + 1, run.seed + 1 + count)
    for seed in seeds:
        if not _is_same(run, seed, watch):
            return True
    is_random = watch.has_drawn if declared is None else bool(declared)
    if is_random:
        run.report.error(
            "seed",
            f"env is random and ignores its seed: the seeds {run.seed} to {seeds[-1]} "
            f"gave the same {run.n_steps} steps; call self._set_rng(seed) in reset() and "
            f'draw from self.rng (or say metadata = {{"stochastic": False}})',
        )
    return False


def check_unseeded(run: CheckRun) -> None:
    """Check that `reset()` without a seed starts different episodes, if seeds matter."""
    checked = run.checked
    n_steps = min(SHORT_STEPS, run.n_steps)
    episodes = []
    for _ in range(2):
        events = islice(play(checked, None, n_steps), n_steps + 1)
        episodes.append(list(events))
    comparison = compare_runs(episodes[0], iter(episodes[1]))
    seeded = list(play(checked, run.seed, n_steps))
    other = compare_runs(seeded, play(checked, run.seed + 1, n_steps))
    if comparison.hard is None and other.hard is not None:
        run.report.warn(
            "unseeded",
            "reset() without a seed starts the same episode every time; self._set_rng(None) "
            "continues the generator",
        )


def _is_same(run: CheckRun, seed: int, watch: RngWatch) -> bool:
    comparison = compare_runs(
        run.events, play(run.checked, seed, run.n_steps), after=lambda _: watch.look()
    )
    watch.look()
    return comparison.hard is None and comparison.soft is None


def _report_difference(run: CheckRun, comparison: RunComparison) -> None:
    label = f"reset(seed={run.seed})"
    if comparison.hard is not None and comparison.hard.startswith(f"at {label} "):
        run.report.error(
            "same seed",
            f"{label} is not deterministic, env ignores its seed: {comparison.hard}; call "
            f"self._set_rng(seed) in reset() and draw from self.rng only",
        )
    elif comparison.hard is not None:
        run.report.error(
            "same seed",
            f"the same seed and actions gave different results the second time: "
            f"{comparison.hard}; draw from self.rng only, and reset everything in reset()",
        )
    elif comparison.soft is not None:
        run.report.warn(
            "same info", f"the same seed and actions gave a different info: {comparison.soft}"
        )


class RngWatch:
    """Detects use of the random generators that an env holds."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._first: dict[str, Any] = {}
        self._moved = False
        self.look()

    @property
    def has_drawn(self) -> bool:
        """True if a draw has been detected."""
        return self._moved

    def look(self) -> None:
        """Compare the generators with their first known state."""
        for name, stream in _streams(self._env):
            if isinstance(stream, np.random.Generator):
                self._moved = self._moved or _is_past_its_seed(stream)
                continue
            state = _state(stream)
            before = self._first.setdefault(name, state)
            self._moved = self._moved or first_difference(before, state) is not None


def global_states() -> dict[str, Any]:
    """Return the states of the process-wide random generators."""
    return {"numpy.random": _state(np.random.mtrand._rand), "random": random.getstate()}


def _streams(env: Any) -> Iterator[tuple[str, Any]]:
    for depth, layer in enumerate(env):
        for name, value in list(vars(layer).items()):
            for key, stream in _streams_in(value):
                yield f"{depth}.{name}{key}", stream


def _streams_in(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        yield "", value
    elif isinstance(value, Space):
        if value._rng is not None:
            yield ".rng", value._rng
        for key, child in value.children().items():
            yield from ((f".{key}{inner}", stream) for inner, stream in _streams_in(child))
    elif isinstance(value, (dict, list, tuple)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            if isinstance(part, (np.random.Generator, np.random.RandomState, Space)):
                yield from ((f".{key}{inner}", stream) for inner, stream in _streams_in(part))


def _is_past_its_seed(generator: np.random.Generator) -> bool:
    bits = generator.bit_generator
    seed_sequence = getattr(bits, "seed_seq", None)
    if seed_sequence is None:
        return True
    fresh = type(bits)(seed_sequence)
    return first_difference(fresh.state, bits.state) is not None


def _state(stream: Any) -> Any:
    if isinstance(stream, random.Random):
        return stream.getstate()
    return stream.get_state(legacy=False)


def check_state(run: CheckRun) -> None:
    """Check that a state saved in mid-episode restores the env, repeatedly."""
    head, tail = _halves(run.events)
    for _ in replay(run.checked, head):
        pass
    state = _saved(run)
    if state is None:
        return
    for _ in replay(run.checked, tail, rewind=False):
        pass
    # The second time shows whether loading modifies the state dict.
    for time in ("", " a second time"):
        _load(run, state, time)
        comparison = compare_runs(tail, replay(run.checked, tail, rewind=False))
        if comparison.hard is not None or comparison.soft is not None:
            run.report.error(
                "restored",
                f"env does not continue as before after load_state_dict(state){time}: "
                f"{comparison.hard or comparison.soft}; the state was taken after {head[-1].label}",
            )
            return


def _halves(events: list[Event]) -> tuple[list[Event], list[Event]]:
    """Split a run in the middle of an episode if possible."""
    middle = len(events) // 2
    indices = sorted(range(1, len(events)), key=lambda index: abs(index - middle))
    cut = next((index for index in indices if not events[index - 1].ends_episode), middle)
    return events[:cut], events[cut:]


def _saved(run: CheckRun) -> Any:
    try:
        return run.env.state_dict()
    except StateError as error:
        run.report.warn("state", f"env cannot be saved: {error}")
    except Exception as error:
        run.report.error("state", f"state_dict() raised {describe_error(error)}")
    return None


def _load(run: CheckRun, state: Any, time: str) -> None:
    try:
        run.env.load_state_dict(state)
    except Exception as error:
        raise CheckStopped(
            f"load_state_dict(state){time} raised {describe_error(error)} for the env's own state"
        ) from error


def check_options(run: CheckRun) -> None:
    """Check that `reset` accepts options, and neither seed nor options."""
    run.checked.reset(seed=run.seed, options={})
    run.checked.reset(options=None)


def check_step_after_end(run: CheckRun) -> None:
    """Check that a step after the end of an episode works or raises a `SekaiError`."""
    ends = [number for number, event in enumerate(run.events) if event.ends_episode]
    if not ends:
        return
    events = run.events[: ends[0] + 1]
    for _ in replay(run.checked, events):
        pass
    _expect_words(
        run,
        "step() after the end of an episode",
        lambda: run.env.step(deep_copy(events[-1].action)),
    )


def check_close(run: CheckRun) -> None:
    """Check that `close` may be called twice, and that later calls work or raise a `SekaiError`.

    A copy of the env is closed: the caller may want to use the env afterwards.
    """
    if not any(map(_has_own_close, run.env)):
        return
    try:
        doomed = copy.deepcopy(run.env)
    except Exception:
        # The env cannot be copied, and must not be closed itself.
        return
    for call in ("close()", "close() a second time"):
        with stopping(call):
            doomed.close()
    step = next(event for event in run.events if not event.is_reset)
    _expect_words(run, "step() after close()", lambda: doomed.step(deep_copy(step.action)))


def _expect_words(run: CheckRun, moment: str, call: Callable[[], object]) -> None:
    try:
        call()
    except (SekaiError, Warning):
        # A warning raised as an error counts as a clear message.
        pass
    except Exception as error:
        run.report.warn(
            moment,
            f"{moment} raised {describe_error(error)}; raise sekai.error.ResetRequired or "
            f"ClosedError instead (the wrapper OrderEnforcing does)",
        )


def _has_own_close(layer: Any) -> bool:
    return type(layer).close not in (Env.close, BaseWrapper.close, MultiAgentEnv.close)


def check_results_unchanged(run: CheckRun) -> None:
    """Check that later calls do not overwrite earlier results."""
    for event in run.events:
        difference = first_difference(event.values, fields_of(event.result))
        if difference is not None:
            run.report.error(
                "overwritten",
                f"result of {event.label} was changed by a later call ({difference.sentence()}); "
                f"return a copy instead of a buffer that is overwritten",
            )


def check_aliasing(run: CheckRun) -> None:
    """Check that writing to results, or to actions after the step, does not affect the env."""
    trials: list[tuple[str, Callable[[Event], object]]] = [
        ("observation", lambda event: overwrite(_observations(event))),
        ("info", lambda event: overwrite(fields_of(event.result)["info"])),
    ]
    for name, write in trials:
        sentence = _first_effect(run, write)
        if sentence is not None:
            report = run.report.error if name == "observation" else run.report.warn
            report(
                f"alias {name}",
                f"writing to a returned {name} changes the env ({sentence}); return "
                f"a copy, or a read-only array",
            )
    sentence = _effect_of_actions(run)
    if sentence is not None:
        run.report.error(
            "alias action",
            f"writing to an action after step() changes the env ({sentence}); keep a copy of it",
        )


def _observations(event: Event) -> object:
    fields = fields_of(event.result)
    return fields.get("observation", fields.get("observations"))


def _first_effect(run: CheckRun, write: Callable[[Event], object]) -> str | None:
    """Return the first difference of a run whose results are overwritten, or None."""
    try:
        repeated = replay(run.checked, run.events)
        comparison = compare_runs(run.events, repeated, after=write)
    except CheckStopped as stopped:
        return str(stopped)
    return comparison.hard or comparison.soft


def _effect_of_actions(run: CheckRun) -> str | None:
    passed: list[object] = []

    def lent(events: list[Event]) -> Iterator[Event]:
        for event in events:
            passed.append(deep_copy(event.action))
            yield dataclasses.replace(event, action=passed[-1])

    try:
        repeated = replay(run.checked, lent(run.events), copies=False)
        comparison = compare_runs(run.events, repeated, after=lambda _: overwrite(passed[-1]))
    except CheckStopped as stopped:
        return str(stopped)
    return comparison.hard or comparison.soft


def check_async_path(run: CheckRun) -> None:
    """Check that `async_reset` and `async_step` return what `reset` and `step` return."""
    comparison = run_coroutine(_compared(run))
    if comparison.hard is not None:
        run.report.error("async", f"async methods disagree with sync methods: {comparison.hard}")
    elif comparison.soft is not None:
        run.report.warn(
            "async info",
            f"async methods return a different info than sync methods: {comparison.soft}",
        )


async def _compared(run: CheckRun) -> RunComparison:
    comparison = RunComparison()
    recorded = iter(run.events)
    async for event in replay_async(run.checked, run.events):
        if not comparison.add(next(recorded), event):
            break
    return comparison
