from __future__ import annotations

from pathlib import Path

import pytest

from sekai.config.toml_file import ConfigError, ConfigSource, dump_toml, set_option
from sekai.data import simulate_gbm
from sekai.error import DataError
from sekai.experiment import run_experiment
from sekai.experiment.reading import read_experiment
from sekai.market import Constraints, Costs, MarginAccount
from tests.cli.commands import ROOT, call

GOOD = """\
[run]
name = "good"
seed = 1

[env]
id = "Portfolio-v0"
lookback = 10
account = { leverage = 1.5 }

[env.costs]
proportional = 0.002

[data]
source = "simulate_gbm"
assets = ["A", "B"]
rows = 500
split = ["2001-01-01"]

[train]
algorithm = "a2c"
steps = 1_000
learning_rate = 0.01

[policy]
backbone = "mlp"
net_arch = [16, 16]

[evaluate]
seeds = 4
baselines = ["equal_weight", "random"]
"""


def source_of(text: str, folder: Path) -> ConfigSource:
    file = folder / "x.toml"
    file.write_text(text, encoding="utf-8")
    return ConfigSource.read(file)


def test_all_sections_are_read(tmp_path: Path) -> None:
    found = read_experiment(source_of(GOOD, tmp_path))

    assert (found.run.name, found.run.seed, found.id) == ("good", 1, "Portfolio-v0")
    assert found.env_options == {
        "lookback": 10,
        "account": MarginAccount(leverage=1.5),
        "costs": Costs(proportional=0.002),
    }
    assert found.source_options == {"assets": ("A", "B"), "rows": 500}
    assert found.agent.__name__ == "A2C"
    assert found.settings.learning_rate == 0.01
    assert found.settings.policy.net_arch == (16, 16)
    assert found.evaluate.baselines == ("equal_weight", "random")


def test_what_is_resolved_says_the_same_when_it_is_read(tmp_path: Path) -> None:
    first = read_experiment(source_of(GOOD, tmp_path)).resolved("good")

    again = read_experiment(source_of(dump_toml(first), tmp_path)).resolved("good")

    assert again == first
    assert first["train"]["gamma"] == 0.9, "what suits the env is filled in"


def test_constraints_are_read_and_resolved(tmp_path: Path) -> None:
    table = """\
[env.constraints]
net_exposure = [0.0, 0.8]
betas = { A = 0.5, B = 1.5 }
beta_exposure = 0.9
untradable = "assets"
min_weight = 0.05
max_names = 2
tolerance = 0.02
"""
    found = read_experiment(source_of(GOOD.replace("[data]", table + "\n[data]"), tmp_path))

    assert found.env_options["constraints"] == Constraints(
        net_exposure=(0.0, 0.8), betas={"A": 0.5, "B": 1.5}, beta_exposure=0.9,
        untradable="assets", min_weight=0.05, max_names=2, tolerance=0.02,
    )  # fmt: skip
    first = found.resolved("good")
    again = read_experiment(source_of(dump_toml(first), tmp_path))
    assert again.env_options == found.env_options


@pytest.mark.parametrize("name", ["demo", "sp500"])
def test_the_experiments_that_come_along_are_right(name: str) -> None:
    assert read_experiment(ConfigSource.read(ROOT / "examples" / f"{name}.toml")).train.steps > 0


def test_data_that_nobody_names_is_simulated_and_cut(tmp_path: Path) -> None:
    text = '[env]\nid = "Portfolio-v0"\n[train]\nsteps = 10\n'

    found = read_experiment(source_of(text, tmp_path))

    assert found.data is not None
    assert (found.data.source, found.data.parts) == ("simulate_regimes", (0.7,))


