"""Loading of the policies of saved agents."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

from sekai.error import SpaceError
from sekai.policy.files import (
    ModelFileError,
    check_fields,
    read_arrays,
    signature_of,
    space_of,
)
from sekai.policy.native import NativePolicy
from sekai.policy.program import UnsupportedPolicyError
from sekai.policy.settings import PolicySettings
from sekai.spaces import Dict
from sekai.storage.optional import optional_import

__all__ = ["load_policy"]

BACKENDS = ("native", "torch")


def load_policy(
    path: str | os.PathLike[str],
    *,
    allow: Collection[str] = (),
    device: Any = "cpu",
    backend: str | None = None,
) -> Any:
    """Load the policy of a saved agent, with its normalizer, without envs and training state.

    The policy requires the data that it was trained on: `evaluate` and `LiveRunner` refuse other
    ones.

    Args:
        path: model file.
        allow: differences that are allowed nevertheless: `bar_length`, `calendar`, `features`,
            `assets`.
        device: device of the network for torch, as for agents; any, whatever it was trained on.
        backend: "native" computes without torch, "torch" with the modules of training; None takes
            native where the agent has a native program and the device is the CPU.

    Returns:
        A `NativePolicy`; or for torch a `TrainedPolicy`, or a `TeamPolicy` of several agents.

    Raises:
        ModelFileError: the file holds no agent, or one that cannot act without its env.
        MissingExtraError: the agent has no native program, and torch is not installed.
    """
    if backend not in (None, *BACKENDS):
        raise ValueError(f"unknown backend {backend!r}; expected one of {BACKENDS}, or None")
    if backend == "torch" or (backend is None and str(device) != "cpu"):
        return _load_with_torch(path, allow, device, f"backend 'torch' of {path}")
    content = read_arrays(path)
    check_fields(content, path)
    if content.get("windows") is not None:
        raise ModelFileError(
            f"{path} cannot act without its env, whose data holds the windows it reads: use "
            f"{content['algorithm']:.80}.load"
        )
    try:
        return _native(content, allow)
    except UnsupportedPolicyError as error:
        if backend == "native":
            raise ValueError(
                f"{path} has no native program ({error}); use backend='torch'"
            ) from error
        return _load_with_torch(path, allow, device, f"{error} of {path}")


def _native(content: Mapping[str, Any], allow: Collection[str]) -> NativePolicy:
    action_space = space_of(content, "action_space")
    if isinstance(action_space, Dict):
        raise UnsupportedPolicyError("a team of agents")
    try:
        settings = PolicySettings.from_dict(content["settings"].get("policy", {}))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"invalid settings: {error}") from error
    try:
        return NativePolicy(
            content["algorithm"],
            space_of(content, "observation_space"),
            action_space,
            settings,
            content["network"],
            seed=content["seed"],
            data_signature=signature_of(content),
            allow=allow,
        )
    except SpaceError as error:
        raise ModelFileError(f"cannot build the network: {error}") from error


def _load_with_torch(
    path: str | os.PathLike[str], allow: Collection[str], device: Any, purpose: str
) -> Any:
    optional_import("torch", "train", purpose)
    # The stage that trains follows this one, and is an optional part as torch is.
    saving = import_module("sekai.training.saving")
    return saving.load_torch_policy(path, allow=allow, device=device)
