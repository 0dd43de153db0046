"""Gradient steps of on-policy training, values after each step, and means of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from sekai.training.agent import DivergedError, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.rollout import Cut

__all__ = ["GradientStep", "mean_of", "next_values", "total_loss"]


class GradientStep:
    """One optimizer step: backward pass, gradient clipping, Adam update."""

    def __init__(self, network: torch.nn.Module, settings: AgentSettings) -> None:
        self.weights = list(network.parameters())
        self.max_grad_norm = settings.max_grad_norm
        self.optimizer = torch.optim.Adam(
            self.weights,
            settings.learning_rate,
            eps=1e-5,
            fused=self.weights[0].device.type in ("cpu", "cuda"),
        )

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of all parameters."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def __call__(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Minimize the sum of all entries named `loss...`; return metrics with the gradient norm.

        Raises:
            DivergedError: the gradient is not finite; the weights are unchanged.
        """
        for weight in self.weights:
            weight.grad = None
        total_loss(losses).backward()  # type: ignore[no-untyped-call]
        norm = self._clip()
        self.optimizer.step()
        return {**{name: value.detach() for name, value in losses.items()}, "gradient_norm": norm}

    @torch.no_grad()
    def _clip(self) -> Tensor:
        # The norm of one concatenated vector costs a fraction of the norms of each weight.
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        norm: Tensor = torch.linalg.vector_norm(torch.cat([part.reshape(-1) for part in gradients]))
        if not bool(torch.isfinite(norm)):
            raise DivergedError
        if norm > self.max_grad_norm:
            factor = self.max_grad_norm / (norm + 1e-6)
            for part in gradients:
                part.mul_(factor)
        return norm


@torch.no_grad()
def next_values(
    cuts: Sequence[Cut], values: Tensor, critic: Callable[[dict[str, Tensor]], Tensor]
) -> Tensor:
    """Value of the state after each step, bootstrapped where episodes were truncated.

    Args:
        cuts: truncated episodes with their final observations.
        values: values of all observations: times by envs, one more time than steps.
        critic: value function.
    """
    after = values[1:].clone()
    if cuts:
        names = cuts[0][2]
        finals = {name: torch.cat([rows[name] for _, _, rows in cuts]) for name in names}
        sizes = [len(envs) for _, envs, _ in cuts]
        bootstrapped = torch.split(critic(finals).reshape(-1).cpu(), sizes)
        for (step, envs, _), value in zip(cuts, bootstrapped, strict=True):
            after[step, torch.from_numpy(envs)] = value
    return after


def total_loss(losses: Mapping[str, Tensor]) -> Tensor:
    """Sum of all entries named `loss...`; the others are metrics."""
    parts = [value for name, value in losses.items() if name.startswith("loss")]
    total: Tensor = sum(parts[1:], start=parts[0])
    return total


def mean_of(metrics: Sequence[Mapping[str, Tensor]]) -> Metrics:
    """Mean of each metric over the gradient steps that report it."""
    names = dict.fromkeys(name for step in metrics for name in step)
    return {
        name: float(
            torch.stack([step[name] for step in metrics if name in step]).cpu().double().mean()
        )
        for name in names
    }
