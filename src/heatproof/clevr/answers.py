"""Answers to questions, in words."""

from __future__ import annotations


def in_words(answer: object) -> str:
    """An answer as networks give it: yes and no, numbers as digits, words in small letters."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer).lower()
