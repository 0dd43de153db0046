"""Saved agents: they act and learn on as they did, and files of anybody else's do no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import StateError
from sekai.training import A2C, PPO, Agent, EarlyStopping, ModelFileError, load_policy
from sekai.training.checkpoint import read_file, write_file
from sekai.training.rng import RandomStream
from tests.training.arms import Arms
from tests.training.keeping_processes import CASES, train
from tests.training.test_model_file import bounded

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 4, "policy": {"net_arch": (4,)}}


def run(task: str, folder: Path, hash_seed: int) -> list[str]:
    """What another process found."""
    command = [sys.executable, "-m", "tests.training.keeping_processes", task, str(folder)]
    seeds = {"PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env={**os.environ, **seeds}, cwd=ROOT, check=True, timeout=280)
    return (folder / f"{task}.txt").read_text().splitlines()


@pytest.mark.timeout(900)
def test_a_killed_training_goes_on_bit_for_bit_in_another_process(tmp_path: Path) -> None:
    whole = run("train", tmp_path, hash_seed=1)
    deaths = run("train_and_die", tmp_path, hash_seed=2)
    resumed = run("go_on", tmp_path, hash_seed=3)

    assert deaths == ["9"] * len(CASES)
    assert resumed == whole
    assert len(set(whole)) == len(CASES)
    here = [train(tmp_path, case) for case in ("PPO", "QMIX")]
    assert here == [whole[list(CASES).index(case)] for case in ("PPO", "QMIX")]


@pytest.mark.timeout(300)
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    versions, halves = run("kill_writers", tmp_path, hash_seed=1)[0].split()

    assert set(versions) <= {"0", "1"}
    # Somebody was killed in the middle of writing, or this has shown nothing.
    assert int(halves) > 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = A2C("MarketMaking-v0", seed=2, **SMALL)
    return agent.fit(80).save(tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("env", ["MarketMaking-v0", "Trading-v0", "Portfolio-v0"])
def test_a_policy_acts_as_its_agent_without_envs(
    tmp_path: Path, kind: type[Agent], env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = kind(env, seed=4, **SMALL)
    agent.fit(40)
    seen = [agent.vec.observation_space.sample() for _ in range(5)]
    path = agent.save(tmp_path, training=False)

    monkeypatch.setattr("sekai.training.agent.make_training_envs", None)
    policy, native = load_policy(path, backend="torch"), load_policy(path)

    assert _count(policy.network) > 0, "the normalizer has travelled along"
    for observation in seen:
        acted, wanted = policy.predict(observation), agent.predict(observation)
        assert np.array_equal(np.asarray(acted), np.asarray(wanted))
        assert np.allclose(native.predict(observation), wanted, atol=1e-5)


def _count(network: Any) -> float:
    return float(network.inputs.normalizer.count_0)


def test_a_policy_that_takes_chances_draws_from_the_seed_of_its_agent(kept: Path) -> None:
    observation = A2C.load(kept).vec.observation_space.sample()
    draws: list[Any] = [load_policy(kept).predict(observation, False) for _ in range(2)]
    assert np.array_equal(draws[0], draws[1])


def test_a_loaded_agent_learns_on_and_a_file_without_training_cannot(tmp_path: Path) -> None:
    agent = A2C("MarketMaking-v0", seed=2, **SMALL).fit(80)
    path = agent.save(tmp_path, training=False)

    assert A2C.load(path).fit(8).steps == agent.steps + 8
    with pytest.raises(ModelFileError, match="training=False"):
        A2C.resume(path)


def test_another_algorithm_is_named(kept: Path) -> None:
    with pytest.raises(ModelFileError, match="holds an agent of 'A2C', expected PPO"):
        PPO.load(kept)


def test_another_env_is_refused(kept: Path) -> None:
    with pytest.raises(ModelFileError, match="another observation_space"):
        A2C.load(kept, "Trading-v0")


def doubled(steps: Any) -> Any:
    """Rewards that count twice."""
    return 2 * steps.rewards


ARMS = partial(Arms, [(3.0,), (-1.0,)], (0.8,))


def test_functions_are_named_in_files_and_given_again(tmp_path: Path) -> None:
    agent = A2C(ARMS, reward_transform=doubled, **SMALL).fit(8)
    path = agent.save(tmp_path)

    with pytest.raises(ModelFileError, match="trained with reward_transform='tests.training"):
        A2C.resume(path, env=ARMS)
    again = A2C.resume(path, 8, env=ARMS, reward_transform=doubled)
    agent.fit(8)
    for name, value in agent.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], value)
    assert A2C.load(path, ARMS, reward_transform=None).shaping.reward_transform is None


def test_a_function_that_nobody_can_import_cannot_be_kept(tmp_path: Path) -> None:
    agent = A2C(ARMS, reward_transform=lambda steps: steps.rewards, **SMALL).fit(8)

    with pytest.raises(StateError, match="no import finds again"):
        agent.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert load_policy(agent.save(tmp_path, training=False)) is not None


def changed(path: Path, folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy of a saved agent, rewritten by somebody who knows how."""
    content = read_file(path)
    change(content)
    return write_file(folder / "changed", content)


