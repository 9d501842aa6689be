"""A data set of pictures in a folder, as CLEVR-XAI's: resumable, in whole files, made wherever an executor works."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from heatproof.clevr.json_files import read_object
from heatproof.clevr.rendering.blender import blender_session, check_assets
from heatproof.clevr.rendering.denoise import can_denoise, require_denoiser
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import seen_objects, warm_up
from heatproof.clevr.scenes import BACKGROUND, SceneSettings, image_name, sample_scene
from heatproof.clevr.srgb import srgb
from heatproof.clevr.words import Renderer
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.executors import Failure
from heatproof.executors.choice import AUTO, Execution
from heatproof.lazy import np
from heatproof.progress import Progress, silent
from heatproof.workspace import sweep, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGES, MASKS, SCENES, OBJECTS = "images", "masks", "scenes", "objects"
ALL_SCENES, SETTINGS = "CLEVR_scenes.json", "settings.json"
RENDERERS: tuple[str, ...] = get_args(Renderer)
PNG_END = b"IEND\xaeB`\x82"
SECONDS_PER_SCENE, SECONDS_PER_PATH = 0.016, 3.3e-7
"""About what sampling a scene takes, and following a path of light: enough to know whether processes are worth it."""
MOST_NAMED = 5
"""Pictures that an error names."""


@dataclass(frozen=True)
class PictureSettings:
    """How pictures are made. `denoise=None`: where it can be done."""

    renderer: str = "tracer"
    samples: int = 64
    denoise: bool | None = None
    blender_assets: Path | None = None

    def __post_init__(self) -> None:
        if self.renderer not in RENDERERS:
            raise unknown_name("renderer", self.renderer, RENDERERS)
        require_whole("samples", self.samples, 1)
        if self.blender_assets is not None and self.renderer != "blender":
            raise HeatproofError("blender-assets is of use with --renderer blender only; leave it out.")
        check_assets(self.blender_assets)
        if self.denoise and self.renderer == "tracer":
            require_denoiser()

    @property
    def denoised(self) -> bool:
        """Blender brings its own denoiser."""
        return self.renderer == "blender" or can_denoise() if self.denoise is None else self.denoise

    @property
    def settled(self) -> PictureSettings:
        """The same, whatever the machine has that paints."""
        assets = self.blender_assets and self.blender_assets.resolve()
        return replace(self, denoise=self.denoised, blender_assets=assets)


@dataclass(frozen=True)
class Lacking:
    """What a data set lacks of one picture. A scene that it has goes along, for the painter may not see its files."""

    index: int
    kinds: Sequence[str]
    scene: bytes | None


@dataclass(frozen=True)
class Painter:
    """All that is needed to make any picture of a data set, anywhere. Without `pictures`, only scenes and ids."""

    scenes: SceneSettings
    pictures: PictureSettings | None
    mask_size: tuple[int, int]
    """Height and width of masks and ids."""

    def compute(self, lacking: Lacking) -> dict[str, bytes]:
        """The files that are lacking, by kind. A scene that was there is rendered as it is."""
        made: dict[str, bytes] = {}
        if lacking.scene is None:
            scene: Mapping[str, Any] = sample_scene(self.scenes, lacking.index)
            made[SCENES] = json_bytes(scene)
        else:
            scene = json.loads(lacking.scene)
        if OBJECTS in lacking.kinds or MASKS in lacking.kinds:
            height, width = self.mask_size
            seen = seen_objects(scene, width, height)
            made |= {OBJECTS: png_bytes(seen), MASKS: png_bytes(flat_colours(scene, seen))}
        if IMAGES in lacking.kinds and self.pictures is not None:
            made[IMAGES] = painted(scene, self.scenes.width, self.scenes.height, self.pictures)
        return made

    @property
    def seconds(self) -> float:
        """About what a picture takes."""
        paths = self.scenes.width * self.scenes.height * self.pictures.samples if self.pictures else 0
        return SECONDS_PER_SCENE + paths * SECONDS_PER_PATH


def painted(scene: Mapping[str, Any], width: int, height: int, how: PictureSettings) -> bytes:
    """The scene's picture, as a file."""
    if how.renderer == "tracer":
        return png_bytes(render(scene, width, height, samples=how.samples, denoise=how.denoised).image)
    with TemporaryDirectory(prefix="heatproof-") as folder:
        path = Path(folder, "picture.png")
        blender_session(how.blender_assets).render(scene, width, height, how.samples, how.denoised, path)
        return path.read_bytes()


