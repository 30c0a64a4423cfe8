"""How wide a text is in Helvetica, Arial or Liberation Sans, which have the same widths; lines that fit."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

FAMILY = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_LETTERS = {
    222: "ijl",
    260: "|",
    278: " !,./:;I[]ft\\",
    333: "()-`r",
    350: "\"'*^{}",
    500: "Jcksvxyz",
    556: "#$0123456789?L_abdeghnopqu–",
    584: "+<=>~−",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1000: "…",
    1015: "@",
}
_WIDTH = {letter: width / 1000 for width, letters in _LETTERS.items() for letter in letters}
_OTHER, _WIDE, _BOLD = 0.667, 1.0, 1.08


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of `text` in letters of `size`, in its unit; of letters that are not Latin an estimate."""
    width = sum(_WIDTH.get(letter, _other(letter)) for letter in text)
    return width * size * (_BOLD if bold else 1.0)


def _other(letter: str) -> float:
    if combining(letter):
        return 0.0
    return _WIDE if east_asian_width(letter) in "WF" else _OTHER


def wrapped(text: str, size: float, width: float, *, bold: bool = False) -> list[str]:
    """`text` in lines of at most `width`, broken between words; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(cut(word, size, width, bold=bold))
    return lines


def cut(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """`text`, or so much of its beginning and end as fits in `width` around an ellipsis."""
    kept = len(text)
    short = text
    while kept > 2 and text_width(short, size, bold=bold) > width:
        kept -= 1
        short = f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
    return short
