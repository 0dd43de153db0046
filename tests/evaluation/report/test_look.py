"""Colours and shapes: what is shown can be seen and told apart by everybody."""

import re
from pathlib import Path

import numpy as np
import pytest

from sekai.evaluation.report import page
from sekai.evaluation.report.chart import COLOURS, style_of

STYLE = (Path(page.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root[^{]*\{([^}]*)\}", STYLE)[:2]
)

# Viénot, Brettel and Mollon (1999): what eyes without red or without green see of linear colours.
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array([[0.1124, 0.8876, 0.0], [0.1124, 0.8876, 0.0], [0.0040, -0.0040, 1.0]]),
    "deutan": np.array([[0.2928, 0.7072, 0.0], [0.2928, 0.7072, 0.0], [-0.0223, 0.0223, 1.0]]),
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    lights = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_what_is_behind_them(theme: dict[str, str]) -> None:
    for name in ("ink", "faint", "good", "open", "bad"):
        assert contrast(theme[name], theme["card"]) >= 4.5, name
        assert contrast(theme[name], theme["paper"]) >= 4.5, name
    for place in range(COLOURS):
        assert contrast(theme[f"c{place}"], theme["card"]) >= 3, place


def test_policies_are_told_apart_without_any_colour() -> None:
    looks = [style_of(place) for place in range(COLOURS)]

    assert len({look.dash for look in looks}) == COLOURS
    assert len({look.symbol for look in looks}) == COLOURS


@pytest.mark.parametrize("sight", list(BLINDNESS))
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_first_colours_differ_for_all_kinds_of_sight(theme: dict[str, str], sight: str) -> None:
    seen = [np.clip(BLINDNESS[sight] @ linear(theme[f"c{place}"]), 0, 1) for place in range(3)]
    shades = [np.cbrt(one) for one in seen]

    for place, one in enumerate(shades):
        for other in shades[:place]:
            assert np.abs(one - other).max() > 0.15
