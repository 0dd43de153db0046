"""Reads and checks an experiment; whatever is wrong is pointed at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any, NoReturn, TypeVar

from sekai.cli.baselines import baselines_for
from sekai.cli.env_facts import EnvKind
from sekai.cli.experiment.experiment import Experiment
from sekai.cli.experiment.market import Reader, known_sources, reader_of
from sekai.cli.experiment.sections import (
    DataSection,
    EvaluateSection,
    RunSection,
    TrainSection,
)
from sekai.cli.experiment.source import Source
from sekai.cli.experiment.values import Misfit, built, converted, mentioned
from sekai.cli.user_modules import import_modules
from sekai.data.near_names import near
from sekai.error import UnknownEnvError
from sekai.registry import spec

__all__ = ["read_experiment"]

SECTIONS = ("run", "env", "data", "train", "policy", "evaluate")
ELSEWHERE = {"data": "[data]", "features": "features in [data]"}
"""Options of envs that have a section of their own."""

Section = TypeVar("Section")


def read_experiment(source: Source, imports: Sequence[str] = ()) -> Experiment:
    """Check all that was said, in the order in which it is quick to.

    Args:
        source: the experiment. One that the user wrote may name the user's modules in `[run]`;
            the copy in a run folder has nothing imported.
        imports: modules that register what the experiment names, imported first.

    Raises:
        ExperimentError: with the place of the first word that is wrong.
    """
    for name, value in source.values.items():
        if name not in SECTIONS:
            source.refuse(
                (name,), f"there is no section {name!r}{near(name, SECTIONS)}", value=False
            )
        if not isinstance(value, dict):
            source.refuse((name,), f"{name} must be a section [{name}], was {value!r}")
    run = _imported(source, _section(source, "run", RunSection), imports)
    kind = _env_kind(source)
    env_given = {name: one for name, one in _said(source, "env").items() if name != "id"}
    env_options = _env_options(source, kind, env_given)
    data, reader, reader_given = _data(source, kind)
    reader_options = (
        {} if reader is None else _options(source, "data", reader.options, reader_given)
    )
    evaluate = _evaluate(source, kind)
    train = _train(source)
    # From here on torch is needed, which takes seconds to import.
    agent, settings = _settings(source, train, kind.spec.id)
    return Experiment(
        run=run, env=kind, env_given=env_given, env_options=env_options, data=data, reader=reader,
        reader_given=reader_given, reader_options=reader_options, train=train, agent=agent,
        settings=settings, evaluate=evaluate,
    )  # fmt: skip


def _imported(source: Source, run: RunSection, imports: Sequence[str]) -> RunSection:
    """Import the modules that the user named, and refuse those that only a run folder names."""
    missing = [name for name in run.imports if name not in imports]
    if source.is_data and missing:
        options = " ".join(f"--import {name}" for name in missing)
        source.refuse(
            ("run", "imports"),
            f"the run needs the modules {', '.join(missing)}, and a run folder has nothing "
            f"imported: if you trust them, name them with {options}",
        )
    wanted = tuple(dict.fromkeys([*run.imports, *imports]))
    import_modules(wanted)
    return dataclasses.replace(run, imports=wanted)


def _said(source: Source, name: str) -> dict[str, Any]:
    return dict(source.values.get(name, {}))


def _section(
    source: Source, name: str, kind: type[Section], values: dict[str, Any] | None = None
) -> Section:
    given = _said(source, name) if values is None else values
    try:
        made: Section = built(kind, given, (name,))
    except Misfit as misfit:
        _refuse(source, misfit)
    return made


def _refuse(source: Source, misfit: Misfit) -> NoReturn:
    source.refuse(misfit.path, str(misfit), value=not misfit.is_key)


def _env_kind(source: Source) -> EnvKind:
    id = _said(source, "env").get("id")
    if id is None:
        source.refuse(("env",), "[env] needs an id, such as 'Portfolio-v0': see `sekai list`")
    if not isinstance(id, str):
        source.refuse(("env", "id"), f"id must be text, was {id!r}")
    try:
        return EnvKind(spec(id))
    except (UnknownEnvError, ValueError) as error:
        source.refuse(("env", "id"), str(error))


def _env_options(source: Source, kind: EnvKind, given: dict[str, Any]) -> dict[str, Any]:
    for name, section in ELSEWHERE.items():
        if name in given:
            source.refuse(("env", name), f"{name} of an env is said in {section}", value=False)
    known = kind.options
    if known is None:
        return given
    own = {name: hint for name, hint in known.items() if name not in ELSEWHERE}
    options = _options(source, "env", own, given)
    if options.get("observation") == "index":
        # The rows that it can number are part of what a policy sees.
        source.refuse(("env", "observation"), "observation must be 'window': an agent that sees "
                      "numbers of rows cannot be judged on other rows")  # fmt: skip
    if kind.config is not None:
        fields = {one.name for one in dataclasses.fields(kind.config)}
        try:
            kind.config(**{name: one for name, one in options.items() if name in fields})
        except (ValueError, TypeError) as error:
            source.refuse(("env", *mentioned(str(error), given)), str(error))
    return options


def _options(source: Source, section: str, known: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Options of a section, each as its type asks for."""
    _require_known(source, section, given, known)
    try:
        return {name: converted(known[name], one, (section, name)) for name, one in given.items()}
    except Misfit as misfit:
        _refuse(source, misfit)


