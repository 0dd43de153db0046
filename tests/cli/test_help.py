from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sekai.cli.app import COMMANDS, app
from sekai.cli.data import COMMANDS as DATA_COMMANDS
from tests.cli.commands import ROOT, call, environment

ALL = [(name,) for name, *_ in COMMANDS] + [("data", name) for name, *_ in DATA_COMMANDS]


def in_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(), text=True, capture_output=True, timeout=50
    )


@pytest.mark.parametrize("command", [(), ("data",), *ALL], ids=" ".join)
def test_the_help_of_every_command_has_examples_of_it(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])

    assert result.exit_code == 0
    examples = result.output.partition("Examples")[2]
    assert re.search(" ".join(["sekai", *command]), examples)


def test_a_command_that_is_not_there_is_misuse() -> None:
    assert call("wtach").code == 2


def test_the_help_tells_the_exit_codes() -> None:
    shown = " ".join(call("--help").out.split())

    assert all(f" {code} " in shown for code in ("0", "1", "2", "130"))


def test_examples_name_files_that_are_there() -> None:
    named = {
        word
        for _, _, examples in (*COMMANDS, *DATA_COMMANDS)
        for line in examples
        for word in line.split()
        if word.startswith("examples/")
    }

    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_python_runs_the_package_as_the_command() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "sekai", "--version"],
        env=environment(), text=True, capture_output=True, timeout=50,
    )  # fmt: skip

    assert found.returncode == 0
    assert found.stdout.startswith("sekai ")


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_says_what_to_install(package: str) -> None:
    found = in_python(
        f"import sys; sys.modules[{package!r}] = None\n"
        "from sekai.cli.command import main\n"
        "raise SystemExit(main(['list']))"
    )

    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "pip install '.[cli]'" in found.stderr


def test_looking_around_imports_nothing_heavy() -> None:
    found = in_python(
        "import sys\n"
        "from sekai.cli.command import main\n"
        "main(['--help']); main(['list'])\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'matplotlib', 'plotly', 'scipy'}\n"
        "raise SystemExit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )

    assert found.returncode == 0, found.stderr


def test_colours_are_left_out_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = call("info", "Nothing-v0").err
    monkeypatch.setenv("NO_COLOR", "1")
    plain = call("info", "Nothing-v0").err

    assert "\x1b[1;31m" in coloured
    assert "31m" not in plain


def test_an_unforeseen_error_is_one_line_and_a_traceback_if_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise RuntimeError("something odd")

    monkeypatch.setattr("sekai.cli.list_envs.all_specs", broken)

    told = call("list")

    assert (told.code, told.out) == (1, "")
    assert told.err == "error: RuntimeError: something odd (--debug shows the traceback)\n"
    with pytest.raises(RuntimeError, match="something odd"):
        call("list", "--debug")


def test_an_interrupt_of_any_command_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sekai.cli.list_envs.all_specs", interrupted)

    assert call("list").code == 130
