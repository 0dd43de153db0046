"""`sekai list`: the envs there are."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer

from sekai.cli.env_facts import EnvKind, short
from sekai.cli.failure import CommandError, guarded
from sekai.cli.screen import note, say, show_table
from sekai.error import MissingExtraError, UnknownEnvError
from sekai.registry import EnvSpec, all_specs, namespaces, spec

__all__ = ["EXAMPLES", "list_envs"]

EXAMPLES = ("sekai list", "sekai list --namespace gymnasium")

ROWS = 150
"""Of the market that envs are made on to ask for their spaces."""

COLUMNS = ("env", "native", "observation", "action", "what it is")


@guarded
def list_envs(
    namespace: Annotated[
        str | None, typer.Option(help="Only envs of this namespace, which is loaded first.")
    ] = None,
) -> None:
    """List the envs that can be made by their ids."""
    if namespace is not None:
        _list_namespace(namespace)
        return
    show_table(COLUMNS, [_row(one) for one in all_specs()])
    say(f"\nand those of the namespaces {', '.join(namespaces())}: sekai list --namespace NAME")


def _list_namespace(name: str) -> None:
    if name not in namespaces():
        from sekai.data.near_names import near

        raise CommandError(f"no namespace is called {name!r}{near(name, namespaces())}")
    if name == "gymnasium":
        # Most of them need packages of their own: they are named, and not made.
        show_table(COLUMNS[:1], [(id,) for id in _of_gymnasium()])
        return
    with contextlib.suppress(UnknownEnvError):
        spec(f"{name}/any")  # Asking for one loads the namespace.
    specs = [one for one in all_specs() if one.namespace == name]
    if not specs:
        note(f"the namespace {name!r} lists no envs: it knows them when they are asked for")
        return
    show_table(COLUMNS, [_row(one) for one in specs])


def _of_gymnasium() -> list[str]:
    try:
        from sekai.compat.gymnasium.namespace import known_ids
    except ImportError as error:
        raise MissingExtraError.of("gymnasium", "gymnasium", "The namespace") from error
    return known_ids()


def _row(spec: EnvSpec) -> tuple[str, ...]:
    try:
        kind = EnvKind(spec)
        seen, done = _spaces(spec, kind)
    except ImportError as error:
        return spec.id, "", "", "", f"cannot be imported: {error}"
    return spec.id, "yes" if kind.is_native else "", seen, done, kind.sentence


def _spaces(spec: EnvSpec, kind: EnvKind) -> tuple[str, str]:
    options = dict(spec.kwargs)
    if kind.takes_features:
        from sekai.data import simulate_regimes

        # Spaces do not depend on how long a market is, and a short one is made sooner.
        options["data"] = simulate_regimes(rows=ROWS)
    env: Any = kind.entry(**options)
    with env:
        agents = getattr(env, "possible_agents", None)
        if agents:
            seen, done = env.observation_spaces[agents[0]], env.action_spaces[agents[0]]
            many = f" x {len(agents)}"
            return short(seen) + many, short(done) + many
        return short(env.observation_space), short(env.action_space)
