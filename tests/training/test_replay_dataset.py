"""Replay data sets: what happened is what is read, from files and from Minari too."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from numpy.typing import NDArray

from sekai.error import StateError
from sekai.policy.files import read_arrays, write_arrays
from sekai.spaces import Box, Simplex
from sekai.storage.codec import ArrayStore
from sekai.training import BC, PPO, ReplayDataset, ReplayFileError
from sekai.training.normalizers import RewardScaler
from tests.training.barred import SEVERAL, Barred, BarredBatch, BarredTeam
from tests.training.optima.batch import vector
from tests.training.optima.steer import Steer
from tests.training.optima.table import Table
from tests.training.test_replay import Counter


def _counted(steps: int = 40, **options: Any) -> ReplayDataset:
    return ReplayDataset.collect(vector(Counter(4, 7, **options)), "random", steps, seed=3)


@pytest.mark.parametrize("ends", [False, True])
def test_every_transition_happened_whole(ends: bool) -> None:
    dataset = _counted(120, ends=ends)
    drawn = dataset.steps_at(torch.arange(len(dataset)))

    env, clock = drawn["observation"]["observation"].T
    assert np.array_equal(np.unique(env), np.arange(4))
    following = drawn["next"]["observation"]
    # The clock jumps between episodes: it goes on by one within them and to their last step.
    assert torch.equal(following[:, 0], env)
    assert torch.equal(following[:, 1], clock + 1)
    assert torch.equal(drawn["reward"], clock.double() + drawn["action"][:, 0].double())
    done = (drawn["terminated"] | drawn["truncated"]).numpy()
    assert np.array_equal(np.flatnonzero(done), dataset.ends)
    # Thirty steps of each env: four episodes of seven, and one that the end interrupted.
    lengths = np.diff(np.append(-1, dataset.ends)).reshape(4, 5)
    assert lengths.tolist() == [[7, 7, 7, 7, 2]] * 4
    assert int(drawn["terminated"].sum()) == (16 if ends else 0)
    assert bool(drawn["truncated"].reshape(4, 30)[:, -1].all())


def test_samples_are_drawn_uniformly_with_all_steps() -> None:
    dataset = _counted()
    torch.manual_seed(0)

    drawn = dataset.sample(4_000)

    seen = drawn["observation"]["observation"]
    assert len(torch.unique(seen, dim=0)) == len(dataset)


def test_native_and_python_envs_and_leaves_are_recorded() -> None:
    portfolio = ReplayDataset.collect("Portfolio-v0", "random", 12, num_envs=2, seed=1)
    python = ReplayDataset.collect(lambda: Barred(SEVERAL), "random", 40, num_envs=4)

    assert set(portfolio.observations) == set(portfolio.observation_space.spaces)  # type: ignore[attr-defined]
    assert isinstance(portfolio.action_space, Simplex)
    assert portfolio.data_signature is not None
    assert portfolio.env == "Portfolio-v0"
    assert python.action_masks is not None
    assert python.actions.shape == (40, 2)


def test_recorded_masks_are_those_of_the_observations() -> None:
    dataset = ReplayDataset.collect(vector(BarredBatch(4)), "random", 60)
    masks = dataset.action_masks
    assert masks is not None

    # What `BarredBatch` forbids follows from clock and env; each env has two episodes of nine.
    clocks = np.rint(dataset.observations[:, 0] * 9).astype(int)
    barred = (~masks).argmax(1)
    first, last = dataset._rows[0], dataset._rows[8] + 1
    assert barred[first:last].tolist() == [clock % 4 for clock in range(9)]
    assert (masks.sum(1) == 3)[dataset._rows].all()
    assert clocks[first:last].tolist() == list(range(9))


def test_the_seed_decides_the_bytes(tmp_path: Path) -> None:
    files = [
        ReplayDataset.collect(vector(Steer(3)), "random", 30, seed=seed).save(
            tmp_path / f"{number}.safetensors"
        )
        for number, seed in enumerate((1, 1, 2))
    ]

    first, again, other = (file.read_bytes() for file in files)
    assert first == again != other


def test_policies_are_agents_files_and_functions(tmp_path: Path) -> None:
    agent = PPO(vector(Steer(2)), n_steps=4)
    path = agent.save(tmp_path, training=False)

    def recorded(policy: Any) -> NDArray[Any]:
        vec = vector(Steer(2))
        return ReplayDataset.collect(vec, policy, 12, deterministic=True).actions

    np.testing.assert_allclose(recorded(agent), recorded(path), atol=1e-6)
    best = ReplayDataset.collect(vector(Steer(2)), Steer.best, 12)
    assert np.array_equal(best.actions, Steer.best(best.observations[best._rows]))
    with pytest.raises(TypeError, match="policy must be an agent, a policy, a path, a function"):
        recorded(3)


def test_a_function_that_reads_masks_keeps_to_them() -> None:
    def lowest(observations: Any, action_mask: Any = None) -> NDArray[Any]:
        lowest_allowed: NDArray[Any] = np.stack(action_mask).argmax(1)
        return lowest_allowed

    dataset = ReplayDataset.collect(vector(BarredBatch(8)), lowest, 160)

    assert set(dataset.actions.tolist()) == {0, 1}


def test_what_no_data_set_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="data sets are of single-agent envs"):
        ReplayDataset.collect(BarredTeam, "random", 10)
    options = {"observation": "index"}
    with pytest.raises(ValueError, match="make it with observation='window'"):
        ReplayDataset.collect("Portfolio-v0", "random", 8, num_envs=2, env_options=options)
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        _counted(0)


def test_discounted_returns_are_those_of_each_episode() -> None:
    dataset = _counted(120)
    done = dataset.terminated | dataset.truncated

    expected, running = [], 0.0
    for reward, is_over in zip(dataset.rewards, done, strict=True):
        running = reward + 0.9 * running
        expected.append(running)
        running *= not is_over
    assert dataset.discounted_returns(0.9) == pytest.approx(np.array(expected))
    assert dataset.episode_returns.sum() == pytest.approx(dataset.rewards.sum())
    scaler = RewardScaler(0.9, 1)
    scaler.update(torch.from_numpy(dataset.rewards[:, None]), torch.from_numpy(done[:, None]))
    other = RewardScaler(0.9, 1)
    other.add(torch.from_numpy(dataset.discounted_returns(0.9)))
    assert float(other.scale) == pytest.approx(float(scaler.scale))


def test_data_sets_are_joined_in_order() -> None:
    masked = ReplayDataset.collect(vector(Table(2)), "random", 20)
    free = ReplayDataset.collect(vector(Table(2, masked=False)), "random", 20)
    assert free.action_masks is None

    joined = ReplayDataset.concatenate([masked, free])

    assert len(joined) == 40
    assert np.array_equal(joined.actions, np.append(masked.actions, free.actions))
    drawn = joined.steps_at(torch.arange(20, 40))
    assert bool(drawn["observation"]["action_mask"].all())
    other = ReplayDataset.collect(vector(Steer(2)), "random", 20)
    with pytest.raises(ValueError, match="must have the same observation_space"):
        ReplayDataset.concatenate([masked, other])


SETS = {
    "numbers": lambda: ReplayDataset.collect(vector(Steer(3)), "random", 40),
    "masks": lambda: ReplayDataset.collect(vector(BarredBatch(4)), "random", 60),
    "several choices": lambda: ReplayDataset.collect(lambda: Barred(SEVERAL), "random", 40),
    "portfolio": lambda: ReplayDataset.collect("Portfolio-v0", "random", 12, num_envs=2),
}
every_set = pytest.mark.parametrize("name", SETS)


@every_set
def test_a_file_holds_the_same_data_set(name: str, tmp_path: Path) -> None:
    dataset = SETS[name]()

    loaded = ReplayDataset.load(dataset.save(tmp_path / "steps.safetensors"))

    assert loaded.digest == dataset.digest
    assert repr(loaded) == repr(dataset)
    for name in ("observation_space", "action_space", "data_signature", "env"):
        assert getattr(loaded, name) == getattr(dataset, name)


@every_set
def test_minari_data_sets_go_both_ways(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minari", reason="needs the extra minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = SETS[name]()

    written = dataset.to_minari("steps/random-v0", author="a")
    spaces: dict[str, Any] = {
        "observation_space": dataset.observation_space,
        "action_space": dataset.action_space,
    }
    loaded = ReplayDataset.from_minari("steps/random-v0", **spaces)

    assert written.total_steps == len(dataset)
    assert written.total_episodes == len(dataset.ends)
    assert loaded.digest == dataset.digest
    converted = ReplayDataset.from_minari(written)
    assert isinstance(converted.action_space, Box) or name != "portfolio"
    BC(converted, batch_size=4, policy={"net_arch": (4,)}).fit(1)


def _damaged(change: str, path: Path) -> None:
    """Rewrite a valid file with one thing wrong, and valid checksums."""
    content: dict[str, Any] = read_arrays(path)
    changes: dict[str, dict[str, Any]] = {
        "kind": {"kind": "agent"},
        "format": {"format": 99},
        "reward missing": {"rewards": content["rewards"][:-1]},
        "reward not finite": {"rewards": np.full_like(content["rewards"], np.nan)},
        "observation not finite": {"observations": np.full_like(content["observations"], np.inf)},
        "observations missing": {"observations": content["observations"][:-1]},
        "observation nested": {"observations": {"a": content["observations"]}},
        "actions outside": {"actions": content["actions"] * 0 + 7},
        "actions of text": {"actions": "up"},
        "forbidden actions": {"action_masks": content["action_masks"] & False},
        "masks of another size": {"action_masks": content["action_masks"][:, 1:]},
        "no end": {"truncated": content["truncated"] & False},
        "flags of numbers": {"terminated": content["terminated"].astype(np.int64)},
        "no steps": {"rewards": content["rewards"][:0]},
        "huge space": {"observation_space": {"type": "Box", "shape": [2**40], "dtype": "float32"}},
        "unknown space": {"action_space": {"type": "os.system"}},
        "env of numbers": {"env": 3},
    }
    write_arrays(path, {**content, **changes[change]}, ArrayStore({}))


@pytest.mark.parametrize(
    "change",
    [
        "kind",
        "format",
        "reward missing",
        "reward not finite",
        "observation not finite",
        "observations missing",
        "observation nested",
        "actions outside",
        "actions of text",
        "forbidden actions",
        "masks of another size",
        "no end",
        "flags of numbers",
        "no steps",
        "huge space",
        "unknown space",
        "env of numbers",
    ],
)
def test_inconsistent_files_raise_one_error(change: str, tmp_path: Path) -> None:
    path = SETS["masks"]().save(tmp_path / "steps.safetensors")
    _damaged(change, path)

    with pytest.raises(ReplayFileError, match=r"steps\.safetensors"):
        ReplayDataset.load(path)


def test_foreign_and_damaged_files_raise_one_error(tmp_path: Path) -> None:
    path = SETS["masks"]().save(tmp_path / "steps.safetensors")
    whole = path.read_bytes()
    agent = BC(ReplayDataset.load(path), policy={"net_arch": (4,)}).save(tmp_path / "a.safetensors")
    foreign = safetensors.numpy.save({"rewards": np.zeros(3)})
    cut = [whole[: len(whole) * part // 7] for part in range(7)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(9, len(whole), 333)
    ]

    for data in (*cut, *flipped, pickle.dumps({}), foreign, agent.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(ReplayFileError):
            ReplayDataset.load(path)
    with pytest.raises(ReplayFileError, match="cannot be read"):
        ReplayDataset.load(tmp_path / "none.safetensors")
    with pytest.raises(ReplayFileError, match=r"end in \.safetensors"):
        ReplayDataset.load(tmp_path)
    assert issubclass(ReplayFileError, StateError)
