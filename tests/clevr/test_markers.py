"""Where markers stand: beside their object, on the ground alone, nearer to it than to any other."""

from __future__ import annotations

import numpy as np
import pytest

from heatproof.clevr import open_dataset
from heatproof.clevr.markers import CLEAR, COLOUR, LEAD, REACH, SIDE, beside, covered, with_marker
from heatproof.clevr.shipped import shipped_dataset
from heatproof.models.vqa_data import nearest


def distance(place: tuple[int, int], whose: np.ndarray) -> float:
    """To the nearest pixel, one by one."""
    return min((np.hypot(row - place[0], column - place[1]) for row, column in np.argwhere(whose)), default=np.inf)


def test_markers_stand_where_they_should():
    """Reference: distances looked at pixel by pixel, and no allowed place is nearer."""
    data = open_dataset(shipped_dataset())
    found = 0
    for scene in list(data.scenes.values())[:4]:
        ids = nearest(data.object_ids(scene), 128)
        for thing in range(1, len(scene["objects"]) + 1):
            place = beside(ids, thing)
            if place is None:
                continue
            found += 1
            marker = covered(place, ids.shape)
            assert marker.sum() == SIDE**2
            reach = SIDE // 2 + CLEAR
            around = ids[place[0] - reach : place[0] + reach + 1, place[1] - reach : place[1] + reach + 1]
            assert around.shape == (SIDE + 2 * CLEAR,) * 2
            assert not around.any()
            own, other = distance(place, ids == thing), distance(place, (ids != 0) & (ids != thing))
            assert own <= REACH
            assert other >= own + LEAD
    assert found > 15


def test_a_marker_changes_its_own_pixels_only():
    picture = np.random.default_rng(0).integers(0, 200, (128, 128, 3), dtype=np.uint8)
    before = picture.copy()
    drawn = with_marker(picture, (20, 30))
    marker = covered((20, 30), (128, 128))
    assert np.array_equal(picture, before)
    assert np.array_equal(drawn[~marker], picture[~marker])
    assert (drawn[marker] == COLOUR).all()
    assert marker[18:23, 28:33].all()


@pytest.mark.parametrize("ids", [np.zeros((20, 20), np.uint8), np.ones((20, 20), np.uint8)], ids=["gone", "no room"])
def test_where_there_is_no_room_there_is_no_marker(ids):
    assert beside(ids, 1) is None


def test_one_object_alone_has_room():
    ids = np.zeros((40, 40), np.uint8)
    ids[20:24, 20:24] = 1
    assert beside(ids, 1) is not None
