"""A policy from a file, without envs and without what learns."""

from __future__ import annotations

import os
from typing import Any

from sekai.training.agent import Agent
from sekai.training.keeping import read_agent, settings_of, space_of
from sekai.training.kept_file import ModelFileError
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.multi.team import TeamPolicy
from sekai.training.randomness import Randomness
from sekai.training.trained_policy import TrainedPolicy

__all__ = ["load_policy"]


def load_policy(path: str | os.PathLike[str]) -> TrainedPolicy | TeamPolicy:
    """What acts of a saved agent, normalisation included; its spaces are those of the file.

    Raises:
        ModelFileError: there is no saved agent, or one that cannot act on its own.
    """
    content = read_agent(path)
    kind = _kinds(Agent).get(content["algorithm"])
    if kind is None:
        raise ModelFileError(f"{path} holds an agent of {content['algorithm']!r:.80}, unknown here")
    network = kind.kept_network(content, settings_of(content, kind.settings_type))
    if network is None or content.get("windows") is not None:
        raise ModelFileError(
            f"{path} cannot act on its own, it looks up windows in the data of its envs: use "
            f"{kind.__name__}.load"
        )
    seen, done = (space_of(content, name) for name in ("observation_space", "action_space"))
    spaces, randomness = JointSpaces.of(seen, done), Randomness(content["seed"])
    if spaces is not None:
        return TeamPolicy(network, spaces, randomness)
    return TrainedPolicy(network, seen, done, randomness)


def _kinds(base: Any) -> dict[str, type[Agent]]:
    found = {kind.__name__: kind for kind in base.__subclasses__()}
    for kind in base.__subclasses__():
        found.update(_kinds(kind))
    return found
