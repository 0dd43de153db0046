"""Bridges that are passed an env of another kind name the function that takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pettingzoo.utils import parallel_to_aec  # type: ignore[import-untyped]
from stable_baselines3.common.vec_env import DummyVecEnv

from sekai import compat
from sekai.vector import SyncVecEnv
from tests.worlds import Duel, RandomWalk


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


MAKE: dict[str, Callable[[], Any]] = {
    "gymnasium env": cart_pole,
    "gymnasium vector env": lambda: SyncVectorEnv([cart_pole]),
    "VecEnv": lambda: DummyVecEnv([cart_pole]),
    "parallel env": lambda: compat.to_pettingzoo(Duel()),
    "AEC env": lambda: parallel_to_aec(compat.to_pettingzoo(Duel())),
    "sekai env": RandomWalk,
    "sekai vector env": lambda: SyncVecEnv([RandomWalk]),
    "sekai multi-agent env": Duel,
}
BRIDGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "from_gymnasium": (compat.from_gymnasium, "gymnasium env"),
    "from_gymnasium_vector": (compat.from_gymnasium_vector, "gymnasium vector env"),
    "from_stable_baselines3": (compat.from_stable_baselines3, "VecEnv"),
    "from_pettingzoo": (compat.from_pettingzoo, "parallel env"),
    "to_gymnasium": (compat.to_gymnasium, "sekai env"),
    "to_pettingzoo": (compat.to_pettingzoo, "sekai multi-agent env"),
    "gymnasium_vector": (compat.gymnasium_vector, "sekai vector env"),
    "to_stable_baselines3": (compat.to_stable_baselines3, "sekai vector env"),
}
REMEDIES = {
    "gymnasium env": "from_gymnasium$",
    "gymnasium vector env": "from_gymnasium_vector$",
    "VecEnv": "from_stable_baselines3$",
    "parallel env": "from_pettingzoo$",
    "AEC env": "aec_to_parallel",
    "sekai env": "export it with to_gymnasium",
    "sekai vector env": "export it with gymnasium_vector or to_stable_baselines3$",
    "sekai multi-agent env": "export it with to_pettingzoo$",
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", BRIDGES)
def test_another_kind_of_env_is_refused_with_the_bridge_that_takes_it(name: str, kind: str) -> None:
    bridge, own = BRIDGES[name]
    env = MAKE[kind]()
    if kind == own:
        bridge(env)
        return

    with pytest.raises(TypeError, match=REMEDIES[kind]):
        bridge(env)


def test_a_vector_env_in_another_autoreset_mode_names_the_argument() -> None:
    vec = SyncVectorEnv([cart_pole], autoreset_mode=AutoresetMode.NEXT_STEP)
    imported = compat.from_gymnasium_vector(vec)

    with pytest.raises(ValueError, match="make the vector env with autoreset='same_step'"):
        compat.to_stable_baselines3(imported)
    vec.metadata = {}
    with pytest.raises(ValueError, match=r"autoreset_mode.*set it in the vector env"):
        compat.from_gymnasium_vector(vec)
