"""What ``spdl`` and ``spdl load`` accept on the command line."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import spdl
from spdl._cli import main
from spdl._cli._options import LoadOptions, add_parser


def _parse(*words: str) -> LoadOptions:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_parser(parser.add_subparsers())
    return LoadOptions.of(parser.parse_args(["load", *words]))


def test_defaults() -> None:
    """Paths alone are enough; the record has the same defaults as the parser."""
    assert _parse("a", "b") == LoadOptions((Path("a"), Path("b")))


def test_all_options_arrive() -> None:
    """Each option sets the field of its name."""
    line = "--batch-size 8 --size 320x240 --threads 3 --epochs 2 --pix-fmt gray --json --strict --quiet p"
    options = _parse(*line.split())
    assert options == LoadOptions(
        (Path("p"),),
        batch_size=8,
        width=320,
        height=240,
        threads=3,
        epochs=2,
        pix_fmt="gray",
        json=True,
        strict=True,
        quiet=True,
    )


def test_one_number_is_a_square() -> None:
    """``--size 96`` means 96x96."""
    options = _parse("--size", "96", "p")
    assert (options.width, options.height) == (96, 96)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--batch-size 0 p", "--batch-size: must be a whole number >= 1, got '0'"),
        ("--threads -1 p", "--threads: must be a whole number >= 1, got '-1'"),
        ("--epochs two p", "--epochs: must be a whole number >= 1, got 'two'"),
        ("--size 0x5 p", "--size: must be WIDTHxHEIGHT or one number, in pixels, got '0x5'"),
        ("--size 5x p", "--size: must be WIDTHxHEIGHT or one number, in pixels, got '5x'"),
        ("--size 123456 p", "--size: must be"),
        ("--pix-fmt yuv420p p", "--pix-fmt: invalid choice"),
        ("", "the following arguments are required: PATH"),
    ],
)
def test_wrong_options_say_what_is_accepted(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and a message that names the option, what it takes and what it got."""
    assert main(["load", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``spdl --version`` prints the version of the package."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"spdl {spdl.__version__}\n"


def test_help_documents_each_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """``spdl load --help`` lists every exit code there is."""
    from spdl._cli._options import ExitCode

    assert main(["load", "--help"]) == 0
    documented = capsys.readouterr().out.partition("exit codes:")[2].partition("examples:")[0]
    assert [int(line.split()[0]) for line in documented.strip().splitlines()] == sorted(ExitCode)


@pytest.mark.slow
def test_help_needs_no_native_part() -> None:
    """``python -m spdl --help`` answers without NumPy and without the media package."""
    code = (
        "import sys; from spdl.__main__ import main; main(['--help']);"
        "print([m for m in sys.modules if m in {'numpy', 'spdl.io', 'spdl.pipeline'}])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.endswith("[]\n")
    assert "load" in result.stdout
