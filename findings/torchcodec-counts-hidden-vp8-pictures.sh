#!/usr/bin/env bash
# TorchCodec 0.13.0: for VP8 with alternate reference frames, the exact mode reports more frames than it can decode.
#
# Guess: seek_mode="exact" scans the file, so len(decoder) is the number of frames and range(len(decoder)) is safe;
# "approximate" may be off.
# Seen: the other way round. The scan counts packets, and the packets of alternate reference frames show no picture: of 90
# pictures it reports 95, and a range up to its own end is an error. The approximate mode reports 90.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install torch==2.13.0 torchcodec==0.13.0 imageio-ffmpeg==0.8.1 av==18.1.0 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess, sys
import av, imageio_ffmpeg, torchcodec
from torchcodec.decoders import VideoDecoder

ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
film = ["-f", "lavfi", "-i", "testsrc=r=30:d=3:s=160x120", "-c:v", "libvpx", "-b:v", "50k"]
film += ["-auto-alt-ref", "1", "-lag-in-frames", "16", "-passlogfile", "log"]
subprocess.run([ffmpeg, "-v", "error", *film, "-pass", "1", "-f", "null", "-"], check=True)
subprocess.run([ffmpeg, "-v", "error", *film, "-pass", "2", "film.webm"], check=True)
with av.open("film.webm") as container:
    pictures = sum(1 for _ in container.decode(video=0))
counts = {mode: len(VideoDecoder("film.webm", seek_mode=mode)) for mode in ("exact", "approximate")}
try:
    VideoDecoder("film.webm").get_frames_in_range(0, counts["exact"])
    whole = "read"
except RuntimeError as error:
    whole = f"RuntimeError: {error}"
print("torchcodec", torchcodec.__version__, "| PyAV decodes", pictures, "pictures | TorchCodec counts", counts)
print("get_frames_in_range(0, len):", whole)
sys.exit(0 if pictures == counts["approximate"] == 90 < counts["exact"] and whole != "read" else "changed")
PYTHON
