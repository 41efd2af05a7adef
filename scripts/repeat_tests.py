"""Repeats the tests that may depend on when things happen, and writes what failed how often: `make repeat`.

Each round runs every selected test some times alone, and as often beside busy processes. The rounds go on until each
test ran `--times` times both ways, or until the tests have used `--minutes` of CPU time. The report is rewritten after
each run of pytest, so an interrupted run has one too. Exit status: 1 if a test failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: A run of pytest has about this many tests: more would lose more if one of them ends the process.
TESTS_PER_RUN = 150
#: Exit codes of pytest that say that the run came to its end.
COMPLETE = {0, 1, 5}
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(100_000):\n        pass"


@dataclass
class Seen:
    """What was seen of one test, in one of the two ways to run it."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    texts: list[str] = field(default_factory=list)  # of the first failures

    @property
    def runs(self) -> int:
        return self.passed + self.failed

    def note(self, event: str, text: str) -> None:
        if event == "passed":
            self.passed += 1
        elif event == "skipped":
            self.skipped += 1
        else:
            self.failed += 1
            if len(self.texts) < 3:
                self.texts.append(text)


@dataclass
class Repeat:
    """The whole repetition."""

    selection: list[str]  # arguments for pytest that are not paths
    tests: list[str]
    times: int
    each: int
    load: int
    minutes: float
    report: Path
    used: float = 0.0  # CPU time of all tests, in seconds
    fatal: Counter[str] = field(default_factory=Counter)
    alone: dict[str, Seen] = field(default_factory=dict)
    loaded: dict[str, Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for test in self.tests:
            self.alone[test], self.loaded[test] = Seen(), Seen()

    def run(self) -> None:
        groups = list(self._groups())
        ways = [(self.alone, 0)] + ([(self.loaded, self.load)] if self.load else [])
        for done in range(0, self.times, self.each):
            number = min(self.each, self.times - done)
            for group in groups:
                for seen, load in ways:
                    if self.used >= 60 * self.minutes:
                        return
                    with busy(load):
                        self._run_group(group, number, seen)
                    self.report.write_text(self.text(), encoding="utf-8")

    def _groups(self) -> Iterator[list[str]]:
        """Yield lists of files, each of about as many tests."""
        files = Counter(test.partition("::")[0] for test in self.tests)
        group, size = list[str](), 0
        for file, number in files.items():
            if group and size + number > TESTS_PER_RUN:
                yield group
                group, size = [], 0
            group.append(file)
            size += number
        if group:
            yield group

    def _run_group(self, files: list[str], number: int, seen: dict[str, Seen]) -> None:
        """Run each test of some files. If one ends the process, run the group again without it, three times at most."""
        for _ in range(3):
            with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
                fatal = [f"--deselect={test[:-1] if test.endswith(']') else test}" for test in self.fatal]
                arguments = [*files, *self.selection, *fatal, f"--repeat={number}", f"--repeat-log={log.name}"]
                code, output = self._pytest("-p", "tests.support.repeating", "--no-header", "--tb=short", *arguments)
                begun = None
                for line in Path(log.name).read_text(encoding="utf-8").splitlines():
                    event = json.loads(line)
                    begun = event["test"] if event["event"] == "begun" else None
                    if begun is None:
                        seen.setdefault(event["test"], Seen()).note(event["event"], event["text"])
            if code in COMPLETE and begun is None:
                return
            if begun is None:
                sys.exit(f"repeat: pytest ended with {code}:\n{output}")
            seen.setdefault(begun, Seen()).note("ended the process", f"pytest ended with {code}:\n{output[-6000:]}")
            self.fatal[begun] += 1

    def _pytest(self, *arguments: str) -> tuple[int, str]:
        with tempfile.TemporaryFile() as output:
            command = [*PYTEST, "-m", "timing", *arguments]
            pid = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output).pid
            _, status, usage = os.wait4(pid, 0)
            self.used += usage.ru_utime + usage.ru_stime
            output.seek(0)
            return os.waitstatus_to_exitcode(status), output.read().decode(errors="replace")

    # -- the report

    def text(self) -> str:
        """Return what was reached and what failed, most frequent failures first."""
        lines = [
            f"{len(self.tests)} tests that may depend on when things happen, of which some need what is not installed",
            f"CPU time of the tests: {self.used / 60:.1f} of {self.minutes:g} minutes",
            self._reached("alone", self.alone),
        ]
        if self.load:
            lines.append(self._reached(f"beside {self.load} busy processes", self.loaded))
        failed = sorted(self.failed(), key=lambda test: -self.alone[test].failed - self.loaded[test].failed)
        lines.append(f"failed: {len(failed)}")
        for test in failed:
            alone, loaded = self.alone[test], self.loaded[test]
            lines.append(
                f"  {alone.failed} of {alone.runs} alone, {loaded.failed} of {loaded.runs} beside load: {test}"
                + (" (ended the process, and was left out from then on)" if test in self.fatal else "")
            )
        for test in failed:
            for text in (*self.alone[test].texts, *self.loaded[test].texts)[:3]:
                lines += ["", "-" * 120, test, "", text]
        return "\n".join(lines) + "\n"

    def failed(self) -> list[str]:
        for test in {*self.alone, *self.loaded}:
            self.alone.setdefault(test, Seen())
            self.loaded.setdefault(test, Seen())
        return [test for test in self.alone if self.alone[test].failed or self.loaded[test].failed]

    def _reached(self, how: str, seen: dict[str, Seen]) -> str:
        runs = sorted(each.runs for each in seen.values() if each.runs or not each.skipped)
        if not runs:
            return f"{how}: nothing"
        full = sum(number >= self.times for number in runs)
        return (
            f"{how}: {sum(runs)} runs; each test {runs[0]} to {runs[-1]} times, {full} tests all of {self.times} times"
        )


