"""Every example in ``nanfold COMMAND --help`` runs."""

import importlib
import shlex

import numpy as np
import pytest

from nanfold import commands
from nanfold.cli import build_parser, main


def examples_of(name: str) -> list[str]:
    """The lines of a command's help that are commands."""
    parser = next(action for action in build_parser()._actions if action.dest == "command").choices[name]
    return [line.strip() for line in (parser.epilog or "").splitlines() if line.startswith("  nanfold ")]


EXAMPLES = [line for name in ("inspect", "embed", "impute") for line in examples_of(name)]


def test_every_command_that_reads_has_examples():
    for name in commands.NAMES:
        if "add_reading_options" in vars(importlib.import_module(f"nanfold.commands.{name}")):
            assert examples_of(name), name


@pytest.mark.parametrize("line", EXAMPLES)
def test_it_runs(line, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(30, 20))
    X[rng.random(X.shape) < 0.3] = np.nan
    rows = [",".join([*("" if np.isnan(v) else f"{v:.3f}" for v in row), "ab"[i % 2]]) for i, row in enumerate(X)]
    header = ",".join([*(f"f{s}" for s in range(20)), "kind"])
    (tmp_path / "table.csv").write_text("\n".join([header, *rows]))
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(line)
    assert program == "nanfold"
    assert main(words) == 0
    assert not capsys.readouterr().err
