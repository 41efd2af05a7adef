"""The photographs, clip and sounds that the code of the documents reads."""

import shutil
from pathlib import Path

from PIL import Image

from .media import clip, pictures, tones

__all__ = ["put_media"]


def put_media(folder: Path) -> None:
    """Put ``photos/`` and ``clips/`` into a folder."""
    (folder / "photos").mkdir(parents=True)
    for number in range(40):
        Image.linear_gradient("L").convert("RGB").resize((60 + number, 80)).save(folder / f"photos/{number}.jpg")
    made = (
        clip("video.mp4", *pictures("320x240", "25"), *tones(16000), "-c:v", "libx264", "-g", "12", "-bf", "2",
             "-pix_fmt", "yuv420p", "-c:a", "aac"),
        clip("speech.wav", *tones(16000)),
        clip("music.flac", *tones(44100, expression="sin(440*2*PI*t)|sin(550*2*PI*t)")),
    )  # fmt: skip
    (folder / "clips").mkdir()
    for path in made:
        shutil.copy(path, folder / "clips")
