"""Containers and streams over FFmpeg: open, demux, decode, filter, convert, encode, mux."""