PYTEST = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep so many processes busy. They end with this process too."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(number)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def collect(selection: Sequence[str]) -> list[str]:
    """Return the names of the selected tests, in the order of the paths that were given."""
    command = [*PYTEST, "--collect-only", "-m", "timing", *selection]
    found = subprocess.run(command, cwd=ROOT, capture_output=True)
    names = [line for line in found.stdout.decode().splitlines() if line.startswith("tests/") and "::" in line]
    if found.returncode not in (0, 5) or not names:
        sys.exit(f"repeat: no tests: {found.stdout.decode()[-2000:]}{found.stderr.decode()[-2000:]}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/repeat", description=__doc__, allow_abbrev=False)
    parser.add_argument("--times", type=int, default=300, help="runs of each test, alone and beside load (300)")
    parser.add_argument("--minutes", type=float, default=480, help="most CPU time of the tests, in minutes (480)")
    parser.add_argument("--load", type=int, default=8, help="number of busy processes; 0: only alone (8)")
    parser.add_argument("--each", type=int, default=25, help="runs of each test in a row (25)")
    parser.add_argument("--report", type=Path, default=ROOT / ".cache" / "repeat.txt", help="file of the report")
    options, selection = parser.parse_known_args()
    if options.times < 1 or options.each < 1 or options.load < 0 or options.minutes <= 0:
        parser.error("--times and --each must be >= 1, --load >= 0, and --minutes > 0")
    words = [word for word in selection if not (ROOT / word.partition("::")[0]).exists()]
    options.report.parent.mkdir(parents=True, exist_ok=True)
    repeat = Repeat(
        words, collect(selection), options.times, options.each, options.load, options.minutes, options.report
    )
    print(f"repeat: {len(repeat.tests)} tests; the report is in {options.report}", flush=True)
    try:
        repeat.run()
    except KeyboardInterrupt:
        print("repeat: interrupted", file=sys.stderr)
    text = repeat.text()
    options.report.write_text(text, encoding="utf-8")
    print(text.partition("\n" + "-" * 120)[0].rstrip())
    return 1 if repeat.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
