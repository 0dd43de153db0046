"""Settings check themselves and survive being written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sekai.training import (
    A2CSettings,
    AgentSettings,
    DDPGSettings,
    MADDPGSettings,
    PolicySettings,
    PPOSettings,
    QMIXSettings,
    SACSettings,
)

KINDS: list[type[AgentSettings]] = [
    AgentSettings, PPOSettings, A2CSettings, DDPGSettings, SACSettings, MADDPGSettings,
    QMIXSettings,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_settings_survive_a_file(kind: type[AgentSettings], tmp_path: Path) -> None:
    pytest.importorskip("tomli_w")
    wanted = kind(learning_rate=0.125, policy=PolicySettings(hidden=(7, 5), activation="relu"))
    file = tmp_path / "settings.toml"

    file.write_text(wanted.to_toml(), encoding="utf-8")

    assert kind.from_toml(file) == wanted
    assert kind.from_toml(file) != kind()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_survive_plain_values(kind: type[AgentSettings]) -> None:
    wanted = kind(num_envs=3, policy=PolicySettings(hidden=(9,)))

    assert kind.from_dict(wanted.to_dict()) == wanted


@pytest.mark.parametrize("kind", [PPOSettings, QMIXSettings])
def test_groups_of_agents_survive_a_file(kind: Any, tmp_path: Path) -> None:
    pytest.importorskip("tomli_w")
    wanted = kind(share={"makers": ("a", "b"), "takers": ("c",)})
    file = tmp_path / "settings.toml"

    file.write_text(wanted.to_toml(), encoding="utf-8")

    assert kind.from_toml(file).to_dict() == wanted.to_dict()
    assert list(kind.from_toml(file).share["makers"]) == ["a", "b"]


def test_networks_can_be_told_as_a_mapping_and_as_nothing_else() -> None:
    plain: Any = {"hidden": [7, 5]}

    assert PPOSettings(policy=plain) == PPOSettings(policy=PolicySettings(hidden=(7, 5)))
    with pytest.raises(ValueError, match="policy must be PolicySettings or a mapping, was 'mlp'"):
        PPOSettings.from_dict({"policy": "mlp"})


def test_a_wrong_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="PPOSettings has no setting 'epoch'; did you mean 'epo"):
        PPOSettings.from_dict({"epoch": 3})


def test_a_name_like_no_other_is_an_error_with_all_of_them() -> None:
    with pytest.raises(ValueError, match="has no setting 'zzz'; there are backbone, hidden"):
        PolicySettings.from_dict({"zzz": 3})


def test_settings_of_settings_are_checked_too() -> None:
    with pytest.raises(ValueError, match="PolicySettings has no setting 'hiden'; did you mean"):
        PPOSettings.from_dict({"policy": {"hiden": [3]}})


def test_changed_settings_are_checked() -> None:
    settings = PPOSettings()

    assert settings.replaced(clip=0.5).clip == 0.5
    with pytest.raises(ValueError, match="clip must be finite and above 0, was -1"):
        settings.replaced(clip=-1)
    assert settings.clip == PPOSettings().clip


BAD: list[tuple[type[AgentSettings], dict[str, Any], str]] = [
    (AgentSettings, {"num_envs": 0}, "num_envs must be a whole number of at least 1, was 0"),
    (AgentSettings, {"num_envs": 2.5}, "num_envs must be a whole number"),
    (AgentSettings, {"num_envs": True}, "num_envs must be a whole number"),
    (AgentSettings, {"discount": 1.5}, "discount must be from 0 to 1, was 1.5"),
    (AgentSettings, {"learning_rate": float("nan")}, "learning_rate must be finite"),
    (AgentSettings, {"learning_rate_schedule": "steep"}, "learning_rate_schedule must be one of"),
    (PPOSettings, {"target_divergence": 0.0}, "target_divergence must be None or above 0"),
    (PPOSettings, {"trace": -0.1}, "trace must be from 0 to 1"),
    (DDPGSettings, {"exploration": -1.0}, "exploration must be 0 or more"),
    (DDPGSettings, {"exploration_persistence": 1.0}, "exploration_persistence must be from 0"),
    (
        DDPGSettings,
        {"memory": 255},
        "memory must be room for warm_up and batch_size, at least 2000",
    ),
    (SACSettings, {"steps_per_update": 33}, "steps_per_update must be at most rollout_steps, 32"),
    (SACSettings, {"actor_rate": 0.0}, "actor_rate must be finite and above 0"),
    (SACSettings, {"target_rate": 0.0}, "target_rate must be above 0 and at most 0.5"),
    (SACSettings, {"warm_up": -1}, "warm_up must be 0 or more"),
    (SACSettings, {"initial_temperature": 0.0}, "initial_temperature must be finite and above 0"),
]


@pytest.mark.parametrize(("kind", "values", "words"), BAD)
def test_bad_values_never_get_in(
    kind: type[AgentSettings], values: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"activation": "bend"}, "activation must be one of"),
        ({"hidden": (0,)}, "hidden must be whole numbers of at least 1"),
        ({"initial_spread": 0.0}, "initial_spread must be finite and above 0"),
    ],
)
def test_bad_networks_never_get_in(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PolicySettings(**values)
