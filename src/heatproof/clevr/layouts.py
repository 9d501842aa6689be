"""Where the files of each known kind of CLEVR data set lie, and how a folder is recognised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heatproof.errors import HeatproofError, unknown_name

QUESTION_FILE = re.compile(r"CLEVR(?:-XAI)?_(simple|complex)_questions\.json")
CLEVR_QUESTION_FILE = re.compile(r"CLEVR_(\w+)_questions\.json")
CLEVR_SCENE_FILE = re.compile(r"CLEVR_(\w+)_scenes\.json")


@dataclass(frozen=True)
class Layout:
    """The files of a data set."""

    name: str
    """`heatproof`, `clevr-xai` or `clevr`."""
    scenes: tuple[Path, ...]
    questions: Mapping[str, Path]
    """The file of each question set."""
    images: Path

    def picture(self, split: str, filename: str) -> Path:
        return self.images / split / filename if self.name == "clevr" else self.images / filename

    def has_scenes(self, question_set: str) -> bool:
        """Only the test questions of CLEVR v1.0 come without scenes."""
        return self.name != "clevr" or any(path.name == f"CLEVR_{question_set}_scenes.json" for path in self.scenes)


def find_layout(folder: Path, sets: Sequence[str] | None = None) -> Layout:
    """What kind of data set the folder holds, with the question sets named in `sets`, or all."""
    if not folder.is_dir():
        what = "is a file" if folder.is_file() else "does not exist"
        raise HeatproofError(f"{folder} {what}; give the folder of a CLEVR data set.")
    layout = recognise(folder)
    if layout is None:
        inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and recognise(path) is not None]
        hint = f" Did you mean {inside[0]}?" if inside else ""
        raise HeatproofError(
            f"{folder} holds no CLEVR data set: no CLEVR_scenes.json (made by heatproof clevr render), no "
            f"CLEVR-XAI_scenes.json (CLEVR-XAI), no questions/CLEVR_*_questions.json (CLEVR v1.0).{hint}"
        )
    if sets is None:
        return layout
    for name in sets:
        if name not in layout.questions:
            raise unknown_name(f"question set of {folder}", name, layout.questions)
    scenes = layout.scenes
    if layout.name == "clevr":
        scenes = tuple(path for path in scenes if path.name in {f"CLEVR_{name}_scenes.json" for name in sets})
    return Layout(layout.name, scenes, {name: layout.questions[name] for name in sets}, layout.images)


def recognise(folder: Path) -> Layout | None:
    """The layout, or None if the folder is none of the known ones."""
    names = [path.name for path in sorted(folder.iterdir()) if path.is_file()]
    questions = by_set(folder, names, QUESTION_FILE)
    if "CLEVR-XAI_scenes.json" in names and "CLEVR_scenes.json" not in names:
        return Layout("clevr-xai", (folder / "CLEVR-XAI_scenes.json",), questions, folder / "images")
    scene_names = sorted(path.name for path in (folder / "scenes").glob("*.json"))
    official = [name for name in scene_names if CLEVR_SCENE_FILE.fullmatch(name)]
    # single scene files mean that rendering has begun: the missing CLEVR_scenes.json is then named as a problem
    if "CLEVR_scenes.json" in names or questions or (scene_names and not official):
        return Layout("heatproof", (folder / "CLEVR_scenes.json",), questions, folder / "images")
    question_names = sorted(path.name for path in (folder / "questions").glob("*.json"))
    official_questions = by_set(folder / "questions", question_names, CLEVR_QUESTION_FILE)
    if official or official_questions:
        scenes = {folder / "scenes" / name for name in official}
        # every split but the test split comes with scenes
        scenes |= {folder / "scenes" / f"CLEVR_{name}_scenes.json" for name in official_questions if "test" not in name}
        return Layout("clevr", tuple(sorted(scenes)), official_questions, folder / "images")
    return None


def by_set(folder: Path, names: Iterable[str], pattern: re.Pattern[str]) -> dict[str, Path]:
    """The question files among `names`, by the set they hold, simple before complex.

    Where a set is there in both formats, `CLEVR-XAI_...` is taken: it has the results of program nodes, `CLEVR_...`
    has not.
    """
    found: dict[str, Path] = {}
    for name in sorted(names, reverse=True):  # `CLEVR-XAI_` sorts before `CLEVR_`, so it comes last and stays
        match = pattern.fullmatch(name)
        if match:
            found[match[1]] = folder / name
    return dict(sorted(found.items(), key=lambda item: item[0] != "simple"))
