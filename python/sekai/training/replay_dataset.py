"""Replay data sets: recorded transitions in files, for offline training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.data.signature import DataSignature, data_signature
from sekai.error import StateError
from sekai.policy.actions import counts_of
from sekai.policy.files import (
    ModelFileError,
    file_digest,
    read_arrays,
    signature_of,
    space_of,
    write_arrays,
)
from sekai.policy.observations import ACTION_MASK, arrays_of, leaves_of
from sekai.spaces import Box, Simplex, Space
from sekai.storage.codec import ArrayStore
from sekai.storage.optional import optional_import
from sekai.training.actions import ActionMap
from sekai.training.observations import observed_mask, tensors_of
from sekai.training.recording import EpisodeRecording, policy_of, require_recordable
from sekai.training.training_envs import BatchPolicy, fixed_count, make_training_envs
from sekai.vector.batching import Batcher, map_arrays

__all__ = ["ReplayDataset", "ReplayFileError"]

SUFFIX = ".safetensors"
KIND, FORMAT = "replay data set", 1
SUM_TOLERANCE = 1e-4
"""Largest distance of the sum of recorded portfolio weights from 1."""

ARRAYS = ("rewards", "terminated", "truncated")


class ReplayFileError(StateError):
    """Data set file is damaged, of another kind or format, or inconsistent; nothing was loaded."""


class ReplayDataset:
    """Recorded transitions, episode after episode, that offline agents are trained on.

    An observation is stored once: episodes of n steps have n + 1 observations, of which the last is
    the final one. Every episode ends terminated or truncated; one that the end of the recording
    interrupted is truncated there.

    Args:
        observation_space: observation space of the env.
        action_space: action space of the env.
        observations: batch of the observations of all episodes.
        actions: batch of the actions, as the env takes them, with a row for each step.
        rewards: reward of each step.
        terminated: steps that ended their episode.
        truncated: steps after which their episode was cut off.
        action_masks: allowed actions at each observation, flattened; None if all are, or if
            observations hold the mask.
        env: name of the env.
        data_signature: market data of the env; agents trained on the data set carry it on.

    Raises:
        ValueError: the arrays do not fit the spaces or each other.
    """

    num_envs = 1

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        observations: Any,
        actions: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        action_masks: NDArray[np.bool_] | None = None,
        env: str = "",
        data_signature: DataSignature | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.observations, self.actions = observations, actions
        self.rewards, self.terminated, self.truncated = rewards, terminated, truncated
        self.action_masks = action_masks
        self.env, self.data_signature = env, data_signature
        self._check_steps()
        done = self.terminated | self.truncated
        self.ends: NDArray[np.int64] = np.flatnonzero(done)
        """Last step of each episode."""
        self._rows = np.arange(len(done)) + np.cumsum(done) - done
        self._check_batches()
        self._leaves = tensors_of(self.observations)
        self._check_values()
        self._chosen = ActionMap(action_space).from_env(self.actions)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        count = len(self.ends)
        return f"ReplayDataset({self.env!r}, {len(self):,} steps, {count:,} episodes)"

    @classmethod
    def collect(
        cls,
        env: Any,
        policy: BatchPolicy | Callable[..., Any] | str | os.PathLike[str],
        steps: int,
        *,
        seed: int = 0,
        num_envs: int = 16,
        env_options: Mapping[str, Any] | None = None,
        deterministic: bool = False,
    ) -> ReplayDataset:
        """Record the steps of a policy in an env.

        Native envs write into the arrays of the recording without copies.

        Args:
            env: as for agents; an id, a function or a vector env, of a single agent.
            policy: an agent, a loaded policy, the path of a model file, a function of a batch of
                observations (and, if it has that argument, of `action_mask`), or "random".
            steps: steps of all envs together, rounded up to whole steps of each.
            seed: seed of the envs, and of "random".
            num_envs: number of envs, if they are made from an id or a function.
            env_options: keyword arguments of the env, if it is an id.
            deterministic: take the most likely actions. Samples continue the random stream of the
                policy.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        vec = make_training_envs(env, num_envs, env_options)
        try:
            require_recordable(vec)
            actor = policy_of(policy, vec, seed)
            recording = EpisodeRecording(vec, -(-steps // vec.num_envs))
            recording.run(actor, seed, deterministic)
            name = env if isinstance(env, str) else str(getattr(env, "id", "") or "")
            return cls(
                vec.observation_space,
                vec.action_space,
                **recording.episodes(),
                env=name,
                data_signature=data_signature(vec),
            )
        finally:
            if fixed_count(env) is None:
                vec.close()

    @classmethod
    def concatenate(cls, datasets: Sequence[ReplayDataset]) -> ReplayDataset:
        """Join data sets of the same spaces and market data, in order."""
        first, *others = datasets
        for other in others:
            for name in ("observation_space", "action_space", "data_signature"):
                if getattr(other, name) != getattr(first, name):
                    raise ValueError(f"data sets must have the same {name}; {other!r} differs")
        masks = None
        if any(dataset.action_masks is not None for dataset in datasets):
            masks = np.concatenate([dataset._masks_or_all() for dataset in datasets])
        parts = [dataset.observations for dataset in datasets]
        return cls(
            first.observation_space,
            first.action_space,
            observations=map_arrays(lambda *arrays: np.concatenate(arrays), *parts),
            actions=np.concatenate([dataset.actions for dataset in datasets]),
            rewards=np.concatenate([dataset.rewards for dataset in datasets]),
            terminated=np.concatenate([dataset.terminated for dataset in datasets]),
            truncated=np.concatenate([dataset.truncated for dataset in datasets]),
            action_masks=masks,
            env=first.env,
            data_signature=first.data_signature,
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save to a file that ends in .safetensors, atomically."""
        return write_arrays(_checked_path(path), self._content(), ArrayStore({}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReplayDataset:
        """Load a file of `save`; nothing that it names is imported or run.

        Raises:
            ReplayFileError: the file is missing, damaged, of another kind or inconsistent.
        """
        try:
            content = read_arrays(_checked_path(path))
            if content.get("kind") != KIND or content.get("format") != FORMAT:
                got = f"{content.get('kind')!r:.40} of format {content.get('format')!r:.40}"
                raise ReplayFileError(
                    f"{path} is no data set that this version reads: expected {KIND!r} of format "
                    f"{FORMAT}, got {got}; record it again"
                )
            return cls._from_content(content)
        except ReplayFileError:
            raise
        except ModelFileError as error:
            raise ReplayFileError(f"{path} cannot be read as a data set: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ReplayFileError(f"{path} is an inconsistent data set: {error}") from error

    @classmethod
    def from_minari(
        cls,
        dataset: Any,
        *,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        download: bool = False,
    ) -> ReplayDataset:
        """Convert a Minari data set.

        Args:
            dataset: a `minari.MinariDataset`, or the id of one.
            observation_space: space to read observations in; None converts that of the data set.
            action_space: space to read actions in, such as the `Simplex` of a portfolio, which
                gymnasium does not have; None converts that of the data set.
            download: download a data set that is not on this machine.
        """
        spaces = _gymnasium_spaces()
        if isinstance(dataset, str):
            minari = optional_import("minari", "minari", "from_minari")
            dataset = minari.load_dataset(dataset, download=download)
        seen = observation_space or spaces.space_from_gymnasium(dataset.observation_space)
        acted = action_space or spaces.space_from_gymnasium(dataset.action_space)
        rows: dict[str, list[Any]] = {name: [] for name in ("observations", "actions", *ARRAYS)}
        masks: list[Any] = []
        for episode in dataset.iterate_episodes():
            count = len(episode.rewards)
            rows["observations"].append(_as_batch(seen, episode.observations))
            rows["actions"].append(_as_batch(acted, episode.actions))
            rows["rewards"].append(np.asarray(episode.rewards, np.float64))
            terminated = np.asarray(episode.terminations, np.bool_)
            truncated = np.array(episode.truncations, np.bool_)
            if count:
                # Episodes that a recording interrupted have no flag.
                truncated[-1] |= not terminated[-1]
            rows["terminated"].append(terminated)
            rows["truncated"].append(truncated)
            masks.append((episode.infos or {}).get(ACTION_MASK))
        if not masks:
            raise ValueError("the data set has no episodes")
        if any((mask is None) != (masks[0] is None) for mask in masks):
            raise ValueError(f"all episodes must have an {ACTION_MASK} in their infos, or none")
        name = getattr(dataset.spec, "env_spec", None)
        return cls(
            seen,
            acted,
            observations=map_arrays(lambda *parts: np.concatenate(parts), *rows["observations"]),
            **{name: np.concatenate(rows[name]) for name in ("actions", *ARRAYS)},  # type: ignore[arg-type]
            action_masks=None if masks[0] is None else np.concatenate(masks) != 0,
            env=str(getattr(name, "id", "")),
        )

    def to_minari(self, dataset_id: str, **metadata: Any) -> Any:
        """Write a Minari data set and return it.

        Args:
            dataset_id: id such as "portfolio/random-v0", in the folder MINARI_DATASETS_PATH, an
                absolute path.
            metadata: other arguments of `minari.create_dataset_from_buffers`, such as `author`.
        """
        spaces = _gymnasium_spaces()
        minari = optional_import("minari", "minari", "to_minari")
        collector = optional_import("minari.data_collector", "minari", "to_minari")
        buffers = []
        for number, (first, last) in enumerate(zip(self._starts, self.ends, strict=True)):
            steps, row = slice(first, last + 1), self._rows[first]
            seen = slice(row, row + last - first + 2)
            masks = None if self.action_masks is None else self.action_masks[seen].astype(np.int8)
            buffers.append(
                collector.EpisodeBuffer(
                    id=number,
                    observations=self._observed_between(seen),
                    actions=self.actions[steps],
                    rewards=self.rewards[steps],
                    terminations=self.terminated[steps],
                    truncations=self.truncated[steps],
                    infos=None if masks is None else {ACTION_MASK: masks},
                )
            )
        with warnings.catch_warnings():
            # Minari warns of every argument of `metadata` that is left out.
            warnings.simplefilter("ignore", UserWarning)
            return minari.create_dataset_from_buffers(
                dataset_id,
                buffers,
                observation_space=spaces.space_to_gymnasium(self.observation_space),
                action_space=spaces.space_to_gymnasium(self.action_space),
                **{"data_format": "hdf5", "description": repr(self), **metadata},
            )

    def _observed_between(self, rows: slice) -> Any:
        return map_arrays(lambda array: array[rows], self.observations)

    def _content(self) -> dict[str, Any]:
        signature = self.data_signature
        return {
            "kind": KIND,
            "format": FORMAT,
            "env": self.env,
            "data_signature": None if signature is None else signature.to_dict(),
            "observation_space": self.observation_space.to_jsonable(),
            "action_space": self.action_space.to_jsonable(),
            "observations": self.observations,
            "actions": self.actions,
            **{name: getattr(self, name) for name in ARRAYS},
            "action_masks": self.action_masks,
        }

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> ReplayDataset:
        if not isinstance(content["env"], str):
            raise ValueError(f"env must be text, got {content['env']!r:.80}")
        return cls(
            space_of(content, "observation_space"),
            space_of(content, "action_space"),
            observations=content["observations"],
            actions=content["actions"],
            **{name: content[name] for name in ARRAYS},
            action_masks=content["action_masks"],
            env=content["env"],
            data_signature=signature_of(content),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all arrays."""
        arrays = {name: getattr(self, name) for name in ("actions", *ARRAYS)}
        arrays |= {f"observations/{k}": v for k, v in arrays_of(self.observations).items()}
        if self.action_masks is not None:
            arrays["action_masks"] = self.action_masks
        return file_digest("", arrays)

    @property
    def episode_returns(self) -> NDArray[np.float64]:
        """Sum of the rewards of each episode."""
        returns: NDArray[np.float64] = np.add.reduceat(self.rewards, self._starts)
        return returns

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.append(0, self.ends[:-1] + 1)

    def discounted_returns(self, gamma: float) -> NDArray[np.float64]:
        """Discounted sum of the rewards of an episode up to and including each step."""
        starts, sums = self._starts, np.empty(len(self))
        lengths = self.ends - starts + 1
        running = np.zeros(len(starts))
        for step in range(int(lengths.max())):
            is_on = lengths > step
            running = running[is_on] * gamma + self.rewards[starts[is_on] + step]
            sums[starts[is_on] + step] = running
            starts, lengths = starts[is_on], lengths[is_on]
        return sums

    def sample(self, count: int) -> dict[str, Any]:
        """Sample transitions uniformly, with replacement; as `ReplayBuffer.sample`."""
        return self.steps_at(torch.randint(len(self), (count,)))

    def steps_at(self, indices: Tensor) -> dict[str, Any]:
        """Transitions by index; actions are policy outputs."""
        rows = torch.from_numpy(self._rows)[indices]
        return {
            "observation": self.observed(rows),
            "action": self._chosen[indices],
            "reward": torch.from_numpy(self.rewards)[indices],
            "terminated": torch.from_numpy(self.terminated)[indices],
            "truncated": torch.from_numpy(self.truncated)[indices],
            "next": self.observed(rows + 1),
        }

    def observed(self, rows: Tensor | None = None) -> dict[str, Tensor]:
        """Leaves of observations by row, with action masks; None for all."""
        leaves = dict(self._leaves)
        if self.action_masks is not None:
            leaves[ACTION_MASK] = torch.from_numpy(self.action_masks)
        if rows is None:
            return leaves
        return {name: leaf.index_select(0, rows) for name, leaf in leaves.items()}

    def close(self) -> None:
        """Do nothing: a data set holds arrays alone. Agents close their envs."""

    def state_dict(self) -> dict[str, Any]:
        """Empty state: a data set does not change."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""

    def _check_steps(self) -> None:
        count = len(self.rewards) if isinstance(self.rewards, np.ndarray) else 0
        if not count:
            raise ValueError("a data set needs at least one step, got none")
        for name, dtype in zip(ARRAYS, ("float64", "bool", "bool"), strict=True):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or (array.shape, array.dtype) != ((count,), dtype):
                raise ValueError(f"{name} must be an array of {count} values of type {dtype}")
        if not (self.terminated[-1] or self.truncated[-1]):
            raise ValueError("the last step must end its episode; set truncated there")

    def _check_batches(self) -> None:
        counts = {"observations": len(self) + len(self.ends), "actions": len(self)}
        spaces = {"observations": self.observation_space, "actions": self.action_space}
        for name, count in counts.items():
            if not Batcher(spaces[name]).fits(getattr(self, name), count):
                raise ValueError(f"{name} must be a batch of {count} samples of {spaces[name]!r}")
        masks = self.action_masks
        if masks is None:
            return
        shape = (counts["observations"], sum(counts_of(self.action_space)))
        if not isinstance(masks, np.ndarray) or masks.shape != shape or masks.dtype != np.bool_:
            raise ValueError(f"action_masks must be bools of shape {shape}")

    def _check_values(self) -> None:
        finite = {**arrays_of(self.observations), "rewards": self.rewards, "actions": self.actions}
        for name, array in finite.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite, got NaN or infinity")
        for name, leaf in leaves_of(self.observation_space).items():
            values = self._leaves[name].reshape(len(self._leaves[name]), -1).numpy()
            lows = np.array(leaf.starts or (0,) * len(leaf.choices))
            if leaf.choices and not _all_within(values, lows, lows + np.array(leaf.choices) - 1):
                raise ValueError(f"{name} has categories outside of {self.observation_space!r}")
        self._check_actions()

    def _check_actions(self) -> None:
        space, layout = self.action_space, ActionMap(self.action_space)
        if layout.is_choice:
            picks = layout.from_env(self.actions)
            is_within = _all_within(picks.numpy(), 0, np.array(layout.choices) - 1)
        elif isinstance(space, Simplex):
            sums = self.actions.sum(-1)
            is_within = _all_within(self.actions, 0.0, 1.0) and _all_within(
                sums, 1.0 - SUM_TOLERANCE, 1.0 + SUM_TOLERANCE
            )
        else:
            assert isinstance(space, Box), "see ActionLayout"
            is_within = _all_within(self.actions, space.low, space.high)
        if not is_within:
            raise ValueError(f"actions must be in {space!r}; clip those that are not")
        if layout.is_choice and not self._within_masks(picks, layout.choices):
            raise ValueError("actions must be allowed by their action masks")

    def _within_masks(self, picks: Tensor, counts: tuple[int, ...]) -> bool:
        mask = observed_mask(self.observed(torch.from_numpy(self._rows)))
        if mask is None:
            return True
        firsts = torch.tensor(np.cumsum((0, *counts[:-1])))
        return bool(mask.gather(1, picks.long() + firsts).all())

    def _masks_or_all(self) -> NDArray[np.bool_]:
        if self.action_masks is not None:
            return self.action_masks
        rows = len(self) + len(self.ends)
        return np.ones((rows, sum(counts_of(self.action_space))), np.bool_)


def _all_within(values: NDArray[Any], low: Any, high: Any) -> bool:
    return bool(((values >= low) & (values <= high)).all())


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if Path(path).suffix != SUFFIX:
        raise ReplayFileError(f"data set files end in {SUFFIX}, got {os.fspath(path)!r}")
    return Path(path)


def _gymnasium_spaces() -> Any:
    return optional_import("sekai.compat.gymnasium.spaces", "minari", "Minari data sets")


def _as_batch(space: Space[Any], values: Any) -> Any:
    """Batch of a space, whose number types may differ from those of `values`."""
    like = Batcher(space).allocate(1)
    try:
        return map_arrays(
            lambda row, rows: np.asarray(rows).astype(row.dtype, casting="same_kind"), like, values
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the data set does not fit {space!r}: {error}") from error
