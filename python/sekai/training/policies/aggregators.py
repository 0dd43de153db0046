"""Aggregators over assets: pooling, attention and graph layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from sekai.policy.backbones import require_correlated, require_sectors
from sekai.policy.observations import Slots
from sekai.policy.settings import PolicySettings
from sekai.training.policies.actor_critic import activation, linear

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Graph",
    "correlations",
    "counted",
    "masked_mean",
    "zero_unused",
]


class Aggregator(nn.Module, ABC):
    """Layers that exchange information between assets.

    Made with the layout of the slots and the settings. Equivariant to the order of slots; unused
    slots have no effect.
    """

    @abstractmethod
    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Exchange information between assets.

        Args:
            slots: features of each asset: batch by slots by width; zero in unused slots.
            mask: slots in use: batch by slots; None for all.
            windows: window of each asset: batch by slots by times by channels.

        Returns:
            Batch by slots by width.
        """


MIN_VARIANCE = 1e-8


def zero_unused(slots: Tensor, mask: Tensor | None) -> Tensor:
    """Set unused slots to zero."""
    # Windows are large: not copied where nothing is to be zero_unused.
    if mask is None or bool(mask.all()):
        return slots
    return slots.masked_fill(~mask.reshape(*mask.shape, *(1,) * (slots.dim() - mask.dim())), 0.0)


def counted(slots: Tensor, mask: Tensor | None) -> Tensor:
    """Number of slots in use, at least one: batch by one."""
    if mask is None:
        return torch.full(
            (len(slots), 1), float(slots.shape[1]), dtype=slots.dtype, device=slots.device
        )
    return mask.sum(1, keepdim=True).clamp_min(1).to(slots.dtype)


def masked_mean(slots: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the slots in use; zero without any."""
    return zero_unused(slots, mask).sum(1) / counted(slots, mask)


def masked_max(slots: Tensor, mask: Tensor | None) -> Tensor:
    """Maximum over the slots in use; zero without any."""
    if mask is None:
        return slots.amax(1)
    greatest = slots.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)
    return greatest.masked_fill(~mask.any(1, keepdim=True), 0.0)


class MeanPooling(Aggregator):
    """Layers over the features of an asset and the mean of all."""

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        width, count = settings.width, settings.aggregator_layers
        self.own = nn.ModuleList(linear(width, width, 1.0) for _ in range(count))
        self.all = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))
        self.activation = activation(settings)

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Exchange information between assets."""
        for own, everyone in zip(self.own, self.all, strict=True):
            pooled = everyone(self._pooled(slots, mask)).unsqueeze(1)
            slots = slots + self.activation(own(slots) + pooled)
        return slots

    def _pooled(self, slots: Tensor, mask: Tensor | None) -> Tensor:
        return masked_mean(slots, mask)


class MaxPooling(MeanPooling):
    """Layers over the features of an asset and the maximum of all."""

    def _pooled(self, slots: Tensor, mask: Tensor | None) -> Tensor:
        return masked_max(slots, mask)


class Attention(Aggregator):
    """Transformer blocks: multi-head self-attention over assets and a feed-forward layer."""

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            _AttentionBlock(settings) for _ in range(settings.aggregator_layers)
        )

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Exchange information between assets."""
        attention_mask = None
        if mask is not None:
            # Without any asset all slots are attended to: a softmax needs one.
            attention_mask = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        for block in self.blocks:
            slots = block(slots, attention_mask)
        return slots


class _AttentionBlock(nn.Module):
    def __init__(self, settings: PolicySettings) -> None:
        super().__init__()
        width = settings.width
        self.heads = settings.heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = linear(width, 3 * width, 1.0)
        self.project = linear(width, width, 1.0)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            linear(width, 2 * width), activation(settings), linear(2 * width, width, 1.0)
        )

    def forward(self, slots: Tensor, attention_mask: Tensor | None) -> Tensor:
        parts = self.qkv(self.attention_norm(slots)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
        slots = slots + self.project(attended.transpose(1, 2).flatten(2))
        output: Tensor = slots + self.feed_forward(self.feed_forward_norm(slots))
        return output


class Graph(Aggregator):
    """Graph layers: weighted mean over the neighbours of each asset.

    Edges are equal sectors, or a learned function of the correlations of one feature over the
    window.
    """

    sectors: Tensor

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        self.feature = settings.correlated_feature
        self.kind = settings.graph
        if self.kind == "sectors":
            self.register_buffer("sectors", _same_sector(slots, settings.sectors), persistent=False)
        else:
            require_correlated(slots, self.feature)
            # Initial edges of uncorrelated assets are weak.
            self.nearness = nn.Parameter(torch.tensor([4.0, -3.0]))
        self.graph_layers = nn.ModuleList(
            _GraphLayer(settings) for _ in range(settings.aggregator_layers)
        )

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Exchange information between assets."""
        near = self._neighbours(windows, mask)
        for layer in self.graph_layers:
            slots = layer(slots, near)
        return slots

    def _neighbours(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        """Edge weights: batch by slots by slots, rows sum to at most one.

        Without loops and edges to unused slots.
        """
        if self.kind == "sectors":
            near = self.sectors.expand(len(windows), -1, -1)
        else:
            together = correlations(windows[..., self.feature])
            near = torch.sigmoid(self.nearness[0] * together + self.nearness[1])
        near = near * ~torch.eye(near.shape[-1], dtype=torch.bool, device=near.device)
        if mask is not None:
            near = near * mask.unsqueeze(1)
        return near / near.sum(-1, keepdim=True).clamp_min(1e-6)


class _GraphLayer(nn.Module):
    def __init__(self, settings: PolicySettings) -> None:
        super().__init__()
        width = settings.width
        self.before = nn.LayerNorm(width)
        self.own, self.others = linear(width, width, 1.0), nn.Linear(width, width, bias=False)
        self.activation = activation(settings)

    def forward(self, slots: Tensor, near: Tensor) -> Tensor:
        known = self.before(slots)
        output: Tensor = slots + self.activation(self.own(known) + self.others(near @ known))
        return output


def correlations(rows: Tensor) -> Tensor:
    """Correlations over time of all pairs: batch by slots by times to batch by slots by slots.

    Constant rows have a correlation of zero.
    """
    centred = rows - rows.mean(-1, keepdim=True)
    size = (centred.square().mean(-1, keepdim=True) + MIN_VARIANCE).sqrt()
    scaled = centred / size
    return scaled @ scaled.transpose(-1, -2) / rows.shape[-1]


def _same_sector(slots: Slots, sectors: tuple[str, ...]) -> Tensor:
    sectors = require_sectors(slots, sectors)
    same = [[float(sector == other and sector != "") for other in sectors] for sector in sectors]
    return torch.tensor(same)


AGGREGATORS: dict[str, Callable[[Slots, PolicySettings], Aggregator]] = {
    "attention": Attention,
    "graph": Graph,
    "mean": MeanPooling,
    "max": MaxPooling,
}
