"""Question files and the command that makes them: what is written, what is refused, and how it is said."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heatproof.clevr.questions import Tally, ask, load_templates, make_questions, record, templates
from heatproof.clevr.questions.make import summary
from heatproof.clevr.questions.official import load_synonyms
from heatproof.clevr.questions.records import is_there, read_scenes
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution
from question_scenes import random_scenes, scene_of

INFO = {"split": "new", "version": "1.0", "date": "", "license": ""}


def heatproof(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = "from heatproof.cli import main; main()"
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=cwd, env=environment
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A dataset folder with scenes only."""
    (tmp_path / "CLEVR_scenes.json").write_text(json.dumps({"info": INFO, "scenes": random_scenes(12)}))
    return tmp_path


def template_json(**changes: Any) -> dict[str, Any]:
    """A small template in the official form."""
    noun = ["<Z>", "<C>", "<M>", "<S>"]
    return {
        "text": ["How many <Z> <C> <M> <S>s are there?"],
        "nodes": [
            {"type": "scene", "inputs": []},
            {"type": "filter_count", "inputs": [0], "side_inputs": noun},
        ],
        "params": [
            {"name": name, "type": kind}
            for name, kind in zip(noun, ("Size", "Color", "Material", "Shape"), strict=True)
        ],
        "constraints": [],
    } | changes


def write_templates(folder: Path, *entries: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "mine.json").write_text(json.dumps(list(entries)))
    return folder


def test_the_command_from_a_folder_to_files(data):
    for question_set, least in (("simple", 40), ("complex", 120)):
        result = heatproof("clevr", "ask", ".", "--set", question_set, "--seed", "3", cwd=data)
        assert result.returncode == 0, result.stderr
        content = json.loads((data / f"CLEVR-XAI_{question_set}_questions.json").read_text())
        assert len(content["questions"]) >= least
        assert content["info"].items() >= INFO.items()
        assert f"{len(content['questions'])} questions about 12 scenes" in result.stdout
    assert "compare_integer[0] can only be answered with no" in result.stdout
    assert sorted(path.name for path in data.iterdir()) == [
        "CLEVR-XAI_complex_questions.json",
        "CLEVR-XAI_simple_questions.json",
        "CLEVR_scenes.json",
    ]


