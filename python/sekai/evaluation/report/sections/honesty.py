"""Whether to believe the numbers: luck, trials and flags."""

from __future__ import annotations

import math

from sekai.evaluation.evaluation import Flag, Honesty
from sekai.evaluation.report.labels import policy_label
from sekai.evaluation.report.markup import Markup, element
from sekai.evaluation.report.numbers import shown
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.verdict import CONFIDENT, luck_in_words

__all__ = ["flags_block", "honesty_section"]


def honesty_section(subject: Subject) -> Section:
    """Flags, and what is left of the Sharpe ratio when luck and trials are counted."""
    blocks: list[Markup] = [flags_block(subject.evaluation.flags)]
    if subject.evaluation.honesty is not None:
        blocks.append(_luck_block(subject.evaluation.honesty))
    return Section(name="honesty", title="Honesty", blocks=[*blocks])


def flags_block(flags: list[Flag], title: str = "Flags") -> Markup:
    """What a reader should know, the worst first; that there is nothing, where there is nothing."""
    ordered = sorted(flags, key=lambda flag: flag.level != "error")
    rows = [
        element("li", element("strong", policy_label(flag.name)), " ", _level(flag),
                element("p", flag.message), class_=f"flag {_look(flag)}")
        for flag in ordered
    ]  # fmt: skip
    nothing = element("p", "Nothing was found that speaks against these numbers.", class_="quiet")
    return element(
        "section",
        element("h3", title),
        element("ul", *rows, class_="flags") if rows else nothing,
        element("p", "Errors make the numbers worthless; warnings may be meant so.", class_="note"),
        class_="card",
    )


def _look(flag: Flag) -> str:
    return "error" if flag.level == "error" else "warning"


def _level(flag: Flag) -> Markup:
    return element("span", flag.level, class_=f"badge {_look(flag)}")


def _luck_block(honesty: Honesty) -> Markup:
    short = honesty.observations < honesty.least_length
    enough = "fewer than needed" if short else "as many as needed"
    tiles = [
        _tile("Trials on this data", f"{honesty.trials:,}", "agents judged, this one included"),
        _tile("Sharpe ratio of a step", shown(honesty.sharpe),
              f"of {honesty.observations:,} returns"),
        _tile("Best of luck", shown(honesty.expected_best),
              "what the best of as many agents without skill would show"),
        _tile("Chance that it is above 0", shown(honesty.probabilistic, "chance"),
              "the probabilistic Sharpe ratio", honesty.probabilistic),
        _tile("Chance that it is above luck", shown(honesty.deflated, "chance"),
              "the deflated Sharpe ratio", honesty.deflated),
        _tile("Returns needed", shown(honesty.least_length, "count"),
              f"to tell the ratio from 0 at 95%: there are {enough}"),
    ]  # fmt: skip
    return element(
        "section",
        element("h3", "Luck and the number of trials"),
        element("p", luck_in_words(honesty)),
        element("div", *tiles, class_="tiles"),
        element("p", "Who tries often enough finds something that looks good. The deflated ratio "
                "counts trials, the length of the record, and the shape of its returns.",
                class_="note"),
        class_="card",
    )  # fmt: skip


def _tile(name: str, value: str, meaning: str, chance: float | None = None) -> Markup:
    return element(
        "div",
        element("span", name, class_="tile-name"),
        element("span", value, class_="tile-value"),
        _bar(name, chance) if chance is not None and math.isfinite(chance) else None,
        element("span", meaning, class_="tile-note"),
        class_="tile",
    )


def _bar(name: str, chance: float) -> Markup:
    """A chance as a bar, with a mark where it is enough."""
    share = min(max(chance, 0.0), 1.0)
    look = "enough" if share >= CONFIDENT else "short"
    return element(
        "span",
        element("span", class_=f"bar-fill {look}", style=f"width:{share:.1%}"),
        element("span", class_="bar-mark", style=f"left:{CONFIDENT:.0%}"),
        class_="bar",
        role="img",
        aria_label=f"{name}: {shown(chance, 'chance')}, 95% is enough",
    )
