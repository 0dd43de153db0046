"""Several agents as an env: who acts, who leaves, what they see, what is refused."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test  # type: ignore[import-untyped]

import sekai
from sekai.compat import to_pettingzoo
from sekai.core.multi_agent import MultiAgentEnv
from sekai.data import FeaturePanel
from sekai.envs import AgentConfig, MemberConfig, MultiPortfolio
from sekai.error import ClosedError, InvalidActionError, ResetRequired, StateError
from sekai.market import MarginAccount
from sekai.utils.checker import check_env
from tests.envs.shared_markets import ASSETS, crash, market, plan, play, several

CASH = np.array([0.0, 0.0, 0.0, 1.0])
FIRST = np.array([1.0, 0.0, 0.0, 0.0])


def acting(env: MultiPortfolio, weights: Any = CASH) -> dict[str, Any]:
    """The same action of everybody who is left."""
    return dict.fromkeys(env.agents, weights)


def test_three_agents_can_be_made_without_data() -> None:
    env: Any = sekai.make("MultiPortfolio-v0", agents=3)

    assert isinstance(env, MultiAgentEnv)
    assert env.possible_agents == ["agent_0", "agent_1", "agent_2"]
    result = env.reset(seed=1)
    assert env.agents == env.possible_agents
    for name in env.agents:
        assert result.observations[name] in env.observation_spaces[name]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"observation": "index"},
        {"action": "tilts"},
        {"agents": 1},
        {"reward_mode": "competitive", "account": MarginAccount(leverage=3.0), "ruin": 0.97},
    ],
    ids=["usual", "index", "tilts", "one", "ruined"],
)
def test_the_checker_finds_nothing_wrong(settings: dict[str, Any]) -> None:
    env = several(**{"starts": "random", "episode_rows": 12, **settings})

    assert check_env(env, n_steps=40) == []


@pytest.mark.parametrize("ruin", [0.0, 0.99])
def test_pettingzoos_own_test_passes(ruin: float, capsys: pytest.CaptureFixture[str]) -> None:
    env = several(starts="random", episode_rows=12, ruin=ruin)

    parallel_api_test(to_pettingzoo(env), num_cycles=50)

    assert "Passed" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_episode() -> None:
    weights = plan(20, 3)

    first = play(several(starts="random", episode_rows=20), weights, seed=7)
    again = play(several(starts="random", episode_rows=20), weights, seed=7)
    other = play(several(starts="random", episode_rows=20), weights, seed=8)

    assert first == again
    assert first != other


def test_async_steps_give_what_steps_give() -> None:
    env, twin = several(), several()

    async def both() -> tuple[Any, Any]:
        begun = await twin.async_reset(seed=1)
        return begun, await twin.async_step(acting(twin, FIRST))

    begun, stepped = asyncio.run(both())

    assert env.reset(seed=1) == begun
    assert env.step(acting(env, FIRST)) == stepped


def test_a_saved_state_continues_bit_for_bit_with_who_was_left() -> None:
    weights = plan(30, 3)
    env = several(crash(), account=MarginAccount(), agents=["a", "b", "c"])
    env.reset(seed=1)
    for _ in range(12):
        env.step({name: FIRST if name == "b" else CASH for name in env.agents})
    assert env.agents == ["a", "b", "c"]
    saved = pickle.loads(pickle.dumps(env.state_dict()))
    twin = several(crash(), account=MarginAccount(), agents=["a", "b", "c"])

    twin.load_state_dict(saved)

    for row in weights[:8]:
        assert env.agents == twin.agents
        actions = {name: row[place] for place, name in enumerate(env.agents)}
        assert env.step(actions) == twin.step(actions)


def test_a_state_of_other_agents_is_refused_and_changes_nothing() -> None:
    env, other = several(agents=2), several(agents=3)
    env.reset(seed=1)
    other.reset(seed=2)
    before = env.state_dict()

    with pytest.raises(StateError):
        env.load_state_dict(other.state_dict())

    assert env.agents == ["agent_0", "agent_1"]
    assert env.state_dict()["parts"] == before["parts"]


def test_a_ruined_agent_leaves_and_the_others_go_on() -> None:
    agents = {
        "bold": AgentConfig(ruin=0.5),
        "idle": AgentConfig(),
    }
    env = several(crash(at=13), agents=agents)
    env.reset(seed=0)
    env.step({"bold": FIRST, "idle": CASH})
    env.step({"bold": FIRST, "idle": CASH})

    ruined = env.step({"bold": FIRST, "idle": CASH})

    assert ruined.terminated == {"bold": True, "idle": False}
    assert ruined.truncated == {"bold": False, "idle": False}
    assert ruined.info["bold"]["equity"] == pytest.approx(30_000.0)
    assert set(ruined.observations) == {"bold", "idle"}
    assert env.agents == ["idle"]
    assert env.possible_agents == ["bold", "idle"]
    after = env.step({"idle": CASH})
    for given in (after.observations, after.rewards, after.terminated, after.info):
        assert list(given) == ["idle"]


def test_the_episode_is_over_when_all_are_ruined() -> None:
    env = several(crash(at=12), agents=2, ruin=0.5)
    env.reset(seed=0)
    env.step(acting(env, FIRST))

    result = env.step(acting(env, FIRST))

    assert result.terminated == {"agent_0": True, "agent_1": True}
    assert not any(result.truncated.values())
    assert env.agents == []
    with pytest.raises(ResetRequired):
        env.step({})
    env.reset()
    assert env.agents == ["agent_0", "agent_1"]


def test_the_end_of_the_data_truncates_those_who_are_left() -> None:
    data = crash(rows=24, at=14)
    env = several(data, agents={"bold": AgentConfig(ruin=0.5), "idle": AgentConfig()})
    env.reset(seed=0)
    results = []
    while env.agents:
        results.append(
            env.step({"bold": FIRST, "idle": CASH} if len(env.agents) > 1 else {"idle": CASH})
        )

    assert results[-1].truncated == {"idle": True}
    assert results[-1].terminated == {"idle": False}
    assert results[-1].info["idle"]["time_index"] == len(data) - 1
    with pytest.raises(ResetRequired):
        env.step({"idle": CASH})


def test_who_is_ruined_at_the_end_of_the_data_is_terminated_and_not_truncated() -> None:
    data = crash(rows=13, at=12)
    env = several(data, agents={"bold": AgentConfig(ruin=0.5), "idle": AgentConfig()})
    env.reset(seed=0)
    env.step({"bold": FIRST, "idle": CASH})

    result = env.step({"bold": FIRST, "idle": CASH})

    assert result.terminated == {"bold": True, "idle": False}
    assert result.truncated == {"bold": False, "idle": True}
    assert env.agents == []


def test_actions_of_agents_that_are_gone_missing_or_unknown_are_refused_by_name() -> None:
    env = several(crash(at=12), agents={"bold": AgentConfig(ruin=0.5), "idle": AgentConfig()})
    env.reset(seed=0)
    env.step({"bold": FIRST, "idle": CASH})
    env.step({"bold": FIRST, "idle": CASH})
    before = env.state_dict()["parts"]

    with pytest.raises(InvalidActionError, match=r'gone already are \["bold"\]'):
        env.step({"bold": FIRST, "idle": CASH})
    with pytest.raises(InvalidActionError, match=r'missing are \["idle"\]'):
        env.step({})
    with pytest.raises(InvalidActionError, match=r'unknown are \["stranger"\]'):
        env.step({"idle": CASH, "stranger": CASH})

    assert env.state_dict()["parts"] == before


@pytest.mark.parametrize(
    "wrong", [np.full(4, np.nan), np.zeros(3), "all of it", None, [[1.0, 0.0, 0.0, 0.0]]]
)
def test_an_action_that_does_not_fit_is_refused_with_the_name_of_its_agent(wrong: Any) -> None:
    env = several(agents=2)
    env.reset(seed=0)
    before = env.state_dict()["parts"]

    with pytest.raises(InvalidActionError, match='the action of "agent_1" does not fit'):
        env.step({"agent_0": CASH, "agent_1": wrong})

    assert env.state_dict()["parts"] == before
    env.step(acting(env))


def test_a_step_before_a_reset_and_after_close_is_refused() -> None:
    env = several()
    with pytest.raises(ResetRequired):
        env.step({})
    env.reset(seed=0)
    env.close()
    env.close()

    with pytest.raises(ClosedError):
        env.step(acting(env))
    with pytest.raises(ClosedError):
        env.reset()


def test_options_for_a_reset_are_refused() -> None:
    with pytest.raises(ValueError, match="takes no options"):
        several().reset(options={"row": 3})


def test_agents_share_windows_and_masks_that_nobody_can_write_into() -> None:
    env = several()
    observations = env.reset(seed=0).observations

    first, second = observations["agent_0"], observations["agent_1"]
    for part in ("windows", "mask"):
        assert np.shares_memory(first[part], second[part])
        with pytest.raises(ValueError, match="read-only"):
            first[part][0] = 1
    for part in ("weights", "account"):
        assert not np.shares_memory(first[part], second[part])
        first[part][0] = 1


def test_an_agent_can_be_shown_fewer_features_and_fewer_rows() -> None:
    few = ("volatility(rows=5)", "log_return")
    agents = {
        "all": AgentConfig(),
        "few": MemberConfig(features=few[:1], lookback=2),
        "turned": MemberConfig(features=few),
    }
    env = several(agents=agents)
    names = env.features.names
    observations = env.reset(seed=0).observations
    observations = env.step(acting(env)).observations

    whole = observations["all"]["windows"]
    assert whole.shape == (4, ASSETS, len(names))
    places = [names.index(name) for name in few]
    assert np.array_equal(observations["few"]["windows"], whole[-2:, :, places[:1]])
    assert np.array_equal(observations["turned"]["windows"], whole[:, :, places])
    for name in agents:
        assert observations[name] in env.observation_spaces[name]
        assert not observations[name]["windows"].flags.writeable


def test_features_that_can_be_written_into_are_copied() -> None:
    data = market()
    panel = several(data).features
    loose = FeaturePanel(
        panel.values.copy(), panel.names, panel.present, panel.times, panel.assets, panel.warm_up
    )
    env = MultiPortfolio(data, loose, lookback=4, starts=10)
    before = env.reset(seed=0).observations["agent_0"]["windows"].copy()

    loose.values[:] = 7.0

    assert np.array_equal(env.reset(seed=0).observations["agent_0"]["windows"], before)


def test_the_window_ends_with_the_row_that_is_told() -> None:
    env = several()
    env.reset(seed=0)

    for _ in range(5):
        result = env.step(acting(env))
        row = int(result.info["agent_0"]["time_index"])
        window = result.observations["agent_0"]["windows"]
        assert np.array_equal(window, env.features.values[row - 3 : row + 1])


def test_the_future_is_invisible_to_all() -> None:
    data, weights = market(), plan(30, 3)
    cut = 25
    changed = data.perturb_after(data.times[cut], np.random.default_rng(0))

    results, others = (play(several(each), weights) for each in (data, changed))

    for result, other in zip(results, others, strict=True):
        if result.info["agent_0"]["time_index"] <= cut:
            assert result == other
    assert results != others


@pytest.mark.parametrize("mode", ["sync", "proc"])
def test_a_vector_env_of_them_gives_what_single_ones_give(mode: Any) -> None:
    weights = plan(8, 3)
    vec: Any = sekai.make_vec(
        "MultiPortfolio-v0",
        2,
        mode,
        data=market(),
        features=["log_return"],
        lookback=4,
        episode_rows=20,
    )
    env = MultiPortfolio(market(), ["log_return"], lookback=4, episode_rows=20)
    with vec:
        begun = vec.reset(seed=[3, 4])
        vec_results = [
            vec.step(
                {name: np.stack([row[place]] * 2) for place, name in enumerate(env.possible_agents)}
            )
            for row in weights
        ]
    assert all(flags.all() for flags in begun.alive.values())

    for place, seed in enumerate((3, 4)):
        for alone, together in zip(play(env, weights, seed), vec_results, strict=True):
            for name in env.possible_agents:
                assert together.rewards[name][place] == alone.rewards[name]
                for part, value in alone.observations[name].items():
                    assert np.array_equal(together.observations[name][part][place], value)


def test_a_time_limit_ends_the_episode_for_all() -> None:
    env: Any = sekai.make("MultiPortfolio-v0", agents=2, max_episode_steps=2)
    env.reset(seed=0)
    env.action_spaces["agent_0"].seed(0)
    action = env.action_spaces["agent_0"].sample()
    env.step(dict.fromkeys(env.agents, action))

    result = env.step(dict.fromkeys(env.agents, action))

    assert all(result.truncated.values())
    with pytest.raises(ResetRequired):
        env.step(dict.fromkeys(env.possible_agents, action))
