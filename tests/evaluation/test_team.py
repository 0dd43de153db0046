from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core import MAResetResult, MAStepResult, MultiAgentEnv
from sekai.data import simulate_regimes
from sekai.envs.portfolio.config import AgentConfig
from sekai.envs.portfolio.multi_portfolio import MultiPortfolio
from sekai.evaluation import Episode, Evaluation, evaluate
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.policy import as_multi_agent_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import task_of
from sekai.spaces import Box, Discrete
from sekai.training import A2C
from tests.evaluation.test_evaluate import follow, free, names, stay
from tests.evaluation.test_look_ahead import LEAKS
from tests.evaluation.worlds import ASSETS, planted

ID = "MultiPortfolio-v0"
DATA = planted()
OPTIONS: dict[str, Any] = {
    "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 60, "agents": 2,
}  # fmt: skip
EVEN = np.append(np.full(ASSETS, 1 / ASSETS), 0.0)


def judged(policy: Any, baselines: Any = ("equal_weight",), **changes: Any) -> Evaluation:
    """Without what takes longer."""
    return evaluate(policy, ID, seeds=8, env_options=OPTIONS | changes, baselines=list(baselines),
                    sensitivity=False)  # fmt: skip


def played(policy: Any, seed: int = 7, **changes: Any) -> Episode:
    """One episode of a team."""
    task = task_of(as_env_source(ID, OPTIONS | changes))
    return run_episodes(
        as_multi_agent_policy(policy, None, lambda name: None),
        task.recording_source(),
        task,
        [seed],
    )[0]


def test_a_team_that_follows_a_planted_signal_is_surely_ahead_of_all_baselines() -> None:
    options = OPTIONS | {"costs": free()}
    found = evaluate(follow, ID, seeds=8, env_options=options, sensitivity=False)

    assert len(found.comparisons) == 6
    assert all(one.standing == "ahead" for one in found.comparisons)
    assert {"not_ahead", "look_ahead"}.isdisjoint(names(found.flags))


def test_the_accounts_of_a_team_are_those_of_the_env() -> None:
    policies = {"agent_0": follow, "agent_1": stay}
    episode = played(policies)
    env = MultiPortfolio(**OPTIONS)
    result = env.reset(seed=7)
    seen, infos, rewards = result.observations, [result.info], []
    while env.agents:
        step = env.step({name: policies[name](seen[name]) for name in env.agents})
        seen = step.observations
        infos.append(step.info)
        rewards.append(sum(step.rewards.values()))

    for name in policies:
        equity = [info[name]["equity"] for info in infos]
        np.testing.assert_allclose(episode.members[name], equity, rtol=1e-9)
    np.testing.assert_allclose(episode.equity, sum(episode.members.values()), rtol=1e-12)
    np.testing.assert_allclose(episode.rewards, rewards, rtol=1e-9, atol=1e-15)
    costs = [sum(info[name]["cost"] for name in policies) for info in infos[1:]]
    np.testing.assert_allclose(sum(episode.costs.values()), costs, rtol=1e-9, atol=1e-9)
    assert episode.weights is not None
    shares = sum(seen[name]["weights"] * episode.members[name][-1] for name in policies)
    np.testing.assert_allclose(episode.weights[-1], shares / episode.equity[-1], atol=1e-6)
    np.testing.assert_allclose(episode.weights.sum(axis=1), 1.0, rtol=1e-9)


def test_an_agent_that_is_ruined_keeps_what_it_had_and_the_others_go_on() -> None:
    agents = {"bold": AgentConfig(ruin=0.95), "even": AgentConfig()}
    episode = played({"bold": stay, "even": lambda seen: EVEN}, agents=agents)

    left = int(np.argmax(episode.members["bold"] <= 0.95e5))
    assert 0 < left < 59
    assert len(episode.rewards) == 60
    assert len(set(episode.members["bold"][left:])) == 1
    np.testing.assert_allclose(episode.equity, sum(episode.members.values()), rtol=1e-12)
    assert not np.isnan(sum(episode.costs.values())).any()
    assert episode.weights is not None
    np.testing.assert_allclose(episode.weights.sum(axis=1), 1.0, rtol=1e-9)


def test_baselines_pay_for_each_other_as_the_team_does() -> None:
    liquid = {"data": simulate_regimes(assets=5, rows=300, seed=1), "initial_cash": 1e7}
    alone, crowd = (
        judged("equal_weight", agents=agents, **liquid).baselines["equal_weight"].metrics["cost"]
        for agents in (1, 4)
    )

    assert crowd.value > 1.2 * alone.value


