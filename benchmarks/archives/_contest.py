"""Cases, peers and requirements. To add one, change only this file."""

import io
import tarfile
import wave
from pathlib import Path

import numpy as np

from benchmarks._contest.contest import Case, Contest, Peer
from benchmarks._contest.environments import REFERENCE, Environment
from benchmarks._contest.required import AtMost, Ratio

OURS = "spdl"
_LIBRARIES = Environment("archives-peers", ("numpy", "scipy", "soundfile"))
_ADAPTERS = "benchmarks.archives.adapters"
_FILES = ("kilo.npy", "mega.npy", "stored.npz", "deflated.npz", "walk.npz", "ten.wav")

PEERS = (
    Peer(OURS, f"{_ADAPTERS}.spdl_io"),
    Peer("reference", f"{_ADAPTERS}.spdl_io", REFERENCE),
    Peer("stdlib", f"{_ADAPTERS}.standard_library"),
    Peer("memcpy", f"{_ADAPTERS}.memcpy"),
    Peer("scipy", f"{_ADAPTERS}.scipy_wav", _LIBRARIES),
    Peer("soundfile", f"{_ADAPTERS}.soundfile_wav", _LIBRARIES),
)


def make_cases(folder: Path, is_quick: bool) -> list[Case]:
    """Inputs with seeded contents, remade in each run, which takes a second."""
    noise = np.random.default_rng(0)
    num_small, num_large = (50, 4) if is_quick else (4000, 200)

    def tar(name: str, num_members: int, size: int) -> dict[str, str]:
        path = folder / f"{name}.tar"
        with tarfile.open(path, "w") as archive:
            for number in range(num_members):
                info = tarfile.TarInfo(f"train/{number:08}.jpg")
                info.size = size
                archive.addfile(info, io.BytesIO(noise.bytes(size)))
        return {"path": str(path)}

    small, large = tar("small", num_small, 4000), tar("large", num_large, 100_000)

    paths = {name: str(folder / name) for name in _FILES}
    np.save(paths["kilo.npy"], noise.random(1000))
    mega = noise.integers(0, 16, 100_000 if is_quick else 10_000_000, dtype=np.uint8)
    np.save(paths["mega.npy"], mega)
    arrays = {f"array_{number}": noise.random((100, 100)) for number in range(10)}
    np.savez(paths["stored.npz"], **arrays)  # type: ignore[arg-type]  # the stubs take the names for options
    np.savez_compressed(paths["deflated.npz"], mega=mega)
    walk = np.cumsum(noise.integers(-2, 3, 10_000 if is_quick else 1_000_000), dtype=np.int32)
    np.savez_compressed(paths["walk.npz"], walk=walk)
    with wave.open(paths["ten.wav"], "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(noise.bytes(4 * 441_000))

    def case(name: str, title: str, path: str) -> Case:
        return Case(name, title, {"path": path})

    return [
        Case("tar", "tar in memory, a member of 4 kB", small, per=num_small),
        Case("tar_8", "the same in 8 threads", small, num_threads=8, per=num_small),
        Case("tar_in_turn", "in one thread, from the eight archives in turn", small, per=num_small),
        Case("tar_large", "tar in memory, a member of 100 kB", large, per=num_large),
        Case("tar_large_8", "the same in 8 threads", large, num_threads=8, per=num_large),
        Case("tar_stream", "tar from an open file, a member of 4 kB", small, per=num_small),
        case("npy_view", "npy of 8 kB, a view where there is one", paths["kilo.npy"]),
        case("npy_copy", "npy of 8 kB, a copy", paths["kilo.npy"]),
        case("npy_copy_large", "npy of 10 MB, a copy", paths["mega.npy"]),
        case("npz", "npz of 10 stored arrays of 80 kB", paths["stored.npz"]),
        case("npz_deflated", "npz of a deflated array of 10 MB", paths["deflated.npz"]),
        case("npz_walk", "npz of a deflated random walk, 4 MB", paths["walk.npz"]),
        case("wav", "WAV of 10 s, 44.1 kHz, stereo", paths["ten.wav"]),
        case("wav_window", "one second of it", paths["ten.wav"]),
    ]


CONTEST = Contest(
    name="archives",
    question="What does it cost to read the members of a tar, and the arrays of npy, npz and WAV files?",
    ours=OURS,
    unit="a member or file",
    peers=PEERS,
    make_cases=make_cases,
    required=(
        Ratio("tar in memory, 4 kB: tarfile / ours", ("tar", "stdlib"), ("tar", OURS), 5),
        Ratio("tar in memory, 100 kB: tarfile / ours", ("tar_large", "stdlib"), ("tar_large", OURS), 5),
        Ratio("tar from a file, 4 kB: tarfile / ours", ("tar_stream", "stdlib"), ("tar_stream", OURS), 5),
        Ratio("tar, 4 kB: throughput of 8 threads / of 1", ("tar", OURS), ("tar_8", OURS), 1),
        Ratio("tar, 4 kB: the same, one thread reading all 8 archives", ("tar_in_turn", OURS), ("tar_8", OURS), 1),
        Ratio("tar, 100 kB: throughput of 8 threads / of 1", ("tar_large", OURS), ("tar_large_8", OURS), 1),
        AtMost("load_npy, view", ("npy_view", OURS), 3),
        AtMost("load_npy, copy of 8 kB, above memcpy", ("npy_copy", OURS), 3, ("npy_copy", "memcpy")),
        Ratio(
            "deflated npz, random nibbles: reference / ours", ("npz_deflated", "reference"), ("npz_deflated", OURS), 1.5
        ),
        Ratio("deflated npz, a random walk: reference / ours", ("npz_walk", "reference"), ("npz_walk", OURS), 1.5),
        AtMost("load_wav, all", ("wav", OURS), 3),
        AtMost("load_wav, a window", ("wav_window", OURS), 3),
    ),
)
