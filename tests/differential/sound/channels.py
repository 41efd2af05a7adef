"""Law: a value means the same in every dtype and entry point; one channel is the mean of all."""

from typing import Any

import numpy as np

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.sound.files import make_sound

_FORMS = ["m4a/aac", "mp4/aac 5.1", "mkv/flac", "mkv/opus", "mp3/mp3", "caf/pcm", "mov/pcm", "ts/ac3", "wv/wavpack"]
_ONE = {"float32": 1.0, "float64": 1.0, "int16": 2.0**15, "int32": 2.0**31}
#: Two units of 16 bits: rounding of a source of 16 bits, and of the result.
_ROUNDED = 2.1 / 2**15


@law("sound", "value", _FORMS)
def a_value_means_the_same_everywhere(draw: Draw, form: str) -> None:
    """Dtypes agree, one channel is the mean, several are copies of one, and a batch has what a file has."""
    sound = make_sound(draw, form)
    load: Any = spdl.io.load_audio
    whole = spdl.io.to_numpy(load(sound.path)).astype(np.float64)
    num_channels = draw.random.randrange(2, 5)
    expected = {1: whole.mean(axis=0, keepdims=True)}
    if len(whole) == 1:
        expected[num_channels] = np.repeat(whole, num_channels, axis=0)
    expected[len(whole)] = whole
    for channels, samples in expected.items():
        for dtype, one in _ONE.items():
            draw.note(f"{len(whole)} channels to {channels}, {dtype}")
            given = spdl.io.to_numpy(load(sound.path, num_channels=channels, dtype=dtype))
            limited = np.clip(samples, -1, 1) if dtype.startswith("int") else samples
            assert given.shape == samples.shape
            assert np.abs(given / one - limited).max() <= _ROUNDED
            batch = spdl.io.load_audio_batch(
                [sound.path],
                num_samples=given.shape[1],
                sample_rate=sound.rate,
                num_channels=channels,
                start=0.0,
                dtype=dtype,  # type: ignore[arg-type]  # one of those words
            )
            assert np.array_equal(spdl.io.to_numpy(batch)[0], given)
