"""Cases, peers, and the comparison of outputs."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.environments import MEDIA_LIBRARIES, REFERENCE
from benchmarks._contest.required import Ratio

OURS = "spdl"
# Sliding tones, a second voice, a beat and pink noise, so that an encoder has work in every band.
SOUND = (
    "aevalsrc='0.3*sin(2*PI*(200*t+40*sin(t)))+0.2*sin(2*PI*1760*t)*exp(-4*mod(t,0.5))"
    "|0.3*sin(2*PI*(300*t+60*cos(t)))+0.2*sin(2*PI*2640*t)*exp(-4*mod(t+0.25,0.5))':s=44100:d={seconds}[a];"
    "anoisesrc=r=44100:color=pink:amplitude=0.15:seed=1:d={seconds},pan=stereo|c0=c0|c1=-0.7*c0[b];"
    "[a][b]amix=inputs=2:normalize=0,aformat=sample_rates=44100:channel_layouts=stereo[out]"
)
CODECS = {"aac": (".m4a", "aac", "-b:a", "128k"), "flac": (".flac", "flac", "-sample_fmt", "s16")}
#: Of which only crops are read.
CROPPED = {"wav": (".wav", "pcm_s16le"), **CODECS, "vorbis": (".ogg", "libvorbis")}
#: Lossy decoders differ in rounding and in the noise that they substitute; some also trim the ends.
TOLERANCE, TRIMMED = 0.02, 4096


def _alike(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference: channels, length beyond an encoder's padding, or samples."""
    a, b = ours["samples"], theirs["samples"]
    if a.shape[0] != b.shape[0] or abs(a.shape[1] - b.shape[1]) > TRIMMED:
        return f"it has {b.shape} samples, SPDL {a.shape}"
    for shift in (0, 1024, 2112, -1024, -2112):
        one, two = (a[:, shift:], b) if shift >= 0 else (a, b[:, -shift:])
        count = min(one.shape[1], two.shape[1]) - TRIMMED
        if float(np.abs(one[:, TRIMMED:count] - two[:, TRIMMED:count]).max()) < TOLERANCE:
            return None
    return f"samples differ by more than {TOLERANCE}"


#: Crops are resampled by different filters, which differ near the highest frequencies.
CROP_TOLERANCE = 0.05
CROP_RATE, NUM_CROPS = 16000, 16


def _alike_crops(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference: the shape, or samples that differ by more than filters do."""
    a, b = ours["samples"], theirs["samples"]
    if a.shape != b.shape:
        return f"it has {b.shape} samples, SPDL {a.shape}"
    # Edges aside: peers that cut before they resample have no samples from outside of the window.
    difference = float(np.sqrt(((a - b)[..., 200:-200] ** 2).mean(axis=-1)).max())
    return (
        None
        if difference < CROP_TOLERANCE
        else f"samples differ by {difference:.3f} (RMS), {CROP_TOLERANCE} is allowed"
    )


def _crop_cases(folder: Path, quick: bool) -> list[Case]:
    """One second at random places of long files, at another rate."""
    seconds = 6 if quick else 60
    generator = random.Random(3)
    # Whole samples at both rates, so that peers that cut first cut at the same time.
    starts = [round(generator.uniform(0, seconds - 1), 2) for _ in range(NUM_CROPS)]
    cases = []
    for name, (suffix, *options) in CROPPED.items():
        path = folder / f"{seconds}s{suffix}"
        _make(path, seconds, options)
        data = {"path": str(path), "starts": starts, "rate": CROP_RATE}
        title = f"{NUM_CROPS} random seconds of {seconds} s of {name.upper()}, to 16 kHz mono"
        cases.append(Case(f"{name}_crops", title, data, per=NUM_CROPS, differ=_alike_crops))
    return cases


def _make(path: Path, seconds: int, encoding: Sequence[str]) -> None:
    if path.exists():
        return
    sound = SOUND.format(seconds=seconds)
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-filter_complex", sound, "-map", "[out]"]
    subprocess.run([*command, "-c:a", *encoding, "-bitexact", str(path)], check=True)


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    cases = _crop_cases(folder, quick)
    for name, (suffix, *encoding) in CODECS.items():
        for seconds in (3,) if quick else (5, 60):
            path = folder / f"{seconds}s{suffix}"
            _make(path, seconds, encoding)
            title = f"{seconds} s of {name.upper()}"
            cases.append(Case(f"{name}_{seconds}s", title, {"path": str(path)}, per=seconds, differ=_alike))
    return cases


PEERS = (
    Peer(OURS, "benchmarks.audio.adapters.spdl_audio"),
    Peer("reference", "benchmarks.audio.adapters.spdl_audio", REFERENCE),
    Peer("pyav", "benchmarks.audio.adapters.pyav", MEDIA_LIBRARIES),
    Peer("soundfile", "benchmarks.audio.adapters.sound_file", MEDIA_LIBRARIES),
    Peer("torchaudio", "benchmarks.audio.adapters.torch_audio", MEDIA_LIBRARIES),
    Peer("torchcodec", "benchmarks.audio.adapters.torch_codec", MEDIA_LIBRARIES),
)

CONTEST = Contest(
    name="audio",
    question="How fast does a sound file become an array of float32?",
    ours=OURS,
    unit="a second of stereo sound",
    peers=PEERS,
    make_cases=make_cases,
    required=[
        Ratio(
            f"{name}_{seconds}s: {peer.name} over ours",
            (f"{name}_{seconds}s", peer.name),
            (f"{name}_{seconds}s", OURS),
            1.0,
        )
        for name in CODECS
        for seconds in (5, 60)
        for peer in PEERS[1:]
        if not (peer.name == "soundfile" and name == "aac")  # libsndfile has no AAC
        if peer.name != "torchaudio"  # it is TorchCodec, and its wheels need CUDA's libraries
    ]
    + [
        Ratio(f"{name}_crops: {peer} over ours", (f"{name}_crops", peer), (f"{name}_crops", OURS), 2.0)
        for name in CROPPED
        for peer in ("soundfile", "torchcodec")
        if not (peer == "soundfile" and name == "aac")
    ],
)
