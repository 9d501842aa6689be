"""The tracer: shapes, light and materials against literal versions; pictures against the original's."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from heatproof.clevr.rendering import kernels, world
from heatproof.clevr.rendering.checks import check_scene
from heatproof.clevr.rendering.denoise import can_denoise
from heatproof.clevr.rendering.packing import pack, pixel_filter
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import seen_objects, trace_scene
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.errors import HeatproofError
from reference import clevr_rendering as reference

EMPTY = check_scene({"objects": []})
BACKGROUNDS = {"top": (105, 105, 105), "bottom": (144, 142, 138), "left": (123, 123, 125), "right": (119, 119, 117)}
"""Medians at the borders of original CLEVR pictures; left and right in the middle half of the height."""

needs_denoiser = pytest.mark.skipif(not can_denoise(), reason="needs pyoidn")


def thing(shape: str, x: float, y: float, size: str = "large", **other: object) -> dict[str, object]:
    place = [x, y, world.SIZES[size]]
    return {
        "shape": shape,
        "size": size,
        "material": "rubber",
        "color": "red",
        "rotation": 0.7,
        "3d_coords": place,
    } | other


@pytest.mark.parametrize("index", range(3))
def test_objects_seen_equal_those_of_walking_rays(index):
    """Reference: signed distances, walked along every ray; a few edge pixels may round differently."""
    scene = sample_scene(SceneSettings(seed=11), index)
    seen, expected = seen_objects(scene, 150, 100), reference.objects_seen(scene, 150, 100)
    assert (seen != expected).mean() < 4e-4
    assert set(np.unique(seen)) == set(range(len(scene["objects"]) + 1))


def test_ground_and_wall_are_met_where_the_profile_says():
    """Reference: the height above the profile is zero there, positive before; rays start on both sides of the bend."""
    rng = np.random.default_rng(0)
    packed = pack(EMPTY, 8, 8)
    along, height = np.transpose(world.BACKDROP)
    hits = 0
    for _ in range(3000):
        start = rng.uniform((-8, -8, 0), (8, 8, 8))
        if rng.random() < 0.5:  # on the ground or the wall itself
            start[2] = np.interp(start[:2] @ world.BACKDROP_AXIS, along, height) + 1e-3
        elif reference.height_above_backdrop(start) <= 0:
            continue
        way = rng.normal(size=3)
        way /= np.linalg.norm(way)
        t, *_ = kernels.meet_ground(tuple(start), tuple(way), packed)
        reach = min(t, 40.0)
        between = start + np.linspace(0.0, 0.999, 200)[:, None] * reach * way
        assert (reference.height_above_backdrop(between) > -1e-9).all()
        if t < 30:
            hits += 1
            assert reference.height_above_backdrop(start + t * way) == pytest.approx(0, abs=1e-9)
    assert hits > 1000


def test_direct_light_on_the_ground_equals_the_sum_over_the_lamps():
    """Reference: midpoint sums over each lamp's surface. Only lamps, no bounces, no objects."""
    size = (72, 48)
    packed = pack(EMPTY, *size)
    light, _, normals = kernels.trace(0, 48, *size, 256, 1, 5, packed)
    eye, rays = reference.view_rays(world.CAMERA, *size)
    flat = normals[..., 2] > 0.9999999
    points = (eye + (-eye[2] / rays[..., 2])[..., None] * rays)[flat]
    near = np.hypot(points[:, 0], points[:, 1]) < 4
    assert near.sum() > 900
    # A pixel is a mean over its filter, the reference its centre: hence the tolerance.
    assert_allclose(light[flat][near], reference.lit_ground(points[near], world.LAMPS), rtol=0.02)


