"""Reading of experiment files: every key is checked, and errors point at the line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from sekai.config.convert import ConversionError, build, convert, mentioned_key, require_known
from sekai.config.toml_file import ConfigSource, KeyPath
from sekai.error import UnknownEnvError
from sekai.experiment.env_kind import EnvKind
from sekai.experiment.experiment import (
    AlgorithmChoice,
    DataSection,
    EvaluateSection,
    Experiment,
    RunSection,
    TrainSection,
)
from sekai.experiment.preparation import CUSTOM_SOURCES, DataSource, data_source, known_sources
from sekai.experiment.references import import_for, resolve
from sekai.experiment.search_space import SweepSection
from sekai.registry import spec
from sekai.storage.names import did_you_mean

SECTIONS = ("run", "env", "data", "train", "policy", "evaluate", "sweep")
OTHER_SECTIONS = {"data": "[data]", "features": "features in [data]"}
"""Options of envs that belong to another section."""

Section = TypeVar("Section")


def read_experiment(
    source: ConfigSource, imports: Sequence[str] = (), *, acts_only: bool = False
) -> Experiment:
    """Check an experiment, the quick checks first.

    Args:
        source: values of the experiment. A file of the user may name modules to import, in `[run]`
            and in references `package.module:name`; the copy in a run folder may not.
        imports: modules that the user named, or experiment files of the user that name them.
        acts_only: leave out the settings of the algorithm, which need torch.

    Raises:
        ConfigError: with the location of the first invalid key or value.
    """
    for name, value in source.values.items():
        if name not in SECTIONS:
            message = f"there is no section {name!r}{did_you_mean(name, SECTIONS)}"
            source.refuse((name,), message, value=False)
        if not isinstance(value, dict):
            source.refuse((name,), f"{name} must be a section [{name}], got {value!r}")
    if "sweep" in source.values:
        sweep_section(source)
    run = _section(source, "run", RunSection)
    run = dataclasses.replace(run, imports=import_for(source, imports))
    source, references = resolve(source)
    kind = _env_kind(source)
    env_values = {name: value for name, value in _values(source, "env").items() if name != "id"}
    env_options = _env_options(source, kind, env_values)
    data, reader, source_values = _data(source, kind)
    source_options = (
        {} if reader is None else _options(source, "data", reader.options, source_values)
    )
    evaluate = _evaluate(source, kind)
    train = _train(source)
    # From here on torch is needed, which takes seconds to import.
    algorithm = None if acts_only else _algorithm(source, train, kind.spec.id)
    return Experiment(
        run=run,
        env=kind,
        env_values=env_values,
        env_options=env_options,
        data=data,
        source=reader,
        source_values=source_values,
        source_options=source_options,
        train=train,
        algorithm=algorithm,
        evaluate=evaluate,
        references=references,
        config=source,
    )


def sweep_section(source: ConfigSource) -> SweepSection:
    """`[sweep]` of an experiment; its search space is checked by the sweep."""
    return _section(source, "sweep", SweepSection)


def baselines_for(id: str) -> list[str]:
    """Names of the baselines of an env, the default ones first."""
    from sekai.evaluation.baselines import baseline_names
    from sekai.evaluation.env_source import as_env_source
    from sekai.evaluation.tasks import task_of

    task = task_of(as_env_source(id))
    others = [name for name in baseline_names(task.name) if name not in task.baselines]
    return [*task.baselines, *others]


def _values(source: ConfigSource, section: str) -> dict[str, Any]:
    return dict(source.values.get(section, {}))


def _section(
    source: ConfigSource, name: str, kind: type[Section], values: dict[str, Any] | None = None
) -> Section:
    try:
        section: Section = build(kind, _values(source, name) if values is None else values, (name,))
    except ConversionError as error:
        _refuse(source, error)
    return section


def _refuse(source: ConfigSource, error: ConversionError) -> NoReturn:
    source.refuse(error.path, str(error), value=not error.is_key)


def _env_kind(source: ConfigSource) -> EnvKind:
    id = _values(source, "env").get("id")
    if id is None:
        source.refuse(("env",), "[env] needs an id, such as 'Portfolio-v0'; see `sekai list`")
    if not isinstance(id, str):
        source.refuse(("env", "id"), f"id must be text, got {id!r}")
    try:
        return EnvKind(spec(id))
    except (UnknownEnvError, ValueError) as error:
        source.refuse(("env", "id"), str(error))


def _env_options(source: ConfigSource, kind: EnvKind, values: dict[str, Any]) -> dict[str, Any]:
    for name, section in OTHER_SECTIONS.items():
        if name in values:
            source.refuse(("env", name), f"{name} of an env belongs in {section}", value=False)
    known = kind.options
    if known is None:
        return values
    known = {name: hint for name, hint in known.items() if name not in OTHER_SECTIONS}
    options = _options(source, "env", known, values)
    if options.get("observation") == "index":
        # The rows that it can number are part of the policy's input.
        source.refuse(
            ("env", "observation"),
            "observation must be 'window': an agent that observes row numbers cannot be evaluated "
            "on other rows",
        )
    if kind.config is not None:
        fields = {field.name for field in dataclasses.fields(kind.config)}
        try:
            kind.config(**{name: value for name, value in options.items() if name in fields})
        except (ValueError, TypeError) as error:
            source.refuse(("env", *mentioned_key(str(error), values)), str(error))
    return options


def _options(
    source: ConfigSource, section: str, known: Mapping[str, Any], values: dict[str, Any]
) -> dict[str, Any]:
    _require_known(source, section, values, known)
    try:
        return {
            name: convert(known[name], value, (section, name)) for name, value in values.items()
        }
    except ConversionError as error:
        _refuse(source, error)


def _require_known(
    source: ConfigSource, section: str, names: Iterable[str], known: Iterable[str]
) -> None:
    try:
        require_known(f"[{section}]", names, known, (section,))
    except ConversionError as error:
        _refuse(source, error)


def _data(
    source: ConfigSource, kind: EnvKind
) -> tuple[DataSection | None, DataSource | None, dict[str, Any]]:
    if not kind.takes_data:
        if "data" in source.values:
            message = f"{kind.spec.id} takes no data; remove [data]"
            source.refuse(("data",), message, value=False)
        return None, None, {}
    if "data" not in source.values and not kind.takes_features:
        return None, None, {}
    values = _values(source, "data")
    names = {field.name for field in dataclasses.fields(DataSection)}
    own = {name: value for name, value in values.items() if name in names}
    section = _section(source, "data", DataSection, own)
    section = dataclasses.replace(section, source=_resolved_path(source, section.source))
    reader = data_source(section.source)
    if reader is None:
        suggestion = did_you_mean(str(values.get("source")), known_sources())
        source.refuse(
            ("data", "source"),
            f"unknown source {section.source}; expected one of {', '.join(known_sources())}, or a "
            f"file or folder{suggestion}",
        )
    rest = {name: value for name, value in values.items() if name not in names}
    _require_known(source, "data", rest, [*reader.options, *names])
    return section, reader, rest


def _resolved_path(source: ConfigSource, name: str) -> str:
    """Path relative to the folder of the file that names it."""
    if name in known_sources() or name in CUSTOM_SOURCES:
        return name
    return _beside_file(source, ("data", "source"), name)


def _beside_file(source: ConfigSource, key: KeyPath, name: str) -> str:
    if source.file is None or key in source.options:
        return name
    return str((source.file.parent / name).absolute())


def _evaluate(source: ConfigSource, kind: EnvKind) -> EvaluateSection:
    section = _section(source, "evaluate", EvaluateSection)
    known = baselines_for(kind.spec.id)
    for name in section.baselines or ():
        if name not in known:
            message = f"{kind.spec.id} has no baseline {name!r}{did_you_mean(name, known)}"
            source.refuse(("evaluate", "baselines"), message)
    if section.walk_forward is not None and kind.spec.id != "Portfolio-v0":
        source.refuse(
            ("evaluate", "walk_forward"),
            f"walk_forward needs Portfolio-v0, got {kind.spec.id}; remove it",
            value=False,
        )
    return section


def _train(source: ConfigSource) -> TrainSection:
    values = _values(source, "train")
    if "steps" not in values:
        source.refuse(("train",), "[train] needs steps, such as steps = 200_000, or --steps 200000")
    names = {field.name for field in dataclasses.fields(TrainSection)}
    own = {name: value for name, value in values.items() if name in names}
    section = _section(source, "train", TrainSection, own)
    if section.dataset is None:
        return section
    if "walk_forward" in _values(source, "evaluate"):
        source.refuse(
            ("evaluate", "walk_forward"),
            f"walk_forward trains on the rows of each fold, and {section.algorithm} on one data "
            "set; remove it",
            value=False,
        )
    return dataclasses.replace(
        section, dataset=_beside_file(source, ("train", "dataset"), section.dataset)
    )


def agent_type(algorithm: str) -> Any:
    """Class of an algorithm of `[train]`."""
    import sekai.training

    names = {name.lower(): name for name in sekai.training.__all__}
    return getattr(sekai.training, names[algorithm.replace("_", "")])


def _algorithm(source: ConfigSource, train: TrainSection, id: str) -> AlgorithmChoice:
    from sekai.training.defaults import default_settings

    agent = agent_type(train.algorithm)
    own = {field.name for field in dataclasses.fields(TrainSection)}
    values = {name: value for name, value in _values(source, "train").items() if name not in own}
    fields = dataclasses.fields(agent.settings_type)
    known = [field.name for field in fields if field.name != "policy"]
    _require_known(source, "train", values, [*own, *known])
    policy = _values(source, "policy")
    default = default_settings(agent.settings_type, id)
    known = [field.name for field in dataclasses.fields(default.policy)]
    _require_known(source, "policy", policy, known)
    try:
        networks = default.policy.replaced(**policy)
    except (ValueError, TypeError) as error:
        source.refuse(("policy", *mentioned_key(str(error), policy)), str(error))
    _require_registered(source, networks)
    try:
        return AlgorithmChoice(agent, default.replaced(**values, policy=networks))
    except (ValueError, TypeError) as error:
        source.refuse(("train", *mentioned_key(str(error), values)), str(error))


def _require_registered(source: ConfigSource, networks: Any) -> None:
    """Refuse backbones and encoders that are not registered."""
    from sekai.training.policies.actor_critic import BACKBONES
    from sekai.training.policies.assets import ENCODERS

    for name, known in (("backbone", ["auto", *BACKBONES]), ("encoder", list(ENCODERS))):
        value = getattr(networks, name)
        if value not in known:
            message = f"{name} must be one of {', '.join(known)}, got {value!r}"
            source.refuse(("policy", name), message)
