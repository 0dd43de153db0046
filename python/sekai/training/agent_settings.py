"""Hyperparameters shared by all algorithms, policy networks, and tuned values for env ids."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, TypeVar

from sekai.registry import EnvSpec
from sekai.training.settings import Settings, require

__all__ = ["AgentSettings", "PolicySettings", "Schedule", "default_settings", "scheduled"]

Own = TypeVar("Own", bound="AgentSettings")

Schedule = Literal["constant", "linear"]
"""Constant, or linear decay to zero at the total steps of training; see `Agent.fit`."""

ACTIVATIONS = ("tanh", "relu", "silu")
GRAPHS = ("correlation", "sectors")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicySettings(Settings):
    """Architecture of the policy and value networks."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentSettings(Settings):
    """Hyperparameters of every algorithm."""

    n_envs: int = 64
    """Environments that act in parallel, if they are made from an id or a function."""

    learning_rate: float = 3e-4
    """Step size of the optimizer."""

    learning_rate_schedule: Schedule = "constant"
    """"constant", or "linear" decay to zero at the total steps of training."""

    gamma: float = 0.99
    """Discount factor."""

    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""

    norm_reward: bool = True
    """Divide rewards by the running root mean square of discounted returns."""

    threads: int = 1
    """Threads of torch: more help with large networks and idle cores."""

    policy: PolicySettings = dataclasses.field(default_factory=PolicySettings)
    """Architecture of the networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("n_envs", "threads")
        self._require_positive("learning_rate", "max_grad_norm")
        self._require_share("gamma")
        schedule, allowed = self.learning_rate_schedule, ("constant", "linear")
        require(schedule in allowed, "learning_rate_schedule", f"one of {allowed}", schedule)


def scheduled(start: float, schedule: Schedule, progress: float) -> float:
    """Scheduled value after a fraction `progress` of the total steps."""
    return start if schedule == "constant" else start * max(0.0, 1.0 - progress)


MARKET_MAKING: dict[str, Any] = {
    # A fill pays at once; later price moves of the inventory are noise.
    "gamma": 0.9,
    "learning_rate": 2e-3,
    "learning_rate_schedule": "linear",
    # Quotes range from -1 to 5, and crossing the mid price is expensive.
    "policy": {"std_init": 0.2},
}

OPTIMAL_EXECUTION: dict[str, Any] = {
    # An order of 25 decisions is not discounted, and a rollout is one order.
    "gamma": 1.0,
    "n_steps": 25,
    "learning_rate": 1e-3,
    "policy": {"std_init": 0.3},
}

PORTFOLIO: dict[str, Any] = {
    # Weights pay at once or in the following days; the rest is noise.
    "gamma": 0.9,
    "gae_lambda": 0.5,
    "learning_rate": 5e-3,
    "learning_rate_schedule": "linear",
    # Exploration trades and pays for it; assets need few features.
    "policy": {"std_init": 0.25, "width": 16},
}

BY_ENV: dict[str, dict[str, dict[str, Any]]] = {
    "MarketMaking-v0": {
        "PPOSettings": {**MARKET_MAKING, "n_steps": 16},
        "A2CSettings": {**MARKET_MAKING, "n_steps": 8},
    },
    "OptimalExecution-v0": {
        "PPOSettings": OPTIMAL_EXECUTION,
        "A2CSettings": {**OPTIMAL_EXECUTION, "n_steps": 5, "learning_rate": 2e-3},
    },
    "Portfolio-v0": {
        "PPOSettings": {**PORTFOLIO, "n_steps": 16, "clip_range": 0.3},
        "A2CSettings": PORTFOLIO,
    },
}
"""Tuned hyperparameters by env id and settings class."""


def default_settings(kind: type[Own], env: Any) -> Own:
    """Default hyperparameters of an algorithm, tuned if the env id is known."""
    name = env.id if isinstance(env, EnvSpec) else env if isinstance(env, str) else ""
    return kind.from_dict(BY_ENV.get(name, {}).get(kind.__name__, {}))
