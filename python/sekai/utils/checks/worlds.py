"""Builds an env again and again, on data whose future differs."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sekai.utils.checks.moments import Clock, Moment, record, repeat
from sekai.utils.checks.report import CheckStopped, described
from sekai.utils.checks.subject import Subject, subject_of
from sekai.utils.perturbation import last_time, perturbed

__all__ = ["Refused", "Worlds"]


class Refused(Exception):  # noqa: N818 - it is no fault: not every env takes all data
    """The env does not take the changed data."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """One env as it would be with other futures."""

    env_factory: Callable[[Any], Any]
    data: Any
    clock: Clock
    observe: Callable[[Any], Any]
    kinds: Collection[str]
    fixed: Collection[str]
    seed: int
    _numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    def recorded(self, seed: int, n_steps: int) -> list[Moment]:
        """One episode on the data as it is."""
        with _opened(self._made(copy.deepcopy(self.data))) as subject:
            return record(subject, self.clock, self.observe, seed, n_steps)

    def repeated(self, moments: Iterable[Moment]) -> Generator[Moment, None, None]:
        """The same episode on the data as it is."""
        with _opened(self._made(copy.deepcopy(self.data))) as subject:
            yield from repeat(subject, self.clock, self.observe, moments)

    def changed(
        self, moments: Iterable[Moment], time: Any, kind: str
    ) -> Generator[Moment, None, None]:
        """The same calls on data that is another after `time`.

        Raises:
            Refused: the env could not be made or reset with this data.
            CheckStopped: a step failed.
        """
        rng = np.random.default_rng([self.seed, next(self._numbers)])
        data = perturbed(self.data, time, kind, rng, self.fixed)
        try:
            subject = self._made(data)
        except Exception as error:
            raise Refused(described(error)) from error
        with _opened(subject):
            repeats = repeat(subject, self.clock, self.observe, moments)
            try:
                first = next(repeats)
            except CheckStopped as stopped:
                raise Refused(str(stopped)) from stopped
            yield first
            yield from repeats

    def has_future(self, time: Any) -> bool:
        """Whether there is anything after `time` that could be changed."""
        return bool(last_time(self.data) > time)

    def _made(self, data: Any) -> Subject:
        try:
            env = self.env_factory(data)
        except Exception as error:
            raise CheckStopped(f"env_factory(data) raised {described(error)}") from error
        return subject_of(env)


@contextmanager
def _opened(subject: Subject) -> Iterator[Subject]:
    try:
        yield subject
    finally:
        subject.env.close()
