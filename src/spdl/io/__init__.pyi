# Written by scripts/stubs from the module's table.

from spdl import __version__ as __version__

from . import utils as utils
from ._buffers import cpu_storage as cpu_storage
from ._buffers import to_jax as to_jax
from ._buffers import to_numba as to_numba
from ._buffers import to_numpy as to_numpy
from ._buffers import to_torch as to_torch
from ._clips import load_video_clips as load_video_clips
from ._devices._cuda import CUDABuffer as CUDABuffer
from ._devices._cuda import CUDAConfig as CUDAConfig
from ._devices._cuda import cuda_config as cuda_config
from ._devices._cuda import transfer_buffer as transfer_buffer
from ._devices._cuda import transfer_buffer_cpu as transfer_buffer_cpu
from ._devices._gpu_decoding import NvDecDecoder as NvDecDecoder
from ._devices._gpu_decoding import decode_image_nvjpeg as decode_image_nvjpeg
from ._devices._gpu_decoding import decode_packets_nvdec as decode_packets_nvdec
from ._devices._gpu_decoding import load_image_batch_nvjpeg as load_image_batch_nvjpeg
from ._devices._gpu_decoding import nv12_to_bgr as nv12_to_bgr
from ._devices._gpu_decoding import nv12_to_rgb as nv12_to_rgb
from ._devices._gpu_decoding import nvdec_decoder as nvdec_decoder
from ._devices._gpu_decoding import streaming_load_video_nvdec as streaming_load_video_nvdec
from ._devices._transfer import transfer_tensor as transfer_tensor
from ._devices._transfer import transfer_tensor_d2h as transfer_tensor_d2h
from ._devices._transfer import transfer_tensor_h2d as transfer_tensor_h2d
from ._errors import ArchiveError as ArchiveError
from ._errors import BatchLoadError as BatchLoadError
from ._errors import ClosedError as ClosedError
from ._errors import ConsumedError as ConsumedError
from ._errors import ConvertError as ConvertError
from ._errors import DecodeError as DecodeError
from ._errors import DemuxError as DemuxError
from ._errors import DeviceError as DeviceError
from ._errors import EncodeError as EncodeError
from ._errors import FilterError as FilterError
from ._errors import ImageTooLargeError as ImageTooLargeError
from ._errors import MediaError as MediaError
from ._errors import MuxError as MuxError
from ._errors import NativeLibraryError as NativeLibraryError
from ._errors import NoCodecError as NoCodecError
from ._errors import OpenError as OpenError
from ._errors import SourceNotFoundError as SourceNotFoundError
from ._errors import SourceTimeoutError as SourceTimeoutError
from ._errors import StreamNotFoundError as StreamNotFoundError
from ._errors import UnknownNodeError as UnknownNodeError
from ._errors import UnsupportedFormatError as UnsupportedFormatError
from ._errors import WAVError as WAVError
from ._formats import NpzFile as NpzFile
from ._formats import iter_tarfile as iter_tarfile
from ._formats import load_npy as load_npy
from ._formats import load_npz as load_npz
from ._formats import load_wav as load_wav
from ._formats import parse_wav as parse_wav
from ._images._applied import AppliedTransform as AppliedTransform
from ._images._image_transform import CenterCrop as CenterCrop
from ._images._image_transform import Crop as Crop
from ._images._image_transform import ImageTransform as ImageTransform
from ._images._image_transform import LongerSide as LongerSide
from ._images._image_transform import RandomCrop as RandomCrop
from ._images._image_transform import RandomResizedCrop as RandomResizedCrop
from ._images._image_transform import ShorterSide as ShorterSide
from ._images._load import load_image as load_image
from ._images._load_batch import load_image_batch as load_image_batch
from ._images._save import encode_image as encode_image
from ._images._save import image_to_bytes as image_to_bytes
from ._images._save import save_image as save_image
from ._images._seeds import sample_seeds as sample_seeds
from ._media._config import AudioEncodeConfig as AudioEncodeConfig
from ._media._config import DecodeConfig as DecodeConfig
from ._media._config import DemuxConfig as DemuxConfig
from ._media._config import VideoEncodeConfig as VideoEncodeConfig
from ._media._config import audio_encode_config as audio_encode_config
from ._media._config import decode_config as decode_config
from ._media._config import demux_config as demux_config
from ._media._config import video_encode_config as video_encode_config
from ._media._convert import convert_array as convert_array
from ._media._convert import convert_frames as convert_frames
from ._media._convert import create_reference_audio_frame as create_reference_audio_frame
from ._media._convert import create_reference_video_frame as create_reference_video_frame
from ._media._decode import Decoder as Decoder
from ._media._decode import decode_packets as decode_packets
from ._media._decode import sample_decode_video as sample_decode_video
from ._media._demux import Demuxer as Demuxer
from ._media._demux import demux_audio as demux_audio
from ._media._demux import demux_image as demux_image
from ._media._demux import demux_video as demux_video
from ._media._demux import probe as probe
from ._media._filters import BSF as BSF
from ._media._filters import apply_bsf as apply_bsf
from ._media._filters import get_abuffer_desc as get_abuffer_desc
from ._media._filters import get_audio_filter_desc as get_audio_filter_desc
from ._media._filters import get_buffer_desc as get_buffer_desc
from ._media._filters import get_filter_desc as get_filter_desc
from ._media._filters import get_video_filter_desc as get_video_filter_desc
from ._media._info import AudioStreamInfo as AudioStreamInfo
from ._media._info import MediaInfo as MediaInfo
from ._media._info import StreamInfo as StreamInfo
from ._media._info import VideoStreamInfo as VideoStreamInfo
from ._media._load import load_audio as load_audio
from ._media._load import load_video as load_video
from ._media._mux import Muxer as Muxer
from ._native import AudioCodec as AudioCodec
from ._native import AudioDecoder as AudioDecoder
from ._native import AudioEncoder as AudioEncoder
from ._native import AudioFrames as AudioFrames
from ._native import AudioPackets as AudioPackets
from ._native import CPUBuffer as CPUBuffer
from ._native import CPUStorage as CPUStorage
from ._native import FilterGraph as FilterGraph
from ._native import ImageCodec as ImageCodec
from ._native import ImageFrames as ImageFrames
from ._native import ImagePackets as ImagePackets
from ._native import VideoCodec as VideoCodec
from ._native import VideoDecoder as VideoDecoder
from ._native import VideoEncoder as VideoEncoder
from ._native import VideoFrames as VideoFrames
from ._native import VideoPackets as VideoPackets
from ._native import WAVHeader as WAVHeader
from ._sounds import load_audio_batch as load_audio_batch
from ._types import ArrayInterface as ArrayInterface
from ._types import CUDAArrayInterface as CUDAArrayInterface
from ._types import Excerpt as Excerpt
from ._types import LoadFailure as LoadFailure