def spec(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The same for the env that it names."""

    def apply(content: dict[str, Any]) -> None:
        agent_content = json.loads(content["env"])
        change(agent_content)
        content["env"] = json.dumps(agent_content)

    return apply


def _network(content: dict[str, Any], name: str, value: Any) -> None:
    content["network"][name] = value


HARMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "calls": spec(
        lambda env: env.update(entry_point="os:system", kwargs={"command": "touch harm"})
    ),
    "vector calls": spec(lambda env: env.update(vector_entry_point="os:system")),
    "wrappers": spec(
        lambda env: env["wrappers"].append({"name": "os:system", "kwargs": {}, "args": []})
    ),
    "imports": spec(lambda env: env["kwargs"].update(x={"$import": "antigravity:fly"})),
    "classes": spec(lambda env: env["kwargs"].update(x={"$object": ["subprocess:Popen", "ls"]})),
    "nested": spec(
        lambda env: env["kwargs"].update(x=[{"$tuple": [{"$enum": ["antigravity:A", "B"]}]}])
    ),
    "unknown arguments": spec(lambda env: env["kwargs"].update(shell="touch harm")),
    "arguments of another type": spec(lambda env: env["kwargs"].update(episode_steps="7")),
    "huge arguments": spec(lambda env: env["kwargs"].update(inventory_limit=2**100)),
    "unknown env": spec(lambda env: env.update(id="Nowhere-v0")),
    "no spec": lambda content: content.update(env="[]"),
    "spec of numbers": lambda content: content.update(env=7),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_cannot_have_anything_called(
    kept: Path, tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(kept, tmp_path, HARMS[harm])
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ModelFileError):
        A2C.load(path)
    assert "antigravity" not in sys.modules
    assert not (tmp_path / "harm").exists()


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a wide network": lambda content: content["settings"]["policy"].update(net_arch=[10**6, 10**6]),
    "a deep network": lambda content: content["settings"]["policy"].update(net_arch=[4] * 50),
    "widths that are none": lambda content: content["settings"]["policy"].update(net_arch=["4"]),
    "an unknown backbone": lambda content: content["settings"]["policy"].update(backbone="os"),
    "an unknown setting": lambda content: content["settings"].update(shell="ls"),
    "a word for a number": lambda content: content["settings"].update(gamma="ls"),
    "many envs": lambda content: content["settings"].update(n_envs=10**12),
    "a space without end": lambda content: content["observation_space"].update(
        shape=[10**8], low=0.0, high=1.0
    ),
    "many actions": lambda content: content.update(
        action_space={"type": "Discrete", "n": 10**12, "start": 0, "dtype": "int64"}
    ),
    "a space that is none": lambda content: content.update(action_space={"type": "os:system"}),
    "no space": lambda content: content.pop("action_space"),
    "no network": lambda content: content.update(network=[]),
    "weights of another shape": lambda content: _network(
        content, "actor.head.rest.bias", torch.zeros(3)
    ),
    "weights of another type": lambda content: _network(
        content, "actor.head.rest.bias", torch.zeros(2, dtype=torch.float64)
    ),
    "weights that are words": lambda content: _network(content, "actor.head.rest.bias", "ls"),
    "weights too many": lambda content: _network(content, "more", torch.zeros(2)),
    "an unknown algorithm": lambda content: content.update(algorithm="os:system"),
    "a word for the seed": lambda content: content.update(seed="1"),
    "a word for the steps": lambda content: content.update(steps="1"),
}


NOT_READ_TO_ACT = ("an unknown setting", "a word for a number", "many envs")
"""Damages of hyperparameters of training, which a native policy does not read."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_fit_is_refused_before_it_is_built(
    kept: Path, tmp_path: Path, damage: str
) -> None:
    path = changed(kept, tmp_path, DAMAGES[damage])
    backend = "torch" if damage in NOT_READ_TO_ACT else None

    with bounded(2**24), pytest.raises(ModelFileError):
        load_policy(path, backend=backend)
    with bounded(2**24), pytest.raises(ModelFileError):
        A2C.load(path)


LEGAL = {("iterations", 7), ("envs", None)}
PARTS = ("randomness", "iterations", "functions", "episodes", "envs", "learning")
JUNK: tuple[Any, ...] = (None, 7, "x", (1,), torch.zeros(3))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param(part, value, id=f"{part}-{at}")
        for part in PARTS
        for at, value in enumerate(JUNK)
        if at > 1 or (part, value) not in LEGAL
    ],
)
def test_a_damaged_training_is_refused(kept: Path, tmp_path: Path, part: str, value: Any) -> None:
    path = changed(kept, tmp_path, lambda content: content["training"].update({part: value}))

    with pytest.raises(StateError):
        A2C.resume(path)


def test_what_callbacks_kept_is_checked_when_they_hear_of_it(kept: Path, tmp_path: Path) -> None:
    states = {"EarlyStopping": {"best": "ls"}, "Other": 7}
    path = changed(kept, tmp_path, lambda content: content["training"].update(callbacks=states))

    with pytest.raises(StateError, match="invalid state of EarlyStopping"):
        A2C.resume(path, 8, [EarlyStopping("loss_critic", mode="min")])


def test_a_refused_random_state_leaves_the_old_one() -> None:
    stream = RandomStream(3)
    before, outer = stream.state.clone(), torch.get_rng_state()

    for junk in (torch.zeros(7, dtype=torch.uint8), torch.zeros(3), None):
        with pytest.raises((RuntimeError, TypeError, AttributeError)):
            stream.restore(junk)  # type: ignore[arg-type]
    assert torch.equal(stream.state, before)
    assert torch.equal(torch.get_rng_state(), outer)
