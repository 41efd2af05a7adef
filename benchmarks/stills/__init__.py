"""How fast do stills that are no JPEG become arrays?"""
