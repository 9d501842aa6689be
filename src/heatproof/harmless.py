"""Text from data, made harmless where it leaves: for terminals, spreadsheets, Markdown and LaTeX.

Names of classes, files and explainers are whatever somebody wrote, and stay so inside. Pages are escaped by their
templates, which take `visible` too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heatproof.lazy import pl

KEPT = "\t\n"
"""Control characters that only move on."""
PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in KEPT} | {127: "\u2421"}
DIRECTIONS = (0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters without a width that turn the order of others, or break lines."""
SEEN = PICTURES | {code: f"\\x{code:02x}" for code in range(128, 160)} | {code: f"\\u{code:04x}" for code in DIRECTIONS}
UNSEEN = re.compile("[" + re.escape("".join(map(chr, SEEN))) + "\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula."""
TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "`": r"\textasciigrave{}", "\n": " ", "\t": " ", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "×": r"$\times$", "±": r"$\pm$", "−": r"$\mathord{-}$",
    "†": r"$\dagger$", "–": "--", "’": "'", "“": "``", "”": "''",
}  # fmt: skip


def visible(text: str) -> str:
    """Control characters as pictures or codes that do nothing: ESC as ␛. What is no character at all, as its code."""
    return decodable(text.translate(SEEN)) if UNSEEN.search(text) else text


def decodable(text: str) -> str:
    """Text that can be written: half of a character, which file names and JSON may have, as its code."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """The same, without line breaks and tabs either."""
    return visible(text).replace("\n", "\u240a").replace("\t", "\u2409")


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula: behind an apostrophe, where it would."""
    return f"'{text}" if text.startswith(FORMULA) else text


def unguarded(text: str) -> str:
    """The same text as it was before."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text


def spreadsheet(text: str) -> str:
    """Text as it stands in a CSV."""
    return visible(guarded(text))


def csv_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame whose texts and heads are harmless in a spreadsheet; numbers stay what they are."""
    from heatproof.lazy import pl

    changes = []
    for name in frame.select(pl.col(pl.String)).columns:
        known = [value for value in frame[name].unique().to_list() if value is not None]
        changed = {value: spreadsheet(value) for value in known if spreadsheet(value) != value}
        if changed:
            changes.append(pl.col(name).replace(changed))
    return frame.with_columns(changes).rename(spreadsheet)


def csv_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as CSV that is harmless in a spreadsheet."""
    return csv_frame(frame).write_csv().encode()


def csv_writer(frame: pl.DataFrame) -> Callable[[Path], object]:
    """Writes it to a path; not polars itself, whose errors are no OSError where the disk is full."""
    return lambda path: path.write_bytes(csv_bytes(frame))


def markdown_text(text: str) -> str:
    """Text as prose of a Markdown file: no markup, no tag, no cell of a table."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", one_line(text))


def markdown_code(text: str) -> str:
    """Text as code, in prose or in a cell of a table."""
    return "`" + one_line(text).replace("|", "\\|").replace("`", "'") + "`"


def latex(text: str) -> str:
    """Text as it stands in a paper, whatever is special to LaTeX in it."""
    return "".join(TEX.get(letter, letter) for letter in visible(text))
