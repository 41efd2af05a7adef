"""What does it cost to read objects of a store?"""
