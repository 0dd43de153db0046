"""Means and spreads that are learnt along the way, and travel with a policy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.observations import Leaf

__all__ = ["ObservationNormaliser", "RewardScaler"]

LIMIT = 10.0
"""Normalised numbers are cut here: what was never seen before is far away, and no farther."""

LEAST_VARIANCE = 1e-8


class ObservationNormaliser(nn.Module):
    """Centres and scales the measured parts of observations, by all that was seen so far.

    Windows of features share their moments over time and assets: one pair for each number of the
    last axis, so that an asset that comes later is read like the others.
    """

    count: Tensor

    def __init__(self, leaves: Mapping[str, Leaf]) -> None:
        super().__init__()
        self.names = [name for name, leaf in leaves.items() if _is_scaled(name, leaf)]
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for place, name in enumerate(self.names):
            width = _width(leaves[name])
            self.register_buffer(f"mean_{place}", torch.zeros(width, dtype=torch.float64))
            self.register_buffer(f"variance_{place}", torch.ones(width, dtype=torch.float64))

    @torch.no_grad()
    def learn(self, observations: Mapping[str, Tensor]) -> None:
        """Take in a batch; all its axes but those of one observation count."""
        rows = 0
        for place, name in enumerate(self.names):
            mean, variance = self._moments(place)
            batch = observations[name].double().reshape(-1, mean.numel())
            rows = observations[name].shape[0]
            new_mean, new_variance = batch.mean(0), batch.var(0, unbiased=False)
            share = rows / (self.count + rows)
            shift = new_mean - mean
            variance += share * (new_variance - variance) + share * (1 - share) * shift * shift
            mean += share * shift
        self.count += rows

    def forward(self, name: str, numbers: Tensor) -> Tensor:
        """The numbers of one leaf, centred and scaled."""
        if name not in self.names:
            return numbers
        mean, variance = self._moments(self.names.index(name))
        scale = (variance + LEAST_VARIANCE).rsqrt().float()
        return ((numbers - mean.float()) * scale).clamp(-LIMIT, LIMIT)

    def _moments(self, place: int) -> tuple[Tensor, Tensor]:
        return getattr(self, f"mean_{place}"), getattr(self, f"variance_{place}")


class RewardScaler(nn.Module):
    """Divides rewards by how much discounted returns spread: the scale of a task is not its point.

    Nothing is subtracted, so that what is good stays good.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor
    returns: Tensor

    def __init__(self, discount: float, num_envs: int) -> None:
        super().__init__()
        self.discount = discount
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("variance", torch.ones((), dtype=torch.float64))
        self.register_buffer("returns", torch.zeros(num_envs, dtype=torch.float64))

    @torch.no_grad()
    def learn(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> None:
        """Take in the rewards of some steps of all envs.

        Args:
            rewards: times by envs.
            done: where an episode ended.
            acted: what counts; None where all does.
        """
        returns = torch.empty_like(rewards, dtype=torch.float64)
        running = self.returns
        for step in range(len(rewards)):
            grown = running * self.discount + rewards[step]
            running = grown if acted is None else torch.where(acted[step], grown, running)
            returns[step] = running
            running = running * ~done[step]
        self.returns.copy_(running)
        returns = returns if acted is None else returns[acted]
        if not returns.numel():
            return
        rows = returns.numel()
        share = rows / (self.count + rows)
        shift = returns.mean() - self.mean
        spread = returns.var(unbiased=False) - self.variance
        self.variance += share * spread + share * (1 - share) * shift * shift
        self.mean += share * shift
        self.count += rows

    def forward(self, rewards: Tensor) -> Tensor:
        """Rewards of the usual size."""
        scaled: Tensor = rewards / (self.variance + LEAST_VARIANCE).sqrt()
        return scaled.clamp(-LIMIT, LIMIT).float()


def _is_scaled(name: str, leaf: Leaf) -> bool:
    # Masks are no amounts; neither is the number of a row.
    return leaf.is_measured and name.rpartition("/")[2] not in ("mask", "action_mask", "index")


def _width(leaf: Leaf) -> int:
    return leaf.shape[-1] if len(leaf.shape) > 1 else max(1, leaf.width)
