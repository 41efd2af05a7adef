"""Native part of spdl.io: everything that needs FFmpeg."""
