"""Preparation of data: splits, and the history before each part."""

from __future__ import annotations

import numpy as np

from sekai.data import simulate_gbm
from sekai.experiment.experiment import DataSection
from sekai.experiment.preparation import split_data


def test_a_feature_of_all_history_is_shown_all_history_before_a_part() -> None:
    panel = simulate_gbm(assets=2, rows=200, seed=4)
    section = DataSection(features=("drawdown", "momentum(60)"), split=(0.5, 0.5))

    parts = split_data(section, panel, 5, with_features=True)

    assert parts.pipeline is not None
    whole = parts.pipeline.transform(panel).values[-100:]
    shown = parts.pipeline.transform(parts.test).values[parts.test.warm_up :]
    assert np.array_equal(shown, whole, equal_nan=True)
    assert parts.test.warm_up == 100


def test_history_is_as_long_as_features_and_windows_need() -> None:
    panel = simulate_gbm(assets=2, rows=200, seed=4)
    section = DataSection(features=("momentum(60)",), split=(0.5, 0.5))

    assert split_data(section, panel, 5, with_features=True).test.warm_up == 5 + 61