def test_the_share_of_shade_that_is_known_for_a_pixel_misses_no_object():
    """Reference: rays to random points of the lamps, tested against every object."""
    rng = np.random.default_rng(1)
    blocked = 0
    for index in range(6):
        packed = pack(sample_scene(SceneSettings(seed=2, min_objects=8), index), 8, 8)
        for _ in range(400):
            place = (*rng.uniform(-4, 4, 2), 0.04)
            lamp = int(rng.integers(4))
            known = int(kernels.may_shade(place, 0.1, lamp, -1, packed))
            near = tuple(np.array(place) + rng.uniform(-0.05, 0.05, 3))
            way, distance, _ = kernels.towards_lamp(near, lamp, rng.random(), rng.random(), packed)
            for i in range(len(packed.radius)):
                if kernels.meet(near, way, i, distance, packed) < distance:
                    blocked += 1
                    assert known >> i & 1
    assert blocked > 100


@pytest.mark.parametrize("index", [1.2, 1.4])
@pytest.mark.parametrize("cosine", [1.0, 0.7, 0.3, 0.01])
def test_fresnel(cosine, index):
    """Reference: Snell's law and the two polarisations."""
    assert kernels.fresnel(cosine, index) == pytest.approx(reference.fresnel(cosine, index), rel=1e-9)


@pytest.mark.parametrize("u", [0.0, 0.1, 0.25, 0.5, 0.77, 0.999])
def test_on_circle(u):
    assert_allclose(kernels.on_circle(u), (math.cos(2 * math.pi * u), math.sin(2 * math.pi * u)), atol=7e-4)


@pytest.mark.parametrize(
    ("material", "tolerance"), [(kernels.GROUND, 1e-6), (kernels.METAL, 0.03), (kernels.RUBBER, 0.05)]
)
@pytest.mark.parametrize("tilt", [0.2, 0.9])
def test_bounces_carry_as_much_light_as_lamps_from_everywhere(material, tolerance, tilt):
    """Reference: the material's reflection, summed over a half sphere of directions.

    Rubber's velvet is taken as matt over a bounce, so it is left out of the sum by its share of light.
    """
    n, d = (0.0, 0.0, 1.0), (math.sin(tilt), 0.0, -math.cos(tilt))
    rng = np.random.default_rng(0)
    carried = np.mean([kernels.bounce(material, n, d, *rng.random(3), True)[1] for _ in range(20000)])
    cosines = (np.arange(300) + 0.5) / 300
    turns = (np.arange(300) + 0.5) / 300 * 2 * np.pi
    total = 0.0
    for cosine in cosines:
        sine = math.sqrt(1 - cosine**2)
        for turn in turns[::6]:
            way = (sine * math.cos(turn), sine * math.sin(turn), float(cosine))
            tinted, white = kernels.reflected(material, n, d, way, float(cosine), math.cos(tilt), True)
            total += (tinted + white) * 2 * np.pi / 300 / 50
    if material == kernels.RUBBER:
        coat, fuzz = kernels.fresnel(math.cos(tilt), 1.2), kernels.fresnel(math.cos(tilt), 1.4)
        assert total <= carried * (1 + tolerance)
        assert carried - total <= (1 - coat) * fuzz + tolerance
    else:
        assert carried == pytest.approx(total, rel=tolerance)


def test_pixel_filter_is_that_of_blender():
    """Reference: moments of the Blackman-Harris window over 1.5 pixels, by direct summation."""
    offsets = np.linspace(-0.75, 0.75, 100001)
    phase = 2 * np.pi * (offsets / 1.5 + 0.5)
    weight = 0.35875 - 0.48829 * np.cos(phase) + 0.14128 * np.cos(2 * phase) - 0.01168 * np.cos(3 * phase)
    spread = math.sqrt((weight * offsets**2).sum() / weight.sum())
    table = pixel_filter()
    middles = (table[1:] + table[:-1]) / 2
    assert middles.mean() == pytest.approx(0, abs=1e-6)
    assert middles.std() == pytest.approx(spread, rel=0.01)


