"""Pictures of changed scenes, kept in a folder: each says what it is a picture of, so none is taken for another.

    as_it_is/NAME.png        the scene once more, whole: what the others are compared with
    remove/NAME_00.png       without object 0; so for hide, recolour and rematerial

A picture carries the hash of all that decides its pixels: the scene, the size, the samples, the denoiser and the code
that paints. One with another hash is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.files import Dataset
from heatproof.clevr.interventions import CHANGED, INTERVENTIONS, changed, named, require_stands
from heatproof.clevr.json_files import read_object
from heatproof.clevr.pictures import read_picture
from heatproof.clevr.rendering.checks import check_scene
from heatproof.clevr.rendering.dataset import SETTINGS, PictureSettings, is_whole, painted, reasons
from heatproof.clevr.rendering.tracer import seen_objects, warm_up
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.executors import Failure
from heatproof.executors.choice import AUTO, Execution
from heatproof.lazy import np
from heatproof.progress import Progress, silent
from heatproof.workspace import workspace, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "interventions"
AS_IT_IS = "as_it_is"
CHUNK = "heatproof-recipe"
"""The text of a PNG that holds its recipe's hash."""
DECIDING = ("kernels", "packing", "camera", "world", "tracer", "picture", "denoise")
BLENDER = ("blender", "blender_worker")
"""Files whose code decides a pixel, and those that do so besides where Blender paints."""
SECONDS_PER_PATH = 3.3e-7


@dataclass(frozen=True)
class Look:
    """How changed scenes are painted: as large and as well as the data set's own pictures."""

    width: int
    height: int
    pictures: PictureSettings

    def __post_init__(self) -> None:
        require_whole("width", self.width, 8)
        require_whole("height", self.height, 8)

    @property
    def seconds(self) -> float:
        """About what a picture takes."""
        return self.width * self.height * self.pictures.samples * SECONDS_PER_PATH


@dataclass(frozen=True)
class Wanted:
    """One picture: of which scene, changed at which object (None: as it is), how."""

    scene: Mapping[str, Any]
    intervention: str
    place: int | None = None

    @property
    def file(self) -> str:
        """Its path in the folder."""
        stem = Path(named(self.scene)).stem
        return f"{AS_IT_IS}/{stem}.png" if self.place is None else f"{self.intervention}/{stem}_{self.place:02d}.png"

    @property
    def hides(self) -> bool:
        return self.place is not None and self.intervention == "hide"

    @property
    def changed(self) -> dict[str, Any]:
        return dict(self.scene) if self.place is None else changed(self.scene, self.place, self.intervention)

    def recipe(self, look: Look) -> str:
        """A hash of all that decides its pixels."""
        scene = check_scene(self.changed)
        told = {
            "objects": [[thing[name] for name in SEEN] for thing in scene["objects"]],
            "stands": scene["_render"],
            "index": scene.get("image_index", 0),
            "look": {**asdict(look), "pictures": {**asdict(look.pictures), "blender_assets": None}},
            "assets": str(look.pictures.blender_assets or ""),
            "code": painting_code(look.pictures.renderer, look.pictures.denoised),
        }
        if self.hides:
            told["hidden_with_rim"] = self.place
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


SEEN = ("shape", "size", "material", "color", "3d_coords", "rotation")
"""What of an object is seen."""


@dataclass(frozen=True)
class ChangedPainter:
    """Paints changed scenes, anywhere."""

    look: Look

    def compute(self, wanted: Wanted) -> bytes:
        from PIL import Image, PngImagePlugin

        require_stands(wanted.scene)
        if wanted.hides:
            pixels = hidden(wanted, self.look)
        else:
            pixels = pixels_of(wanted.changed, self.look)
        told = PngImagePlugin.PngInfo()
        told.add_text(CHUNK, wanted.recipe(self.look))
        stream = BytesIO()
        Image.fromarray(pixels).save(stream, format="PNG", pnginfo=told)
        return stream.getvalue()


def hidden(wanted: Wanted, look: Look) -> NDArray[np.uint8]:
    """The scene as it is (H, W, 3), but where the object is, there is the empty room.

    It is where it is seen at a pixel's centre, and at those next to them at which no other object is seen: their pixels
    hold some of its edge, by which a network may know it.
    """
    from PIL import Image, ImageFilter

    assert wanted.place is not None
    whole, empty = (remembered(json.dumps(one), look) for one in (wanted.scene, {**wanted.scene, "objects": []}))
    seen = seen_objects(check_scene(wanted.scene), look.width, look.height)
    its = Image.fromarray(seen == wanted.place + 1).convert("L").filter(ImageFilter.MaxFilter(3))
    covered = (np.asarray(its) > 0) & np.isin(seen, (0, wanted.place + 1))
    return np.where(covered[..., None], empty, whole)


@lru_cache(maxsize=2)
def remembered(scene: str, look: Look) -> NDArray[np.uint8]:
    """What `pixels_of` gives: the same two pictures serve all objects of a scene, which come one after the other."""
    return pixels_of(json.loads(scene), look)


def pixels_of(scene: Mapping[str, Any], look: Look) -> NDArray[np.uint8]:
    """The scene (H, W, 3)."""
    from PIL import Image

    with Image.open(BytesIO(painted(scene, look.width, look.height, look.pictures))) as picture:
        return np.asarray(picture.convert("RGB"))


