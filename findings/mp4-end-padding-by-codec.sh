#!/usr/bin/env bash
# imageio-ffmpeg 0.8.1 (FFmpeg 9.0.2): whether an MP4 comes back as long as it was depends on codec and fragments.
#
# Guess: FFmpeg removes the encoder's delay and end padding of a file that it wrote itself, as it does for Opus in WebM
# and Ogg; a remux keeps the sound.
# Seen: AAC in a plain MP4 is exact (44,100 samples), and the same packets in fragments have 956 more. Opus in MP4 has 648
# more than were encoded, while WebM and Ogg are exact.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install imageio-ffmpeg==0.8.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess, sys
import imageio_ffmpeg

ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
print(subprocess.run([ffmpeg, "-version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])


def made(path, *options):
    subprocess.run([ffmpeg, "-v", "error", *options, path], check=True)
    raw = [ffmpeg, "-v", "error", "-i", path, "-f", "s16le", "-"]
    return len(subprocess.run(raw, capture_output=True, check=True).stdout) // 2


aac = ["-f", "lavfi", "-i", "sine=r=44100:d=1", "-c:a", "aac"]
opus = ["-f", "lavfi", "-i", "sine=r=48000:d=1", "-c:a", "libopus"]
got = {
    "aac.m4a": made("aac.m4a", *aac),
    "fragments.m4a": made("fragments.m4a", "-i", "aac.m4a", "-c", "copy", "-movflags", "frag_keyframe+empty_moov+delay_moov"),
    "opus.mp4": made("opus.mp4", *opus),
    "opus.webm": made("opus.webm", *opus),
    "opus.ogg": made("opus.ogg", *opus),
}
print(got)
seen = {"aac.m4a": 44100, "fragments.m4a": 45056, "opus.mp4": 48648, "opus.webm": 48000, "opus.ogg": 48000}
sys.exit(0 if got == seen else "changed")
PYTHON