def test_a_picture_does_not_depend_on_threads():
    scene = sample_scene(SceneSettings(seed=5), 0)
    one, three = (trace_scene(scene, 60, 40, 4, 9, threads=threads) for threads in (1, 3))
    for a, b in zip(one, three, strict=True):
        assert_array_equal(a, b)


def test_a_picture_depends_on_seed_and_index_and_repeats():
    settings = SceneSettings(seed=5)
    scene = sample_scene(settings, 0)
    picture = render(scene, 60, 40, samples=2, denoise=False).image
    assert_array_equal(render(json.loads(json.dumps(scene)), 60, 40, samples=2, denoise=False).image, picture)
    for change in ({"image_index": 1}, {"_render": scene["_render"] | {"seed": 6}}):
        other = render(scene | change, 60, 40, samples=2, denoise=False).image
        assert (other != picture).any(-1).mean() > 0.3


def test_few_samples_are_noisy_but_not_biased():
    scene = sample_scene(SceneSettings(seed=5), 2)
    few = np.mean([trace_scene(scene, 60, 40, 4, seed)[0] for seed in range(16)], axis=0)
    many = trace_scene(scene, 60, 40, 256, 99)[0]
    assert_allclose(few.mean((0, 1)), many.mean((0, 1)), rtol=0.01)


def test_the_squashed_view_is_the_resized_picture():
    """Reference: the large picture, reduced to the small one's pixels by area."""
    scene = sample_scene(SceneSettings(seed=5), 1)
    large = trace_scene(scene, 192, 128, 16, 1)[0].reshape(32, 4, 32, 6, 3).mean((1, 3))
    small = trace_scene(scene, 32, 32, 256, 1)[0]
    assert np.abs(large - small).mean() < 0.04 * large.mean()


def test_shadows_fall_away_from_the_key_lamp():
    alone = trace_scene(EMPTY, 48, 32, 64, 3)[0]
    shaded = trace_scene(check_scene({"objects": [thing("cylinder", 0, 0)]}), 48, 32, 64, 3)[0]
    from heatproof.clevr.rendering.camera import Camera

    camera = Camera(world.CAMERA, 48, 32)
    away = -np.array([*world.LAMPS["key"][:2], 0]) / np.linalg.norm(world.LAMPS["key"][:2])
    behind, before = camera.project(np.array([1.3 * away, -1.6 * away]))[:, :2].astype(int)
    assert shaded[behind[1], behind[0]].mean() < 0.8 * alone[behind[1], behind[0]].mean()
    assert shaded[before[1], before[0]].mean() > 0.9 * alone[before[1], before[0]].mean()


@needs_denoiser
def test_denoising_comes_nearer_to_the_truth():
    scene = sample_scene(SceneSettings(seed=5), 3)
    truth = render(scene, 96, 64, samples=1024, denoise=False).image.astype(float)
    plain, clean = (render(scene, 96, 64, samples=8, denoise=choice).image for choice in (False, True))
    assert ((clean - truth) ** 2).mean() < 0.5 * ((plain - truth) ** 2).mean()


@needs_denoiser
def test_rendering_imports_no_torch():
    script = (
        "import sys\nfrom heatproof.clevr.rendering.picture import render\n"
        "render({'objects': []}, 16, 16, samples=1, denoise=True)\n"
        "assert 'torch' not in sys.modules and 'pyoidn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_scene_without_jitter_is_seen_from_the_usual_place():
    bare = {"objects": [thing("cube", 1, 1)]}
    assert_array_equal(
        seen_objects(check_scene(bare), 60, 40),
        seen_objects(check_scene(bare | {"_render": {"camera": list(world.CAMERA)}}), 60, 40),
    )


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        ({}, "no list 'objects'"),
        ({"objects": [thing("cone", 0, 0)]}, r"objects\[0\].shape is 'cone'; known: cube, sphere, cylinder"),
        ({"objects": [thing("cube", 0, 0, color="pink")]}, r"objects\[0\].color is 'pink'"),
        ({"objects": [thing("cube", 0, math.nan)]}, r"objects\[0\].3d_coords must be 3 finite numbers"),
        ({"objects": [thing("cube", 0, 0, rotation=None)]}, r"objects\[0\].rotation must be 1 finite number"),
        ({"objects": [thing("cube", 0, 0)] * 63}, "63 objects"),
        ({"objects": [], "_render": {"key": [1, 2]}}, "_render.key must be 3 finite numbers"),
        ({"objects": [], "_render": {"camera": [0, 0, 9]}}, "_render.camera is .0, 0, 9., straight above, below or at"),
        ({"objects": [7], "image_filename": "a.png"}, r"a.png: objects\[0\] is not an object"),
    ],
)
def test_scenes_that_cannot_be_rendered_are_named(scene, said):
    with pytest.raises(HeatproofError, match=said):
        render(scene, 16, 16, samples=1, denoise=False)


