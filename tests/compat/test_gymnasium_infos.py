"""Infos of many envs change their form without loss."""

from __future__ import annotations

import numpy as np

from sekai.compat.gymnasium.infos import split_infos, their_names


def test_an_entry_belongs_to_the_envs_that_its_mask_names() -> None:
    infos = {
        "fill": np.array([1.5, 0.0]),
        "_fill": np.array([True, False]),
        "final_info": {"equity": np.array([0, 7]), "_equity": np.array([False, True])},
        "_final_info": np.array([False, True]),
    }

    assert split_infos(infos, 2) == [{"fill": 1.5}, {"final_info": {"equity": 7}}]


def test_an_entry_without_a_mask_belongs_to_all() -> None:
    infos = {"rows": np.array([1, 2]), "whole": "open", "_private": 3}

    assert split_infos(infos, 2) == [
        {"rows": 1, "whole": "open", "_private": 3},
        {"rows": 2, "whole": "open", "_private": 3},
    ]


def test_the_last_observation_has_a_name_on_either_side() -> None:
    assert their_names({"final_observation": 1, "x": 2}) == {"final_obs": 1, "x": 2}
    assert split_infos({"final_obs": np.array([5])}, 1) == [{"final_observation": 5}]
