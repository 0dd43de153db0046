"""Specs as strict JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from sekai.registry.json_value import entry_point_to_json, from_json_value, to_json_value
from sekai.registry.spec import EnvSpec
from sekai.registry.wrapper_spec import WrapperSpec

__all__ = ["spec_from_json", "spec_to_json"]

_FLAGS = ("order_enforce", "validate_actions", "nondeterministic")
_KEYS = frozenset(
    {"id", "entry_point", "max_episode_steps", "reward_threshold", "kwargs", *_FLAGS}
    | {"vector_entry_point", "wrappers"}
)


def spec_to_json(spec: EnvSpec) -> str:
    """The text from which `spec_from_json` reads an equal spec."""
    vector = spec.vector_entry_point
    description: dict[str, Any] = {
        "id": spec.id,
        "entry_point": entry_point_to_json(spec.entry_point, f"the entry_point of {spec.id}"),
        "max_episode_steps": spec.max_episode_steps,
        "reward_threshold": to_json_value(spec.reward_threshold, "reward_threshold"),
        "kwargs": {
            name: to_json_value(value, f"the argument {name!r} of {spec.id}")
            for name, value in spec.kwargs.items()
        },
        **{flag: bool(getattr(spec, flag)) for flag in _FLAGS},
        "vector_entry_point": None
        if vector is None
        else entry_point_to_json(vector, f"the vector_entry_point of {spec.id}"),
        "wrappers": [wrapper.to_jsonable() for wrapper in spec.wrappers],
    }
    return json.dumps(description, allow_nan=False)


def spec_from_json(text: str) -> EnvSpec:
    """The spec that `spec_to_json` wrote, or a `ValueError` that says what is wrong with it."""
    description = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(description, dict) or description.keys() != _KEYS:
        found = sorted(description) if isinstance(description, dict) else type(description).__name__
        raise ValueError(f"a spec's JSON has the keys {sorted(_KEYS)}, found {found}")
    for flag in _FLAGS:
        if not isinstance(description[flag], bool):
            raise ValueError(f"{flag!r} must be true or false, was {description[flag]!r}")
    return EnvSpec(
        **{
            **description,
            "reward_threshold": from_json_value(description["reward_threshold"]),
            "kwargs": from_json_value(description["kwargs"]),
            "wrappers": tuple(map(WrapperSpec.from_jsonable, description["wrappers"])),
        }
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"strict JSON was wanted, found {name}")
