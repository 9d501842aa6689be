"""Questions about CLEVR scenes: programs over object sets, a grammar that words them, and a search that finds them.

A *template* is a program with blanks and the patterns that word it. The search fills the blanks so that the question
has an answer in a given scene, and so that the answers of a template stay balanced over scenes.
"""

from heatproof.clevr.questions.asking import Question, Tally, ask
from heatproof.clevr.questions.grammar import templates
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.questions.official import load_synonyms, load_templates
from heatproof.clevr.questions.records import record

__all__ = ["Question", "Tally", "ask", "load_synonyms", "load_templates", "make_questions", "record", "templates"]
