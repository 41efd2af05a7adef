"""Pages of the cookbook: the script of each, run as its reader runs it, and what the page says that it prints."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.child import Ended, run_file
from tests.test_docs import blocks_of

__all__ = ["FOLDER", "Page", "numbers_of", "page"]

FOLDER = Path(__file__).parents[2] / "docs" / "cookbook"


@dataclass(frozen=True, slots=True)
class Page:
    """A page. Its script is fenced as ``python script``, and what that prints as ``text`` behind it."""

    name: str
    script: str
    output: str

    def save(self, folder: Path) -> Path:
        """Write the script beside ``folder``, in which it is to run."""
        path = folder.with_name(f"{folder.name}.{self.name}.py")
        path.write_text(self.script, encoding="utf-8")
        return path

    def run(self, folder: Path, *, may_warn: str | None = None) -> Ended:
        """Run the script in ``folder``; it must succeed and print what the page says."""
        ended = run_file(self.save(folder), folder=folder, may_warn=may_warn)
        assert ended.returncode == 0, ended
        self.check(ended.stdout)
        return ended

    def check(self, printed: str) -> None:
        """Fail unless this is what the page says: a line ``...`` stands for any lines, numbers with a point for any."""
        pattern = re.escape(self.output.strip())
        pattern = re.sub(r"-?\\?-?\d+\\\.\d+", lambda _: r"-?\d+\.\d+", pattern)
        pattern = pattern.replace("\\.\\.\\.\\\n", "(?:.*\n)*?").replace("\\\n", "\n")
        assert re.fullmatch(pattern, printed.strip()), f"the page says\n{self.output}\n\nprinted is\n{printed}"


def page(name: str) -> Page:
    """The page of that name."""
    blocks = blocks_of((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    number = next(number for number, block in enumerate(blocks) if block.info == ("python", "script"))
    shown = blocks[number + 1]
    assert shown.info == ("text",), f"what the script of {name} prints must be behind it"
    return Page(name, blocks[number].text + "\n", shown.text)


def numbers_of(label: str, printed: str) -> list[float]:
    """The numbers behind a word in the output, in order."""
    return [float(found) for found in re.findall(rf"{label} (-?\d+(?:\.\d+)?)", printed)]
