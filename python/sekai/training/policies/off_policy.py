"""Off-policy networks: deterministic, squashed and Gumbel-softmax actors, Q-network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform
from torch.nn.functional import huber_loss

from sekai.policy.native import MAX_LOG_STD, MIN_LOG_STD
from sekai.policy.settings import PolicySettings, require
from sekai.training.actions import ActionMap
from sekai.training.observations import observed_mask
from sekai.training.policies.actor_critic import (
    HEAD_GAIN,
    Backbone,
    CategoricalHead,
    Features,
    GaussianHead,
    linear,
)
from sekai.training.rng import exponential, normal

__all__ = [
    "DeterministicActor",
    "GumbelSoftmaxActor",
    "QNetwork",
    "SquashedGaussianActor",
    "check_quantiles",
    "choices_of",
    "lesser_values",
    "one_hot",
    "q_values",
    "quantile_huber_loss",
    "random_choices",
]

HUBER_THRESHOLD = 0.1
"""Errors of quantiles below which their loss is quadratic, in scaled returns.

Within it expectiles are estimated: at the usual 1, all of scaled returns would be.
"""


class DeterministicActor(nn.Module):
    """Deterministic policy: preprocessed observations to actions in [-1, 1]."""

    def __init__(self, body: Backbone, actions: ActionMap, std: float) -> None:
        super().__init__()
        self.body = body
        self.head = _fixed_std_head(body, actions, std)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Actions in [-1, 1]."""
        numbers: Tensor = self.head(self.body(inputs))[0]
        return torch.tanh(numbers)


class SquashedGaussianActor(nn.Module):
    """Tanh-squashed Gaussian policy with state-dependent standard deviation."""

    def __init__(self, body: Backbone, actions: ActionMap, std: float) -> None:
        super().__init__()
        self.body = body
        self.head = _fixed_std_head(body, actions, std)
        self.std_head = _fixed_std_head(body, actions, std)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Means and standard deviations before squashing."""
        features = self.body(inputs)
        means, std, *_ = self.head(features)
        change = self.std_head(features)[0]
        return means, (std.log() + change).clamp(MIN_LOG_STD, MAX_LOG_STD).exp()

    def choose(self, inputs: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions in [-1, 1]."""
        means, std = self(inputs)
        if not deterministic:
            means = means + std * normal(means.shape).to(means.device)
        return torch.tanh(means)

    def sample(self, inputs: Mapping[str, Tensor], count: int = 1) -> tuple[Tensor, Tensor]:
        """Reparameterized actions with their log-probabilities.

        Args:
            inputs: preprocessed observations.
            count: actions of each observation, which follow one another.
        """
        means, std = self(inputs)
        if count > 1:
            means, std = (part.repeat_interleave(count, dim=0) for part in (means, std))
        gaussian: Any = Normal(means, std, validate_args=False)
        # The stream of the agent, on any device.
        numbers = means + normal(means.shape).to(means.device) * std
        actions: Tensor = _BoundedTanh.apply(numbers)
        log_probs: Tensor = gaussian.log_prob(numbers).sum(-1)
        squash: Any = TanhTransform()
        jacobian: Tensor = squash.log_abs_det_jacobian(numbers, actions)
        return actions, log_probs - jacobian.sum(-1)


