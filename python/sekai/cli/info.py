"""`sekai info`: all that is known of an env."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer
from rich.text import Text

from sekai.cli.env_facts import EnvKind
from sekai.cli.failure import guarded
from sekai.cli.field_facts import fields_of, tables_of
from sekai.cli.screen import say, show_table
from sekai.registry import EnvSpec, make, spec

__all__ = ["EXAMPLES", "info"]

EXAMPLES = ("sekai info Portfolio-v0", "sekai info gymnasium/CartPole-v1")


@guarded
def info(id: Annotated[str, typer.Argument(help="The id of an env, see `sekai list`.")]) -> None:
    """Tell what an env shows, takes, pays and can be told."""
    known = spec(id)
    kind = EnvKind(known)
    _heading(known.id)
    say(kind.about)
    _spaces(known)
    if kind.config is not None:
        _options("options, in [env] of an experiment", kind.config)
        for name, table in tables_of(kind.config):
            _options(f"{table.__name__}, in [env.{name}]", table)
    from sekai.cli.baselines import baselines_for

    baselines = baselines_for(known.id)
    if baselines:
        _heading("baselines")
        say(", ".join(baselines))


def _options(title: str, config: type) -> None:
    rows = [(one.name, one.kind, one.default, one.about) for one in fields_of(config)]
    if rows:
        _heading(title)
        show_table(("option", "kind", "default", "what it is"), rows)


def _heading(text: str) -> None:
    say(Text(f"\n{text}", "bold"))


def _spaces(known: EnvSpec) -> None:
    env: Any = make(known)
    with env:
        _heading("spaces")
        if hasattr(env, "possible_agents"):
            shown = {name: env.observation_spaces[name] for name in env.possible_agents}
            taken = {name: env.action_spaces[name] for name in env.possible_agents}
        else:
            shown, taken = {"": env.observation_space}, {"": env.action_space}
    for title, spaces in (("observation", shown), ("action", taken)):
        for name, space in spaces.items():
            text = f"{title} {name}".strip() + f": {space}"
            say("\n".join(textwrap.wrap(text, 100, subsequent_indent="  ")))
