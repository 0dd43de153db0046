"""Actor-critic networks: MLP backbone, policy and value heads, action distributions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, constraints

from sekai.policy.observations import ACTION_MASK, Leaf, is_action_mask, slots_of
from sekai.policy.program import MASKED_LOGIT, backbone_name, mask_names
from sekai.policy.settings import PolicySettings
from sekai.storage.names import close_matches
from sekai.training.actions import ActionMap
from sekai.training.normalizers import Gather, Inputs, ObservationNormalizer
from sekai.training.rng import exponential, normal
from sekai.training.trained_policy import PolicyNetwork

__all__ = [
    "BACKBONES",
    "FLAT",
    "SB3_POLICIES",
    "Actor",
    "ActorCritic",
    "ActorNetwork",
    "Backbone",
    "CategoricalHead",
    "Critic",
    "DiagGaussian",
    "Factory",
    "FastTanh",
    "Features",
    "GaussianHead",
    "MLPBackbone",
    "MultiCategorical",
    "activation",
    "backbone",
    "inputs_of",
    "layers",
    "linear",
    "register_backbone",
]

FLAT = "/flat"
"""Name of the leaves side by side, which no leaf has."""

HEAD_GAIN = 0.01
"""Initial gain of policy heads: the first policy is nearly uniform."""

SB3_POLICIES = {"MlpPolicy": "mlp", "CnnPolicy": "cnn", "MultiInputPolicy": "auto"}
"""Backbones by names of policies in stable-baselines3, for hints in errors."""

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features that a backbone extracts from a batch of observations."""

    whole: Tensor
    """Features of the observation: batch by width."""

    slots: Tensor | None = None
    """Features of each asset, if there are assets: batch by slots by width."""

    mask: Tensor | None = None
    """Mask of slots in use: batch by slots."""

    def repeated(self, count: int) -> Features:
        """Features of each observation `count` times, one after the other."""
        slots = None if self.slots is None else self.slots.repeat_interleave(count, dim=0)
        mask = None if self.mask is None else self.mask.repeat_interleave(count, dim=0)
        return Features(self.whole.repeat_interleave(count, dim=0), slots, mask)


