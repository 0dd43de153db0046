"""Features by name: how they are written, registered and found."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.features import feature as registry
from sekai.data.features.feature import (
    PanelFeature,
    as_feature,
    feature_kinds,
    format_spec,
    make_feature,
    parse_spec,
    register_feature,
)
from tests.data.holed_panels import NAMED, make_panel, same_numbers

DATA = make_panel(rows=40)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    feature_kinds()
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))


@pytest.mark.parametrize(
    ("spec", "name", "full"),
    [
        ("momentum", "momentum", "momentum(rows=20, skip=0, price=close)"),
        ("momentum(20)", "momentum", "momentum(rows=20, skip=0, price=close)"),
        ("momentum(5,skip=1)", "momentum(rows=5, skip=1)", "momentum(rows=5, skip=1, price=close)"),
        (
            "rank(momentum(5))",
            "rank(of=momentum(rows=5))",
            "rank(of=momentum(rows=5, skip=0, price=close))",
        ),
        (
            "indicators(f_rsi_8, f_sma_8)",
            "indicators(f_rsi_8, f_sma_8)",
            "indicators(f_rsi_8, f_sma_8, normalize=False)",
        ),
    ],
)
def test_a_feature_has_a_short_name_and_a_spec_in_full(spec: str, name: str, full: str) -> None:
    feature = make_feature(spec)

    assert feature.name == name
    assert feature.spec == full


@pytest.mark.parametrize("spec", NAMED)
def test_the_spec_of_a_feature_makes_the_same_feature(spec: str) -> None:
    feature = make_feature(spec)
    again = make_feature(str(feature.spec))

    assert (again.name, again.spec, again.lookback) == (
        feature.name,
        feature.spec,
        feature.lookback,
    )
    assert same_numbers(again(DATA), feature(DATA))


values = st.one_of(
    st.integers(-99, 99), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    st.none(), st.text(max_size=8), st.sampled_from(["close", "None", "f(1)", "f(1, x='y')"]),
)  # fmt: skip


@given(arguments=st.lists(values, max_size=3), keywords=st.dictionaries(st.just("key"), values))
def test_what_is_written_is_read_again(arguments: list[Any], keywords: dict[str, Any]) -> None:
    name, found, by_name = parse_spec(format_spec("feature", arguments, keywords))

    assert (name, found, by_name) == ("feature", arguments, keywords)


@pytest.mark.parametrize(
    "spec", ["", "1", "momentum(", "a.b(1)", "momentum(*x)", "momentum([1])", "momentum(**x)"]
)
def test_what_is_no_spec_is_shown_one(spec: str) -> None:
    with pytest.raises(
        ValueError,
        match="malformed feature spec",
    ):
        make_feature(spec)


def test_a_name_that_nobody_has_names_those_there_are() -> None:
    with pytest.raises(
        KeyError,
        match=r"feature 'momentumm'; did you mean 'momentum'\? expected one of",
    ):
        make_feature("momentumm(5)")


def test_parameters_that_are_not_there_name_those_that_are() -> None:
    with pytest.raises(TypeError, match=r"invalid parameters in 'momentum\(x=1\)': got an"):
        make_feature("momentum(x=1)")
    with pytest.raises(TypeError, match=r"in the spec 'momentum\(5\)' or as arguments, not both"):
        make_feature("momentum(5)", skip=1)


def test_a_function_is_registered_with_its_parameters() -> None:
    @register_feature("above", lookback=1)
    def above(data: MarketData, level: float = 100.0) -> Any:
        return data.field("close") > level

    assert "above" in feature_kinds()
    assert make_feature("above(level=1e9)")(DATA).max() == 0
    assert make_feature("above", level=0.5).name == "above(level=0.5)"
    with pytest.raises(ValueError, match="feature 'above' is already registered; pass force=True"):
        register_feature("above")(above)
    register_feature("above", force=True)(lambda data: data.field("open"))
    assert np.nanmax(make_feature("above")(DATA)) > 1


def test_a_name_is_a_word() -> None:
    with pytest.raises(ValueError, match="feature name must be an identifier, got 'a b'"):
        register_feature("a b")


def test_a_feature_of_no_name_among_the_parameters_leaves_it_without_a_spec() -> None:
    def spread(data: MarketData) -> Any:
        return data.field("high") - data.field("low")

    assert make_feature("rank", of=spread).spec is None
    assert make_feature("rank", of=spread).name == "rank(of=spread)"
    assert make_feature("rank", of=PanelFeature(spread, lookback=4)).lookback == 4
    assert make_feature("rank", of=make_feature("gap")).spec == "rank(of=gap)"


def test_installed_packages_bring_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    metadata = tmp_path / "feature_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sekai.features]\ntwice = feature_plugin:load\n")
    (tmp_path / "feature_plugin.py").write_text(
        "from sekai.data.features.feature import register_feature\n"
        "def load():\n"
        "    register_feature('twice', lookback=1)(lambda data: 2 * data.field('close'))\n"
    )

    assert "twice" in feature_kinds()
    assert "feature_plugin" not in sys.modules
    assert same_numbers(make_feature("twice")(DATA)[:, :, 0], 2 * DATA.field("close"))


@pytest.mark.parametrize(
    ("shape", "channels"), [((40,), 1), ((40, 5), 1), ((40, 5, 3), 3), ((40, 5, 1), 1)]
)
def test_a_feature_is_of_rows_or_of_assets_or_has_channels(
    shape: tuple[int, ...], channels: int
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)

    feature = as_feature(lambda data: values)

    assert feature(DATA).shape == (40, 5, channels)
    assert len(feature.channels(channels)) == channels


@pytest.mark.parametrize("shape", [(39,), (40, 4), (39, 5), (40, 5, 0), (40, 5, 1, 1), ()])
def test_any_other_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError,
        match="must return rows, rows by assets or",
    ):
        as_feature(lambda data: np.zeros(shape))(DATA)


def test_what_computes_nothing_is_no_feature() -> None:
    with pytest.raises(TypeError, match="of a panel or an object with fit and transform, got 3"):
        as_feature(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lookback must be at least 1, got 0"):
        PanelFeature(lambda data: 0, lookback=0)


def test_an_invalid_parameter_is_an_error_that_names_the_feature() -> None:
    with pytest.raises(ValueError, match=r"'volatility\(x\)': rows must be an integer"):
        make_feature("volatility(x)")
    with pytest.raises(ValueError, match=r"'momentum\(0\)': rows must be an integer"):
        make_feature("rank(momentum(0))")


def test_the_table_of_the_document_has_every_feature_with_its_parameters() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| `([a-z_]+(?:\(.*\))?)` \| (.+) \|$", text, re.MULTILINE))

    known = {}
    for name in feature_kinds():
        kind = registry._KINDS[name]
        parameters = ", ".join(
            str(each).partition(":")[0]
            if each.default is each.empty
            else f"{each.name}={each.default}"
            for each in kind.parameters.parameters.values()
        )
        meaning = (inspect.getdoc(kind.maker) or "").splitlines()[0]
        known[f"{name}({parameters})" if parameters else name] = meaning
    assert {
        key: value for key, value in written.items() if key.partition("(")[0] in feature_kinds()
    } == known
