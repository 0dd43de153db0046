"""Policy networks: backbones, encoders, heads and distributions for any space."""

# ruff: noqa: F401 (these register their backbones)
import sekai.training.policies.assets
import sekai.training.policies.images
