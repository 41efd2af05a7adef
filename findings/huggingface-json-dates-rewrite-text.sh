#!/usr/bin/env bash
# datasets 5.2.0 with pyarrow 26.0.1: a text that looks like a date is rewritten by the JSON reader.
#
# Guess: a JSON string stays the string that it is; types are at most inferred from numbers.
# Seen: of each file, a column whose texts all look like dates becomes a timestamp. Alone, it gives `datetime`; after a file
# with other texts it is cast back, so that the text "2020-01-01" arrives as "2020-01-01 00:00:00", without a warning; before
# such a file, the second file fails. Whether a text is kept depends on its neighbours in the file and on the order of files.
# `features=` given by hand does not keep it: the file is parsed first and cast then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install datasets==5.2.0 pyarrow==26.0.1
cd "$folder"
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" - <<'PYTHON'
import json, sys
import datasets, pyarrow

files = {"dates.jsonl": ["2020-01-01", "1999-12-31"], "mixed.jsonl": ["2020-01-01", "hello"]}
for name, texts in files.items():
    with open(name, "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def read(*names, **options):
    stream = datasets.load_dataset("json", data_files=list(names), split="train", streaming=True, **options)
    try:
        return [str(row["text"]) if isinstance(row["text"], str) else type(row["text"]).__name__ for row in stream]
    except Exception as error:
        return type(error).__name__


print("datasets", datasets.__version__, "pyarrow", pyarrow.__version__)
seen = {
    "dates alone": read("dates.jsonl"),
    "mixed, dates": read("mixed.jsonl", "dates.jsonl"),
    "dates, mixed": read("dates.jsonl", "mixed.jsonl"),
    "with features": read("dates.jsonl", "mixed.jsonl", features=datasets.Features({"text": datasets.Value("string")})),
}
for name, value in seen.items():
    print(f"{name:14} {value}")
want = [
    ["datetime", "datetime"],
    ["2020-01-01", "hello", "2020-01-01 00:00:00", "1999-12-31 00:00:00"],
    "ArrowInvalid",
]
ok = list(seen.values())[:3] == want and seen["with features"] == ["2020-01-01 00:00:00", "1999-12-31 00:00:00", "2020-01-01", "hello"]
sys.exit(0 if ok else "changed")
PYTHON