@dataclass(frozen=True)
class Plan:
    """A data set: where it lies, and who paints it."""

    folder: Path
    painter: Painter

    def paths(self, index: int) -> dict[str, Path]:
        """The files of a picture, in the order in which they are written."""
        name = image_name(self.painter.scenes.split, index)
        pictures = {kind: self.folder / kind / f"{name}.png" for kind in (OBJECTS, MASKS, IMAGES)}
        return {SCENES: self.folder / SCENES / f"{name}.json"} | pictures

    def lacking(self, index: int) -> Lacking | None:
        """What of picture `index` is not there, or not whole."""
        wanted = (SCENES, OBJECTS, MASKS) if self.painter.pictures is None else (SCENES, OBJECTS, MASKS, IMAGES)
        paths = self.paths(index)
        kinds = [kind for kind in wanted if not is_whole(paths[kind])]
        return Lacking(index, kinds, None if SCENES in kinds else paths[SCENES].read_bytes()) if kinds else None

    def write(self, index: int, made: Mapping[str, bytes]) -> None:
        for kind, path in self.paths(index).items():
            if kind in made:
                write_whole(path, partial(Path.write_bytes, data=made[kind]))


def is_whole(path: Path) -> bool:
    """Whether a PNG or JSON file is there and complete to its last byte."""
    try:
        if path.suffix == ".json":
            return isinstance(json.loads(path.read_bytes()), dict)
        with path.open("rb") as file:
            file.seek(-len(PNG_END), os.SEEK_END)
            return file.read() == PNG_END
    except (OSError, ValueError):
        return False


def render_dataset(
    folder: Path,
    num_images: int,
    scenes: SceneSettings | None = None,
    pictures: PictureSettings | None = None,
    *,
    mask_size: tuple[int, int] | None = None,
    how: Execution = AUTO,
    progress: Progress = silent,
) -> int:
    """Make what `folder` lacks of a data set of `num_images` pictures; how many pictures that were.

    `pictures=None` samples scenes and writes masks and ids, but no pictures. `mask_size` is the height and width of
    masks and ids, by default the pictures'; it matters for ground truths, which grow when masks are resized. `how` says
    where the work is done, which changes no byte. A folder that holds a data set of other settings is refused and left
    as it is. A picture that cannot be made is an error once all others are.
    """
    require_whole("num-images", num_images, 1)
    scenes = scenes or SceneSettings()
    settled = pictures and pictures.settled
    plan = Plan(folder, Painter(scenes, settled, mask_size or (scenes.height, scenes.width)))
    if settled is not None and settled.renderer == "blender":
        blender_session(settled.blender_assets)  # if there is no Blender, say so before anything is written
        how = how.shipping(settled.blender_assets) if settled.blender_assets else how
    total = claim(plan, num_images)
    todo = [lacking for index in range(num_images) if (lacking := plan.lacking(index))]
    if todo:
        progress("tracer: compiled at first use", 0, 1)
        warm_up(pictures=settled is not None and settled.renderer == "tracer")
        progress("tracer: compiled at first use", 1, 1)
        paint(plan, todo, how, progress)
    gather(plan, total)
    return len(todo)


def paint(plan: Plan, todo: Sequence[Lacking], how: Execution, progress: Progress) -> None:
    """Make what is lacking, wherever that is done, and write it here."""
    what = "scenes" if plan.painter.pictures is None else "pictures"
    failed: dict[str, str] = {}
    done = 0
    progress(what, done, len(todo))

    def deliver(place: int, outcome: dict[str, bytes] | Failure) -> None:
        nonlocal done
        index = todo[place].index
        if isinstance(outcome, Failure):
            failed[image_name(plan.painter.scenes.split, index)] = outcome.message
        else:
            plan.write(index, outcome)
        done += 1
        progress(what, done, len(todo))

    executor = how.executor(lambda: len(todo) * plan.painter.seconds)
    executor.run(plan.painter, todo, deliver, lambda running: None)
    if failed:
        raise HeatproofError(
            f"{len(failed):,} of {len(todo):,} {what} could not be made; the others are kept. "
            f"The same command tries these once more:\n  " + "\n  ".join(reasons(failed))
        )