@pytest.mark.parametrize(
    ("line", "wrong", "place", "said"),
    [
        ("[run]", "[rn]", "1:1", "there is no section 'rn'; did you mean 'run'?"),
        ("seed = 1", "sed = 1", "3:1", "[run] has no key 'sed'; did you mean 'seed' or 'seeds'?"),
        ("seed = 1", "seed = 1.5", "3:8", "seed must be a whole number, got 1.5"),
        ("seed = 1", "seed = 1000000", "3:8", "seed must be from 0 to 999999"),
        ('name = "good"', 'name = "a/b"', "2:8", "name must be letters, digits"),
        ("Portfolio-v0", "Portfolo-v0", "6:6", "did you mean 'Portfolio-v0'"),
        ("lookback = 10", "lookbak = 10", "7:1", "[env] has no key 'lookbak'; did you mean 'look"),
        ("lookback = 10", 'lookback = "x"', "7:12", "lookback must be a whole number, got 'x'"),
        ("lookback = 10", "slots = -1", "7:9", "slots must be a whole number of at least 0"),
        ("lookback = 10", 'observation = "index"', "7:15", "observation must be 'window'"),
        ("lookback = 10", "data = 10", "7:1", "data of an env belongs in [data]"),
        ("leverage", "levrage", "8:13", "[env.account] has no key 'levrage'"),
        ("proportional", "proportonal", "11:1", "[env.costs] has no key 'proportonal'"),
        ("simulate_gbm", "simulate_bgm", "14:10", "did you mean 'simulate_gbm'"),
        ("simulate_gbm", "bars.parquet", "14:10", "unknown source "),
        ("rows = 500", "rws = 500", "16:1", "[data] has no key 'rws'; did you mean 'rows'?"),
        ("rows = 500", 'rows = "many"', "16:8", "rows must be a whole number, got 'many'"),
        ("rows = 500", 'scaling = "zscor"', "16:11", "scaling must be 'zscore' or 'robust'"),
        (
            "rows = 500",
            'features = ["momentm(9)"]',
            "16:12",
            "features are invalid: unknown feature",
        ),
        ("rows = 500", 'embargo = "5parsec"', "16:11", "embargo must be rows from 0, or a time"),
        ("rows = 500", "warm_up = -1", "16:11", "warm_up must be rows from 0, or a time"),
        ('["2001-01-01"]', "1.5", "17:9", "split must be up to three shares between 0 and 1"),
        ('["2001-01-01"]', '["soon"]', "17:9", "split must be up to three shares between 0 and 1"),
        ('["2001-01-01"]', "[0.5, true]", "17:9", "split must be a number or text or a list, got"),
        ('"a2c"', '"a2d"', "20:13", "algorithm must be 'ppo' or 'recurrent_ppo' or 'a2c'"),
        ("steps = 1_000", "steps = 0", "21:9", "steps must be at least 1, got 0"),
        (
            "steps = 1_000",
            "n_envs = 1",
            "19:1",
            "[train] needs steps, such as steps = 200_000, or --steps 200000",
        ),
        ("learning_rate", "learning_rte", "22:1", "did you mean 'learning_rate' or"),
        ("learning_rate", "policy", "22:1", "[train] has no key 'policy'"),
        ("0.01", "-0.01", "22:17", "learning_rate must be finite and above 0, got -0.01"),
        ("net_arch = ", "net_ach = ", "26:1", "no key 'net_ach'; did you mean 'net_arch'?"),
        ("net_arch = [16, 16]", "net_arch = 16", "26:12", "net_arch must be a list, got 16"),
        ('"mlp"', '"mpl"', "25:12", "backbone must be one of auto, mlp"),
        ("net_arch = [16, 16]", 'encoder = "gr"', "26:11", "encoder must be one of mlp, "),
        ("seeds = 4", "seeds = 1", "29:9", "seeds must be at least 2"),
        ('"random"', '"radom"', "30:13", "no baseline 'radom'; did you mean 'random'"),
        ("seeds = 4", "seeds = = 4", "29:9", "invalid TOML"),
    ],
)
def test_what_is_wrong_is_pointed_at(
    tmp_path: Path, line: str, wrong: str, place: str, said: str
) -> None:
    assert GOOD.count(line) == 1 or line in ("lookback = 10", "rows = 500")
    file = tmp_path / "x.toml"
    file.write_text(GOOD.replace(line, wrong, 1), encoding="utf-8")

    told = call("train", file, "--runs", tmp_path / "runs")

    assert told.code == 2
    message, shown, arrow = told.err.splitlines()
    assert message.startswith(f"error: {file}:{place}: ")
    assert said in message
    row, column = map(int, place.split(":"))
    assert shown == f"{row:5d} | {file.read_text().splitlines()[row - 1]}"
    assert arrow.index("^") == len(f"{row:5d} | ") + column - 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--env", "Portfolo-v0"], "--env: unknown env id 'Portfolo-v0'"),
        (["--steps", "-5"], "--steps: steps must be at least 1, got -5"),
        (["--algorithm", "pp"], "--algorithm: algorithm must be 'ppo'"),
        (["--seed", "-1"], "--seed: seed must be from 0"),
        (["--name", "a b"], "--name: name must be letters"),
        (["--set", "train.clip"], "--set train.clip: expected section.key=value, such as"),
        (["--set", "clip=1"], "--set clip: expected section.key=value, such as"),
        (["--set", "train.learning_rte=1"], "--set train.learning_rte: [train] has no key"),
        (["--set", "env.costs.fixed=much"], "--set env.costs.fixed: fixed must be a number"),
        (["--set", "train.steps.more=1"], "--set train.steps.more: 'steps' is a value"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_of_the_option(
    tmp_path: Path, words: list[str], said: str
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(GOOD, encoding="utf-8")

    told = call("train", file, *words, "--runs", tmp_path / "runs")

    assert told.code == 2
    assert f"error: {said}" in told.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"\xff\xfe[run]", "not UTF-8 text"),
        (b'name = "x', "invalid TOML"),
        (b"run = 5", "run must be a section [run], got 5"),
        (b'[env]\nid = "MarketMaking-v0"\n[data]\n', "takes no data; remove [data]"),
        (b"[env]\nid = 5\n", "id must be text, got 5"),
    ],
)
def test_a_file_that_cannot_be_read_is_misuse(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content)

    told = call("train", file)

    assert told.code == 2
    assert said in told.err


