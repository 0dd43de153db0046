"""What workers of an agent are made from, and what they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.training.distributed.worker import Order
from sekai.training.policies.build import BACKBONES
from sekai.training.randomness import Portion
from sekai.training.worlds import is_foreign
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["orders_of"]

LEAST_STEPS = 8
"""Steps of each env that a call is worth: it costs about a millisecond."""


def orders_of(agent: Agent, portions: Sequence[Portion]) -> list[Order]:
    """What the workers of an agent are made from, with some of the envs each.

    Raises:
        TypeError: the agent was given envs, and not how to make them.
        ValueError: it learns so often that workers would wait more than act.
    """
    steps = getattr(agent.settings, "steps_per_update", LEAST_STEPS)
    if steps < LEAST_STEPS:
        raise ValueError(
            f"engine='ray' needs steps_per_update of at least {LEAST_STEPS}, since workers are "
            f"called once for as many steps; was {steps}"
        )
    own = {name: made for name, made in BACKBONES.items() if name == agent.settings.policy.backbone}
    return [
        Order(
            kind=type(agent),
            env=_recipe(agent.env_given),
            env_options=agent.env_options,
            settings=agent._worker_settings(portion.count),
            options=agent._worker_options(),
            backbones={} if _is_ours(own) else own,
            seed=agent.seed,
            portion=portion,
        )
        for portion in portions
    ]


def _recipe(env: Any) -> Any:
    """What envs can be made from anywhere."""
    if isinstance(env, str):
        # Other processes need not have registered it.
        return spec_of(env)
    is_made = isinstance(env, (VecEnv, MultiAgentVecEnv, Env, MultiAgentEnv)) or is_foreign(env)
    if not isinstance(env, EnvSpec) and (is_made or not callable(env)):
        raise TypeError(
            "engine='ray' needs an id, a spec or a function that makes an env, so that workers can "
            f"make their own; found {env!r}"
        )
    return env


def _is_ours(backbones: dict[str, Any]) -> bool:
    return all(made.__module__.startswith("sekai.") for made in backbones.values())
