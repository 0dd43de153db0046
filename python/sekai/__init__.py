"""sekai: train, judge and run trading agents through one small environment API.

    env = sekai.make("Trading-v0")
    result = env.reset(seed=42)
    result = env.step(env.action_space.sample())

The names here are the everyday ones; everything else lives in its module, which is imported when
it is first named (`sekai.training.PPO`, `sekai.spaces.Simplex`, `sekai.error.WorkerError`, ...).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sekai import backend, core, envs, error, registry, spaces, stats, wrappers
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from sekai.error import ResetRequired
from sekai.registry import EnvSpec, all_specs, make, register, register_namespace, spec
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from sekai.wrappers import (
    AutoReset,
    ClipAction,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RescaleAction,
    TimeLimit,
    TransformObservation,
    TransformReward,
)

if TYPE_CHECKING:
    from sekai import (
        cli,
        compat,
        compose,
        config,
        data,
        evaluation,
        experiment,
        live,
        market,
        policy,
        rendering,
        training,
        utils,
        vector,
    )
    from sekai.experiment import run_experiment, run_sweep
    from sekai.utils.checker import check_env
    from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv, VecEnv
    from sekai.vector.make_vec import make_vec

__all__ = [
    "ActionWrapper",
    "AsyncVecEnv",
    "AutoReset",
    "Box",
    "ClipAction",
    "Dict",
    "Discrete",
    "Env",
    "EnvSpec",
    "FlattenObservation",
    "FrameStackObservation",
    "MultiAgentEnv",
    "MultiBinary",
    "MultiDiscrete",
    "NormalizeObservation",
    "NormalizeReward",
    "ObservationWrapper",
    "OrderEnforcing",
    "ProcVecEnv",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "ResetRequired",
    "ResetResult",
    "RewardWrapper",
    "Space",
    "StepResult",
    "SyncVecEnv",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
    "Tuple",
    "VecEnv",
    "Wrapper",
    "__version__",
    "all_specs",
    "backend",
    "check_env",
    "cli",
    "compat",
    "compose",
    "config",
    "core",
    "data",
    "envs",
    "error",
    "evaluation",
    "experiment",
    "live",
    "make",
    "make_vec",
    "market",
    "policy",
    "register",
    "register_namespace",
    "registry",
    "rendering",
    "run_experiment",
    "run_sweep",
    "spaces",
    "spec",
    "stats",
    "training",
    "utils",
    "vector",
    "wrappers",
]


def _gymnasium_spec(id: str) -> EnvSpec | None:
    """Spec of `gymnasium/<id>`; gymnasium is imported when the first one is looked up."""
    from sekai.compat.gymnasium.namespace import resolve

    return resolve(id)


register_namespace("gymnasium", None, resolver=_gymnasium_spec)


def _register_with_gymnasium() -> None:
    """Register the envs of sekai with gymnasium, if it has been imported."""
    if sys.modules.get("gymnasium") is not None:
        import importlib

        importlib.import_module("sekai.compat.gymnasium")


_register_with_gymnasium()

LAZY = {
    "cli": "sekai.cli",
    "compat": "sekai.compat",
    "compose": "sekai.compose",
    "config": "sekai.config",
    "data": "sekai.data",
    "evaluation": "sekai.evaluation",
    "experiment": "sekai.experiment",
    "live": "sekai.live",
    "market": "sekai.market",
    "policy": "sekai.policy",
    "rendering": "sekai.rendering",
    "training": "sekai.training",
    "utils": "sekai.utils",
    "vector": "sekai.vector",
    "check_env": "sekai.utils.checker",
    "AsyncVecEnv": "sekai.vector",
    "ProcVecEnv": "sekai.vector",
    "SyncVecEnv": "sekai.vector",
    "VecEnv": "sekai.vector",
    "make_vec": "sekai.vector",
    "run_experiment": "sekai.experiment",
    "run_sweep": "sekai.experiment",
}
"""Modules of names that are imported at first use, to keep `import sekai` quick."""


def __getattr__(name: str) -> Any:
    """Import a lazy name, or tell the version, when first asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sekai")
    if name not in LAZY:
        raise AttributeError(f"module 'sekai' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(LAZY[name])
    # A module may hold a part of its own name.
    value = module if module.__name__ == f"sekai.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, imported yet or not."""
    return sorted(__all__)
