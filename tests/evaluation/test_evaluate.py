import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import ActionInterpreter, ComposedOrderExecution, SAOEState, ShortfallReward
from sekai.data import Pipeline, Windows
from sekai.envs import Portfolio
from sekai.evaluation import TrialLedger, evaluate, load_evaluation
from sekai.evaluation.baselines import IncompatibleBaselineError
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.policy import as_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import task_of
from sekai.spaces import Discrete
from sekai.wrappers import FlattenObservation
from tests.compose.orders.days import panel
from tests.evaluation.worlds import ASSETS, planted

DATA = planted()
OPTIONS: dict[str, Any] = {
    "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 120,
}  # fmt: skip


def follow(observation: Any) -> np.ndarray:
    """Return the optimal action for the planted signal."""
    moves = np.asarray(observation["windows"][-1, :, 0], np.float64)
    weights = np.zeros(ASSETS + 1)
    weights[int(np.argmax(moves))] = 1.0
    return weights


def stay(observation: Any) -> np.ndarray:
    weights = np.zeros(ASSETS + 1)
    weights[0] = 1.0
    return weights


def names(flags: Any) -> set[str]:
    return {flag.name for flag in flags}


def test_who_follows_a_planted_signal_is_surely_ahead() -> None:
    found = evaluate(follow, "Portfolio-v0", env_options=OPTIONS | {"costs": free()})
    assert found.headline == "sharpe"
    assert len(found.comparisons) == 6
    for comparison in found.comparisons:
        assert comparison.difference.low > 0, comparison
        assert comparison.p_value < 0.05, comparison
        assert comparison.wins > 0.8, comparison
    assert "not_ahead" not in names(found.flags)
    assert "look_ahead" not in names(found.flags)
    assert found.deflated_sharpe is not None
    assert found.deflated_sharpe.deflated > 0.95


def free() -> Any:
    return sekai.market.Costs(proportional=0.0, half_spread=0.0, impact=0.0)


def test_a_policy_against_itself_is_no_better_and_said_to_be_the_same() -> None:
    found = evaluate("equal_weight", "Portfolio-v0", seeds=8, env_options=OPTIONS,
                     sensitivity=False)  # fmt: skip
    itself = found.comparisons[0]
    assert itself.baseline == "equal_weight"
    assert itself.difference.value == 0.0
    assert itself.p_value == 1.0
    assert itself.wins == 0.0
    assert any(one.name == "clone" and "equal_weight" in one.message for one in found.flags)


def test_who_always_does_the_same_is_told_so() -> None:
    found = evaluate(stay, "Portfolio-v0", seeds=8, env_options=OPTIONS, sensitivity=False)
    assert "constant_action" in names(found.flags)


def test_who_never_trades_is_told_so() -> None:
    cash = np.append(np.zeros(ASSETS), 1.0)
    found = evaluate(lambda seen: cash, "Portfolio-v0", seeds=8, env_options=OPTIONS,
                     sensitivity=False)  # fmt: skip
    assert "no_trades" in names(found.flags)


def test_who_trades_all_away_is_told_so() -> None:
    rng = np.random.default_rng(0)
    found = evaluate(lambda seen: rng.dirichlet(np.ones(ASSETS + 1)), "Portfolio-v0", seeds=8,
                     env_options=OPTIONS | {"costs": dear()}, sensitivity=False)  # fmt: skip
    assert "losing" in names(found.flags)


def dear() -> Any:
    return sekai.market.Costs(proportional=0.01)


def test_accounts_are_those_of_the_env() -> None:
    task = task_of(as_env_source("Portfolio-v0", OPTIONS))
    episode = run_episodes(as_policy(follow), task.recording_source(), task, [7])[0]
    env = sekai.make("Portfolio-v0", **OPTIONS)
    result = env.reset(seed=7)
    equity, cost, turnover, rewards = [result.info["equity"]], [], [], []
    observation, is_over = result.observation, False
    while not is_over:
        step = env.step(follow(observation))
        observation, is_over = step.observation, step.done
        equity.append(step.info["equity"])
        cost.append(step.info["cost"])
        turnover.append(step.info["turnover"])
        rewards.append(step.reward)

    np.testing.assert_allclose(episode.equity, equity, rtol=1e-9)
    np.testing.assert_allclose(sum(episode.costs.values()), cost, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(episode.turnover), turnover, rtol=1e-9)
    np.testing.assert_allclose(episode.rewards, rewards, rtol=1e-9)
    assert episode.weights is not None
    assert episode.prices is not None
    assert episode.fills is not None
    np.testing.assert_allclose(episode.weights[-1], observation["weights"], atol=1e-6)
    traded = np.zeros(len(rewards))
    np.add.at(traded, episode.fills.step, np.abs(episode.fills.units * episode.fills.price))
    np.testing.assert_allclose(traded[1:] / episode.equity[1:-1], turnover[1:], rtol=0.05)


