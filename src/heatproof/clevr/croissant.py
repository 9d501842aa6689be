"""Croissant metadata (MLCommons, version 1.0) of a data set in CLEVR-XAI's format: what its files are and hold.

Made from what lies in the folder, so that it is written again whenever questions or masks are added.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heatproof.workspace import write_whole

FILE = "croissant.json"
CONFORMS = "http://mlcommons.org/croissant/1.0"
PAPER = "https://arxiv.org/abs/2003.07258"
CITE = (
    "@article{arras2022clevrxai, title={CLEVR-XAI: A Benchmark Dataset for the Ground Truth Evaluation of Neural"
    " Network Explanations}, author={Arras, Leila and Osman, Ahmed and Samek, Wojciech}, journal={Information Fusion},"
    " year={2022}}"
)
WORDS = (
    *("column", "data", "dataType", "extract", "field", "fileObject", "fileProperty", "fileSet", "format", "includes"),
    *("isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated"),
    *("replace", "separator", "source", "subField", "transform", "citeAs", "equivalentProperty", "samplingRate"),
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{word: f"cr:{word}" for word in WORDS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}
"""The words of Croissant's specification."""
FOLDERS = {
    "images": ("image/png", "*.png", "The pictures."),
    "masks": ("image/png", "*.png", "Every object in a flat colour of its own, as CLEVR-XAI has them."),
    "objects": ("image/png", "*.png", "The number of the object that each pixel shows, from 1 on; 0 is background."),
    "ground_truth": ("application/octet-stream", "*.npy", "Masks of what each answer depends on, eight pixels a byte."),
}
"""What folders of a data set hold: format, names of the files, and in words."""
RECORDS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "scenes": (
        "Scenes: objects with shape, colour, material, size and place, and how they stand to each other.",
        {"image_filename": ("sc:Text", "The picture's name."), "image_index": ("sc:Integer", "Its number.")},
    ),
    "questions": (
        "Questions about the scenes, with the programs that answer them.",
        {
            "question_index": ("sc:Integer", "The question's number."),
            "image_filename": ("sc:Text", "The picture that it is about."),
            "question": ("sc:Text", "In words."),
            "answer": ("sc:Text", "A word; true, false or a number in CLEVR-XAI's own form."),
        },
    ),
}
"""The lists in JSON files, and those of their entries that are plain."""


def write_croissant(folder: Path) -> Path:
    """Describe the data set in this folder beside its files."""
    content = json.dumps(metadata(folder), indent=1)
    write_whole(folder / FILE, lambda path: path.write_text(content + "\n", encoding="utf-8"))
    return folder / FILE


def renew_croissant(folder: Path) -> None:
    """Describe anew what is described already; the folders of others stay as they are."""
    if (folder / FILE).is_file():
        write_croissant(folder)


def metadata(folder: Path) -> dict[str, Any]:
    """The description as JSON-LD takes it."""
    lists = {path: kind for path in sorted(folder.glob("*.json")) if path.name != FILE for kind in kinds(path)}
    pictures = len(list((folder / "images").glob("*.png")))
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS,
        "name": identifier(folder.resolve().name) or "clevr_xai",
        "description": (
            f"A data set in the format of CLEVR-XAI, made by Heatproof {version('heatproof')}: {pictures:,} pictures of"
            " simple objects, with scenes, and where they were made questions and the pixels that answers depend on."
        ),
        "url": PAPER,
        "citeAs": CITE,
        "license": "none claimed",
        "version": "1.0.0",
        "creator": {"@type": "sc:Organization", "name": "made with Heatproof"},
        "datePublished": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "distribution": [*map(file_object, lists), *file_sets(folder)],
        "recordSet": [*(record_set(path, kind) for path, kind in lists.items()), *picture_records(folder)],
    }


def identifier(name: str) -> str:
    """Letters, numbers and underscores."""
    return "".join(letter if letter.isalnum() else "_" for letter in name).strip("_")


def kinds(path: Path) -> Iterator[str]:
    """The list that a JSON file holds, by how its content begins."""
    with path.open(encoding="utf-8") as file:
        head = file.read(2000)
    yield from (kind for kind in RECORDS if f'"{kind}"' in head)


def file_object(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/json",
        "sha256": digest.hexdigest(),
    }


def file_sets(folder: Path) -> Iterator[dict[str, Any]]:
    for name, (kind, pattern, about) in FOLDERS.items():
        if any((folder / name).glob(pattern)):
            yield {
                "@type": "cr:FileSet",
                "@id": name,
                "name": name,
                "description": about,
                "encodingFormat": kind,
                "includes": f"{name}/{pattern}",
            }


def record_set(path: Path, kind: str) -> dict[str, Any]:
    """The entries of a list in a JSON file."""
    about, entries = RECORDS[kind]
    name = identifier(path.stem)
    fields = [
        field(f"{name}/{entry}", entry, said, data_type, {"fileObject": {"@id": path.name}}, f"$.{kind}[*].{entry}")
        for entry, (data_type, said) in entries.items()
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": about, "field": fields}


def field(
    place: str, name: str, about: str, data_type: str, source: Mapping[str, Any], json_path: str
) -> dict[str, Any]:
    extract = {"extract": {"jsonPath": json_path}}
    return {
        "@type": "cr:Field",
        "@id": place,
        "name": name,
        "description": about,
        "dataType": data_type,
        "source": {**source, **extract},
    }


def picture_records(folder: Path) -> Iterator[dict[str, Any]]:
    """The pictures themselves."""
    if any((folder / "images").glob("*.png")):
        source = {"fileSet": {"@id": "images"}, "extract": {"fileProperty": "content"}}
        content = {"@type": "cr:Field", "@id": "pictures/content", "name": "content", "dataType": "sc:ImageObject"}
        yield {
            "@type": "cr:RecordSet",
            "@id": "pictures",
            "name": "pictures",
            "description": "The pictures, one record each.",
            "field": [content | {"description": "The pixels.", "source": source}],
        }
