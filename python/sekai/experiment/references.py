"""References `package.module:name` in experiment files, and the modules that they import.

Only an experiment file of the user and the option `--import` have code imported. A run folder holds
references as data: they are resolved if the user names their modules again.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sekai.compat import adapt_env
from sekai.config.toml_file import ConfigError, ConfigSource, KeyPath
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.data import Events
from sekai.data.features.feature import (
    FittedFeature,
    PanelFeature,
    parse_spec,
    register_feature,
    registered_name,
)
from sekai.experiment.experiment import MODULE
from sekai.experiment.preparation import CUSTOM_SOURCES
from sekai.registry import register
from sekai.storage.kinds import name_of_kind, register_kind
from sekai.storage.names import did_you_mean

NAMES = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
REFERENCE = re.compile(rf"(?<![\w.:/\\'\"])({NAMES}):({NAMES})(?![\w:/\\])")

POLICY_KEYS = ("backbone", "encoder")


@dataclass(frozen=True, slots=True)
class CodeReference:
    """Object of a module of the user, named by an experiment."""

    path: KeyPath
    """Key that names it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


def find_references(values: Mapping[str, Any]) -> list[CodeReference]:
    """References in the values of an experiment: in `[env]`, `[data]`, `[policy]`, `[evaluate]`."""
    return [
        CodeReference(path, match[1], match[2])
        for path, text in _texts(values)
        for match in _matches(path, text)
    ]


def import_for(source: ConfigSource, imports: Sequence[str]) -> tuple[str, ...]:
    """Import the modules that an experiment needs, and return those of `[run]` and `--import`.

    Args:
        source: values of the experiment.
        imports: modules that the user named, or experiment files of the user, which name some.

    Raises:
        ConfigError: there is no such module, or only a run folder names it.
    """
    trusted = _expanded(imports)
    listed = source.values.get("run", {}).get("imports", ())
    needed: dict[str, KeyPath] = dict.fromkeys(listed, ("run", "imports"))
    needed |= {found.module: found.path for found in find_references(source.values)}
    if source.is_data:
        _require_consent(source, needed, trusted)
    for name, path in (dict.fromkeys(trusted, ()) | needed).items():
        _import(source, name, path)
    return tuple(dict.fromkeys([*listed, *trusted]))


def resolve(source: ConfigSource) -> tuple[ConfigSource, dict[KeyPath, Any]]:
    """Replace references by the names under which their objects are registered, or the objects.

    Their modules must have been imported.

    Returns:
        The experiment, and the values that were replaced, by section and key.

    Raises:
        ConfigError: a module lacks the name, or the object does not fit the key.
    """
    values = copy.deepcopy(source.values)
    replaced: dict[KeyPath, Any] = {}
    for found in find_references(source.values):
        section, key, *_ = found.path
        replaced[section, key] = source.values[section][key]
    for section, key in replaced:
        values[section][key] = _replaced(source, (section, key), values[section][key])
    return dataclasses.replace(source, values=values), replaced


def add_working_folder() -> str:
    """Make files of the working folder importable, as `python -m` does, and return its path."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return folder


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Texts of an experiment that may hold references, with their keys."""
    for section in ("env", "data", "policy", "evaluate"):
        table = values.get(section)
        for key, value in table.items() if isinstance(table, dict) else ():
            is_named = {
                "env": True,
                "data": key in ("source", "features"),
                "policy": key in POLICY_KEYS,
                "evaluate": key == "baselines",
            }[section]
            if is_named:
                yield from _nested_texts((section, key), value)


