"""Every way through media, over a matrix of clips, against what the ffmpeg tool makes of the same clips."""
