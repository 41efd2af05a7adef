"""Load media from files or memory into arrays, and write it, in native code without the GIL.

Importing this package loads no native code. The first use of a native name loads it, and raises ``NativeLibraryError``
if that fails.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        ".": "utils",
        "._formats": "NpzFile iter_tarfile load_npy load_npz load_wav parse_wav",
        "._buffers": "cpu_storage to_jax to_numba to_numpy to_torch",
        "._clips": "load_video_clips",
        "._devices._cuda": "CUDABuffer CUDAConfig cuda_config transfer_buffer transfer_buffer_cpu",
        "._devices._gpu_decoding": (
            "NvDecDecoder decode_image_nvjpeg decode_packets_nvdec load_image_batch_nvjpeg nv12_to_bgr nv12_to_rgb "
            "nvdec_decoder streaming_load_video_nvdec"
        ),
        "._devices._transfer": "transfer_tensor transfer_tensor_d2h transfer_tensor_h2d",
        "._errors": (
            "ArchiveError BatchLoadError ClosedError ConsumedError ConvertError DecodeError DemuxError DeviceError "
            "EncodeError FilterError ImageTooLargeError MediaError MuxError NativeLibraryError NoCodecError OpenError "
            "SourceNotFoundError SourceTimeoutError StreamNotFoundError UnknownNodeError UnsupportedFormatError "
            "WAVError"
        ),
        "._images._applied": "AppliedTransform",
        "._images._image_transform": (
            "CenterCrop Crop ImageTransform LongerSide RandomCrop RandomResizedCrop ShorterSide"
        ),
        "._images._load": "load_image",
        "._images._load_batch": "load_image_batch",
        "._images._save": "encode_image image_to_bytes save_image",
        "._images._seeds": "sample_seeds",
        "._media._config": (
            "AudioEncodeConfig DecodeConfig DemuxConfig VideoEncodeConfig audio_encode_config decode_config "
            "demux_config video_encode_config"
        ),
        "._media._convert": "convert_array convert_frames create_reference_audio_frame create_reference_video_frame",
        "._media._decode": "Decoder decode_packets sample_decode_video",
        "._media._demux": "Demuxer demux_audio demux_image demux_video probe",
        "._media._filters": (
            "BSF apply_bsf get_abuffer_desc get_audio_filter_desc get_buffer_desc get_filter_desc get_video_filter_desc"
        ),
        "._media._info": "AudioStreamInfo MediaInfo StreamInfo VideoStreamInfo",
        "._media._load": "load_audio load_video",
        "._media._mux": "Muxer",
        "._native": (
            "AudioCodec AudioDecoder AudioEncoder AudioFrames AudioPackets CPUBuffer CPUStorage FilterGraph "
            "ImageCodec ImageFrames ImagePackets VideoCodec VideoDecoder VideoEncoder VideoFrames VideoPackets "
            "WAVHeader"
        ),
        "._sounds": "load_audio_batch",
        "._types": "ArrayInterface CUDAArrayInterface Excerpt LoadFailure",
        "spdl": "__version__",
    },
)
