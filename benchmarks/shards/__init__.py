"""What does it cost to read the samples of tar shards, in order and shuffled?"""
