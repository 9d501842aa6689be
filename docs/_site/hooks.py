"""What MkDocs makes beside the pages of this folder: fact sheets, metrics, the API, and where everything stands.

A new page needs no line here: it is found by its folder or its name, and what nothing matches stands under "More".
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
FROM_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "examples/plugin/README.md": "plugin-template.md",
}
"""Pages that stand elsewhere in the project, and what the site calls them."""

SECTIONS = {
    "Home": ["index.md"],
    "Tutorials": [
        *(f"tutorials/{name}.md" for name in ("first-run", "my-explainer", "my-classifier", "heatmaps", "biases")),
        "tutorials/*.md",
    ],
    "Benchmarks": [
        *("svea.md", "svea*.md", "focus.md", "focus*.md", "clevr-xai.md", "clevr*.md", "vqa-network.md"),
        *("benchmarks/*.md", "masks*.md", "scene-logic.md"),
    ],
    "Explainers": [
        *(f"explainers/{name}.md" for name in ("gradient", "cam", "propagation", "perturbation", "attention")),
        *("transformers*.md", "explainers/floors.md", "explainers/yours.md", "explainers/*.md"),
    ],
    "Fact sheets": ["sheets/index.md", "sheets/*.md"],
    "Metrics": ["metrics.md", "metrics/*.md", "survival*.md", "removal*.md", "segmentation*.md"],
    "How to": [
        *("models.md", "plugins.md", "plugin-template.md", "peers.md", "evaluate.md", "show.md", "ways-out.md"),
        *("scale.md", "devices.md", "how-to/*.md"),
    ],
    "Evidence and limits": ["verdict.md", "reproducibility.md", "reliability.md", "papers.md", "limits.md"],
    "Reference": ["api.md", "files.md", "reference/*.md"],
    "Project": ["licences.md", "contributing.md", "security.md", "code-of-conduct.md", "changelog.md"],
    "More": ["*.md"],
}
"""Where pages stand: by the first pattern that matches, in the order of the patterns."""

UNIFORM = {
    "mask_share": "the mask's share of the picture",
    "half": "one half",
    "window": "the score of the window in the middle",
    "everything": "the mask's share, as what marks everything",
    "one": "one",
    "balanced": "what speaks as much for as against gets: one half",
    "balanced_f1": "the F1 score of what speaks as much for as against",
    "scene": "what it gets in this very scene",
    None: "what it gets in this very scene; the rows of a run say it",
}
"""What a map that is the same everywhere gets, by the words of `heatproof.metrics.base.Uniform`."""
FAMILIES = {
    "explainers/gradient.md": ("gradient",),
    "explainers/cam.md": ("cam",),
    "explainers/propagation.md": ("propagation",),
    "explainers/perturbation.md": ("perturbation",),
    "explainers/attention.md": ("attention",),
    "explainers/floors.md": ("floor", "ceiling"),
}
"""Pages of families, and which explainers they are about."""

LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?(\))")
WORDS = re.compile(r"\[`?([^\]`]*)`?\]\(#\)")
"""A link to nowhere, and its words."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made, and put all in order."""
    made = dict(generated())
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    config["nav"] = nav([file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """A family's page ends with what vouches for its methods; links lead to where the site has the page."""
    markdown += family_section(FAMILIES.get(page.file.src_uri, ()))
    source = origins().get(page.file.src_uri, f"docs/{page.file.src_uri}")
    here = (ROOT / source).parent

    def moved(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups(default="")
        if not target:
            return match[0]
        path = (here / target).resolve()
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        wanted = FROM_THE_ROOT.get(inside) or inside.removeprefix("docs/")
        if inside in FROM_THE_ROOT or inside.startswith("docs/"):
            depth = page.file.src_uri.count("/")
            return f"{opening}{'../' * depth}{wanted}{anchor}{closing}"
        return f"{opening}#{closing}"

    pieces = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    pieces[::2] = [WORDS.sub(r"`\1`", LINK.sub(moved, piece)) for piece in pieces[::2]]  # the others are code
    return "".join(pieces)


def origins() -> dict[str, str]:
    return {page: place for place, page in FROM_THE_ROOT.items()}


def generated() -> Iterator[tuple[str, str]]:
    """Names and contents of the pages that are made."""
    for place, page in FROM_THE_ROOT.items():
        if (ROOT / place).is_file():
            yield page, (ROOT / place).read_text(encoding="utf-8")
    yield from sheets()
    yield "metrics.md", metric_page()
    yield "api.md", api_page()


def vouched(file: str) -> dict[str, str]:
    """The tests that hold each explainer or metric against something independent, as the tests list them."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    (found,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(name) for name in node.targets] == ["REFERENCES"]
    ]
    references: dict[str, str] = ast.literal_eval(found)
    return references


def family_section(families: tuple[str, ...]) -> str:
    """For every explainer of these families its fact sheet, its reference test, and the papers' numbers beside ours."""
    from heatproof.explainers import explainers
    from heatproof.explainers.facts import PAPER_WORDS, sheet

    if not families:
        return ""
    tests = vouched("explainers/test_contract.py")
    lines = [
        "",
        "## Tests and papers",
        "",
        "Each explainer has a fact sheet and a test against an independent reference.",
    ]
    lines += ["Where the paper of a benchmark reports a number for it, that number is shown beside ours.", ""]
    lines += ["| explainer | reference test | paper and ours |", "|---|---|---|"]
    for name, cls in explainers.own().items():
        if cls.family in families:
            numbers = [
                f"{one.benchmark}, `{one.metric}`: {100 * one.paper:.1f} and {100 * one.ours:.1f}"
                for one in sheet(name).papers
            ]
            file, _, test = tests[name].partition("::")
            shown = f"`tests/{file}`: {test.removeprefix('test_').replace('_', ' ')}"
            lines.append(f"| [{name}](../sheets/{name}.md) | {shown} | {'<br>'.join(numbers)} |")
    return "\n".join([*lines, "", PAPER_WORDS, ""])


def sheets() -> Iterator[tuple[str, str]]:
    """A fact sheet for each explainer, and a table of all."""
    from heatproof.explainers import explainers
    from heatproof.explainers.facts import NEEDS, markdown, sheet
    from heatproof.explainers.spec import BROUGHT

    found = [sheet(name) for name in sorted([*explainers.own(), *BROUGHT])]
    tests = vouched("explainers/test_contract.py")
    rows = []
    for one in found:
        need = next((word for word, text in NEEDS.items() if text == one.needs), "")
        rows.append(f"| [{one.name}]({one.name}.md) | {one.family} | {need} | {one.cost} | {one.paper or ''} |")
        test = tests.get(one.name, "metrics/test_effects.py::test_the_ceiling_scores_exactly_one")
        yield f"sheets/{one.name}.md", f"{markdown(one)}\nHeld to an independent reference by `tests/{test}`.\n"
    yield (
        "sheets/index.md",
        "# Fact sheets\n\nFor each explainer: what it needs of a model, what it costs, which axioms it keeps, and how"
        " it did in our own runs, after Sokol and Flach 2020. The numbers are measured by `make facts`. In a terminal,"
        " `heatproof list explainers NAME` prints a fact sheet.\n\n"
        "| explainer | family | needs | passes per case | paper |\n"
        "|---|---|---|---|---|\n" + "\n".join(rows) + "\n",
    )


def metric_page() -> str:
    """All metrics: what they are, what they need, where their functions are, and what vouches for them."""
    from heatproof.explainers.facts import PAPER_WORDS, published
    from heatproof.metrics import metrics
    from heatproof.pooling import poolings

    lines = ["# Metrics and poolings", ""]
    lines += ["A metric is a pure function: it takes heatmaps and returns one value per case, or NaN where the score"]
    lines += ["is undefined ([how these are treated](evaluate.md#undefined-scores)). Each metric is tested against an"]
    lines += ["independent reference. “After” a paper means that the score is ours and the idea is theirs.", ""]
    lines += ["| metric | name | better | paper |", "|---|---|---|---|"]
    for name, metric in sorted(metrics.own().items()):
        better = "higher" if metric.higher_is_better else "lower"
        lines.append(f"| [{metric.title}](#{name}) | `{name}` | {better} | {metric.paper} |")
    lines += [""]
    tests = vouched("metrics/test_metric_contract.py")
    for name, metric in sorted(metrics.own().items()):
        low, high = metric.range
        rows = [
            ("better", "higher" if metric.higher_is_better else "lower"),
            ("range", f"{low:g} to {high:g}"),
            ("needs", ", ".join(metric.needs) or "the heatmap alone"),
            ("a uniform map gets", UNIFORM.get(metric.uniform, "")),
            ("paper", metric.paper),
            ("reference test", f"`tests/{tests[name]}`"),
        ]
        lines += [f"## {metric.title} {{ #{name} }}", "", f"`{name}`", "", "| | |", "|---|---|"]
        lines += [f"| {word} | {text} |" for word, text in rows if text]
        function = metric.function
        made = "<locals>" in function.__qualname__  # by another function, so that no page of source has its name
        text = inspect.cleandoc(function.__doc__ or "")
        source = f"::: {function.__module__}.{function.__qualname__}\n    options: {{heading_level: 4}}"
        lines += ["", text if made else source, ""]
        numbers = [one for one in published() if one.metric == name]
        if numbers:
            lines += ["| benchmark | explainer | explained | paper | ours |", "|---|---|---|---:|---:|"]
            lines += [
                f"| {one.benchmark} | `{one.explainer}` | {one.target} | {100 * one.paper:.1f} | {100 * one.ours:.1f} |"
                for one in numbers
            ]
            lines += ["", PAPER_WORDS, ""]
    lines += ["## Poolings", "", "A pooling turns relevance with channels into a heatmap without negative values.", ""]
    lines += ["| pooling | formula |", "|---|---|"]
    lines += [f"| `{name}` | `{(function.__doc__ or '').strip()}` |" for name, function in poolings.own().items()]
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """The public names, from their docstrings."""
    import heatproof

    lines = ["# Python API", "", "After `import heatproof`, these names are public and stable.", ""]
    for name, home in sorted(heatproof._HOMES.items(), key=lambda item: item[0].lower()):
        lines += [f"::: heatproof.{home}.{name}", ""]
    lines += ["## Checks for authors", "", "Does your explainer, metric or benchmark keep its contract?", ""]
    lines += [f"::: heatproof.testing.check_{kind}\n" for kind in ("explainer", "metric", "benchmark")]
    lines += ["## Focus", "", "::: heatproof.focus", ""]
    return "\n".join(lines) + "\n"


def nav(pages: list[str]) -> list[Any]:
    """All pages under their sections; those of many that are alike fold behind the page that lists them."""
    left, found = sorted(pages), []
    for title, patterns in SECTIONS.items():
        chosen = [page for pattern in patterns for page in left if fnmatch(page, pattern)]
        chosen = list(dict.fromkeys(chosen))
        left = [page for page in left if page not in chosen]
        if title == "Home":
            found.append({title: chosen[0]})
        elif title == "Fact sheets":
            found.append({title: [chosen[0], {"By name": chosen[1:]}]})
        elif chosen:
            found.append({title: chosen})
    return found
