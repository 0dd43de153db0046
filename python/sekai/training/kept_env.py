"""The env that a file names, as far as a file may name one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sekai.error import UnknownEnvError
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.registry.deferred import Deferred
from sekai.registry.entry_point import named
from sekai.training.kept_file import ModelFileError

__all__ = ["kept_env"]

OWN = "sekai."


def kept_env(content: Mapping[str, Any], path: Any) -> EnvSpec:
    """The spec in a file, if everything it would import is known here without the file.

    Making an env calls what its spec names. A file may only name what is registered under its id
    here, wrappers and values of sekai, and those of the package that the registered env is from.

    Raises:
        ModelFileError: there is no spec, it cannot be read, or it names something else.
    """
    text = content.get("env")
    if text is None:
        raise ModelFileError(f"{path} does not say how to make its env: pass env=...")
    try:
        spec = EnvSpec.from_json(text)
        registered = spec_of(spec.id)
    except (TypeError, ValueError, KeyError, AttributeError, UnknownEnvError) as error:
        raise ModelFileError(
            f"{path}: the env cannot be read, or is not registered here ({error}): pass env=..."
        ) from error
    for name in ("entry_point", "vector_entry_point"):
        if _path(getattr(spec, name)) != _path(getattr(registered, name)):
            raise ModelFileError(
                f"{path} names {getattr(spec, name)!r} as the {name} of {spec.id}, which is not "
                "what is registered here: pass env=..."
            )
    allowed = (OWN, str(_path(registered.entry_point)).partition(".")[0] + ".")
    for found in _imports(spec):
        if not isinstance(found, str) or not found.startswith(allowed):
            raise ModelFileError(f"{path} wants {found!r:.80} to be imported: pass env=...")
    return spec


def _path(entry_point: Any) -> Any:
    return None if entry_point is None else named(entry_point)


def _imports(spec: EnvSpec) -> Iterator[Any]:
    yield from _deferred(dict(spec.kwargs))
    for wrapper in spec.wrappers:
        yield _path(wrapper.entry_point)
        yield from _deferred([dict(wrapper.kwargs), list(wrapper.args)])


def _deferred(value: Any) -> Iterator[Any]:
    if isinstance(value, Deferred):
        payload = value.payload
        yield payload[0] if isinstance(payload, list) and payload else payload
        yield from _deferred(payload)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _deferred(key)
            yield from _deferred(part)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from _deferred(part)
