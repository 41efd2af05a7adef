"""Private: runs torch's datasets, samplers and collate functions. Imported only on use."""
