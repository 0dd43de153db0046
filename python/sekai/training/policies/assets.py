"""Backbones for assets: a shared encoder for each asset, and an aggregator over all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from sekai.policy.backbones import KERNEL, STRIDE
from sekai.policy.observations import Leaf, Slots, is_action_mask, slots_of
from sekai.policy.settings import PolicySettings
from sekai.training.observations import by_slot, used_slots
from sekai.training.policies.actor_critic import (
    BACKBONES,
    Backbone,
    Factory,
    Features,
    activation,
    layers,
    linear,
)
from sekai.training.policies.aggregators import (
    AGGREGATORS,
    Aggregator,
    counted,
    masked_mean,
    zero_unused,
)

__all__ = ["ENCODERS", "AssetBackbone", "encoder"]


class AssetBackbone(Backbone):
    """Shared encoder of each asset, aggregator over all assets, and features of the account.

    Features of assets are equivariant, features of the observation invariant to the order of
    assets. Unused slots have no effect, so that the universe may change.
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
        """Extract features of a batch."""
        mask = used_slots(self.layout, inputs)
        windows = zero_unused(by_slot(self.layout, inputs[self.layout.features]), mask)
        own, beside = self._held(inputs, mask)
        slots = self.read(windows, own)
        account = None if self.account is None else self.account(torch.cat(beside, dim=-1))
        if account is not None:
            slots = slots + account.unsqueeze(1)
        slots = zero_unused(self.aggregate(zero_unused(slots, mask), mask, windows), mask)
        whole = masked_mean(slots, mask)
        whole = self.join(whole if account is None else torch.cat([whole, account], dim=-1))
        return Features(whole, slots, mask)

    def _held(
        self, inputs: Mapping[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Weights held of each asset, and the other inputs."""
        rest = [inputs[name].reshape(len(inputs[name]), -1) for name in self.rest]
        held = inputs.get(self.layout.weights or "")
        if held is None:
            features = inputs[self.layout.features]
            return features.new_zeros(len(features), self.slots, 0), rest
        weights = zero_unused(held[:, : self.slots], mask)
        # Equal weights of many assets are small; this scales them to the usual size.
        weights = weights * counted(weights, mask).sqrt()
        return weights.unsqueeze(-1), [
            *rest,
            *([held[:, self.slots :]] if self.layout.has_cash else []),
        ]


def _asset_backbone(aggregator: str) -> Factory:
    def make(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Backbone:
        slots = slots_of(leaves, settings)
        if slots is None:
            raise ValueError(
                f"backbone {aggregator!r} needs assets in the observation, which has "
                f"{', '.join(leaves)}: name the part that holds them as slots_leaf"
            )
        return AssetBackbone(leaves, slots, AGGREGATORS[aggregator](slots, settings), settings)

    return make


BACKBONES.update({name: _asset_backbone(name) for name in AGGREGATORS})


class Encoder(nn.Module, ABC):
    """Encoder of one asset: its window and account numbers to `width` features.

    Made with the rows of a window, the features of a row, the account numbers of each asset and
    the settings. All assets share the weights.
    """

    width: int

    @abstractmethod
    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Encode every asset.

        Args:
            windows: batch by slots by times by channels.
            own: account numbers of each asset: batch by slots by numbers.

        Returns:
            Batch by slots by width.
        """


class MLPEncoder(Encoder):
    """MLP over the flattened window."""

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        self.window = linear(times * channels, settings.width)
        # A separate layer: concatenation would copy the windows.
        self.own = nn.Linear(own, settings.width, bias=False) if own else None
        self.activation = activation(settings)
        hidden = (settings.width,) * (settings.encoder_layers - 1)
        self.rest = layers(settings.width, hidden, settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Encode every asset."""
        first = self.window(windows.flatten(2))
        if self.own is not None:
            first = first + self.own(own)
        encoded: Tensor = self.rest(self.activation(first))
        return encoded


class GRUEncoder(Encoder):
    """GRU over the rows of the window; the last hidden state is encoded.

    It restarts with every window, so that no hidden state is carried between steps.
    """

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        # Half the width is a quarter of the work in every row.
        narrow = -(-settings.width // 2)
        self.memory = nn.GRU(channels, narrow)
        for name, weights in self.memory.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(weights)
            else:
                nn.init.zeros_(weights)
        self.join = layers(narrow + own, (settings.width,), settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Encode every asset."""
        _, last = self.memory(windows.flatten(0, 1).transpose(0, 1))
        remembered = last[-1].reshape(*windows.shape[:2], -1)
        encoded: Tensor = self.join(torch.cat([remembered, own], dim=-1))
        return encoded


class ConvolutionEncoder(Encoder):
    """Causal convolutions with stride 2 over time; the latest row is encoded.

    Windows are padded with zeros before the first row, so that short ones work as well.
    """

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        self.filters = nn.ModuleList()
        self.activation = activation(settings)
        # Half the width is a quarter of the work in every row.
        narrow, wide = -(-settings.width // 2), channels
        # Layers until one row is left, which depends on all.
        while times > 1 or not self.filters:
            self.filters.append(linear(KERNEL * wide, narrow))
            wide, times = narrow, -(-times // STRIDE)
        self.join = layers(narrow + own, (settings.width,), settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Encode every asset."""
        rows = windows.flatten(0, 1)
        for filtered in self.filters:
            rows = self.activation(filtered(_pieces(rows)))
        latest = rows[:, -1].reshape(*windows.shape[:2], -1)
        encoded: Tensor = self.join(torch.cat([latest, own], dim=-1))
        return encoded


def _pieces(rows: Tensor) -> Tensor:
    """Overlapping pieces of `KERNEL` rows; the last ends with the last row."""
    count, times, channels = rows.shape
    pieces = -(-times // STRIDE)
    before = (pieces - 1) * STRIDE + KERNEL - times
    padded = torch.cat([rows.new_zeros(count, before, channels), rows], dim=1)
    # One matrix product, quicker than a convolution on CPUs.
    return padded.unfold(1, KERNEL, STRIDE).flatten(2)


ENCODERS: dict[str, Callable[[int, int, int, PolicySettings], Encoder]] = {
    "mlp": MLPEncoder,
    "convolution": ConvolutionEncoder,
    "gru": GRUEncoder,
}


def encoder(times: int, channels: int, own: int, settings: PolicySettings) -> Encoder:
    """Make the encoder that the settings name."""
    if settings.encoder not in ENCODERS:
        raise ValueError(f"encoder must be one of {', '.join(ENCODERS)}, got {settings.encoder!r}")
    return ENCODERS[settings.encoder](times, channels, own, settings)
