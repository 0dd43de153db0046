"""Normalizers: running mean and variance of observations and returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from sekai.policy.observations import Leaf, Slots, is_action_mask, normalized_leaves
from sekai.policy.program import CLIP_OBS, EPSILON, MAX_PIXEL
from sekai.training.observations import by_slot, used_slots

__all__ = ["Gather", "Inputs", "ObservationNormalizer", "RewardScaler"]

CLIP_REWARD = 100.0
"""Scaled rewards are clipped to this magnitude. A single reward at the end of an episode of n steps
is about the square root of n, far below: only outliers are clipped."""

CHUNK_ROWS = 1024
"""Observations per update of the normalizer: gathered windows need not fit memory at once."""


class Gather(Protocol):
    """Window lookup for observations that hold window indices."""

    def leaves(self, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
        """Leaves of an observation after the lookup."""

    def __call__(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Observations with their windows."""


class ObservationNormalizer(nn.Module):
    """Running mean and variance normalization of measured observation leaves.

    Windows share moments over time and assets, one pair for each feature, so that new assets are
    normalized like the others. Unused slots are not counted. Portfolio weights are left as they
    are.
    """

    def __init__(self, leaves: Mapping[str, Leaf], slots: Slots | None = None) -> None:
        super().__init__()
        self.slots = slots
        widths = normalized_leaves(leaves, slots)
        self.names = list(widths)
        for index, width in enumerate(widths.values()):
            self.register_buffer(f"count_{index}", torch.zeros((), dtype=torch.float64))
            self.register_buffer(f"mean_{index}", torch.zeros(width, dtype=torch.float64))
            self.register_buffer(f"variance_{index}", torch.ones(width, dtype=torch.float64))
        self._scales: list[tuple[Tensor, Tensor]] = []
        self._set_scales()
        self.register_load_state_dict_post_hook(_reset_scales)  # type: ignore[no-untyped-call]

    def _apply(self, fn: Any, recurse: bool = True) -> ObservationNormalizer:
        # Moments stay in double precision on the CPU, beside the envs: some devices have none.
        return self

    @torch.no_grad()
    def update(self, observations: Mapping[str, Tensor]) -> None:
        """Update the moments with a batch."""
        for index, name in enumerate(self.names):
            count, mean, variance = self._moments(index)
            batch = self._counted(name, observations).double().reshape(-1, mean.numel())
            if not len(batch):
                continue
            new_mean, new_variance = batch.mean(0), batch.var(0, unbiased=False)
            share = len(batch) / (count + len(batch))
            shift = new_mean - mean
            variance += share * (new_variance - variance) + share * (1 - share) * shift * shift
            mean += share * shift
            count += len(batch)
        self._set_scales()

    @torch.no_grad()
    def _set_scales(self) -> None:
        """Cache means and inverse standard deviations until the next update."""
        moments = [self._moments(index) for index in range(len(self.names))]
        self._scales = [
            (mean.float(), (variance + EPSILON).rsqrt().float()) for _, mean, variance in moments
        ]

    def forward(self, name: str, numbers: Tensor) -> Tensor:
        """Normalized and clipped values of one leaf."""
        if name not in self.names:
            return numbers
        index = self.names.index(name)
        if self._scales[index][0].device != numbers.device:
            first, second = self._scales[index]
            self._scales[index] = first.to(numbers.device), second.to(numbers.device)
        mean, scale = self._scales[index]
        # Rows of slots may have more axes than moments, or fewer.
        rows = numbers if self.slots is None else numbers.reshape(len(numbers), -1, mean.numel())
        # In place after the subtraction: windows are large, and allocation costs most.
        scaled = (rows - mean).mul_(scale).clamp_(-CLIP_OBS, CLIP_OBS)
        return scaled.reshape(numbers.shape)

    def _counted(self, name: str, observations: Mapping[str, Tensor]) -> Tensor:
        """Values that update the moments: all, or those of slots in use."""
        values = observations[name]
        if self.slots is None or name != self.slots.features:
            return values
        used = used_slots(self.slots, observations)
        return values if used is None or used.all() else by_slot(self.slots, values)[used]

    def _moments(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        count, mean, variance = (
            getattr(self, f"{part}_{index}") for part in ("count", "mean", "variance")
        )
        return count, mean, variance


class Inputs(nn.Module):
    """Observation preprocessing: normalized floats, one-hot encoded integers.

    Action masks are for policy heads, and left out here.

    Args:
        leaves: observation leaves of the env.
        normalizer: observation normalizer, or None.
        gather: window lookup, if observations hold window indices.
    """

    anchor: Tensor

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        normalizer: ObservationNormalizer | None,
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        self.names = [name for name in leaves if not is_action_mask(name)]
        """Leaves that observations must have."""
        input_leaves = leaves if gather is None else gather.leaves(leaves)
        self.leaves = {
            name: leaf for name, leaf in input_leaves.items() if not is_action_mask(name)
        }
        """Leaves of the output."""
        self.normalizer, self.gather = normalizer, gather
        # Moves with the network: inputs follow it.
        self.register_buffer("anchor", torch.empty(0), persistent=False)
        self._integers = {name for name, leaf in self.leaves.items() if not leaf.is_measured}

    @property
    def device(self) -> torch.device:
        """Device of the network, to which inputs are moved."""
        return self.anchor.device

    def forward(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Floats of each leaf, in the shape of the leaf."""
        if self.gather is not None:
            observations = self.gather(observations)
        return {name: self._preprocess(name, observations[name]) for name in self.leaves}

    @torch.no_grad()
    def update(self, observations: Mapping[str, Tensor]) -> None:
        """Update the normalizer with a batch."""
        if self.normalizer is None:
            return
        count = len(observations[self.names[0]])
        for first in range(0, count, CHUNK_ROWS):
            part = {name: observations[name][first : first + CHUNK_ROWS] for name in self.names}
            self.normalizer.update(part if self.gather is None else self.gather(part))

    def _preprocess(self, name: str, values: Tensor) -> Tensor:
        values = values.to(self.anchor.device)
        if name in self._integers:
            return _one_hot(self.leaves[name], values)
        numbers = values.float()
        if self.leaves[name].is_image:
            return numbers.mul_(1.0 / MAX_PIXEL)
        return numbers if self.normalizer is None else self.normalizer(name, numbers)


class RewardScaler(nn.Module):
    """Reward scaling by the running root mean square of discounted returns.

    Nothing is subtracted, so that the sign of rewards is kept. The root mean square is used instead
    of the standard deviation, which is tiny if returns are nearly equal.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor
    returns: Tensor

    def __init__(self, gamma: float, num_envs: int) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("variance", torch.ones((), dtype=torch.float64))
        self.register_buffer("returns", torch.zeros(num_envs, dtype=torch.float64))

    @torch.no_grad()
    def update(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> None:
        """Update the moments with the rewards of some steps of all envs.

        Args:
            rewards: times by envs.
            done: where an episode ended.
            acted: steps that count; None for all.
        """
        returns = self._discounted(rewards, done, acted)
        self.add(returns if acted is None else returns[acted])

    @torch.no_grad()
    def add(self, returns: Tensor) -> None:
        """Update the moments with discounted returns."""
        if not returns.numel():
            return
        rows = returns.numel()
        share = rows / (self.count + rows)
        shift = returns.mean() - self.mean
        change = returns.var(unbiased=False) - self.variance
        self.variance += share * change + share * (1 - share) * shift * shift
        self.mean += share * shift
        self.count += rows

    def _discounted(self, rewards: Tensor, done: Tensor, acted: Tensor | None) -> Tensor:
        """Discounted sums of past rewards at each step, continued from the last call."""
        # NumPy: for small arrays torch calls cost several times as much.
        paid, goes_on = rewards.numpy(), ~done.numpy()
        moves = None if acted is None else acted.numpy()
        sums = np.empty(paid.shape)
        running = self.returns.numpy()
        for step, reward in enumerate(paid):
            grown = running * self.gamma + reward
            sums[step] = running = grown if moves is None else np.where(moves[step], grown, running)
            running = running * goes_on[step]
        self.returns.copy_(torch.from_numpy(running))
        return torch.from_numpy(sums)

    @property
    def scale(self) -> Tensor:
        """Divisor of rewards."""
        return (self.variance + self.mean * self.mean + EPSILON).sqrt()

    def forward(self, rewards: Tensor) -> Tensor:
        """Scaled and clipped rewards."""
        scaled: Tensor = rewards / self.scale
        return scaled.clamp(-CLIP_REWARD, CLIP_REWARD).float()


def _reset_scales(normalizer: ObservationNormalizer, _: Any) -> None:
    normalizer._set_scales()


def _one_hot(leaf: Leaf, values: Tensor) -> Tensor:
    numbers = values.long().reshape(len(values), -1)
    if leaf.starts:
        numbers = numbers - torch.tensor(leaf.starts, device=numbers.device)
    hot = [
        nn.functional.one_hot(number, count)
        for number, count in zip(numbers.unbind(-1), leaf.choices, strict=True)
    ]
    return torch.cat(hot, dim=-1).float()
