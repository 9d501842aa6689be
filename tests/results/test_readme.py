"""A run's folder says what it is: README.md for people, run.schema.json for machines."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest

import heatproof


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "toy"
    heatproof.run("toy", out=out, jobs=1, signals=12)
    return out


@pytest.fixture(scope="module")
def schema(folder):
    return json.loads((folder / "run.schema.json").read_text())


def test_run_json_is_as_its_schema_says(folder, schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    checker.validate(json.loads((folder / "run.json").read_text()))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["format"], "five"),
        (["configuration", "seed"], -1),
        (["explainers", 0, "parameters"], []),
        (["story", "metrics"], []),
        (["sha256"], "abc"),
        (["precision"], "float8"),
    ],
)
def test_the_schema_notices_what_is_wrong(folder, schema, place, value):
    content = copy.deepcopy(json.loads((folder / "run.json").read_text()))
    inner = content
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)


def test_the_readme_names_every_file_and_says_what_was_found(folder):
    text = (folder / "README.md").read_text()
    for path in folder.iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        if not name.startswith(".") and name not in ("README.md", "summary.parquet"):
            assert f"`{name}`" in text, name
    for sentence in heatproof.load_run(folder).verdict.sentences:
        assert sentence.split(":")[0] in text.replace("\\", "")
    code = text.split("```python\n")[1].split("```")[0].replace('"."', repr(str(folder)))
    exec(compile(code, "README.md", "exec"), {})


def test_both_are_written_anew_when_a_run_goes_on(toy, tmp_path):
    out = tmp_path / "run"
    heatproof.run("toy", out=out, jobs=1, signals=4)
    for name in ("README.md", "run.schema.json"):
        (out / name).write_text("old")
    heatproof.run("toy", out=out, jobs=1, signals=4)
    assert (out / "README.md").read_text().startswith("# Toy signals")
    assert json.loads((out / "run.schema.json").read_text())["title"] == "run.json of Heatproof"
