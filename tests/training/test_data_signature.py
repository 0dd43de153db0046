"""Policies require the bars, calendar, features and assets that they were trained on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.data import DataSignature, MarketData, Pipeline, data_signature, simulate_gbm
from sekai.data.signature import BarLengthGuard
from sekai.error import DataMismatchError, SpaceError
from sekai.evaluation import evaluate
from sekai.live import LiveRunner, PaperBroker, ReplayFeed
from sekai.market import Execution
from sekai.training import A2C, PPO, Evaluate, ModelFileError, load_policy
from sekai.training.checkpoint import read_file, write_file

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 4}
NAMES = ["A", "B", "C"]
OPTIONS: dict[str, Any] = {"features": ["log_return", "momentum(5)"], "lookback": 3}


def rows(frequency: str = "1min", assets: Any = NAMES, **options: Any) -> MarketData:
    options = {"calendar": "always", **options}
    return simulate_gbm(assets=assets, rows=300, seed=1, frequency=frequency, **options)


def with_options(data: MarketData, **changes: Any) -> dict[str, Any]:
    return {**OPTIONS, "episode_rows": 20, "data": data, **changes}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = PPO("Portfolio-v0", env_options=with_options(rows()), **SMALL).fit(8)
    return agent.save(tmp_path_factory.mktemp("minutes"))


CHANGES: dict[str, Callable[[], dict[str, Any]]] = {
    "bar_length": lambda: with_options(rows("1s")),
    "features": lambda: with_options(rows(), features=["log_return", "momentum(9)"]),
    "assets": lambda: with_options(rows(assets=["A", "B", "D"])),
    "calendar": lambda: with_options(rows().replace(timezone="Asia/Tokyo")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_evaluation_on_other_data_is_refused_by_name_or_allowed_by_name(
    name: str, saved: Path
) -> None:
    options = CHANGES[name]()
    settings: dict[str, Any] = {"seeds": 2, "baselines": ["idle"], "sensitivity": False}

    with pytest.raises(DataMismatchError, match=name) as refused:
        evaluate(saved, "Portfolio-v0", env_options=options, **settings)
    assert f"--allow {name}" in str(refused.value)
    with pytest.raises(DataMismatchError, match=name):
        evaluate(load_policy(saved), "Portfolio-v0", env_options=options, **settings)

    allowed = evaluate(saved, "Portfolio-v0", env_options=options, allow=(name,), **settings)
    assert allowed.provenance.settings["allow"] == f"['{name}']"
    policy = load_policy(saved, allow=(name,))
    evaluate(policy, "Portfolio-v0", env_options=options, **settings)


@pytest.mark.parametrize("name", CHANGES)
def test_resuming_on_other_data_is_refused_by_name_or_allowed_by_name(
    name: str, saved: Path
) -> None:
    env, options = "Portfolio-v0", CHANGES[name]()

    for method in (PPO.load, PPO.resume):
        with pytest.raises(DataMismatchError, match=name):
            method(saved, env=env, env_options=options)
        assert method(saved, env=env, env_options=options, allow=[name]).steps == 8


def test_the_difference_is_named_with_both_sides(saved: Path) -> None:
    with pytest.raises(DataMismatchError) as refused:
        PPO.load(saved, env="Portfolio-v0", env_options=CHANGES["bar_length"]())

    assert "bar_length: trained on bars of 60 s, the env has bars of 1 s" in str(refused.value)


def test_other_pipeline_settings_are_other_features(tmp_path: Path) -> None:
    pipelines = [Pipeline(["log_return"], scaling=kind).fit(rows()) for kind in ("zscore", "rank")]
    options = [with_options(rows(), features=own) for own in pipelines]
    path = PPO("Portfolio-v0", env_options=options[0], **SMALL).save(tmp_path)

    with pytest.raises(DataMismatchError, match=r"scaling 'zscore', the env has 'rank'"):
        PPO.load(path, env="Portfolio-v0", env_options=options[1])


def test_the_same_data_later_in_time_is_accepted(saved: Path) -> None:
    later = rows().rows(150, 300)

    PPO.load(saved, env="Portfolio-v0", env_options=with_options(later))


def test_unknown_differences_are_refused(saved: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'bar_length'"):
        load_policy(saved, allow=("bar_lenght",))


def test_envs_wrappers_and_vector_envs_have_the_same_signature() -> None:
    env = sekai.make("Portfolio-v0", **with_options(rows()))
    expected = data_signature(env.unwrapped)

    assert expected is not None
    assert expected.bar_seconds == 60.0
    assert expected.assets == tuple(NAMES)
    assert expected.features[:2] == ("log_return", "momentum(rows=5)")
    assert data_signature(env) == expected
    for mode in ("native", "sync", "async", "proc"):
        made: dict[str, Any] = {"mode": mode}
        vec = sekai.make_vec("Portfolio-v0", 2, **with_options(rows()), **made)
        assert data_signature(vec) == expected, mode
        vec.close()
    assert data_signature(sekai.make("Trading-v0")) is None


def test_teams_require_their_data_too(tmp_path: Path) -> None:
    options = {"data": rows(), "agents": 2, "episode_rows": 20, **OPTIONS}
    agent = A2C("MultiPortfolio-v0", env_options=options, **SMALL).fit(8)
    path = agent.save(tmp_path)

    with pytest.raises(DataMismatchError, match="bar_length"):
        evaluate(path, "MultiPortfolio-v0", env_options={**options, "data": rows("1s")}, seeds=2)
    with pytest.raises(DataMismatchError, match="bar_length"):
        A2C.load(path, env="MultiPortfolio-v0", env_options={**options, "data": rows("1s")})


def test_evaluation_in_training_refuses_other_bars() -> None:
    agent = PPO("Portfolio-v0", env_options=with_options(rows()), **SMALL)
    options = CHANGES["bar_length"]()

    with pytest.raises(DataMismatchError, match="bar_length"):
        agent.fit(8, [Evaluate("Portfolio-v0", every=1, episodes=1, env_options=options)])
    agent.fit(
        8,
        [Evaluate("Portfolio-v0", every=1, episodes=1, env_options=options, allow=["bar_length"])],
    )


def test_an_observation_of_another_shape_is_a_clear_error(saved: Path) -> None:
    options = with_options(rows(), lookback=7)

    with pytest.raises(SpaceError, match="was trained on observations"):
        evaluate(saved, "Portfolio-v0", env_options=options, seeds=2, baselines=["idle"])


def test_shared_weights_act_on_more_assets_if_that_is_allowed(saved: Path, tmp_path: Path) -> None:
    options = with_options(rows(assets=5))
    settings: dict[str, Any] = {"seeds": 2, "baselines": ["idle"], "sensitivity": False}

    with pytest.raises(DataMismatchError, match="assets"):
        evaluate(saved, "Portfolio-v0", env_options=options, **settings)
    evaluate(saved, "Portfolio-v0", env_options=options, allow=["assets"], **settings)

    flat = PPO("Portfolio-v0", policy="mlp", env_options=with_options(rows()), **SMALL)
    with pytest.raises(SpaceError, match="shares weights"):
        evaluate(flat, "Portfolio-v0", env_options=options, allow=["assets"], **settings)


def _runner(data: MarketData, history: int, policy: Any, folder: Path) -> LiveRunner:
    env = sekai.make(
        "Portfolio-v0",
        data=data.rows(0, history),
        stream=True,
        episode_rows=None,
        execution=Execution(sizing="decision"),
        **OPTIONS,
    )
    feed = ReplayFeed(data, history)
    return LiveRunner(policy, env, feed, PaperBroker.like(env.unwrapped), folder)


def test_a_live_session_refuses_other_bars(saved: Path, tmp_path: Path) -> None:
    seconds = rows("1s")

    with pytest.raises(DataMismatchError, match="bar_length"):
        _runner(seconds, 200, load_policy(saved), tmp_path)
    allowed = load_policy(saved, allow=["bar_length"])
    status = asyncio.run(_runner(seconds, 200, allowed, tmp_path).run(3))
    assert status.bars == 3


def test_a_live_session_fails_where_rows_arrive_faster_than_its_history(
    saved: Path, tmp_path: Path
) -> None:
    minutes = rows()
    steps = np.r_[np.zeros(201), np.arange(1, 100)] * np.timedelta64(59, "s")
    faster = minutes.replace(times=minutes.times - steps.astype("timedelta64[ns]"))
    runner = _runner(faster, 200, load_policy(saved), tmp_path)

    with pytest.raises(DataMismatchError, match="rows arrive .* apart"):
        asyncio.run(runner.run())
    assert runner.status().bars <= 2


def test_single_early_rows_and_gaps_pass_the_guard(saved: Path) -> None:
    guard = BarLengthGuard(load_policy(saved))

    for seconds in (60, 5, 60, 0, 90_000, 61, 20, 3_600):
        guard.check(seconds * 10**9)
    guard.check(10**9)
    with pytest.raises(DataMismatchError):
        guard.check(2 * 10**9)


def test_files_of_the_previous_format_are_refused_with_the_remedy(saved: Path) -> None:
    data = saved.read_bytes().replace(b'"format":"4"', b'"format":"3"')
    old = saved.with_name("old.safetensors")
    old.write_bytes(data)

    with pytest.raises(ModelFileError, match="save the agent again"):
        load_policy(old)


@pytest.mark.parametrize(
    "damage", [{"bar_seconds": -1}, {"features": "abc"}, {"assets": [1]}, {"calendar": 3}]
)
def test_a_damaged_signature_is_refused(
    damage: dict[str, Any], saved: Path, tmp_path: Path
) -> None:
    content = read_file(saved)
    content["data_signature"] = {**content["data_signature"], **damage}
    path = write_file(tmp_path, content)

    with pytest.raises(ModelFileError, match="data signature"):
        load_policy(path)


def test_signatures_survive_plain_data() -> None:
    signature = data_signature(sekai.make("Portfolio-v0", **with_options(rows())))

    assert signature is not None
    assert DataSignature.from_dict(signature.to_dict()) == signature


def test_months_of_different_length_are_equal_and_weekends_are_not() -> None:
    daily = {"frequency": "1d"}
    weekdays = DataSignature.of(rows(**daily, calendar="weekdays"), ["a"])
    always = DataSignature.of(rows(**daily), ["a"])
    short = DataSignature.of(rows(**daily, calendar="weekdays").rows(0, 4), ["a"])

    assert list(weekdays.differences(always)) == ["calendar"]
    assert not weekdays.differences(short)
    february = DataSignature(28 * 86_400.0, "UTC", ("a",), ())
    assert not february.differences(DataSignature(31 * 86_400.0, "UTC", ("a",), ()))
