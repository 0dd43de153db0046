"""Every Python block of the README and the documents runs."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def as_script(document: Path) -> str:
    """The blocks of a document, one after the other, at the lines where they stand in it."""
    text = document.read_text(encoding="utf-8")
    script: list[str] = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(1))
        script += [""] * (line - len(script)) + match.group(1).splitlines()
    return "\n".join(script) + "\n"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_a_document_run_in_order(document: Path, tmp_path: Path) -> None:
    script = tmp_path / f"{document.stem}.py"
    script.write_text(as_script(document), encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True
    )

    assert run.returncode == 0, f"{document.name}\n{run.stdout}\n{run.stderr}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_prints_something(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", example], cwd=tmp_path, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_numbered_and_fits_on_a_page(example: Path) -> None:
    place = EXAMPLES.index(example) + 1

    assert example.name.startswith(f"{place:02d}_")
    assert len(example.read_text(encoding="utf-8").splitlines()) < 80


def test_every_document_has_a_block_to_run() -> None:
    assert len(DOCUMENTS) > 5
    assert EXAMPLES
    for document in DOCUMENTS:
        has_code = document.name != "glossary.md"
        assert bool(as_script(document).strip()) == has_code, document.name


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*DOCUMENTS, *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING"))]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors_of(file), f"{page.name}: {target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings of a Markdown file."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_begins_with_a_loop() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) < 150
    assert any("env.step(" in line for line in lines[:45])


def test_accounting_explains_every_entry_of_an_info() -> None:
    import sekai

    text = (ROOT / "docs" / "accounting.md").read_text(encoding="utf-8")
    table = text.partition("## Entries of info")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| .+ \|$", table, re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])]

    info = sekai.make("Portfolio-v0").reset(seed=0).info
    assert sorted(explained) == sorted(info)


def test_experiments_of_documents_name_keys_that_there_are() -> None:
    from sekai.config.toml_file import load_toml
    from sekai.data import Options
    from sekai.experiment.experiment import (
        DataSection,
        EvaluateSection,
        RunSection,
        TrainSection,
    )
    from sekai.training import PPOSettings

    known = {
        "run": names_of(RunSection),
        "data": names_of(DataSection) | names_of(Options),
        "train": names_of(PPOSettings) | names_of(TrainSection),
        "evaluate": names_of(EvaluateSection),
    }
    blocks = [
        load_toml(block)
        for page in DOCUMENTS
        for block in re.findall(
            r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    ]
    assert len(blocks) > 3
    for block in blocks:
        for section in known.keys() & block.keys():
            assert set(block[section]) <= known[section], section


def names_of(config: type) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}
