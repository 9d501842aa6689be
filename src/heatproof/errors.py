"""The one exception that means: the user can fix this, and the message says how."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HeatproofError(Exception):
    """Bad input. The command line prints the message and exits with code 2, without a traceback."""


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """The option must be a whole number of at least `least`, and at most `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise HeatproofError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise HeatproofError(f"{name} must be at most {most:,}, got {value:,}.")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> HeatproofError:
    """An error for a name that does not exist, with the nearest ones that do."""
    known = sorted(known)
    near = get_close_matches(str(name), known, n=3, cutoff=0.5)
    if near:
        hint = "Did you mean " + " or ".join(repr(n) for n in near) + "?"
    else:
        hint = "Known: " + ", ".join(known) + "."
    return HeatproofError(f"unknown {kind} {name!r}. {hint}")


def words_of(problem: BaseException) -> str:
    """Kind and message of an error of anybody's, whatever its message does."""
    kind = type(problem).__name__
    try:
        return f"{kind}: {problem}"
    except Exception:
        return f"{kind}, whose message cannot be had"


def is_panic(problem: BaseException) -> bool:
    """Whether a library written in Rust (polars) met what it had not thought of; that is no Exception."""
    return type(problem).__name__ == "PanicException"


def is_out_of_memory(problem: BaseException) -> bool:
    """Python's error, CUDA's, and those of torch's CPU allocator and of MPS, which are plain RuntimeErrors."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return True
    words = ("can't allocate memory", "MPS backend out of memory")
    return isinstance(problem, RuntimeError) and any(part in words_of(problem) for part in words)
