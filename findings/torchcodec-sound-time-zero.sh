#!/usr/bin/env bash
# TorchCodec 0.13.0: get_samples_played_in_range(a, b) of an MP3 file is not the slice a..b of get_all_samples().
#
# Guess: time 0 is the first sample of the whole, so that labels in seconds select samples[:, a*rate : b*rate].
# Seen: the whole begins with the first sample that was encoded (the encoder's delay is removed), but its clock says
# 0.0230208 s there (1105 samples at 48 kHz, the delay of LAME and of the decoder), so each range comes 1105 samples
# early. A click at 0.5 s of the whole is at 0.523 s of the range's clock. Opus has no such shift.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install torch==2.13.0 torchcodec==0.13.0 imageio-ffmpeg==0.8.1 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess, sys
import imageio_ffmpeg, numpy, torchcodec
from torchcodec.decoders import AudioDecoder

RATE = 48000
sound = numpy.zeros(2 * RATE, "<i2")
sound[RATE // 2 : RATE // 2 + 48] = 20000  # a click of 1 ms at 0.5 s
places = {}
for name, codec in (("click.mp3", "libmp3lame"), ("click.opus", "libopus")):
    encode = ["-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", "-", "-c:a", codec, "-b:a", "128k", name]
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *encode], input=sound.tobytes(), check=True)
    decoder = AudioDecoder(name)
    whole = decoder.get_all_samples()
    part = decoder.get_samples_played_in_range(0.25, 1.0)
    at = int(whole.data[0].abs().argmax()) / RATE
    places[codec] = (at, 0.25 + int(part.data[0].abs().argmax()) / RATE, whole.pts_seconds)
print("torchcodec", torchcodec.__version__)
for codec, (whole, part, start) in places.items():
    print(f"{codec:11} click in the whole {whole:.4f} s, in the range {part:.4f} s, pts of the whole {start:.7f} s")
mp3, opus = places["libmp3lame"], places["libopus"]
late = round((mp3[1] - mp3[0]) * RATE)
print("samples between the two for MP3:", late)
sys.exit(0 if abs(late - mp3[2] * RATE) < 3 and late > 1000 and abs(opus[1] - opus[0]) < 0.001 else "changed")
PYTHON
