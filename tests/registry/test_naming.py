"""Ids: what they look like, how they sort, and what a misspelt one may have meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.registry import EnvId
from sekai.registry.naming import check_namespace
from sekai.storage.names import close_matches

WORD = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.]*", fullmatch=True)
IDS = st.builds(
    EnvId,
    st.none() | st.lists(WORD, min_size=1, max_size=3).map("/".join),
    WORD,
    st.none() | st.integers(0, 10**6),
)


@given(IDS)
def test_an_id_survives_being_written_and_parsed(id: EnvId) -> None:
    assert EnvId.parse(str(id)) == id


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Trading-v0", (None, "Trading", 0)),
        ("Trading", (None, "Trading", None)),
        ("qc/PortfolioEnv-v1", ("qc", "PortfolioEnv", 1)),
        ("gymnasium/ALE/Pong-v5", ("gymnasium/ALE", "Pong", 5)),
        ("Half-Cheetah-v12", (None, "Half-Cheetah", 12)),
        ("Order-via-book", (None, "Order-via-book", None)),
    ],
)
def test_an_id_is_taken_apart_at_the_last_slash_and_the_version(
    text: str, parts: tuple[str | None, str, int | None]
) -> None:
    assert EnvId.parse(text) == EnvId(*parts)


@pytest.mark.parametrize(
    "text", ["", "a b", "/Name", "qc/", "qc//Name", "Name\n", "-v1", "qc:N-v0"]
)
def test_what_is_no_id_is_told_the_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r"\[namespace/\]Name\[-vN\]"):
        EnvId.parse(text)


def test_a_version_has_one_spelling() -> None:
    with pytest.raises(ValueError, match="must be written v1"):
        EnvId.parse("Walk-v01")


@pytest.mark.parametrize("name", ["", "a b", "qc/", 3])
def test_what_is_no_namespace_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="namespace must be words"):
        check_namespace(name)


def test_ten_comes_after_two() -> None:
    ids = [EnvId.parse(text) for text in ("b/A-v1", "A-v10", "A-v2", "A", "b/A")]

    ordered = sorted(ids, key=lambda id: id.order)

    assert [str(id) for id in ordered] == ["A", "A-v2", "A-v10", "b/A", "b/A-v1"]


def test_near_names_are_found_whatever_their_case() -> None:
    known = ["Portfolio-v0", "Trading-v0", "MarketMaking-v0"]

    assert close_matches("portfolo-v0", known) == ["Portfolio-v0"]
    assert close_matches("TRADING-V0", known) == ["Trading-v0"]
    assert close_matches("something else", known) == []
