"""Put licences and sources of the bundled libraries into a wheel, check the wheel, and write it to a folder.

Usage: finish_wheel.py WHEEL LICENCES FOLDER
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

# Of SPDL and dav1d; of FFmpeg; of libheif and libde265; of libjpeg-turbo,
# libwebp and zstd; of zlib; of libdeflate; of libtiff.
LICENCE = (
    "BSD-2-Clause AND LGPL-2.1-or-later AND LGPL-3.0-or-later AND BSD-3-Clause AND IJG AND Zlib AND MIT AND libtiff"
)
MOST_BYTES = 12_000_000
# Libraries that manylinux guarantees, limited to those that we need.
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux.*\.so\.\d+")


def fail(problem: str) -> None:
    """End the program with the problem as its message."""
    sys.exit(f"finish_wheel: {problem}")


def add_licences(content: Path, licences: Path) -> None:
    """Copy the licences into the wheel's metadata, and name them there. Fail if those of a library are missing."""
    sources = (licences / "SOURCES.txt").read_text(encoding="utf-8")
    libraries = re.findall(r"^([a-z][\w.+-]*) \d\S*\n    sha256 ", sources, flags=re.MULTILINE)
    if "ffmpeg" not in libraries:
        fail("SOURCES.txt does not name the sources of FFmpeg")
    if without := [name for name in libraries if not any((licences / name).glob("*"))]:
        fail(f"there are no licences of {', '.join(without)}")
    (info,) = content.glob("*.dist-info")
    metadata = info / "METADATA"
    text = metadata.read_text(encoding="utf-8")
    found, count = re.subn(r"^License-Expression: .*$", f"License-Expression: {LICENCE}", text, flags=re.MULTILINE)
    if count != 1:
        fail("METADATA has no License-Expression")
    bundled = info / "licenses" / "bundled"
    shutil.copytree(licences, bundled)
    names = sorted(str(path.relative_to(info / "licenses")) for path in bundled.rglob("*") if path.is_file())
    lines = "".join(f"License-File: {name}\n" for name in names)
    head, line, rest = found.partition("License-File: LICENSE\n")
    if not line:
        fail("METADATA does not name our own LICENSE")
    metadata.write_text(head + line + lines + rest, encoding="utf-8")


def check_extension(path: Path) -> None:
    """Fail if an extension needs a library that may be missing, or exports more than its entry point."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic = next(section for section in elf.iter_sections() if isinstance(section, DynamicSection))
        needed = [str(tag.needed) for tag in dynamic.iter_tags("DT_NEEDED")]
        table = elf.get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        shown = [
            symbol.name
            for symbol in table.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
        ]
    if foreign := [name for name in needed if not SYSTEM_LIBRARIES.fullmatch(name)]:
        fail(f"{path.name} needs {', '.join(foreign)}")
    if others := [name for name in shown if not name.startswith("PyInit_")]:
        fail(f"{path.name} shows {len(others)} symbols, such as {', '.join(others[:5])}")


def main() -> None:
    """Finish one wheel."""
    wheel, licences, folder = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(
            [sys.executable, "-m", "wheel", "unpack", "--dest", name, wheel], check=True, capture_output=True
        )
        (content,) = Path(name).iterdir()
        extensions = list(content.rglob("*.so"))
        if len(extensions) != 3:
            fail(f"expected three extensions in {wheel.name}, found {len(extensions)}")
        for path in extensions:
            check_extension(path)
        add_licences(content, licences)
        packed = Path(name, "packed")
        packed.mkdir()
        subprocess.run(
            [sys.executable, "-m", "wheel", "pack", "--dest-dir", packed, content], check=True, capture_output=True
        )
        (finished,) = packed.iterdir()
        size = finished.stat().st_size
        if size > MOST_BYTES:
            fail(f"{finished.name} has {size} bytes, more than {MOST_BYTES}")
        print(f"{shutil.move(finished, folder / finished.name)}  {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
