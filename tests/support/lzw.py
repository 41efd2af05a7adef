"""LZW as TIFF and GIF have it, so that tests can choose when the table is cleared."""

from functools import cache
from typing import Literal


@cache
def pack_lzw(data: bytes, order: Literal["big", "little"], *, bits: int = 8, most_strings: int = 1 << 12) -> bytes:
    """Codes of symbols of ``bits``, in TIFF's order (``big``) or GIF's. Tables of ``most_strings`` are cleared."""
    clear, early = 1 << bits, int(order == "big")
    written: list[tuple[int, int]] = []
    table: dict[bytes, int] = {}
    width = bits + 1

    def start() -> None:
        nonlocal width, table
        written.append((clear, width))
        width = bits + 1
        table = {bytes([symbol]): symbol for symbol in range(clear)}

    start()
    string = b""
    for symbol in data:
        longer = string + bytes([symbol])
        if longer in table:
            string = longer
            continue
        written.append((table[string], width))
        following = len(table) + 2
        if following < 1 << 12:
            table[longer] = following
            # A decoder is one string behind.
            if following + early == 1 << width and width < 12:
                width += 1
        string = bytes([symbol])
        if following + 1 >= most_strings and most_strings < 1 << 12:
            written.append((table[string], width))
            start()
            string = b""
    if string:
        written.append((table[string], width))
    following = len(table) + 2
    if following + early == 1 << width and width < 12:
        width += 1
    written.append((clear + 1, width))
    text = "".join(f"{code:0{size}b}" if order == "big" else f"{code:0{size}b}"[::-1] for code, size in written)
    groups = [text[at : at + 8].ljust(8, "0") for at in range(0, len(text), 8)]
    return bytes(int(group if order == "big" else group[::-1], 2) for group in groups)
