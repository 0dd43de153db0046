"""Hyperparameters shared by all algorithms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from sekai.policy.settings import PolicySettings, Settings, require

__all__ = [
    "AgentSettings",
    "Schedule",
    "scheduled",
    "with_arguments",
]

Own = TypeVar("Own", bound="AgentSettings")

Schedule = Literal["constant", "linear"]
"""Constant, or linear decay to zero at the total steps of training; see `Agent.fit`."""


ALIASES = {
    **dict.fromkeys(("lr", "step_size"), "learning_rate"),
    **dict.fromkeys(("lr_schedule", "anneal_lr"), "learning_rate_schedule"),
    **dict.fromkeys(("discount", "discount_factor"), "gamma"),
    **dict.fromkeys(("lam", "lambda", "lambda_", "lmbda"), "gae_lambda"),
    **dict.fromkeys(("clip", "clip_coef", "clip_eps", "clip_param", "clip_ratio"), "clip_range"),
    **dict.fromkeys(("ent_weight", "entropy", "entropy_coef", "entropy_coeff"), "ent_coef"),
    **dict.fromkeys(("value_coef", "value_loss_coef", "vf_coeff", "vf_weight"), "vf_coef"),
    **dict.fromkeys(("epochs", "num_epochs", "ppo_epoch", "update_epochs"), "n_epochs"),
    **dict.fromkeys(("minibatch_size", "mini_batch_size", "sgd_minibatch_size"), "batch_size"),
    **dict.fromkeys(("num_envs", "n_env", "envs"), "n_envs"),
    **dict.fromkeys(("horizon", "num_steps", "rollout_length", "rollout_steps"), "n_steps"),
    **dict.fromkeys(("clip_grad", "grad_clip", "gradient_clip", "max_norm"), "max_grad_norm"),
    **dict.fromkeys(("buffer_capacity", "memory_size", "replay_size"), "buffer_size"),
    **dict.fromkeys(("polyak", "soft_update"), "tau"),
    **dict.fromkeys(("start_steps", "warmup", "warmup_steps"), "learning_starts"),
    **dict.fromkeys(("update_every", "update_freq"), "train_freq"),
    **dict.fromkeys(("kl_target", "max_kl"), "target_kl"),
    **dict.fromkeys(("normalize_reward", "normalize_rewards"), "norm_reward"),
}
"""Settings of agents by common names."""

REMEDIES = {
    "callback": "pass callbacks to fit",
    "callbacks": "pass callbacks to fit",
    "net_arch": "pass policy={'net_arch': ...}",
    "policy_kwargs": "pass policy={...}, see PolicySettings",
    "progress": "pass progress=True to fit",
    "progress_bar": "pass progress=True to fit",
    "tensorboard_log": "pass the callback Track(folder) to fit",
    "total_timesteps": "pass the steps to fit",
    "verbose": "pass progress=True to fit",
}
"""Places of arguments of other packages."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentSettings(Settings):
    """Hyperparameters of every algorithm."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {}
    """Defaults for envs that are not native: few steps, each of which is used often."""

    _aliases: ClassVar[Mapping[str, str]] = ALIASES
    _remedies: ClassVar[Mapping[str, str]] = REMEDIES

    n_envs: int = 64
    """Environments that act in parallel, if they are made from an id or a function."""

    learning_rate: float = 3e-4
    """Step size of the optimizer."""

    learning_rate_schedule: Schedule = "constant"
    """"constant", or "linear" decay to zero at the total steps of training."""

    gamma: float = 0.99
    """Discount factor."""

    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""

    norm_reward: bool = True
    """Divide rewards by the running root mean square of discounted returns."""

    threads: int = 1
    """Threads of torch: more help with large networks and idle cores."""

    policy: PolicySettings = dataclasses.field(default_factory=PolicySettings)
    """Architecture of the networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("n_envs", "threads")
        self._require_positive("learning_rate", "max_grad_norm")
        self._require_share("gamma")
        schedule, allowed = self.learning_rate_schedule, ("constant", "linear")
        require(schedule in allowed, "learning_rate_schedule", f"one of {allowed}", schedule)


def with_arguments(
    base: Own, policy: str | PolicySettings | Mapping[str, Any] | None, changes: Mapping[str, Any]
) -> Own:
    """Settings with the arguments of an agent: its policy, and single hyperparameters."""
    if isinstance(policy, str):
        policy = base.policy.replaced(backbone=policy)
    elif isinstance(policy, Mapping):
        policy = base.policy.replaced(**policy)
    return base.replaced(**changes, **({} if policy is None else {"policy": policy}))


def scheduled(start: float, schedule: Schedule, progress: float) -> float:
    """Scheduled value after a fraction `progress` of the total steps."""
    return start if schedule == "constant" else start * max(0.0, 1.0 - progress)
