"""Offline training: gradient steps on a replay data set, without envs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor

from sekai.policy.files import ModelFileError
from sekai.policy.observations import leaves_of
from sekai.policy.settings import PolicySettings, require
from sekai.training.actions import ActionMap
from sekai.training.agent import Metrics
from sekai.training.agent_settings import ALIASES, AgentSettings
from sekai.training.callbacks.callback import Callback
from sekai.training.off_policy import OffPolicyAgent, mean_metrics, with_masks
from sekai.training.replay_dataset import ReplayDataset
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = ["OfflineAgent", "OfflineSettings", "TDSettings"]

Own = TypeVar("Own", bound="OfflineAgent")

NO_METRICS = ("episodes", "episode_return", "episode_length")
"""Metrics of acting, which training on a data set does not have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfflineSettings(AgentSettings):
    """Hyperparameters of offline algorithms."""

    _aliases: ClassVar[Mapping[str, str]] = {
        **ALIASES,
        **dict.fromkeys(("beta", "weight_temp", "advantage_temperature"), "temperature"),
        **dict.fromkeys(("cql_weight", "conservative_weight", "min_q_weight"), "cql_alpha"),
        **dict.fromkeys(("cql_n_actions", "num_random", "n_actions"), "n_action_samples"),
        "iql_tau": "expectile",
        "exp_adv_max": "max_weight",
    }

    # A data set has no envs that act in parallel: no setting.
    n_envs: ClassVar[int] = 1  # type: ignore[misc]

    max_grad_norm: float = 10.0
    steps_per_iteration: int = 1_000
    """Gradient steps in an iteration, between callbacks."""

    batch_size: int = 256
    """Transitions in a minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("steps_per_iteration", "batch_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TDSettings(OfflineSettings):
    """Hyperparameters of offline algorithms that learn values by temporal differences."""

    tau: float = 0.005
    """Soft update coefficient of target networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.tau <= 1, "tau", "above 0 and at most 1", self.tau)


