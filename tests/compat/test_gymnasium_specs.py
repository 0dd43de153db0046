"""Specs of gymnasium's envs name what gymnasium has registered, and nothing to import."""

from __future__ import annotations

import json
import sys

import pytest

import sekai
from sekai.registry import EnvSpec

pytest.importorskip("gymnasium")


def test_a_spec_of_gymnasium_survives_json() -> None:
    env = sekai.make("gymnasium/CartPole-v1")

    assert env.spec is not None
    again = sekai.make(EnvSpec.from_json(env.spec.to_json()))

    assert again.reset(seed=1) == env.reset(seed=1)


def test_a_spec_cannot_have_gymnasium_import_a_module() -> None:
    description = json.loads(sekai.spec("gymnasium/CartPole-v1").to_json())
    description["kwargs"]["env"] = "antigravity:Flight-v0"
    spec = EnvSpec.from_json(json.dumps(description))

    with pytest.raises(ValueError, match="expected an id that gymnasium has registered"):
        sekai.make(spec)

    assert "antigravity" not in sys.modules
