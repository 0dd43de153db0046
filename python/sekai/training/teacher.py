"""Privileged teacher: distillation of a trained policy into one that observes less."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from sekai.error import SpaceError
from sekai.spaces import Dict, Space
from sekai.training.policies.actor_critic import ActorCritic, DiagGaussian, MultiCategorical
from sekai.training.saving import load_torch_policy
from sekai.training.trained_policy import TrainedPolicy

__all__ = ["Teacher", "kl_divergence", "public_space"]

CHUNK_ROWS = 4_096
"""Observations per forward pass."""


def public_space(space: Space[Any], privileged: Sequence[str]) -> Space[Any]:
    """Observation space without the parts that only a teacher reads.

    Raises:
        SpaceError: a part does not exist, or none is left.
    """
    if not privileged:
        return space
    parts = dict(space.spaces) if isinstance(space, Dict) else {}
    unknown = [name for name in privileged if name not in parts]
    if unknown or len(parts) == len(set(privileged)):
        raise SpaceError(
            f"privileged={tuple(privileged)} must name some of the parts of the observation, "
            f"which are {', '.join(parts) or 'none'}; got {space!r}"
        )
    return Dict({name: part for name, part in parts.items() if name not in privileged})


class Teacher:
    """Policy of PPO or A2C that a student imitates, while it observes more than the student.

    Args:
        policy: model file, agent, or policy with torch modules; it is never changed or saved.
        observation_space: observation space of the env, privileged parts included.
        action_space: action space of the env.

    Raises:
        TypeError: the policy has no action distribution to imitate.
        SpaceError: the policy acts in another space, or observes what the env does not show.
    """

    def __init__(
        self, policy: Any, observation_space: Space[Any], action_space: Space[Any]
    ) -> None:
        if isinstance(policy, (str, os.PathLike)):
            policy = load_torch_policy(policy)
        policy = getattr(policy, "policy", policy)
        network = getattr(policy, "network", None)
        if not isinstance(policy, TrainedPolicy) or not isinstance(network, ActorCritic):
            raise TypeError(
                f"teacher must be a policy of PPO or A2C, or the path of its file, got {policy!r}; "
                "a loaded one needs load_policy(path, backend='torch')"
            )
        if policy.action_space != action_space:
            raise SpaceError(
                f"the teacher has actions {policy.action_space!r}, the env has {action_space!r}; "
                "train the teacher with the actions of the student"
            )
        shown = _parts(observation_space)
        for name, part in _parts(policy.observation_space).items():
            if shown.get(name) != part:
                raise SpaceError(
                    f"the teacher observes {name or 'an observation'}: {part!r}, the env shows "
                    f"{shown.get(name)!r}; train the student on an env with all that the teacher "
                    "observes, and name what is hidden from the student in privileged=..."
                )
        self.network = network

    @property
    def digest(self) -> str:
        """SHA-256 of the weights."""
        hashed = hashlib.sha256()
        for name, weights in self.network.state_dict().items():
            hashed.update(name.encode() + weights.cpu().numpy().tobytes())
        return hashed.hexdigest()

    @torch.no_grad()
    def parameters(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Parameters of the teacher's action distributions for raw observations."""
        actor = self.network.actor
        count = len(next(iter(observations.values())))
        parts = [
            actor({name: rows[first : first + CHUNK_ROWS] for name, rows in observations.items()})
            for first in range(0, count, CHUNK_ROWS)
        ]
        names = ("logits",) if actor.choices else ("means", "deviations", "used")
        tables = (torch.cat(tables) for tables in zip(*parts, strict=True))
        return dict(zip(names, tables, strict=False))


def kl_divergence(teacher: Mapping[str, Tensor], student: Distribution) -> Tensor:
    """Kullback-Leibler divergence from the teacher to the student of each sample.

    It equals the cross-entropy up to the teacher's entropy, which does not depend on the student.

    Args:
        teacher: parameters of the teacher's distributions.
        student: action distributions of the student.
    """
    if isinstance(student, MultiCategorical):
        own = MultiCategorical(teacher["logits"], student.counts)
        parts = [
            # Masked actions, which neither takes, have log-probabilities of minus infinity.
            torch.where(logs.exp() > 0, logs.exp() * (logs - others), 0.0).sum(-1)
            for logs, others in zip(own.logs, student.logs, strict=True)
        ]
        return torch.stack(parts, dim=-1).sum(-1)
    assert isinstance(student, DiagGaussian), "actors have one of two distributions"
    ratio = teacher["deviations"] / student.scale
    distance = (teacher["means"] - student.loc) / student.scale
    parts_by_action = 0.5 * (ratio.square() + distance.square() - 1.0) - ratio.log()
    if student.used is not None:
        parts_by_action = parts_by_action * student.used
    return parts_by_action.sum(-1)


def _parts(space: Space[Any]) -> dict[str, Space[Any]]:
    return dict(space.spaces) if isinstance(space, Dict) else {"": space}
