"""Features of a panel: point-in-time functions, their registry and specs such as `momentum(20)`."""

from __future__ import annotations

import ast
import copy
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.error import NotFittedError, StateError
from sekai.storage.names import unknown_name

Floats = NDArray[np.float64]
FeatureFunction = Callable[[MarketData], Any]
"""Function returning rows, rows by assets, or rows by assets by channels; NaN where missing."""

GROUP = "sekai.features"
"""Entry point group: each name is a feature, each value a module or a function registering it."""
MAX_SPEC_LENGTH = 1_000


@runtime_checkable
class FittedFeature(Protocol):
    """Interface of features that are fitted on training data before they are computed."""

    def fit(self, data: MarketData) -> Any:
        """Fit to training data."""

    def transform(self, data: MarketData) -> Any:
        """Compute the feature, with the result of a `FeatureFunction`."""


class RowStream(Protocol):
    """Interface of features computed row by row with a state.

    With `state_dict()` and `load_state_dict()` as well, streams need not keep all rows.
    """

    def push(self, data: MarketData) -> Floats:
        """Compute the rows that follow those pushed before: rows by assets by channels."""


class PanelFeature:
    """Feature with its name, lookback and channels.

    `lookback` is the number of rows, the latest included, that determine the latest row bit for
    bit. It is None if all history is needed, or if it is unknown. `learns` is True if the feature
    must be fitted.

    Args:
        compute: function or fitted feature that computes the values.
        name: name of the channels; by default the name of the function.
        lookback: rows that one row depends on, or None for all.
        channels: names of the channels, if there are several.
        spec: text from which `make_feature` creates the feature, if possible.
        stream: factory of a `RowStream` that computes the same rows one by one.
    """

    def __init__(
        self,
        compute: FeatureFunction | FittedFeature,
        *,
        name: str | None = None,
        lookback: int | None = None,
        channels: tuple[str, ...] | None = None,
        spec: str | None = None,
        stream: Callable[[], RowStream] | None = None,
    ) -> None:
        if lookback is not None and lookback < 1:
            raise ValueError(f"lookback must be at least 1, got {lookback}")
        self._compute = compute
        self.name = name or str(getattr(compute, "__name__", type(compute).__name__))
        self.lookback = lookback
        self.spec = spec
        self.stream = stream
        self._channels = channels
        self.learns = isinstance(compute, FittedFeature)
        self._fitted = not self.learns
        self._call = _call(compute)

    def __repr__(self) -> str:
        return f"<feature {self.name}, lookback {self.lookback}>"

    @property
    def fitted(self) -> bool:
        """True if it can be computed now."""
        return self._fitted

    @property
    def compute(self) -> FeatureFunction | FittedFeature:
        """Function or fitted feature that computes the values."""
        return self._compute

    def fit(self, data: MarketData) -> PanelFeature:
        """Fit to training data, if the feature learns."""
        if isinstance(self._compute, FittedFeature):
            self._compute.fit(data)
            self._fitted = True
        return self

    def __call__(self, data: MarketData) -> Floats:
        """Compute the values: rows by assets by channels, NaN where missing."""
        if not self._fitted:
            raise NotFittedError(f"feature {self.name} is not fitted; call fit(train) first")
        values = np.asarray(self._call(data), np.float64)
        shape = (len(data), len(data.assets))
        if values.shape == shape[:1]:
            values = np.broadcast_to(values[:, None], shape)
        if values.shape == shape:
            values = values[:, :, None]
        if values.shape[:2] != shape or values.ndim != 3 or not values.shape[2]:
            raise ValueError(
                f"{self.name} must return rows, rows by assets or rows by assets by channels of a "
                f"panel of {shape[0]} rows and {shape[1]} assets, got shape {values.shape}"
            )
        return values

    def channels(self, count: int) -> tuple[str, ...]:
        """Names of its `count` channels."""
        if self._channels is None:
            return (self.name,) if count == 1 else tuple(f"{self.name}[{i}]" for i in range(count))
        if len(self._channels) != count:
            raise ValueError(f"{self.name} has {len(self._channels)} channels, got {count}")
        return tuple(f"{self.name}.{channel}" for channel in self._channels)

    def perturb_after(self, time: Any, rng: np.random.Generator) -> PanelFeature:
        """Copy in which data of the feature itself, such as events, differ after `time`."""
        if not hasattr(self._compute, "perturb_after"):
            return self
        other = copy.copy(self)
        other._compute = self._compute.perturb_after(time, rng)
        other._call = _call(other._compute)
        return other

    def state_dict(self) -> dict[str, Any]:
        """Fitted state, serializable as JSON."""
        if not self.learns:
            return {}
        if not hasattr(self._compute, "state_dict"):
            raise StateError(
                f"{self.name} cannot be saved: its {type(self._compute).__name__} needs "
                f"state_dict() and load_state_dict()"
            )
        state: dict[str, Any] = self._compute.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a fitted state."""
        if not self.learns:
            return
        if not hasattr(self._compute, "load_state_dict"):
            raise StateError(f"{self.name} cannot be restored: it has no load_state_dict()")
        self._compute.load_state_dict(state)
        self._fitted = True


def _call(compute: FeatureFunction | FittedFeature) -> FeatureFunction:
    return compute.transform if isinstance(compute, FittedFeature) else compute


def as_feature(source: str | PanelFeature | FeatureFunction | FittedFeature) -> PanelFeature:
    """Create a feature from a spec, a function of a panel, or a fitted feature."""
    if isinstance(source, PanelFeature):
        return source
    if isinstance(source, str):
        return make_feature(source)
    if not callable(source) and not isinstance(source, FittedFeature):
        raise TypeError(
            f"feature must be a spec, a function of a panel or an object with fit and transform, "
            f"got {source!r}"
        )
    return PanelFeature(source, lookback=getattr(source, "lookback", None))


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
    """Register a function of a panel, or a class with `fit` and `transform`, as a feature.

    A function takes the panel and then its parameters; a class takes its parameters.

    Args:
        name: identifier.
        lookback: rows that one row depends on, or a function of the parameters that returns it;
            None for all history.
        channels: names of several channels, or a function of the parameters that returns them.
        stream: factory of a `RowStream` from the parameters, for features that need all history.
        force: replace a feature of the same name.
    """
    if not name.isidentifier():
        raise ValueError(f"feature name must be an identifier, got {name!r}")
    if name in _KINDS and not force:
        raise ValueError(f"feature {name!r} is already registered; pass force=True to replace it")

    def register(maker: Maker) -> Maker:
        signature = inspect.signature(maker)
        if not isinstance(maker, type):
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        _KINDS[name] = _Kind(name, maker, signature, lookback, channels, stream)
        return maker

    return register


def feature_kinds() -> tuple[str, ...]:
    """List the names of all features, including those of installed plugins."""
    _load_library()
    return tuple(sorted({*_KINDS, *_plugins()}))


def registered_name(maker: Any) -> str | None:
    """Name under which a function or a class is registered as a feature; None if it is not."""
    return next((name for name, kind in _KINDS.items() if kind.maker is maker), None)


def make_feature(spec: str, *arguments: Any, **parameters: Any) -> PanelFeature:
    """Create a feature from a spec such as `momentum(20)`, or from a name and parameters."""
    name, positional, by_name = parse_spec(spec)
    if (positional or by_name) and (arguments or parameters):
        raise TypeError(f"pass parameters in the spec {spec!r} or as arguments, not both")
    kind = _kind(name)
    try:
        bound = kind.parameters.bind(*positional, *arguments, **by_name, **parameters)
    except TypeError as error:
        signature = kind.parameters.replace(return_annotation=inspect.Signature.empty)
        raise TypeError(
            f"invalid parameters in {spec!r}: {error}; expected {name}{signature}"
        ) from error
    bound.apply_defaults()
    try:
        return _made(kind, bound)
    except ValueError as error:
        # A feature within a feature has named itself.
        is_named = str(error).startswith("invalid parameters in ")
        message = f"{error}" if is_named else f"invalid parameters in {spec!r}: {error}"
        raise ValueError(message) from error


def _made(kind: _Kind, bound: inspect.BoundArguments) -> PanelFeature:
    arguments, keywords = bound.args, bound.kwargs
    if isinstance(kind.maker, type):
        compute = kind.maker(*arguments, **keywords)
    else:
        compute = _Call(kind.maker, arguments, keywords)
    stream = None if kind.stream is None else partial(kind.stream, *arguments, **keywords)
    return PanelFeature(
        compute,
        name=_spec(kind.name, bound, in_full=False),
        lookback=_resolve(kind.lookback, bound),
        channels=_resolve(kind.channels, bound),
        spec=_spec(kind.name, bound) if all(map(_has_spec, _values(bound))) else None,
        stream=stream,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """Registered function with its parameters."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, data: Any) -> Any:
        return self.function(data, *self.arguments, **self.keywords)

    def perturb_after(self, time: Any, rng: Any) -> _Call:
        arguments = tuple(_perturbed(value, time, rng) for value in self.arguments)
        keywords = {key: _perturbed(value, time, rng) for key, value in self.keywords.items()}
        return _Call(self.function, arguments, keywords)


