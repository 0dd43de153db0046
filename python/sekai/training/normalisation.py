"""Means and spreads that are learnt along the way, and travel with a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sekai.training.observations import Leaf, is_action_mask
from sekai.training.policies.slots import Slots

__all__ = ["ObservationNormaliser", "RewardScaler"]

LIMIT = 10.0
"""Normalised numbers are cut here: what was never seen before is far away, and no farther."""

REWARD_LIMIT = 100.0
"""Scaled rewards are cut here. A reward that comes once, at the end of an episode of n steps, is
about the root of n: the limit is far above that, so that it guards against accidents alone."""

LEAST_VARIANCE = 1e-8


class ObservationNormaliser(nn.Module):
    """Centres and scales the measured parts of observations, by all that was seen so far.

    Windows of features share their moments over time and assets: one pair for each number of the
    last axis, so that an asset that comes later is read like the others. Slots that are not in use
    are not learnt from. Weights have a size of their own already.
    """

    def __init__(self, leaves: Mapping[str, Leaf], slots: Slots | None = None) -> None:
        super().__init__()
        self.slots = slots
        self.names = [name for name, leaf in leaves.items() if _is_scaled(name, leaf, slots)]
        for place, name in enumerate(self.names):
            width = self._width(name, leaves[name])
            self.register_buffer(f"count_{place}", torch.zeros((), dtype=torch.float64))
            self.register_buffer(f"mean_{place}", torch.zeros(width, dtype=torch.float64))
            self.register_buffer(f"variance_{place}", torch.ones(width, dtype=torch.float64))
        self._ready: list[tuple[Tensor, Tensor]] = []
        self._get_ready()
        self.register_load_state_dict_post_hook(_get_ready_again)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def learn(self, observations: Mapping[str, Tensor]) -> None:
        """Take in a batch; all its axes but those of one observation count."""
        for place, name in enumerate(self.names):
            count, mean, variance = self._moments(place)
            batch = self._counted(name, observations).double().reshape(-1, mean.numel())
            if not len(batch):
                continue
            new_mean, new_variance = batch.mean(0), batch.var(0, unbiased=False)
            share = len(batch) / (count + len(batch))
            shift = new_mean - mean
            variance += share * (new_variance - variance) + share * (1 - share) * shift * shift
            mean += share * shift
            count += len(batch)
        self._get_ready()

    @torch.no_grad()
    def _get_ready(self) -> None:
        """Work out, once for all that is read until more is learnt, what to take off and scale."""
        moments = [self._moments(place) for place in range(len(self.names))]
        self._ready = [
            (mean.float(), (variance + LEAST_VARIANCE).rsqrt().float())
            for _, mean, variance in moments
        ]

    def forward(self, name: str, numbers: Tensor) -> Tensor:
        """The numbers of one leaf, centred and scaled."""
        if name not in self.names:
            return numbers
        mean, scale = self._ready[self.names.index(name)]
        # A row of slots may have more axes than moments, or fewer.
        rows = numbers if self.slots is None else numbers.reshape(len(numbers), -1, mean.numel())
        # In place from there on: windows are large, and new memory is what costs most.
        scaled = (rows - mean).mul_(scale).clamp_(-LIMIT, LIMIT)
        return scaled.reshape(numbers.shape)

    def _counted(self, name: str, observations: Mapping[str, Tensor]) -> Tensor:
        """What is learnt from of a leaf: everything, or the slots in use."""
        values = observations[name]
        if self.slots is None or name != self.slots.features:
            return values
        used = self.slots.used(observations)
        return values if used is None or used.all() else self.slots.by_slot(values)[used]

    def _width(self, name: str, leaf: Leaf) -> int:
        if self.slots is not None and name == self.slots.features:
            return self.slots.channels
        return leaf.shape[-1] if len(leaf.shape) > 1 else max(1, leaf.width)

    def _moments(self, place: int) -> tuple[Tensor, Tensor, Tensor]:
        count, mean, variance = (
            getattr(self, f"{part}_{place}") for part in ("count", "mean", "variance")
        )
        return count, mean, variance


class RewardScaler(nn.Module):
    """Divides rewards by how large discounted returns are: the scale of a task is not its point.

    Nothing is subtracted, so that what is good stays good. Size is the root of the mean square,
    not the spread around the mean: returns that are nearly alike have hardly any spread, and
    rewards divided by it would be huge.
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
        returns = self._returns(rewards, done, acted)
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

    def _returns(self, rewards: Tensor, done: Tensor, acted: Tensor | None) -> Tensor:
        """What was earned so far at each step, discounted; goes on where it was."""
        # NumPy's way: for so small arrays, calls of torch cost several times what they do.
        paid, goes_on = rewards.numpy(), ~done.numpy()
        moves = None if acted is None else acted.numpy()
        found = np.empty(paid.shape)
        running = self.returns.numpy()
        for step, reward in enumerate(paid):
            grown = running * self.discount + reward
            found[step] = running = (
                grown if moves is None else np.where(moves[step], grown, running)
            )
            running = running * goes_on[step]
        self.returns.copy_(torch.from_numpy(running))
        return torch.from_numpy(found)

    @property
    def scale(self) -> Tensor:
        """What rewards are divided by."""
        return (self.variance + self.mean * self.mean + LEAST_VARIANCE).sqrt()

    def forward(self, rewards: Tensor) -> Tensor:
        """Rewards of the usual size."""
        scaled: Tensor = rewards / self.scale
        return scaled.clamp(-REWARD_LIMIT, REWARD_LIMIT).float()


def _get_ready_again(normaliser: ObservationNormaliser, _: Any) -> None:
    normaliser._get_ready()


def _is_scaled(name: str, leaf: Leaf, slots: Slots | None) -> bool:
    if slots is not None and name in (slots.mask, slots.weights):
        return False
    # Masks are no amounts; neither is the number of a row.
    no_amount = is_action_mask(name) or name.rpartition("/")[2] in ("mask", "index")
    return leaf.is_measured and not no_amount
