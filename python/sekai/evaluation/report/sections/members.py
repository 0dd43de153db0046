"""How the accounts of several agents grew, of which the one that is judged is the sum."""

from __future__ import annotations

from dataclasses import replace

from sekai.evaluation.episode import Episode
from sekai.evaluation.report.chart import Chart, Panel, View, line, stacked, style_of
from sekai.evaluation.report.labels import policy_label
from sekai.evaluation.report.section import Subject, x_of
from sekai.evaluation.report.series import is_relative, wealth

__all__ = ["members_chart"]


def members_chart(subject: Subject) -> Chart | None:
    """Growth of each agent of the team, episode by episode; None where there is one."""
    shown = [episode for episode in subject.single if episode.members]
    if not shown:
        return None
    most = subject.most_points(len(shown) * len(shown[0].members))
    return Chart(
        title="Accounts of the agents",
        views={f"Seed {episode.seed}": _view(episode, most) for episode in shown},
        choice="Episode",
        note="Of the team that is judged; its own account is the sum of these.",
    )


def _view(episode: Episode, most: int) -> View:
    accounts = {name: replace(episode, equity=equity) for name, equity in episode.members.items()}
    relative = is_relative(list(accounts.values()))
    kind, dates = "percent" if relative else "money", episode.times is not None
    title = "Growth of each account" if relative else "Gain of each, in money"
    return View(
        traces=[
            line(x_of(own, dates), wealth(own, relative), policy_label(name), style_of(place),
                 kind=kind, most=most)
            for place, (name, own) in enumerate(accounts.items())
        ],
        layout=stacked([Panel(title, kind)], dates=dates),
    )  # fmt: skip
