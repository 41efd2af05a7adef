"""Make the pictures of docs/guides/transforms.md: panels of ``load_image_batch`` with their arguments.

The photographs are Chelsea (by Stefan van der Walt) and a cup of coffee (by Rachel Michetti), which scikit-image ships;
both photographers gave them to the public domain (CC0). Pillow draws text and frames. The same versions of Pillow and
scikit-image give the same bytes, so ``--check`` is for deliberate changes of pixels, not for CI.

Usage: python scripts/make_transform_pictures.py [--check]
"""

import argparse
import importlib.util
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import spdl.io
from spdl.io import (
    AppliedTransform,
    CenterCrop,
    Crop,
    ImageTransform,
    LongerSide,
    RandomCrop,
    RandomResizedCrop,
    ShorterSide,
)

FOLDER = Path(__file__).resolve().parent.parent / "docs/guides/pictures"
INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")
# Chelsea's eyes: left, top, right, bottom.
EYES = ((134, 84, 209, 148), (294, 108, 344, 165))
COLORS = ("#ff4d4d", "#3fb950", "#58a6ff", "#f2cc60")
GAP, LINE = 10, 16  # pixels between panels, and to a line of text

Pixels = NDArray[np.uint8]


def photograph(name: str) -> Image.Image:
    """A photograph from scikit-image, read without importing it."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise SystemExit("make_transform_pictures: install scikit-image with pip, whose photographs it takes")
    return Image.open(Path(spec.origin).parent / "data" / f"{name}.png").convert("RGB")


def jpeg(picture: Image.Image, **options: Any) -> bytes:
    """Encode as cameras do: 4:2:0, quality 90."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=90, subsampling="4:2:0", **options)
    return stream.getvalue()


def load(data: bytes, transform: ImageTransform, seed: int = 0) -> tuple[Pixels, AppliedTransform]:
    """Transform one picture; return the result and the applied transform."""
    batch = spdl.io.load_image_batch([data], transform=transform, seeds=[seed])
    applied = batch.applied[0]
    assert applied is not None
    return spdl.io.to_numpy(batch)[0], applied


def framed(pixels: Pixels, boxes: Any, colors: Sequence[str]) -> Image.Image:
    """The picture with boxes drawn on it; boxes without area are left out."""
    panel = Image.fromarray(pixels)
    draw = ImageDraw.Draw(panel)
    for (x0, y0, x1, y1), color in zip(boxes, colors, strict=True):
        if x1 - x0 >= 1 and y1 - y0 >= 1:
            draw.rectangle((round(x0), round(y0), round(x1) - 1, round(y1) - 1), outline=color, width=2)
    return panel


def grid(panels: Sequence[tuple[str, Image.Image]], num_columns: int) -> Image.Image:
    """Panels in rows, each with its text above; columns and rows as wide and high as they need."""
    font = ImageFont.load_default(size=13)
    num_rows = math.ceil(len(panels) / num_columns)
    widths = [max(panel.width for _, panel in panels[column::num_columns]) for column in range(num_columns)]
    rows = [panels[row * num_columns : (row + 1) * num_columns] for row in range(num_rows)]
    texts = [LINE * max(text.count("\n") + 1 for text, _ in row) + 4 for row in rows]
    heights = [text + max(panel.height for _, panel in row) for row, text in zip(rows, texts, strict=True)]
    sheet = Image.new("RGB", (sum(widths) + GAP * (num_columns + 1), sum(heights) + GAP * (num_rows + 1)), "white")
    draw = ImageDraw.Draw(sheet)
    y = GAP
    for row, text_height, height in zip(rows, texts, heights, strict=True):
        x = GAP
        for (text, panel), width in zip(row, widths, strict=False):
            draw.multiline_text((x, y), text, "black", font, spacing=2)
            sheet.paste(panel, (x, y + text_height))
            x += width + GAP
        y += height + GAP
    return sheet


def enlarged(pixels: Pixels, factor: int) -> Image.Image:
    """Each pixel as a square."""
    return Image.fromarray(pixels.repeat(factor, 0).repeat(factor, 1))


def crops() -> Image.Image:
    """Every kind of crop and resize, with transformed boxes."""
    chelsea = photograph("chelsea")
    data = jpeg(chelsea)
    size = 192
    transforms: dict[str, ImageTransform] = {
        "no resize, no crop": ImageTransform(size),
        "resize=ShorterSide(208),\ncrop=CenterCrop()": ImageTransform(size, resize=ShorterSide(208), crop=CenterCrop()),
        "resize=LongerSide()": ImageTransform(size, resize=LongerSide()),
        "resize=LongerSide('top_left'),\nfill=128": ImageTransform(size, resize=LongerSide("top_left"), fill=128),
        "crop=CenterCrop()": ImageTransform(size, crop=CenterCrop()),
        "crop=RandomCrop()": ImageTransform(size, crop=RandomCrop()),
        "resize=ShorterSide(208),\ncrop=RandomCrop()": ImageTransform(size, resize=ShorterSide(208), crop=RandomCrop()),
        "crop=Crop(66, 116, 116, 245),\nresize=LongerSide()": ImageTransform(
            size, crop=Crop(66, 116, 116, 245), resize=LongerSide()
        ),
        "crop=Crop(66, 116, 116, 245),\nflip=1": ImageTransform(size, crop=Crop(66, 116, 116, 245), flip=1),
    }
    # The picture itself first, small enough for its column.
    small, applied = load(data, ImageTransform((192, 289)))
    panels = [(f"the picture, {chelsea.width} x {chelsea.height}", framed(small, applied.boxes(EYES), COLORS[:2]))]
    for text, transform in transforms.items():
        pixels, applied = load(data, transform, seed=3)
        panels.append((text, framed(pixels, applied.boxes(EYES), COLORS[:2])))
    return grid(panels, 5)