@dataclass(frozen=True)
class Made:
    """What `make_changed` did: pictures made, pictures that were there, CPU seconds."""

    made: int
    there: int
    cpu_seconds: float


def look_of(
    dataset: Dataset, samples: int | None = None, denoise: bool | None = None, size: tuple[int, int] | None = None
) -> Look:
    """How the data set's own pictures were painted, as its settings say; what is given (height, width) goes before."""
    path = dataset.folder / SETTINGS
    told = read_object(path) if path.is_file() else {}
    if size is None:
        first = next(iter(dataset.scenes.values()), None)
        if first is None or not dataset.has_pictures:
            raise HeatproofError(f"{dataset.folder} has no pictures to tell the size from; give --size WxH.")
        height, width = dataset.picture(first).shape[:2]
    else:
        height, width = size
    assets, denoised = told.get("blender_assets"), told.get("denoise")
    if not isinstance(assets, str | None) or not isinstance(denoised, bool | None):
        raise HeatproofError(f"{path}: blender_assets must be a folder's name, and denoise true or false.")
    how = PictureSettings(
        renderer=told.get("renderer") or "tracer",
        samples=samples or told.get("samples") or 64,
        denoise=denoised if denoise is None else denoise,
        blender_assets=None if assets in (None, "built in") else Path(assets),
    )
    return Look(width, height, how.settled)


def folder_of(dataset: Dataset) -> Path:
    """Where changed pictures lie: in the data set; of the one that ships, which may be read only, in the cache."""
    shipped = dataset.folder.resolve() == shipped_dataset().resolve()
    return workspace(FOLDER, "shipped") if shipped else dataset.folder / FOLDER


def wanted_of(scenes: Iterable[Mapping[str, Any]], intervention: str = "remove") -> list[Wanted]:
    """The pictures that a set of scenes takes: each as it is, and changed at every object."""
    if intervention not in INTERVENTIONS:
        raise unknown_name("intervention", intervention, INTERVENTIONS)
    found = []
    for scene in scenes:
        require_stands(scene)
        found += [Wanted(scene, intervention)]
        found += [Wanted(scene, intervention, place) for place in range(len(scene["objects"]))]
    return found


def lacking(wanted: Iterable[Wanted], folder: Path, look: Look) -> list[Wanted]:
    """Those of the pictures that the folder lacks, or has of other settings."""
    return [one for one in wanted if recipe_in(folder / one.file) != one.recipe(look)]


def seconds_to_make(missing: Sequence[Wanted], look: Look) -> float:
    """About what these pictures take; all that hide objects of one scene are put together from two."""
    hiding = {named(one.scene) for one in missing if one.hides}
    return (sum(not one.hides for one in missing) + 2 * len(hiding)) * look.seconds


def make_changed(
    wanted: Sequence[Wanted], folder: Path, look: Look, how: Execution = AUTO, progress: Progress = silent
) -> Made:
    """Make those of the pictures that the folder lacks, or has of other settings; the others are left as they are."""
    missing = lacking(wanted, folder, look)
    if not missing:
        return Made(0, len(wanted), 0.0)
    if look.pictures.renderer == "tracer":
        progress("tracer: compiled at first use", 0, 1)
        warm_up()
        progress("tracer: compiled at first use", 1, 1)
    failed: dict[str, str] = {}
    done = 0
    told = f"pictures {CHANGED[missing[0].intervention]}"
    progress(told, done, len(missing))

    def deliver(place: int, outcome: bytes | Failure) -> None:
        nonlocal done
        file = missing[place].file
        if isinstance(outcome, Failure):
            failed[file] = outcome.message
        else:
            write_whole(folder / file, partial(Path.write_bytes, data=outcome))
        done += 1
        progress(told, done, len(missing))

    executor = how.executor(lambda: seconds_to_make(missing, look))
    usage = executor.run(ChangedPainter(look), missing, deliver, lambda running: None)
    if failed:
        raise HeatproofError(
            f"{len(failed):,} of {len(missing):,} pictures could not be made; the others are kept. The same command"
            " tries these once more:\n  " + "\n  ".join(reasons(failed))
        )
    return Made(len(missing), len(wanted) - len(missing), usage.cpu_seconds)


def recipe_in(path: Path) -> str | None:
    """The hash that a picture carries; None where there is no whole picture, or one that says nothing."""
    from PIL import Image

    if not is_whole(path):
        return None
    try:
        with Image.open(path) as picture:
            told = picture.info.get(CHUNK)
    except (OSError, SyntaxError, ValueError):
        return None
    return told if isinstance(told, str) else None


def read_changed(folder: Path, wanted: Wanted) -> NDArray[np.uint8]:
    """The pixels (H, W, 3) of a picture that was made."""
    return read_picture(folder / wanted.file, "RGB")[1]


@cache
def painting_code(renderer: str, denoised: bool) -> str:
    """A hash of the code that paints, and the version of our denoiser: other code may paint other pixels."""
    from importlib import metadata, resources

    digest = hashlib.sha256()
    blender = renderer == "blender"  # which brings its own denoiser
    for name in (*DECIDING, *(BLENDER if blender else ())):
        digest.update(resources.files("heatproof.clevr.rendering").joinpath(f"{name}.py").read_bytes())
    if denoised and not blender:
        digest.update(metadata.version("pyoidn").encode())
    return digest.hexdigest()[:32]
