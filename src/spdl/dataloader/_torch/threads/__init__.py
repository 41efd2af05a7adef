"""Private: loading on threads of this process, which share the dataset."""