def test_ticks_are_those_of_the_env() -> None:
    task = task_of(as_env_source("Trading-v0", {"max_ticks": 40}))
    episode = run_episodes(as_policy(lambda seen: 2), task.recording_source(), task, [5])[0]
    env = sekai.make("Trading-v0", max_ticks=40)
    infos = [env.reset(seed=5).info] + [env.step(2).info for _ in range(40)]
    np.testing.assert_allclose(episode.equity, [info["equity"] for info in infos], rtol=1e-9)
    assert episode.total_cost == pytest.approx(infos[-1]["fees"], rel=1e-9)
    assert episode.weights is not None
    share = infos[-1]["exposure"] / infos[-1]["equity"]
    assert episode.weights[-1, 0] == pytest.approx(share, rel=1e-9)


def test_judging_needs_neither_torch_nor_what_draws() -> None:
    code = (
        "import sys, sekai.evaluation as e; e.evaluate('random', 'MarketMaking-v0', seeds=2); "
        "print([one for one in ('torch', 'pandas', 'plotly', 'matplotlib') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_policies_play_the_same_episodes() -> None:
    found = evaluate(follow, "Portfolio-v0", seeds=list(range(3, 11)), env_options=OPTIONS,
                     sensitivity=False)  # fmt: skip
    starts = {
        tuple(str(one.times[0]) for one in policy.episodes if one.times is not None)
        for policy in found.policies.values()
    }
    assert len(starts) == 1
    assert found.seeds == list(range(3, 11))


def test_results_do_not_depend_on_how_many_play_at_once() -> None:
    seeds = list(range(9))
    together = evaluate(follow, "Portfolio-v0", seeds=seeds, env_options=OPTIONS,
                        sensitivity=False)  # fmt: skip
    vec = sekai.make_vec("Portfolio-v0", 4, **OPTIONS)
    in_turns = evaluate(follow, vec, seeds=seeds, sensitivity=False)
    assert together.agent.by_seed["total_return"] == in_turns.agent.by_seed["total_return"]
    others = ("equal_weight", "minimum_variance", "momentum", "random")
    for name in others:
        one, other = together.policies[name], in_turns.policies[name]
        assert one.by_seed["total_return"] == other.by_seed["total_return"], name


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("Trading-v0", {"max_ticks": 100}),
        ("MarketMaking-v0", {"episode_steps": 50}),
        ("OptimalExecution-v0", {}),
        ("OrderExecution-v0", {}),
        ("Portfolio-v0", {"episode_rows": 60}),
        ("MultiPortfolio-v0", {"episode_rows": 60, "agents": 2}),
        ("gymnasium/CartPole-v1", {}),
    ],
)
def test_every_env_is_judged_beside_three_baselines_or_more(
    env: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = evaluate("random", env, seeds=8, env_options=options)
    assert len(found.comparisons) >= 3
    assert found.headline in found.agent.metrics
    assert found.sensitivity is not None
    assert set(found.sensitivity.by_delay) == set(found.policies)
    assert all(np.isfinite(found.sensitivity.by_delay[found.name]))
    assert "few_baselines" not in names(found.flags)
    found.to_json(tmp_path / "evaluation.json")
    assert str(load_evaluation(tmp_path / "evaluation.json")) == str(found)


def test_baselines_that_do_the_same_in_every_step_are_listed_once() -> None:
    coarse, fine, named = (
        evaluate("random", "OrderExecution-v0", seeds=8, env_options=options, baselines=names,
                 sensitivity=False, name="agent")
        for options, names in [
            ({}, None), ({"action": "twap_relative"}, None), ({}, ["twap", "almgren_chriss"]),
        ]
    )  # fmt: skip

    assert list(coarse.baselines) == ["twap", "all_at_once", "random"]
    assert list(fine.baselines) == ["twap", "vwap", "almgren_chriss", "all_at_once", "random"]
    # Who names them wants them.
    assert list(named.baselines) == ["twap", "almgren_chriss"]


def test_a_baseline_that_cannot_run_is_left_out_and_flagged(tmp_path: Path) -> None:
    found = evaluate("random", "OrderExecution-v0", seeds=8, env_options={"data": panel()},
                     sensitivity=False)  # fmt: skip

    assert "almgren_chriss" not in found.policies
    assert {"twap", "vwap", "all_at_once"} & set(found.baselines)
    flag = next(flag for flag in found.flags if flag.name == "baseline_left_out")
    assert flag.level == "warning"
    assert flag.message.startswith("almgren_chriss needs impact and volatility")
    assert flag.message in found.summary()
    assert flag.message in found.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    found.to_json(tmp_path / "evaluation.json")
    assert load_evaluation(tmp_path / "evaluation.json").flags == found.flags


@pytest.mark.parametrize("named", [["almgren_chriss"], ["twap", "almgren_chriss"]])
def test_a_named_baseline_that_cannot_run_is_refused(named: list[str]) -> None:
    reason = "almgren_chriss needs .* synthetic minutes only; leave it out of baselines="
    with pytest.raises(IncompatibleBaselineError, match=reason):
        evaluate("random", "OrderExecution-v0", seeds=8, env_options={"data": panel()},
                 baselines=named)  # fmt: skip


@pytest.mark.parametrize("kind", ["own part", "composed", "vec", "wrapped"])
def test_orders_are_judged_alike_however_their_envs_are_made(kind: str) -> None:
    def judged(env: Any, **options: Any) -> Any:
        found = evaluate("random", env, seeds=8, baselines=["twap", "vwap"], sensitivity=False,
                         name="agent", **options)  # fmt: skip
        return {name: own.by_seed["price_advantage"] for name, own in found.policies.items()}

    other = {
        "own part": lambda: judged("OrderExecution-v0", env_options={"reward": ShortfallReward()}),
        "composed": lambda: judged(ComposedOrderExecution),
        "vec": lambda: judged(sekai.make_vec("OrderExecution-v0", 4)),
        "wrapped": lambda: judged(
            "OrderExecution-v0", env_options={"wrappers": [FlattenObservation]}
        ),
    }[kind]()

    assert other == judged("OrderExecution-v0")


def test_an_agent_that_cannot_run_is_refused() -> None:
    with pytest.raises(IncompatibleBaselineError, match="synthetic minutes only"):
        evaluate("almgren_chriss", "OrderExecution-v0", seeds=8, env_options={"data": panel()})


def test_one_short_episode_is_refused() -> None:
    with pytest.raises(ValueError, match="no confidence interval"):
        evaluate("random", "MarketMaking-v0", seeds=1)


def test_seeds_that_change_nothing_count_once() -> None:
    found = evaluate(follow, "Portfolio-v0", seeds=4, env_options=OPTIONS | {"starts": 50},
                     baselines=["equal_weight"], sensitivity=False)  # fmt: skip
    assert len(found.seeds) == 1
    assert found.agent.metrics["sharpe"].method == "bootstrap"
    assert found.agent.metrics["sharpe"].low < found.agent.metrics["sharpe"].high
    assert "few_seeds" in names(found.flags)


def test_many_seeds_have_intervals_over_seeds() -> None:
    long = OPTIONS | {"data": planted(rows=4_000)}
    found = evaluate(follow, "Portfolio-v0", seeds=8, env_options=long, sensitivity=False)
    assert found.agent.metrics["sharpe"].method == "seeds"
    mean = float(np.mean(found.agent.by_seed["sharpe"]))
    assert found.agent.metrics["sharpe"].value == pytest.approx(mean)


def test_a_lone_number_is_refused() -> None:
    with pytest.raises(ValueError, match="baselines must not be empty"):
        evaluate(follow, "Portfolio-v0", baselines=[], env_options=OPTIONS)


def test_an_unknown_baseline_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ValueError, match="'equal_wait'.*equal_weight"):
        evaluate(follow, "Portfolio-v0", baselines=["equal_wait"], env_options=OPTIONS)


