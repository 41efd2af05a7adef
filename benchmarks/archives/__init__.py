"""How fast are archives and raw files in memory turned into names, views and arrays?"""
