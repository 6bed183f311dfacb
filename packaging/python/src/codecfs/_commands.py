"""Commands as functions: convert, verify, compare, set_filter. None of them needs a mount."""
from __future__ import annotations

import json
import os
import re
import warnings
from dataclasses import dataclass
from typing import Any, Iterable

from ._mount import Mount
from ._program import CodecfsError, CodecfsWarning, Finished, Options, PathLike, as_source, dataset_options, execute, info
from ._progress import ProgressOption


@dataclass(frozen=True)
class Conversion:
    """What convert() has made."""

    target: str
    summary: str  # "era5.zarr: 13 chunks, 6.28 KiB"
    left_out: tuple[str, ...]  # what is not in the new dataset, as skip and skip_unsupported have permitted, with the reasons
    warnings: tuple[str, ...]  # what is not the same there

    def __repr__(self) -> str:
        return "\n".join([f"<codecfs.Conversion: {self.summary}>", *(f"  left out: {text}" for text in self.left_out),
                          *(f"  warning: {text}" for text in self.warnings)])


@dataclass(frozen=True)
class Damage:
    """What of a dataset cannot be read, or could not be checked."""

    path: str  # "/temperature"
    reason: str
    lost_bytes: int
    chunk: str | None = None  # "0.0.0"; None if it concerns all of the variable or group
    region: str | None = None  # the elements of that chunk: "[0:1, 0:9, 0:18]"

    def __str__(self) -> str:
        chunk = f", chunk {self.chunk} {self.region or ''}".rstrip() if self.chunk is not None else ""
        return f"{self.path}{chunk}: {self.reason}"


@dataclass(frozen=True)
class Verification:
    """What verify() has found. It is true if everything could be read and nothing is damaged."""

    source: str
    groups: int
    variables: int
    chunks: int
    stored_bytes: int
    decoded_bytes: int
    damages: int  # their number; `damaged` may have only the first ones
    lost_bytes: int
    damaged: tuple[Damage, ...]
    unchecked: tuple[Damage, ...]

    def __bool__(self) -> bool:
        return self.damages == 0 and not self.unchecked

    def __repr__(self) -> str:
        found = "no damage" if self.damages == 0 else f"DAMAGED: {_counted(self.damages, 'place')}"
        return "\n".join([
            f"<codecfs.Verification of {self.source}: {found}, {_counted(self.chunks, 'chunk')} of "
            f"{_counted(self.variables, 'variable')} read>",
            *(f"  {damage}" for damage in self.damaged), *(f"  not checked: {damage}" for damage in self.unchecked)])


@dataclass(frozen=True)
class Difference:
    path: str
    text: str  # "attribute units: "K", "kelvin""
    kind: str  # "content", or "form" if the values are the same

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" + (" (only the form differs)" if self.kind == "form" else "")


@dataclass(frozen=True)
class Comparison:
    """What compare() has found. It is true if everything could be compared and nothing differs."""

    first: str
    second: str
    groups: int
    variables: int
    compared_bytes: int
    differences: int  # their number; `different` may have only the first ones
    differences_of_form: int
    different: tuple[Difference, ...]
    not_compared: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.differences == 0 and not self.not_compared

    @property
    def same_content(self) -> bool:
        """Whether nothing but forms differs, such as [5] and 5 in attributes, and everything could be compared."""
        return self.differences == self.differences_of_form and not self.not_compared

    def __repr__(self) -> str:
        found = "the same content" if self.differences == 0 else _counted(self.differences, "difference")
        return "\n".join([f"<codecfs.Comparison of {self.first} and {self.second}: {found}, "
                          f"{_counted(self.variables, 'variable')} compared>",
                          *(f"  {difference}" for difference in self.different), *(f"  not compared: {text}" for text in self.not_compared)])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _warn(finished: Finished) -> tuple[str, ...]:
    """What the program has said although it succeeded, also as warnings of Python."""
    lines = [line[len("codecfs: "):] if line.startswith("codecfs: ") else line for line in finished.messages.splitlines() if line]
    found = tuple(re.sub("^warning: ", "", line) for line in lines if not line.startswith("info: "))
    for line in found:
        warnings.warn(line, CodecfsWarning, stacklevel=3)
    return found