def reasons(failed: Mapping[str, str]) -> list[str]:
    """Why pictures failed, each by its name, in order; no more than a few."""
    said = [message if name in message else f"{name}: {message}" for name, message in sorted(failed.items())]
    return said[:MOST_NAMED] + [f"and {len(said) - MOST_NAMED:,} more"] * (len(said) > MOST_NAMED)


def claim(plan: Plan, num_images: int) -> int:
    """Write the folder's settings, or check that they are these; the number of pictures it is to hold."""
    path = plan.folder / SETTINGS
    now = described(plan) | {"num_images": num_images}
    if path.exists():
        there = read_object(path)
        require_whole(f"num_images of {path}", there.get("num_images", 0), 0)
        there = {"mask_size": there.get("size")} | there  # which older folders do not say
        differing = [
            f"{name}: {there.get(name)} there, {value} now"
            for name, value in now.items()
            if name != "num_images" and None not in (value, there.get(name)) and there.get(name) != value
        ]
        if differing:
            raise HeatproofError(
                f"{plan.folder} holds a data set of other settings:\n  "
                + "\n  ".join(differing)
                + "\nGive this one another folder; nothing was changed."
            )
        now = now | {name: value for name, value in there.items() if value is not None}
        now["num_images"] = max(num_images, there.get("num_images", 0))
    elif plan.folder.is_dir() and any(plan.folder.iterdir()):
        raise HeatproofError(f"{plan.folder} is not empty and holds no {SETTINGS} of a data set; choose a new folder.")
    elif plan.folder.exists() and not plan.folder.is_dir():
        raise HeatproofError(f"{plan.folder} is a file; choose a folder.")
    sweep(plan.folder)
    write_json(path, now, indent=1)
    return int(now["num_images"])


def described(plan: Plan) -> dict[str, Any]:
    """What the files of a folder depend on. Empty: not decided yet, for there are no pictures."""
    scenes, how, (height, width) = plan.painter.scenes, plan.painter.pictures, plan.painter.mask_size
    return {
        "seed": scenes.seed,
        "split": scenes.split,
        "size": f"{scenes.width}x{scenes.height}",
        "mask_size": f"{width}x{height}",
        "min_objects": scenes.min_objects,
        "max_objects": scenes.max_objects,
        "renderer": how and how.renderer,
        "samples": how and how.samples,
        "denoise": how and how.denoised,
        "blender_assets": how and str(how.blender_assets or "built in"),
    }


def flat_colours(scene: Mapping[str, Any], seen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The mask picture (height, width, 4), opaque: each object in its own colour."""
    colours = [BACKGROUND, *([srgb(value) for value in thing["mask_color"]] for thing in scene["objects"])]
    return np.take(np.array([(*colour, 255) for colour in colours], dtype=np.uint8), seen, axis=0)


def gather(plan: Plan, count: int) -> None:
    """All scenes that are there, in one file as CLEVR's."""
    paths = [plan.paths(index)[SCENES] for index in range(count)]
    info = {
        "date": date.today().strftime("%m/%d/%Y"),
        "version": "1.0",
        "split": plan.painter.scenes.split,
        "license": "none claimed",
    }
    scenes = [read_object(path) for path in paths if path.exists()]
    write_json(plan.folder / ALL_SCENES, {"info": info, "scenes": scenes})


def write_json(path: Path, content: Mapping[str, Any], indent: int | None = None) -> None:
    write_whole(path, partial(Path.write_bytes, data=json_bytes(content, indent)))


def json_bytes(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    return json.dumps(content, indent=indent).encode()


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()
