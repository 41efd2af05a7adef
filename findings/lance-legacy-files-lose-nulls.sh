#!/usr/bin/env bash
# pylance 14.0.2: a table written with data_storage_version="legacy" has zeros where it had nulls.
#
# Guess: an older version of the storage is slower or larger, or refuses what it can't hold.
# Seen: null integers, floats and timestamps come back as 0, null booleans as False and null lists as empty ones, without a
# warning; null strings are kept. `IS NULL` finds none of the zeros. "2.0", "2.1" and "stable" keep all nulls.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pylance==14.0.2 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import lance, pyarrow

table = pyarrow.table(
    {
        "integer": pyarrow.array([1, None], pyarrow.int64()),
        "float": pyarrow.array([1.5, None]),
        "bool": pyarrow.array([True, None]),
        "list": pyarrow.array([[1], None]),
        "string": pyarrow.array(["a", None]),
    }
)
print("pylance", lance.__version__, "pyarrow", pyarrow.__version__)
seen = {}
for storage in ("legacy", "2.0", "2.1", "stable"):
    dataset = lance.write_dataset(table, f"{storage}.lance", data_storage_version=storage)
    seen[storage] = dataset.to_table().to_pylist()[1], dataset.count_rows("integer IS NULL")
    print(f"{storage:7} second row {seen[storage][0]}, rows with a null integer: {seen[storage][1]}")
lost = {"integer": 0, "float": 0.0, "bool": False, "list": [], "string": None}
kept = dict.fromkeys(lost)
sys.exit(0 if list(seen.values()) == [(lost, 0), (kept, 1), (kept, 1), (kept, 1)] else "changed")
PYTHON
