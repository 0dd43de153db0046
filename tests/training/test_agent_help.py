"""Signatures, help texts and representations of agents, from the settings."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
from typing import Any

import pytest

from sekai.training import A2C, DDPG, DQN, MADDPG, PPO, QMIX, SAC, TD3, Agent, RecurrentPPO
from tests.worlds import RandomWalk

ALGORITHMS = [PPO, RecurrentPPO, A2C, DDPG, TD3, SAC, DQN, MADDPG, QMIX]


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_setting_is_a_typed_keyword_with_its_default(kind: type[Agent]) -> None:
    parameters = inspect.signature(kind).parameters

    for field in dataclasses.fields(kind.settings_type):
        parameter = parameters[field.name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if field.name != "policy":
            assert parameter.default == field.default
            assert parameter.annotation is not inspect.Parameter.empty
    assert list(parameters)[:3] == ["env", "policy", "seed"]
    assert all(entry.kind is not entry.VAR_KEYWORD for entry in parameters.values())


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_help_describes_every_setting(kind: type[Agent]) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    description = inspect.getdoc(kind) or ""

    for field in dataclasses.fields(kind.settings_type):
        assert f"    {field.name}: " in description, field.name
        assert f"    {field.name}:  Default" not in description, field.name
        assert field.name in text


def test_subclasses_with_other_arguments_show_those() -> None:
    class Own(PPO):
        def __init__(self, env: Any, extra: int = 3) -> None:
            super().__init__(env, n_envs=extra)

    assert list(inspect.signature(Own).parameters) == ["env", "extra"]


def test_the_representation_is_short() -> None:
    agent = PPO("MarketMaking-v0", n_envs=2, n_steps=4, seed=7).fit(8)

    assert repr(agent) == "PPO('MarketMaking-v0', seed=7, steps=8)"
    assert repr(A2C(RandomWalk, n_envs=1)) == "A2C('RandomWalk', seed=0, steps=0)"


def test_the_table_of_notebooks_lists_changed_settings_only() -> None:
    table = PPO(RandomWalk, n_envs=2, gamma=0.5, policy={"net_arch": (8,)})._repr_html_()

    assert "<caption>PPO</caption>" in table
    assert "<th>gamma</th><td>0.5</td>" in table
    assert "<th>policy.net_arch</th><td>(8,)</td>" in table
    assert "RandomWalk x 2" in table
    assert "gae_lambda" not in table


def test_names_in_the_table_are_escaped() -> None:
    def factory() -> RandomWalk:
        return RandomWalk()

    factory.__name__ = "<script>"

    assert "<script>" not in PPO(factory, n_envs=1)._repr_html_()