def test_the_command_loads_nothing_heavy(data):
    script = (
        "import sys\nfrom heatproof.cli import main\nsys.argv = ['heatproof', 'clevr', 'ask', '.']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'torch', 'numpy', 'polars', 'scipy', 'PIL', 'numba'} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=data)
    assert result.returncode == 0, result.stderr
    assert (data / "CLEVR-XAI_simple_questions.json").is_file()


def test_samples_are_printed(data):
    words = [
        "CLEVR_scenes.json",
        "--set",
        "complex",
        "--show",
        "2",
        "--out",
        "q.json",
        "--engine",
        "processes",
        "--quiet",
    ]
    result = heatproof("clevr", "ask", *words, "--jobs", "2", cwd=data)
    lines = [line for line in result.stdout.splitlines() if line.startswith("- `")]
    assert len(lines) == 2 * 9
    assert lines[0].startswith("- `compare_integer[0]` ")
    assert (data / "q.json").is_file()


def test_the_same_settings_give_the_same_bytes(data, tmp_path):
    first = make_questions(data, "complex", seed=4, out=tmp_path / "a.json").path.read_bytes()
    assert make_questions(data, "complex", seed=4, out=tmp_path / "b.json").path.read_bytes() == first
    assert make_questions(data, "complex", seed=5, out=tmp_path / "c.json").path.read_bytes() != first


@pytest.mark.parametrize(("form", "how"), [("clevr", Execution("local")), ("clevr-xai", Execution("processes", 2))])
def test_blocks_of_scenes_make_the_same_file(form, how, tmp_path):
    """Reference: all questions in one go, each record written by itself."""
    scenes, chosen = random_scenes(520), templates("simple")
    (tmp_path / "s.json").write_text(json.dumps({"scenes": scenes}))
    made = make_questions(tmp_path / "s.json", "simple", seed=2, form=form, how=how)
    tally = Tally()
    questions = list(ask(scenes, chosen, seed=2, tally=tally))
    families = {template.name: number for number, template in enumerate(chosen)}
    lines = (
        json.dumps(record(question, number, form, families[question.template.name]))
        for number, question in enumerate(questions)
    )
    assert made.path.read_text().partition("[\n")[2] == ",\n".join(lines) + "\n]}\n"
    assert made.tally == tally
    first = {question.template.name: question for question in reversed(questions)}
    assert made.samples == first


@pytest.mark.parametrize("how", [Execution("local"), Execution("processes", 2)], ids=["here", "in processes"])
def test_of_damaged_scenes_the_first_is_named(how, tmp_path):
    scenes = random_scenes(520)
    for place in (510, 260):
        scenes[place]["objects"][0]["color"] = "mauve"
    (tmp_path / "s.json").write_text(json.dumps({"scenes": scenes}))
    with pytest.raises(HeatproofError, match=r"s.json, scene 260 \(.*'mauve'"):
        make_questions(tmp_path / "s.json", "simple", how=how)
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_what_is_there_is_kept(data):
    made = make_questions(data, "simple")
    before = made.path.read_bytes()
    again = make_questions(data, "simple")
    assert again.tally is None
    assert "is there already" in summary(again)[0]
    with pytest.raises(HeatproofError, match=r"seed 0, not 1.*choose another --out"):
        make_questions(data, "simple", seed=1)
    result = heatproof("clevr", "ask", ".", "--per-image", "2", cwd=data)
    assert result.returncode == 2
    assert "per_image 10, not 2" in result.stderr
    assert "Traceback" not in result.stderr
    assert made.path.read_bytes() == before
    foreign = data / "other.json"
    foreign.write_text("somebody's notes")
    with pytest.raises(HeatproofError, match="other settings"):
        is_there(foreign, {"seed": 0})
    assert foreign.read_text() == "somebody's notes"


def test_other_scenes_are_other_settings(data):
    make_questions(data, "simple")
    (data / "CLEVR_scenes.json").write_text(json.dumps({"info": INFO, "scenes": random_scenes(13)}))
    with pytest.raises(HeatproofError, match="scenes"):
        make_questions(data, "simple")


def test_a_failure_leaves_no_file(data):
    scenes = random_scenes(12)
    scenes[7]["objects"][1]["color"] = "mauve"
    (data / "CLEVR_scenes.json").write_text(json.dumps({"info": INFO, "scenes": scenes}))
    with pytest.raises(HeatproofError, match=r"CLEVR_scenes.json, scene 7 .*color of object 1 is 'mauve'"):
        make_questions(data, "simple")
    assert [path.name for path in data.iterdir()] == ["CLEVR_scenes.json"]


def test_truncated_json_is_named(data):
    path = data / "CLEVR_scenes.json"
    path.write_text(path.read_text()[:-40])
    result = heatproof("clevr", "ask", "CLEVR_scenes.json", cwd=data)
    assert result.returncode == 2
    assert "CLEVR_scenes.json: truncated or damaged JSON" in result.stderr
    assert "Traceback" not in result.stderr


def damaged(change: Any) -> list[dict[str, Any]]:
    scenes = copy.deepcopy(random_scenes(3))
    change(scenes[1])
    return scenes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("objects"), "scene 1 .*'objects'"),
        (lambda s: s.update(objects=[]), "'objects'"),
        (lambda s: s.pop("relationships"), "'relationships'"),
        (lambda s: s["relationships"].pop("front"), "'front'"),
        (lambda s: s["relationships"]["left"].pop(), "'left'"),
        (lambda s: s["relationships"]["left"][0].append(99), r"object 0 are .*0 to"),
        (lambda s: s["objects"][0].pop("shape"), "shape of object 0 is None; it must be one of cube"),
        (lambda s: s.update(objects=["cube"] * 3), "size of object 0"),
        (lambda s: s.pop("image_filename"), "image_filename"),
        (lambda s: s.update(image_index="1"), "image_index"),
    ],
)
def test_damaged_scenes_are_named(change, said, tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"scenes": damaged(change)}))
    with pytest.raises(HeatproofError, match=rf"s.json, scene 1.*{said}" if "scene" not in said else said):
        make_questions(path, "simple")


@pytest.mark.parametrize("content", ["[]", '{"scenes": 3}', '{"questions": []}', '{"scenes": []}'])
def test_what_is_no_scene_file_is_said_to_be_none(content, tmp_path):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(HeatproofError, match="'scenes'"):
        read_scenes(tmp_path / "s.json")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(HeatproofError, match=r"CLEVR_scenes.json or CLEVR-XAI_scenes.json"):
        read_scenes(tmp_path)
    with pytest.raises(HeatproofError, match=r"none\.json: missing"):
        read_scenes(tmp_path / "none.json")
    with pytest.raises(HeatproofError, match="no folder"):
        load_templates(tmp_path / "none", "simple")
    with pytest.raises(HeatproofError, match="no templates"):
        load_templates(tmp_path, "simple")


def test_own_templates_are_asked(data, tmp_path):
    folder = write_templates(tmp_path / "t", template_json(text=["<Z> <C> <M> <S>s, how many?"]))
    (folder / "synonyms.json").write_text('{"thing": ["item"], "sphere": ["orb"]}')
    made = make_questions(data, "complex", templates=folder, out=data / "q.json")
    questions = json.loads(made.path.read_text())["questions"]
    assert len(questions) == 12
    assert all(q["question"].endswith("s, how many?") and q["template_filename"] == "mine.json" for q in questions)
    assert not any(word in q["question"] for q in questions for word in ("thing", "sphere", "ball"))


def test_the_command_names_an_unknown_function(data, tmp_path):
    nodes = [{"type": "scene", "inputs": []}, {"type": "cuont", "inputs": [0]}]
    write_templates(tmp_path / "t", template_json(), template_json(nodes=nodes, params=[]))
    result = heatproof("clevr", "ask", ".", "--templates", "t", cwd=data)
    assert result.returncode == 2
    for words in ("mine.json, template 1, node 1", "unknown function 'cuont'", "Did you mean 'count'"):
        assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (data / "CLEVR-XAI_simple_questions.json").exists()


