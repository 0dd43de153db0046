"""Assets that listen to their neighbours: those of their sector, or those that move with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sekai.training.policies.aggregators.aggregator import Aggregator
from sekai.training.policies.layers import activation, linear
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import Slots

__all__ = ["Graph", "correlations"]

LEAST_VARIANCE = 1e-8


class Graph(Aggregator):
    """Each layer adds to an asset the mean of its neighbours, by how near they are.

    The graph is of sectors, or of the correlations of one feature over the rows of the window,
    which are all past; how near a correlation brings two assets is learnt. An asset without
    neighbours hears nothing.
    """

    sectors: Tensor

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        self.feature = settings.correlated_feature
        self.kind = settings.graph
        if self.kind == "sectors":
            self.register_buffer("sectors", _same_sector(slots, settings.sectors), persistent=False)
        else:
            _check_correlated(slots, self.feature)
            # At first two assets that do not move together are nearly strangers.
            self.nearness = nn.Parameter(torch.tensor([4.0, -3.0]))
        self.listens = nn.ModuleList(_Listen(settings) for _ in range(settings.aggregator_layers))

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Let the assets tell each other."""
        near = self._neighbours(windows, mask)
        for listen in self.listens:
            slots = listen(slots, near)
        return slots

    def _neighbours(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        """How much each asset listens to each other one: batch by slots by slots, up to one in all.

        Nobody listens to itself or to an empty slot.
        """
        if self.kind == "sectors":
            near = self.sectors.expand(len(windows), -1, -1)
        else:
            together = correlations(windows[..., self.feature])
            near = torch.sigmoid(self.nearness[0] * together + self.nearness[1])
        near = near * ~torch.eye(near.shape[-1], dtype=torch.bool)
        if mask is not None:
            near = near * mask.unsqueeze(1)
        return near / near.sum(-1, keepdim=True).clamp_min(1e-6)


class _Listen(nn.Module):
    def __init__(self, settings: PolicySettings) -> None:
        super().__init__()
        width = settings.width
        self.before = nn.LayerNorm(width)
        self.own, self.others = linear(width, width, 1.0), nn.Linear(width, width, bias=False)
        self.bend = activation(settings)

    def forward(self, slots: Tensor, near: Tensor) -> Tensor:
        known = self.before(slots)
        heard: Tensor = slots + self.bend(self.own(known) + self.others(near @ known))
        return heard


def correlations(rows: Tensor) -> Tensor:
    """Correlations over time of all pairs: batch by slots by times to batch by slots by slots.

    What does not move moves with nothing.
    """
    centred = rows - rows.mean(-1, keepdim=True)
    size = (centred.square().mean(-1, keepdim=True) + LEAST_VARIANCE).sqrt()
    scaled = centred / size
    return scaled @ scaled.transpose(-1, -2) / rows.shape[-1]


def _same_sector(slots: Slots, sectors: tuple[str, ...]) -> Tensor:
    if len(sectors) != slots.count:
        raise ValueError(
            f"graph='sectors' needs a sector for each of {slots.count} slots, '' where there is "
            f"none; sectors has {len(sectors)}"
        )
    same = [[float(one == other and one != "") for other in sectors] for one in sectors]
    return torch.tensor(same)


def _check_correlated(slots: Slots, feature: int) -> None:
    if slots.times < 2:
        raise ValueError(
            f"graph='correlation' needs windows of at least 2 rows, found {slots.times}: use "
            "graph='sectors'"
        )
    if feature >= slots.channels:
        raise ValueError(
            f"correlated_feature must be one of {slots.channels} features, counted from 0, was "
            f"{feature}"
        )
