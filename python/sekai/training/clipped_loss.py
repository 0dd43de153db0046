"""TorchRL's clipped objective of PPO, without what it works out for the record."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.objectives import ClipPPOLoss

__all__ = ["ClippedLoss"]

FARTHEST = 20.0
"""Logarithms of ratios count up to here."""


class ClippedLoss(ClipPPOLoss):  # type: ignore[misc]
    """The same losses as those of `ClipPPOLoss`, to rounding, in two thirds of the time.

    Left out are the effective sample size, the ratios' mean and maximum and the masks of padded
    samples, which rollouts have none of. Advantages must be there.
    """

    def __init__(self, actor: Any, critic: Any, *, clip: float, **options: Any) -> None:
        """Take the networks.

        Args:
            actor: the actor, of `actor_module`.
            critic: the critic, of `critic_module`.
            clip: how far the ratio of probabilities may move from one.
            options: those of `ClipPPOLoss`.
        """
        super().__init__(
            actor, critic, clip_epsilon=clip, log_explained_variance=False, functional=False,
            **options,
        )  # fmt: skip
        self.least, self.most = math.log1p(-clip) if clip < 1 else -math.inf, math.log1p(clip)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The losses, how often ratios were clipped and how far the policy has moved."""
        advantage = tensordict.get("advantage")
        shape = advantage.shape[:-1]
        advantage = self._maybe_normalize_advantage(advantage, tensordict, update_norm=False)
        ratio, chances, moved, _ = self._log_weight(tensordict, adv_shape=shape)
        clipped = ratio.clamp(self.least, self.most)
        # What has become so much likelier is far beyond the clip, and no number.
        gain = torch.minimum(ratio.clamp_max(FARTHEST).exp() * advantage, clipped.exp() * advantage)
        found = {
            "loss_objective": -gain.mean(),
            "clip_fraction": (clipped != ratio).float().mean(),
            "kl_approx": moved.detach().mean(),
        }
        if self.entropy_bonus:
            entropy = self._get_entropy(chances, adv_shape=shape)
            found["entropy"] = entropy.detach().mean()
            found["loss_entropy"] = self._weighted_loss_entropy(entropy).mean()
        found["loss_critic"] = self.loss_critic(tensordict)[0].mean()
        return TensorDict(found)
