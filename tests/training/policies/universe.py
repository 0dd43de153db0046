"""Observations of made-up universes of assets, and networks that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sekai.policy.observations import leaves_of
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Dict, MultiBinary, Simplex, Space
from sekai.training.actions import ActionMap
from sekai.training.policies.actor_critic import ActorCritic

TIMES, CHANNELS = 6, 3
ENCODERS = ("mlp", "convolution", "gru")
AGGREGATORS = ("mean", "max", "attention", "graph")


def observation_space(slots: int) -> Dict:
    """As a portfolio shows itself."""

    def wide(*shape: int) -> Box:
        return Box(-np.inf, np.inf, shape, np.float32)

    return Dict(
        {
            "windows": wide(TIMES, slots, CHANNELS),
            "weights": wide(slots + 1),
            "mask": MultiBinary(slots),
            "account": wide(5),
        }
    )


def network(slots: int, action_space: Space[Any] | None = None, **settings: Any) -> ActorCritic:
    """A network of random weights that is far from indifferent."""
    actions = ActionMap(action_space or Simplex(slots + 1))
    chosen = PolicySettings(**{"width": 16, "heads": 2, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(7)
        made = ActorCritic(leaves_of(observation_space(slots)), actions, chosen)
        for weights in made.actor.head.parameters():
            weights.data.normal_()
        made.inputs.update(observations(64, slots, seed=1))
    return made


def observations(batch: int, slots: int, seed: int = 0) -> dict[str, Tensor]:
    """A batch, in which about a third of the slots is empty."""
    stream = torch.Generator().manual_seed(seed)
    return {
        "windows": torch.randn(batch, TIMES, slots, CHANNELS, generator=stream),
        "weights": torch.rand(batch, slots + 1, generator=stream),
        "mask": (torch.rand(batch, slots, generator=stream) < 0.67).to(torch.int8),
        "account": torch.randn(batch, 5, generator=stream),
    }


def permuted(seen: dict[str, Tensor], order: list[int]) -> dict[str, Tensor]:
    """The same universe with its assets in another order; cash stays where it is."""
    return {
        "windows": seen["windows"][:, :, order],
        "weights": seen["weights"][:, [*order, len(order)]],
        "mask": seen["mask"][:, order],
        "account": seen["account"],
    }
