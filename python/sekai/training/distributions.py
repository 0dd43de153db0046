"""How likely a policy is to choose what."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from sekai.training.randomness import normal, waits

__all__ = ["Choices", "Numbers"]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Choices(Distribution):
    """One pick or several, independent of each other, from logits that lie one after the other."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.nonnegative_integer

    def __init__(self, logits: Tensor, counts: tuple[int, ...] = ()) -> None:
        """Take the logits of all picks.

        Args:
            logits: those of the first pick, then those of the second and so on, in the last axis.
            counts: how many each pick chooses from; nothing for one pick from all.
        """
        self.counts = counts or (logits.shape[-1],)
        self.logs = [
            torch.log_softmax(part, dim=-1)
            for part in torch.split(logits, list(self.counts), dim=-1)
        ]
        batch = logits.shape[:-1]
        super().__init__(batch, torch.Size([len(self.counts)]), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Picks by their probabilities."""
        if sample_shape:
            raise ValueError(f"one sample at a time was wanted, found {sample_shape}")
        picks = [(logs - waits(logs.shape, logs.dtype).log()).argmax(dim=-1) for logs in self.logs]
        return torch.stack(picks, dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of all picks together."""
        picked = [
            logs.gather(-1, pick.unsqueeze(-1)).squeeze(-1)
            for logs, pick in zip(self.logs, value.long().unbind(-1), strict=True)
        ]
        return torch.stack(picked, dim=-1).sum(-1)

    def entropy(self) -> Tensor:
        """How undecided the picks are, together."""
        # A masked pick has a logarithm of minus infinity, and takes no part.
        parts = [-(logs.exp() * logs.clamp_min(-1e9)).sum(-1) for logs in self.logs]
        return torch.stack(parts, dim=-1).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The likeliest picks."""
        return torch.stack([logs.argmax(dim=-1) for logs in self.logs], dim=-1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest picks, under the name that losses ask for."""
        return self.mode


class Numbers(Distribution):
    """Independent normal numbers, of which some may be left out."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, scale: Tensor, used: Tensor | None = None) -> None:
        """Say where they are and how far they spread.

        Args:
            loc: their means.
            scale: their standard deviations.
            used: which of them count; the others are their means, and say nothing.
        """
        self.loc, self.scale = loc, scale
        self.used = used
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Numbers through which gradients flow."""
        noise = normal(torch.Size(sample_shape) + self.loc.shape, self.loc.dtype)
        return self.loc + self.scale * (noise if self.used is None else noise * self.used)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Numbers without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density of all numbers together."""
        distance = (value - self.loc) / self.scale
        parts = torch.addcmul(self._log_scale(), distance, distance, value=0.5)
        if self.used is None:
            return -_HALF_LOG_TWO_PI * parts.shape[-1] - parts.sum(-1)
        return -self._sum(parts + _HALF_LOG_TWO_PI)

    def entropy(self) -> Tensor:
        """How widely they are spread, together."""
        return self._sum(0.5 + _HALF_LOG_TWO_PI + self._log_scale().expand_as(self.loc))

    @property
    def mode(self) -> Tensor:
        """The likeliest numbers."""
        return self.loc

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest numbers, under the name that losses ask for."""
        return self.loc

    def _log_scale(self) -> Tensor:
        # Spreads that do not depend on what is seen are one row for all: logarithms of one do.
        is_one_row = self.scale.dim() > 1 and self.scale.stride(0) == 0
        return (self.scale[:1] if is_one_row else self.scale).log()

    def _sum(self, parts: Tensor) -> Tensor:
        return parts.sum(-1) if self.used is None else (parts * self.used).sum(-1)
