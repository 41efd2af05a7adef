#!/usr/bin/env bash
# obstore 0.12.1 (object_store's LocalFileSystem): local files whose names end in "#" and digits do not exist.
#
# Guess: the listing of a folder holds all files in it, or fails on a name that the store can't have.
# Seen: "b.tar#1" and "c#12" are left out of `list()` and `list_with_delimiter()` without an error, since that ending is
# the store's own mark of unfinished uploads. Reading one by its name is an error, so is writing one. "e#x" and
# "f#1.tar" are listed. A data set with such names is shorter than its folder, and nothing says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install obstore==0.12.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import pathlib, sys
import obstore
from obstore.store import LocalStore

root = pathlib.Path(sys.argv[1], "data")
root.mkdir()
for name in ("a.tar", "b.tar#1", "c#12", "e#x", "f#1.tar"):
    (root / name).write_bytes(b"x")
store = LocalStore(root)
listed = sorted(meta["path"] for page in store.list() for meta in page)
shallow = sorted(meta["path"] for meta in store.list_with_delimiter()["objects"])
try:
    store.get("b.tar#1")
    read = "read"
except Exception as error:
    read = type(error).__name__
print("obstore", obstore.__version__)
print("in the folder:", sorted(path.name for path in root.iterdir()))
print("listed:       ", listed, "| get of b.tar#1:", read)
sys.exit(0 if listed == shallow == ["a.tar", "e#x", "f#1.tar"] and read == "GenericError" else "changed")
PYTHON
