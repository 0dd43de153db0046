"""Learner of on-policy algorithms: samples of a rollout, advantage estimation, gradient steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from quant_gym_rs._core import advantages as native_advantages
from sekai.policy.observations import is_action_mask
from sekai.training.agent import DivergedError, Metrics
from sekai.training.gradient_step import GradientStep
from sekai.training.multi_agent.groups import GroupRollout
from sekai.training.native_rollout import NoNativeFormError, chosen_part
from sekai.training.native_update import NativeUpdate
from sekai.training.normalizers import RewardScaler
from sekai.training.observations import on_device
from sekai.training.policies.actor_critic import FLAT, MLPBackbone
from sekai.training.risk import make_risk
from sekai.training.rollout import Cut, RolloutBuffer
from sekai.training.shaping import StepBatch

if TYPE_CHECKING:
    from sekai.training.on_policy import OnPolicyAgent

__all__ = ["Batch", "Learner", "next_values"]

CHUNK_ROWS = 4_096
"""Observations per forward pass of the critic: more do not fit the caches."""

AUTO_WEIGHTS = 100_000
"""Weights up to which `update="auto"` is native: torch's matrix products are faster for more."""


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Samples of a rollout, one row each."""

    observations: dict[str, Tensor]
    actions: Tensor
    advantages: Tensor
    returns: Tensor
    """Targets of the value function."""

    rows: Tensor | None = None
    """Rows in the rollout, with several agents."""

    log_probs: Tensor | None = None
    """Log-probabilities of the actions before the update."""

    critic_observations: dict[str, Tensor] | None = None
    """Observations of a centralized critic."""

    teacher: dict[str, Tensor] | None = None
    """Parameters of the teacher's action distributions."""

    def __len__(self) -> int:
        return len(self.actions)

    def on(self, device: torch.device) -> Batch:
        """Samples on the device of the network; raw observations and rows stay with the envs."""
        names = ("actions", "advantages", "returns")
        moved = {name: getattr(self, name).to(device) for name in names}
        return dataclasses.replace(self, **moved, teacher=on_device(self.teacher, device))

    def select(self, indices: Tensor) -> Batch:
        """Select samples by index."""

        def take(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, dict):
                return {name: take(part) for name, part in value.items()}
            return value.index_select(0, indices.to(value.device))

        fields = (field.name for field in dataclasses.fields(self))
        return Batch(**{name: take(getattr(self, name)) for name in fields})


