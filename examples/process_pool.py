"""Run one stage in a process pool, because it holds the GIL; the other stages run in threads.

The stage needs a resource, here a table that is slow to build. The pool's ``initializer`` builds it once per worker
process and keeps it in a global variable there. Only the op and the items of this stage are sent to the worker
processes, so only they must be picklable.
"""

import multiprocessing
import zlib
from concurrent.futures import ProcessPoolExecutor

from spdl.pipeline import PipelineBuilder

NUM_PROCESSES = 2

#: The resource. It exists only in the worker processes.
vocabulary: "Vocabulary"


class Vocabulary:
    """A stand-in for a slow, unpicklable resource: a tokenizer, a database connection, a model."""

    def __init__(self, words: list[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(words)}

    def encode(self, text: str) -> list[int]:
        return [self._numbers[word] for word in text.split()]


def init_vocabulary(*words: str) -> None:
    """Runs once in each worker process. Its arguments are pickled; the resource need not be picklable."""
    global vocabulary
    vocabulary = Vocabulary(list(words))


def tokenize(text: str) -> list[int]:
    """Runs in a worker process: pure Python code holds the GIL, so threads would not run it in parallel."""
    return vocabulary.encode(text)


def decompress(data: bytes) -> str:
    """Runs in a thread: zlib releases the GIL, so threads run in parallel."""
    return zlib.decompress(data).decode()


def pad(batch: list[list[int]]) -> list[list[int]]:
    """Pad the rows of a batch to one length."""
    length = max(map(len, batch))
    return [row + [0] * (length - len(row)) for row in batch]


def main() -> None:
    words = ["<pad>", "a", "cat", "dog", "sat", "on", "the", "mat"]
    texts = [" ".join(words[1 + (i + j) % 7] for j in range(1 + i % 5)) for i in range(64)]
    documents = [zlib.compress(text.encode()) for text in texts]

    # "spawn" and "forkserver" start clean processes. "fork" would copy this process while its threads may hold locks.
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


# Worker processes import this file, and must not run main().
if __name__ == "__main__":
    main()
