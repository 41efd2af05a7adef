"""The built extension and its generated stub. Only ``spdl.pipeline._transport`` and what starts workers import it."""