def test_options_go_before_the_file(tmp_path: Path) -> None:
    source = source_of(GOOD, tmp_path)

    source.set(("train", "steps"), 77, "--steps")
    set_option(source, "--set", "env.costs.proportional=0.5")
    set_option(source, "--set", "train.algorithm=ppo")

    found = read_experiment(source)
    assert found.train.steps == 77
    assert found.train.algorithm == "ppo"
    assert found.env_options["costs"] == Costs(proportional=0.5)


def test_paths_are_seen_from_the_file_that_names_them(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "bars.csv").write_text("time,asset,close\n2020-01-01,A,1.0\n")
    text = GOOD.replace("simulate_gbm", "bars.csv").replace("rows = 500\n", "")

    found = read_experiment(source_of(text.replace('assets = ["A", "B"]\n', ""), folder))

    assert found.data is not None
    assert Path(found.data.source) == folder / "bars.csv"


def test_a_refused_option_changes_nothing(tmp_path: Path) -> None:
    source = source_of(GOOD, tmp_path)

    with pytest.raises(ConfigError):
        source.set(("run", "seed", "deeper"), 1, "--set")

    assert source.values == source_of(GOOD, tmp_path).values


BARS = """\
[env]
id = "Portfolio-v0"
lookback = 5
episode_rows = 20

[data]
source = "bars.csv"

[train]
steps = 64
n_envs = 2
"""


@pytest.mark.parametrize(
    ("section", "lines", "place", "said"),
    [
        ("data", 'assets = ["EURUSD", "USD_JPY"]', "8:10", "did you mean 'USDJPY'"),
        ("data", 'sectors = { USDJPX = "y" }', "8:13", "sectors: unknown asset 'USDJPX'; did you"),
        ("data", 'split = "2030-01-01"', "8:9", "every part must have rows, got ('2030-01-01',)"),
        ("data", 'split = ["2024-06-01", "2024-01-01"]', "8:9", "every part must have rows"),
        ("data", "split = [0.5, 0.5, 0.5]", "8:9", "fractions must add up to at most 1"),
        ("data", "embargo = 290", "8:11", "part 1 of 2 has no rows: 300 rows in all, embargo 290"),
        ("data", 'start = "2031-01-01"', "8:9", "no rows with start=2031-01-01"),
        ("data", 'time = "time"\nfields = ["close", "vwap"]', "9:10", "no column 'vwap'"),
        ("data", 'features = ["market_series(vix)"]', "8:12", "unknown market series 'vix'"),
        ("data", 'timezone = "Nowhere"', "8:12", "unknown timezone 'Nowhere'"),
        ("env", 'benchmark = "EURUSDX"', "5:13", "unknown benchmark 'EURUSDX'; did you mean"),
        ("env", "starts = 5000", "5:10", "expected starts from row"),
        (
            "env",
            "[env.constraints]\nbetas = { EURUSDX = 1.0 }\nbeta_exposure = 0.5",
            "6:11",
            "betas: unknown asset 'EURUSDX'; did you mean 'EURUSD'",
        ),
        (
            "env",
            "[env.constraints]\nmax_names = 1\nmax_weight = 0.6\nmax_cash = 0.1",
            "6:13",
            "max_names 1 allows no weights",
        ),
        ("env", "[env.constraints]\nsector_caps = 0.3", "6:15", "sector_caps needs data with"),
        ("env", "[env.constraints]\nlong_short = true", "6:14", "long_short needs a Margin"),
    ],
)
def test_what_does_not_fit_the_data_is_pointed_at(
    tmp_path: Path, section: str, lines: str, place: str, said: str
) -> None:
    frame = simulate_gbm(assets=["EURUSD", "USDJPY"], rows=300, seed=1).to_frame()
    frame.to_csv(tmp_path / "bars.csv", index=False)
    after = {"data": 'source = "bars.csv"', "env": "episode_rows = 20"}[section]
    file = tmp_path / "x.toml"
    file.write_text(BARS.replace(after, f"{after}\n{lines}", 1), encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        run_experiment(file, runs=tmp_path / "runs")

    message = str(caught.value)
    assert message.startswith(f"{file}:{place}: ")
    assert said in message
    assert message.splitlines()[-1].strip(" |") == "^"
    assert not (tmp_path / "runs").exists()


def test_errors_of_the_data_itself_point_at_no_line(tmp_path: Path) -> None:
    frame = simulate_gbm(assets=["A", "B"], rows=300, seed=1).to_frame()
    frame.loc[7, "close"] = -1.0
    frame.to_csv(tmp_path / "bars.csv", index=False)
    file = tmp_path / "x.toml"
    time = 'source = "bars.csv"\ntime = "time"\npolicies = { missing = "halt" }'
    file.write_text(BARS.replace('source = "bars.csv"', time), encoding="utf-8")

    with pytest.raises(DataError, match="price"):
        run_experiment(file, runs=tmp_path / "runs")
