"""Brings the wrappers of a stack back to where they began, so that runs can be compared.

A normaliser learns from one episode to the next, and is meant to: the same seed shows another
observation the second time. The base env has no such excuse, so it is left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core import state
from sekai.core.layer import Layer
from sekai.error import StateError

__all__ = ["LearnedLayers"]


class LearnedLayers:
    """What the layers around the base env hold, less their random generators."""

    def __init__(self, env: Any) -> None:
        self._states: list[tuple[Layer, dict[str, Any], frozenset[str]]] = []
        self._originals: list[tuple[Layer, dict[str, Any]]] = []
        for layer in env:
            if isinstance(layer, Layer):
                self._add(layer)

    def rewind(self) -> None:
        """Bring every layer back to what it held at first, or to copies of it."""
        for layer, captured, excluded in self._states:
            state.restore(layer, captured, excluded)

    def give_back(self) -> None:
        """Leave the layers with the objects they had, and those as they were."""
        self.rewind()
        for layer, attributes in self._originals:
            vars(layer).clear()
            vars(layer).update(attributes)

    def _add(self, layer: Layer) -> None:
        excluded = layer._excluded() | {
            name for name, value in vars(layer).items() if isinstance(value, np.random.Generator)
        }
        try:
            captured = state.capture(layer, excluded)
        except StateError:
            # The check of state_dict tells about it; the runs are compared as they come.
            return
        self._states.append((layer, captured, excluded))
        self._originals.append((layer, dict(vars(layer))))
