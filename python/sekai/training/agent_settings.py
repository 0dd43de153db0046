"""What every kind of agent can be told."""

from __future__ import annotations

import dataclasses

from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.schedules import Schedule
from sekai.training.settings import Settings, require

__all__ = ["AgentSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentSettings(Settings):
    """How an agent learns, whatever its algorithm."""

    num_envs: int = 64
    """Envs that act together, where they are made from an id or a function."""

    learning_rate: float = 3e-4
    learning_rate_schedule: Schedule = "constant"
    discount: float = 0.99
    """What a reward is worth one step later."""

    gradient_norm: float = 0.5
    """The length that gradients are cut to."""

    normalise_rewards: bool = True
    """Whether rewards are divided by how much returns spread."""

    threads: int = 1
    """Threads that torch learns with: more pay where networks are large and cores are idle."""

    policy: PolicySettings = dataclasses.field(default_factory=PolicySettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("num_envs", "threads")
        self._require_positive("learning_rate", "gradient_norm")
        self._require_share("discount")
        schedules = ("constant", "linear")
        require(self.learning_rate_schedule in schedules, "learning_rate_schedule",
                f"one of {schedules}", self.learning_rate_schedule)  # fmt: skip
