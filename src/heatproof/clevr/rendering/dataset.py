"""A data set of pictures in a folder, as CLEVR-XAI's: resumable, in whole files, by several processes at once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.json_files import read_object
from heatproof.clevr.rendering.blender import blender_session, check_assets
from heatproof.clevr.rendering.denoise import can_denoise, require_denoiser
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import seen_objects, warm_up
from heatproof.clevr.scenes import BACKGROUND, SceneSettings, image_name, sample_scene
from heatproof.clevr.srgb import srgb
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np
from heatproof.progress import Progress, silent
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

IMAGES, MASKS, SCENES, OBJECTS = "images", "masks", "scenes", "objects"
ALL_SCENES, SETTINGS = "CLEVR_scenes.json", "settings.json"
RENDERERS = ("tracer", "blender")
PNG_END = b"IEND\xaeB`\x82"


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


@dataclass(frozen=True)
class Plan:
    """All that is needed to make any picture of a data set, in any process. Without `pictures`, only scenes and ids."""

    folder: Path
    scenes: SceneSettings
    pictures: PictureSettings | None
    mask_size: tuple[int, int]
    """Height and width of masks and ids."""

    def paths(self, index: int) -> dict[str, Path]:
        name = image_name(self.scenes.split, index)
        paths = {kind: self.folder / kind / f"{name}.png" for kind in (IMAGES, MASKS, OBJECTS)}
        return paths | {SCENES: self.folder / SCENES / f"{name}.json"}

    def missing(self, index: int) -> list[str]:
        """What of picture `index` is not there, or not whole."""
        kinds = (SCENES, OBJECTS, MASKS) if self.pictures is None else (SCENES, OBJECTS, MASKS, IMAGES)
        paths = self.paths(index)
        return [kind for kind in kinds if not is_whole(paths[kind])]


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
    jobs: int | None = None,
    progress: Progress = silent,
) -> int:
    """Make what `folder` lacks of a data set of `num_images` pictures; how many pictures that were.

    `pictures=None` samples scenes and writes masks and ids, but no pictures. `mask_size` is the height and width of
    masks and ids, by default the pictures'; it matters for ground truths, which grow when masks are resized. `jobs` is
    the number of processes, by default one per core. A folder that holds a data set of other settings is refused and
    left as it is.
    """
    require_whole("num-images", num_images, 1)
    if jobs is not None:
        require_whole("jobs", jobs, 1)
    scenes = scenes or SceneSettings()
    plan = Plan(folder, scenes, pictures, mask_size or (scenes.height, scenes.width))
    if pictures is not None and pictures.renderer == "blender":
        blender_session(pictures.blender_assets)  # if there is no Blender, say so before anything is written
    total = claim(plan, num_images)
    todo = [index for index in range(num_images) if plan.missing(index)]
    if todo:
        progress("tracer: compiled at first use", 0, 1)
        warm_up(pictures=pictures is not None and pictures.renderer == "tracer")
        progress("tracer: compiled at first use", 1, 1)
        run(plan, todo, jobs or usable_cores(), progress)
    gather(plan, total)
    return len(todo)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def claim(plan: Plan, num_images: int) -> int:
    """Write the folder's settings, or check that they are these; the number of pictures it is to hold."""
    path = plan.folder / SETTINGS
    now = described(plan) | {"num_images": num_images}
    if path.exists():
        there = read_object(path)
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
    write_json(path, now, indent=1)
    return int(now["num_images"])


def described(plan: Plan) -> dict[str, Any]:
    """What the files of a folder depend on. Empty: not decided yet, for there are no pictures."""
    how = plan.pictures
    return {
        "seed": plan.scenes.seed,
        "split": plan.scenes.split,
        "size": f"{plan.scenes.width}x{plan.scenes.height}",
        "mask_size": f"{plan.mask_size[1]}x{plan.mask_size[0]}",
        "min_objects": plan.scenes.min_objects,
        "max_objects": plan.scenes.max_objects,
        "renderer": how and how.renderer,
        "samples": how and how.samples,
        "denoise": how and how.denoised,
        "blender_assets": how and (str(how.blender_assets.resolve()) if how.blender_assets else "built in"),
    }


def run(plan: Plan, todo: Sequence[int], jobs: int, progress: Progress) -> None:
    """Make the pictures `todo`, in this process or in several."""
    task = "scenes" if plan.pictures is None else "pictures"
    progress(task, 0, len(todo))
    if min(jobs, len(todo)) == 1:
        for done, index in enumerate(todo, 1):
            make(plan, index)
            progress(task, done, len(todo))
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(jobs, len(todo)), get_context("spawn"), leave_interrupts_to_the_parent) as pool:
        waiting: list[Future[None]] = [pool.submit(make, plan, index) for index in todo]
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                future.result()
                progress(task, done, len(todo))
        except BrokenProcessPool as problem:
            raise HeatproofError(
                "a rendering process ended unexpectedly, perhaps for want of memory. What is rendered is kept: "
                "type the same command again, with a smaller --jobs."
            ) from problem
        finally:
            pool.shutdown(cancel_futures=True)


def leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def make(plan: Plan, index: int) -> None:
    """Write what is missing of one picture. A scene that is on disk is rendered as it is."""
    missing, paths = plan.missing(index), plan.paths(index)
    if SCENES in missing:
        scene: Mapping[str, Any] = sample_scene(plan.scenes, index)
        write_json(paths[SCENES], scene)
    else:
        scene = read_object(paths[SCENES])
    if OBJECTS in missing or MASKS in missing:
        height, width = plan.mask_size
        seen = seen_objects(scene, width, height)
        write_png(paths[OBJECTS], seen)
        write_png(paths[MASKS], flat_colours(scene, seen))
    if IMAGES in missing and plan.pictures is not None:
        write_whole(paths[IMAGES], writer(plan, plan.pictures, scene))


def writer(plan: Plan, how: PictureSettings, scene: Mapping[str, Any]) -> Callable[[Path], object]:
    """A function that writes the scene's picture to the path it is given."""
    width, height = plan.scenes.width, plan.scenes.height
    if how.renderer == "blender":
        session = blender_session(how.blender_assets)
        return lambda path: session.render(scene, width, height, how.samples, how.denoised, path)
    picture = render(scene, width, height, samples=how.samples, denoise=how.denoised)
    return lambda path: save_png(path, picture.image)


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
        "split": plan.scenes.split,
        "license": "none claimed",
    }
    scenes = [read_object(path) for path in paths if path.exists()]
    write_json(plan.folder / ALL_SCENES, {"info": info, "scenes": scenes})


def write_json(path: Path, content: Mapping[str, Any], indent: int | None = None) -> None:
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(content, indent=indent), encoding="utf-8"))


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    write_whole(path, lambda temporary: save_png(temporary, pixels))


def save_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path, format="PNG")
