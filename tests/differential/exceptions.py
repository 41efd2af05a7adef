"""Known disagreements among independent readers, and files on which SPDL follows one of them for a stated reason.

A row is not a way to silence a fault of SPDL: it says which reader is wrong, or which rule was chosen, and why.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["EXCEPTIONS", "KnownDisagreement"]


@dataclass(frozen=True, slots=True)
class KnownDisagreement:
    """A row of the table.

    Attributes:
        forms: The forms of media where it occurs.
        reader: The reader that is not followed, with its version.
        what: What it gives, and what SPDL gives.
        why: Why SPDL does not follow it.
    """

    forms: str
    reader: str
    what: str
    why: str


#: Numbers: 1 to 99 video, 100 to 199 sound, 200 to 299 stills. A number is never used again.
EXCEPTIONS: Final[dict[int, KnownDisagreement]] = {
    1: KnownDisagreement(
        forms="VP8, VP9, AV1 and FFV1, cut by copying packets",
        reader="PyAV 18.1 (FFmpeg 8.1)",
        what="Raises InvalidDataError at packets before the first key frame; SPDL and the ffmpeg tool skip them.",
        why="The pictures that they refer to are in no packet of the file, so nothing is damaged.",
    ),
    2: KnownDisagreement(
        forms="VP9, cut by copying packets",
        reader="the ffmpeg tool 5.1",
        what="Gives no picture at all if the first packet is none of a key frame; its ffprobe gives those from one on.",
        why="SPDL and the ffmpeg tool 9.0 give the pictures from the first key frame on.",
    ),
    3: KnownDisagreement(
        forms="AV1 in MP4, with an edit list",
        reader="the ffmpeg tool 5.1",
        what="Shows the pictures that the edit list leaves out, at times before 0.",
        why="SPDL, PyAV and the ffmpeg tool 9.0 leave them out, and so does every reader with other codecs.",
    ),
    4: KnownDisagreement(
        forms="HEVC, cut by copying packets or at a byte",
        reader="the ffmpeg tool 5.1",
        what="Makes up pictures before the first key frame, built on gray ones; SPDL begins at the key frame.",
        why="What they refer to is in no packet of the file. PyAV and the ffmpeg tool 9.0 leave them out.",
    ),
    5: KnownDisagreement(
        forms="joined by copying packets, where the times of the parts overlap and the ffmpeg tool changed them",
        reader="the ffmpeg tool 5.1 and 9.0",
        what="Takes decoding times for pictures whose times do not rise; SPDL and PyAV give those of their packets.",
        why="What is guessed from all earlier packets is another time in a window than in the whole.",
    ),
    6: KnownDisagreement(
        forms="HEVC, joined by copying packets, where the second part begins with an open group of pictures",
        reader="the ffmpeg tool 5.1 and 9.0, PyAV 18.1 (FFmpeg 8.1)",
        what="Lose the first key frame of the second part if its number is that of a picture before, and 5.1 makes up"
        " pictures; SPDL gives all that the two parts give alone.",
        why="The key frame is whole, and can be decoded alone.",
    ),
    20: KnownDisagreement(
        forms="GIF with frames of less than 20 ms",
        reader="Pillow 13",
        what="Shows them as long as they say; SPDL shows them for 100 ms.",
        why="So do the ffmpeg tool 5.1 and 9.0 and browsers, and so writers mean it. The option `min_delay` of FFmpeg's"
        " demuxer changes it.",
    ),
    21: KnownDisagreement(
        forms="GIF whose frames have palettes of their own, with disposal to the background",
        reader="Pillow 13",
        what="Takes the background's colour from the palette of the frame; SPDL from that of the whole file.",
        why="The index of the background is one of the global colour table (GIF89a, 18).",
    ),
    100: KnownDisagreement(
        forms="IMA ADPCM in WAV",
        reader="ffmpeg 9.0.2 and soundfile 0.14, beside SPDL on FFmpeg 5.1",
        what="Expand a step by shifts; FFmpeg 5.1 multiplies, and is up to 54 of 32768 levels away after a second.",
        why="SPDL decodes ADPCM with the FFmpeg that it is linked to.",
    ),
    101: KnownDisagreement(
        forms="MP3 whose last two packets are both padding in part",
        reader="the writer of the ffmpeg tool 5.1 and 9.0 (libmp3lame)",
        what="Its LAME tag states at most one packet and 529 samples of padding, so up to 46 samples of padding stay.",
        why="The tag is all that a reader has: the ffmpeg tool, PyAV and soundfile give the same length as SPDL.",
    ),
    102: KnownDisagreement(
        forms="WAV with a compressed coding, beside its fact chunk",
        reader="the fact chunk, as ffmpeg 5.1 and soundfile 0.14 write it",
        what="States another number of samples than the blocks hold, and than were encoded; SPDL takes it where it is"
        " inside of the last block, and gives whole blocks elsewhere.",
        why="Writers mean different things by it: ffmpeg states 22451 for 22450 samples, soundfile half of them for two"
        " channels; ffmpeg 7.1 states what was encoded. The ffmpeg tool, PyAV and soundfile give whole blocks.",
    ),
    103: KnownDisagreement(
        forms="MS ADPCM and IMA ADPCM written by soundfile; G.721 and G.723 in AU",
        reader="soundfile 0.14 (libsndfile 1.2)",
        what="Rounds predictions in another way than ffmpeg 5.1 and 9.0, and drifts by up to 4 percent of full scale.",
        why="SPDL decodes ADPCM with FFmpeg. Both are as far from what was encoded.",
    ),
    104: KnownDisagreement(
        forms="GSM 6.10 in WAV and AIFF-C",
        reader="soundfile 0.14 (libsndfile 1.2)",
        what="Gives one block more than a WAV file has, and for AIFF-C as many samples as its COMM chunk says.",
        why="A block has 320 samples. COMM counts packets (AIFF-C, 1991), and only libsndfile counts samples there.",
    ),
    105: KnownDisagreement(
        forms="Codec 2",
        reader="libcodec2 1.0, by way of every FFmpeg",
        what="Decodes one file to other samples each time: phases come from random numbers that all decoders share.",
        why="It is the only decoder of Codec 2. Lengths and places are the same.",
    ),
    200: KnownDisagreement(
        forms="HEIC with subsampled chroma, turned or mirrored",
        reader="pillow-heif 1.8.1 (libheif 1.23.6)",
        what="Turns the planes first and enlarges chroma afterwards; SPDL with libheif 1.15 the other way round.",
        why="With odd sizes and 4:2:2, chroma lies at other places. Both are near the picture that was encoded.",
    ),
    201: KnownDisagreement(
        forms="PAM in colour without a type of tuples",
        reader="opencv 5.0.0",
        what="Writes and reads blue first; SPDL and the ffmpeg tool take three samples for red, green and blue.",
        why="The type that pam(5) has for three samples is RGB, in that order; OpenCV writes no type.",
    ),
}