def test_a_team_that_was_trained_is_judged_by_itself_and_by_its_file(tmp_path: Path) -> None:
    short = {"episode_rows": 10}
    agent = A2C(ID, env_options=OPTIONS | short, seed=1)
    agent.save(tmp_path / "team.safetensors", training=False)
    itself, by_path = (judged(one, **short) for one in (agent, tmp_path / "team.safetensors"))

    assert itself.agent.by_seed == by_path.agent.by_seed
    assert (itself.name, by_path.name) == ("A2C", "team")


def test_agents_that_draw_do_not_all_draw_the_same() -> None:
    found = judged("random", ["random", "equal_weight"])
    members = found.agent.episodes[0].members

    assert not np.array_equal(members["agent_0"], members["agent_1"])
    assert found.comparisons[0].difference.value == 0.0


def test_every_agent_has_numbers_of_its_own_with_intervals() -> None:
    found = judged({"agent_0": follow, "agent_1": "equal_weight"}, costs=free())

    own, other = (found.agent.metrics[f"sharpe of agent_{place}"] for place in (0, 1))
    assert own.low > other.value
    even = found.policies["equal_weight"].metrics
    assert even["sharpe of agent_0"].value == pytest.approx(even["sharpe"].value)
    assert found.agent.by_seed["total_return of agent_1"] == pytest.approx(
        found.policies["equal_weight"].by_seed["total_return of agent_1"], rel=1e-3
    )


def test_a_policy_that_is_not_for_these_agents_is_refused_with_their_names() -> None:
    with pytest.raises(ValueError, match=r"'somebody'.*\['agent_0', 'agent_1'\]"):
        judged({"somebody": follow})


def test_a_team_that_was_made_is_judged_as_its_id_is() -> None:
    one, other = (
        evaluate(follow, env, seeds=8, baselines=["equal_weight"], sensitivity=False)
        for env in (sekai.make(ID, **OPTIONS), sekai.make(ID, **OPTIONS).unwrapped)
    )
    assert one.agent.by_seed == other.agent.by_seed == judged(follow).agent.by_seed


def test_a_vector_of_several_agents_is_refused_with_what_to_give_instead() -> None:
    with pytest.raises(TypeError, match="an id with env_options"):
        evaluate(follow, sekai.make_vec(ID, 2, **OPTIONS))


@pytest.mark.parametrize("leak", ["the next return", "the next risks", "the env's next row"])
def test_one_of_a_team_that_knows_the_future_is_found_out(leak: str) -> None:
    options = OPTIONS | {"episode_rows": 150, "observation": "index"}
    team = {"agent_0": lambda seen: EVEN, "agent_1": LEAKS[leak]}
    found = evaluate(team, ID, seeds=8, env_options=options, baselines=["equal_weight"],
                     sensitivity=False)  # fmt: skip
    assert "look_ahead" in names(found.flags)


class Guess(MultiAgentEnv):
    """Two agents name the number that they see."""

    def __init__(self) -> None:
        self.possible_agents = ["one", "two"]
        self.observation_spaces = {name: Box(0, 3, (1,)) for name in self.possible_agents}
        self.action_spaces = {name: Discrete(4) for name in self.possible_agents}
        self.agents: list[str] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> MAResetResult:
        """Begin."""
        self._set_rng(seed)
        self.agents, self.left = list(self.possible_agents), 10
        return MAResetResult(self._seen(), {name: {} for name in self.agents})

    def step(self, actions: Any) -> MAStepResult:
        """Pay who is right."""
        there, self.left = list(self.agents), self.left - 1
        paid = {name: float(actions[name] == self.number) for name in there}
        if not self.left:
            self.agents = []
        never, ended = dict.fromkeys(there, False), dict.fromkeys(there, not self.left)
        return MAStepResult(self._seen(there), paid, never, ended, {name: {} for name in there})

    def _seen(self, there: Any = ("one", "two")) -> dict[str, Any]:
        self.number = int(self.rng.integers(4))
        return {name: np.array([self.number], np.float32) for name in there}


def test_agents_of_any_env_are_judged_by_their_rewards() -> None:
    found = evaluate(lambda seen: int(seen[0]), Guess, seeds=8, sensitivity=False)

    assert found.agent.by_seed["episode_return"] == [20.0] * 8
    assert list(found.baselines) == ["random", "idle", "last_action"]
    assert all(one.wins == 1.0 for one in found.comparisons)