class Backbone(nn.Module, ABC):
    """Network that extracts features from preprocessed observations."""

    width: int
    """Number of features of the observation, and of each slot."""

    slots: int = 0
    """Number of asset slots, 0 for none."""

    mask_name: str | None = None
    """Observation leaf with the mask of slots in use; None if all are."""

    @abstractmethod
    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Extract features of a batch."""


class MLPBackbone(Backbone):
    """Multilayer perceptron over the flattened observation."""

    def __init__(self, leaves: Mapping[str, Leaf], settings: PolicySettings) -> None:
        super().__init__()
        self.names = [name for name in leaves if not is_action_mask(name)]
        width = sum(leaves[name].width for name in self.names)
        self.body = layers(width, settings.net_arch, settings)
        self.width = settings.net_arch[-1] if settings.net_arch else width

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Extract features of a batch, of leaves or of those that `flattened` returned."""
        return Features(self.body(self.flattened(inputs)))

    def flattened(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Leaves side by side: batch by inputs."""
        if FLAT in inputs:
            return inputs[FLAT]
        parts = [
            inputs[name].flatten(1) if inputs[name].dim() > 1 else inputs[name].unsqueeze(1)
            for name in self.names
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


Factory = Callable[[Mapping[str, Leaf], PolicySettings], Backbone]
"""Makes a backbone for observations with these leaves."""

BACKBONES: dict[str, Factory] = {"mlp": MLPBackbone}
"""Backbones by name; `policies.assets` and `policies.images` add theirs."""


def register_backbone(name: str, factory: Factory) -> None:
    """Register a custom backbone for `PPO(env, policy=name)`.

    Args:
        name: name in the settings.
        factory: makes a backbone from the observation leaves and the settings.
    """
    if name == "auto" or name in BACKBONES:
        raise ValueError(f"backbone {name!r} is already registered; choose a new name")
    BACKBONES[name] = factory


def backbone(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Backbone:
    """Make the backbone that the settings name, for leaves as `Inputs` preprocesses them."""
    name = backbone_name(leaves, settings)
    if name not in BACKBONES:
        known = ["auto", *BACKBONES]
        close = [SB3_POLICIES[name]] if name in SB3_POLICIES else close_matches(name, known)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"backbone must be one of {', '.join(known)}, got {name!r}{hint}")
    return BACKBONES[name](leaves, settings)


def inputs_of(
    leaves: Mapping[str, Leaf], settings: PolicySettings, gather: Gather | None = None
) -> Inputs:
    """Make the observation preprocessing for `backbone(inputs.leaves, settings)`.

    Args:
        leaves: observation leaves of the env.
        settings: policy settings.
        gather: window lookup, if observations hold window indices.
    """
    input_leaves = leaves if gather is None else gather.leaves(leaves)
    # The MLP has weights for each position; backbones that share weights share moments.
    slots = None if settings.backbone == "mlp" else slots_of(input_leaves, settings)
    normalizer = ObservationNormalizer(input_leaves, slots) if settings.norm_obs else None
    return Inputs(leaves, normalizer, gather)


class FastTanh(nn.Module):
    """Hyperbolic tangent, equal to `nn.Tanh` up to rounding in a third of its time.

    In policies of the usual size `nn.Tanh` costs more than all matrix products.
    """

    def forward(self, numbers: Tensor) -> Tensor:
        """Elementwise tanh."""
        # tanh(x) = 2 sigmoid(2 x) - 1, and the sigmoid is vectorized.
        return torch.rsub(torch.sigmoid(numbers + numbers), -1.0, alpha=-2.0)


_ACTIVATIONS = {"tanh": FastTanh, "relu": nn.ReLU, "silu": nn.SiLU}


def activation(settings: PolicySettings) -> nn.Module:
    """Make the activation that the settings name."""
    module: nn.Module = _ACTIVATIONS[settings.activation]()
    return module


def linear(in_features: int, out_features: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """Linear layer with orthogonal initialization and zero bias."""
    layer = nn.Linear(in_features, out_features)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def layers(width: int, sizes: Sequence[int], settings: PolicySettings) -> nn.Sequential:
    """Linear layers with activations, from `width` inputs to the last of `sizes`."""
    parts: list[nn.Module] = []
    for size in sizes:
        parts += [linear(width, size), activation(settings)]
        width = size
    return nn.Sequential(*parts)


class CategoricalHead(nn.Module):
    """Logits of discrete actions.

    With one choice for each slot, from equally many, all slots share weights. An unused slot takes
    the middle choice with certainty: for portfolio tilts, no change.
    """

    middle: Tensor

    def __init__(self, body: Backbone, actions: ActionMap) -> None:
        super().__init__()
        kinds = set(actions.choices)
        self.slots = body.slots if len(actions.choices) == body.slots and len(kinds) == 1 else 0
        width = actions.choices[0] if self.slots else sum(actions.choices)
        self.logits = linear(body.width, width, HEAD_GAIN)
        self.register_buffer("middle", torch.arange(width) == width // 2, persistent=False)

    def forward(self, features: Features, allowed: Tensor | None = None) -> Tensor:
        """Logits with forbidden actions masked."""
        if not self.slots or features.slots is None:
            return _masked(self.logits(features.whole), allowed)
        logits = self.logits(features.slots)
        if allowed is not None:
            allowed = allowed.reshape(logits.shape)
        if features.mask is not None:
            everything = torch.ones_like(logits, dtype=torch.bool)
            allowed = self._fix_unused(features.mask, everything if allowed is None else allowed)
        return _masked(logits, allowed).flatten(1)

    def _fix_unused(self, used: Tensor, allowed: Tensor) -> Tensor:
        """Allow only the middle choice of unused slots, unless it is forbidden."""
        fixed = allowed & self.middle
        is_free = used.unsqueeze(-1) | ~fixed.any(-1, keepdim=True)
        return torch.where(is_free, allowed, fixed)


class GaussianHead(nn.Module):
    """Means and standard deviations of continuous actions near [-1, 1].

    The action of a slot comes from the features of that slot, by weights that all slots share, so
    that the policy is equivariant to the order of assets. A remaining action (cash) comes from the
    features of the observation.
    """

    def __init__(self, body: Backbone, actions: ActionMap, std: float) -> None:
        super().__init__()
        self.slots = body.slots if actions.size in (body.slots, body.slots + 1) else 0
        self.is_masked = bool(self.slots) and body.mask_name is not None
        self.size = actions.size
        rest = actions.size - self.slots
        self.each = linear(body.width, 1, HEAD_GAIN) if self.slots else None
        self.rest = linear(body.width, rest, HEAD_GAIN) if rest else None
        own = 1 if self.slots else 0
        self.log_std = nn.Parameter(torch.full((own + rest,), math.log(std)))

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """Means, standard deviations and, if slots are masked, the mask of actions in use."""
        parts, logs = [], []
        if self.each is not None and features.slots is not None:
            parts.append(self.each(features.slots).squeeze(-1))
            logs.append(self.log_std[:1].expand(self.slots))
        if self.rest is not None:
            parts.append(self.rest(features.whole))
            logs.append(self.log_std[1:] if self.slots else self.log_std)
        means = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        std = (logs[0] if len(logs) == 1 else torch.cat(logs)).exp().expand_as(means)
        if not self.is_masked or features.mask is None:
            return means, std
        used = _used_actions(features.mask, means.shape[-1])
        return means.masked_fill(~used, 0.0), std, used

    def used(self, body: Backbone, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        if not self.is_masked or body.mask_name is None:
            return None
        return _used_actions(observations[body.mask_name] != 0, self.size)


class MultiCategorical(Distribution):
    """One or several independent categorical distributions from concatenated logits.

    Args:
        logits: logits of all choices, one after another in the last axis.
        counts: number of options of each choice; empty for one choice from all.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.nonnegative_integer

    def __init__(self, logits: Tensor, counts: tuple[int, ...] = ()) -> None:
        self.counts = counts or (logits.shape[-1],)
        self.logs = [
            torch.log_softmax(part, dim=-1)
            for part in torch.split(logits, list(self.counts), dim=-1)
        ]
        batch = logits.shape[:-1]
        super().__init__(batch, torch.Size([len(self.counts)]), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample by the Gumbel-max trick."""
        if sample_shape:
            raise ValueError(f"sample_shape must be empty, got {sample_shape}")
        choices = [
            (logs - exponential(logs.shape, logs.dtype).log().to(logs.device)).argmax(dim=-1)
            for logs in self.logs
        ]
        return torch.stack(choices, dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Joint log-probability of all choices."""
        chosen = [
            logs.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
            for logs, choice in zip(self.logs, value.long().unbind(-1), strict=True)
        ]
        return torch.stack(chosen, dim=-1).sum(-1)

    def entropy(self) -> Tensor:
        """Sum of the entropies."""
        # Masked actions have a log-probability of minus infinity.
        parts = [-(logs.exp() * logs.clamp_min(-1e9)).sum(-1) for logs in self.logs]
        return torch.stack(parts, dim=-1).sum(-1)

    @property
    def mode(self) -> Tensor:
        """Most likely choices."""
        return torch.stack([logs.argmax(dim=-1) for logs in self.logs], dim=-1)


class DiagGaussian(Distribution):
    """Gaussian with diagonal covariance, of which some components may be unused.

    Args:
        loc: means.
        scale: standard deviations.
        used: mask of components in use; the others equal their means and have no density.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, scale: Tensor, used: Tensor | None = None) -> None:
        self.loc, self.scale, self.used = loc, scale, used
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Sample with the reparameterization trick."""
        noise = normal(torch.Size(sample_shape) + self.loc.shape, self.loc.dtype)
        noise = noise.to(self.loc.device)
        return self.loc + self.scale * (noise if self.used is None else noise * self.used)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Joint log-density of the components in use."""
        distance = (value - self.loc) / self.scale
        parts = torch.addcmul(self._log_scale(), distance, distance, value=0.5)
        if self.used is None:
            return -_HALF_LOG_TWO_PI * parts.shape[-1] - parts.sum(-1)
        return -self._sum(parts + _HALF_LOG_TWO_PI)

    def entropy(self) -> Tensor:
        """Sum of the entropies of the components in use."""
        return self._sum(0.5 + _HALF_LOG_TWO_PI + self._log_scale().expand_as(self.loc))

    @property
    def mode(self) -> Tensor:
        """Means."""
        return self.loc

    def _log_scale(self) -> Tensor:
        # A standard deviation that is equal for all rows needs one row of logarithms.
        is_one_row = self.scale.dim() > 1 and self.scale.stride(0) == 0
        return (self.scale[:1] if is_one_row else self.scale).log()

    def _sum(self, parts: Tensor) -> Tensor:
        return parts.sum(-1) if self.used is None else (parts * self.used).sum(-1)


class Actor(nn.Module):
    """Policy network: observations to a distribution over actions.

    Args:
        inputs: observation preprocessing.
        body: backbone.
        actions: action space mapping.
        std: initial standard deviation of continuous actions.
        mask_names: observation leaves with the action mask.
    """

    def __init__(
        self,
        inputs: Inputs,
        body: Backbone,
        actions: ActionMap,
        std: float,
        mask_names: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.inputs, self.body, self.actions = inputs, body, actions
        self.choices, self.is_bounded = actions.choices, actions.is_bounded
        self.mask_names = mask_names if self.choices else ()
        self.head: CategoricalHead | GaussianHead
        if self.choices:
            self.head = CategoricalHead(body, actions)
        else:
            self.head = GaussianHead(body, actions, std)

    def forward(
        self, observations: Mapping[str, Tensor], preprocessed: bool = False
    ) -> tuple[Tensor, ...]:
        """Logits; or means, standard deviations and, if slots are masked, the actions in use.

        Args:
            observations: raw observations.
            preprocessed: observations are outputs of `Inputs`, beside action masks.
        """
        features = self.body(observations if preprocessed else self.inputs(observations))
        return self.outputs(features, observations)

    def outputs(self, features: Features, observations: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Parameters of the action distribution from features, within action masks."""
        if isinstance(self.head, CategoricalHead):
            return (self.head(features, self.allowed(observations)),)
        means, *rest = self.head(features)
        # Actions beyond the bounds are all the same: means there would have no gradient.
        return (torch.tanh(means) if self.is_bounded else means), *rest

    def distribution(
        self, observations: Mapping[str, Tensor], preprocessed: bool = False
    ) -> Distribution:
        """Action distribution; arguments as in `forward`."""
        return self.distribution_of(self(observations, preprocessed))

    def distribution_of(self, parameters: Sequence[Tensor]) -> Distribution:
        """Action distribution from its parameters."""
        if self.choices:
            return MultiCategorical(parameters[0], self.choices)
        return DiagGaussian(*parameters)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        head = self.head
        return head.used(self.body, observations) if isinstance(head, GaussianHead) else None

    def allowed(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of allowed actions; None if observations have none."""
        # A mask passed to `predict` takes precedence over parts of the observation.
        names = (ACTION_MASK,) if ACTION_MASK in observations else self.mask_names
        device = self.inputs.device
        masks = [observations[name].to(device) for name in names if name in observations]
        if not masks:
            return None
        return torch.cat([mask.reshape(len(mask), -1) != 0 for mask in masks], dim=-1)


class Critic(nn.Module):
    """Value network: observations to the value function."""

    def __init__(self, inputs: Inputs, body: Backbone) -> None:
        super().__init__()
        self.inputs, self.body = inputs, body
        self.value = linear(body.width, 1, 1.0)

    def forward(self, observations: Mapping[str, Tensor], preprocessed: bool = False) -> Tensor:
        """Values: batch by one; arguments as in `Actor.forward`."""
        features = self.body(observations if preprocessed else self.inputs(observations))
        value: Tensor = self.value(features.whole)
        return value


class ActorNetwork(PolicyNetwork):
    """Actor with its observation normalizer.

    Args:
        leaves: observation leaves.
        actions: action space mapping.
        settings: architecture.
        gather: window lookup, if observations hold window indices.
    """

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        self.inputs = inputs_of(leaves, settings, gather)
        body = backbone(self.inputs.leaves, settings)
        masks = mask_names(leaves, actions.choices)
        std = settings.std_init * actions.std_scale
        self.actor = Actor(self.inputs, body, actions, std, masks)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions before conversion to the action space of the env."""
        distribution = self.actor.distribution(observations)
        actions: Tensor = distribution.mode if deterministic else distribution.sample()
        return actions

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        return self.actor.used(observations)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Logits or means."""
        parameters: Tensor = self.actor(observations)[0]
        return parameters


class ActorCritic(ActorNetwork):
    """Actor and critic with their observation normalizer.

    Args:
        leaves: observation leaves of the actor.
        actions: action space mapping.
        settings: architecture.
        gather: window lookup, if observations hold window indices.
        critic_leaves: observation leaves of the critic, if they differ from the actor's.
    """

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        gather: Gather | None = None,
        critic_leaves: Mapping[str, Leaf] | None = None,
    ) -> None:
        super().__init__(leaves, actions, settings, gather)
        self.critic_inputs = self.inputs
        if critic_leaves is not None:
            # Joint observations of several agents have no layout of assets.
            settings = settings.replaced(backbone="mlp", share_features_extractor=False)
            self.critic_inputs = inputs_of(critic_leaves, settings)
        shared = settings.share_features_extractor
        own = self.actor.body if shared else backbone(self.critic_inputs.leaves, settings)
        self.critic = Critic(self.critic_inputs, own)


def _used_actions(mask: Tensor, width: int) -> Tensor:
    """Mask of `width` actions: slots in use, and all actions after the slots."""
    return torch.cat([mask, mask.new_ones(len(mask), width - mask.shape[1])], dim=-1)


def _masked(logits: Tensor, allowed: Tensor | None) -> Tensor:
    return logits if allowed is None else logits.masked_fill(~allowed, MASKED_LOGIT)
