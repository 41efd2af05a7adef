"""The lanes, which run calls: worker threads, the event loop, executors, processes; and the threads of sources."""
