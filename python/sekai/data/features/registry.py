"""Features by name: those of the library, of installed packages, and one's own.

@register_feature("spread", lookback=1)
def spread(data: MarketData, unit: float = 1e-4) -> Floats:
    return (data.field("ask") / data.field("bid") - 1) / unit

make_feature("spread"), make_feature("spread(unit=0.01)"), make_feature("spread", unit=0.01)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from sekai.data.features.feature import PanelFeature, RowStream, as_feature
from sekai.data.features.spec import parsed, written

__all__ = ["GROUP", "feature_kinds", "make_feature", "register_feature"]

GROUP = "sekai.features"
"""The entry point group: each name is a feature, each value registers it, or is a module."""

Maker = TypeVar("Maker", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    maker: Callable[..., Any]
    parameters: inspect.Signature
    lookback: Callable[..., int | None] | int | None
    channels: Callable[..., tuple[str, ...]] | tuple[str, ...] | None
    stream: Callable[..., RowStream] | None


_KINDS: dict[str, _Kind] = {}


def register_feature(
    name: str,
    *,
    lookback: Callable[..., int | None] | int | None = None,
    channels: Callable[..., tuple[str, ...]] | tuple[str, ...] | None = None,
    stream: Callable[..., RowStream] | None = None,
    force: bool = False,
) -> Callable[[Maker], Maker]:
    """Give a function of a panel a name, or a class that has `fit` and `transform`.

    A function takes the panel and then its parameters; a class takes its parameters.

    Args:
        name: a word.
        lookback: the rows that one row needs, or a function of the parameters that tells; None
            for a feature that needs all history.
        channels: the names of what it gives, if more than one number, or a function that tells.
        stream: makes a `RowStream` from the parameters, for features that need all history.
        force: replace a feature of the same name.
    """
    if not name.isidentifier():
        raise ValueError(f"the name of a feature must be a word, was {name!r}")
    if name in _KINDS and not force:
        raise ValueError(f"a feature named {name!r} is there already: force=True replaces it")

    def register(maker: Maker) -> Maker:
        signature = inspect.signature(maker)
        if not isinstance(maker, type):
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        _KINDS[name] = _Kind(name, maker, signature, lookback, channels, stream)
        return maker

    return register


def feature_kinds() -> tuple[str, ...]:
    """The names of all features, those of installed packages included."""
    _load_library()
    return tuple(sorted({*_KINDS, *_announced()}))


def make_feature(spec: str, *arguments: Any, **parameters: Any) -> PanelFeature:
    """The feature of a spec such as `momentum(20)`, or of a name and parameters."""
    name, given, by_name = parsed(spec)
    if (given or by_name) and (arguments or parameters):
        raise TypeError(f"parameters in {spec!r} or beside it were wanted, found both")
    kind = _kind(name)
    try:
        bound = kind.parameters.bind(*given, *arguments, **by_name, **parameters)
    except TypeError as error:
        wanted = f"{name}{kind.parameters.replace(return_annotation=inspect.Signature.empty)}"
        raise TypeError(f"parameters of {wanted} were wanted, found {spec!r}: {error}") from error
    bound.apply_defaults()
    return _made(kind, bound)


def _made(kind: _Kind, bound: inspect.BoundArguments) -> PanelFeature:
    arguments, keywords = bound.args, bound.kwargs
    if isinstance(kind.maker, type):
        compute = kind.maker(*arguments, **keywords)
    else:
        compute = _Call(kind.maker, arguments, keywords)
    stream = None if kind.stream is None else partial(kind.stream, *arguments, **keywords)
    return PanelFeature(
        compute,
        name=_written(kind.name, bound, in_full=False),
        lookback=_told(kind.lookback, bound),
        channels=_told(kind.channels, bound),
        spec=_written(kind.name, bound) if all(map(_has_spec, _values(bound))) else None,
        stream=stream,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """A registered function with its parameters."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, data: Any) -> Any:
        return self.function(data, *self.arguments, **self.keywords)

    def perturb_after(self, time: Any, rng: Any) -> _Call:
        """The same call where features among the parameters differ after `time`."""
        arguments = tuple(_perturbed(value, time, rng) for value in self.arguments)
        keywords = {key: _perturbed(value, time, rng) for key, value in self.keywords.items()}
        return _Call(self.function, arguments, keywords)


def _perturbed(value: Any, time: Any, rng: Any) -> Any:
    return value.perturb_after(time, rng) if isinstance(value, PanelFeature) else value


def _told(known: Any, bound: inspect.BoundArguments) -> Any:
    return known(*bound.args, **bound.kwargs) if callable(known) else known


def _values(bound: inspect.BoundArguments) -> list[Any]:
    return [*bound.args, *bound.kwargs.values()]


def _has_spec(value: Any) -> bool:
    if isinstance(value, PanelFeature):
        return value.spec is not None
    return isinstance(value, (str, int, float, type(None)))


def _written(name: str, bound: inspect.BoundArguments, in_full: bool = True) -> str:
    """The spec of what is bound: in full, or without what is as by default."""
    arguments: list[Any] = []
    keywords = {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments.extend(value)
        elif in_full or value != parameter.default:
            keywords[parameter.name] = _nested(value, in_full)
    return written(name, arguments, keywords)


def _nested(value: Any, in_full: bool) -> Any:
    """A feature that is a parameter of another by its spec; anything else as it is."""
    if isinstance(value, str) and "(" in value:
        value = make_feature(value)
    if callable(value) and not isinstance(value, PanelFeature):
        value = as_feature(value)
    if not isinstance(value, PanelFeature):
        return value
    return (value.spec if in_full else None) or value.name


def _kind(name: str) -> _Kind:
    _load_library()
    if name not in _KINDS:
        for load in _announced().get(name, ()):
            load()
    if name not in _KINDS:
        raise KeyError(f"a feature among {', '.join(feature_kinds())} was wanted, found {name!r}")
    return _KINDS[name]


def _announced() -> dict[str, list[Callable[[], None]]]:
    from importlib.metadata import entry_points

    found: dict[str, list[Callable[[], None]]] = {}
    for entry_point in entry_points(group=GROUP):
        found.setdefault(entry_point.name, []).append(partial(_load, entry_point))
    return found


def _load(entry_point: Any) -> None:
    loaded = entry_point.load()
    # Importing a module has registered its features; a loader is still to be called.
    if not isinstance(loaded, ModuleType):
        loaded()


def _load_library() -> None:
    import sekai.data.features.calendar_features
    import sekai.data.features.cross_section
    import sekai.data.features.indicator_features
    import sekai.data.features.library  # noqa: F401