class Learner:
    """Actor-critic network with its optimizer, reward scaling and advantage estimation.

    Args:
        agent: agent with the hyperparameters.
        rollout: rollout of all envs, or of a group of agents.
        network: network to train.
    """

    def __init__(
        self, agent: OnPolicyAgent, rollout: RolloutBuffer | GroupRollout, network: Any
    ) -> None:
        self.settings: Any = agent.settings
        settings = agent.settings
        self.rollout, self.network = rollout, network
        self.shaping = None if agent.shaping.is_plain else agent.shaping
        self.is_central = network.critic_inputs is not network.inputs
        # Windows and images are not preprocessed once for all epochs: they need not fit memory.
        has_images = any(leaf.is_image for leaf in network.inputs.leaves.values())
        self.preprocesses = network.inputs.gather is None and not has_images
        bodies = (network.actor.body, network.critic.body)
        # Side by side once, instead of in every minibatch of actor and critic.
        is_flat = self.preprocesses and not self.is_central
        self.is_flat = is_flat and all(type(body) is MLPBackbone for body in bodies)
        self.mask_names = network.actor.mask_names
        self.risk = make_risk(
            settings.risk, settings.risk_weight, settings.risk_level, rollout.count
        )
        self.scaler: RewardScaler | None = None
        if settings.norm_reward:
            self.scaler = RewardScaler(settings.gamma, rollout.count)
        self.gradient_step = GradientStep(network, settings)
        self.teacher = agent.teacher
        self.native_update: NativeUpdate | None = chosen_part(
            settings.update, "update", lambda: self._make_native(agent)
        )

    def _make_native(self, agent: OnPolicyAgent) -> NativeUpdate:
        if not self.is_flat or isinstance(self.rollout, GroupRollout):
            raise NoNativeFormError("observations are not those of an MLP of one agent")
        if agent.native_loss() is None:
            raise NoNativeFormError(f"the loss of {type(agent).__name__} has no native form")
        count = sum(weight.numel() for weight in self.network.parameters())
        if self.settings.update == "auto" and count > AUTO_WEIGHTS:
            raise NoNativeFormError(f"torch trains {count:,} weights faster")
        settings, optimizer = self.settings, self.gradient_step.optimizer
        return NativeUpdate(self.network, optimizer, settings.policy, settings.threads)

    def use_rollout(self, rollout: RolloutBuffer) -> None:
        """Read another rollout of the same envs from now on."""
        if isinstance(self.rollout, GroupRollout):
            self.rollout.rollout = rollout
        else:
            self.rollout = rollout

    @torch.no_grad()
    def batch(self) -> Batch:
        """Samples of the collected rollout with advantages and returns."""
        device = self.network.inputs.device
        if isinstance(self.rollout, GroupRollout):
            return self._group_batch(self.rollout).on(device)
        return self._single_batch(self.rollout).on(device)

    def _single_batch(self, rollout: RolloutBuffer) -> Batch:
        tables = rollout.observed
        everything = {name: table.flatten(0, 1) for name, table in tables.items()}
        self.network.inputs.update(_part(everything, slice(-rollout.count)))
        observations = self._preprocessed(everything)
        terminated = torch.from_numpy(rollout.terminated)
        done = terminated | torch.from_numpy(rollout.truncated)
        values, after = self._rollout_values(rollout, observations)
        steps = None
        if self.shaping is not None:
            steps = _steps(tables, rollout.rewards, rollout.terminated, rollout.truncated)
        rewards = self._rewards(torch.from_numpy(rollout.rewards), done, steps)
        advantages, returns = self._advantages(values[:-1], after, rewards, done, terminated)
        batch = Batch(
            _part(observations, slice(-rollout.count)),
            rollout.chosen.flatten(0, 1),
            advantages.reshape(-1),
            returns.reshape(-1),
            teacher=None
            if self.teacher is None
            else self.teacher.parameters(_part(everything, slice(-rollout.count))),
        )
        mask = None if self.shaping is None or steps is None else self.shaping.mask(steps)
        return batch if mask is None else self._learned(batch, torch.from_numpy(mask))

    def _learned(self, batch: Batch, mask: Tensor) -> Batch:
        """Samples of the steps to learn from."""
        return batch.select(_true(mask))

    def _rollout_values(
        self, rollout: RolloutBuffer, observations: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Values of all observations, one more time than steps, and of the state after each step.

        Args:
            rollout: collected rollout.
            observations: its observations in the form that minibatches hold, flattened.
        """
        rows = (rollout.steps + 1) * rollout.count
        values = self._values(rows, observations).reshape(-1, rollout.count)
        return values, next_values(rollout.cuts, values, self._critic)

    def _group_batch(self, rollout: GroupRollout) -> Batch:
        rollout.read()
        acted = rollout.acted.flatten()
        everything = {name: table.flatten(0, 1) for name, table in rollout.observations.items()}
        before = _part(everything, slice(len(acted)))
        self.network.inputs.update({name: table[acted] for name, table in before.items()})
        if self.is_central:
            self.network.critic_inputs.update(rollout.joint_observations())
        observations = self._preprocessed(everything)
        values = self._values(len(acted) + rollout.count, observations).reshape(-1, rollout.count)
        after, known = rollout.next_values(values, self.network.critic)
        truncated = rollout.done & ~rollout.terminated
        tables = (table.numpy() for table in (rollout.rewards, rollout.terminated, truncated))
        steps = None if self.shaping is None else _steps(rollout.observations, *tables)
        rewards = self._rewards(rollout.rewards, rollout.done, steps, rollout.acted)
        advantages, returns = self._group_advantages(rollout, values[:-1], after, rewards, known)
        batch = Batch(
            _part(observations, slice(len(acted))),
            rollout.chosen.flatten(0, 1),
            advantages.reshape(-1),
            returns.reshape(-1),
            rows=torch.arange(len(acted)),
        )
        used = rollout.acted & known
        mask = None if self.shaping is None or steps is None else self.shaping.mask(steps)
        return batch.select(_true(used if mask is None else used & torch.from_numpy(mask)))

    def _group_advantages(
        self, rollout: GroupRollout, values: Tensor, after: Tensor, rewards: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        used = rollout.acted & known
        tables = [table * used for table in (values, after, rewards)]
        # Steps without an action are sorted to the end, so that the others are neighbours. An
        # unknown outcome passes nothing on to earlier steps.
        order = torch.argsort(~rollout.acted, dim=0, stable=True)
        tables += [rollout.done | ~used, rollout.terminated & used]
        parts = self._advantages(*(table.gather(0, order) for table in tables))
        advantages, returns = (torch.zeros_like(part).scatter_(0, order, part) for part in parts)
        return advantages, returns

    def _advantages(
        self, values: Tensor, after: Tensor, rewards: Tensor, done: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Generalized advantage estimates (GAE) and returns: times by envs."""
        settings = self.settings
        advantages = torch.from_numpy(
            native_advantages(
                rewards.contiguous().numpy(),
                values.contiguous().numpy(),
                after.contiguous().numpy(),
                done.contiguous().numpy(),
                terminated.contiguous().numpy(),
                settings.gamma,
                settings.gae_lambda,
            )
        )
        return advantages, advantages + values

    def _rewards(
        self, rewards: Tensor, done: Tensor, steps: StepBatch | None, acted: Tensor | None = None
    ) -> Tensor:
        """Rewards after shaping, risk penalty and scaling."""
        if self.shaping is not None and steps is not None:
            rewards = torch.from_numpy(self.shaping.rewards(steps))
        if self.risk is not None:
            rewards = self.risk.shaped(rewards, done, acted)
        if self.scaler is None:
            return rewards.float()
        self.scaler.update(rewards, done, acted)
        scaled: Tensor = self.scaler(rewards)
        return scaled

    def _critic(self, observations: dict[str, Tensor]) -> Tensor:
        """Values of raw observations."""
        if self.native_update is not None:
            return self.native_update.values(self._preprocessed(observations))
        values: Tensor = self.network.critic(observations)
        return values

    def _preprocessed(self, observations: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations in the form that minibatches hold."""
        if not self.preprocesses:
            return observations
        inputs = self.network.inputs(observations)
        if self.is_flat and len(inputs) > 1:
            masks = {name: rows for name, rows in observations.items() if is_action_mask(name)}
            return {**masks, FLAT: self.network.actor.body.flattened(inputs)}
        return {
            **{
                name: rows.to(self.network.inputs.device)
                for name, rows in observations.items()
                if name not in inputs
            },
            **inputs,
        }

    def _values(self, count: int, observations: Mapping[str, Tensor] | None = None) -> Tensor:
        """Values of `count` rows of the rollout, of which `observations` may be preprocessed."""
        if self.native_update is not None and observations is not None:
            return self.native_update.values(_part(observations, slice(count)))
        critic, chunks = self.network.critic, _chunks(count)
        if observations is None or self.is_central:
            parts = [critic(self.rollout.critic_observations(part)) for part in chunks]
        else:
            parts = [critic(_part(observations, part), self.preprocesses) for part in chunks]
        # Advantages are computed on the CPU: a loop over steps of a few numbers each.
        return torch.cat(parts).cpu()

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> Tensor:
        """Log-probabilities of the actions under the current policy."""
        actor, parts = self.network.actor, []
        for part in _chunks(len(batch)):
            distribution = actor.distribution(_part(batch.observations, part), self.preprocesses)
            parts.append(distribution.log_prob(batch.actions[part]))
        return torch.cat(parts)

    def minibatch(self, batch: Batch, indices: Tensor | None = None) -> Batch:
        """Select samples by index; None for all."""
        samples = batch if indices is None else batch.select(indices)
        if not self.is_central:
            return samples
        assert samples.rows is not None, "centralized critics are of several agents"
        joint = self.rollout.critic_observations(samples.rows)
        return dataclasses.replace(samples, critic_observations=joint)

    def evaluate(self, batch: Batch) -> tuple[Distribution, Tensor]:
        """Action distribution and values of a minibatch."""
        network = self.network
        distribution = network.actor.distribution(batch.observations, self.preprocesses)
        if batch.critic_observations is not None:
            return distribution, network.critic(batch.critic_observations).squeeze(-1)
        return distribution, network.critic(batch.observations, self.preprocesses).squeeze(-1)

    def train_natively(
        self, batch: Batch, order: Tensor, loss: dict[str, Any], size: int
    ) -> Metrics:
        """Take the gradient steps of minibatches of `size` samples in one native call.

        Raises:
            DivergedError: a gradient is not finite; the weights are those before its step.
        """
        native = self.native_update
        assert native is not None, "chosen by the settings"
        samples = native.samples(batch.observations, batch.actions, batch.advantages, batch.returns)
        metrics = native(samples, order.numpy(), loss, size)
        if metrics is None:
            raise DivergedError
        if loss["clip"] is None:
            del metrics["kl_approx"], metrics["clip_fraction"]
        entropy = metrics.pop("entropy")
        if loss["ent_coef"] > 0:
            metrics |= {"entropy": entropy, "loss_entropy": -loss["ent_coef"] * entropy}
        return metrics

    def state(self) -> dict[str, Any]:
        """State for checkpoints, beside the network."""
        return {
            "optimizer": self.gradient_step.optimizer.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risk": None if self.risk is None else self.risk.state_dict(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.gradient_step.optimizer.load_state_dict(state["optimizer"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        if self.risk is not None:
            self.risk.load_state_dict(state["risk"])


@torch.no_grad()
def next_values(
    cuts: Sequence[Cut], values: Tensor, critic: Callable[[dict[str, Tensor]], Tensor]
) -> Tensor:
    """Value of the state after each step, bootstrapped where episodes were truncated.

    Args:
        cuts: truncated episodes with their final observations.
        values: values of all observations: times by envs, one more time than steps.
        critic: value function.
    """
    after = values[1:].clone()
    if cuts:
        names = cuts[0][2]
        finals = {name: torch.cat([rows[name] for _, _, rows in cuts]) for name in names}
        sizes = [len(envs) for _, envs, _ in cuts]
        bootstrapped = torch.split(critic(finals).reshape(-1).cpu(), sizes)
        for (step, envs, _), value in zip(cuts, bootstrapped, strict=True):
            after[step, torch.from_numpy(envs)] = value
    return after


def _part(rows: Mapping[str, Tensor], part: slice) -> dict[str, Tensor]:
    return {name: table[part] for name, table in rows.items()}


def _chunks(count: int) -> list[slice]:
    firsts = range(0, count, CHUNK_ROWS)
    return [slice(first, min(first + CHUNK_ROWS, count)) for first in firsts]


def _true(mask: Tensor) -> Tensor:
    return mask.flatten().nonzero().squeeze(-1)


def _steps(
    observations: Mapping[str, Tensor], rewards: Any, terminated: Any, truncated: Any
) -> StepBatch:
    before = {name: table[:-1].numpy() for name, table in observations.items()}
    return StepBatch(before, rewards, terminated, truncated)
