"""Infos of many envs change their form without loss."""

from __future__ import annotations

import numpy as np

from sekai.compat.gymnasium.vectors import split_infos, to_gymnasium_keys


def test_an_entry_belongs_to_the_envs_that_its_mask_names() -> None:
    infos = {
        "fill": np.array([1.5, 0.0]),
        "_fill": np.array([True, False]),
        "final_info": {"equity": np.array([0, 7]), "_equity": np.array([False, True])},
        "_final_info": np.array([False, True]),
    }

    assert split_infos(infos, 2) == [{"fill": 1.5}, {"final_info": {"equity": 7}, "equity": 7}]


def test_the_finishing_step_s_entries_stand_beside_those_of_the_reset() -> None:
    infos = {
        "moment": np.array(["reset"], dtype=object),
        "final_info": {"moment": np.array(["step"], dtype=object), "action_mask": np.ones((1, 2))},
    }

    (info,) = split_infos(infos, 1)

    assert info["moment"] == "reset"
    assert info["final_info"]["moment"] == "step"
    assert "action_mask" not in info


def test_an_entry_without_a_mask_belongs_to_all() -> None:
    infos = {"rows": np.array([1, 2]), "whole": "open", "_private": 3}

    assert split_infos(infos, 2) == [
        {"rows": 1, "whole": "open", "_private": 3},
        {"rows": 2, "whole": "open", "_private": 3},
    ]


def test_the_last_observation_has_a_name_on_either_side() -> None:
    assert to_gymnasium_keys({"final_observation": 1, "x": 2}) == {"final_obs": 1, "x": 2}
    assert split_infos({"final_obs": np.array([5])}, 1) == [{"final_observation": 5}]
