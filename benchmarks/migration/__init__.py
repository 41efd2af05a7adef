"""What does each step from torch's DataLoader to SPDL bring?"""
