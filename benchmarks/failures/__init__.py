"""What a failed item costs: dropped, with a callback, and with a line in the quarantine file."""