def _perturbed(value: Any, time: Any, rng: Any) -> Any:
    return value.perturb_after(time, rng) if isinstance(value, PanelFeature) else value


def _resolve(value: Any, bound: inspect.BoundArguments) -> Any:
    return value(*bound.args, **bound.kwargs) if callable(value) else value


def _values(bound: inspect.BoundArguments) -> list[Any]:
    return [*bound.args, *bound.kwargs.values()]


def _has_spec(value: Any) -> bool:
    if isinstance(value, PanelFeature):
        return value.spec is not None
    return isinstance(value, (str, int, float, type(None)))


def _spec(name: str, bound: inspect.BoundArguments, in_full: bool = True) -> str:
    """Spec of bound arguments: in full, or without default values."""
    arguments: list[Any] = []
    keywords = {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments.extend(value)
        elif in_full or value != parameter.default:
            keywords[parameter.name] = _nested(value, in_full)
    return format_spec(name, arguments, keywords)


def _nested(value: Any, in_full: bool) -> Any:
    """Spec of a feature that is a parameter of another; any other value as it is."""
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
        for load in _plugins().get(name, ()):
            load()
    if name not in _KINDS:
        raise KeyError(unknown_name("feature", name, feature_kinds()))
    return _KINDS[name]


def _plugins() -> dict[str, list[Callable[[], None]]]:
    from importlib.metadata import entry_points

    plugins: dict[str, list[Callable[[], None]]] = {}
    for entry_point in entry_points(group=GROUP):
        plugins.setdefault(entry_point.name, []).append(partial(_load, entry_point))
    return plugins


def _load(entry_point: Any) -> None:
    loaded = entry_point.load()
    # Importing a module registers its features; a function must still be called.
    if not isinstance(loaded, ModuleType):
        loaded()


def _load_library() -> None:
    import sekai.data.features.library  # noqa: F401  (registers the built-in features)


def parse_spec(spec: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Parse a feature spec to its name, positional and keyword arguments.

    Arguments are numbers, strings, True, False and None. An unquoted word is a string, and so is
    a nested feature.
    """
    if len(spec) > MAX_SPEC_LENGTH:
        raise _malformed(spec)
    try:
        node = ast.parse(spec.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Deep nesting exhausts the parser; NUL bytes raise ValueError.
        raise _malformed(spec) from error
    if isinstance(node, ast.Name):
        return node.id, [], {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _malformed(spec)
    keywords = {item.arg: _value(item.value, spec) for item in node.keywords if item.arg}
    if len(keywords) < len(node.keywords):
        raise _malformed(spec)
    return node.func.id, [_value(item, spec) for item in node.args], keywords


def format_spec(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Write the spec that parses to this name and these arguments."""
    parts = [_text(value) for value in arguments]
    parts += [f"{key}={_text(value)}" for key, value in keywords.items()]
    return f"{name}({', '.join(parts)})" if parts else name


def _value(node: ast.expr, spec: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return ast.unparse(node)
    try:
        value = ast.literal_eval(node)
    except ValueError as error:
        raise _malformed(spec) from error
    if not isinstance(value, (int, float, str, bool, type(None))):
        raise _malformed(spec)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    if value.isidentifier() and not keyword.iskeyword(value):
        return value
    return value if _is_call(value) else repr(value)


def _is_call(text: str) -> bool:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.Call) and ast.unparse(node) == text


def _malformed(spec: str) -> ValueError:
    return ValueError(
        f"malformed feature spec {spec!r:.200}; expected one such as 'momentum', 'momentum(20)' "
        f"or 'rank(momentum(rows=20))'"
    )
