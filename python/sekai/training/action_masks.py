"""Action masks: which picks are allowed, as envs report them in `info["action_mask"]`.

Masks in infos are read after every reset and step, and stored beside the observations that they
belong to. An env that reports none at some step allows everything there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.spaces import Dict, Discrete, MultiDiscrete, Space
from sekai.training.observations import ACTION_MASK
from sekai.vector.infos import DictInfos, Infos

__all__ = ["counts_of", "flat_mask", "info_masks", "takes_info_masks"]


def takes_info_masks(observation_space: Space[Any], action_space: Space[Any]) -> bool:
    """Whether masks are read from infos: picks, and no mask in the observations."""
    is_choice = isinstance(action_space, (Discrete, MultiDiscrete))
    is_shown = isinstance(observation_space, Dict) and ACTION_MASK in observation_space.spaces
    return is_choice and not is_shown


def info_masks(
    infos: Sequence[Mapping[str, Any]], space: Space[Any]
) -> dict[int, NDArray[np.bool_]]:
    """The masks that some of the envs report, by env, all picks one after another.

    Raises:
        SpaceError: a mask has not the form of the space, or allows nothing.
    """
    found = infos if isinstance(infos, Infos) else DictInfos([dict(info) for info in infos])
    column = found.column(ACTION_MASK)
    pairs = zip(column.indices.tolist(), column.values, strict=True)
    return {
        env: flat_mask(space, mask, f" of env {env}") for env, mask in pairs if mask is not None
    }


def flat_mask(space: Space[Any], mask: Any, whose: str = "") -> NDArray[np.bool_]:
    """A mask of the form that `space.sample(mask=...)` takes, all picks one after another.

    Args:
        space: of the actions.
        mask: None allows everything.
        whose: for the error.

    Raises:
        SpaceError: it has not that form, or allows nothing.
    """
    counts = counts_of(space)
    if mask is None:
        return np.ones(sum(counts), np.bool_)
    flat: NDArray[np.bool_] = np.concatenate([np.ravel(part) for part in _parts(mask)]) != 0
    if flat.size != sum(counts):
        raise SpaceError(
            f"action_mask{whose} needs {sum(counts)} truths, one for each of the picks {counts}, "
            f"found {flat.size}"
        )
    for place, part in enumerate(np.split(flat, np.cumsum(counts)[:-1])):
        if not part.any():
            which = f" for pick {place}" if len(counts) > 1 else ""
            raise SpaceError(
                f"action_mask{whose} allows nothing{which}: end the episode, or allow an action"
            )
    return flat


def counts_of(space: Space[Any]) -> tuple[int, ...]:
    """How many each pick of an action chooses from."""
    if isinstance(space, Discrete):
        return (int(space.n),)
    if isinstance(space, MultiDiscrete):
        return tuple(int(count) for count in np.ravel(space.nvec))
    raise SpaceError(f"masks are for Discrete and MultiDiscrete actions, found {space!r}")


def _parts(mask: Any) -> list[Any]:
    """The masks of single picks, from masks nested as deep as the space has dimensions."""
    if isinstance(mask, (tuple, list)):
        return [part for nested in mask for part in _parts(nested)]
    return [mask]
