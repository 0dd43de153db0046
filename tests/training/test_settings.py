"""Settings check themselves and survive being written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sekai.training import (
    A2CSettings,
    AgentSettings,
    DDPGSettings,
    DQNSettings,
    MADDPGSettings,
    PolicySettings,
    PPOSettings,
    QMIXSettings,
    SACSettings,
    TD3Settings,
)

KINDS: list[type[AgentSettings]] = [
    AgentSettings,
    PPOSettings,
    A2CSettings,
    DDPGSettings,
    TD3Settings,
    SACSettings,
    DQNSettings,
    MADDPGSettings,
    QMIXSettings,
]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_survive_a_file(kind: type[AgentSettings], tmp_path: Path) -> None:
    pytest.importorskip("tomli_w")
    wanted = kind(learning_rate=0.125, policy=PolicySettings(net_arch=(7, 5), activation="relu"))
    file = tmp_path / "settings.toml"

    file.write_text(wanted.to_toml(), encoding="utf-8")

    assert kind.from_toml(file) == wanted
    assert kind.from_toml(file) != kind()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_survive_plain_values(kind: type[AgentSettings]) -> None:
    wanted = kind(n_envs=3, policy=PolicySettings(net_arch=(9,)))

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
    plain: Any = {"net_arch": [7, 5]}

    assert PPOSettings(policy=plain) == PPOSettings(policy=PolicySettings(net_arch=(7, 5)))
    with pytest.raises(ValueError, match="policy must be PolicySettings or a mapping, got 'mlp'"):
        PPOSettings.from_dict({"policy": "mlp"})


def test_a_wrong_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="PPOSettings has no setting 'epoch'; did you mean 'n_epo"):
        PPOSettings.from_dict({"epoch": 3})


def test_a_name_like_no_other_is_an_error_with_all_of_them() -> None:
    with pytest.raises(ValueError, match="has no setting 'zzz'; expected one of activation"):
        PolicySettings.from_dict({"zzz": 3})


def test_settings_of_settings_are_checked_too() -> None:
    with pytest.raises(ValueError, match="PolicySettings has no setting 'net_ach'; did you mean"):
        PPOSettings.from_dict({"policy": {"net_ach": [3]}})


def test_changed_settings_are_checked() -> None:
    settings = PPOSettings()

    assert settings.replaced(clip_range=0.5).clip_range == 0.5
    with pytest.raises(ValueError, match="clip_range must be finite and above 0, got -1"):
        settings.replaced(clip_range=-1)
    assert settings.clip_range == PPOSettings().clip_range


BAD: list[tuple[type[AgentSettings], dict[str, Any], str]] = [
    (AgentSettings, {"n_envs": 0}, "n_envs must be a whole number of at least 1, got 0"),
    (AgentSettings, {"n_envs": 2.5}, "n_envs must be a whole number"),
    (AgentSettings, {"n_envs": True}, "n_envs must be a whole number"),
    (AgentSettings, {"gamma": 1.5}, "gamma must be from 0 to 1, got 1.5"),
    (AgentSettings, {"learning_rate": float("nan")}, "learning_rate must be finite"),
    (AgentSettings, {"learning_rate_schedule": "steep"}, "learning_rate_schedule must be one of"),
    (PPOSettings, {"target_kl": 0.0}, "target_kl must be None or above 0"),
    (PPOSettings, {"gae_lambda": -0.1}, "gae_lambda must be from 0 to 1"),
    (DDPGSettings, {"noise_std": -1.0}, "noise_std must be 0 or more"),
    (DDPGSettings, {"noise_autocorrelation": 1.0}, "noise_autocorrelation must be from 0"),
    (
        DDPGSettings,
        {"buffer_size": 255},
        "buffer_size must be at least learning_starts and batch_size, 2000",
    ),
    (TD3Settings, {"policy_delay": 0}, "policy_delay must be a whole number of at least 1"),
    (TD3Settings, {"target_policy_noise": -0.1}, "target_policy_noise must be 0 or more"),
    (TD3Settings, {"target_noise_clip": float("nan")}, "target_noise_clip must be 0 or more"),
    (DQNSettings, {"n_quantiles": 1}, "n_quantiles must be 0 for means, or at least 2, got 1"),
    (DQNSettings, {"n_quantiles": -3}, "n_quantiles must be 0 for means, or at least 2"),
    (DQNSettings, {"exploration_fraction": 1.5}, "exploration_fraction must be from 0 to 1"),
    (DQNSettings, {"exploration_final_eps": -0.1}, "exploration_final_eps must be from 0 to 1"),
    (DQNSettings, {"target_update_interval": 0}, "target_update_interval must be a whole number"),
    (DQNSettings, {"tau": 1.5}, "tau must be above 0 and at most 1.0"),
    (DQNSettings, {"double_q": 1}, "double_q must be"),
    (SACSettings, {"n_quantiles": 1}, "n_quantiles must be 0 for means, or at least 2, got 1"),
    (SACSettings, {"train_freq": 33}, "train_freq must be at most steps_per_iteration, 32"),
    (SACSettings, {"actor_lr_scale": 0.0}, "actor_lr_scale must be finite and above 0"),
    (SACSettings, {"tau": 0.0}, "tau must be above 0 and at most 0.5"),
    (SACSettings, {"learning_starts": -1}, "learning_starts must be 0 or more"),
    (SACSettings, {"ent_coef": "auto_0"}, "ent_coef must be 'auto', or 'auto_'"),
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
        ({"net_arch": (0,)}, "net_arch must be integers of at least 1"),
        ({"std_init": 0.0}, "std_init must be finite and above 0"),
    ],
)
def test_bad_networks_never_get_in(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PolicySettings(**values)