@pytest.mark.parametrize("seeds", [0, [], [1, 1]])
def test_seeds_that_are_none_or_twice_are_refused(seeds: Any) -> None:
    with pytest.raises(ValueError, match="seeds"):
        evaluate(follow, "Portfolio-v0", seeds=seeds, env_options=OPTIONS)


def test_options_of_what_is_no_id_are_refused() -> None:
    with pytest.raises(ValueError, match="need an env id"):
        evaluate("random", sekai.make("MarketMaking-v0"), env_options={"episode_steps": 3})


def test_an_env_that_was_made_is_judged_as_its_id_is() -> None:
    env = sekai.make("Portfolio-v0", **OPTIONS)
    made = sekai.evaluation.evaluate(
        follow, env, baselines=["equal_weight", "buy_and_hold"], seeds=8, sensitivity=False
    )
    named = evaluate(follow, "Portfolio-v0", baselines=["equal_weight", "buy_and_hold"], seeds=8,
                     env_options=OPTIONS, sensitivity=False)  # fmt: skip
    assert list(made.policies) == ["follow", "equal_weight", "buy_and_hold"]
    assert made.comparisons == named.comparisons
    assert made.provenance.data_digest == DATA.digest
    assert "few_baselines" in names(made.flags)


def test_an_env_of_its_own_class_can_have_other_costs_too() -> None:
    from sekai.envs import Portfolio

    found = evaluate(follow, Portfolio(**OPTIONS), seeds=2, baselines=["equal_weight"])
    assert found.sensitivity is not None
    assert found.sensitivity.cost_multiples