def _require_known(
    source: Source, section: str, given: Iterable[str], known: Iterable[str]
) -> None:
    for name in given:
        if name not in known:
            message = f"[{section}] has no key {name!r}{near(name, known)}"
            source.refuse((section, name), message, value=False)


def _data(
    source: Source, kind: EnvKind
) -> tuple[DataSection | None, Reader | None, dict[str, Any]]:
    if not kind.takes_data:
        if "data" in source.values:
            message = f"{kind.spec.id} takes no data: leave [data] out"
            source.refuse(("data",), message, value=False)
        return None, None, {}
    if "data" not in source.values and not kind.takes_features:
        return None, None, {}
    said = _said(source, "data")
    named = {one.name for one in dataclasses.fields(DataSection)}
    section = _section(source, "data", DataSection, {n: v for n, v in said.items() if n in named})
    section = dataclasses.replace(section, source=_place(source, section.source))
    reader = reader_of(section.source)
    if reader is None:
        source.refuse(
            ("data", "source"),
            f"source must be one of {', '.join(known_sources())}, or a file or folder; there is "
            f"no {section.source}{near(str(said.get('source')), known_sources())}",
        )
    rest = {name: value for name, value in said.items() if name not in named}
    _require_known(source, "data", rest, [*reader.options, *named])
    return section, reader, rest


def _place(source: Source, name: str) -> str:
    """A path as seen from the folder of the file that names it."""
    if name in known_sources() or source.file is None or ("data", "source") in source.options:
        return name
    return str((source.file.parent / FilePath(name)).absolute())


def _evaluate(source: Source, kind: EnvKind) -> EvaluateSection:
    section = _section(source, "evaluate", EvaluateSection)
    known = baselines_for(kind.spec.id)
    for name in section.baselines or ():
        if name not in known:
            message = f"{kind.spec.id} has no baseline {name!r}{near(name, known)}"
            source.refuse(("evaluate", "baselines"), message)
    return section


def _train(source: Source) -> TrainSection:
    said = _said(source, "train")
    if "steps" not in said:
        source.refuse(("train",), "[train] needs steps, such as steps = 200_000")
    named = {one.name for one in dataclasses.fields(TrainSection)}
    return _section(source, "train", TrainSection, {n: v for n, v in said.items() if n in named})


def _settings(source: Source, train: TrainSection, id: str) -> tuple[Any, Any]:
    import sekai.training
    from sekai.training.defaults import default_settings

    agent = getattr(sekai.training, train.algorithm.upper())
    own = {one.name for one in dataclasses.fields(TrainSection)}
    given = {name: one for name, one in _said(source, "train").items() if name not in own}
    known = [one.name for one in dataclasses.fields(agent.settings_type) if one.name != "policy"]
    _require_known(source, "train", given, [*own, *known])
    policy = _said(source, "policy")
    base = default_settings(agent.settings_type, id)
    _require_known(source, "policy", policy, [f.name for f in dataclasses.fields(base.policy)])
    try:
        networks = base.policy.replaced(**policy)
    except (ValueError, TypeError) as error:
        source.refuse(("policy", *mentioned(str(error), policy)), str(error))
    _require_parts(source, networks)
    try:
        return agent, base.replaced(**given, policy=networks)
    except (ValueError, TypeError) as error:
        source.refuse(("train", *mentioned(str(error), given)), str(error))


def _require_parts(source: Source, networks: Any) -> None:
    """Refuse parts of networks that nobody has registered."""
    from sekai.training.policies.build import BACKBONES
    from sekai.training.policies.encoders import ENCODERS

    for name, known in (("backbone", ["auto", *BACKBONES]), ("encoder", list(ENCODERS))):
        found = getattr(networks, name)
        if found not in known:
            message = f"{name} must be one of {', '.join(known)}, was {found!r}"
            source.refuse(("policy", name), message)
