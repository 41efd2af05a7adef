"""Laws about media, tested on generated valid files against independent readers.

A *law* is a sentence that ``spdl.io`` promises of every file, such as "a frame at time t is the picture on screen at
t". A *form* is a container with a codec, or a format of stills with its options. Each pair of a form and a law is a
*cell* (``cells.py``): a function that makes one file from random numbers, reads it with SPDL and with one or more
independent readers (``judges/``), and fails if they differ. Where readers are known to disagree, the cell refers to a
numbered row of ``exceptions.py``.

``make test`` tries the first file of each cell but the costly ones (``test_cells.py``), ``make soak`` new ones of all.
The whole matrix:

    .venv/bin/python -m tests.differential --files 30

prints one row for each form and one column for each law, with the seeds of all files that failed.
"""
