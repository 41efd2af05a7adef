"""Make a folder of JPEGs cut from real photographs: like those of a training set, of a web page or of a phone.

Synthetic pictures compress and decode unlike photographs, so the pixels come from real ones: Debian's
``lomiri-wallpapers-16.04``, else those that scikit-image and scikit-learn ship. Each output is a random crop, scaled
down to its size. The same arguments give the same files; with a manifest of the arguments, a second run does nothing.

Usage: python scripts/make_photos.py [--count N] [--seed N] [--kind web|screen|phone] FOLDER
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from PIL import Image, ImageChops

TILE = 512  # of grain; no two blocks of a JPEG in it are alike
WALLPAPERS = Path("/usr/share/backgrounds")
# Where the wheels keep photographs, and which of their files are some.
SHIPPED = {
    "skimage": ("data", ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "retina.jpg", "cell.png")),
    "sklearn": ("datasets/images", ("china.jpg", "flower.jpg")),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What photographs of one origin have in common.

    Attributes:
        sizes: Width and height, with their frequencies.
        reduction: Bounds of the scale-down from crop to output; a smaller factor keeps the softness of large originals.
        quality: The quality of the encoder.
        least_pixels: The minimum size of originals, unless all are smaller.
        grain: The range, in levels, of the noise that a small sensor adds.
    """

    sizes: tuple[tuple[tuple[int, int], int], ...]
    reduction: tuple[float, float]
    quality: int
    least_pixels: int = 0
    grain: int = 0


KINDS = {
    # The shares of landscape and portrait in common sets of web photographs. With this reduction and quality a file has
    # about 65 KB, which is what the photographs of common sets have at this size.
    "web": Kind(
        (((500, 375), 60), ((500, 333), 15), ((375, 500), 15), ((333, 500), 5), ((500, 500), 5)), (2.5, 6.0), 95
    ),
    "screen": Kind((((1024, 768), 80), ((768, 1024), 20)), (1.5, 3.5), 92),
    # 12 megapixels, 3 to 5 MB. Phones store portrait as landscape with an orientation.
    "phone": Kind((((4000, 3000), 1),), (1.0, 1.0), 95, least_pixels=8_000_000, grain=10),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the files of a folder were made from; the same recipe gives the same files."""

    version: int
    kind: str
    count: int
    seed: int
    quality: int
    sources: list[tuple[str, int]]  # name and bytes


def find_photographs() -> list[Path]:
    """Photographs on this machine: the wallpapers, or else the pictures in the wheels."""
    wallpapers = sorted(WALLPAPERS.glob("*_by_*.jpg"))
    if wallpapers:
        return wallpapers
    found: list[Path] = []
    for package, (folder, names) in SHIPPED.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            paths = (Path(spec.origin).parent / folder / name for name in names)
            found += [path for path in paths if path.exists()]
    return found


def is_made(folder: Path, recipe: Recipe) -> bool:
    """Whether the folder has all files of the recipe."""
    try:
        made = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        return False
    wanted = json.loads(json.dumps(asdict(recipe)))
    return made == wanted and sum(1 for _ in folder.glob("*/*.jpg")) == recipe.count


def cut(photographs: list[Image.Image], recipe: Recipe, index: int) -> Image.Image:
    """Crop number ``index``: of any of the photographs, at any place, as large as the kind's ``reduction`` allows."""
    kind = KINDS[recipe.kind]
    rng = random.Random(f"{recipe.seed}:{index}")
    photograph = rng.choice(photographs)
    ((width, height),) = rng.choices([size for size, _ in kind.sizes], [share for _, share in kind.sizes])
    largest = min(photograph.width / width, photograph.height / height)
    scale = rng.uniform(*(min(bound, largest) for bound in kind.reduction))
    crop_width, crop_height = int(width * scale), int(height * scale)
    left = rng.randint(0, photograph.width - crop_width)
    top = rng.randint(0, photograph.height - crop_height)
    box = (left, top, left + crop_width, top + crop_height)
    picture = photograph.resize((width, height), Image.Resampling.LANCZOS, box=box)
    return with_grain(picture, rng, kind.grain) if kind.grain else picture


def with_grain(picture: Image.Image, rng: random.Random, levels: int) -> Image.Image:
    """``picture`` with noise that is the same in all channels, of as many levels, around what it was."""
    tile = Image.frombytes("L", (TILE, TILE), rng.randbytes(TILE * TILE)).point([n * levels // 256 for n in range(256)])
    grain = Image.new("L", picture.size)
    for top in range(0, picture.height, TILE):
        for left in range(0, picture.width, TILE):
            grain.paste(tile, (left, top))
    return ImageChops.add(picture, grain.convert("RGB"), offset=-levels // 2)


def make(folder: Path, recipe: Recipe, sources: list[Path]) -> None:
    """Fill ``folder`` with the photographs of ``recipe``, all of them or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None) as pool:
            photographs = list(pool.map(lambda path: Image.open(path).convert("RGB"), sources))
            least = KINDS[recipe.kind].least_pixels
            photographs = [each for each in photographs if each.width * each.height >= least] or photographs

            def save(index: int) -> int:
                # A hundred files a folder, as sets of many classes have it; the loader has to walk them.
                path = scratch / f"{index // 100:03d}" / f"{index:06d}.jpg"
                path.parent.mkdir(exist_ok=True)
                cut(photographs, recipe, index).save(path, quality=recipe.quality)
                return path.stat().st_size

            num_bytes = 0
            for done, size in enumerate(pool.map(save, range(recipe.count)), start=1):
                num_bytes += size
                if done == recipe.count or (done % 100 == 0 and sys.stderr.isatty()):
                    end = "\n" if done == recipe.count else ""
                    print(f"\rcutting photographs: {done} of {recipe.count}", end=end, file=sys.stderr, flush=True)
        (scratch / "manifest.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        scratch.chmod(0o755)  # mkdtemp gives 0o700
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    print(f"{recipe.count} photographs, {num_bytes / recipe.count / 1000:.0f} KB on average, in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make JPEGs from real photographs.")
    parser.add_argument("--count", type=int, default=3000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other crops (default: %(default)s)")
    parser.add_argument(
        "--kind",
        choices=tuple(KINDS),
        default="web",
        help="about 500x375, 1024x768 or 4000x3000 (default: %(default)s)",
    )
    parser.add_argument("folder", type=Path, help="output folder; replaced if it has photographs of another recipe")
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"--count must be >= 1, got {arguments.count}")
    sources = find_photographs()
    if not sources:
        print(
            "make_photos: no photographs to cut from; install Debian's lomiri-wallpapers-16.04, or scikit-image and"
            " scikit-learn with pip.",
            file=sys.stderr,
        )
        return 1
    recipe = Recipe(
        version=2,
        kind=arguments.kind,
        count=arguments.count,
        seed=arguments.seed,
        quality=KINDS[arguments.kind].quality,
        sources=[(path.name, path.stat().st_size) for path in sources],
    )
    if arguments.folder.exists() and not (arguments.folder / "manifest.json").exists():
        print(
            f"make_photos: {arguments.folder} exists and was not made by this script; choose another folder.",
            file=sys.stderr,
        )
        return 1
    if is_made(arguments.folder, recipe):
        print(f"{recipe.count} photographs in {arguments.folder}, made earlier")
    else:
        make(arguments.folder, recipe, sources)
    return 0


if __name__ == "__main__":
    sys.exit(main())
