"""What is read of one asset, by the same weights for all."""

from __future__ import annotations

from collections.abc import Callable

from sekai.training.policies.encoders.convolution import ConvolutionEncoder
from sekai.training.policies.encoders.encoder import Encoder
from sekai.training.policies.encoders.gru import GRUEncoder
from sekai.training.policies.encoders.mlp import MLPEncoder
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["ENCODERS", "Encoder", "encoder"]

ENCODERS: dict[str, Callable[[int, int, int, PolicySettings], Encoder]] = {
    "mlp": MLPEncoder,
    "convolution": ConvolutionEncoder,
    "gru": GRUEncoder,
}


def encoder(times: int, channels: int, own: int, settings: PolicySettings) -> Encoder:
    """The encoder that the settings name."""
    if settings.encoder not in ENCODERS:
        raise ValueError(f"encoder must be one of {', '.join(ENCODERS)}, was {settings.encoder!r}")
    return ENCODERS[settings.encoder](times, channels, own, settings)
