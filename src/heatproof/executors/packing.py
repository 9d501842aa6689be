"""Work as bytes that other processes open without copying: large arrays lie apart and are mapped into memory.

Arrays and weights of all workers of a machine are then the same pages. What a worker writes to is its own.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle

from heatproof.executors.base import CannotSendError
from heatproof.lazy import torch
from heatproof.loading import user_folders, user_modules
from heatproof.workspace import write_whole

PACKAGE = Path(__file__).parents[1]
ALIGNED = 64
"""Arrays begin at multiples of this, as those of NumPy and torch do."""
APART = 4096
"""Bytes from which on an array lies apart."""


@dataclass(frozen=True)
class Packed:
    """An object as bytes, the arrays that lie apart, and files that are sent along by the folder they are in."""

    data: bytes
    arrays: Sequence[Any]
    path: Sequence[str] = ()
    """Folders to import users' modules from."""
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The same for the same content only."""
        digest = hashlib.blake2b(self.data, digest_size=12)
        for array in self.arrays:
            digest.update(array)
        for folder, files in self.files.items():
            for path, content in files.items():
                digest.update(f"{folder}/{path}".encode() + content)
        return digest.hexdigest()

    def write(self, folder: Path) -> Path:
        """Into a folder of its own below this one; one that is there is whole, for its last file is written last."""
        place = folder / self.name
        if (place / "data").is_file():
            return place
        place.mkdir(parents=True, exist_ok=True)
        for number, (_, files) in enumerate(self.files.items()):
            for path, content in files.items():
                write_whole(place / f"files{number}" / path, partial(Path.write_bytes, data=content))
        write_whole(place / "arrays", self.write_arrays)
        write_whole(place / "data", lambda path: path.write_bytes(pickle.dumps((self.data, self.lengths, self.path))))
        return place

    @property
    def lengths(self) -> list[int]:
        return [memoryview(array).nbytes for array in self.arrays]

    def write_arrays(self, path: Path) -> None:
        with path.open("wb") as file:
            for array in self.arrays:
                file.write(array)
                file.write(bytes(-file.tell() % ALIGNED))


def pack(thing: object, ship: Iterable[Path] = ()) -> Packed:
    """An object with everything that it holds; files in the folders to `ship` are sent along."""
    folders = [folder.resolve() for folder in ship]
    arrays: list[Any] = []
    stream = io.BytesIO()
    try:
        with modules_by_value():
            Packer(stream, arrays, folders).dump(thing)
    except Exception as problem:  # whatever a thing raises that is not made for it
        raise CannotSendError(
            f"this run holds something that cannot be sent to other processes ({type(problem).__name__}: {problem});"
            " use the engine local (--engine local)."
        ) from problem
    files = {
        str(folder): {str(path.relative_to(folder)): path.read_bytes() for path in within(folder)} for folder in folders
    }
    return Packed(stream.getvalue(), arrays, user_folders(), files)


def within(folder: Path) -> list[Path]:
    """All files of a folder."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def unpack(place: Path) -> Any:
    """What was packed and written there. Arrays are mapped: read from the file where they are first looked at."""
    data, lengths, path = pickle.loads((place / "data").read_bytes())  # our own, in a folder of our own  # nosec B301
    sys.path += [folder for folder in path if folder not in sys.path]
    buffers: list[memoryview] = []
    if lengths:
        with (place / "arrays").open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        start = 0
        for length in lengths:
            buffers.append(whole[start : start + length])
            start += length + -length % ALIGNED
    _places.append(place)
    try:
        return pickle.loads(data, buffers=buffers)  # the same  # nosec B301
    finally:
        _places.pop()


class Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes arrays out, and says paths so that they are right on another machine."""

    def __init__(self, stream: io.BytesIO, arrays: list[Any], folders: Sequence[Path]) -> None:
        def put_apart(buffer: pickle.PickleBuffer) -> bool:
            """False puts it apart, as pickle has it."""
            raw = buffer.raw()
            if raw.nbytes >= APART:
                arrays.append(raw)
            return raw.nbytes < APART

        super().__init__(stream, protocol=5, buffer_callback=put_apart)
        self.folders = folders

    def reducer_override(self, thing: Any) -> Any:
        if sys.modules.get("torch"):  # else it is nothing of torch's, which need not be loaded to say so
            if type(thing) is torch.Tensor and is_plain(thing):
                order = by_stride(thing)
                return from_array, (thing.detach().cpu().permute(order).numpy(), order, thing.requires_grad)
            if isinstance(thing, torch.jit.ScriptModule):
                stream = io.BytesIO()
                torch.jit.save(thing, stream)
                return from_script, (stream.getvalue(),)
        if isinstance(thing, Path) and thing.is_absolute():
            for number, folder in enumerate(self.folders):
                if thing.is_relative_to(folder):
                    return shipped_path, (number, str(thing.relative_to(folder)))
            if thing.is_relative_to(PACKAGE):
                return package_path, (str(thing.relative_to(PACKAGE)),)
        return super().reducer_override(thing)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether an array can hold it, strides and all: dense, on the CPU, and of a type that NumPy has."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype is not torch.bfloat16
        and not tensor.is_quantized
        and tensor.is_leaf
        and tensor.permute(by_stride(tensor)).is_contiguous()
    )


def by_stride(tensor: torch.Tensor) -> list[int]:
    """Its dimensions as they lie in memory; channels may come last."""
    return sorted(range(tensor.ndim), key=tensor.stride, reverse=True)


def from_array(array: Any, order: Sequence[int], requires_grad: bool) -> torch.Tensor:
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.from_numpy(array).permute(back).requires_grad_(requires_grad)


def from_script(code: bytes) -> torch.nn.Module:
    module: torch.nn.Module = torch.jit.load(io.BytesIO(code))
    return module


_places: list[Path] = []
"""Where what is being unpacked lies."""


def shipped_path(number: int, relative: str) -> Path:
    return _places[-1] / f"files{number}" / relative


def package_path(relative: str) -> Path:
    return PACKAGE / relative


@contextmanager
def modules_by_value() -> Iterator[None]:
    """Code that was loaded from users' files goes along as code: nobody else can import it by name."""
    modules = user_modules()
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
