"""Pipelines: outputs, fitted statistics, files and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.features.feature import make_feature
from sekai.data.features.pipeline import SCALINGS, Pipeline, default_pipeline
from sekai.error import NotFittedError, StateError
from tests.data.holed_panels import NAMED, make_panel, panels, same_numbers

DATA = make_panel(rows=120, seed=2)
TRAIN = DATA.rows(0, 80)
SPECS = ["log_return", "volatility(5)", "day_of_week", "relative_volume(3)"]


class Centred:
    """The close less its mean in training."""

    def fit(self, data: MarketData) -> None:
        self.mean = float(np.nanmean(data.field("close")))

    def transform(self, data: MarketData) -> Any:
        return data.field("close") - self.mean

    def state_dict(self) -> dict[str, float]:
        return {"mean": self.mean}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self.mean = state["mean"]


@given(
    data=panels(min_rows=4),
    specs=st.lists(st.sampled_from(NAMED), min_size=1, max_size=4, unique=True),
    mask=st.sampled_from(["asset", "feature"]),
)
@settings(deadline=None, max_examples=60)
def test_a_number_is_shown_or_a_zero_and_the_mask_tells_which(
    data: MarketData, specs: list[str], mask: Any
) -> None:
    shown = Pipeline(specs, mask=mask).transform(data)

    blocks = [np.where(data.listed[:, :, None], make_feature(spec)(data), np.nan) for spec in specs]
    there = [np.isfinite(block.astype(np.float32)).all(axis=2) for block in blocks]
    joined = np.concatenate(blocks, axis=2).astype(np.float32)
    count = joined.shape[2]
    assert shown.values.dtype == np.float32
    assert shown.values.flags.c_contiguous
    assert np.isfinite(shown.values).all()
    assert np.array_equal(shown.values[:, :, :count], np.where(np.isfinite(joined), joined, 0))
    wanted = np.all(there, axis=0) if mask == "asset" else np.stack(there, axis=2)
    assert np.array_equal(shown.present, wanted)
    assert np.array_equal(shown.values[:, :, count:].reshape(wanted.shape), wanted)
    assert len(shown.names) == shown.values.shape[2]


def test_channels_are_named_after_their_features() -> None:
    shown = Pipeline(["gap", "day_of_week", lambda data: np.ones((len(data), 5, 2))]).transform(
        DATA
    )

    assert shown.names == (
        "gap", "day_of_week.sin", "day_of_week.cos", "<lambda>[0]", "<lambda>[1]", "present",
    )  # fmt: skip
    assert same_numbers(shown.channel("present"), shown.present.astype(np.float32))
    assert shown.assets == DATA.assets
    assert np.array_equal(shown.times, DATA.times)
    with pytest.raises(KeyError, match=r"unknown channel 'no'; expected one of \['gap'"):
        shown.channel("no")


def test_an_asset_that_is_not_listed_shows_nothing() -> None:
    shown = Pipeline(["market_series(rate)", "day_of_week"]).transform(DATA)

    assert not DATA.listed.all()
    assert np.array_equal(shown.present, DATA.listed)
    assert (shown.values[~DATA.listed] == 0).all()


def test_what_is_infinite_is_missing() -> None:
    def huge(data: MarketData) -> Any:
        return np.where(np.arange(len(data)) % 2 == 0, np.inf, 1e300)

    shown = Pipeline([huge], dtype=np.float32).transform(DATA)

    assert not shown.values.any()
    assert Pipeline([huge], dtype=np.float64).transform(DATA).values.max() == 1e300


@pytest.mark.parametrize("scaling", sorted(SCALINGS))
def test_only_the_training_part_sets_the_scale(scaling: str) -> None:
    pipeline = Pipeline(SPECS, scaling=scaling).fit(TRAIN)
    other = DATA.perturb_after(TRAIN.times[-1], np.random.default_rng(0))

    shown, changed = pipeline.transform(DATA), pipeline.transform(other)

    assert same_numbers(shown.values[:80], changed.values[:80])
    assert not same_numbers(shown.values, changed.values)
    assert same_numbers(shown.values[:80], pipeline.transform(TRAIN).values)


def test_the_training_part_has_mean_0_and_deviation_1() -> None:
    shown = Pipeline(["log_return", "volatility(5)"], scaling="zscore").fit_transform(TRAIN)

    there = np.isfinite(make_feature("volatility(5)")(TRAIN)[:, :, 0])
    values = shown.channel("volatility(rows=5)")[there].astype(np.float64)
    assert abs(values.mean()) < 1e-6
    assert abs(values.std() - 1) < 1e-6


def test_warm_up_rows_are_not_learned_from() -> None:
    late = DATA.rows(20, 80, warm_up=30)

    fitted = Pipeline(["log_return"], scaling="zscore").fit(late).state_dict()["fitted"]

    returns = make_feature("log_return")(late)[30:]
    assert fitted["scaling"]["center"] == [np.nanmean(returns)]
    assert Pipeline(["log_return"]).transform(late).warm_up == 30


def test_values_are_clipped_after_scaling() -> None:
    scaled = Pipeline(SPECS, scaling="zscore").fit_transform(TRAIN).values
    clipped = Pipeline(SPECS, scaling="zscore", clip=0.5).fit_transform(TRAIN).values

    assert abs(scaled).max() > 2
    assert np.array_equal(clipped[:, :, :-1], np.clip(scaled[:, :, :-1], -0.5, 0.5))
    limits = Pipeline(SPECS, clip=(0.0, 0.01)).transform(TRAIN).values[:, :, :-1]
    assert (limits.min(), limits.max()) == (0, np.float32(0.01))


def test_a_scaler_of_scikit_learn_will_do() -> None:
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

    theirs = Pipeline(SPECS, scaling=StandardScaler()).fit(TRAIN)
    ours = Pipeline(SPECS, scaling="zscore").fit(TRAIN)

    found, wanted = theirs.transform(DATA).values, ours.transform(DATA).values
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(StateError, match="StandardScaler cannot be saved"):
        theirs.state_dict()


def test_ranks_are_places_among_the_training_part() -> None:
    shown = Pipeline(["log_return"], scaling="rank").fit_transform(TRAIN)

    returns = make_feature("log_return")(TRAIN)[:, :, 0]
    known = np.sort(returns[np.isfinite(returns)])
    at = np.nanargmax(returns)
    assert shown.channel("log_return").ravel()[at] == pytest.approx(1 - 1 / len(known))
    spread = shown.channel("log_return")[shown.present]
    assert abs(spread.mean()) < 1e-6
    assert abs(np.median(spread)) < 0.02


def test_what_never_moved_in_training_is_not_divided_by_nothing() -> None:
    shown = Pipeline([lambda data: np.full(len(data), 7.0)], scaling="zscore").fit_transform(TRAIN)

    assert (shown.channel("<lambda>") == 0).all()


@pytest.mark.parametrize("scaling", [None, *sorted(SCALINGS)])
def test_what_was_learned_goes_through_json(scaling: str | None) -> None:
    pipeline = Pipeline(SPECS, scaling=scaling, clip=3.0, mask="feature").fit(TRAIN)

    again = Pipeline.from_json(pipeline.to_json())

    assert again.transform(DATA).digest == pipeline.transform(DATA).digest
    assert again.state_dict() == pipeline.state_dict()
    assert json.loads(pipeline.to_json())["fitted"]["data"] == TRAIN.digest
    assert again.fitted_on == TRAIN.digest


def test_what_a_feature_learned_is_saved_with_it() -> None:
    pipeline = Pipeline([Centred(), "gap"]).fit(TRAIN)
    again = Pipeline([Centred(), "gap"])

    again.load_state_dict(json.loads(json.dumps(pipeline.state_dict(), allow_nan=False)))

    assert again.transform(DATA).digest == pipeline.transform(DATA).digest
    with pytest.raises(
        ValueError, match=r"a name cannot be serialized: \['Centred'\]; register them by"
    ):
        pipeline.to_json()


def test_a_function_of_no_name_is_not_written_down() -> None:
    with pytest.raises(ValueError, match=r"a name cannot be serialized: \['<lambda>'\]; register"):
        Pipeline([lambda data: data.field("close")]).to_json()


@pytest.mark.parametrize("spoil", ["features", "mask", "scaling", "data", "nothing"])
def test_a_state_that_does_not_fit_changes_nothing(spoil: str) -> None:
    pipeline = Pipeline([Centred(), *SPECS], scaling="zscore").fit(TRAIN)
    before = pipeline.state_dict()
    state: Any = json.loads(json.dumps(before))
    if spoil == "features":
        state["features"] = ["gap"]
    elif spoil == "mask":
        state["mask"] = "feature"
    elif spoil == "scaling":
        state["fitted"]["scaling"]["width"][0] = 0.0
    elif spoil == "data":
        state["fitted"]["scaling"]["center"][0] = 9.0
        state["fitted"]["features"][0]["mean"] = 9.0
        del state["fitted"]["data"]
    else:
        state = None

    with pytest.raises(
        StateError, match="state of another pipeline|malformed pipeline state|scaling needs"
    ):
        pipeline.load_state_dict(state)

    assert pipeline.state_dict() == before


def test_a_pipeline_that_learns_is_fitted_first() -> None:
    for pipeline in (Pipeline(SPECS, scaling="robust"), Pipeline([Centred()])):
        with pytest.raises(NotFittedError, match="call fit\\(train\\) first"):
            pipeline.transform(DATA)
        with pytest.raises(NotFittedError):
            pipeline.stream(DATA)
    assert Pipeline(SPECS).fitted
    with pytest.raises(NotFittedError, match=r"feature Centred is not fitted; call fit\(train\)"):
        Pipeline([Centred()]).features[0](DATA)


def test_a_fit_that_is_refused_leaves_the_old_one() -> None:
    pipeline = Pipeline([Centred(), "log_return"], scaling="zscore").fit(TRAIN)
    before = pipeline.state_dict()

    with pytest.raises(ValueError, match="channels without a value in the training data"):
        pipeline.fit(DATA.rows(0, 1))

    assert pipeline.state_dict() == before


def test_pipelines_do_not_share_what_they_learn() -> None:
    feature = Centred()
    early, late = Pipeline([feature]).fit(DATA.rows(0, 40)), Pipeline([feature]).fit(TRAIN)

    assert early.state_dict()["fitted"]["features"] != late.state_dict()["fitted"]["features"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scaling": "max"}, r"must be one of \['rank', 'robust', 'zscore'\], got 'max'"),
        ({"dtype": np.int32}, "dtype must be float32 or float64, got int32"),
        ({"dtype": np.float16}, "dtype must be float32 or float64, got float16"),
        ({"mask": "row"}, "mask must be 'asset' or 'feature', got 'row'"),
        ({"clip": -1.0}, r"must be above 0, or a lower and an upper bound, got -1\.0"),
        ({"clip": (2.0, 1.0)}, "clip must be above 0, or a lower and an upper"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pipeline(SPECS, **options)


def test_features_are_wanted_and_differ() -> None:
    with pytest.raises(ValueError, match="features must have at least one element"):
        Pipeline([])
    with pytest.raises(ValueError, match=r"feature names must be unique, got \['gap', 'gap'\]"):
        Pipeline(["gap", "gap"]).transform(DATA)
    with pytest.raises(TypeError, match="scaling must have fit and transform, got 3"):
        Pipeline(SPECS, scaling=3)  # type: ignore[arg-type]


def test_the_lookback_is_the_longest_or_all() -> None:
    assert Pipeline(["gap", "momentum(9)"]).lookback == 10
    assert Pipeline(["gap", "drawdown"]).lookback is None
    assert default_pipeline().lookback == 61


def test_the_default_leaves_volume_out_where_there_is_none() -> None:
    whole, without = default_pipeline(DATA), default_pipeline(DATA.select(fields=["close"]))

    assert [feature.name for feature in whole.features] == [
        "log_return", "volatility", "momentum(rows=60)", "rank(of=momentum)", "relative_volume",
    ]  # fmt: skip
    assert len(without.features) == 4
    assert without.fit_transform(DATA.select(fields=["close"])).values.any()


def test_the_digest_tells_features_apart() -> None:
    digests = {
        Pipeline(SPECS).transform(DATA).digest,
        Pipeline(SPECS).transform(DATA.rows(1, 120)).digest,
        Pipeline(SPECS, mask="feature").transform(DATA).digest,
        Pipeline(SPECS[:2]).transform(DATA).digest,
    }

    assert len(digests) == 4
    assert Pipeline(SPECS).transform(DATA).digest in digests
    assert not Pipeline(SPECS).transform(DATA).values.flags.writeable
