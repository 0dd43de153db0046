"""Assets that know what all of them are like together."""

from __future__ import annotations

from torch import Tensor, nn

from sekai.training.policies.aggregators.aggregator import Aggregator
from sekai.training.policies.layers import activation, linear
from sekai.training.policies.masked import masked_max, masked_mean
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import Slots

__all__ = ["MaxPooling", "MeanPooling"]


class MeanPooling(Aggregator):
    """Each layer adds to an asset what it makes of itself and of the mean of all."""

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        width, count = settings.width, settings.aggregator_layers
        self.own = nn.ModuleList(linear(width, width, 1.0) for _ in range(count))
        self.all = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))
        self.bend = activation(settings)

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Let the assets tell each other."""
        for own, everyone in zip(self.own, self.all, strict=True):
            pooled = everyone(self._pooled(slots, mask)).unsqueeze(1)
            slots = slots + self.bend(own(slots) + pooled)
        return slots

    def _pooled(self, slots: Tensor, mask: Tensor | None) -> Tensor:
        return masked_mean(slots, mask)


class MaxPooling(MeanPooling):
    """The same with the greatest of all instead of their mean."""

    def _pooled(self, slots: Tensor, mask: Tensor | None) -> Tensor:
        return masked_max(slots, mask)
