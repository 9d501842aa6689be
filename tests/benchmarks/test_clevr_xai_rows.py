"""What CLEVR-XAI takes of its questions."""

from __future__ import annotations

from collections import Counter

from heatproof.benchmarks.clevr_xai.rows import spread
from heatproof.clevr import open_dataset
from heatproof.clevr.shipped import shipped_dataset


def test_few_questions_are_about_as_many_pictures_as_can_be():
    """By hand: 60 pictures, so 40 questions are about 40 of them, and 100 ask of none more than twice."""
    questions = open_dataset(shipped_dataset()).questions("simple")
    for limit, most, pictures in ((40, 1, 40), (100, 2, 60)):
        chosen = spread(questions, limit)
        asked = Counter(str(question.record["image_filename"]) for question in chosen)
        assert (len(chosen), max(asked.values()), len(asked)) == (limit, most, pictures)
        assert [question.index for question in chosen] == sorted(question.index for question in chosen)
    assert spread(questions, None) is questions
