"""What does it cost that a run can be resumed?"""
