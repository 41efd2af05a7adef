#!/usr/bin/env bash
# pyarrow 26.0.1: ParquetFile.read, read_row_group and iter_batches drop asked columns that the file lacks.
#
# Guess: a misspelt column is an error, as in pyarrow.parquet.read_table and pyarrow.dataset of the same release.
# Seen: the table comes without it. If no name is right, it has the rows and no columns.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import pyarrow, pyarrow.parquet

pyarrow.parquet.write_table(pyarrow.table({"image": [1, 2], "label": [3, 4]}), "t.parquet")
file = pyarrow.parquet.ParquetFile("t.parquet")
asked = ["image", "lable"]
got = {
    "read": file.read(columns=asked).column_names,
    "read_row_group": file.read_row_group(0, columns=asked).column_names,
    "iter_batches": next(file.iter_batches(columns=asked)).schema.names,
    "read, no name right": (file.read(columns=["lable"]).column_names, file.read(columns=["lable"]).num_rows),
}
try:
    got["read_table"] = pyarrow.parquet.read_table("t.parquet", columns=asked).column_names
except pyarrow.ArrowInvalid:
    got["read_table"] = "ArrowInvalid"
print("pyarrow", pyarrow.__version__, got)
seen = {name: ["image"] for name in ("read", "read_row_group", "iter_batches")}
sys.exit(0 if got == {**seen, "read, no name right": ([], 2), "read_table": "ArrowInvalid"} else "changed")
PYTHON
