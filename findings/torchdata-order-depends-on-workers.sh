#!/usr/bin/env bash
# torchdata 0.11.0 (torch 2.13.0): with one seed, StatefulDataLoader's order of a shuffled epoch depends on whether it has
# workers.
#
# Guess: it is a drop-in for torch's DataLoader, whose order for `torch.manual_seed(0)` and `shuffle=True` is the same for
# every num_workers, so that a run can change the number of workers and keep its order.
# Seen: torch's DataLoader gives one order for 0 and 2 workers. StatefulDataLoader gives neither of them that order: with
# workers, its first epoch is what it gives without workers as the second.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install torch==2.13.0 torchdata==0.11.0 numpy
cat > "$folder/main.py" <<'PYTHON'
import sys, warnings
warnings.simplefilter("ignore")
import torch, torchdata
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader


def epochs(loader, workers):
    torch.manual_seed(0)
    made = loader(range(8), batch_size=2, shuffle=True, num_workers=workers)
    return [[batch.tolist() for batch in made] for _ in range(2)]


if __name__ == "__main__":
    print("torch", torch.__version__, "torchdata", torchdata.__version__)
    plain, stateful = ({n: epochs(loader, n) for n in (0, 2)} for loader in (DataLoader, StatefulDataLoader))
    for name, runs in (("DataLoader", plain), ("StatefulDataLoader", stateful)):
        for workers, orders in runs.items():
            print(f"{name:20} {workers} workers, epochs 0 and 1:", *orders)
    seen = plain[0] == plain[2] and stateful[0] != plain[0] and stateful[2][0] == stateful[0][1] != stateful[0][0]
    sys.exit(0 if seen else "changed")
PYTHON
"$folder/venv/bin/python" "$folder/main.py"
