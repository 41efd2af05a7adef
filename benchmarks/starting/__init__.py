"""What does an epoch cost whose worker processes do not outlive it?"""