def _nested_texts(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for item in value:
            yield from _nested_texts(path, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nested_texts((*path, key), item)


def _matches(path: KeyPath, text: str) -> Iterator[re.Match[str]]:
    if path == ("data", "features"):
        yield from REFERENCE.finditer(text)
        return
    match = REFERENCE.fullmatch(text)
    if match is not None and not (path == ("data", "source") and Path(text).exists()):
        yield match


def _expanded(imports: Sequence[str]) -> list[str]:
    """Names of modules; an experiment file stands for the modules that it names."""
    names: list[str] = []
    for name in imports:
        if not name.endswith(".toml"):
            names.append(name)
            continue
        source = ConfigSource.read(Path(name))
        if source.is_data:
            raise ConfigError(
                f"{name} belongs to a run folder; expected an experiment file of your own, or a "
                f"module"
            )
        names.extend(source.values.get("run", {}).get("imports", ()))
        names.extend(found.module for found in find_references(source.values))
    return list(dict.fromkeys(names))


def _require_consent(
    source: ConfigSource, needed: Mapping[str, KeyPath], trusted: Iterable[str]
) -> None:
    """Refuse modules that only a run folder names; options of the command are the user's own."""
    known = set(trusted)
    missing = {
        name: path
        for name, path in needed.items()
        if name not in known and path not in source.options
    }
    if missing:
        options = " ".join(f"--import {name}" for name in missing)
        source.refuse(
            next(iter(missing.values())),
            f"the run needs the modules {', '.join(missing)}, and a run folder cannot import "
            f"modules; if you trust them, pass {options}, or --import with your experiment file",
        )


def _import(source: ConfigSource, name: str, path: KeyPath) -> None:
    if not isinstance(name, str) or MODULE.fullmatch(name) is None:
        source.refuse(path, f"malformed module name {name!r:.80}; expected package.module")
    folder = add_working_folder()
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A missing import inside the module is an error of its own.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        message = f"there is no module {name!r}; expected one in {folder} or an installed package"
        source.refuse(path, message)


def _object(source: ConfigSource, reference: CodeReference) -> Any:
    module = sys.modules[reference.module]
    try:
        return operator.attrgetter(reference.name)(module)
    except AttributeError:
        known = [name for name in vars(module) if name[0] != "_"]
        hint = did_you_mean(reference.name, known)
        source.refuse(reference.path, f"{reference.module} has no {reference.name!r}{hint}")


def _replaced(source: ConfigSource, path: KeyPath, value: Any) -> Any:
    """Copy of a value in which references are replaced."""
    if isinstance(value, dict):
        return {key: _replaced(source, (*path, key), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(source, path, item) for item in value]
    if not isinstance(value, str) or next(_matches(path, value), None) is None:
        return value
    if path == ("data", "features"):
        return _feature(source, value)
    match = REFERENCE.fullmatch(value)
    assert match is not None, "only features have text around references"
    reference = CodeReference(path, match[1], match[2])
    target = _object(source, reference)
    if not callable(target):
        source.refuse(path, f"{value} must be a class or a function, got {target!r:.80}")
    return _registered(reference, target)


def _registered(reference: CodeReference, target: Any) -> Any:
    """Register the object under a name; in other keys of envs, the object itself."""
    text = str(reference)
    if reference.path == ("env", "id"):
        id = f"{reference.module}/{reference.name}"
        register(id, _entry_point(text, target), force=True)
        return id
    if reference.path[0] == "env":
        if name_of_kind(target) is None:
            # Snapshots of the env hold the object by this name.
            register_kind(text.replace(":", "."), target)
        return target
    if reference.path == ("data", "source"):
        CUSTOM_SOURCES[text] = target
    elif reference.path == ("evaluate", "baselines"):
        from sekai.evaluation.baselines import register_baseline

        register_baseline(text, target if isinstance(target, type) else lambda: target, force=True)
    else:
        from sekai.training.policies.actor_critic import BACKBONES
        from sekai.training.policies.assets import ENCODERS

        table: dict[str, Any] = {"backbone": BACKBONES, "encoder": ENCODERS}[reference.path[1]]  # type: ignore[assignment]
        table[text] = target
    return text


def _entry_point(text: str, target: Any) -> str | Callable[..., Any]:
    if isinstance(target, type) and issubclass(target, (Env, MultiAgentEnv)):
        return text

    @functools.wraps(target)
    def make(*args: Any, **kwargs: Any) -> Any:
        return adapt_env(target(*args, **kwargs))

    if isinstance(target, type):
        # Annotations of a class are those of its attributes, not of its arguments.
        make.__annotations__ = {}
    return make


def _feature(source: ConfigSource, text: str) -> Any:
    """Feature spec with registered names; or a feature, for an object that is one or makes one."""
    path = ("data", "features")
    objects: dict[str, Any] = {}

    def named(match: re.Match[str]) -> str:
        target = _object(source, CodeReference(path, match[1], match[2]))
        if callable(target) and not _is_made(target):
            return _feature_name(match[0], target)
        objects[match[0]] = target
        return match[0]

    spec = REFERENCE.sub(named, text)
    if not objects:
        return spec
    head = REFERENCE.match(text)
    if len(objects) > 1 or head is None:
        names = ", ".join(objects)
        source.refuse(path, f"{names} cannot be a parameter of a feature; expected a function")
    return _made_feature(source, objects[head[0]], text, text[head.end() :])


def _is_made(target: Any) -> bool:
    """Return True for features, events, and methods of events that make features."""
    is_method = isinstance(getattr(target, "__self__", None), Events)
    is_object = isinstance(target, (PanelFeature, Events)) or (
        isinstance(target, FittedFeature) and not isinstance(target, type)
    )
    return is_method or is_object


def _feature_name(text: str, target: Any) -> str:
    name = registered_name(target)
    if name is not None:
        return name
    name = re.sub(r"\W", "_", text)
    attributes = {key: getattr(target, key, None) for key in ("lookback", "channels", "stream")}
    if isinstance(target, type):
        # Of a class, these are properties of its instances.
        attributes = {}
    register_feature(name, force=True, **attributes)(target)
    return name


def _made_feature(source: ConfigSource, target: Any, text: str, arguments: str) -> Any:
    path = ("data", "features")
    if isinstance(target, Events):
        target = target.latest if arguments else target.latest()
    if not arguments:
        return target() if getattr(target, "__self__", None) is not None else target
    if not callable(target) or isinstance(target, PanelFeature):
        source.refuse(path, f"{text} takes no parameters; remove the parentheses")
    try:
        _, positional, by_name = parse_spec(f"feature{arguments}")
        return target(*positional, **by_name)
    except (TypeError, ValueError) as error:
        source.refuse(path, f"{text} is invalid: {error}")