# Against pictures made with the original assets


def compared(folder: Path, indices: range) -> tuple[list[float], list[float], list[dict[str, np.ndarray]]]:
    """PSNR per picture, IoU per object, and medians of the background at the borders, at 64 samples, denoised."""
    from PIL import Image

    psnr, overlaps, borders = [], [], []
    scenes = json.loads((folder / "CLEVR_scenes.json").read_text())["scenes"]
    for scene in (scenes[index] for index in indices):
        picture = render(scene, samples=64, denoise=True)
        original = np.asarray(Image.open(folder / "images" / scene["image_filename"]).convert("RGB"), dtype=float)
        mask = np.asarray(Image.open(folder / "masks" / scene["image_filename"]))
        psnr.append(10 * math.log10(255**2 / ((picture.image - original) ** 2).mean()))
        for number in range(1, len(scene["objects"]) + 1):
            ours, theirs = picture.objects == number, mask == number
            overlaps.append((ours & theirs).sum() / (ours | theirs).sum())
        borders.append(border_medians(picture.image, picture.objects == 0))
    return psnr, overlaps, borders


def border_medians(image: np.ndarray, background: np.ndarray) -> dict[str, np.ndarray]:
    height, width = background.shape
    middle = slice(height // 4, 3 * height // 4)
    strips = {
        "top": np.s_[: height // 20],
        "bottom": np.s_[-(height // 20) :],
        "left": np.s_[middle, : width // 20],
        "right": np.s_[middle, -(width // 20) :],
    }
    return {name: np.median(image[part][background[part]], axis=0) for name, part in strips.items()}


@needs_denoiser
def test_three_pictures_look_like_the_original(shared_data):
    psnr, overlaps, _ = compared(shared_data("clevr/original_look"), range(3))
    assert np.mean(psnr) >= 36
    assert min(overlaps) >= 0.985


@pytest.mark.slow
@needs_denoiser
def test_forty_pictures_look_like_the_original(shared_data):
    psnr, overlaps, borders = compared(shared_data("clevr/original_look"), range(40))
    print(f"\nPSNR {np.mean(psnr):.2f} dB ({min(psnr):.2f} to {max(psnr):.2f}); least IoU {min(overlaps):.4f}")
    assert np.mean(psnr) >= 36
    assert min(overlaps) >= 0.985
    for name, expected in BACKGROUNDS.items():
        median = np.median([found[name] for found in borders], axis=0)
        print(f"{name}: {median}, original {expected}")
        assert np.abs(median - expected).max() <= 3


def test_backgrounds_are_as_bright_as_the_original():
    """Reference: medians measured on original CLEVR pictures. Many small ones, for the lamps' jitter to even out."""
    found = []
    for index in range(80):
        picture = render(sample_scene(SceneSettings(seed=8), index), 60, 40, samples=32, denoise=False)
        found.append(border_medians(picture.image, picture.objects == 0))
    for name, expected in BACKGROUNDS.items():
        assert np.abs(np.median([each[name] for each in found], axis=0) - expected).max() <= 3, name
