"""What does it cost to move a batch out of another process?"""