def test_layers_are_for_the_agent_and_not_for_who_needs_what_they_hide() -> None:
    def make() -> Any:
        return FlattenObservation(sekai.make("Portfolio-v0", **OPTIONS))

    weights = np.full(ASSETS + 1, 1 / (ASSETS + 1))
    others = ["equal_weight", "risk_parity"]
    bare = evaluate(lambda seen: weights, "Portfolio-v0", seeds=8, env_options=OPTIONS,
                    baselines=others, sensitivity=False)  # fmt: skip
    layered = evaluate(lambda seen: weights, make, seeds=8, baselines=others, sensitivity=False)
    assert layered.comparisons == bare.comparisons
    assert "look_ahead_unchecked" in names(layered.flags)


def test_baselines_do_not_see_through_the_layers_of_a_vector_env() -> None:
    from sekai.vector import NormalizeVecObservation

    weights = np.full(ASSETS + 1, 1 / (ASSETS + 1))
    others = ["equal_weight", "risk_parity"]
    bare, layered = (
        evaluate(lambda seen: weights, env, seeds=8, baselines=others, sensitivity=False)
        for env in (
            sekai.make_vec("Portfolio-v0", 8, **OPTIONS),
            NormalizeVecObservation(sekai.make_vec("Portfolio-v0", 8, **OPTIONS)),
        )
    )
    assert layered.task == "portfolio"
    assert layered.comparisons == bare.comparisons


def test_policies_are_given_names_that_differ() -> None:
    found = evaluate(stay, "Portfolio-v0", seeds=8, env_options=OPTIONS, sensitivity=False,
                     baselines=[stay, stay, "random"])  # fmt: skip
    assert list(found.policies) == ["stay (evaluated)", "stay", "stay 2", "random"]


def test_what_predicts_as_others_do_is_judged() -> None:
    class Foreign:
        def predict(self, observation: Any) -> tuple[Any, None]:
            return stay(observation), None

    mine = evaluate(Foreign(), "Portfolio-v0", seeds=8, env_options=OPTIONS, sensitivity=False,
                    baselines=[stay])  # fmt: skip
    assert mine.comparisons[0].difference.value == 0.0


def test_policies_that_can_sample_are_judged_by_their_deterministic_actions() -> None:
    class Sampling:
        def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
            assert deterministic, "sampled"
            return stay(observation), None

    mine = evaluate(Sampling(), "Portfolio-v0", seeds=8, env_options=OPTIONS, sensitivity=False,
                    baselines=[stay])  # fmt: skip
    assert mine.comparisons[0].difference.value == 0.0


def test_trials_on_the_same_data_make_a_ratio_worth_less(tmp_path: Path) -> None:
    ledger = TrialLedger(tmp_path / "trials.jsonl")
    options: dict[str, Any] = {"env_options": OPTIONS, "seeds": 8, "sensitivity": False,
               "baselines": ["equal_weight"], "ledger": ledger}  # fmt: skip
    first = evaluate(follow, "Portfolio-v0", **options)
    evaluate(stay, "Portfolio-v0", **options)
    third = evaluate(follow, "Portfolio-v0", **options)
    assert first.deflated_sharpe is not None
    assert third.deflated_sharpe is not None
    assert (first.deflated_sharpe.trials, third.deflated_sharpe.trials) == (1, 3)
    assert third.deflated_sharpe.deflated < first.deflated_sharpe.deflated


