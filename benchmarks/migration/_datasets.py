"""The datasets of a torch user. Only the last step of the migration changes this code."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from ._cells import SIZE
from ._photos import Photos

Sample = tuple[Any, int]


class PhotoDataset(Dataset[Sample]):
    """What ``ImageNet(folder, transform=Compose([Resize((224, 224)), PILToTensor()]))`` of torchvision does, by Pillow
    alone: the default interpolation, the same strides of the tensor."""

    def __init__(self, photos: Photos) -> None:
        self._photos = photos

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> Sample:
        path, label = self._photos.sample(index)
        with Path(path).open("rb") as file, Image.open(file) as image:
            picture = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1), label


class PythonDataset(Dataset[Sample]):
    """Decoding and augmentation in pure Python, which hold the GIL all the time: some 2 ms a sample.

    A picture of 64x64 levels in runs of equal ones, as in PackBits, is decoded, mirrored or not, and made brighter.
    """

    SIDE = 64

    def __init__(self, num_samples: int) -> None:
        self._num_samples = num_samples
        generator = np.random.default_rng(0)
        self._encoded = [bytes(np.stack([np.full(2048, 2), generator.integers(0, 256, 2048)], axis=1).astype(np.uint8))
                         for _ in range(16)]  # fmt: skip

    def __len__(self) -> int:
        return self._num_samples

    def __getitem__(self, index: int) -> Sample:
        encoded = self._encoded[index % len(self._encoded)]
        levels: list[int] = []
        for place in range(0, len(encoded), 2):
            for _ in range(encoded[place]):
                levels.append(encoded[place + 1])
        brightness, side = 90 + index % 21, self.SIDE
        picture = []
        for top in range(0, len(levels), side):
            line = levels[top : top + side]
            if index % 2:
                line.reverse()
            for level in line:
                level = level * brightness // 100
                picture.append(min(level, 255))
        return torch.tensor(picture, dtype=torch.uint8).reshape(side, side), index % 10
