"""Images are read by convolutions, without being asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Discrete
from sekai.training import PPO, SAC, PPOSettings, load_policy
from sekai.training.policies.images import CNNBackbone
from tests.worlds import RandomWalk


class BrightSide(Env[Any, Any]):
    """Point to the half of a picture that is brighter.

    Observation: a picture of 12 by 12 pixels.
    Action: 0 for left, 1 for right; or a number below or above 0.
    Reward: 1 for the brighter half.
    Terminates: after each action.
    Truncates: never.
    """

    def __init__(self, first: bool = False, continuous: bool = False, side: int = 12) -> None:
        shape = (1, side, side) if first else (side, side, 1)
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.action_space: Any = Box(-1.0, 1.0, (1,), np.float32) if continuous else Discrete(2)
        self.first, self.side, self._is_right = first, side, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        return ResetResult(self._picture(), {})

    def step(self, action: Any) -> StepResult[Any]:
        chosen = bool(np.ravel(action)[0] > 0)
        reward = float(chosen == self._is_right)
        return StepResult(self._picture(), reward, True, False, {})

    def _picture(self) -> Any:
        self._is_right = bool(self.rng.integers(2))
        pixels = self.rng.integers(0, 90, (self.side, self.side), dtype=np.uint8)
        half = slice(self.side // 2, None) if self._is_right else slice(0, self.side // 2)
        pixels[:, half] += self.rng.integers(100, 150, dtype=np.uint8)
        return pixels[None] if self.first else pixels[..., None]


SMALL: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 32,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "gamma": 0.5,
}


@pytest.mark.parametrize("first", [False, True], ids=["channels last", "channels first"])
def test_images_are_read_by_convolutions_and_learned_from(first: bool, tmp_path: Path) -> None:
    agent: Any = PPO(lambda: BrightSide(first), policy={"cnn_features": 32}, seed=1, **SMALL)
    assert isinstance(agent.network.actor.body, CNNBackbone)

    agent.fit(3_072)

    env = BrightSide(first)
    picture = env.reset(seed=5).observation
    rewards = []
    for _ in range(100):
        result = env.step(agent.predict(picture))
        picture = result.observation
        rewards.append(result.reward)
    assert np.mean(rewards) > 0.95

    policy: Any = load_policy(agent.save(tmp_path))
    pictures = np.stack([env._picture() for _ in range(16)])
    assert np.array_equal(policy.predict_batch(pictures), agent.predict_batch(pictures))


def test_pixels_are_divided_by_255_and_have_no_moments() -> None:
    agent: Any = PPO(BrightSide, n_envs=1)
    inputs = agent.network.inputs

    numbers = inputs({"observation": torch.full((2, 12, 12, 1), 51, dtype=torch.uint8)})

    assert torch.allclose(numbers["observation"], torch.tensor(0.2))
    assert inputs.normalizer is not None
    assert not inputs.normalizer.names


def test_large_images_take_the_layers_of_nature() -> None:
    agent: Any = PPO(lambda: BrightSide(side=84), n_envs=1, n_steps=2)

    (encoder,) = agent.network.actor.body.encoders
    shapes = [tuple(part.weight.shape) for part in encoder if hasattr(part, "weight")]
    assert shapes == [(32, 1, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (256, 64 * 7 * 7)]


def test_images_beside_numbers_are_joined() -> None:
    class Both(RandomWalk):
        def __init__(self) -> None:
            super().__init__()
            self.pictures = BrightSide()
            parts = {"picture": self.pictures.observation_space, "place": self.observation_space}
            self.observation_space: Any = Dict(parts)

        def reset(self, **options: Any) -> Any:
            self.pictures.reset(seed=1)
            begun = super().reset(**options)
            return ResetResult(self._both(begun.observation), begun.info)

        def step(self, action: Any) -> Any:
            done = super().step(action)
            seen = self._both(done.observation)
            return StepResult(seen, done.reward, done.terminated, done.truncated, done.info)

        def _both(self, place: Any) -> dict[str, Any]:
            return {"picture": self.pictures._picture(), "place": place}

    agent: Any = PPO(Both, n_envs=2, n_steps=4).fit(16)

    assert agent.steps == 16
    assert agent.network.inputs.normalizer.names == ["place"]


def test_replayed_images_train_actor_and_critics() -> None:
    sizes: dict[str, Any] = {"learning_starts": 16, "batch_size": 8, "buffer_size": 200}
    agent = SAC(lambda: BrightSide(continuous=True), n_envs=2, steps_per_iteration=8, **sizes)

    assert agent.fit(64).steps == 64
    assert isinstance(agent.network.critics[0].body, CNNBackbone)


def test_settings_are_checked_and_survive_toml(tmp_path: Path) -> None:
    settings = PPOSettings.from_dict(
        {"policy": {"backbone": "cnn", "cnn_layers": [[8, 3, 2], [8, 3, 1]]}}
    )
    (tmp_path / "ppo.toml").write_text(settings.to_toml(), encoding="utf-8")

    assert PPOSettings.from_toml(tmp_path / "ppo.toml") == settings
    assert settings.policy.cnn_layers == ((8, 3, 2), (8, 3, 1))
    with pytest.raises(ValueError, match="triples"):
        PPOSettings.from_dict({"policy": {"cnn_layers": [[8, 3]]}})


def test_errors_name_the_remedy() -> None:
    with pytest.raises(SpaceError, match="needs an image"):
        PPO(RandomWalk, policy="cnn", n_envs=1)
    with pytest.raises(ValueError, match="smaller kernels"):
        PPO(BrightSide, policy={"cnn_layers": [[8, 20, 1]]}, n_envs=1)
