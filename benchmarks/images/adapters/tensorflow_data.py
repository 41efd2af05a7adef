"""tf.data: read, decode only the crop, ``tf.image.resize`` with antialiasing, batch.

``decode_and_crop_jpeg`` gets the crops that SPDL drew. The number of threads is that of the case.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from benchmarks.images._work import MEAN, SHORTER_SIDE, SIZE, STD, Photo, Work

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


def versions() -> dict[str, str]:
    return {"tensorflow": tf.__version__}


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if work.transform == "fit":
        return None  # ``resize_with_pad`` places and rounds in its own way

    def load(path: Any, crop: Any, flip: Any) -> Any:
        data = tf.io.read_file(path)
        if work.transform == "eval":
            pixels = tf.io.decode_jpeg(data, channels=3)
            size = tf.shape(pixels)[:2]
            wanted = SHORTER_SIDE * size // tf.reduce_min(size)
            scaled = tf.image.resize(pixels, wanted, antialias=True)
            offset = tf.cast(tf.round(tf.cast(wanted - SIZE, tf.float32) / 2), tf.int32)
            scaled = tf.image.crop_to_bounding_box(scaled, offset[0], offset[1], SIZE, SIZE)
        else:
            pixels = tf.io.decode_and_crop_jpeg(data, crop, channels=3)
            scaled = tf.image.resize(pixels, (SIZE, SIZE), antialias=True)
            scaled = tf.cond(flip, lambda: tf.image.flip_left_right(scaled), lambda: scaled)
        if work.dtype == "uint8":
            return tf.cast(tf.round(scaled), tf.uint8)
        return tf.transpose((scaled / 255.0 - MEAN) / STD, (2, 0, 1))

    paths = [photo.path for photo in photos]
    crops, flips = [photo.crop for photo in photos], [photo.flip for photo in photos]
    data = tf.data.Dataset.from_tensor_slices((paths, crops, flips))
    data = data.map(load, num_parallel_calls=work.num_threads, deterministic=True).batch(work.batch)
    options = tf.data.Options()
    options.threading.private_threadpool_size = work.num_threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    data = data.with_options(options)
    return lambda: iter(data.as_numpy_iterator())
