"""Rust core of sekai: trading envs that can be used on their own."""

from quant_gym_rs._core import PyTradingEnv, PyVecTradingEnv

__all__ = ["PyTradingEnv", "PyVecTradingEnv"]
