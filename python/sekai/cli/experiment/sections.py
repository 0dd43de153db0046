"""The sections of an experiment that are the same for every env, source and algorithm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sekai.cli.user_modules import MODULE
from sekai.data import Pipeline
from sekai.data.durations import duration

__all__ = [
    "ALGORITHMS",
    "FIRST_JUDGED_SEED",
    "DataSection",
    "EvaluateSection",
    "RunSection",
    "TrainSection",
]

Amount = int | str

ALGORITHMS = ("ppo", "a2c", "ddpg", "sac", "maddpg", "qmix")

FIRST_JUDGED_SEED = 1_000_000
"""Seeds from here on are for judging: no agent learns from them, and all are judged by the same."""

DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _is_time(text: str) -> bool:
    try:
        return duration(text) >= 0
    except ValueError:
        return False


def _require_features(names: tuple[str, ...]) -> None:
    try:
        Pipeline(names)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"features cannot be made: {error.args[0]}") from error


def _require(holds: bool, name: str, wanted: str, found: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {wanted}, was {found!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """What the run is called, and what decides all that is random in it."""

    name: str | None = None
    """The folder of the run; None for the name of the file, counted up."""

    seed: int = 0
    imports: tuple[str, ...] = ()
    """Modules of yours that register what the experiment names."""

    def __post_init__(self) -> None:
        malformed = [name for name in self.imports if MODULE.fullmatch(name) is None]
        _require(not malformed, "imports", "names such as 'package.module'", malformed)
        is_name = self.name is None or NAME.fullmatch(self.name) is not None
        _require(is_name, "name", "letters, digits, '.', '_' and '-'", self.name)
        _require(0 <= self.seed < FIRST_JUDGED_SEED, "seed",
                 f"from 0 to {FIRST_JUDGED_SEED - 1}, agents are judged by those above",
                 self.seed)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSection:
    """What is traded on, and how it is cut; what else the source can be told is beside it."""

    source: str = "simulate_regimes"
    split: float | str | tuple[float, ...] | tuple[str, ...] = 0.7
    """The share to train on, or the date that it ends before; or the shares or first dates of two
    parts, to train and to test, or of three: to train, to look at meanwhile, and to test."""

    embargo: Amount = 5
    """Rows, or a time such as "30d", between two parts that belong to neither."""

    warm_up: Amount | None = None
    """Rows, or time, of history before a part; None for what features look back."""

    features: tuple[str, ...] | None = None
    """What is shown, such as "momentum(20)"; None for what the env shows by itself."""

    scaling: Literal["zscore", "robust", "rank"] | None = None
    """How features are scaled, learnt from the part to train on; None as they are."""

    def __post_init__(self) -> None:
        for name in ("embargo", "warm_up"):
            amount = getattr(self, name)
            fits = _is_time(amount) if isinstance(amount, str) else amount is None or amount >= 0
            _require(fits, name, "rows from 0, or a time such as '90d'", amount)
        shares = all(isinstance(one, (int, float)) and 0 < one < 1 for one in self.parts)
        dates = all(isinstance(one, str) and DATE.match(one) for one in self.parts)
        _require(len(self.parts) in (1, 2, 3) and (shares or dates), "split",
                 "up to three shares between 0 and 1, or dates such as '2015-01-31'",
                 self.split)  # fmt: skip
        if self.features is not None:
            _require_features(self.features)

    @property
    def parts(self) -> tuple[float | str, ...]:
        """What `MarketData.split` is given."""
        return self.split if isinstance(self.split, tuple) else (self.split,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSection:
    """How long is learnt by which algorithm; its settings are beside it."""

    steps: int
    """Steps of single envs."""

    algorithm: Literal["ppo", "a2c", "ddpg", "sac", "maddpg", "qmix"] = "ppo"
    checkpoint_seconds: float = 30.0
    """Time from one checkpoint to the next."""

    checkpoint_every: int | None = None
    """Iterations from one checkpoint to the next, beside those by time; None for none."""

    def __post_init__(self) -> None:
        _require(self.steps >= 1, "steps", "at least 1", self.steps)
        _require(self.checkpoint_seconds > 0, "checkpoint_seconds", "above 0",
                 self.checkpoint_seconds)  # fmt: skip
        every = self.checkpoint_every
        _require(every is None or every >= 1, "checkpoint_every", "at least 1", every)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSection:
    """How the agent is judged."""

    seeds: int = 16
    """Episodes that were never seen."""

    baselines: tuple[str, ...] | None = None
    """Who it is judged beside; None for those that suit the env."""

    every: int | None = None
    """Iterations from one look at it to the next while it learns; None for none."""

    level: float = 0.95
    """Of intervals."""

    sensitivity: bool = True
    """Whether it is also judged where trading costs more, or takes longer."""

    def __post_init__(self) -> None:
        _require(self.seeds >= 2, "seeds", "at least 2: one tells nothing of chance", self.seeds)
        _require(self.every is None or self.every >= 1, "every", "at least 1", self.every)
        _require(0 < self.level < 1, "level", "between 0 and 1", self.level)

    @property
    def judged_seeds(self) -> range:
        """The seeds of the episodes."""
        return range(FIRST_JUDGED_SEED, FIRST_JUDGED_SEED + self.seeds)
