"""What shows and judges a pipeline from the engine's counters: statistics, hooks, queues, verdicts and reports."""
