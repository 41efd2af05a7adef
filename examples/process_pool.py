"""A stage that holds the GIL runs in a process pool, with a resource made once per process; the others use threads.

The resource, here a table that takes time to build, is made by the pool's ``initializer`` and kept in a global of the
worker process. Only the op and the items of that stage cross a process boundary, so only
they must be picklable.
"""

import multiprocessing
import zlib
from concurrent.futures import ProcessPoolExecutor

from spdl.pipeline import PipelineBuilder

NUM_PROCESSES = 2

#: The resource of a worker process; the main process does not have it.
vocabulary: "Vocabulary"


class Vocabulary:
    """A stand-in for a slow, unpicklable resource: a tokenizer, a database connection, a model."""

    def __init__(self, words: list[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(words)}

    def encode(self, text: str) -> list[int]:
        return [self._numbers[word] for word in text.split()]


def init_vocabulary(*words: str) -> None:
    """Run once in each worker process. Its arguments are pickled; the resource need not be picklable."""
    global vocabulary
    vocabulary = Vocabulary(list(words))


def tokenize(text: str) -> list[int]:
    """Run in a worker process: it is pure Python, so threads would wait for each other."""
    return vocabulary.encode(text)


def decompress(data: bytes) -> str:
    """Run in a thread: zlib releases the GIL, so threads run in parallel."""
    return zlib.decompress(data).decode()


def pad(batch: list[list[int]]) -> list[list[int]]:
    """Pad the rows of a batch to one length."""
    length = max(map(len, batch))
    return [row + [0] * (length - len(row)) for row in batch]


def main() -> None:
    words = ["<pad>", "a", "cat", "dog", "sat", "on", "the", "mat"]
    texts = [" ".join(words[1 + (i + j) % 7] for j in range(1 + i % 5)) for i in range(64)]
    documents = [zlib.compress(text.encode()) for text in texts]

    # "spawn" and "forkserver" start clean processes. "fork" would copy a process whose threads hold locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(NUM_PROCESSES, context, init_vocabulary, tuple(words)) as executor:
        pipeline = (
            PipelineBuilder()
            .add_source(documents)
            .pipe(decompress, concurrency=2)
            .pipe(tokenize, executor=executor, concurrency=NUM_PROCESSES)
            .aggregate(16)
            .pipe(pad)
            .add_sink(3)
            .build(num_threads=2)
        )
        num_rows = num_tokens = 0
        with pipeline.auto_stop():
            for batch in pipeline:
                num_rows += len(batch)
                num_tokens += sum(token > 0 for row in batch for token in row)
    print(f"{num_rows} documents, {num_tokens} tokens, from {NUM_PROCESSES} processes")


# Worker processes import this file again; only the main process may start the work.
if __name__ == "__main__":
    main()
