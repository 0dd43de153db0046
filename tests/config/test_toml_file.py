from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sekai.config.toml_file import KeyLocation, dump_toml, key_locations, load_toml

names = st.text("abcdefgh_-12", min_size=1, max_size=6)
plain = st.integers() | st.booleans() | st.text(max_size=12) | st.lists(st.text(max_size=40))
values: Any = st.recursive(plain, lambda inner: st.dictionaries(names, inner, max_size=3))
documents = st.dictionaries(names, st.dictionaries(names, values, max_size=4), max_size=4)


def keys_of(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in table.items():
        found.append((*path, name))
        if isinstance(value, dict):
            found += keys_of(value, (*path, name))
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_every_key_is_found_where_it_stands(document: dict[str, Any]) -> None:
    text = dump_toml(document)

    places = key_locations(text)

    lines = text.split("\n")
    for path in keys_of(load_toml(text)):
        if path not in places:
            # A table that has only tables is named by their headers alone.
            assert not any(line.startswith(f"[{'.'.join(path)}]") for line in lines)
            continue
        place = places[path]
        stands = lines[place.line - 1][place.column - 1 :]
        assert path[-1] in stands.split("]")[0].split("=")[0].replace('"', "")


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("a = 1", ("a",), KeyLocation(1, 1, 5)),
        ("[x]\n\n  a   =   1", ("x", "a"), KeyLocation(3, 3, 11)),
        ("[x]\na = [\n  1,\n  2,\n]\nb = 3", ("x", "b"), KeyLocation(6, 1, 5)),
        ('[x]\na = """\nb = 3\n"""\nb = 4', ("x", "b"), KeyLocation(5, 1, 5)),
        ("[x.y] # said so\na = 1", ("x", "y", "a"), KeyLocation(2, 1, 5)),
        ("[x.y]\na = 1", ("x", "y"), KeyLocation(1, 1, 1)),
        ("x.y.a = 1", ("x", "y", "a"), KeyLocation(1, 1, 9)),
        ('"x"."y z" = 1', ("x", "y z"), KeyLocation(1, 1, 13)),
        ("x = { aa = 1, a = 2 }", ("x", "a"), KeyLocation(1, 15, 19)),
        ('x = { b = "a = 1", a = 2 }', ("x", "a"), KeyLocation(1, 20, 24)),
        ("x = { y = { a = 2 } }", ("x", "y", "a"), KeyLocation(1, 13, 17)),
        ("# a = 1\na = 2", ("a",), KeyLocation(2, 1, 5)),
        ("[[x]]\na = 1", ("x", "a"), KeyLocation(2, 1, 5)),
    ],
)
def test_keys_are_found_however_they_are_written(
    text: str, path: tuple[str, ...], place: KeyLocation
) -> None:
    assert key_locations(text)[path] == place
