"""Unknown keyword arguments of configs, envs and settings are errors with a hint."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import re
from typing import Any

import pytest

import sekai
from quant_gym_rs._core import PortfolioBatch, TradingBatch
from sekai.compose import SimulatedMinutes
from sekai.config.checked import CheckedConfig
from sekai.config.toml_file import ConfigError, ConfigSource
from sekai.data import Policies, simulate_gbm
from sekai.data.simulators.market import Disruptions
from sekai.envs import Portfolio
from sekai.envs.portfolio import config as portfolio_config
from sekai.envs.portfolio.panel import build_panel
from sekai.envs.trading import REWARD_TERMS as TRADING_TERMS
from sekai.error import UnknownOptionError
from sekai.experiment.reading import read_experiment
from sekai.live import FeedRules, LiveConfig, PaperFaults, RiskLimits
from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount, MarketConfig
from sekai.storage.kinds import BUILT_IN
from sekai.training import PPO, PolicySettings, PPOSettings, SACSettings

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine


@pytest.mark.parametrize(
    ("config", "name", "meant"),
    [
        (Costs, "comission", "'proportional' or 'fixed'"),
        (Costs, "half_spred", "'half_spread'"),
        (Execution, "fil", "'fill'"),
        (Constraints, "max_wieght", "'max_weight'"),
        (MarginAccount, "leverge", "'leverage'"),
        (MarketConfig, "symbls", "'symbols'"),
        (RiskLimits, "max_order_unit", "'max_order_units'"),
        (LiveConfig, "on_stp", "'on_stop'"),
        (FeedRules, "stale_aftr", "'stale_after'"),
        (PaperFaults, "rejct", "'reject'"),
        (Policies, "mising", "'missing'"),
        (SimulatedMinutes, "tick", "'ticks'"),
        (Disruptions, "halt_rte", "'halt_rate'"),
        (PPOSettings, "gama", "'gamma'"),
        (SACSettings, "lerning_rate", "'learning_rate'"),
        (PolicySettings, "widht", "'width'"),
    ],
)
def test_a_misspelled_field_is_suggested(config: Any, name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"{config.__name__} has no option '{name}'") as error:
        config(**{name: 1})

    assert f"did you mean {meant}" in str(error.value)


def test_a_field_that_resembles_none_lists_all() -> None:
    with pytest.raises(TypeError, match="expected one of borrow, .*, proportional"):
        Costs(xyz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="CashAccount has no option 'x'"):
        CashAccount(x=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("id", ["Portfolio-v0", "MultiPortfolio-v0"])
@pytest.mark.parametrize(("name", "meant"), [("lokback", "lookback"), ("dta", "data")])
def test_a_misspelled_option_of_an_env_is_suggested(id: str, name: str, meant: str) -> None:
    options: dict[str, Any] = {name: 1}
    for make in (sekai.make, lambda id, **options: sekai.make_vec(id, 2, **options)):
        with pytest.raises(TypeError, match=f"{id} has no option '{name}'; did you mean '{meant}"):
            make(id, **options)


@pytest.mark.parametrize(
    ("id", "name", "meant"),
    [
        ("Trading-v0", "max_tick", "max_ticks"),
        ("MarketMaking-v0", "episod_steps", "episode_steps"),
        ("OptimalExecution-v0", "episod_steps", "episode_steps"),
        ("OrderExecution-v0", "rewrd", "reward"),
    ],
)
def test_every_env_suggests_its_options(id: str, name: str, meant: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=rf"'{name}'.*did you mean .*{meant}"):
        sekai.make(id, **options)


def test_an_unknown_option_of_a_part_names_the_part() -> None:
    def make() -> Any:
        return sekai.make("Portfolio-v0", costs=Costs(**{"fixd": 1}))

    with pytest.raises(TypeError, match="Costs has no option 'fixd'; did you mean 'fixed'"):
        make()
    with pytest.raises(ValueError, match="did you mean 'gamma'"):
        PPO("MarketMaking-v0", gama=0.5)


def test_every_config_that_files_may_hold_checks_its_fields() -> None:
    for path in BUILT_IN.values():
        module, _, name = path.partition(":")
        kind: Any = getattr(importlib.import_module(module), name)
        if isinstance(kind, type) and name.endswith(("Config", "Costs", "Account")):
            assert CheckedConfig in inspect.getmro(kind), path


def test_checked_configs_are_copied_pickled_and_replaced() -> None:
    costs = Costs(fixed=1.0)

    assert copy.deepcopy(costs) == pickle.loads(pickle.dumps(costs)) == costs
    assert dataclasses.replace(costs, fixed=2.0).fixed == 2.0
    error = UnknownOptionError("Costs", "x", ["a", "b"], ["a"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("reward", ["log_retrun", {"log_retrun": 1.0}, [("log_retrun", 1.0)]])
def test_a_misspelled_reward_term_is_named_with_the_known_ones(reward: Any) -> None:
    for id, meant in (("Portfolio-v0", "log_return"), ("Trading-v0", "log_growth")):
        with pytest.raises(ValueError, match="unknown term 'log_retrun' in reward") as error:
            sekai.make(id, reward=reward)

        assert f"did you mean '{meant}'" in str(error.value) or id == "Trading-v0"
        assert f" {meant}, " in str(error.value)


def test_the_known_reward_terms_are_those_of_the_rust_core() -> None:
    def expected(error: pytest.ExceptionInfo[ValueError]) -> tuple[str, ...]:
        return tuple(re.findall(r"`(\w+)`", str(error.value).partition("expected one of")[2]))

    env = Portfolio(data=simulate_gbm(assets=2, rows=200), lookback=1)
    settings = env.config.core_settings(env.data).replace('"log_return"', '"x"')
    panel = build_panel(env.data, env.batch.features, "every_row", "equal_weight", False)
    with pytest.raises(ValueError, match="unknown variant") as error:
        PortfolioBatch(panel, settings, 1, 1, None)
    assert expected(error) == portfolio_config.REWARD_TERMS
    trading: Any = sekai.make("Trading-v0").unwrapped
    with pytest.raises(ValueError, match="unknown variant") as error:
        TradingBatch.check(trading.config.settings().replace('"equity_change"', '"x"'))
    assert expected(error) == TRADING_TERMS


def test_a_misspelled_reward_of_an_experiment_is_shown_at_its_line(tmp_path: Any) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        '[env]\nid = "Portfolio-v0"\n[env.reward]\nlog_retrun = 1.0\n[train]\nsteps = 8\n'
    )

    with pytest.raises(ConfigError, match=r"x.toml:3:1: unknown term 'log_retrun' in reward"):
        read_experiment(ConfigSource.read(file))


def test_gymnasium_raises_the_error_of_an_unknown_option_again() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    sekai.compat.register_gymnasium_envs()

    with pytest.raises(UnknownOptionError, match="has no option 'foo'"):
        gymnasium.make("sekai/Trading-v0", foo=1)
