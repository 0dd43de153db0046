"""Policy networks: backbones, encoders, heads and distributions for any space."""

import sekai.training.policies.assets  # noqa: F401 (registers the backbones for assets)
