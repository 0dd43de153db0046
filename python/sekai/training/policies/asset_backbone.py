"""Read assets one by one by the same weights, then let them learn of each other."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sekai.training.observations import Leaf, is_action_mask
from sekai.training.policies.aggregators import Aggregator
from sekai.training.policies.backbone import Backbone, Features
from sekai.training.policies.encoders import encoder
from sekai.training.policies.layers import layers, linear
from sekai.training.policies.masked import counted, emptied, masked_mean
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import Slots

__all__ = ["AssetBackbone"]


class AssetBackbone(Backbone):
    """An encoder for each asset, an aggregator for all, and the account beside them.

    Who changes the order of the assets changes the order of what is understood of them, and
    nothing of what is understood of the whole. What stands in a slot that is not in use changes
    nothing anywhere, so that assets can come and go.
    """

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        slots: Slots,
        aggregator: Aggregator,
        settings: PolicySettings,
    ) -> None:
        super().__init__()
        self.layout, self.width = slots, settings.width
        self.slots, self.mask_name = slots.count, slots.mask
        own = (slots.features, slots.mask, slots.weights)
        self.rest = [name for name in leaves if name not in own and not is_action_mask(name)]
        self.read = encoder(slots.times, slots.channels, int(slots.weights is not None), settings)
        self.aggregate = aggregator
        beside = sum(leaves[name].width for name in self.rest) + int(slots.has_cash)
        self.account = linear(beside, settings.width, 1.0) if beside else None
        self.join = layers(settings.width * (2 if beside else 1), (settings.width,), settings)

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Understand a batch."""
        mask = self.layout.used(inputs)
        windows = emptied(self.layout.by_slot(inputs[self.layout.features]), mask)
        own, beside = self._held(inputs, mask)
        slots = self.read(windows, own)
        account = None if self.account is None else self.account(torch.cat(beside, dim=-1))
        if account is not None:
            slots = slots + account.unsqueeze(1)
        slots = emptied(self.aggregate(emptied(slots, mask), mask, windows), mask)
        whole = masked_mean(slots, mask)
        whole = self.join(whole if account is None else torch.cat([whole, account], dim=-1))
        return Features(whole, slots, mask)

    def _held(
        self, inputs: Mapping[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """What the account holds of each asset, and what else is seen."""
        rest = [inputs[name].reshape(len(inputs[name]), -1) for name in self.rest]
        held = inputs.get(self.layout.weights or "")
        if held is None:
            features = inputs[self.layout.features]
            return features.new_zeros(len(features), self.slots, 0), rest
        weights = emptied(held[:, : self.slots], mask)
        # Even shares of many assets are small; this way they are of the usual size.
        weights = weights * counted(weights, mask).sqrt()
        return weights.unsqueeze(-1), [
            *rest,
            *([held[:, self.slots :]] if self.layout.has_cash else []),
        ]
