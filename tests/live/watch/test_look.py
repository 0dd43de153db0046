"""Colors of the monitor page: contrast of alarms."""

from __future__ import annotations

import re

import pytest

from sekai.live.watch.app import asset
from tests.evaluation.report.test_look import DARK, LIGHT, contrast

ALARMS = re.findall(r"--alarm: (#[0-9a-f]{6})", asset("watch.css"))


@pytest.mark.parametrize(("alarm", "theme"), list(zip(ALARMS, (LIGHT, DARK), strict=True)))
def test_alarms_stand_out_and_can_be_read(alarm: str, theme: dict[str, str]) -> None:
    assert contrast(alarm, "#ffffff") >= 4.5, "words on an alarm, and alarms on a button"
    assert contrast(theme["bad"], theme["card"]) >= 4.5, "words on a lost connection"


def test_colours_are_named_once() -> None:
    plain = asset("watch.css").replace("#fff;", "")
    named = re.findall(r"--[\w-]+: #[0-9a-f]{6}", plain)

    assert len(named) == 2
    assert len(re.findall(r"#[0-9a-fA-F]{3,8}\b", plain)) == len(named)
