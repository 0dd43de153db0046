"""sekai: train, judge and run trading agents through one small environment API.

    env = sekai.make("Trading-v0")
    result = env.reset(seed=42)
    result = env.step(env.action_space.sample())

The names here are the everyday ones; everything else lives in its module (`sekai.wrappers`,
`sekai.spaces`, `sekai.vector`, `sekai.stats`, `sekai.rendering`, `sekai.compat`, ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekai import envs
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper
from sekai.error import (
    BrokerError,
    BusyError,
    ClosedError,
    DataError,
    DuplicateEnvError,
    FeedEndedError,
    FeedError,
    InvalidActionError,
    JournalError,
    MissingExtraError,
    NamespaceError,
    NotFittedError,
    NotReadyError,
    OrderError,
    ResetRequired,
    SekaiError,
    SpaceError,
    StateError,
    UnknownEnvError,
    WorkerError,
)
from sekai.registry import all_specs, make, register, register_namespace, spec
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from sekai.wrappers import (
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeLimit,
)

if TYPE_CHECKING:
    from sekai import compat, compose, data, evaluation, live, market, rendering
    from sekai.registry import EnvSpec
    from sekai.utils.checker import check_env
    from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv
    from sekai.vector.make_vec import make_vec

__all__ = [
    "ActionWrapper",
    "AsyncVecEnv",
    "Box",
    "BrokerError",
    "BusyError",
    "ClosedError",
    "DataError",
    "Dict",
    "Discrete",
    "DuplicateEnvError",
    "Env",
    "FeedEndedError",
    "FeedError",
    "InvalidActionError",
    "JournalError",
    "MissingExtraError",
    "MultiBinary",
    "MultiDiscrete",
    "NamespaceError",
    "NormalizeObservation",
    "NormalizeReward",
    "NotFittedError",
    "NotReadyError",
    "ObservationWrapper",
    "OrderError",
    "ProcVecEnv",
    "RecordEpisodeStatistics",
    "ResetRequired",
    "ResetResult",
    "RewardWrapper",
    "SekaiError",
    "SpaceError",
    "StateError",
    "StepResult",
    "SyncVecEnv",
    "TimeLimit",
    "Tuple",
    "UnknownEnvError",
    "WorkerError",
    "__version__",
    "all_specs",
    "check_env",
    "compat",
    "compose",
    "data",
    "envs",
    "evaluation",
    "live",
    "make",
    "make_vec",
    "market",
    "register",
    "register_namespace",
    "rendering",
    "spec",
]


def _gymnasium_spec(id: str) -> EnvSpec | None:
    """How to make `gymnasium/<id>`; gymnasium is imported when first asked."""
    from sekai.compat.gymnasium.namespace import resolve

    return resolve(id)


register_namespace("gymnasium", None, resolver=_gymnasium_spec)

LAZY = {
    "compat": "sekai.compat",
    "compose": "sekai.compose",
    "data": "sekai.data",
    "evaluation": "sekai.evaluation",
    "live": "sekai.live",
    "market": "sekai.market",
    "rendering": "sekai.rendering",
    "check_env": "sekai.utils.checker",
    "SyncVecEnv": "sekai.vector",
    "AsyncVecEnv": "sekai.vector",
    "ProcVecEnv": "sekai.vector",
    "make_vec": "sekai.vector",
}
"""Where names are found that are imported at first use, to keep `import sekai` quick."""


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
    found = module if module.__name__ == f"sekai.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """All public names, imported yet or not."""
    return sorted(__all__)
