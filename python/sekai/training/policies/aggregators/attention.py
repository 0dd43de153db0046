"""Assets that look at each other, and at those most that matter to them."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from sekai.training.policies.aggregators.aggregator import Aggregator
from sekai.training.policies.layers import activation, linear
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import Slots

__all__ = ["Attention"]


class Attention(Aggregator):
    """Blocks of multi-head self-attention, each followed by a layer of its own for each asset."""

    def __init__(self, slots: Slots, settings: PolicySettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(settings) for _ in range(settings.aggregator_layers))

    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Let the assets tell each other."""
        seen = None
        if mask is not None:
            # Where there is no asset at all, all empty slots are looked at: a softmax needs one.
            seen = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        for block in self.blocks:
            slots = block(slots, seen)
        return slots


class _Block(nn.Module):
    def __init__(self, settings: PolicySettings) -> None:
        super().__init__()
        width = settings.width
        self.heads = settings.heads
        self.before_looking = nn.LayerNorm(width)
        self.look = linear(width, 3 * width, 1.0)
        self.take = linear(width, width, 1.0)
        self.before_thinking = nn.LayerNorm(width)
        self.think = nn.Sequential(
            linear(width, 2 * width), activation(settings), linear(2 * width, width, 1.0)
        )

    def forward(self, slots: Tensor, seen: Tensor | None) -> Tensor:
        parts = self.look(self.before_looking(slots)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        told = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        slots = slots + self.take(told.transpose(1, 2).flatten(2))
        thought: Tensor = slots + self.think(self.before_thinking(slots))
        return thought
