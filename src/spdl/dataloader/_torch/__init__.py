"""Private: how torch's datasets, samplers and collate functions are run. Imported only when they are wanted."""
