"""Sums over the assets that are there."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["counted", "emptied", "masked_max", "masked_mean"]


def emptied(slots: Tensor, mask: Tensor | None) -> Tensor:
    """The slots with nothing in those that are not in use, whatever was in them."""
    # Windows are large: not copied where nothing is to be emptied.
    if mask is None or bool(mask.all()):
        return slots
    return slots.masked_fill(~mask.reshape(*mask.shape, *(1,) * (slots.dim() - mask.dim())), 0.0)


def counted(slots: Tensor, mask: Tensor | None) -> Tensor:
    """How many slots are in use, at least one: batch by one."""
    if mask is None:
        return torch.full((len(slots), 1), float(slots.shape[1]), dtype=slots.dtype)
    return mask.sum(1, keepdim=True).clamp_min(1).to(slots.dtype)


def masked_mean(slots: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the slots in use; nothing if there are none."""
    return emptied(slots, mask).sum(1) / counted(slots, mask)


def masked_max(slots: Tensor, mask: Tensor | None) -> Tensor:
    """The greatest over the slots in use; nothing if there are none."""
    if mask is None:
        return slots.amax(1)
    greatest = slots.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)
    return greatest.masked_fill(~mask.any(1, keepdim=True), 0.0)
