"""Settings of policies and agents: frozen, checked, and readable from TOML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from sekai.config.checked import CheckedConfig
from sekai.config.convert import SCALARS, require
from sekai.config.toml_file import dump_toml, read_toml
from sekai.storage.names import did_you_mean

__all__ = ["SEVERAL_KINDS", "PolicySettings", "Settings", "require"]

Own = TypeVar("Own", bound="Settings")

ACTIVATIONS = ("tanh", "relu", "silu")
GRAPHS = ("correlation", "sectors")

SEVERAL_KINDS = "several kinds"
"""Metadata key of a field that accepts values of other types than the default's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(CheckedConfig):
    """Hyperparameters by name; each algorithm has its own subclass."""

    _aliases: ClassVar[Mapping[str, str]] = {}
    """Settings by names that other packages give them, for hints in errors."""

    _remedies: ClassVar[Mapping[str, str]] = {}
    """Remedies by names that are no settings here."""

    @classmethod
    def from_dict(cls: type[Own], values: Mapping[str, Any]) -> Own:
        """Build settings from plain values; an unknown name is an error with the closest one."""
        fields = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in fields:
                remedy = cls._remedies.get(name)
                hint = f"; {remedy}" if remedy else did_you_mean(name, fields, cls._aliases)
                raise ValueError(f"{cls.__name__} has no setting {name!r}{hint}")
        return cls(**values)

    def __post_init__(self) -> None:
        """Convert lists to tuples and mappings to settings, and check the types."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, without those that are None."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_toml(cls: type[Own], path: str | Path) -> Own:
        """Read settings from a TOML file."""
        return cls.from_dict(read_toml(Path(path))[0])

    def to_toml(self) -> str:
        """Return the settings as TOML text."""
        return dump_toml(self.to_dict())

    def replaced(self: Own, **changes: Any) -> Own:
        """Copy with some settings changed and checked."""
        return type(self).from_dict({**self.to_dict(), **changes})

    def _require_share(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, name, "from 0 to 1", value)

    def _require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, "finite and above 0", value)

    def _require_count(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
            require(is_count, name, "a whole number of at least 1", value)


POLICY_ALIASES = {
    "activation_fn": "activation",
    "features_dim": "cnn_features",
    "features_extractor": "backbone",
    "features_extractor_class": "backbone",
    "hidden_sizes": "net_arch",
    "layers": "net_arch",
    "normalize_observations": "norm_obs",
    "num_heads": "heads",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicySettings(Settings):
    """Architecture of the policy and value networks."""

    _aliases: ClassVar[Mapping[str, str]] = POLICY_ALIASES

    backbone: str = "auto"
    """"mlp" reads the flattened observation. "mean", "max", "attention" and "graph" encode assets
    one by one and differ in how information is exchanged between them. "cnn" has convolutions over
    images. "auto" is "mean" if the observation has assets, "cnn" if it has images (uint8, three
    axes), else "mlp". See `register_backbone` for custom ones."""

    net_arch: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of "mlp", and after the features of "cnn"."""

    cnn_layers: tuple[tuple[int, int, int], ...] = ()
    """Channels, kernel size and stride of each convolution of "cnn"; () for NatureCNN, or smaller
    kernels for images of less than 36 pixels a side."""

    cnn_features: int = 256
    """Features of an image after the convolutions of "cnn"."""

    encoder: str = "mlp"
    """Encoder of one asset: "mlp", "convolution" or "gru"."""

    encoder_layers: int = 2
    """Layers of the encoder "mlp"."""

    width: int = 64
    """Size of the embedding of each asset and of the pooled embedding."""

    aggregator_layers: int = 1
    """Layers that exchange information between assets."""

    heads: int = 4
    """Heads of "attention"; `width` must be a multiple."""

    graph: Literal["correlation", "sectors"] = "correlation"
    """Edges of "graph": correlations over the window, or equal `sectors`."""

    sectors: tuple[str, ...] = ()
    """Sector of each slot, "" for none."""

    correlated_feature: int = 0
    """Index of the feature whose correlations over the window are the graph."""

    slots_leaf: str | None = None
    """Part of the observation with the assets, of shape (slots, features) or (times, slots,
    features); None finds those of portfolios and of a `MaskedBox` by name."""

    mask_leaf: str | None = None
    """Part with the mask of slots in use; None takes "mask" beside the assets."""

    weights_leaf: str | None = None
    """Part with the weight held of each slot; None takes "weights" beside the assets."""

    share_features_extractor: bool = False
    """True lets actor and critic share the backbone: fewer weights, not less time."""

    activation: Literal["tanh", "relu", "silu"] = "tanh"
    """Activation function of hidden layers."""

    std_init: float = 0.5
    """Initial standard deviation of Gaussian actions in [-1, 1]."""

    norm_obs: bool = True
    """Normalize observations by their running mean and variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.activation in ACTIVATIONS, "activation", f"one of {ACTIVATIONS}", self.activation
        )
        convolutions = tuple(tuple(layer) for layer in self.cnn_layers)
        are_counts = all(
            len(layer) == 3 and all(type(count) is int and count > 0 for count in layer)
            for layer in convolutions
        )
        expected = "triples of channels, kernel size and stride, at least 1 each"
        require(are_counts, "cnn_layers", expected, self.cnn_layers)
        object.__setattr__(self, "cnn_layers", convolutions)
        are_sizes = all(isinstance(size, int) and size > 0 for size in self.net_arch)
        require(are_sizes, "net_arch", "integers of at least 1", self.net_arch)
        self._require_positive("std_init")
        self._require_count("cnn_features", "width", "encoder_layers", "aggregator_layers", "heads")
        require(self.graph in GRAPHS, "graph", f"one of {GRAPHS}", self.graph)
        feature = self.correlated_feature
        is_index = isinstance(feature, int) and feature >= 0
        require(is_index, "correlated_feature", "an integer of at least 0", feature)
        if self.backbone == "attention":
            is_multiple = self.width % self.heads == 0
            require(is_multiple, "width", f"a multiple of the {self.heads} heads", self.width)


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    factory: Any = field.default_factory
    if isinstance(factory, type) and issubclass(factory, Settings):
        settings = factory.from_dict(value) if isinstance(value, Mapping) else value
        expected = f"{factory.__name__} or a mapping"
        require(isinstance(settings, factory), field.name, expected, value)
        return settings
    if isinstance(value, list):
        value = tuple(value)
    # Without a default, or with None or several kinds, the type is unknown.
    kind = type(None if field.metadata.get(SEVERAL_KINDS) else field.default)
    if kind in SCALARS:
        types, name = SCALARS[kind]
        fits = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
        require(fits, field.name, name, value)
    elif kind is tuple:
        require(isinstance(value, tuple), field.name, "a list", value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
