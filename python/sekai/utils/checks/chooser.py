"""Chooses random actions that belong to the action space and keep to the mask."""

from __future__ import annotations

import copy
from typing import Any

from sekai.utils.checks.report import CheckStopped, described
from sekai.utils.checks.subject import Subject

__all__ = ["Chooser", "mask_of"]


class Chooser:
    """Samples from copies of the action spaces, so that the env's own streams are not moved."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self._subject = subject
        self._spaces: dict[str, Any] = {}
        for number, (agent, space) in enumerate(subject.action_spaces().items()):
            self._spaces[agent] = copy.deepcopy(space)
            self._spaces[agent].seed(seed + number)

    def choose(self, result: Any) -> Any:
        """What to give `step` after `result`."""
        parts = self._subject.parts(result)
        actions = {
            agent: self._sampled(agent, mask_of(parts.get(agent, {})))
            for agent in self._subject.acting()
        }
        return self._subject.joined(actions)

    def _sampled(self, agent: str, mask: Any) -> Any:
        space = self._spaces.get(agent)
        if space is None:
            raise CheckStopped(f"agent {agent!r} is alive and has no action space")
        try:
            return space.sample() if mask is None else space.sample(mask=mask)
        except Exception as error:
            if mask is not None:
                # The check of masks tells what is wrong with this one.
                return self._sampled(agent, None)
            raise CheckStopped(f"action_space.sample() raised {described(error)}") from error


def mask_of(part: dict[str, Any]) -> Any:
    """The action mask that an agent was given, if any."""
    info = part.get("info")
    return info.get("action_mask") if isinstance(info, dict) else None
