"""How the networks of a policy are built."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sekai.training.settings import Settings, require

__all__ = ["PolicySettings"]

ACTIVATIONS = ("tanh", "relu", "silu")
GRAPHS = ("correlation", "sectors")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicySettings(Settings):
    """Sizes and kinds of a policy's parts."""

    backbone: str = "auto"
    """"mlp" reads all numbers in a row. "mean", "max", "attention" and "graph" read assets one by
    one, and differ in how these learn of each other. "auto" is "mean" where the observation has
    assets, else "mlp". See `register_backbone` for your own."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the layers of "mlp" between what is read and what is decided."""

    encoder: str = "mlp"
    """What reads an asset: "mlp", "convolution" or "gru"."""

    encoder_layers: int = 2
    """Layers of the encoder "mlp"."""

    width: int = 64
    """Numbers that are known of each asset, and of all together."""

    aggregator_layers: int = 1
    """How often assets learn of each other."""

    heads: int = 4
    """Heads of "attention", which share the width."""

    graph: Literal["correlation", "sectors"] = "correlation"
    """What makes neighbours for "graph": that they move together, or `sectors`."""

    sectors: tuple[str, ...] = ()
    """The sector of each slot, "" where there is none."""

    correlated_feature: int = 0
    """The feature whose correlations over the window are the graph."""

    slots_leaf: str | None = None
    """The part of an observation that holds assets, of shape (slots, features) or (times, slots,
    features); None finds those of portfolios and of a `MaskedBox` by their names."""

    mask_leaf: str | None = None
    """The part that says which slots are in use; None takes "mask" beside the assets."""

    weights_leaf: str | None = None
    """The part that says what is held of each slot; None takes "weights" beside the assets."""

    shared: bool = False
    """Whether the critic reads with the layers of the actor, and only judges by its own: fewer
    weights, which both teach; not less time."""

    activation: Literal["tanh", "relu", "silu"] = "tanh"

    initial_spread: float = 0.5
    """The standard deviation with which numbers near [-1, 1] are chosen at first."""

    normalise: bool = True
    """Whether observations are centred and scaled by what was seen so far."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.activation in ACTIVATIONS, "activation", f"one of {ACTIVATIONS}",
                self.activation)  # fmt: skip
        whole = all(isinstance(width, int) and width > 0 for width in self.hidden)
        require(whole, "hidden", "whole numbers of at least 1", self.hidden)
        self._require_positive("initial_spread")
        self._require_count("width", "encoder_layers", "aggregator_layers", "heads")
        require(self.graph in GRAPHS, "graph", f"one of {GRAPHS}", self.graph)
        feature = self.correlated_feature
        is_place = isinstance(feature, int) and feature >= 0
        require(is_place, "correlated_feature", "a whole number of at least 0", feature)
        if self.backbone == "attention":
            require(self.width % self.heads == 0, "width",
                    f"a multiple of the {self.heads} heads", self.width)  # fmt: skip
