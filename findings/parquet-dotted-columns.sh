#!/usr/bin/env bash
# pyarrow 26.0.1: what columns=["s.q"] selects from a Parquet file depends on the function that is called.
#
# Guess: a name selects the column with this name, and all readers of one library name the result alike.
# Seen: with a struct "s" that has a field "q", and a separate column whose name is "s.q", ParquetFile.read returns both
# columns, and read_table the second alone. For a struct only, ParquetFile.read keeps the nesting
# ({"s": {"q": 1}}), and pyarrow.parquet.read_table drops it ({"q": 1}), so that the fields "s.q" and "t.q" become two
# columns with one name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder/f.parquet" <<'PYTHON'
import sys
import pyarrow as pa, pyarrow.parquet as pq

path = sys.argv[1]
pq.write_table(pa.table({"a": [{"b": 1, "c": 2}], "a.b": [3], "s": [{"q": 4, "r": 5}], "t": [{"q": 6}]}), path)
print("pyarrow", pa.__version__)
seen = {}
for columns in (["a.b"], ["s.q"], ["s.q", "t.q"]):
    seen["ParquetFile", *columns] = pq.ParquetFile(path).read(columns=columns).column_names
    seen["read_table", *columns] = pq.read_table(path, columns=columns).column_names
for key, names in seen.items():
    print(*key, "->", names)
expected = {
    ("ParquetFile", "a.b"): ["a", "a.b"],
    ("read_table", "a.b"): ["a.b"],
    ("ParquetFile", "s.q"): ["s"],
    ("read_table", "s.q"): ["q"],
    ("ParquetFile", "s.q", "t.q"): ["s", "t"],
    ("read_table", "s.q", "t.q"): ["q", "q"],
}
sys.exit("changed" if seen != expected else 0)
PYTHON
