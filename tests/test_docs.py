"""The code in README.md and docs/ runs as printed.

Every block fenced as ``python`` is run, the blocks of one file in order as one program, in a folder that holds nothing
but ``photos/`` with a few JPEGs and ``clips/`` with ``video.mp4`` (H.264 and AAC), ``speech.wav`` and ``music.flac``,
two seconds each; readers of the site can fetch these. A block fenced as ``python no-run`` is only compiled, and a
document with blocks fenced as ``python torch`` is only run where torch is installed. What a block fenced as
``python output`` prints is the block fenced as ``text`` behind it. The program keeps the line numbers of the document,
so that a traceback points into it.
Pages of the cookbook are compiled only: ``tests/cookbook`` runs them.
"""

import importlib.util
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.child import run_file
from tests.support.sample_media import put_media

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+|~~~+)(?P<info>.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: what follows the opening fence, the line of its first line, and its text."""

    info: tuple[str, ...]
    line: int
    text: str


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a Markdown text, in order."""
    found: list[Block] = []
    opened: tuple[re.Match[str], int] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        match = FENCE.match(line)
        if match is None:
            continue
        if opened is None:
            opened = match, number
        elif match["ticks"].startswith(opened[0]["ticks"]) and not match["info"].strip():
            indent = len(opened[0]["indent"])
            inside = lines[opened[1] : number - 1]
            body = "\n".join(each[indent:] if not each[:indent].strip() else each for each in inside)
            found.append(Block(tuple(opened[0]["info"].split()), opened[1] + 1, body))
            opened = None
    if opened is not None:
        raise ValueError(f"the block that opens on line {opened[1]} is never closed")
    return found


#: Printed before and after what a block with output prints, on the line of its fence and on the one below it.
MARKS = "=== output of line {} ===", "=== end of it ==="


def program_of(blocks: list[Block]) -> str:
    """The blocks to run as one program, each on the lines it has in its document."""
    lines: list[str] = []
    for block in blocks:
        if block.info[:1] == ("python",) and "no-run" not in block.info:
            lines += [""] * (block.line - 1 - len(lines))
            if "output" in block.info:
                lines[-1] = f"print({MARKS[0].format(block.line)!r})"
            lines += block.text.splitlines()
            if "output" in block.info:
                lines += [f"print({MARKS[1]!r})"]
    return "\n".join(lines) + "\n"


def outputs_of(blocks: list[Block]) -> dict[int, str]:
    """What the blocks with output are to print, by the lines that they begin on."""
    found = {}
    for block, behind in zip(blocks, [*blocks[1:], Block((), 0, "")], strict=True):
        if "output" in block.info:
            assert behind.info == ("text",), f"what the block on line {block.line} prints must be behind it"
            found[block.line] = behind.text
    return found


DOCUMENTS = [
    path
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    if path.exists()
]
# The scripts of the cookbook are run by tests/cookbook, on data of their own.
RUNNABLE = [
    path
    for path in DOCUMENTS
    if path.parent.name != "cookbook" and program_of(blocks_of(path.read_text(encoding="utf-8"))).strip()
]


@pytest.mark.slow
@pytest.mark.parametrize("document", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_in_document_runs(document: Path, tmp_path: Path) -> None:
    """A reader who copies the document's code into a file and runs it sees it work."""
    blocks = blocks_of(document.read_text(encoding="utf-8"))
    for package in ("torch", "pyarrow", "ray", "obstore"):
        if any(package in block.info for block in blocks) and importlib.util.find_spec(package) is None:
            pytest.skip(f"the code of the document needs {package}")
    script = tmp_path / f"{document.stem}.py"
    script.write_text(program_of(blocks), encoding="utf-8")
    folder = tmp_path / "reader"
    put_media(folder)
    ended = run_file(script, folder=folder)
    said = ended.stderr.replace(str(script), str(document.relative_to(ROOT)))
    assert ended.returncode == 0, f"the code of {document.relative_to(ROOT)} fails:\n{said}"
    for line, expected in outputs_of(blocks).items():
        printed = ended.stdout.partition(MARKS[0].format(line))[2].partition(MARKS[1])[0]
        assert printed.strip("\n") == expected.strip("\n"), f"{document.relative_to(ROOT)}, line {line}"
    if document.name == "slow.md":
        check_verdict(ended.stdout, next(block.text for block in blocks if block.info == ("text",)))


def check_verdict(printed: str, shown: str) -> None:
    """Each line is as shown up to its first number, unless other programs use the CPUs: then the verdict says so."""
    if "is GIL-bound" in printed and "probably, " not in printed:
        begins = [re.split(r"\d", line)[0] for line in shown.splitlines()]
        lines = printed.splitlines()
        assert [line[: len(begin)] for begin, line in zip(begins, lines, strict=True)] == begins, printed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_in_document_compiles(document: Path) -> None:
    """Every Python block is valid Python, those that are not run included."""
    for block in blocks_of(document.read_text(encoding="utf-8")):
        if block.info[:1] == ("python",):
            compile("\n" * (block.line - 1) + block.text, str(document), "exec")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    """A relative link names a file that is there."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    relative = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    assert [target for target in relative if not (document.parent / target).exists()] == []


def test_installs_name_this_distribution_and_its_extras() -> None:
    """Wherever a reader is told what to install: ``spdl`` is another project, and pip only warns of unknown extras."""
    pages = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    code = [path for folder in ("src", "examples", "native") for path in (ROOT / folder).rglob("*") if path.is_file()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    for path in [*pages, *(path for path in code if path.suffix in (".py", ".cpp", ".h"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"pip install ([^`:\n]*)", text):
            for name, extras in re.findall(r"(?<![\w.\[])(spdl(?:-\w+)*|\.)(?:\[([\w,-]+)\])?(?![\w])", match[1]):
                known = set(extras.split(",")) <= {"", *project["optional-dependencies"]}
                told_not_to = text[match.start() - 3 : match.end() + 3] == "**`pip install spdl` i"
                if not (known and name in (project["name"], ".")) and not told_not_to:
                    found.append(f"{path.relative_to(ROOT)}: {match[0]}")
    assert found == []


def test_blocks_keep_their_lines() -> None:
    """A program has its blocks on the lines of the document, leaves out ``no-run``, and takes indented fences."""
    text = "intro\n```python\na = 1\n```\n```python no-run\nb = 2\n```\n- item\n  ```python\n  c = 3\n  ```\n"
    assert program_of(blocks_of(text)) == "\n\na = 1\n\n\n\n\n\n\nc = 3\n"


def test_open_fence_is_an_error() -> None:
    """A fence that is never closed would hide what follows it."""
    with pytest.raises(ValueError, match="line 2 is never closed"):
        blocks_of("x\n```python\na = 1\n")


def test_changes_are_filed_as_agreed() -> None:
    """Each file of ``docs/changelog.d`` is named ``<what>.<kind>.md`` and says something."""
    files = [path for path in (ROOT / "docs/changelog.d").iterdir() if path.name != "README.md"]
    kinds = "added|changed|fixed|removed|faster"
    assert [path.name for path in files if not re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name)] == []
    assert [path.name for path in files if not path.read_text(encoding="utf-8").strip()] == []