SCENE, COUNT = template_json()["nodes"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": [SCENE, COUNT | {"inputs": [1]}]}, "node 1: inputs are .1.; they must be earlier"),
        ({"nodes": [SCENE, COUNT | {"inputs": []}]}, r"filter_count takes \(ObjectSet\)"),
        ({"nodes": [SCENE, COUNT | {"side_inputs": ["<Z>"]}]}, r"needs side inputs of types \(Size, Color"),
        ({"nodes": [SCENE, COUNT | {"side_inputs": ["<Q>", "<C>", "<M>", "<S>"]}]}, "<Q> is not listed"),
        ({"nodes": [SCENE, {"type": "filter", "inputs": [0], "side_inputs": COUNT["side_inputs"]}]}, "not an answer"),
        ({"nodes": []}, "not an answer"),
        ({"nodes": [{"inputs": []}]}, "needs 'text', 'nodes'"),
        ({"nodes": [SCENE, COUNT | {"inputs": ["0"]}]}, "not a list of int"),
        ({"params": [*template_json()["params"], {"name": "<R>", "type": "Relation"}]}, "<R> must be set by one node"),
        ({"text": []}, "at least one pattern"),
        ({"text": [7]}, "not a list of str"),
        ({"constraints": [{"type": "NULL", "params": ["<Q>"]}]}, "names <Q>"),
        ({"constraints": [{"type": "OUT_NEQ", "params": [0, 9]}]}, r"OUT_NEQ constraint names nodes \[0, 9\]"),
        ({"constraints": [{"type": "NEQ", "params": ["<Z>", "<C>"]}]}, "NEQ is not supported"),
        ({"constraints": [{"type": "EQ", "params": []}]}, "constraint EQ .* is unknown"),
    ],
)
def test_bad_templates_are_named(changes, said, tmp_path):
    folder = write_templates(tmp_path / "t", template_json(**changes))
    with pytest.raises(HeatproofError, match=rf"mine.json, template 0.*{said}"):
        load_templates(folder, "simple")


def test_null_on_what_is_always_set_is_refused(tmp_path):
    """A plain function's value and a relation are never left open, so such a template could never be asked."""
    entry = template_json(
        nodes=[SCENE, {"type": "filter_size", "inputs": [0], "side_inputs": ["<Z>"]}, {"type": "count", "inputs": [1]}],
        params=[{"name": "<Z>", "type": "Size"}],
        constraints=[{"type": "NULL", "params": ["<Z>"]}],
    )
    with pytest.raises(HeatproofError, match="<Z>, which filter_size always sets"):
        load_templates(write_templates(tmp_path / "t", entry), "simple")


def test_raw_unique_in_a_template_of_ones_own(tmp_path):
    """No official template holds a bare `unique`; where it does not hold one object, the search goes on."""
    entry = template_json(
        text=["What shape is the <Z> thing?"],
        nodes=[
            SCENE,
            {"type": "filter_size", "inputs": [0], "side_inputs": ["<Z>"]},
            {"type": "unique", "inputs": [1]},
            {"type": "query_shape", "inputs": [2]},
        ],
        params=[{"name": "<Z>", "type": "Size"}],
    )
    scene = scene_of("small red metal cube", "large red metal sphere", "large blue metal sphere")
    (tmp_path / "s.json").write_text(json.dumps({"scenes": [scene]}))
    made = make_questions(tmp_path / "s.json", "simple", templates=write_templates(tmp_path / "t", entry))
    (question,) = json.loads(made.path.read_text())["questions"]
    assert (question["answer"], question["program"][1]["value_inputs"]) == ("cube", ["small"])


def test_no_damage_to_a_template_file_is_a_traceback(tmp_path):
    """Random damage: every file either loads or is refused with a sentence."""
    rng = random.Random(0)
    junk = [None, 7, "x", [], {}, [None], {"type": None}, -1, [[0]], True]
    refused = 0
    for _ in range(400):
        entry = copy.deepcopy(template_json(constraints=[{"type": "NULL", "params": ["<C>"]}]))
        place: Any = entry
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = rng.choice(keys)
            if rng.random() < 0.5 or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = rng.choice(junk)
                break
            place = place[key]
        try:
            load_templates(write_templates(tmp_path / "t", entry), "simple")
        except HeatproofError:
            refused += 1
    assert refused > 200


def test_damaged_synonyms_are_named(tmp_path):
    (tmp_path / "synonyms.json").write_text('{"thing": "object"}')
    with pytest.raises(HeatproofError, match=r"synonyms.json"):
        load_synonyms(tmp_path)


def test_unknown_set_and_format_are_named(data):
    with pytest.raises(HeatproofError, match="unknown question set 'hard'"):
        make_questions(data, "hard")  # type: ignore[arg-type]
    with pytest.raises(HeatproofError, match="unknown format 'xml'"):
        make_questions(data, "simple", form="xml")  # type: ignore[arg-type]
    with pytest.raises(HeatproofError, match="per_image"):
        make_questions(data, "simple", per_image=0)
    assert len(templates("simple")) == 4
