"""A run as it shows itself in a notebook: the verdict's sentences and the table."""

from __future__ import annotations

from heatproof.harmless import markdown_text
from heatproof.report.page import templates
from heatproof.results.export import as_markdown, paper_tables
from heatproof.results.run import Results


def html(run: Results) -> str:
    """For notebooks; nothing in it acts outside of its own box."""
    text: str = (
        templates()
        .get_template("notebook.html.j2")
        .render(
            title=run.story.title, sentences=run.verdict.sentences, tables=paper_tables(run), folder=str(run.folder)
        )
    )
    return text


def markdown(run: Results) -> str:
    """For whatever shows Markdown."""
    said = "\n\n".join(markdown_text(sentence) for sentence in run.verdict.sentences)
    return f"### {markdown_text(run.story.title)}\n\n{said}\n\n{as_markdown(run)}"
