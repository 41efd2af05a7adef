"""Test an installed wheel on a bare system: the README's example, the commands, and media of every kind.

Runs in the folder that packaging/test_wheels filled, on any Python, with NumPy alone.

Usage: python bare.py STARTED, the time at which ``pip install`` began, in seconds since the epoch
"""

import hashlib
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

import spdl.io

MATERIAL = Path("material")
FACTS = json.loads((MATERIAL / "facts.json").read_text())
#: Limit of CPU seconds for ``pip install`` and the first program together; wall time varies with the load.
FIRST_BATCH: Final = 60


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def test_readme() -> None:
    """The first program of the README makes the stated batches, within a minute of CPU time including the install."""
    block = re.search(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    Path("readme.py").write_text(block[1])
    assert "(32, 224, 224, 3)" in _run(sys.executable, "-W", "error", "readme.py")
    passed = time.time() - int(sys.argv[1])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # pip was a child of the shell that became this process
    seconds = used.ru_utime + used.ru_stime
    if seconds > FIRST_BATCH:
        sys.exit(f"`pip install` and the first program took {seconds:.0f} s of CPU time; they may take {FIRST_BATCH} s")
    _say(f"the README's first program, {passed:.0f} s after `pip install` began, {seconds:.0f} s of CPU time")


def test_commands() -> None:
    """``spdl load`` reads a folder, and ``spdl doctor`` finds a bundled FFmpeg under the LGPL."""
    photos = Path("photos")
    photos.mkdir()
    for index in range(20):
        spdl.io.save_image(photos / f"{index}.jpg", np.full((480, 640, 3), 10 * index, np.uint8))
    loaded = json.loads(_run("spdl", "load", str(photos), "--size", "224", "--threads", "2", "--json"))
    assert "20" in json.dumps(loaded)
    native = json.loads(_run("spdl", "doctor", "--json"))["native"]
    assert native["ffmpeg_is_bundled"]
    assert "LGPL version 2.1" in native["ffmpeg_license"]
    assert "--disable-network" in native["ffmpeg_configuration"]
    missing = [name for name, found in {**native["decoders"], **native["filters"]}.items() if not found]
    assert missing == []
    _say(f"spdl load, spdl doctor: FFmpeg {native['ffmpeg_version']}")


def test_videos() -> None:
    """Every frame has the bytes that the ffmpeg tool decodes."""
    for name, expected in FACTS["videos"].items():
        frames = spdl.io.decode_packets(spdl.io.demux_video(MATERIAL / name), filter_desc=None)
        assert len(frames) == 25, name
        array = spdl.io.to_numpy(spdl.io.load_video(MATERIAL / name))
        assert array.shape == (25, 120, 160, 3), (name, array.shape)
        if name.startswith("prores"):  # has no array layout of its own
            continue
        found = spdl.io.to_numpy(spdl.io.convert_frames(frames)).tobytes()
        assert len(found) == expected["num_bytes"], (name, len(found), expected)
        assert hashlib.sha256(found).hexdigest() == expected["sha256"], name
    clip = spdl.io.to_numpy(spdl.io.load_video(MATERIAL / "h264.mp4", timestamp=(0.2, 0.6)))
    assert clip.shape == (10, 120, 160, 3)
    _say(f"videos: {', '.join(FACTS['videos'])}")


def test_sounds() -> None:
    """Every sample is that of the ffmpeg tool, up to rounding."""
    for name, expected in FACTS["sounds"].items():
        found = spdl.io.to_numpy(spdl.io.load_audio(MATERIAL / name))
        other = np.fromfile(MATERIAL / f"{name}.f32", np.float32).reshape(-1, expected["num_channels"]).T
        assert found.shape == other.shape, (name, found.shape, other.shape)
        assert np.abs(found - other).max() < 1e-3, name
    _say(f"sounds: {', '.join(FACTS['sounds'])}")


def test_stills() -> None:
    """Pictures are those of the ffmpeg tool."""
    for name, expected in FACTS["stills"].items():
        found = spdl.io.to_numpy(spdl.io.load_image(MATERIAL / name))
        shape = (expected["height"], expected["width"], 3)
        assert found.shape == shape, (name, found.shape)
        other = np.fromfile(MATERIAL / f"{name}.rgb", np.uint8).reshape(shape)
        # The tool does not smooth the colours of JPEG, which have half the size.
        assert np.abs(found.astype(int) - other).mean() <= (6 if name.endswith("jpg") else 0), name
    _say(f"pictures: {', '.join(FACTS['stills'])}")


def test_network_is_not_in_it() -> None:
    """A URL is refused, and nothing is contacted."""
    try:
        spdl.io.demux_video("http://127.0.0.1:9/video.mp4")
    except spdl.io.MediaError as error:
        _say(f"no network: {error}")
    else:
        sys.exit("a URL was opened")


def main() -> None:
    """Run all tests."""
    for test in (test_readme, test_commands, test_videos, test_sounds, test_stills, test_network_is_not_in_it):
        test()


if __name__ == "__main__":
    main()
