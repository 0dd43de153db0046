"""Programs of policy networks: operations of `quant_gym_rs` from settings, leaves and weights.

A program follows the torch modules of `sekai.training.policies` layer by layer, under the names
that their weights have in a model file; tests compare both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PolicyProgram
from sekai.error import SpaceError
from sekai.policy.actions import ActionLayout
from sekai.policy.files import ModelFileError
from sekai.policy.observations import (
    Leaf,
    Leaves,
    is_action_mask,
    normalized_leaves,
    slots_of,
)
from sekai.policy.settings import PolicySettings

__all__ = [
    "CLIP_OBS",
    "DEFAULT_AGGREGATOR",
    "EPSILON",
    "MASKED_LOGIT",
    "MAX_PIXEL",
    "Body",
    "ProgramBuilder",
    "UnsupportedPolicyError",
    "Weights",
    "backbone_name",
    "mask_names",
]

CLIP_OBS = 10.0
"""Normalized observations are clipped to this magnitude."""

EPSILON = 1e-8
"""Added to variances."""

MAX_PIXEL = 255.0
"""Images are divided by this instead."""

MASKED_LOGIT = -1e9
"""Logit of actions that a mask forbids."""

DEFAULT_AGGREGATOR = "mean"
"""Backbone "auto" of observations with assets."""


class UnsupportedPolicyError(Exception):
    """Policy has no native program: a custom backbone, encoder or algorithm."""


class Weights:
    """Weights of a model file by name, each compared by shape and type when it is read."""

    def __init__(self, arrays: Any, ignored: tuple[str, ...] = ()) -> None:
        if not isinstance(arrays, Mapping):
            raise ModelFileError(f"network must be weights by name, got {type(arrays).__name__}")
        self._arrays = {
            name: array
            for name, array in arrays.items()
            if not (isinstance(name, str) and name.startswith(ignored))
        }
        self._unread = set(self._arrays)

    def read(
        self, name: str, shape: tuple[int, ...], dtype: type[np.generic] = np.float32
    ) -> NDArray[Any]:
        """Weights of a name, which must have this shape."""
        if name not in self._arrays:
            raise ModelFileError(f"the file is of another network: {name} differ")
        array = self._arrays[name]
        is_array = isinstance(array, np.ndarray)
        if not is_array or array.shape != shape or array.dtype != dtype:
            shown = f"{array.shape} {array.dtype}" if is_array else repr(type(array))
            expected = f"{shape} {np.dtype(dtype)}"
            raise ModelFileError(f"{name} needs {expected}, the file has {shown}")
        self._unread.discard(name)
        return np.ascontiguousarray(array)

    def has(self, name: str) -> bool:
        """Return True if the file has weights of a name."""
        return name in self._arrays

    def rows(self, name: str) -> int:
        """Length of the first axis of weights; 0 without any."""
        array = self._arrays.get(name)
        return len(array) if isinstance(array, np.ndarray) and array.ndim else 0

    def require_equal(self, name: str, other: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Raise unless two names, which share memory in training, have the same bits."""
        if self.read(name, shape, dtype).tobytes() != self.read(other, shape, dtype).tobytes():
            raise ModelFileError(f"the file is damaged: {name} and {other} differ")

    def require_shared(self, prefix: str, other: str) -> None:
        """Raise unless all weights of two modules, which are one in training, are the same."""
        for name in [name for name in self._arrays if str(name).startswith(prefix)]:
            twin = self._arrays.get(other + name[len(prefix) :])
            if not isinstance(twin, np.ndarray) or twin.tobytes() != self._arrays[name].tobytes():
                raise ModelFileError(f"the file is damaged: {name} differs from {other}")

    def require_all_read(self) -> None:
        """Raise if the file has weights that the network does not have."""
        if self._unread:
            odd = sorted(map(str, self._unread))[:3]
            raise ModelFileError(f"the file is of another network: {', '.join(odd)} differ")


