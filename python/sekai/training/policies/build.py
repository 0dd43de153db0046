"""Backbones by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sekai.training.observations import Leaf
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.flat import FlatBackbone
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["BACKBONES", "backbone"]

BACKBONES: dict[str, Callable[[Mapping[str, Leaf], PolicySettings], Backbone]] = {
    "mlp": FlatBackbone,
}


def backbone(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Backbone:
    """The backbone that the settings name."""
    name = "mlp" if settings.backbone == "auto" else settings.backbone
    if name not in BACKBONES:
        known = ", ".join(["auto", *BACKBONES])
        raise ValueError(f"backbone must be one of {known}, was {settings.backbone!r}")
    return BACKBONES[name](leaves, settings)
