"""Backbones by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf
from sekai.training.policies.aggregators import AGGREGATORS
from sekai.training.policies.asset_backbone import AssetBackbone
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.flat import FlatBackbone
from sekai.training.policies.inputs import Gather, Inputs
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import slots_of

__all__ = ["BACKBONES", "Factory", "backbone", "inputs_of", "register_backbone"]

Factory = Callable[[Mapping[str, Leaf], PolicySettings], Backbone]
"""Makes a backbone for an observation of these leaves."""

DEFAULT_AGGREGATOR = "mean"
"""What "auto" takes where there are assets."""


def _of_assets(aggregator: str) -> Factory:
    def made(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Backbone:
        slots = slots_of(leaves, settings)
        if slots is None:
            raise ValueError(
                f"backbone {aggregator!r} needs assets in the observation, which has "
                f"{', '.join(leaves)}: name the part that holds them as slots_leaf"
            )
        return AssetBackbone(leaves, slots, AGGREGATORS[aggregator](slots, settings), settings)

    return made


BACKBONES: dict[str, Factory] = {
    "mlp": FlatBackbone,
    **{name: _of_assets(name) for name in AGGREGATORS},
}


def register_backbone(name: str, factory: Factory) -> None:
    """Let policies have a backbone of your own: `PPO(env, policy=name)`.

    Args:
        name: what settings call it.
        factory: makes one from the leaves of the observation and the settings.
    """
    if name == "auto" or name in BACKBONES:
        raise ValueError(f"a new name was wanted, found {name!r}, which is there")
    BACKBONES[name] = factory


def backbone(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Backbone:
    """The backbone that the settings name, for what `Inputs` makes of an observation."""
    name = settings.backbone
    if name == "auto":
        name = "mlp" if slots_of(leaves, settings) is None else DEFAULT_AGGREGATOR
    if name not in BACKBONES:
        known = ", ".join(["auto", *BACKBONES])
        raise ValueError(f"backbone must be one of {known}, was {settings.backbone!r}")
    return BACKBONES[name](leaves, settings)


def inputs_of(
    leaves: Mapping[str, Leaf], settings: PolicySettings, gather: Gather | None = None
) -> Inputs:
    """What turns observations into what backbones read: `backbone(inputs.leaves, settings)`.

    Args:
        leaves: of the observation, as envs show it.
        settings: of the policy.
        gather: what looks up windows, where the observation has only their numbers.
    """
    read = leaves if gather is None else gather.leaves(leaves)
    # Plain layers give each place weights of its own; what shares weights shares moments.
    slots = None if settings.backbone == "mlp" else slots_of(read, settings)
    normaliser = ObservationNormaliser(read, slots) if settings.normalise else None
    return Inputs(leaves, normaliser, gather)
