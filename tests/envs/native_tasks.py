"""Tasks in Rust, for tests of their common contract."""

from __future__ import annotations

from typing import Any

import numpy as np

import sekai
from sekai.market import AccountConfig
from sekai.vector import NativeVecEnv, VecEnv

TASKS: dict[str, dict[str, Any]] = {
    "MarketMaking-v0": {"episode_steps": 9, "horizon": 0.2, "ruin_wealth": -4.0},
    "OptimalExecution-v0": {"episode_steps": 9, "action": "order", "shares": 3e5},
    "Trading-v0": {
        "max_ticks": 9,
        "order_size": 300,
        "warm_up": 20,
        "regime": "crisis",
        "account": AccountConfig(cash=20_000.0, ruin=0.985, taker_fee=20.0),
    },
}
"""Each with arguments that make its episodes short and of different lengths."""

CROWDS = {"MarketMaking-v0": 3000, "OptimalExecution-v0": 3000, "Trading-v0": 300}
"""So many envs that a batch of them uses its threads."""


def native(task: str, num_envs: int, **options: Any) -> NativeVecEnv:
    """The native vector env of a task."""
    vec = sekai.make_vec(task, num_envs, "native", **{**TASKS[task], **options})
    assert isinstance(vec, NativeVecEnv)
    return vec


def composed(task: str, num_envs: int, mode: Any, **options: Any) -> VecEnv:
    """The same envs one by one."""
    return sekai.make_vec(task, num_envs, mode, **{**TASKS[task], **options})


def plan(vec: VecEnv, steps: int) -> list[Any]:
    """Actions for each step; those of an env do not depend on how many envs there are."""
    rows = []
    for index in range(vec.num_envs):
        vec.action_space.seed(index)
        rows.append([vec.action_space.sample() for _ in range(steps)])
    return [np.array(actions) for actions in zip(*rows, strict=True)]


def record(vec: VecEnv, steps: int = 30, seed: Any = 3) -> list[Any]:
    """All that an agent sees in some steps, with resets of some envs among them."""
    seen = [parts(vec.reset(seed=seed))]
    for number, actions in enumerate(plan(vec, steps)):
        result = vec.step(actions)
        seen.append(parts(result))
        if vec.autoreset == "disabled" and result.dones.any():
            seen.append(parts(vec.reset(ids=result.dones)))
        if number == steps // 2:
            seen.append(parts(vec.reset(seed=[5], ids=[vec.num_envs - 1])))
    return seen


def parts(result: Any) -> tuple[Any, ...]:
    """A result as bytes and plain values."""
    *arrays, infos = (getattr(result, name) for name in result.__dataclass_fields__)
    shown = [(array.shape, array.dtype, array.tobytes()) for array in arrays]
    return (*shown, [plain(info) for info in infos])


def plain(value: Any) -> Any:
    """An info as values that tell every bit apart."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, value.tobytes())
    return float(value).hex()