def test_what_no_trader_knows_is_told() -> None:
    options = {"max_ticks": 20}
    shown = evaluate("random", "Trading-v0", seeds=8, sensitivity=False,
                     env_options=options | {"privileged": True})  # fmt: skip
    hidden = evaluate("random", "Trading-v0", seeds=8, sensitivity=False, env_options=options)
    assert "privileged" in names(shown.flags)
    assert "privileged" not in names(hidden.flags)


def test_an_env_on_a_file_of_windows_is_judged_on_these_windows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pipeline = Pipeline(["log_return"])
    Windows.write(tmp_path / "windows", pipeline.transform(DATA), 2)
    shapes = set()

    def look(observation: Any) -> np.ndarray:
        shapes.add(observation["windows"].shape)
        return follow(observation)

    with Windows.open(tmp_path / "windows", pipeline=pipeline) as windows:
        env = Portfolio(**OPTIONS | {"features": windows})
        evaluate(look, env, seeds=2, sensitivity=False, baselines=["random"])

    assert shapes == {(2, ASSETS, 2)}


def test_an_agent_looks_windows_up_where_it_is_judged() -> None:
    from sekai.training import PPO

    trained, judged = (OPTIONS | {"data": planted(seed=seed)} for seed in (8, 9))
    agent = PPO("Portfolio-v0", env_options=trained | {"observation": "index"}, seed=0,
                n_envs=2, n_steps=8)  # fmt: skip
    assert agent.gather is not None
    its_own = agent.gather.windows
    by_number = evaluate(agent, "Portfolio-v0", seeds=8, sensitivity=False, baselines=["random"],
                         env_options=judged | {"observation": "index"})  # fmt: skip
    assert agent.gather.windows is its_own
    policy = PPO("Portfolio-v0", env_options=judged, seed=0, n_envs=2, n_steps=8)
    policy.network.load_state_dict(agent.network.state_dict())
    by_window = evaluate(policy, "Portfolio-v0", seeds=8, sensitivity=False, baselines=["random"],
                         env_options=judged)  # fmt: skip
    np.testing.assert_allclose(by_number.agent.by_seed["sharpe"], by_window.agent.by_seed["sharpe"])


def test_a_saved_agent_is_judged_by_its_path(tmp_path: Path) -> None:
    from sekai.training import PPO

    agent = PPO("MarketMaking-v0", seed=0, n_envs=2, n_steps=8)
    agent.save(tmp_path / "agent")
    by_path = evaluate(tmp_path / "agent", "MarketMaking-v0", seeds=4, sensitivity=False)
    itself = evaluate(agent, "MarketMaking-v0", seeds=4, sensitivity=False)
    # A file is computed by the native core, which rounds otherwise than torch.
    for ours, theirs in zip(by_path.comparisons, itself.comparisons, strict=True):
        assert ours.baseline == theirs.baseline
        assert ours.difference.value == pytest.approx(theirs.difference.value, rel=1e-3)
    assert len(by_path.provenance.model) == 64


def test_less_is_better_where_it_is() -> None:
    found = evaluate("almgren_chriss", "OptimalExecution-v0", seeds=32, sensitivity=False,
                     baselines=["all_at_once", "twap"])  # fmt: skip
    assert not found.higher_is_better
    for comparison in found.comparisons:
        mine = found.agent.metrics[found.headline].value
        other = found.policies[comparison.baseline].metrics[found.headline].value
        assert comparison.difference.value == pytest.approx(other - mine)
        assert comparison.difference.low > 0
        assert comparison.wins > 0.5


class Halves(ActionInterpreter[SAOEState, int, float]):
    """None, a half or all of what is left of an order."""

    action_space = Discrete(3)

    def interpret(self, state: SAOEState, action: int) -> float:
        return state.position * action / 2


def test_baselines_that_cannot_use_an_action_interpreter_of_ones_own_are_left_out() -> None:
    found = evaluate(
        lambda observation: 2,
        "OrderExecution-v0",
        seeds=8,
        env_options={"action": Halves()},
        sensitivity=False,
    )

    messages = [flag.message for flag in found.flags if flag.name == "baseline_left_out"]
    assert list(found.baselines) == ["random"]
    assert len(messages) == 4
    assert "twap cannot express its amounts as actions of Halves" in messages[0]
