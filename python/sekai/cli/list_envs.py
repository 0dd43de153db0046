"""`sekai list`: list the registered envs."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.screen import note, say, show_table
from sekai.error import MissingExtraError, UnknownEnvError
from sekai.experiment.env_kind import EnvKind, short_space
from sekai.registry import EnvSpec, all_specs, namespaces, spec

EXAMPLES = ("sekai list", "sekai list --namespace gymnasium")

ROWS = 150
"""Rows of the market data on which envs are built to read their spaces."""

COLUMNS = ("env", "native", "observation", "action", "description")


@guarded
def list_envs(
    namespace: Annotated[str | None, typer.Option(help="List the envs of this namespace.")] = None,
) -> None:
    """List the registered envs with their spaces."""
    if namespace is not None:
        _list_namespace(namespace)
        return
    show_table(COLUMNS, [_row(spec) for spec in all_specs()])
    say(f"\nfurther envs in the namespaces {', '.join(namespaces())}: sekai list --namespace NAME")


def _list_namespace(name: str) -> None:
    if name not in namespaces():
        from sekai.storage.names import did_you_mean

        raise CommandError(f"unknown namespace {name!r}{did_you_mean(name, namespaces())}")
    if name == "gymnasium":
        # Most of them need packages of their own: their ids are listed, and no env is made.
        show_table(COLUMNS[:1], [(id,) for id in _gymnasium_ids()])
        return
    with contextlib.suppress(UnknownEnvError):
        spec(f"{name}/any")  # The lookup loads the namespace.
    specs = [known for known in all_specs() if known.namespace == name]
    if not specs:
        note(f"the namespace {name!r} cannot list its envs; they are resolved by id")
        return
    show_table(COLUMNS, [_row(known) for known in specs])


def _gymnasium_ids() -> list[str]:
    try:
        from sekai.compat.gymnasium.namespace import known_ids
    except ImportError as error:
        raise MissingExtraError.of("gymnasium", "gymnasium", "The namespace") from error
    return known_ids()


def _row(spec: EnvSpec) -> tuple[str, ...]:
    try:
        kind = EnvKind(spec)
        observation, action = _spaces(spec, kind)
    except ImportError as error:
        return spec.id, "", "", "", f"import failed: {error}"
    return spec.id, "yes" if kind.is_native else "", observation, action, kind.summary


def _spaces(spec: EnvSpec, kind: EnvKind) -> tuple[str, str]:
    options = dict(spec.kwargs)
    if kind.takes_features:
        from sekai.data import simulate_regimes

        # Spaces do not depend on the number of rows, and few are simulated faster.
        options["data"] = simulate_regimes(rows=ROWS)
    env: Any = kind.entry(**options)
    with env:
        agents = getattr(env, "possible_agents", None)
        if agents:
            spaces = env.observation_spaces[agents[0]], env.action_spaces[agents[0]]
            observation, action = (f"{short_space(space)} x {len(agents)}" for space in spaces)
            return observation, action
        return short_space(env.observation_space), short_space(env.action_space)
