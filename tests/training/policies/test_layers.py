"""Layers compute what their names say."""

from __future__ import annotations

import torch

from sekai.training.policies.actor_critic import FastTanh


def test_the_quick_tangent_is_the_tangent_to_rounding_and_so_is_its_slope() -> None:
    numbers = torch.cat([torch.linspace(-12.0, 12.0, 4_001), torch.tensor([-1e4, 0.0, 1e4])])
    quick, plain = numbers.clone().requires_grad_(), numbers.clone().requires_grad_()

    found, wanted = FastTanh()(quick), torch.tanh(plain)
    (slopes,) = torch.autograd.grad(found.sum(), quick)
    (wanted_slopes,) = torch.autograd.grad(wanted.sum(), plain)

    assert torch.allclose(found, wanted, rtol=0.0, atol=3e-7)
    assert torch.allclose(slopes, wanted_slopes, rtol=0.0, atol=6e-7)
    assert found.abs().max() <= 1.0
    assert found[-2] == 0.0


def test_what_is_no_number_stays_none() -> None:
    assert FastTanh()(torch.tensor([float("nan")])).isnan().all()
