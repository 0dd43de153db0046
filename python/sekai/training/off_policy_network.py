"""An actor and critics of actions, with the moments of observations that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.observations import Leaf
from sekai.training.policies.action_critic import ActionCritic
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone, inputs_of
from sekai.training.policies.inputs import Gather
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.squashed import PreciseActor, SquashedActor
from sekai.training.trained_policy import Chooser

__all__ = ["OffPolicyNetwork"]


class OffPolicyNetwork(Chooser):
    """Everything that is learnt by an agent that remembers.

    Actor and critics read inputs, not raw observations: moments that change along the way belong
    to neither, so that networks which follow others slowly see what those see.
    """

    for_learning: ClassVar[tuple[str, ...]] = ("critics.", "log_temperature")
    critics: nn.Module
    """The weights of the critics, as the loss holds them."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        actor: type[PreciseActor] | type[SquashedActor],
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        self._actions, self._settings = actions, settings
        self.inputs = inputs_of(leaves, settings, gather)
        spread = settings.initial_spread * actions.spread_share
        self.actor = actor(self._body(), actions, spread)

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

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of what is chosen count; None for all."""
        return self.actor.head.used(self.actor.body, observations)

    def _body(self) -> Backbone:
        return backbone(self.inputs.leaves, self._settings)
