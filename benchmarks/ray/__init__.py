"""What does a region cost whose workers are Ray actors?"""
