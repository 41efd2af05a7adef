"""Import and use packages with their own FFmpeg or OpenCV, in the given order, in this process.

Usage: beside.py FOLDER PACKAGE...

Each package is imported and decodes a clip; at the end all decode it once more, the last one first. Each has to give
the frames that it gives alone (``beside.py FOLDER spdl`` and so on), which the printed digests are for.
"""

import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np


def _spdl(path: str) -> bytes:
    import spdl.io

    sound = spdl.io.to_numpy(spdl.io.load_audio(Path(path).with_name("opus.ogg")))
    image = spdl.io.to_numpy(spdl.io.load_image_batch([Path(path).with_name("picture.jpg")], width=64, height=64))
    return spdl.io.to_numpy(spdl.io.load_video(path)).tobytes() + sound.tobytes() + image.tobytes()


def _av(path: str) -> bytes:
    import av

    with av.open(path) as container:
        return b"".join(frame.to_ndarray(format="rgb24").tobytes() for frame in container.decode(video=0))


def _cv2(path: str) -> bytes:
    import cv2

    capture, frames = cv2.VideoCapture(path), []
    while True:
        found, frame = capture.read()
        if not found:
            break
        frames.append(frame)
    capture.release()
    picture = cv2.imread(str(Path(path).with_name("picture.jpg")))
    return np.stack(frames).tobytes() + picture.tobytes()


def _torchcodec(path: str) -> bytes:
    from torchcodec.decoders import VideoDecoder

    return b"".join(frame.numpy().tobytes() for frame in VideoDecoder(path))


def _torch(path: str) -> bytes:
    import torch

    return (torch.arange(6.0).reshape(2, 3) @ torch.ones(3, 2)).numpy().tobytes()


def _pil(path: str) -> bytes:
    from PIL import Image

    return Image.open(Path(path).with_name("picture.jpg")).convert("RGB").tobytes()


USES: dict[str, Callable[[str], bytes]] = {
    "spdl": _spdl,
    "av": _av,
    "cv2": _cv2,
    "torchcodec": _torchcodec,
    "torch": _torch,
    "PIL": _pil,
}


def main() -> None:
    """Use the packages, and print ``package digest`` for each."""
    path = str(Path(sys.argv[1], "h264.mp4"))
    order = sys.argv[2:]
    digests = {}
    for name in order:
        importlib.import_module(name)
        digests[name] = hashlib.sha256(USES[name](path)).hexdigest()
    for name in reversed(order):
        if hashlib.sha256(USES[name](path)).hexdigest() != digests[name]:
            sys.exit(f"{name} gives something else after {', '.join(order)} were used")
    for name, digest in sorted(digests.items()):
        print(name, digest)


if __name__ == "__main__":
    main()
