"""Right answers after an object was changed: the questions, what the network says then, and the interval of a share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from heatproof.benchmarks.clevr_removal import ClevrRemoval
from heatproof.benchmarks.clevr_removal.following import changes_of, following, right_answer, share_interval
from heatproof.clevr import open_dataset
from heatproof.clevr.answers import in_words
from heatproof.clevr.changed_pictures import folder_of, look_of, make_changed, wanted_of
from heatproof.clevr.interventions import RULES, changed
from heatproof.clevr.questions.world import look_at
from heatproof.clevr.shipped import shipped_dataset
from removal_world import QUESTIONS, small_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A scene that ships, with its pictures after either change."""
    folder = small_world(tmp_path_factory.mktemp("following") / "world", 1, QUESTIONS)
    data = open_dataset(folder)
    for intervention in RULES:
        make_changed(wanted_of(data.scenes.values(), intervention), folder_of(data), look_of(data))
    return folder


def cells(table, line: str) -> list[str]:
    return [cell.text for cell in dict(table.rows)[line]]


@pytest.mark.parametrize(("intervention", "field"), [("recolour", "color"), ("rematerial", "material")])
def test_the_asked_object_is_answered_with_what_it_has_now(world, intervention, field):
    """Reference: the questions for the attribute, found by hand, and the network asked about the files by hand."""
    opened = ClevrRemoval(dataset=str(world), intervene=intervention).open(0)
    asked = [one for one in opened.measured if one.question.program[-1]["type"] == f"query_{field}"]
    assert asked
    followed = 0
    for one in asked:
        assert one.is_right(opened.network)
        (place,) = one.marked()["single_object"]
        new = RULES[intervention].value(one.question.scene, place)
        assert new != one.question.scene["objects"][place][field] == one.question.answer
        followed += opened.network.answers[one.others[place]] == new
    counted, share, *_ = cells(following(opened.network, opened.measured, intervention), field)
    assert int(counted) == len(asked)
    assert share.startswith(f"{followed / len(asked):.1%} (")
    assert followed == len(asked), "film_vqa sees what colour and material an object has"
    (section,) = [section for section in opened.story.sections if "follow" in section.title]
    assert cells(section.blocks[0], "all")[0] == str(len(asked))


def test_programs_are_executed_anew():
    """Reference: the answers of the files, and four questions about the first scene, answered by hand."""
    data = open_dataset(shipped_dataset())
    for name in ("simple", "complex"):
        for question in data.questions(name):
            assert right_answer(question.program, look_at(question.scene)) == in_words(question.answer)
    scene = next(iter(data.scenes.values()))
    assert [(thing["color"], thing["material"], thing["shape"]) for thing in scene["objects"]] == [
        ("green", "rubber", "sphere"),
        ("blue", "metal", "sphere"),
        ("yellow", "metal", "cube"),
        ("red", "metal", "cylinder"),
    ]
    asked = {question.text: question.program for question in data.questions("complex")[:10]}
    equal = asked["Are there an equal number of large green matte spheres and brown rubber balls?"]
    assert [right_answer(equal, look_at(changed(scene, place, "rematerial"))) for place in range(4)] == [
        "yes",
        "no",
        "no",
        "no",
    ]
    block = asked["Does the yellow metallic block have the same size as the blue thing?"]
    after = [right_answer(block, look_at(changed(scene, place, "rematerial"))) for place in range(4)]
    assert after == ["no", "no", None, "no"], "without a metallic block, there is nothing to compare"
    assert right_answer([], look_at(scene)) is None
    assert right_answer([{"function": "scene", "inputs": []}, {"type": "weigh", "inputs": [0]}], look_at(scene)) is None


def test_complex_questions_have_right_answers_after_a_change(world):
    """Reference: every question and object by hand; and the page says it."""
    opened = ClevrRemoval(dataset=str(world), intervene="rematerial", questions="complex").open(0)
    network, scene = opened.network, opened.measured[0].question.scene
    expected = {True: [], False: []}
    for one in opened.measured:
        for place in range(len(scene["objects"])) if one.is_right(network) else ():
            right = right_answer(one.question.program, look_at(changed(scene, place, "rematerial")))
            if right is not None:
                other = right != in_words(one.question.answer)
                expected[other].append(network.answers[one.others[place]] == right)
    assert expected[True]
    found = list(changes_of(network, opened.measured, "rematerial"))
    assert [change.said == change.right for change in found if change.matters] == expected[True]
    line = cells(following(network, opened.measured, "rematerial"), "all")
    assert line[0] == str(len(expected[True]))
    assert line[1].startswith(f"{np.mean(expected[True]):.1%} (")
    assert line[2] == str(len(expected[False]))
    assert line[3].startswith(f"{np.mean(expected[False]):.1%} (")
    assert "Does the network follow the change?" in [section.title for section in opened.story.sections]


def test_captions_say_what_an_object_has_now(world):
    opened = ClevrRemoval(dataset=str(world), intervene="rematerial").open(0)
    told = next(iter(opened.story.captions.values()))
    assert told.startswith("The answer's logit with ")
    assert "large green rubber sphere that is metal now \N{MINUS SIGN}" in told
    pictures = next(iter(opened.story.companions.values()))
    assert any(text.startswith("with small blue metal sphere that is rubber now: ") for text, _ in pictures)


@pytest.mark.parametrize(("hits", "count"), [(7, 9), (0, 6), (6, 6), (1, 40)])
def test_the_interval_is_wilsons_of_what_clusters_are_worth(hits, count):
    """Reference: SciPy. Cases that come three times are worth no more than once."""
    reference = binomtest(hits, count).proportion_ci(method="wilson")
    values = [place < hits for place in range(count)]
    for times in (1, 3):
        share, low, high = share_interval(values * times, [str(place) for place in range(count)] * times)
        assert share == hits / count
        assert (low, high) == pytest.approx((reference.low, reference.high), abs=1e-6)


def test_the_interval_is_as_wide_as_that_of_pictures_drawn_anew():
    """Reference: a bootstrap of clusters of different sizes, whose cases hang together."""
    rng = np.random.default_rng(0)
    sizes, chances = rng.integers(1, 12, 200), rng.beta(4, 2, 200)
    clusters = np.repeat(np.arange(200), sizes)
    hits = rng.random(len(clusters)) < chances[clusters]
    _, low, high = share_interval(hits.tolist(), list(map(str, clusters)))
    found = np.bincount(clusters, hits)
    drawn = rng.integers(0, 200, (4000, 200))
    low_drawn, high_drawn = np.quantile(found[drawn].sum(1) / sizes[drawn].sum(1), (0.025, 0.975))
    assert high - low == pytest.approx(high_drawn - low_drawn, rel=0.06)
    alone = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    assert high - low > 1.2 * (alone.high - alone.low)