class OfflineAgent(OffPolicyAgent):
    """Policy that is trained on recorded transitions alone.

    The same seed and settings on the same data set give the same policy, bit for bit. A step of
    `fit`, `steps` and schedules is a gradient step. `vec` is the data set: its spaces, without
    envs. Evaluate on an env with the callback `Evaluate` or with `sekai.evaluation.evaluate`.

    Args:
        dataset: a `ReplayDataset`, or the path of one.
        policy: name of a backbone, or settings of the networks.
        seed: seed of the networks and of the minibatches.
        settings: hyperparameters; None for the defaults.
        device: device of the networks: "cpu", "cuda", "cuda:1", "mps", or "auto" for the first of
            cuda, mps and cpu that is available. The data set stays on the CPU.
        changes: single hyperparameters, instead of those of `settings`.
    """

    dataset: ReplayDataset
    network: Any

    def __init__(
        self,
        dataset: ReplayDataset | str | os.PathLike[str],
        *,
        policy: str | PolicySettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        settings: AgentSettings | str | None = None,
        device: str | torch.device = "cpu",
        **changes: Any,
    ) -> None:
        if isinstance(dataset, (str, os.PathLike)):
            dataset = ReplayDataset.load(dataset)
        if not isinstance(dataset, ReplayDataset):
            raise TypeError(
                f"{type(self).__name__} is trained on a ReplayDataset or the path of one, got "
                f"{dataset!r}; record one with ReplayDataset.collect(env, policy, steps)"
            )
        self.dataset = dataset
        super().__init__(
            dataset, policy=policy, seed=seed, settings=settings, device=device, **changes
        )

    @property
    def env_name(self) -> str:
        """Name of the env of the data set."""
        return self.dataset.env or "data set"

    def fit(  # type: ignore[override]
        self: Own,
        gradient_steps: int,
        callbacks: Sequence[Callback] = (),
        *,
        total: int | None = None,
        progress: bool = False,
    ) -> Own:
        """Train for a number of gradient steps, rounded up to whole iterations.

        An iteration has `steps_per_iteration` gradient steps; fewer, if fewer are asked for.

        Args:
            gradient_steps: gradient steps beside those of earlier calls.
            callbacks: called after each iteration; they may end training.
            total: gradient steps at which schedules end, counted from the start of training; None
                keeps the last value, or takes the end of this call if that is later.
            progress: show a progress bar on the terminal.
        """
        return super().fit(gradient_steps, callbacks, total=total, progress=progress)

    @classmethod
    def load(  # type: ignore[override]
        cls: type[Own],
        path: str | os.PathLike[str],
        dataset: Any = None,
        *,
        allow: Collection[str] = (),
        **given: Any,
    ) -> Own:
        """Load a saved agent, to act or to train further; `load_policy` acts without a data set.

        Args:
            path: model file.
            dataset: data set to train on, or its path.
            allow: differences from the data of the file that are allowed; see `load_policy`.
            given: other arguments of the agent.
        """
        return super().load(path, _required(dataset, path), allow=allow, **given)

    @classmethod
    def resume(  # type: ignore[override]
        cls: type[Own],
        path: str | os.PathLike[str],
        steps: int | None = None,
        callbacks: Sequence[Callback] = (),
        dataset: Any = None,
        *,
        total: int | None = None,
        allow: Collection[str] = (),
        **given: Any,
    ) -> Own:
        """Continue training from a checkpoint, bit for bit.

        Args:
            path: model file with the training state.
            steps: gradient steps to train; None only loads the agent.
            callbacks: as in `fit`.
            dataset: data set of the training, or its path.
            total: as in `fit`; None for the value in the file.
            allow: as in `load`.
            given: other arguments of the agent.
        """
        needed = _required(dataset, path)
        return super().resume(path, steps, callbacks, needed, total=total, allow=allow, **given)

    def _make_envs(self) -> VecEnv:
        self.leaves = leaves_of(self.dataset.observation_space)
        self.actions = ActionMap(self.dataset.action_space)
        # The spaces stand for the envs, of which there are none.
        return cast(VecEnv, self.dataset)

    def _build(self) -> None:
        self._check_actions()
        self.risks = []
        self.replay = cast(Any, self.dataset)
        self.network = self.make_network(self.leaves, self.actions, self.settings)
        self._add_critics()
        self.network.inputs.update(self.dataset.observed())
        if self.settings.norm_reward:
            self._make_scaler(1)
            assert self.scaler is not None, "made above"
            returns = self.dataset.discounted_returns(self.settings.gamma)
            self.scaler.add(torch.from_numpy(returns))
        self.network.to(self.device)
        self._build_targets()
        self._build_optimizer()

    def _check_actions(self) -> None:
        """Accept every action space that policies act in."""

    def _start(self, seed: Seeds) -> None:
        """Start without envs to reset."""

    @property
    def _full_length(self) -> int:
        return self.settings.steps_per_iteration

    def _set_length(self, steps: int | None) -> None:
        self._short_length = steps

    def _iterate(self) -> Metrics:
        self._set_learning_rate()
        return mean_metrics([self._update() for _ in range(self.iteration_length)])

    def _run_iteration(self) -> Metrics:
        metrics = super()._run_iteration()
        return {name: value for name, value in metrics.items() if name not in NO_METRICS}

    def _inputs(self, observations: dict[str, Tensor]) -> dict[str, Tensor]:
        # Log-probabilities, and maxima over actions, keep to the recorded masks.
        return with_masks(super()._inputs(observations), observations, self.device)

    def _learning_state(self) -> dict[str, Any]:
        return {**self._update_state(), "dataset": self.dataset.digest}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        if state["dataset"] != self.dataset.digest:
            raise ValueError(
                "it belongs to another data set; pass that one, or use "
                f"{type(self).__name__}.load to train on this one anew"
            )
        self._load_update_state(state)


def _required(dataset: Any, path: Any) -> Any:
    if dataset is None:
        raise ModelFileError(
            f"{path} needs the data set to train on, which it does not hold: pass dataset=..., or "
            "use load_policy to act"
        )
    return dataset