def convert(source: PathLike, target: PathLike, *, format: str | None = None, filters: Iterable[str] = (), skip: Iterable[str] = (),
            skip_unsupported: bool = False, portable: bool = False, libver: str | None = None, resume: bool = False,
            options: Options = (), progress: ProgressOption = None) -> Conversion:
    """Copies a dataset into a new one of another format, or with other filters, as `codecfs convert`.

    target: its ending chooses the format: HDF5 (".nc", ".h5"), a zip archive of Zarr v2 (".zip"), else a Zarr directory. It must not
        exist, and appears when it is complete.
    format: "hdf5", "zarr", "zarr3", "zip" or "nczarr", whatever the ending.
    filters: rules, ["*,shuffle|zstd,3"].
    skip: paths that are left out. skip_unsupported: leave out what the new format has no form for.
    portable: Zarr v3 with only the codecs that every reader has. libver: "v110" or "latest", of HDF5.
    resume: go on with an interrupted conversion.
    options: those that concern sources and filters, as for mount().
    progress: None shows it in notebooks and on terminals, False nowhere; a function is called with each Progress.

    What is left out, and what else differs, is also a CodecfsWarning.
    """
    if isinstance(skip, str):
        raise TypeError("skip must be a list of paths: not a string")
    words = ["convert", *dataset_options(options, filters)]
    for name, value in (("--format", format), ("--libver", libver)):
        words += [name, value] if value is not None else []
    for name, is_wanted in (("--skip-unsupported", skip_unsupported), ("--portable", portable), ("--resume", resume)):
        words += [name] if is_wanted else []
    for path in skip:
        words += ["--skip", path]
    done = execute([*words, as_source(source), as_source(target)], progress=progress)
    said = _warn(done)
    prefix = "left out: "
    return Conversion(os.fspath(target), re.sub(r"^\./", "", done.output.strip()),
                      tuple(text[len(prefix):] for text in said if text.startswith(prefix)),
                      tuple(text for text in said if not text.startswith(prefix)))


def _damage(found: dict[str, Any]) -> Damage:
    return Damage(found["path"], found["reason"], found["bytes"], found.get("chunk"), found.get("region"))


def verify(source: PathLike, *, options: Options = (), progress: ProgressOption = None) -> Verification:
    """Reads and decodes everything, as `codecfs verify`. The result is true if all of it could be read and nothing is damaged.

    source, options, progress: as for convert(). Raises CodecfsError if the source cannot be opened; damage is no exception.
    """
    done = execute(["verify", "--json", *dataset_options(options), as_source(source)], expected=(0, 2, 3), progress=progress)
    found = json.loads(done.output)
    return Verification(os.fspath(source), found["groups"], found["variables"], found["chunks"], found["stored_bytes"],
                        found["decoded_bytes"], found["damages"], found["lost_bytes"], tuple(map(_damage, found["damaged"])),
                        tuple(map(_damage, found["unchecked"])))


def compare(first: PathLike, second: PathLike, *, options: Options = (), progress: ProgressOption = None) -> Comparison:
    """How the contents of two datasets differ, whatever their formats and filters, as `codecfs compare`. The result is true if they
    are the same.

    options, progress: as for convert(). Raises CodecfsError if one of them cannot be opened; differences are no exception.
    """
    done = execute(["compare", "--json", *dataset_options(options), as_source(first), as_source(second)], expected=(0, 2, 3),
                   progress=progress)
    found = json.loads(done.output)
    return Comparison(os.fspath(first), os.fspath(second), found["groups"], found["variables"], found["compared_bytes"],
                      found["differences"], found["differences_of_form"],
                      tuple(Difference(one["path"], one["text"], one["kind"]) for one in found["different"]),
                      tuple(one if isinstance(one, str) else ": ".join(map(str, one.values())) for one in found["not_compared"]))


def _is_mount(target: PathLike | Mount) -> bool:
    return isinstance(target, Mount) or os.path.isdir(os.path.join(os.fspath(target), ".codecfs"))


def set_filter(target: PathLike | Mount, variable: str, filters: str, *, options: Options = (), progress: ProgressOption = None) -> str:
    """Changes the filters of a variable in place: all of it or, if that fails or is interrupted, nothing. Returns the filters that it
    has then, as netCDF and HDF5 write them: "2,4|32015,3".

    target: a source, or a writable mount of one: a Mount, or its path. In a mount, for a group, the filters of new variables in it.
    variable: "temperature", "ocean/salinity". filters: "shuffle|zstd,3", or "none".
    options, progress: as for convert(); options not for a mount.

    An HDF5 file keeps the space of the former chunks until `codecfs compact`.
    """
    name = variable.strip("/")
    if _is_mount(target):
        path = os.path.join(os.fspath(target), name) if name else os.fspath(target)
        return execute(["set", as_source(path), filters], progress=progress).output.rstrip("\n").rpartition(": ")[2]
    rule = re.sub(r"([\\&|,*])", r"\\\1", "/" + name) + "," + filters
    done = execute(["recode", *dataset_options(options, [rule]), as_source(target)], progress=progress)
    if ": left as it is: " in done.output:
        raise CodecfsError(done.output.strip())
    _warn(done)
    return str(info(target, "/" + name, options=options)["variables"][0].get("filter", ""))
