"""An actor and critics of actions, with the moments of observations that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf
from sekai.training.policies.action_critic import ActionCritic
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone
from sekai.training.policies.inputs import Inputs
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.squashed import PreciseActor, SquashedActor
from sekai.training.trained_policy import Chooser

__all__ = ["OffPolicyNetwork"]


class OffPolicyNetwork(Chooser):
    """Everything that is learnt by an agent that remembers.

    Actor and critics read inputs, not raw observations: moments that change along the way belong
    to neither, so that networks which follow others slowly see what those see.
    """

    critics: nn.Module
    """The weights of the critics, as the loss holds them."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        actor: type[PreciseActor] | type[SquashedActor],
    ) -> None:
        super().__init__()
        self._leaves, self._actions, self._settings = dict(leaves), actions, settings
        self.normaliser = ObservationNormaliser(leaves) if settings.normalise else None
        self.inputs = Inputs(leaves, self.normaliser)
        self.actor = actor(self._body(), actions, settings.initial_spread)

    def new_critic(self) -> ActionCritic:
        """Another critic; it belongs to who asked for it."""
        return ActionCritic(self._body(), self._actions, self._settings)

    def take_over(self, loss: Any) -> None:
        """Keep what the loss made of the critics: several of them lie in one stack there."""
        weights = getattr(loss, "qvalue_network_params", None)
        self.critics = loss.value_network_params if weights is None else weights
        if hasattr(loss, "log_alpha"):
            self.log_temperature = loss.log_alpha

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do, before it is turned into actions of the env."""
        inputs = self.inputs(observations)
        if isinstance(self.actor, SquashedActor):
            return self.actor.choose(inputs, deterministic)
        chosen: Tensor = self.actor(inputs)
        return chosen

    def _body(self) -> Backbone:
        return backbone(self._leaves, self._settings)
