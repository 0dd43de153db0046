"""What else is told of a step, for others than the policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from sekai.compose.attached import Component
from sekai.compose.simulator import StateType

__all__ = ["AuxiliaryInfoCollector"]

AuxInfoType = TypeVar("AuxInfoType")


class AuxiliaryInfoCollector(Component, ABC, Generic[StateType, AuxInfoType]):
    """Gathers what goes into `info["aux_info"]`; it sees the reward of the step already."""

    def __call__(self, simulator_state: StateType) -> AuxInfoType:
        """What `collect` gathers."""
        return self.collect(simulator_state)

    @abstractmethod
    def collect(self, simulator_state: StateType) -> AuxInfoType:
        """What to tell of the state."""
