"""Experiment definition: the sections of an experiment file, checked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from sekai.config.convert import require
from sekai.config.toml_file import ConfigSource, KeyPath
from sekai.data import Pipeline
from sekai.data.calendar import duration
from sekai.experiment.env_kind import EnvKind

if TYPE_CHECKING:
    from sekai.experiment.preparation import DataSource
    from sekai.training import Agent, AgentSettings

Amount = int | str

FIRST_EVALUATION_SEED = 1_000_000
"""Seeds from here on are for evaluation: no agent trains on them, and all use the same."""

OFFLINE = ("iql", "cql", "bc")
"""Algorithms that are trained on a replay data set instead of an env."""

DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """`[run]`: name and seed of a run."""

    name: str | None = None
    """Name of the run folder; None for the name of the file with a number."""

    seed: int = 0
    seeds: tuple[int, ...] | None = None
    """Training seeds, each a run of its own; None for the single `seed`."""

    imports: tuple[str, ...] = ()
    """Modules of the user that register what the experiment names."""

    def __post_init__(self) -> None:
        malformed = [name for name in self.imports if MODULE.fullmatch(name) is None]
        require(not malformed, "imports", "names such as 'package.module'", malformed)
        is_name = self.name is None or NAME.fullmatch(self.name) is not None
        require(is_name, "name", "letters, digits, '.', '_' and '-'", self.name)
        last = FIRST_EVALUATION_SEED - 1
        expected = f"from 0 to {last}, seeds above are for evaluation"
        require(0 <= self.seed <= last, "seed", expected, self.seed)
        if self.seeds is not None:
            fits = all(0 <= seed <= last for seed in self.seeds)
            is_valid = fits and 2 <= len(set(self.seeds)) == len(self.seeds)
            require(is_valid, "seeds", f"at least 2 different seeds {expected}", self.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSection:
    """`[data]`: the market data and its split; options of the source are beside it."""

    source: str = "simulate_regimes"
    split: float | str | tuple[float, ...] | tuple[str, ...] = 0.7
    """Share of the training part, or the date that it ends before; or the shares or start dates of
    two parts (training, test) or three (training, validation, test)."""

    embargo: Amount = 5
    """Rows, or a duration such as "30d", left out between two parts."""

    warm_up: Amount | None = None
    """Rows, or a duration, of history before a part; None for the lookback of the features, or
    all of it if they have none."""

    features: tuple[Any, ...] | None = None
    """Features in the observation, such as "momentum(20)"; None for the default of the env."""

    scaling: Literal["zscore", "robust", "rank"] | None = None
    """Normalizer of the features, fitted on the training part; None for no scaling."""

    def __post_init__(self) -> None:
        for name in ("embargo", "warm_up"):
            amount = getattr(self, name)
            fits = _is_time(amount) if isinstance(amount, str) else amount is None or amount >= 0
            require(fits, name, "rows from 0, or a time such as '90d'", amount)
        shares = all(isinstance(part, (int, float)) and 0 < part < 1 for part in self.parts)
        dates = all(isinstance(part, str) and DATE.match(part) for part in self.parts)
        expected = "up to three shares between 0 and 1, or dates such as '2015-01-31'"
        require(len(self.parts) in (1, 2, 3) and (shares or dates), "split", expected, self.split)
        if self.features is not None:
            _require_features(self.features)

    @property
    def parts(self) -> tuple[float | str, ...]:
        """Arguments of `MarketData.split`."""
        return self.split if isinstance(self.split, tuple) else (self.split,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSection:
    """`[train]`: algorithm and number of steps; settings of the algorithm are beside them."""

    steps: int
    """Steps of single envs; gradient steps of offline algorithms: iql, cql, bc."""

    algorithm: Literal[
        "ppo",
        "recurrent_ppo",
        "a2c",
        "ddpg",
        "td3",
        "sac",
        "dqn",
        "iql",
        "cql",
        "bc",
        "maddpg",
        "qmix",
    ] = "ppo"
    """Algorithm; `sekai info ppo` lists its settings."""

    dataset: str | None = None
    """Replay data set that an offline algorithm is trained on: a file of
    `sekai.training.ReplayDataset.save`."""

    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""

    checkpoint_every: int | None = None
    """Iterations between checkpoints, besides those by time; None for none."""

    def __post_init__(self) -> None:
        require(self.steps >= 1, "steps", "at least 1", self.steps)
        seconds = self.checkpoint_seconds
        require(seconds > 0, "checkpoint_seconds", "above 0", seconds)
        if self.algorithm in OFFLINE:
            expected = f"the file of a replay data set, which {self.algorithm} is trained on"
            require(self.dataset is not None, "dataset", expected, self.dataset)
        else:
            expected = f"left out: {self.algorithm} is trained on an env; iql, cql and bc take it"
            require(self.dataset is None, "dataset", expected, self.dataset)
        every = self.checkpoint_every
        require(every is None or every >= 1, "checkpoint_every", "at least 1", every)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkForwardSection:
    """`walk_forward` of `[evaluate]`: folds that move through time, each trained anew."""

    folds: int = 5
    """Number of folds."""

    train_rows: Amount | None = None
    """Training rows of a fold, or a duration; None for three times the test rows."""

    test_rows: Amount | None = None
    """Test rows of a fold, or a duration; None for as many as fit."""

    expanding: bool = False
    """Train on all earlier rows instead of the last `train_rows`."""

    def __post_init__(self) -> None:
        require(self.folds >= 1, "folds", "at least 1", self.folds)
        for name in ("train_rows", "test_rows"):
            amount = getattr(self, name)
            fits = _is_time(amount) if isinstance(amount, str) else amount is None or amount >= 1
            require(fits, name, "rows from 1, or a time such as '90d'", amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSection:
    """`[evaluate]`: seeds and baselines of the evaluation."""

    seeds: int = 16
    """Number of unseen episodes."""

    baselines: tuple[str, ...] | None = None
    """Baselines by name; None for those that fit the env."""

    every: int | None = None
    """Iterations between evaluations during training; None for none."""

    level: float = 0.95
    """Level of confidence intervals."""

    sensitivity: bool = True
    """Evaluate under higher costs and delays too."""

    walk_forward: WalkForwardSection | None = None
    """Walk-forward evaluation, which trains an agent for each fold; None for none."""

    def __post_init__(self) -> None:
        require(self.seeds >= 2, "seeds", "at least 2 to estimate an interval", self.seeds)
        require(self.every is None or self.every >= 1, "every", "at least 1", self.every)
        require(0 < self.level < 1, "level", "between 0 and 1", self.level)

    @property
    def evaluation_seeds(self) -> range:
        """Seeds of the unseen episodes."""
        return range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + self.seeds)


class AlgorithmChoice(NamedTuple):
    """Algorithm of an experiment, and its settings."""

    agent: type[Agent]
    settings: AgentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A checked experiment: env, data, algorithm with its settings, and evaluation."""

    run: RunSection
    env: EnvKind
    env_values: dict[str, Any]
    """Options of the env as in the file."""

    env_options: dict[str, Any]
    """Options of the env, converted."""

    data: DataSection | None
    """None for an env that needs no data."""

    source: DataSource | None
    source_values: dict[str, Any]
    """Options of the data source as in the file."""

    source_options: dict[str, Any]
    """Options of the data source, converted."""

    train: TrainSection
    algorithm: AlgorithmChoice | None
    """Algorithm with its settings; None if the experiment was read to act only."""

    evaluate: EvaluateSection
    references: dict[KeyPath, Any] = dataclasses.field(default_factory=dict)
    """Values with references `package.module:name`, as in the file, by section and key."""

    config: ConfigSource = dataclasses.field(
        default_factory=ConfigSource, repr=False, compare=False
    )
    """File and overrides, at whose lines errors point."""

    @property
    def id(self) -> str:
        """Env id."""
        return self.env.spec.id

    @property
    def agent(self) -> type[Agent]:
        """Algorithm."""
        return self._algorithm.agent

    @property
    def settings(self) -> AgentSettings:
        """Settings of the algorithm."""
        return self._algorithm.settings

    @property
    def _algorithm(self) -> AlgorithmChoice:
        assert self.algorithm is not None, "read with its algorithm"
        return self.algorithm

    def new_agent(self, env_options: Mapping[str, Any]) -> Agent:
        """Untrained agent of the experiment on an env with these options, or on its data set."""
        if self.train.dataset is not None:
            agent: Any = self.agent
            return cast(
                "Agent", agent(self.train.dataset, seed=self.run.seed, settings=self.settings)
            )
        return self.agent(
            self.id, seed=self.run.seed, settings=self.settings, env_options=env_options
        )

    def resumed_agent(self, checkpoint: Path, env_options: Mapping[str, Any]) -> Agent:
        """Agent of a checkpoint, to continue its training."""
        if self.train.dataset is not None:
            agent: Any = self.agent
            return cast("Agent", agent.resume(checkpoint, dataset=self.train.dataset))
        return self.agent.resume(checkpoint, env=self.id, env_options=env_options)

    def resolved(self, name: str) -> dict[str, Any]:
        """Plain values of an equivalent experiment file, defaults included.

        Args:
            name: name of the run.
        """
        settings = self.settings.to_dict()
        policy = settings.pop("policy")
        lists = {"imports": self.run.imports, "seeds": self.run.seeds}
        given = {key: list(value) for key, value in lists.items() if value}
        data = {} if self.data is None else {"data": {**_plain(self.data), **self.source_values}}
        values: dict[str, Any] = {
            "run": {"name": name, "seed": self.run.seed, **given},
            "env": {"id": self.id, **self.env_values},
            **data,
            "train": {**_plain(self.train), **settings},
            "policy": policy,
            "evaluate": _plain(self.evaluate),
        }
        for (section, key), value in self.references.items():
            values[section][key] = value
        return values


def _is_time(text: str) -> bool:
    try:
        return duration(text) >= 0
    except ValueError:
        return False


def _require_features(names: tuple[Any, ...]) -> None:
    try:
        Pipeline(names)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"features are invalid: {error.args[0]}") from error


def _plain(section: Any) -> dict[str, Any]:
    values = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
    return {name: _plain_value(value) for name, value in values.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _plain(value)
    return list(value) if isinstance(value, tuple) else value
