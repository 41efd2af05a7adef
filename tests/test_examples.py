"""Every example runs alone, prints what it is there to show, and says nothing on stderr that it does not mean to."""

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.child import run_file

_FOLDER = Path(__file__).parents[1] / "examples"
_NAMES = sorted(path.name for path in _FOLDER.glob("*.py"))

#: Words that each example prints, in this order.
_SHOWN = {
    "async_download.py": ["36 objects downloaded and hashed, 4 not found", "object 7: the server answers 404"],
    "batch_function.py": ["[4, 32, 32, 32]", "[32, 32, 32]", "at most 1 KiB"],
    "checkpoints.py": [
        "killed after step 23",
        "resumed after step 20",
        "the same model: True, 28 steps in the second run",
        "2 ranks read 128 samples, 4 ranks 128; each once: True",
    ],
    "dataset_getitem.py": ["13 batches, 100 samples, in the sampler's order: True"],
    "dedicated_thread.py": ["102400 bytes in 13 transfers by ['transfer_0'], 1 stream made"],
    "epochs.py": ["epoch 0: [", "epoch 1: [", "epoch 2: ["],
    "merge.py": ["A0 A1 B0 A2 A3 B1 A4 A5 B2 A6 A7 B3 B4 B5"],
    "migrate_from_torch.py": [
        "old_code: 6 batches, ",
        "in_threads: 6 batches, the last (4, 3, 64, 64); same labels: True, same shapes: True, pixels differ by 0.0",
        "as_pipeline: 6 batches, the last (4, 3, 64, 64); same labels: True, same shapes: True, pixels differ by 0.0",
        "by_native_calls: 6 batches, the last (4, 3, 64, 64); same labels: True, same shapes: True, pixels differ by ",
    ],
    "path_variants.py": ["{'compressed': 10, 'plain': 20}, sum of the numbers 435"],
    "process_pool.py": ["64 documents, 190 tokens, from 2 processes"],
    "text_batches.py": ["by budget: ", "by length: ", "packed: ", "int32 (8, 512), with ", "all found: True", "True"],
    "train_images.py": ["epoch 0: float32 (8, 3, 64, 64) ", "; 1 replaced", "epoch 1: float32 (8, 3, 64, 64) "],
    "train_in_subprocess.py": ["epoch 0: uint8 (8, 64, 64, 3), photos ", "epoch 1: uint8 (8, 64, 64, 3), photos "],
    "watching.py": ["while 100 items were read", "compress: kept the 3 slowest", "limiting stage"],
}
#: What an example imports beyond the package, NumPy and the standard library; it is skipped where that is missing.
_NEEDS = {"migrate_from_torch.py": ["PIL", "torch"], "text_batches.py": ["tokenizers"]}
#: The old code forks where torch still does; from Python 3.12 on that warns as soon as a library has a thread.
_MAY_WARN = {"migrate_from_torch.py": "ignore:This process:DeprecationWarning"}
#: Examples whose items fail on purpose, which is logged.
_LOGS = {"async_download.py": "NotFoundError", "train_images.py": "fox/9.jpg"}


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    """Run from another folder, with warnings as errors, it succeeds and shows what it is about."""
    for package in _NEEDS.get(name, []):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    ended = run_file(_FOLDER / name, folder=tmp_path, may_warn=_MAY_WARN.get(name))
    assert ended.returncode == 0, ended.stderr
    rest = ended.stdout
    for words in _SHOWN[name]:
        assert words in rest, ended.stdout
        rest = rest.partition(words)[2]
    for line in ended.stderr.splitlines():
        assert name in _LOGS, ended.stderr
        assert _LOGS[name] in line, ended.stderr
    assert not list(tmp_path.iterdir())


def test_examples_are_listed() -> None:
    """The README links to every example, and to nothing else."""
    readme = (_FOLDER / "README.md").read_text(encoding="utf-8")
    listed = [line.split("](")[1].split(")")[0] for line in readme.splitlines() if line.startswith("| [")]
    assert sorted(listed) == sorted(path.relative_to(_FOLDER).as_posix() for path in _FOLDER.rglob("*.py"))


@pytest.mark.parametrize("name", _NAMES)
def test_example_says_what_it_shows(name: str) -> None:
    """It opens with a docstring, and importing it runs nothing."""
    tree = ast.parse((_FOLDER / name).read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assert ast.unparse(tree.body[-1]).startswith("if __name__ == '__main__':")


def test_examples_need_the_package_alone() -> None:
    """They import the package, what it needs itself, and the standard library; a few need more, and are named above."""
    for name in _NAMES:
        allowed = {"spdl", "numpy", *_NEEDS.get(name, []), *sys.stdlib_module_names}
        for node in ast.walk(ast.parse((_FOLDER / name).read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in names:
                assert module.partition(".")[0] in allowed, f"{name} imports {module}"