__all__ = [
    "AppliedTransform",
    "ArchiveError",
    "ArrayInterface",
    "AudioCodec",
    "AudioDecoder",
    "AudioEncodeConfig",
    "AudioEncoder",
    "AudioFrames",
    "AudioPackets",
    "AudioStreamInfo",
    "BSF",
    "BatchLoadError",
    "CPUBuffer",
    "CPUStorage",
    "CUDAArrayInterface",
    "CUDABuffer",
    "CUDAConfig",
    "CenterCrop",
    "ClosedError",
    "ConsumedError",
    "ConvertError",
    "Crop",
    "DecodeConfig",
    "DecodeError",
    "Decoder",
    "DemuxConfig",
    "DemuxError",
    "Demuxer",
    "DeviceError",
    "EncodeError",
    "Excerpt",
    "FilterError",
    "FilterGraph",
    "ImageCodec",
    "ImageFrames",
    "ImagePackets",
    "ImageTooLargeError",
    "ImageTransform",
    "LoadFailure",
    "LongerSide",
    "MediaError",
    "MediaInfo",
    "MuxError",
    "Muxer",
    "NativeLibraryError",
    "NoCodecError",
    "NpzFile",
    "NvDecDecoder",
    "OpenError",
    "RandomCrop",
    "RandomResizedCrop",
    "ShorterSide",
    "SourceNotFoundError",
    "SourceTimeoutError",
    "StreamInfo",
    "StreamNotFoundError",
    "UnknownNodeError",
    "UnsupportedFormatError",
    "VideoCodec",
    "VideoDecoder",
    "VideoEncodeConfig",
    "VideoEncoder",
    "VideoFrames",
    "VideoPackets",
    "VideoStreamInfo",
    "WAVError",
    "WAVHeader",
    "__version__",
    "apply_bsf",
    "audio_encode_config",
    "convert_array",
    "convert_frames",
    "cpu_storage",
    "create_reference_audio_frame",
    "create_reference_video_frame",
    "cuda_config",
    "decode_config",
    "decode_image_nvjpeg",
    "decode_packets",
    "decode_packets_nvdec",
    "demux_audio",
    "demux_config",
    "demux_image",
    "demux_video",
    "encode_image",
    "get_abuffer_desc",
    "get_audio_filter_desc",
    "get_buffer_desc",
    "get_filter_desc",
    "get_video_filter_desc",
    "image_to_bytes",
    "iter_tarfile",
    "load_audio",
    "load_audio_batch",
    "load_image",
    "load_image_batch",
    "load_image_batch_nvjpeg",
    "load_npy",
    "load_npz",
    "load_video",
    "load_video_clips",
    "load_wav",
    "nv12_to_bgr",
    "nv12_to_rgb",
    "nvdec_decoder",
    "parse_wav",
    "probe",
    "sample_decode_video",
    "sample_seeds",
    "save_image",
    "streaming_load_video_nvdec",
    "to_jax",
    "to_numba",
    "to_numpy",
    "to_torch",
    "transfer_buffer",
    "transfer_buffer_cpu",
    "transfer_tensor",
    "transfer_tensor_d2h",
    "transfer_tensor_h2d",
    "video_encode_config",
]
