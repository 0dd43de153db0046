"""Look-ahead check: replay episodes on data with a changed future and compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from itertools import takewhile
from typing import Any

import numpy as np

from sekai.utils.findings import (
    CheckStopped,
    Report,
    ValueDifference,
    field_differences,
    first_difference,
)
from sekai.utils.perturbation import (
    KINDS,
    DataClock,
    DataRefused,
    PerturbedRuns,
    TimedEvent,
    learned_state,
    missing_times,
)

FILL_KEYS = ("fill", "fills", "fill_price", "fill_prices", "executed_price", "executed_prices")
"""Info keys of executed prices."""


def check_causal(
    env_factory: Callable[[Any], Any],
    data: Any,
    n_steps: int = 64,
    *,
    time_of: Callable[[Any, Any], Any] | None = None,
    first_time: int = 0,
    seed: int = 0,
    n_episodes: int = 2,
    max_cuts: int = 16,
    kinds: Collection[str] = tuple(KINDS),
    fixed: Collection[str] = (),
    fill_keys: Collection[str] = FILL_KEYS,
    allow_known_fills: bool = False,
    state_of: Callable[[Any], Any] = learned_state,
) -> list[str]:
    """Find look-ahead: results of `env_factory(data)` that depend on later data.

    Episodes are played with random actions, and replayed with the same seed and actions on data
    that differs after some time t. Up to t everything must be equal, bit for bit: observation,
    action mask, executed price, reward, end of episode, and the state of normalizers.

    Args:
        env_factory: creates an env from data of the type of `data`.
        data: array whose first axis is time, a `Stamped`, a mapping, tuple, list or frame of them,
            or an object with `perturb_after(time, rng)`.
        n_steps: maximum number of steps per episode.
        time_of: `time_of(env, result)` returns the time of the latest data that a result may use.
            Without it, `info["time_index"]` is used, or else the steps since the reset are counted.
        first_time: time of a reset if steps are counted: `lookback - 1` for an env whose first
            observation has `lookback` rows.
        seed: seed of the first episode.
        n_episodes: number of episodes, each with its own seed.
        max_cuts: number of times t per episode, and as many again next to missing values.
        kinds: perturbations of the future: `scaled`, `noise`, `reversed`, and optionally
            `truncated` (for envs that do not show how much time is left).
        fixed: names in mappings and frames that are not perturbed, such as timestamps.
        fill_keys: info keys of executed prices.
        allow_known_fills: allow fills at prices seen before the decision.
        state_of: returns what the env has learned; by default every part with a `state_dict`.

    Returns:
        Findings, as `check_env` returns them; an empty list if there are none.
    """
    report = Report()
    clock = DataClock(time_of, first_time)
    runs = PerturbedRuns(
        env_factory=env_factory,
        data=data,
        clock=clock,
        observe=state_of,
        kinds=kinds,
        fixed=fixed,
        seed=seed,
    )
    foresight = LookAheadCheck(runs, report, fill_keys)
    unknown = sorted(set(kinds) - {*KINDS, "truncated"})
    if unknown or not kinds:
        raise ValueError(
            f"kinds must be a non-empty subset of {[*KINDS, 'truncated']}, got {list(kinds)}"
        )

    def examine() -> None:
        for episode_seed in range(seed, seed + n_episodes):
            moments = runs.recorded(episode_seed, n_steps)
            _require_repeatable(runs, moments)
            _check_use(runs, report, moments)
            for time, kind in itertools.product(_cuts(runs, moments, max_cuts), kinds):
                foresight.check(moments, time, kind)
            if not allow_known_fills:
                check_fills(runs, report, moments, fill_keys)

    report.guarded(examine)
    return report.lines()


def _require_repeatable(runs: PerturbedRuns, moments: list[TimedEvent]) -> None:
    with closing(runs.repeated(moments)) as repeats:
        effect = _first_effect(moments, repeats)
    if effect is not None:
        raise CheckStopped(
            f"the same data, seed and actions gave different results when repeated ({effect}), so "
            f"look-ahead cannot be checked"
        )


def _check_use(runs: PerturbedRuns, report: Report, moments: list[TimedEvent]) -> None:
    """Warn if the env rejects perturbed data, or ignores it."""
    answers = [_answer(runs, moments, kind) for kind in runs.kinds]
    if "" in answers:
        return
    if None in answers:
        report.warn(
            "unused",
            f"look-ahead not checked: no result of {len(moments) - 1} steps depends on data after "
            f"time {moments[0].time}; does env_factory use its data?",
        )
    else:
        report.warn("refused", f"look-ahead not checked: env rejects perturbed data: {answers[0]}")


def _answer(runs: PerturbedRuns, moments: list[TimedEvent], kind: str) -> str | None:
    """Return None if perturbed data has no effect, the reason if it is rejected, otherwise ""."""
    try:
        with closing(runs.changed(moments, moments[0].time, kind)) as repeats:
            return None if _first_effect(moments, repeats) is None else ""
    except DataRefused as refused:
        return str(refused)
    except CheckStopped:
        return ""


def _first_effect(moments: list[TimedEvent], repeats: Iterable[TimedEvent]) -> str | None:
    for moment, again in zip(moments, repeats, strict=True):
        for difference in field_differences(moment.event.values, again.event.values):
            if difference.path[0] != "info":
                return f"at {moment.event.label} {difference.sentence()}"
    return None


def _cuts(runs: PerturbedRuns, moments: list[TimedEvent], max_cuts: int) -> list[Any]:
    """Times after which the data is perturbed: spread over the episode, and next to gaps."""
    times = sorted({moment.time for moment in moments if runs.has_future(moment.time)})
    gaps = missing_times(runs.data)
    return sorted({*_spread(times, max_cuts), *_spread([t for t in times if t in gaps], max_cuts)})


def _spread(times: list[Any], count: int) -> list[Any]:
    if len(times) <= count:
        return times
    return [times[index] for index in np.linspace(0, len(times) - 1, count).astype(int).tolist()]


TOPICS = {
    "observation": "observation",
    "observations": "observation",
    "reward": "reward",
    "rewards": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
    "state": "normalizer state",
}
"""Topic of a difference by the field in which it occurs."""


class LookAheadCheck:
    """Check for results that depend on later data."""

    def __init__(self, runs: PerturbedRuns, report: Report, fill_keys: Collection[str]) -> None:
        self._runs = runs
        self._report = report
        self._fill_keys = set(fill_keys)

    def check(self, moments: list[TimedEvent], time: Any, kind: str) -> None:
        """Perturb the data after `time`, and compare the episode up to `time`."""
        # After `time` differences are legitimate.
        past = list(takewhile(lambda moment: moment.time <= time, moments))
        try:
            with closing(self._runs.changed(past, time, kind)) as repeats:
                for moment, again in zip(past, repeats, strict=True):
                    self._compare(moment, again, time, kind)
        except DataRefused:
            pass
        except CheckStopped as stopped:
            # Truncated data may end the episode early.
            if kind != "truncated":
                self._report.error(
                    "raised",
                    f"perturbed data after time {time} ({kind}) changed earlier steps: {stopped}",
                )

    def _compare(self, moment: TimedEvent, again: TimedEvent, time: Any, kind: str) -> None:
        before = {**moment.event.values, "state": moment.state}
        after = {**again.event.values, "state": again.state}
        for difference in field_differences(before, after):
            if kind == "truncated" and difference.path[0] in ("terminated", "truncated"):
                continue
            topic = self._topic(difference)
            add = self._report.warn if topic == "info" else self._report.error
            add(
                topic,
                f"{topic} at {moment.event.label} depends on data after time {time}: "
                + difference.sentence("is", f"and with {kind} data after it")
                + self._hint(moment),
            )

    def _topic(self, difference: ValueDifference) -> str:
        if difference.path[0] != "info":
            return TOPICS[difference.path[0]]
        if "action_mask" in difference.path:
            return "action mask"
        return "executed price" if self._fill_keys & set(difference.path[1:3]) else "info"

    def _hint(self, moment: TimedEvent) -> str:
        if not (self._runs.clock.is_counting and moment.event.is_reset):
            return ""
        return (
            f" (a reset is assumed to use data up to time {moment.time}; if it may use more, pass "
            f"first_time or time_of, or set info['time_index'])"
        )


MAX_FILLS = 8
"""Maximum number of fills checked per episode."""

MIN_FILLS = 2
"""Number of suspicious fills that is reported; a single one may be chance."""


def check_fills(
    runs: PerturbedRuns, report: Report, moments: list[TimedEvent], fill_keys: Collection[str]
) -> None:
    """Report fills at prices that were known at the decision.

    A fill at the close that the agent has just seen does not depend on the future, so perturbing
    the future does not reveal it. It is a fill that the future cannot change and the last bar
    before the decision can. A resting order differs: the future decides whether it is filled at
    all.
    """
    suspects = []
    for number in _filled(moments, fill_keys)[:MAX_FILLS]:
        decision = moments[number - 1]
        if _is_changed(runs, moments, number, decision.time, fill_keys):
            return
        if _is_changed(runs, moments, number, moments[number - 2].time, fill_keys):
            suspects.append(number)
    if len(suspects) >= MIN_FILLS:
        fill, decision = moments[suspects[0]], moments[suspects[0] - 1]
        report.error(
            "fill",
            f"executed price at {fill.event.label} was known when the decision was made: "
            f"{fills_of(fill, fill_keys)} follows from data up to time {decision.time}, which the "
            f"agent had seen; fill on later data, or pass allow_known_fills=True",
        )


def fills_of(moment: TimedEvent, fill_keys: Collection[str]) -> dict[str, Any]:
    """Return the executed prices in `info`."""
    info = moment.event.values["info"]
    infos = [info, *(part for part in info.values() if isinstance(part, dict))]
    return {key: part[key] for part in infos for key in fill_keys if key in part}


def _filled(moments: list[TimedEvent], fill_keys: Collection[str]) -> list[int]:
    """Indices of events with a fill that have two decisions before them."""
    return [
        number
        for number, moment in enumerate(moments)
        if number >= 2 and any(map(_is_fill, fills_of(moment, fill_keys).values()))
    ]


def _is_fill(value: Any) -> bool:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        # Custom records: any non-empty one is a fill.
        return bool(value)
    return bool((np.isfinite(numbers) & (numbers != 0)).any())


def _is_changed(
    runs: PerturbedRuns,
    moments: list[TimedEvent],
    number: int,
    time: Any,
    fill_keys: Collection[str],
) -> bool:
    """Return True if another future after `time` changes the fill at `number`."""
    expected = fills_of(moments[number], fill_keys)
    for kind in runs.kinds:
        try:
            with closing(runs.changed(moments[: number + 1], time, kind)) as repeats:
                last = list(repeats)[-1]
        except (DataRefused, CheckStopped):
            continue
        if first_difference(expected, fills_of(last, fill_keys)) is not None:
            return True
    return False
