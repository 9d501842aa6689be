"""The Python in the documents runs, and what they say of commands is true."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets() -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", code)
        for page in PAGES
        for number, code in enumerate(
            re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL), 1
        )
    ]


@pytest.mark.parametrize("code", [code for _, code in snippets()], ids=[name for name, _ in snippets()])
def test_snippets_run(code, tmp_path, monkeypatch, capsys):
    from heatproof.explainers import explainers
    from heatproof.metrics import metrics

    monkeypatch.chdir(tmp_path)
    for registry in (explainers, metrics):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # dataclasses look their module up
    exec(compile(code, "snippet", "exec"), module.__dict__)
    for run in tmp_path.glob("runs/*"):
        assert not (run / "failures").exists()
        assert (run / "report.html").is_file()


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for named in re.findall(r"`make ([a-z -]+)`", page.read_text(encoding="utf-8")):
            assert set(named.split()) <= targets, f"{page.name} names make {named}"
