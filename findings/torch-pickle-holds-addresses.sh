#!/usr/bin/env bash
# torch 2.13.0: pickle.dumps of two equal tensors differs, so digests of pickles are useless as keys of a cache.
#
# Guess: pickling depends on the value, as for NumPy arrays and as torch.save does: equal tensors, equal bytes.
# Seen: a tensor's storage pickles itself by torch's old file format, which names each storage by its address in memory. Two
# equal tensors of one process differ, and so does the same program run again; the bytes of torch.save are equal, and so are
# NumPy's pickles.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io, pickle, re, sys
import numpy, torch


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


first, second = torch.arange(1000.0), torch.arange(1000.0)
assert torch.equal(first, second)
pickles = pickle.dumps(first), pickle.dumps(second)
keys = [re.findall(rb"\d{9,}", data) for data in pickles]
print("torch", torch.__version__, "NumPy", numpy.__version__)
print("pickles equal:", pickles[0] == pickles[1], "| numbers inside:", keys[0][:1], keys[1][:1])
print("torch.save equal:", saved(first) == saved(second))
arrays = pickle.dumps(first.numpy().copy()) == pickle.dumps(second.numpy().copy())
print("pickles of NumPy arrays equal:", arrays)
sys.exit(0 if pickles[0] != pickles[1] and keys[0] != keys[1] and saved(first) == saved(second) and arrays else "changed")
PYTHON