class GumbelSoftmaxActor(nn.Module):
    """Discrete policy with one-hot samples and straight-through Gumbel-softmax gradients."""

    def __init__(self, body: Backbone, actions: ActionMap, temperature: float) -> None:
        super().__init__()
        self.body, self.choices, self.temperature = body, actions.choices, temperature
        self.head = CategoricalHead(body, actions)

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits with forbidden actions masked."""
        logits: Tensor = self.head(self.body(inputs), observed_mask(inputs))
        return logits

    def free_logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits before masking."""
        logits: Tensor = self.head(self.body(inputs))
        return logits

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """One-hot samples."""
        parts = torch.split(self.logits(inputs), list(self.choices), dim=-1)
        return torch.cat([_gumbel_softmax(part, self.temperature) for part in parts], dim=-1)

    def mode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Most likely choices, as integers."""
        return choices_of(self.logits(inputs), self.choices)


class QNetwork(nn.Module):
    """Q-function: preprocessed observations and actions to values.

    With slots, the action of each slot is read beside the features of that slot by weights that
    all slots share, and the mean over slots in use is pooled, so that the order of assets makes no
    difference. The remaining actions are read beside the features of the observation. Discrete
    actions are read as one-hot vectors.
    """

    def __init__(
        self, body: Backbone, actions: ActionMap, settings: PolicySettings, outputs: int = 1
    ) -> None:
        super().__init__()
        self.body = body
        slots, size = int(getattr(body, "slots", 0)), actions.size or sum(actions.choices)
        self.slots = slots if actions.size >= slots else 0
        width, rest = body.width, size - self.slots
        self.each = _joint_layer(width, 1, width) if self.slots else None
        hidden = settings.net_arch[-1] if settings.net_arch else width
        self.both = _joint_layer(2 * width if self.slots else width, rest, hidden)
        # A small gain: the actor would climb a random initial slope.
        self.value = linear(hidden, outputs, HEAD_GAIN)

    def forward(self, inputs: Mapping[str, Tensor], actions: Tensor) -> Tensor:
        """Q-values: batch by outputs."""
        return self.values_of(self.body(inputs), actions)

    def values_of(self, features: Features, actions: Tensor) -> Tensor:
        """Q-values from the features of observations: batch by outputs."""
        parts = [features.whole]
        if self.each is not None and features.slots is not None:
            parts.append(self._over_slots(self.each, features, features.slots, actions))
        parts.append(actions[..., self.slots :])
        value: Tensor = self.value(self.both(torch.cat(parts, dim=-1)))
        return value

    def _over_slots(
        self, layer: nn.Module, features: Features, slots: Tensor, actions: Tensor
    ) -> Tensor:
        numbers = actions[..., : self.slots].unsqueeze(-1)
        values: Tensor = layer(torch.cat([slots, numbers], dim=-1))
        if features.mask is None:
            return values.mean(dim=-2)
        used = features.mask.unsqueeze(-1).to(values.dtype)
        return (values * used).sum(dim=-2) / used.sum(dim=-2).clamp_min(1.0)


def q_values(critics: nn.Module, observations: Mapping[str, Tensor], actions: Tensor) -> Tensor:
    """Q-values of several networks: critics by batch by outputs."""
    return torch.stack([critic(observations, actions) for critic in critics.children()])


def lesser_values(values: Tensor) -> Tensor:
    """Outputs of the critic with the least mean, row by row: batch by outputs.

    Args:
        values: critics by batch by outputs.
    """
    if values.shape[-1] == 1:
        return values.min(0).values
    index = values.mean(-1, keepdim=True).argmin(0, keepdim=True)
    return values.gather(0, index.expand(1, *values.shape[1:])).squeeze(0)


def check_quantiles(count: int) -> None:
    """Raise unless a number of quantiles is 0, for means, or at least 2."""
    require(count == 0 or count >= 2, "n_quantiles", "0 for means, or at least 2", count)


def quantile_huber_loss(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Quantile Huber loss of each row, quadratic for errors up to `HUBER_THRESHOLD`.

    Args:
        quantiles: estimated quantiles at equidistant levels: rows by quantiles.
        targets: samples of the distribution: rows by samples.
    """
    count = quantiles.shape[-1]
    levels = (torch.arange(count, device=quantiles.device) + 0.5) / count
    errors = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
    huber = huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=HUBER_THRESHOLD)
    huber = huber / HUBER_THRESHOLD
    weights = (levels.unsqueeze(-1) - (errors.detach() < 0).float()).abs()
    return (weights * huber).mean(-1).sum(-1)


def one_hot(choices: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Integer choices as concatenated one-hot vectors."""
    parts = [
        nn.functional.one_hot(choice, count)
        for choice, count in zip(choices.unbind(-1), counts, strict=True)
    ]
    return torch.cat(parts, dim=-1).float()


def choices_of(scores: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Integer choices with the highest scores, such as one-hot vectors or logits."""
    parts = torch.split(scores, list(counts), dim=-1)
    return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)


def random_choices(counts: tuple[int, ...], rows: int, mask: Tensor | None) -> Tensor:
    """Uniform random choices within an action mask: rows by choices."""
    weights = torch.ones(rows, sum(counts)) if mask is None else mask.float()
    # Absent agents have an empty mask: any choice will do.
    parts = [
        torch.where(part.sum(-1, keepdim=True) > 0, part, torch.ones_like(part))
        for part in torch.split(weights, list(counts), dim=-1)
    ]
    return torch.stack([(part / exponential(part.shape)).argmax(-1) for part in parts], dim=-1)


class _BoundedTanh(torch.autograd.Function):
    """Tanh with values strictly inside (-1, 1), and gradients at these values."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor) -> Tensor:
        limit = 1.0 - torch.finfo(numbers.dtype).resolution
        output = numbers.tanh().clamp(-limit, limit)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        output: Tensor = ctx.saved_tensors[0]
        return gradients[0] * (1 - output.pow(2))


def _fixed_std_head(body: Backbone, actions: ActionMap, std: float) -> GaussianHead:
    head = GaussianHead(body, actions, std)
    head.log_std.requires_grad_(False)
    return head


def _joint_layer(features: int, actions: int, width: int) -> nn.Sequential:
    """Layer that reads actions beside features.

    Q-functions have a maximum between too little and too much. Layers of tanh without biases are
    odd functions, which learn a maximum last; this layer starts with random biases and weights of
    actions as large as those of all features together.
    """
    layer = linear(features + actions, width)
    with torch.no_grad():
        if actions:
            layer.weight[:, features:].normal_(0.0, math.sqrt(2.0 / actions))
        layer.bias.uniform_(-1.0, 1.0)
    return nn.Sequential(layer, nn.SiLU())


def _gumbel_softmax(logits: Tensor, temperature: float) -> Tensor:
    noise = -exponential(logits.shape).log().to(logits.device)
    soft = torch.softmax((logits + noise) / temperature, dim=-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return hard + soft - soft.detach()
