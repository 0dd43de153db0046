"""`sekai info`: show the options of an env, or the settings of an algorithm."""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from sekai.cli.failure import CommandError, guarded
from sekai.cli.screen import say, show_table
from sekai.config.convert import documented_fields, nested_configs
from sekai.error import UnknownEnvError
from sekai.experiment.env_kind import EnvKind
from sekai.experiment.experiment import TrainSection
from sekai.registry import EnvSpec, make, spec
from sekai.storage.names import close_matches, suggestion

ALGORITHMS: tuple[str, ...] = typing.get_args(typing.get_type_hints(TrainSection)["algorithm"])

EXAMPLES = ("sekai info Portfolio-v0", "sekai info ppo", "sekai info gymnasium/CartPole-v1")


@guarded
def info(
    name: Annotated[str, typer.Argument(help="Env id, see `sekai list`, or an algorithm: ppo.")],
) -> None:
    """Show the spaces, options and baselines of an env, or the settings of an algorithm."""
    if name.lower() in ALGORITHMS:
        _show_algorithm(name.lower())
    else:
        _show_env(_spec(name))


def _spec(name: str) -> EnvSpec:
    try:
        return spec(name)
    except (UnknownEnvError, ValueError) as error:
        close = close_matches(name, ALGORITHMS)
        if close:
            raise CommandError(f"unknown env or algorithm {name!r}{suggestion(close)}") from error
        algorithms = ", ".join(ALGORITHMS)
        raise CommandError(
            f"{error}; `sekai list` shows env ids, algorithms are {algorithms}"
        ) from error


def _show_algorithm(name: str) -> None:
    from sekai.experiment.reading import agent_type
    from sekai.training.defaults import default_settings, tuned_settings

    agent = agent_type(name)
    _heading(name)
    say(inspect.getdoc(agent) or "")
    settings = agent.settings_type
    _show_options("run, in [train] of an experiment", TrainSection)
    _show_options("settings, in [train] of an experiment", settings, without=("policy",))
    policy = default_settings(settings, None).policy
    _show_options("networks, in [policy] of an experiment", type(policy))
    for id, changes in tuned_settings(settings).items():
        say(f"\ndefaults of {id}: {_listed(changes)}")
    if settings.python_env_settings:
        say(f"\ndefaults of envs that are not native: {_listed(settings.python_env_settings)}")


def _listed(changes: Mapping[str, Any]) -> str:
    texts = [f"{key} {value}" for key, value in changes.items() if key != "policy"]
    texts += [f"policy.{key} {value}" for key, value in changes.get("policy", {}).items()]
    return ", ".join(texts)


def _show_env(known: EnvSpec) -> None:
    kind = EnvKind(known)
    _heading(known.id)
    say(kind.documentation)
    _show_spaces(known)
    if kind.config is not None:
        _show_options("options, in [env] of an experiment", kind.config)
        for name, config in nested_configs(kind.config):
            _show_options(f"{config.__name__}, in [env.{name}]", config)
    from sekai.experiment.reading import baselines_for

    baselines = baselines_for(known.id)
    if baselines:
        _heading("baselines")
        say(", ".join(baselines))


def _show_options(title: str, config: type, without: Sequence[str] = ()) -> None:
    rows = [
        (doc.name, doc.type, doc.default, doc.text)
        for doc in documented_fields(config)
        if doc.name not in without
    ]
    if rows:
        _heading(title)
        show_table(("option", "type", "default", "description"), rows)


def _heading(text: str) -> None:
    say(Text(f"\n{text}", "bold"))


def _show_spaces(known: EnvSpec) -> None:
    env: Any = make(known)
    with env:
        _heading("spaces")
        if hasattr(env, "possible_agents"):
            observations = {name: env.observation_spaces[name] for name in env.possible_agents}
            actions = {name: env.action_spaces[name] for name in env.possible_agents}
        else:
            observations, actions = {"": env.observation_space}, {"": env.action_space}
    for title, spaces in (("observation", observations), ("action", actions)):
        for name, space in spaces.items():
            text = f"{title} {name}".strip() + f": {space}"
            say("\n".join(textwrap.wrap(text, 100, subsequent_indent="  ")))
