"""`sekai info`: show the spaces, options and baselines of an env."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer
from rich.text import Text

from sekai.cli.failure import guarded
from sekai.cli.screen import say, show_table
from sekai.config.convert import documented_fields, nested_configs
from sekai.experiment.env_kind import EnvKind
from sekai.registry import EnvSpec, make, spec

__all__ = ["EXAMPLES", "info"]

EXAMPLES = ("sekai info Portfolio-v0", "sekai info gymnasium/CartPole-v1")


@guarded
def info(id: Annotated[str, typer.Argument(help="Env id, see `sekai list`.")]) -> None:
    """Show the documentation, spaces, options and baselines of an env."""
    known = spec(id)
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


def _show_options(title: str, config: type) -> None:
    rows = [(doc.name, doc.type, doc.default, doc.text) for doc in documented_fields(config)]
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
