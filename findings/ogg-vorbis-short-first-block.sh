#!/usr/bin/env bash
# imageio-ffmpeg 0.8.1 (FFmpeg 9.0.2 with libvorbis): a sine that goes into Ogg Vorbis comes back 128 samples short.
#
# Guess: granule positions make Ogg exact, and a file that FFmpeg wrote comes back from FFmpeg as long as it was.
# Seen: where the first block is short and the second long, FFmpeg drops the first 128 samples of the sound: 43,972 of
# 44,100, and a copy of those packets into Matroska is as short. Encoded into Matroska the sine comes back whole, and
# libsndfile gives 44,100 for the Ogg file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install imageio-ffmpeg==0.8.1 soundfile==0.14.0 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess, sys
import imageio_ffmpeg, soundfile

ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
print(subprocess.run([ffmpeg, "-version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])


def samples(path):
    raw = [ffmpeg, "-v", "error", "-i", path, "-f", "s16le", "-"]
    return len(subprocess.run(raw, capture_output=True, check=True).stdout) // 2


sine = ["-f", "lavfi", "-i", "sine=r=44100:d=1", "-c:a", "libvorbis"]
subprocess.run([ffmpeg, "-v", "error", *sine, "a.ogg"], check=True)
subprocess.run([ffmpeg, "-v", "error", *sine, "a.mkv"], check=True)
subprocess.run([ffmpeg, "-v", "error", "-i", "a.ogg", "-c", "copy", "copied.mkv"], check=True)
got = {path: samples(path) for path in ("a.ogg", "a.mkv", "copied.mkv")}
got["a.ogg by libsndfile"] = soundfile.info("a.ogg").frames
print(got)
sys.exit(0 if got["a.ogg"] == got["copied.mkv"] == 43972 and got["a.mkv"] == got["a.ogg by libsndfile"] == 44100 else "changed")
PYTHON
