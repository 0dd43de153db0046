"""An experiment as it was read and checked: what is trained on what, and how it is judged."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sekai.cli.env_facts import EnvKind
from sekai.cli.experiment.market import Reader
from sekai.cli.experiment.sections import DataSection, EvaluateSection, RunSection, TrainSection

if TYPE_CHECKING:
    from sekai.training import Agent, AgentSettings

__all__ = ["Experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is trained on what, and how it is judged."""

    run: RunSection
    env: EnvKind
    env_given: dict[str, Any]
    """The options of the env as they were written, for those who read them again."""

    env_options: dict[str, Any]
    """The same as the env takes them."""

    data: DataSection | None
    """None where the env makes up all that it needs from seeds."""

    reader: Reader | None
    reader_given: dict[str, Any]
    reader_options: dict[str, Any]
    train: TrainSection
    agent: type[Agent]
    settings: AgentSettings
    evaluate: EvaluateSection

    @property
    def id(self) -> str:
        """The id of the env."""
        return self.env.spec.id

    def resolved(self, name: str) -> dict[str, Any]:
        """All of it in plain values, defaults included, as a file that says the same.

        Args:
            name: what the run is called.
        """
        settings = self.settings.to_dict()
        policy = settings.pop("policy")
        told: dict[str, Any] = {
            "run": {"name": name, "seed": self.run.seed, **_imports(self.run)},
            "env": {"id": self.id, **self.env_given},
        }
        if self.data is not None:
            told["data"] = {**_plain(self.data), **self.reader_given}
        return {
            **told,
            "train": {**_plain(self.train), **settings},
            "policy": policy,
            "evaluate": _plain(self.evaluate),
        }


def _imports(run: RunSection) -> dict[str, Any]:
    return {"imports": list(run.imports)} if run.imports else {}


def _plain(section: Any) -> dict[str, Any]:
    values = {one.name: getattr(section, one.name) for one in dataclasses.fields(section)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None
    }
