"""One step after the other against a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from sekai.error import SekaiError
from sekai.training.torchrl_modules import sum_of_losses

__all__ = ["Descent", "DivergedError", "adam", "check_length", "mean_of", "taken"]


class DivergedError(SekaiError, ArithmeticError):
    """Learning has left the finite numbers, and what was learnt before is still there."""


def check_length(length: Tensor) -> None:
    """Raise unless a gradient has a length.

    Raises:
        DivergedError: it has none; nothing has been changed by it yet.
    """
    if not bool(torch.isfinite(length)):
        raise DivergedError(
            "the gradient is not finite: observations or rewards are not, or learning_rate is too "
            "large; the weights are those from before this update"
        )


class Descent:
    """Makes a loss smaller by changing the weights of a network."""

    def __init__(
        self, loss: nn.Module, network: nn.Module, optimiser: torch.optim.Optimizer, norm: float
    ) -> None:
        """Get ready.

        Args:
            loss: what is to become small, of TorchRL.
            network: whose weights change.
            optimiser: what changes them.
            norm: the length that gradients are cut to.
        """
        self.loss, self.optimiser, self.norm = loss, optimiser, norm
        self.weights = list(network.parameters())

    def set_rate(self, rate: float) -> None:
        """Learn at this rate from now on."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def step(self, samples: TensorDict) -> dict[str, Tensor]:
        """One step; what the loss tells, and how long the gradient was."""
        found = self.loss(samples)
        for weight in self.weights:
            weight.grad = None
        sum_of_losses(found).backward()  # type: ignore[no-untyped-call]
        length = self._cut()
        self.optimiser.step()
        told = {name: value.detach() for name, value in found.items() if value.numel() == 1}
        return {**told, "gradient_norm": length}

    @torch.no_grad()
    def _cut(self) -> Tensor:
        """Shorten the gradient to the longest that is allowed, and tell how long it was."""
        # One vector of all costs a fraction of what norms of each weight do.
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        length: Tensor = torch.linalg.vector_norm(
            torch.cat([part.reshape(-1) for part in gradients])
        )
        check_length(length)
        if length > self.norm:
            share = self.norm / (length + 1e-6)
            for part in gradients:
                part.mul_(share)
        return length


def adam(network: nn.Module, rate: float) -> torch.optim.Adam:
    """The optimiser of all agents that learn from rollouts, in one pass over each weight."""
    return torch.optim.Adam(network.parameters(), rate, eps=1e-5, fused=True)


def mean_of(told: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    """The means of what was told at each step, by those who told it."""
    names = dict.fromkeys(name for one in told for name in one)
    return {
        name: float(torch.stack([one[name] for one in told if name in one]).double().mean())
        for name in names
    }


def taken(samples: TensorDict, places: Tensor) -> TensorDict:
    """Some of the samples, in this order."""
    # Rows are selected several times as fast as arbitrary places are looked up.
    return TensorDict(_rows(samples, places), batch_size=[len(places)])


def _rows(samples: Mapping[str, Any], places: Tensor) -> dict[str, Any]:
    return {
        name: part.index_select(0, places) if isinstance(part, Tensor) else _rows(part, places)
        for name, part in samples.items()
    }
