"""Who lets some of the envs act, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.error import StateError
from sekai.training.agent_settings import AgentSettings
from sekai.training.distributed.matching import Padded, Probe, keeps_lanes, take_weights
from sekai.training.policies.build import BACKBONES, Factory
from sekai.training.randomness import Portion, portion_drawn
from sekai.vector.seeding import env_seed

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Order", "Place", "Played", "Worker"]


@dataclass(frozen=True)
class Order:
    """What a worker is made from: an agent like the one that learns, with some of its envs."""

    kind: type[Agent]
    env: Any
    env_options: Mapping[str, Any]
    settings: AgentSettings
    options: Mapping[str, Any]
    backbones: Mapping[str, Factory]
    """Those that were registered beside our own."""

    seed: int
    portion: Portion

    def agent(self) -> Agent:
        """The agent that acts; it never learns."""
        for name, factory in self.backbones.items():
            BACKBONES.setdefault(name, factory)
        return self.kind(
            self.env, seed=self.seed, settings=self.settings, env_options=self.env_options,
            **self.options,
        )  # fmt: skip


class Place(NamedTuple):
    """Where a worker's envs are."""

    envs: dict[str, Any] | None
    """Their state; None at the very beginning, or where they cannot tell it."""

    acting: dict[str, Any]
    """What acting goes on from, beside envs and network."""


class Played(NamedTuple):
    """What came of acting for a while."""

    part: dict[str, Any]
    stream: NDArray[np.uint8]
    """Where the random stream of all agents is now."""


class Worker:
    """An agent with some of the envs, which acts with weights that it is given."""

    agent: Agent

    def greet(self) -> int:
        """The number of its process: whoever is told knows that there was room."""
        return os.getpid()

    def make(self, order: Order, place: Place | None) -> dict[str, Any]:
        """Make the envs, and begin with their first episodes, or wherever others have been.

        Returns:
            What acting goes on from.
        """
        self.order, self.agent = order, order.agent()
        portion = order.portion
        self.agent._start([env_seed(order.seed, env) for env in range(portion.first, portion.end)])
        if place is not None:
            # What another process has sent cannot be changed, and envs may go on with it.
            place = deepcopy(place)
            if place.envs is not None:
                self.agent.vec.load_state_dict(place.envs)
            self.agent._load_acting_state(place.acting)
        return self.agent._acting_state()

    def match(self, probe: Probe) -> bool:
        """Find a way to compute what the learner computes, bit for bit; whether there is one."""
        network = self.agent.network
        take_weights(network, probe.weights)
        if keeps_lanes(self.order.portion) and probe.is_met(network.leanings):
            return True
        padded = Padded(network, self.order.portion)
        # First, since networks may choose to find out what they lean to.
        is_met = probe.is_met(padded.leanings)
        network.choose = padded.choose  # type: ignore[method-assign]
        return is_met

    def play(
        self, weights: Mapping[str, Any], moments: Sequence[int], stream: NDArray[np.uint8]
    ) -> tuple[Played, Place]:
        """Let the envs act, and tell what happened and where they are."""
        agent = self.agent
        take_weights(agent.network, weights)
        agent.randomness.restore(torch.tensor(stream))
        with agent.randomness, portion_drawn(self.order.portion):
            agent._play(moments)
        part = agent._played(len(moments))
        played = Played(part, agent.randomness.state.numpy())
        return played, Place(self._env_state(), agent._acting_state())

    def close(self) -> None:
        """Close the envs."""
        if hasattr(self, "agent"):
            self.agent.close()

    def _env_state(self) -> dict[str, Any] | None:
        try:
            return self.agent.vec.state_dict()
        except (StateError, NotImplementedError):
            return None
