"""Make batches of token ids from texts, in three ways: padded by budget, padded by length, or packed into rows.

The example trains a byte-level BPE of ``tokenizers`` (the extra ``text``) on the docstrings of the standard library.
``encode_batch`` releases the GIL, but ``encode`` does not. So texts are tokenised in chunks, and the threads of the
pipeline run in parallel. The order of the documents is kept, so each run makes the same batches.

A packed row holds several documents. ``segment_ids`` says which document each token belongs to, and ``positions``
restarts at 0 for each document. A model that uses both computes the same results as for separate documents.
"""

import ast
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# The pipeline has its own threads, so tokenizers must not start more. Set this before tokenizers is first used.
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.batching import CostBudget, LengthBuckets, PackedRow, PackSequences
from spdl.pipeline.defs import Aggregator

VOCABULARY = 1000
#: Token slots in a batch, for each way to make batches.
BUDGET = 4096
ROW = 512
PAD = 0

MODULES = ("argparse", "ast", "datetime", "decimal", "difflib", "doctest", "inspect", "mailbox", "optparse", "pydoc",
           "random", "shutil", "statistics", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "turtle",
           "typing")  # fmt: skip


class Batch(NamedTuple):
    """The input of a model. All arrays are ``int32`` of shape ``(rows, tokens)``."""

    tokens: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray


def docstrings() -> Iterator[str]:
    """Yield English texts of one line to a few pages."""
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        for node in ast.walk(ast.parse(Path(spec.origin).read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                yield text


def train(documents: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


class Tokenise:
    """Turns texts into token ids, one ``int32`` array per text. Truncates texts that are longer than a row."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.enable_truncation(ROW)

    def __call__(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]


def pad(sequences: list[np.ndarray]) -> Batch:
    """Make a batch with one document per row, padded to the longest document."""
    shape = len(sequences), max(map(len, sequences))
    batch = Batch(np.full(shape, PAD, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32))
    for row, sequence in enumerate(sequences):
        batch.tokens[row, : len(sequence)] = sequence
        batch.segment_ids[row, : len(sequence)] = 1
        batch.positions[row, : len(sequence)] = np.arange(len(sequence))
    return batch


def stack(rows: list[PackedRow]) -> Batch:
    """Stack packed rows. With torch, convert each array with ``torch.from_numpy``, without a copy."""
    return Batch(
        np.stack([row.tokens for row in rows]),
        np.stack([row.segment_ids for row in rows]),
        np.stack([row.positions for row in rows]),
    )


def attention_mask(batch: Batch) -> np.ndarray:
    """Return the attention mask, of shape ``(rows, tokens, tokens)``.

    A token attends to itself and to earlier tokens of the same document. Attention kernels for packed sequences take
    ``PackedRow.cu_seqlens`` instead and need no mask.
    """
    ids = batch.segment_ids
    same = (ids[:, :, None] == ids[:, None, :]) & (ids[:, :, None] != 0)
    return same & np.tri(ids.shape[1], dtype=bool)


def batches(documents: list[str], tokenizer: Tokenizer, way: str) -> Iterator[Batch]:
    aggregators: dict[str, Aggregator[Any, Any]] = {
        "by budget": CostBudget(BUDGET, padded=True),
        "by length": LengthBuckets((16, 32, 64, 128, 256), max_cost=BUDGET),
        "packed": PackSequences(ROW, pad_id=PAD),
    }
    builder = (
        PipelineBuilder()
        .add_source(documents)
        .aggregate(64)
        .pipe(Tokenise(tokenizer), concurrency=4, output_order="input")
        .disaggregate()
        .aggregate(aggregators[way])
    )
    if way == "packed":
        builder.aggregate(BUDGET // ROW).pipe(stack)
    else:
        builder.pipe(pad)
    pipeline = builder.add_sink(2).build(num_threads=4)
    with pipeline.auto_stop():
        yield from pipeline


def main() -> None:
    documents = list(docstrings())
    tokenizer = train(documents)
    for way in ("by budget", "by length", "packed"):
        made = list(batches(documents, tokenizer, way))
        num_places = sum(batch.tokens.size for batch in made)
        num_tokens = sum(np.count_nonzero(batch.segment_ids) for batch in made)
        if way == "by budget":
            print(f"{len(documents)} documents, {num_tokens} tokens")
        padding = 1 - num_tokens / num_places
        print(f"{way}: {len(made)} batches, at most {max(b.tokens.size for b in made)} places, {padding:.0%} padding")

    batch = made[0]
    row = int(batch.segment_ids.max(axis=1).argmax())  # the one with the most documents
    tokens, ids = batch.tokens[row], batch.segment_ids[row]
    looking, seen = np.nonzero(attention_mask(batch)[row])
    found = [tokenizer.decode(tokens[ids == number].tolist()) in documents for number in range(1, ids.max() + 1)]
    print(
        f"{batch.tokens.dtype} {batch.tokens.shape}, with {len(found)} documents in row {row}, all found: {all(found)}"
    )
    print(f"each token attends only to its own document: {bool((ids[looking] == ids[seen]).all())}")


if __name__ == "__main__":
    main()
