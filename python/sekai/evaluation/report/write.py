"""Writes reports: one evaluation in full, or several beside each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.numbers import moment
from sekai.evaluation.report.page import page
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.sections.costs import costs_section
from sekai.evaluation.report.sections.growth import growth_section
from sekai.evaluation.report.sections.holdings import holdings_section
from sekai.evaluation.report.sections.honesty import honesty_section
from sekai.evaluation.report.sections.learning import learning_section
from sekai.evaluation.report.sections.making import making_section
from sekai.evaluation.report.sections.overview import overview_section
from sekai.evaluation.report.sections.runs import runs_sections
from sekai.evaluation.report.sections.seeds import seeds_section
from sekai.rendering.replacement import replacing

__all__ = ["write_report"]

SECTIONS = (
    overview_section,
    growth_section,
    holdings_section,
    costs_section,
    seeds_section,
    learning_section,
    honesty_section,
    making_section,
)
"""Each gives None where there is nothing to show."""


def write_report(
    evaluations: Evaluation | Sequence[Evaluation], path: str | os.PathLike[str]
) -> Path:
    """Write one page that shows an evaluation, or compares several; it needs no network.

    Args:
        evaluations: one, which is shown in full, or several, which are shown beside each other.
        path: the file, which ends in `.html`; one that is there is replaced as a whole.

    Raises:
        ValueError: there is no evaluation, or the name does not end in `.html`.
        MissingExtraError: plotly is not installed.
    """
    found = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
    if not found:
        raise ValueError("a report needs at least one evaluation, was given none")
    # What is not defined is shown as such, and nothing to warn of.
    with np.errstate(all="ignore"):
        text = _one(found[0]) if len(found) == 1 else _several(found)
    with replacing(path, ".html") as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)


def _one(evaluation: Evaluation) -> str:
    subject = Subject(evaluation)
    made = [section(subject) for section in SECTIONS]
    sections: list[Section] = [one for one in made if one is not None]
    count = len(evaluation.seeds)
    facts = [
        evaluation.env,
        f"{count} seed{'s' if count != 1 else ''}",
        f"{len(evaluation.baselines)} baseline{'s' if len(evaluation.baselines) != 1 else ''}",
        moment(evaluation.provenance.created),
    ]
    return page(evaluation.name, facts, sections)


def _several(evaluations: list[Evaluation]) -> str:
    facts = [*dict.fromkeys(one.env for one in evaluations), *(one.name for one in evaluations)]
    return page(f"{len(evaluations)} runs compared", facts, runs_sections(evaluations))
