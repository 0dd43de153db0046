from __future__ import annotations

from pathlib import Path

import pytest

import sekai
from sekai.config.convert import documented_fields
from sekai.experiment.reading import agent_type
from sekai.training import PolicySettings
from tests.cli.commands import call

OWN = '''
import sekai


class Broken(sekai.Env):
    """Never ends, and shows what its space does not hold."""

    observation_space = sekai.Box(0.0, 1.0, (2,))
    action_space = sekai.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        return sekai.ResetResult(self.observation_space.sample() + 5.0, {})

    def step(self, action):
        return sekai.StepResult(self.observation_space.sample() + 5.0, 0.0, False, False, {})


NUMBER = 5
'''


@pytest.fixture
def own_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_envs.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_every_registered_env_is_listed_with_its_spaces() -> None:
    lines = call("list").out.splitlines()

    for spec in sekai.all_specs():
        assert any(line.startswith(spec.id) for line in lines)
    making = next(line for line in lines if line.startswith("MarketMaking-v0"))
    assert all(word in making for word in ("yes", "Box(4)", "Box(2)", "Quote a distance"))


def test_gymnasium_lists_its_own() -> None:
    assert "gymnasium/CartPole-v1" in call("list", "--namespace", "gymnasium").out


def test_a_namespace_that_is_not_there_is_misuse_and_the_nearest_is_named() -> None:
    told = call("list", "--namespace", "gymnasum")

    assert told.code == 2
    assert "did you mean 'gymnasium'?" in told.err


def test_info_tells_the_task_its_options_and_its_baselines() -> None:
    shown = call("info", "Portfolio-v0").out

    for word in ("Observation:", "Truncates:", "episode_rows", "252", "Rows until an episode"):
        assert word in shown
    assert "equal_weight, buy_and_hold" in shown
    assert "Simplex" in shown
    costs = shown.partition("[env.costs]")[2].partition("\n\n")[0]
    assert "half_spread" in costs
    assert "0.0005" in costs
    assert "MarginAccount, in [env.account]" in shown


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", ["ppo", "recurrent_ppo", "A2C", "ddpg", "td3", "sac", "dqn", "maddpg", "qmix"]
)
def test_info_lists_every_setting_of_an_algorithm(name: str) -> None:
    shown = call("info", name).out

    agent = agent_type(name.lower())
    for doc in (*documented_fields(agent.settings_type), *documented_fields(PolicySettings)):
        if doc.name != "policy":
            line = next(line for line in shown.splitlines() if line.startswith(f"{doc.name} "))
            assert doc.default in line
    assert "Gradients are clipped to this norm." in shown
    assert "Steps of single envs" in shown
    if name == "ppo":
        assert "defaults of Portfolio-v0: gamma 0.9" in shown


def test_a_wrong_algorithm_names_the_nearest() -> None:
    told = call("info", "pp0")

    assert (told.code, told.out) == (2, "")
    assert "unknown env or algorithm 'pp0'; did you mean 'ppo'?" in told.err


def test_info_of_an_env_of_gymnasium_needs_no_config() -> None:
    assert "Discrete(2" in call("info", "gymnasium/CartPole-v1").out


def test_a_wrong_id_is_misuse_and_the_nearest_is_named() -> None:
    for command in ("info", "check", "bench"):
        told = call(command, "Portfolo-v0")

        assert (told.code, told.out) == (2, "")
        assert "did you mean 'Portfolio-v0'" in told.err


def test_an_env_that_keeps_the_rules_passes() -> None:
    told = call("check", "MarketMaking-v0", "--steps", "30")

    assert told.code == 0
    assert "no problems" in told.out


@pytest.mark.usefixtures("own_envs")
def test_an_env_that_breaks_the_rules_fails_with_what_was_found() -> None:
    told = call("check", "own_envs:Broken", "--steps", "10")

    assert told.code == 1
    assert "ERROR:" in told.out


@pytest.mark.usefixtures("own_envs")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_envs:Borken", "own_envs:Borken"),
        ("no_such_module:Env", "no module named 'no_such_module'"),
        ("own_envs:NUMBER", "a class or a function"),
        ("own envs:Broken", "package.module:Class"),
    ],
)
def test_a_class_that_is_not_there_is_misuse(name: str, said: str) -> None:
    told = call("check", name)

    assert told.code == 2
    assert said in told.err


@pytest.mark.parametrize("id", ["MarketMaking-v0", "MultiPortfolio-v0", "gymnasium/CartPole-v1"])
def test_bench_counts_steps_in_every_way_there_is(id: str) -> None:
    lines = call("bench", id, "--envs", "2", "--seconds", "0.05").out.splitlines()

    ways = ["sync"] if id.startswith("gymnasium") else ["native", "sync"]
    assert [line.split()[0] for line in lines[1:]] == ways
    assert all(int(line.split()[-1].replace(",", "")) > 0 for line in lines[1:])


def test_a_module_that_is_not_there_is_said_with_where_it_was_looked_for() -> None:
    told = call("check", "nosuch.module:Env")

    assert told.code == 2
    assert str(Path.cwd()) in told.err.replace("\n", "")


def test_info_spells_out_the_types_of_options() -> None:
    told = call("info", "Portfolio-v0").out

    assert "float | Mapping[str, float]" in told
    assert "float | tuple[float, float]" in told
    assert "AssetRate" not in told
    assert "Bounds |" not in told
