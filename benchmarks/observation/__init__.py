"""What does it cost to be watched?"""