def random_resized_crops() -> Image.Image:
    """The crops of four seeds, and their results."""
    data = jpeg(photograph("chelsea"))
    transform = ImageTransform(216, crop=RandomResizedCrop(), flip=0.5)
    whole, applied = load(data, ImageTransform((287, 432)))
    rectangles, panels = [], []
    for seed, color in enumerate(COLORS):
        pixels, done = load(data, transform, seed)
        top, left, height, width = done.crop
        rectangles.append((left, top, left + width, top + height))
        text = f"seed {seed}{', flipped' if done.flip else ''}"
        panels.append((text, framed(pixels, [(0, 0, 216, 216)], [color])))
    first = framed(whole, applied.boxes(rectangles), COLORS)
    return stacked([grid([("crop=RandomResizedCrop(), flip=0.5", first)], 1), grid(panels, 4)])


def stacked(sheets: Sequence[Image.Image]) -> Image.Image:
    sheet = Image.new("RGB", (max(each.width for each in sheets), sum(each.height for each in sheets)), "white")
    y = 0
    for each in sheets:
        sheet.paste(each, (0, y))
        y += each.height
    return sheet


def interpolations() -> Image.Image:
    """A photograph made six times smaller, and a detail made six times larger, by each filter."""
    data = jpeg(photograph("chelsea"))
    smaller, larger = [], []
    for name in INTERPOLATIONS:
        transform: Any = ImageTransform((50, 75), interpolation=name, exact=True)
        smaller.append((f"{name}\n451 x 300 to 75 x 50, shown x 3", enlarged(load(data, transform)[0], 3)))
        detail = replace(transform, size=(225, 225), crop=Crop(92, 154, 36, 36))
        larger.append(("36 x 36 to 225 x 225", Image.fromarray(load(data, detail)[0])))
    return grid(smaller + larger, 5)


def fast_and_exact() -> Image.Image:
    """The difference of the fast way from the exact one, times sixteen."""
    data = jpeg(photograph("coffee"))
    panels = []
    for text, transform, factor in (
        (
            "bilinear, ShorterSide(256), CenterCrop()",
            ImageTransform(224, resize=ShorterSide(256), crop=CenterCrop()),
            1,
        ),
        (
            "bicubic, ShorterSide(112), CenterCrop(), shown x 2",
            ImageTransform(112, resize=ShorterSide(112), crop=CenterCrop(), interpolation="bicubic"),
            2,
        ),
        (
            "bicubic, Crop(215, 310, 110, 110)",
            ImageTransform(224, crop=Crop(215, 310, 110, 110), interpolation="bicubic"),
            1,
        ),
    ):
        fast, exact = load(data, transform)[0], load(data, replace(transform, exact=True))[0]
        distance = fast.astype(int) - exact
        psnr = 10 * math.log10(255**2 / (distance**2).mean())
        shown = np.clip(128 + 16 * distance, 0, 255).astype(np.uint8)
        told = f"{psnr:.1f} dB,\nin levels: mean {abs(distance).mean():.2f}, most {abs(distance).max()}"
        panels += [
            (f"{text}\nexact=True", enlarged(exact, factor)),
            ("\nexact=False, the default", enlarged(fast, factor)),
            (f"difference x 16: {told}", enlarged(shown, factor)),
        ]
    return grid(panels, 3)


def orientations() -> Image.Image:
    """The eight EXIF orientations, and the loaded results."""
    chelsea = photograph("chelsea").resize((300, 200), Image.Resampling.LANCZOS)
    turns = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    fit = ImageTransform(100, resize=LongerSide(), fill=224)
    stored, upright = [], []
    for orientation, turn in turns.items():
        exif = Image.Exif()
        exif[274] = orientation
        data = jpeg(chelsea if turn is None else chelsea.transpose(turn), exif=exif)
        stored.append((f"EXIF {orientation}\norient=False", Image.fromarray(load(data, replace(fit, orient=False))[0])))
        upright.append(("orient=True", Image.fromarray(load(data, fit)[0])))
    return grid(stored + upright, 8)


PICTURES = {
    "crops.jpg": crops,
    "random_resized_crops.jpg": random_resized_crops,
    "interpolations.jpg": interpolations,
    "fast_and_exact.jpg": fast_and_exact,
    "orientations.jpg": orientations,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the pictures of docs/guides/transforms.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if one of them would change")
    is_check = parser.parse_args().check
    changed = []
    for name, make in PICTURES.items():
        stream = io.BytesIO()
        make().save(stream, "JPEG", quality=80, subsampling="4:4:4", optimize=True)
        path = FOLDER / name
        if not path.exists() or path.read_bytes() != stream.getvalue():
            changed.append(name)
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(stream.getvalue())
            print(f"{path.name}: {len(stream.getvalue())} bytes")
    if is_check and changed:
        print(f"out of date: {', '.join(changed)}")
    return 1 if is_check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
