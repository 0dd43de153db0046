"""Search space of a sweep: settings by dotted name, their ranges, samplers and pruners."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sekai.config.convert import require
from sekai.config.toml_file import ConfigSource, KeyPath
from sekai.storage.names import did_you_mean, unknown_name
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("TPESampler", "RandomSampler", "GridSampler", "CmaEsSampler")
PRUNERS = ("NopPruner", "MedianPruner", "SuccessiveHalvingPruner")

SHORT_NAMES = {
    "tpe": "TPESampler",
    "random": "RandomSampler",
    "grid": "GridSampler",
    "cmaes": "CmaEsSampler",
    "cma-es": "CmaEsSampler",
    "none": "NopPruner",
    "median": "MedianPruner",
    "asha": "SuccessiveHalvingPruner",
    "halving": "SuccessiveHalvingPruner",
}
"""Other names of samplers and pruners, for errors."""

RANGE_KEYS = ("low", "high", "log", "step")

SEARCHED = ("env", "data", "train", "policy")
SEARCHED_DATA = ("features", "scaling")

Scalar = (bool, int, float, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSection:
    """`[sweep]`: number of trials, sampler and pruner; the settings are in `[sweep.space]`."""

    space: Mapping[str, Any]
    """Settings such as train.gamma: a list of choices, or a range {low, high, log, step}."""

    trials: int | None = None
    """Number of trials; None for all combinations, with GridSampler."""

    sampler: str = "TPESampler"
    """Class of optuna.samplers: TPESampler, RandomSampler, GridSampler or CmaEsSampler."""

    sampler_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the sampler, such as n_startup_trials."""

    pruner: str = "NopPruner"
    """Class of optuna.pruners: NopPruner, MedianPruner or SuccessiveHalvingPruner."""

    pruner_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the pruner, such as n_startup_trials; its steps are evaluations of a trial."""

    seed: int = 0
    """Seed of the sampler."""

    def __post_init__(self) -> None:
        require(len(self.space) > 0, "space", "a table of settings", dict(self.space))
        for kind, name, known in (
            ("sampler", self.sampler, SAMPLERS),
            ("pruner", self.pruner, PRUNERS),
        ):
            if name not in known:
                alias = SHORT_NAMES.get(name.lower())
                shown = f"; did you mean {alias!r}?" if alias in known else ""
                raise ValueError(f"{unknown_name(kind, name, known)}{shown}")
        require(self.trials is None or self.trials >= 1, "trials", "at least 1", self.trials)
        require(self.seed >= 0, "seed", "at least 0", self.seed)


@dataclass(frozen=True, slots=True)
class SearchedSetting:
    """Setting of an experiment that trials differ in."""

    path: KeyPath
    """Section and keys of the setting."""

    key: KeyPath
    """Keys in the experiment file that define its range."""

    choices: tuple[Any, ...] = ()
    """Values to choose from; empty for a range."""

    low: float = math.nan
    high: float = math.nan
    log: bool = False
    step: float | None = None

    @property
    def name(self) -> str:
        """Dotted name."""
        return ".".join(self.path)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Choices as Optuna stores them: lists and tables as JSON text."""
        return tuple(
            value if isinstance(value, Scalar) else json.dumps(value) for value in self.choices
        )

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values to check beforehand: all choices, or the ends of the range."""
        return self.choices or (self.low, self.high)

    def value(self, label: Any) -> Any:
        """Value of the setting that Optuna suggests."""
        return self.choices[self.labels.index(label)] if self.choices else label

    def distribution(self) -> optuna.distributions.BaseDistribution:
        """Distribution of Optuna; `ValueError` for an invalid range."""
        kinds = _optuna().distributions
        if self.choices:
            distribution = kinds.CategoricalDistribution(self.labels)
        elif all(isinstance(number, int) for number in (self.low, self.high, self.step or 1)):
            step = 1 if self.step is None else self.step
            distribution = kinds.IntDistribution(self.low, self.high, self.log, step)
        else:
            distribution = kinds.FloatDistribution(self.low, self.high, self.log, self.step)
        return distribution  # type: ignore[no-any-return]

    def grid(self) -> list[Any]:
        """Values of the setting in a grid; `ValueError` for a range without steps."""
        if self.choices:
            return list(self.labels)
        if self.log or (self.step is None and not isinstance(self.low, int)):
            raise ValueError("a grid needs a list of choices, or a range with a step")
        step = self.step or 1
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        return [self.low + index * step for index in range(count)]


def searched_settings(source: ConfigSource, section: SweepSection) -> list[SearchedSetting]:
    """Settings of `[sweep.space]`, checked, in the order of the file.

    Raises:
        ConfigError: with the line of the first invalid one.
    """
    settings = list(_settings(source, section.space, ("sweep", "space")))
    for setting in settings:
        _require_searched(source, setting)
        try:
            setting.distribution()
            if section.sampler == "GridSampler":
                setting.grid()
        except (ValueError, TypeError) as error:
            source.refuse(setting.key, f"{setting.name}: {error}")
    names = [setting.name for setting in settings]
    for index, setting in enumerate(settings):
        if setting.name in names[:index]:
            source.refuse(setting.key, f"{setting.name} is searched twice", value=False)
    return settings


def trial_source(
    source: ConfigSource, values: Sequence[tuple[SearchedSetting, Any]]
) -> ConfigSource:
    """Experiment of one trial; errors about its settings point at the lines of the search space.

    Args:
        source: the experiment with its `[sweep]`.
        values: the settings, and their values in this trial.
    """
    trial = dataclasses.replace(
        source,
        values=copy.deepcopy(source.values),
        locations=dict(source.locations),
        options=dict(source.options),
    )
    trial.values.pop("sweep", None)
    for setting, value in values:
        table = trial.values
        for name in setting.path[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                source.refuse(setting.key, f"{setting.name}: {name!r} is a value, not a table")
        table[setting.path[-1]] = copy.deepcopy(value)
        _point_at(trial, setting)
    return trial


def number_of_trials(source: ConfigSource, section: SweepSection) -> int:
    """Number of trials: as stated, or all combinations of a grid."""
    if section.sampler != "GridSampler":
        if section.trials is None:
            source.refuse(("sweep",), "[sweep] needs trials, such as trials = 50")
        return section.trials
    settings = searched_settings(source, section)
    size = math.prod(len(setting.grid()) for setting in settings)
    trials = size if section.trials is None else section.trials
    if trials > size:
        message = f"trials must be at most the {size} combinations of the grid, got {trials}"
        source.refuse(("sweep", "trials"), message)
    return trials


def new_sampler(
    source: ConfigSource,
    section: SweepSection,
    settings: Sequence[SearchedSetting],
    number: int,
    jobs: int,
) -> optuna.samplers.BaseSampler:
    """Sampler of one trial, with a random stream of its own.

    A sampler for each trial depends on the trials before it and not on the process that made them,
    so that a sweep that is continued samples what one without a break does.

    Args:
        source: the experiment, at whose lines errors point.
        section: sampler and seed.
        settings: the search space.
        number: number of the trial.
        jobs: trials at the same time.
    """
    kinds, options = _optuna().samplers, dict(section.sampler_options)
    if section.sampler == "GridSampler":
        grid = {setting.name: setting.grid() for setting in settings}
        # The order of the grid is drawn from the seed: the same one for all trials.
        ordered: optuna.samplers.BaseSampler
        ordered = _called(source, "sampler", kinds.GridSampler, (grid,), options, section.seed)
        return ordered
    if section.sampler == "CmaEsSampler":
        optional_import("cmaes", "", "CmaEsSampler")
    if section.sampler == "TPESampler" and jobs > 1:
        # Unfinished trials count as bad ones, so that others do not repeat them.
        options.setdefault("constant_liar", True)
    import numpy as np

    seed = int(np.random.SeedSequence([section.seed, number]).generate_state(1)[0])
    kind = getattr(kinds, section.sampler)
    sampler: optuna.samplers.BaseSampler = _called(source, "sampler", kind, (), options, seed)
    return sampler


def new_pruner(source: ConfigSource, section: SweepSection) -> optuna.pruners.BasePruner:
    """Pruner without memory: it depends on the recorded trials alone."""
    kind = getattr(_optuna().pruners, section.pruner)
    options = dict(section.pruner_options)
    pruner: optuna.pruners.BasePruner = _called(source, "pruner", kind, (), options)
    return pruner


def _called(
    source: ConfigSource,
    name: str,
    kind: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    seed: int | None = None,
) -> Any:
    key = ("sweep", f"{name}_options")
    given = {} if seed is None else {"seed": seed}
    known = list(inspect.signature(kind).parameters)[len(arguments) :]
    known = [option for option in known if option not in given]
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known)
            message = f"{kind.__name__} has no option {option!r}{hint}"
            source.refuse((*key, option), message, value=False)
    try:
        return kind(*arguments, **options, **given)
    except (ValueError, TypeError) as error:
        source.refuse(key, f"{kind.__name__}: {error}")


def _settings(
    source: ConfigSource, table: Mapping[str, Any], key: KeyPath
) -> Iterator[SearchedSetting]:
    for name, value in table.items():
        own = (*key, name)
        # Names may be quoted: "train.gamma" is the same setting as train.gamma.
        path = tuple(".".join(own[2:]).split("."))
        if isinstance(value, list):
            if not value:
                source.refuse(own, f"{'.'.join(path)} needs at least one choice")
            yield SearchedSetting(path, own, choices=tuple(value))
        elif isinstance(value, dict) and not _is_range(value):
            yield from _settings(source, value, own)
        else:
            yield _range(source, path, own, value)


def _is_range(table: Mapping[str, Any]) -> bool:
    return any(not isinstance(table.get(name, {}), dict) for name in RANGE_KEYS)


def _range(source: ConfigSource, path: KeyPath, key: KeyPath, value: Any) -> SearchedSetting:
    name = ".".join(path)
    if not isinstance(value, dict):
        expected = "a list of choices, or a range such as { low = 0.1, high = 1.0 }"
        source.refuse(key, f"{name} must be {expected}, got {value!r}")
    for part, bound in value.items():
        if part not in RANGE_KEYS:
            hint = did_you_mean(part, RANGE_KEYS)
            source.refuse((*key, part), f"a range has no key {part!r}{hint}", value=False)
        is_bool = isinstance(bound, bool)
        if is_bool != (part == "log") or not isinstance(bound, (int, float)):
            expected = "true or false" if part == "log" else "a number"
            source.refuse((*key, part), f"{part} of {name} must be {expected}, got {bound!r}")
    missing = [part for part in ("low", "high") if part not in value]
    if missing:
        source.refuse(key, f"the range of {name} needs {' and '.join(missing)}")
    return SearchedSetting(path, key, **value)


def _require_searched(source: ConfigSource, setting: SearchedSetting) -> None:
    section, *keys = setting.path
    if not keys:
        message = f"{section!r} is no setting; expected section.key, such as train.learning_rate"
        source.refuse(setting.key, message, value=False)
    is_fixed = section in ("run", "evaluate", "sweep")
    if is_fixed or (section == "data" and keys[0] not in SEARCHED_DATA):
        source.refuse(
            setting.key,
            f"{setting.name} cannot be searched: all trials share seed, data and evaluation; "
            f"expected settings of {', '.join(SEARCHED)}, of data only {', '.join(SEARCHED_DATA)}",
            value=False,
        )


def _point_at(trial: ConfigSource, setting: SearchedSetting) -> None:
    """Point errors about a setting at its line in the search space."""
    trial.options.pop(setting.path, None)
    option = next(
        (
            trial.options[setting.key[:end]]
            for end in range(len(setting.key), 0, -1)
            if setting.key[:end] in trial.options
        ),
        None,
    )
    location = trial.locations.get(setting.key)
    if option is not None:
        trial.options[setting.path] = option
    elif location is not None:
        trial.locations[setting.path] = location
        for end in range(1, len(setting.path)):
            trial.locations.setdefault(setting.path[:end], location)


def _optuna() -> Any:
    return optional_import("optuna", "sweep", "A sweep")