@dataclass(frozen=True, slots=True)
class Body:
    """Features of a backbone: values of a program."""

    whole: int
    """Features of the observation."""

    width: int
    """Number of features of the observation, and of each slot."""

    slots: int | None = None
    """Features of each asset, if there are assets."""

    count: int = 0
    """Number of asset slots, 0 for none."""

    mask: int | None = None
    """Mask of slots in use; None if all are."""


def backbone_name(leaves: Leaves, settings: PolicySettings) -> str:
    """Name of the backbone, which "auto" leaves to the observation."""
    if settings.backbone != "auto":
        return settings.backbone
    has_images = any(leaf.is_image for leaf in leaves.values())
    others = "cnn" if has_images else "mlp"
    return others if slots_of(leaves, settings) is None else DEFAULT_AGGREGATOR


def mask_names(leaves: Leaves, choices: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the action mask leaves, validated against the number of actions."""
    names = tuple(name for name in leaves if is_action_mask(name))
    size = sum(leaves[name].width for name in names)
    if names and choices and size != sum(choices):
        raise SpaceError(
            f"action_mask needs {sum(choices)} numbers, one for each of the picks {choices}, got "
            f"{size}"
        )
    return names


class ProgramBuilder:
    """Builder of a program: its methods add operations and return the index of their value.

    Args:
        leaves: observation leaves; action masks are left out.
        settings: architecture.
        weights: weights of the network.
    """

    def __init__(self, leaves: Leaves, settings: PolicySettings, weights: Weights) -> None:
        self.leaves = {name: leaf for name, leaf in leaves.items() if not is_action_mask(name)}
        self.settings, self.weights = settings, weights
        self.operations: list[tuple[str, dict[str, Any]]] = []
        self._names = list(self.leaves)
        self._masks: dict[str, int] = {}

    def build(self, *outputs: int) -> PolicyProgram:
        """Program that computes values."""
        sizes = [(name, int(np.prod(leaf.shape))) for name, leaf in self.leaves.items()]
        return PolicyProgram(sizes, self.operations, list(outputs))

    def add(self, name: str, **arguments: Any) -> int:
        """Add an operation."""
        self.operations.append((name, arguments))
        return len(self.operations) - 1

    def inputs(self, prefixes: Sequence[str]) -> dict[str, int]:
        """Preprocessed leaves.

        Args:
            prefixes: modules that share the normalizer, which files hold once for each.
        """
        # The MLP has weights for each position; backbones that share weights share moments.
        is_mlp = self.settings.backbone == "mlp"
        slots = None if is_mlp else slots_of(self.leaves, self.settings)
        widths = normalized_leaves(self.leaves, slots) if self.settings.norm_obs else {}
        moments = {
            name: self._moments(prefixes, index, width)
            for index, (name, width) in enumerate(widths.items())
        }
        return {name: self._input(name, leaf, moments) for name, leaf in self.leaves.items()}

    def _moments(
        self, prefixes: Sequence[str], index: int, width: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        shapes = {"count": (), "mean": (width,), "variance": (width,)}
        for part, shape in shapes.items():
            first, *others = (f"{prefix}.normalizer.{part}_{index}" for prefix in prefixes)
            for other in (first, *others):
                self.weights.require_equal(first, other, shape, np.float64)
        read = {
            part: self.weights.read(f"{prefixes[0]}.normalizer.{part}_{index}", shape, np.float64)
            for part, shape in shapes.items()
        }
        with np.errstate(all="ignore"):
            scale = 1.0 / np.sqrt(read["variance"] + EPSILON)
            return read["mean"].astype(np.float32), scale.astype(np.float32)

    def _input(self, name: str, leaf: Leaf, moments: Mapping[str, Any]) -> int:
        index = self._names.index(name)
        if not leaf.is_measured:
            starts = list(leaf.starts) or [0] * len(leaf.choices)
            return self.add("one_hot", leaf=index, counts=list(leaf.choices), starts=starts)
        numbers = self.add("input", leaf=index)
        if leaf.is_image:
            return self.add("scale", input=numbers, factor=1.0 / MAX_PIXEL)
        if name not in moments:
            return numbers
        mean, scale = moments[name]
        return self.add("normalize", input=numbers, mean=mean, scale=scale, clip=CLIP_OBS)

    def linear(
        self, value: int, name: str, inputs: int, outputs: int, has_bias: bool = True
    ) -> int:
        """Linear layer of each item."""
        weight = self.weights.read(f"{name}.weight", (outputs, inputs))
        bias = np.empty(0, np.float32)
        if has_bias:
            bias = self.weights.read(f"{name}.bias", (outputs,))
        return self.add("linear", input=value, weight=weight, bias=bias)

    def activate(self, value: int) -> int:
        """Activation that the settings name."""
        return self.add(self.settings.activation, input=value)

    def layers(self, value: int, name: str, width: int, sizes: Sequence[int]) -> int:
        """Linear layers with activations, from `width` inputs to the last of `sizes`."""
        for index, size in enumerate(sizes):
            value = self.activate(self.linear(value, f"{name}.{2 * index}", width, size))
            width = size
        return value

    def stream(self, body: Body, name: str, outputs: int) -> int:
        """Stream of a dueling network: a hidden layer of the width of the body, and outputs."""
        hidden = self.activate(self.linear(body.whole, f"{name}.0", body.width, body.width))
        return self.linear(hidden, f"{name}.2", body.width, outputs)

    def averaged(self, value: int, count: int) -> int:
        """Mean of each `count` numbers."""
        if count == 1:
            return value
        weight = np.full((1, count), 1.0 / count, np.float32)
        return self.add("linear", input=value, weight=weight, bias=np.empty(0, np.float32))

    def joined(self, values: Sequence[int], items: int = 1) -> int:
        """Values side by side, item by item."""
        if len(values) == 1:
            return values[0]
        return self.add("concatenate", inputs=list(values), items=items)

    def mask(self, name: str | None) -> int | None:
        """Mask of slots in use."""
        if name is None:
            return None
        if name not in self._masks:
            self._masks[name] = self.add("non_zero", leaf=self._names.index(name))
        return self._masks[name]

    def zero_unused(self, value: int, mask: int | None) -> int:
        """Set unused slots to zero."""
        return value if mask is None else self.add("zero_unused", input=value, mask=mask)

    def layer_norm(self, value: int, name: str, width: int) -> int:
        """Layer normalization of each item."""
        weight = self.weights.read(f"{name}.weight", (width,))
        bias = self.weights.read(f"{name}.bias", (width,))
        return self.add("layer_norm", input=value, weight=weight, bias=bias, epsilon=1e-5)

    def logits(self, body: Body, name: str, actions: ActionLayout) -> int:
        """Logits of discrete actions, masked; see `CategoricalHead`."""
        is_shared = len(actions.choices) == body.count and len(set(actions.choices)) == 1
        if body.slots is not None and is_shared:
            logits = self.linear(body.slots, f"{name}.logits", body.width, actions.choices[0])
            return self.add("mask_logits", input=logits, mask=body.mask, masked=MASKED_LOGIT)
        logits = self.linear(body.whole, f"{name}.logits", body.width, sum(actions.choices))
        return self.add("mask_logits", input=logits, mask=None, masked=MASKED_LOGIT)

    def means(
        self, body: Body, name: str, actions: ActionLayout
    ) -> tuple[int, NDArray[np.float32]]:
        """Means of continuous actions, and their log standard deviations; see `GaussianHead`."""
        has_slots = body.slots is not None and actions.size in (body.count, body.count + 1)
        count = body.count if has_slots else 0
        rest = actions.size - count
        parts = []
        if has_slots and body.slots is not None:
            each = self.linear(body.slots, f"{name}.each", body.width, 1)
            parts.append(self.zero_unused(each, body.mask))
        if rest:
            parts.append(self.linear(body.whole, f"{name}.rest", body.width, rest))
        log_std = self.weights.read(f"{name}.log_std", (rest + bool(count),))
        if count:
            log_std = np.concatenate([np.repeat(log_std[:1], count), log_std[1:]])
        return self.joined(parts), log_std
