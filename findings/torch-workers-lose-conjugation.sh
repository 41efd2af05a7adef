#!/usr/bin/env bash
# torch 2.13.0: tensors that are conjugated lazily come out of DataLoader's workers with the wrong sign.
#
# Guess: `x.conj()`, `x.mH` or `x.conj().imag` are values like any others, so a batch is the same with and without workers.
# Seen: conj() only sets a flag on the tensor. What crosses between processes is its storage without the flag: with
# num_workers=1 and a collate_fn of one's own, 1-2j arrives as 1+2j, and imag has the other sign, without a word. With the
# default collate_fn the same dataset is a RuntimeError in workers and right without them. resolve_conj() in the dataset helps.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install torch==2.13.0 numpy
cd "$folder"
cat > try.py <<'PYTHON'
import sys
import torch
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        x = torch.tensor([1 + 2j, 3 - 4j])
        return {"conj": x.conj(), "imag": x.conj().imag, "resolved": x.conj().resolve_conj()}


def as_they_are(samples):
    return samples[0]


def batch(workers, collate):
    try:
        found = next(iter(DataLoader(Spectra(), num_workers=workers, collate_fn=collate)))
    except RuntimeError as error:
        return f"RuntimeError: {str(error).splitlines()[-1]}"
    return {name: values.flatten().tolist() for name, values in found.items()}


if __name__ == "__main__":
    print("torch", torch.__version__)
    seen = {}
    for collate in (as_they_are, None):
        for workers in (0, 1):
            seen[workers, collate is None] = batch(workers, collate)
            print(f"num_workers={workers}, {'default' if collate is None else 'own'} collate_fn:", seen[workers, collate is None])
    right = {"conj": [1 - 2j, 3 + 4j], "imag": [-2.0, 4.0], "resolved": [1 - 2j, 3 + 4j]}
    wrong = {"conj": [1 + 2j, 3 - 4j], "imag": [2.0, -4.0], "resolved": [1 - 2j, 3 + 4j]}
    expected = seen[0, False] == seen[0, True] == right and seen[1, False] == wrong and "Error" in seen[1, True]
    sys.exit(0 if expected else "changed")
PYTHON
"$folder/venv/bin/python" -W ignore try.py
