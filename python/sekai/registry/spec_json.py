"""Env specs as strict JSON: ids, wrappers and kinds by name, never import paths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sekai.error import UnknownEnvError
from sekai.registry.entry_point import EntryPoint, named
from sekai.registry.spec import EnvSpec, WrapperSpec
from sekai.storage.codec import from_json_value, to_json_value
from sekai.storage.kinds import is_registered, kind_named, name_of_kind
from sekai.storage.names import close_matches, suggestion
from sekai.storage.strict_json import parse_json

__all__ = ["spec_from_json", "spec_to_json"]

FORMAT = "sekai spec 3"
LONGEST_ID = 500

_FLAGS = ("order_enforce", "validate_actions", "nondeterministic")
_KEYS = frozenset(
    {"format", "id", "max_episode_steps", "reward_threshold", "kwargs", "wrappers", *_FLAGS}
)
_WRAPPER_KEYS = frozenset({"name", "kwargs", "args"})
_ENTRY_POINTS = ("entry_point", "vector_entry_point")


def spec_to_json(spec: EnvSpec) -> str:
    """Encode an env spec as JSON; `spec_from_json` decodes an equal spec."""
    _check_registered(spec)
    description: dict[str, Any] = {
        "format": FORMAT,
        "id": spec.id,
        "max_episode_steps": spec.max_episode_steps,
        "reward_threshold": to_json_value(spec.reward_threshold, "reward_threshold"),
        "kwargs": _arguments_to_json(spec.kwargs, f"of {spec.id}"),
        **{flag: bool(getattr(spec, flag)) for flag in _FLAGS},
        "wrappers": [_wrapper_to_json(wrapper) for wrapper in spec.wrappers],
    }
    return json.dumps(description, allow_nan=False)


def spec_from_json(text: str) -> EnvSpec:
    """Decode an env spec that `spec_to_json` encoded.

    Raises:
        UnknownEnvError: no env is registered under the id.
        ValueError: the text is malformed.
    """
    description = parse_json(text)
    if isinstance(description, dict) and description.get("format") != FORMAT:
        version = description.get("format", "a spec of an older version")
        raise ValueError(
            f"expected the format {FORMAT!r}, got {version!r:.80}; write the spec again"
        )
    if not isinstance(description, dict) or description.keys() != _KEYS:
        keys = sorted(description) if isinstance(description, dict) else type(description).__name__
        raise ValueError(f"a spec's JSON has the keys {sorted(_KEYS)}, got {keys!s:.200}")
    for flag in _FLAGS:
        if not isinstance(description[flag], bool):
            raise ValueError(f"{flag!r} must be true or false, got {description[flag]!r:.80}")
    kwargs, wrappers = description["kwargs"], description["wrappers"]
    if not isinstance(kwargs, dict) or not isinstance(wrappers, list):
        raise ValueError("a spec's kwargs must be an object and its wrappers a list")
    registered = _registered(description["id"])
    try:
        return EnvSpec(
            id=registered.id,
            entry_point=registered.entry_point,
            vector_entry_point=registered.vector_entry_point,
            max_episode_steps=description["max_episode_steps"],
            reward_threshold=from_json_value(description["reward_threshold"]),
            kwargs=from_json_value(kwargs),
            wrappers=tuple(map(_wrapper_from_json, wrappers)),
            **{flag: description[flag] for flag in _FLAGS},
        )
    except TypeError as error:
        raise ValueError(f"malformed spec of {registered.id}: {error}") from error


def _registered(id: Any) -> EnvSpec:
    from sekai.registry.registry import spec

    if not isinstance(id, str) or len(id) > LONGEST_ID:
        raise ValueError(f"a spec's id must be text of at most {LONGEST_ID}, got {id!r:.80}")
    return spec(id)


def _check_registered(spec: EnvSpec) -> None:
    """Raise `ValueError` unless the id determines the env."""
    try:
        registered = _registered(spec.id)
    except UnknownEnvError as error:
        raise ValueError(
            f"{spec.id!r} is not registered, so its spec cannot be written as JSON; register it "
            f"first ({error})"
        ) from error
    for name in _ENTRY_POINTS:
        own, known = getattr(spec, name), getattr(registered, name)
        if _named(own) != _named(known):
            raise ValueError(
                f"the {name} of {spec.id} is {own!r}, but {known!r} is registered under that id, "
                f"so the spec cannot be written as JSON; register it under another id"
            )


def _named(entry_point: EntryPoint | None) -> EntryPoint | None:
    return None if entry_point is None else named(entry_point)


def _arguments_to_json(kwargs: Mapping[str, Any], owner: str) -> dict[str, Any]:
    # A name that begins with a dollar would be read as a tag.
    for name in kwargs:
        if name[:1] == "$":
            raise ValueError(f"the argument {name!r} {owner} begins with '$'; rename it")
    return {
        name: to_json_value(value, f"the argument {name!r} {owner}")
        for name, value in kwargs.items()
    }


def _wrapper_to_json(wrapper: WrapperSpec) -> dict[str, Any]:
    owner = f"of the wrapper {wrapper.name}"
    return {
        "name": _name_of_wrapper(wrapper),
        "kwargs": _arguments_to_json(wrapper.kwargs, owner),
        "args": [to_json_value(value, f"a positional argument {owner}") for value in wrapper.args],
    }


def _wrapper_from_json(description: Any) -> WrapperSpec:
    if not isinstance(description, dict) or description.keys() != _WRAPPER_KEYS:
        raise ValueError(
            f"a wrapper has the keys {sorted(_WRAPPER_KEYS)}, got {description!r:.200}"
        )
    kwargs, args = (from_json_value(description[name]) for name in ("kwargs", "args"))
    if not isinstance(kwargs, dict) or not isinstance(args, list):
        raise ValueError("a wrapper's kwargs must be an object and its args a list")
    return WrapperSpec(_wrapper_named(description["name"]), kwargs, tuple(args))


def _built_in_wrappers() -> dict[str, Any]:
    from sekai import wrappers

    return {name: getattr(wrappers, name) for name in wrappers.__all__}


def _name_of_wrapper(wrapper: WrapperSpec) -> str:
    path = named(wrapper.entry_point)
    for name, known in _built_in_wrappers().items():
        if named(known) == path:
            return name
    registered = name_of_kind(wrapper.entry_point)
    if registered is None or not is_registered(registered):
        raise ValueError(
            f"the wrapper {wrapper.name} is neither one of sekai.wrappers nor a registered kind, "
            f"so a spec with it cannot be written as JSON; register it with "
            f"sekai.registry.register_kind"
        )
    return registered


def _wrapper_named(name: Any) -> Any:
    known = _built_in_wrappers()
    if isinstance(name, str) and name in known:
        return known[name]
    if isinstance(name, str) and is_registered(name):
        return kind_named(name)
    advice = suggestion(close_matches(name, known)) if isinstance(name, str) else ""
    raise ValueError(
        f"unknown wrapper {name!r:.80}; expected one of sekai.wrappers, or one that the program "
        f"registers with sekai.registry.register_kind before it reads the spec{advice}"
    )
