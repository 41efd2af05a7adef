"""How many cores can one pipeline use?"""
