"""The loaders and the cells. Adapters run in their own processes, so this module imports nothing.

An adapter is a module with ``versions() -> dict[str, str]`` and ``make(photos, num_workers, batch_size)``, which
returns an endless iterable over ``(images, labels)``, in order: tensors ``(batch, 3, 224, 224)`` of ``uint8`` and of
``int64``, or single samples if ``batch_size`` is ``None``. It starts nothing before it is iterated.
"""

from dataclasses import dataclass

SIZE = 224
WORKERS = (1, 2, 4, 8)
BATCHES = (32, 64, 128, 256)
#: Memory is measured at both ends only.
MEMORY_BATCHES = (BATCHES[0], BATCHES[-1])
NUM_PHOTOS, NUM_PHOTOS_QUICK = 384, 8
TORCH, LAST = "torch", "io"


@dataclass(frozen=True, slots=True)
class Loader:
    """A row of the tables, a line of the plots.

    Attributes:
        name: The name in ``--peers``.
        title: The name for readers.
        least_psnr: The minimum PSNR of its pictures against torch's, in dB; ``None`` if they are equal byte for byte.
        has_samples: Whether it takes part without batches.
    """

    name: str
    title: str
    adapter: str
    least_psnr: float | None = None
    has_samples: bool = False


LOADERS = (
    Loader(TORCH, "torch.utils.data.DataLoader", "torch_loader", has_samples=True),
    Loader("drop-in", 'step 1: get_pytorch_dataloader, workers="thread"', "drop_in"),
    Loader("threads", "steps 1 and 2: dataset in threads, default_collate", "threads", has_samples=True),
    # FFmpeg's scaler and its conversion of colours differ from Pillow's. Half a pixel stays above 28 dB, a whole
    # one and another order of channels do not (benchmarks/images).
    Loader("frames", "step 3: spdl.io, frame by frame", "io_frames", least_psnr=28.0),
    # Half a level from Pillow on average (docs/reference/images.md); 40 dB are two and a half levels.
    Loader(LAST, "step 3: load_image_batch", "io_batch", least_psnr=40.0),
)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A batch size and a number of workers; a size of 0 means single samples."""

    batch: int
    workers: int

    @property
    def name(self) -> str:
        return f"{self.batch}x{self.workers}"


CELLS = tuple(Cell(batch, workers) for batch in (0, *BATCHES) for workers in WORKERS)


def loaders_in(cell: Cell) -> list[str]:
    """The names of the loaders that take part in a cell."""
    return [loader.name for loader in LOADERS if cell.batch > 0 or loader.has_samples]


#: The values of ``workers`` whose epochs are compared, each a peer of its own.
MODES = ("thread", "process", "auto")
#: Data sets of these epochs, and how many samples make an epoch of some seconds on two cores.
AUTO_DATASETS = {"photographs": 2400, "python": 3600}
