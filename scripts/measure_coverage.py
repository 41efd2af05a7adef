"""Run the tests of a tree and print a table of what they cover. ``scripts/coverage`` says how to call it."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parent.parent
#: Little optimisation for exact lines, but fast enough for the tests; counts from several threads are exact.
_FLAGS = "--coverage -O1 -DNDEBUG -fprofile-update=prefer-atomic"
#: Lines that no test should reach.
_EXCLUDED = (r"if TYPE_CHECKING:", r"@overload", r"raise NotImplementedError", r"^\s*\.\.\.$", r"\bassert_never\(")


@dataclass
class Covered:
    """How many lines and branches there are, and how many of them ran."""

    num_lines: int = 0
    lines: int = 0
    num_branches: int = 0
    branches: int = 0

    def add(self, other: "Covered") -> None:
        self.num_lines += other.num_lines
        self.lines += other.lines
        self.num_branches += other.num_branches
        self.branches += other.branches


@dataclass
class Report:
    """What was measured, by file."""

    python: dict[str, Covered] = field(default_factory=dict)
    native: dict[str, Covered] = field(default_factory=dict)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/coverage", description="Other arguments go to pytest.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure (default: this one)")
    options, selected = parser.parse_known_args(arguments)
    tree = options.tree.resolve()
    if not (tree / "src" / "spdl").is_dir() or not (tree / "CMakeLists.txt").is_file():
        parser.error(f"{tree} is no checkout of SPDL: it has no src/spdl or no CMakeLists.txt")
    name = "this" if tree == ROOT else f"{tree.name}-{crc32(os.fsencode(tree)):08x}"
    folder = ROOT / ".cache" / "coverage" / name
    copy = folder / "tree"
    copy_tree(tree, copy, folder / "copied.json")
    build_native(copy, folder / "native")
    python = make_environment(copy, folder / "environment")
    status = run_tests(copy, folder, python, selected)
    if status not in (0, 1):  # interrupted, or nothing was selected
        return status
    report = Report(python_report(copy, folder, python), native_report(copy, folder))
    (folder / "report.json").write_text(json.dumps(report, default=vars, indent=1), encoding="utf-8")
    print(table(report))
    print(f"each file is in {folder / 'report.json'}")
    if status:
        print("coverage: some tests failed; what they reached before is counted", file=sys.stderr)
    return status


def copy_tree(tree: Path, copy: Path, record: Path) -> None:
    """Bring the copy up to date. Files that have not changed are left alone, so that they are not compiled again."""
    listed = subprocess.run(
        ["git", "-C", tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = sorted({name for name in listed.split("\0") if name and (tree / name).is_file()})
    before = json.loads(record.read_text(encoding="utf-8")) if record.exists() else []
    for name in set(before) - set(names):
        (copy / name).unlink(missing_ok=True)
    for name in names:
        source, target = tree / name, copy / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    record.write_text(json.dumps(names), encoding="utf-8")


def build_native(copy: Path, build: Path) -> None:
    """Build the extensions of the copy, and their own tests, so that they count."""
    command = ["cmake", "-S", copy, "-B", build, *(["-G", "Ninja"] if shutil.which("ninja") else [])]
    command += ["-D", "CMAKE_BUILD_TYPE=None", "-D", f"CMAKE_CXX_FLAGS={_FLAGS}", "-D", f"CMAKE_C_FLAGS={_FLAGS}"]
    # What coverage_start.py calls.
    command += ["-D", "CMAKE_MODULE_LINKER_FLAGS=-Wl,-u,__gcov_dump"]
    command += ["-D", f"Python_EXECUTABLE={ROOT / '.venv' / 'bin' / 'python'}", "-D", "SPDL_TESTS=ON"]
    print(f"coverage: building native code in {build}", file=sys.stderr)
    logged(command, build.with_suffix(".log"))
    logged(["cmake", "--build", build, "--parallel", str(os.cpu_count())], build.with_suffix(".log"))


def logged(command: list[str | Path], log: Path, folder: Path = ROOT) -> None:
    """Run a command; print its output only if it fails, and end with that."""
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
        )
    if done.returncode:
        sys.stderr.writelines(log.read_text(encoding="utf-8").splitlines(True)[-30:])
        sys.exit(f"coverage: `{' '.join(map(str, command))}` failed; all of its output is in {log}")


def make_environment(copy: Path, environment: Path) -> Path:
    """Make a virtual environment of the packages of this checkout and the code of the copy; return its interpreter."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", environment], check=True)
    paths = {key: str(environment) for key in ("base", "platbase", "installed_base")}
    site = Path(sysconfig.get_path("purelib", vars=paths))
    # As lines of a .pth file, so that those of .venv, which lead to the tree itself, are not read.
    lines = [str(copy / "src"), sysconfig.get_path("purelib"), "import coverage_start"]
    (site / "measured.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copyfile(ROOT / "scripts" / "coverage_start.py", site / "coverage_start.py")
    return python


def run_tests(copy: Path, folder: Path, python: Path, selected: list[str]) -> int:
    """Run the tests in the copy; return the exit status of pytest."""
    for old in [*folder.glob("data*"), *(folder / "native").rglob("*.gcda")]:
        old.unlink()
    settings = folder / "settings.ini"
    settings.write_text(
        "[run]\n"
        f"branch = true\nparallel = true\ndata_file = {folder / 'data'}\nsource = {copy / 'src' / 'spdl'}\n"
        f"omit = {copy / 'src' / 'spdl' / 'dataloader' / '_signatures.py'}\n"  # only type checkers import it
        # Forked processes start a new measurement, and processes that end by os._exit keep their data. A warning would
        # fail the running test.
        "patch = _exit,fork\ndisable_warnings = no-data-collected,module-not-measured,module-not-imported\n"
        "[report]\nexclude_also =\n" + "".join(f"    {line}\n" for line in _EXCLUDED),
        encoding="utf-8",
    )
    is_selection = any(not word.startswith("-") or word.startswith(("-k", "-m", "-n")) for word in selected)
    spread = [] if is_selection else ["-n", "auto", "--dist", "worksteal"]
    return subprocess.run(
        [python, "-m", "pytest", "--timeout=900", *spread, *selected],
        cwd=copy,
        env={**os.environ, "COVERAGE_PROCESS_START": str(settings), "SPDL_COVERED": str(copy)},
        check=False,
    ).returncode


def python_report(copy: Path, folder: Path, python: Path) -> dict[str, Covered]:
    """What coverage.py has seen, by file."""
    command = [python, "-m", "coverage"]
    settings = f"--rcfile={folder / 'settings.ini'}"
    logged([*command, "combine", settings, "--quiet"], folder / "combine.log", copy)
    target = folder / "python.json"
    logged([*command, "json", settings, "--quiet", "-o", target], folder / "combine.log", copy)
    files = json.loads(target.read_text(encoding="utf-8"))["files"]
    found = {}
    for name, measured in files.items():
        of = measured["summary"]
        found[relative(name, copy)] = Covered(
            of["num_statements"], of["covered_lines"], of["num_branches"], of["covered_branches"]
        )
    return found


def native_report(copy: Path, folder: Path) -> dict[str, Covered]:
    """What gcov has counted, by file. Branches that only an exception takes are left out."""
    target = folder / "native.json"
    command = [sys.executable, "-m", "gcovr", "--root", copy, "--object-directory", folder / "native"]
    command += ["--filter", f"{copy}/native/", "--exclude", f"{copy}/native/(tests|fuzz)/"]
    # CMake's compiler tests.
    command += ["--gcov-exclude-directories", r".*/CompilerId\w+"]
    command += ["--exclude-throw-branches", "--exclude-unreachable-branches", "-j", str(os.cpu_count())]
    command += ["--gcov-executable", gcov_of(folder / "native"), "--json-summary", target, folder / "native"]
    logged(command, folder / "gcovr.log")
    files = json.loads(target.read_text(encoding="utf-8"))["files"]
    return {
        relative(each["filename"], copy): Covered(
            each["line_total"], each["line_covered"], each["branch_total"], each["branch_covered"]
        )
        for each in files
    }


def gcov_of(build: Path) -> str:
    """The tool that reads what the compiler of a build has written."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    compiler = Path(next(line.partition("=")[2] for line in cache if line.startswith("CMAKE_CXX_COMPILER:")))
    if "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout:
        return "llvm-cov gcov"
    own = compiler.with_name(compiler.name.replace("g++", "gcov").replace("c++", "gcov"))
    return str(own) if own.exists() else "gcov"


def relative(name: str, copy: Path) -> str:
    return os.path.relpath(copy / name, copy)


def table(report: Report) -> str:
    """One line for each package, those with native code last."""
    head = f"{'':22}{'lines':>20}{'branches':>21}"
    rows = [
        *rows_of("Python", ((package_of(name), each) for name, each in report.python.items())),
        "",
        *rows_of("native", (("/".join(name.split("/")[:2]), each) for name, each in report.native.items())),
    ]
    return "\n".join([head, *rows])


def package_of(name: str) -> str:
    """``spdl.io`` for what is in its folder; ``spdl`` for single modules."""
    parts = Path(name).parts[1:]
    return ".".join(parts[:2] if len(parts) > 2 else parts[:1])


def rows_of(title: str, files: Iterable[tuple[str, Covered]]) -> list[str]:
    packages: dict[str, Covered] = {}
    total = Covered()
    for package, covered in files:
        packages.setdefault(package, Covered()).add(covered)
        total.add(covered)
    return [row(name, packages[name]) for name in sorted(packages)] + [row(title, total)]


def row(name: str, of: Covered) -> str:
    return f"{name:22}{share(of.lines, of.num_lines)}  {share(of.branches, of.num_branches)}"


def share(covered: int, number: int) -> str:
    percent = f"{100 * covered / number:.1f} %" if number else "-"
    return f"{percent:>8}{f'{covered}/{number}':>12}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
