"""The table of docs/python.md: what each client (table_clients.py, table_tools.py) reads, changes and creates in each view of each kind of
source. After each change the source itself is read, unmounted, by h5py or zarr-python.

client_table.py [--write] [CLIENT...]: prints the rows of these clients (by class; default: all). --write: into docs/python.md, too.
Takes the environment of scripts/client-test.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import netCDF4
import numpy as np
import zarr

PROGRAMS = pathlib.Path(__file__).parent
TOP = PROGRAMS.parents[2]
sys.path[:0] = [str(PROGRAMS), str(TOP / "tests/support")]
import table_clients  # noqa: E402
import table_tools  # noqa: E402
from mounts import Mount, MountError, mounted  # noqa: E402
from running import codecfs  # noqa: E402
from table_clients import CHANGED_T, DATA, DIMENSIONS, KINDS, T_CHUNKS, VIEWS  # noqa: E402

VENVS = pathlib.Path(os.environ.setdefault("CODECFS_CLIENTS", str(pathlib.Path.home() / ".cache/codecfs-clients")))
PLUGINS = next(map(str, VENVS.glob("hdf5plugin/lib/python3*/site-packages/hdf5plugin/plugins")), "")  # for those that judge
PAGE = TOP / "docs/python.md"
BEGIN, END = "<!-- clients: scripts/client-test --table --write writes what is between these marks -->", "<!-- end of clients -->"
ACTIONS = {"read": "reads", "change": "changes", "create": "creates"}
COLUMNS = (*VIEWS, "file")
RIGHT, NONE = "✓", "–"
FORMATS = {"HDF5": "hdf5", "Zarr v2": "zarr", "Zarr v3": "zarr3"}
DEFAULT_VIEW = {"HDF5": "decoded", "Zarr v2": "decoded", "Zarr v3": "decoded3"}

CLIENTS = [
    *(getattr(table_clients, name) for name in (
        "ZarrPython3", "ZarrConsolidated", "ZarrPython2", "ZarrPython213", "Zarrs", "Obstore", "Fsspec", "Tensorstore", "Zarrista", "Z5py",
        "AcquireZarr", "Xarray", "Xarray2", "XarrayDataset", "XarrayDataTree", "XarrayManyFiles", "DaskArray", "Cubed", "VirtualiZarr",
        "Kerchunk", "Numcodecs", "Numpy", "AnnData", "OmeZarr", "NgffZarr", "OmeZarrModels", "NetCDF4")),
    *(getattr(table_tools, name) for name in ("Ncdump", "Nccopy", "Nco", "Cdo", "Gdal")),
    *(getattr(table_clients, name) for name in ("Rasterio", "Rioxarray", "H5py", "H5netcdf", "Pyfive")),
    *(getattr(table_tools, name) for name in ("H5dump", "Zarrita", "Cp", "CpArchive", "Rsync", "Tar", "Zip", "Dd", "Sha256sum", "Sed", "Move"))]

# What a refusal or a wrong result is called in the table: the first whose expression is found in "TITLE, ACTION, VIEW, KIND: what it said".
ISSUES = "https://github.com/"
NOTES = [(re.compile(expression), note) for expression, note in [
    (r"^AnnData, create, decoded", "`write_zarr` removes the directory first, which a mount point and a view refuse; a group below has the "
     "compressor of AnnData for texts: write into an encoded view"),
    (r"(AnnData|ngff-zarr), create, .*(EPERM|Operation not permitted|resource busy)",
     f"removes the directory first, which a mount point and a view refuse ([anndata]({ISSUES}scverse/anndata/pull/2366))"),
    (r"z5py, create, .*N5 file cannot be opened", "takes an empty directory for N5, on a disk, too"),
    (r"zarrita.js.*is the metadata file of Zarr format 3", "writes Zarr v3 only"),
    (r"dimension_separator", "OME-Zarr 0.4 names chunks with `/`, and views of v2 with `.`"),
    (r"Cannot overwrite/edit a store with consolidated metadata",
     f"refuses to change what has consolidated metadata, on a disk, too ([anndata]({ISSUES}scverse/anndata/issues/2016))"),
    (r"acquire-zarr.*(in shards|store shards)", "always writes shards, which only `encoded3` of Zarr v3 has"),
    (r"is the metadata file of Zarr format 3, and this view is of format 2", "writes Zarr v3 by default"),
    (r"is a metadata file of Zarr format 2, and this view is of format 3$|netCDF4.*create.*format 2", "writes Zarr v2 only"),
    (r"gdal_translate.*create.*metadata file of Zarr format 2", "writes Zarr v2 only"),
    (r"\"(compressor|codecs)\" (is|has) .* but chunks are not (compressed|encoded)|tensorstore, create, decoded,.*Invalid argument",
     "compresses by default, and chunks in this view are decoded"),
    (r"netCDF4.*change.*count is gone", "mode `r+` removes everything, on a disk, too: it looks for a file with the name of the URL, and makes a "
     f"new one where there is none ([netcdf4-python]({ISSUES}Unidata/netcdf4-python/pull/1146)). Mount with `-o ro`"),
    (r"netCDF4.*read.*Unknown file format", f"netCDF-C 4.10.1 does not read Zarr v3 ([netcdf-c]({ISSUES}Unidata/netcdf-c/issues/3214))"),
    (r"nccopy.*_FillValue type mismatch", f"netCDF-C 4.9.0 takes `_FillValue` of Zarr for a double, in variables of floats, too; `ncks` copies them "
     f"([netcdf-c]({ISSUES}Unidata/netcdf-c/issues/3038))"),
    (r"^(ncdump|nccopy|NCO.*|CDO), read, encoded, ", "wrong numbers: netCDF-C 4.9.0 returns compressed bytes as data where it finds no "
     f"filters for Zarr ([netcdf-c]({ISSUES}Unidata/netcdf-c/issues/2484))"),
    (r"NCO.*nco__create", f"its temporary file would be beside the mount or view ([nco]({ISSUES}nco/nco/issues/239))"),
    (r"codec zlib is not supported", f"lacks the codec zlib of [zarrs]({ISSUES}zarrs/zarrs/pull/160)"),
    (r"filters are not supported", f"has no filters of Zarr v2, such as shuffle ([tensorstore]({ISSUES}google/tensorstore/issues/78))"),
    (r"Z5 does not support filters", "has no filters of Zarr v2, such as shuffle"),
    (r"numcodecs.shuffle", "has no `numcodecs.shuffle`"),
    (r"Filter shuffle not handled", f"knows shuffle since [GDAL 3.11]({ISSUES}OSGeo/gdal/pull/11870)"),
    (r"Unsupported codec: bytes|gdal_translate.*read.*No such file", f"knows Zarr v3 since [GDAL 3.11]({ISSUES}OSGeo/gdal/pull/11787)"),
    (r"Shuffle'> is not an ArrayArrayCodec", f"takes shuffle for another kind of codec ([numcodecs]({ISSUES}zarr-developers/numcodecs/issues/767))"),
    (r"zarrita.js, change, .*Failed to encode chunk", "does not encode zlib and gzip"),
    (r"none of them makes bytes of an array", "writes no codec by default, which is not valid "
     f"([ngff-zarr]({ISSUES}fideus-labs/ngff-zarr/pull/335))"),
    (r"in the npy view there is what the dataset has", "makes a new file, and these views only have what the dataset has"),
]]


# --- the clients' processes


class Runner:
    """The process of one client, which does jobs one after the other."""

    def __init__(self, client, **environment):
        self.lock = threading.Lock()
        python = VENVS / client.venv / "bin/python3" if client.venv else "/usr/bin/python3"
        self.missing = "" if pathlib.Path(python).exists() and table_tools.is_there(client) else f"not in {VENVS} or on PATH"
        if self.missing:
            return
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HDF5_PLUGIN_PATH")}
        self.process = subprocess.Popen([python, "-B", PROGRAMS / "table_clients.py", client.__name__], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**variables, **environment})
        begun = json.loads(self.process.stdout.readline() or '{"missing": "it ended"}')
        self.missing, self.version = begun.get("missing", ""), begun.get("version", "")

    def do(self, action, path, **job):
        with self.lock:
            self.process.stdin.write(json.dumps({"action": action, "path": str(path), **job}) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline() or '{"error": "its process ended"}')

    def close(self):
        if not self.missing:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait(60)


class Missing(RuntimeError):
    """What cannot be tried here."""


# --- sources


def make_netcdf(path, t):
    with netCDF4.Dataset(path, "w") as data:
        for name, size in ("time", 3), ("y", 10), ("x", 8), ("n", 30):
            data.createDimension(name, size)
        data.title = "table"
        for name, values in {**DATA, "t": t}.items():
            parent = data.createGroup("ocean") if "/" in name else data
            chunks = T_CHUNKS if name == "t" else None
            variable = parent.createVariable(name.split("/")[-1], values.dtype, DIMENSIONS[name], zlib=True, shuffle=True, fill_value=-9,
                                             chunksizes=chunks)
            variable.units = "K"
            variable[...] = values


def make_zarr2(path, t):
    group = zarr.open_group(str(path), "w")
    group.attrs["title"] = "table"
    for name, values in {**DATA, "t": t}.items():
        array = group.create_dataset(name, data=values, fill_value=-9, chunks=T_CHUNKS if name == "t" else None)
        array.attrs.update({"units": "K", "_ARRAY_DIMENSIONS": list(DIMENSIONS[name])})
    zarr.consolidate_metadata(str(path))


class Sources:
    """In a folder, with mounts of all for those that only read them."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.lock = folder, stack, threading.Lock()
        self.paths = {}  # (data, kind): path
        self.mounts = {}  # the same, and whether it is the changed one: a mount
        self.judge = Runner(table_clients.Judge, HDF5_PLUGIN_PATH=PLUGINS)
        stack.callback(self.judge.close)
        if self.judge.missing:
            raise Missing(f"zarr-python 3, which judges: {self.judge.missing}")
        for changed, t in ("", DATA["t"]), ("changed-", CHANGED_T):
            make_netcdf(folder / f"{changed}science.nc", t)
            make_zarr2(folder / f"{changed}science2.zarr", t)
            self.make(table_clients.Maker, "create", folder / f"{changed}science3.zarr", changed=bool(changed))
        self.make(table_clients.Maker, "stores", folder)
        for data in "science", "changed-science":
            self.add(data)
        for path in folder.rglob("changed-*"):  # which rsync would take for the same
            for part in (path, *path.rglob("*")):
                os.utime(part, (1e9, 1e9))
        for kind, path in self.of("science").items():
            found = self.dump(path)
            assert {name: part["values"] for name, part in found.items()} == {name: values.tolist() for name, values in DATA.items()}, kind

    def add(self, data):
        self.paths.update({(data, "HDF5"): self.folder / f"{data}.nc", (data, "Zarr v2"): self.folder / f"{data}2.zarr",
                           (data, "Zarr v3"): self.folder / f"{data}3.zarr"})

    def of(self, data):
        with self.lock:
            if (data, "HDF5") not in self.paths:
                self.make(table_clients.BioMaker, "create", self.folder)
                codecfs("convert", self.folder / "image2.zarr", self.folder / "image.nc")
                for name in "cells", "image":
                    self.add(name)
        return {kind: self.paths[data, kind] for kind in KINDS}

    def make(self, maker, action, path, **job):
        runner = Runner(maker)
        told = {"error": runner.missing} if runner.missing else runner.do(action, path, **job)
        runner.close()
        if "error" in told:
            raise Missing(told["error"])

    def dump(self, path):
        told = self.judge.do("read", path)
        if "error" in told:
            raise ValueError(told["error"])
        return told["values"]

    def mounted(self, data, kind):
        """A mount that nothing is written to."""
        with self.lock:
            if (data, kind) not in self.mounts:
                name = f"{data}-{FORMATS[kind]}"
                self.mounts[data, kind] = self.stack.enter_context(mounted(self.paths[data, kind], self.folder / f"{name}-mnt"))
            return self.mounts[data, kind].path

    def file(self, what, kind):
        """What is made of a source once."""
        path = self.folder / (f"refs-{FORMATS[kind]}.json" if what == "refs" else f"copy-{FORMATS[kind]}.nc")
        with self.lock:
            if not path.exists():
                words = ["refs", "-o", path] if what == "refs" else ["convert", "--stock-filters"]
                codecfs(*words, self.paths["science", kind], *([] if what == "refs" else [path]))
        return path


def view_path(mount, view, kind, is_new=False):
    if view == "file" or view == ("encoded3" if is_new else DEFAULT_VIEW[kind]):
        return mount
    return mount / ".codecfs/view" / view


# --- cells


def plain(text, *folders):
    """Without what differs from run to run."""
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    return " ".join(re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{24,}", "UUID", text)).split())


def difference(found, expected, exactly=False):
    """What is not as expected, or nothing."""
    for name, values in expected.items():
        if name not in found:
            return f"no {name}"
        got, wanted = np.asarray(found[name]), np.asarray(values)
        if got.shape != wanted.shape:
            return f"the shape of {name} is {got.shape}"
        if not (got == wanted).all():
            return f"{name} has other values"
    more = sorted(set(found) - set(expected)) if exactly else []
    return f"there is {more[0]}" if more else ""


class Row:
    """All cells of one client."""

    def __init__(self, client, sources, folder):
        self.client, self.sources, self.folder = client, sources, folder
        self.count, self.judge = 0, None
        self.said = {}  # what was said where it is not right
        folder.mkdir()

    def run(self):
        """{(action, view): mark}, and "version"; Missing where the client is."""
        self.runner = Runner(self.client)
        try:
            if self.runner.missing:
                raise Missing(f"{self.client.title}: {self.runner.missing}")
            self.paths = self.sources.of(self.client.data)
            return {"version": self.runner.version, **{(action, view): self.cell(action, view) for action in ACTIONS for view in COLUMNS}}
        finally:
            self.runner.close()
            if self.judge:
                self.judge.close()

    def cell(self, action, view):
        if view not in getattr(self.client, ACTIONS[action]):
            return NONE
        marks = {kind: self.mark(action, view, kind) for kind in KINDS if self.client.applies(action, view, kind)}
        kinds_of = {}
        for kind, mark in marks.items():
            kinds_of.setdefault(mark, []).append(kind)
        if len(kinds_of) == 1:
            return next(iter(kinds_of))
        return "; ".join(f"{', '.join(kinds)}: {mark}" for mark, kinds in kinds_of.items() if mark != RIGHT)

    def mark(self, action, view, kind):
        said = self.trial(action, view, kind, {})
        if not said:
            return RIGHT
        self.said[action, view, kind] = said
        where = f"{self.client.title}, {action}, {view}, {kind}"
        note = self.note(where, said)
        options = dict(self.client.instead.get((action, view), {}))
        if options:
            words = ", ".join(f"PATH/{value}" if name == "below" else f"{name}={value!r}" for name, value in options.items() if name != "say")
            words = options.pop("say", words)
            again = self.trial(action, view, kind, options)
            note += f", and with `{words}`: {self.note(where, again)}" if again else f". Right with `{words}`"
        return note

    @staticmethod
    def note(where, said):
        return next((note for expression, note in NOTES if expression.search(f"{where}: {said}")), said[:400])

    def trial(self, action, view, kind, more):
        """What went wrong, or nothing."""
        self.count += 1
        work = self.folder / str(self.count)
        work.mkdir()
        try:
            return self.read(view, kind, work, more) if action == "read" else self.write(action, view, kind, work, more)
        except (MountError, AssertionError, ValueError) as error:
            return f"wrong: {plain(str(error), work, self.sources.folder)}"
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def do(self, action, path, view, kind, work, **job):
        other = view_path(self.sources.mounted("changed-science", kind), view, kind)
        told = self.runner.do(action, path, view=view, kind=kind, work=str(work), other=str(other), source=str(self.paths[kind]),
                              store=str(self.sources.folder / view), **job)
        error = plain(told.get("error", ""), work, self.sources.folder)
        return told, error

    def read(self, view, kind, work, more):
        if view == "file" and self.client.file != "mount":
            path = self.sources.file(self.client.file, kind)
        else:
            path = view_path(self.sources.mounted(self.client.data, kind), view, kind)
        with contextlib.ExitStack() as stack:
            more = dict(more)
            if "mount" in more:
                path = view_path(stack.enter_context(mounted(self.paths[kind], work / "mnt", "ro", more.pop("mount"))).path, view, kind)
            told, error = self.do("read", path, view, kind, work, more=more)
        if error:
            return error
        if "copy" in told:
            found = {name: part["values"] for name, part in self.sources.dump(told["copy"]).items()}
        else:
            found = told["values"]
        wrong = difference(found, self.client.expected("read", view, kind))
        return wrong and f"wrong: {wrong}"

    def write(self, action, view, kind, work, more):
        source = self.paths[kind]
        options = []
        if action == "change":
            source = work / f"source{source.suffix}"
            (shutil.copytree if self.paths[kind].is_dir() else shutil.copy)(self.paths[kind], source)
        else:
            source = work / ("new.nc" if kind == "HDF5" else "new.zarr")
            options = [f"create={FORMATS[kind]}"]
        options += [more["mount"]] if "mount" in more else []
        mount = Mount(source, work / "mnt", *options)
        try:
            path = view_path(mount.path, view, kind, action == "create")
            options = {name: value for name, value in more.items() if name not in ("below", "mount")}
            _, error = self.do(action, path / more["below"] if "below" in more else path, view, kind, work, more=options)
            reasons = re.findall(r"codecfs: error: (.*)", mount.log.read_text())
            if error and reasons:
                error = f"{error} [{plain(reasons[-1], work)}]"
            mount.close()
        except MountError:
            if not error:  # otherwise the client may have left a file that is not stored
                raise
        finally:
            mount.end()
        expected = self.client.expected(action, view, kind)
        if action == "create":
            wrong = "" if error else difference(self.values(source, more.get("below")), expected)
        else:
            wrong = self.unwanted(source, kind, {} if error else expected)
        return (wrong and f"wrong: {wrong}{error and f', after {error}'}") or error

    def values(self, source, below=None):
        """As another program reads them."""
        if self.client.data == "cells":
            self.judge = self.judge or Runner(self.client, HDF5_PLUGIN_PATH=PLUGINS)
            told = self.judge.do("read", source, below=below)
            if "error" in told:
                raise ValueError(told["error"])
            return told["values"]
        below = f"{below}/" if below else ""
        return {name.removeprefix(below): part["values"] for name, part in self.sources.dump(source).items() if name.startswith(below)}

    def unwanted(self, source, kind, expected):
        """What is in the source after a change that should not be. Without `expected`, the change was refused."""
        if self.client.data == "cells":
            return difference(self.values(source), expected)
        before, found = self.sources.dump(self.paths[kind]), self.sources.dump(source)
        if expected:
            wrong = difference({name: part["values"] for name, part in found.items()}, expected, exactly=True)
            if wrong:
                return wrong
        for name, part in before.items():
            if name not in found:
                if expected or name not in ("count", "ocean/s"):
                    continue
                return f"{name} is gone"
            if not expected and name != "t" and found[name]["values"] != part["values"]:
                return f"{name} has other values"
            wanted = {**part["attributes"], "units": "C"} if expected and name == "t" and self.client.units else part["attributes"]
            if found[name]["attributes"] != wanted and (expected or name != "t"):
                return f"{name} has the attributes {found[name]['attributes']}"
        return ""


# --- the table


def marks_of(cells, view, notes):
    marks = [cells[action, view] for action in ACTIONS]
    for mark in marks:
        if mark not in (RIGHT, NONE) and mark not in notes:
            notes.append(mark)
    return " ".join(mark if mark in (RIGHT, NONE) else str(notes.index(mark) + 1) for mark in marks)


def table_of(rows):
    """Markdown of {title: cells}."""
    notes, lines = [], [["client", "version", *COLUMNS], ["---"] * (2 + len(COLUMNS))]
    for title, cells in rows.items():
        lines.append([title, cells["version"], *(marks_of(cells, view, notes) for view in COLUMNS)])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    return text + "".join("\n" + textwrap.fill(note, 140, initial_indent=f"{i}. ", subsequent_indent="   " if i < 10 else "    ",
                                               break_long_words=False, break_on_hyphens=False) for i, note in enumerate(notes, 1)) + "\n"


def read_table():
    """{title: cells} of the page."""
    page = PAGE.read_text()
    text = page[page.index(BEGIN) + len(BEGIN):page.index(END)]
    notes = {number: " ".join(note.split()) for number, note in re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", text, re.M)}
    rows = {}
    for line in re.findall(r"^\| (.*) \|$", text, re.M)[2:]:
        title, version, *cells = line.split(" | ")
        rows[title] = {"version": version}
        for view, cell in zip(COLUMNS, cells):
            rows[title].update({(action, view): notes.get(mark, mark) for action, mark in zip(ACTIONS, cell.split())})
    return rows


def write_table(rows):
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:start] + "\n\n" + table_of(rows) + "\n" + page[end:])


def run_rows(clients, folder, threads=2, told=None):
    """{title: cells, or a Missing}, and what was said where a cell is not right."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(home(folder))
        sources = Sources(folder, stack)

        def row(client):
            begun = time.monotonic()
            one = Row(client, sources, folder / client.__name__)
            try:
                cells = one.run()
            except Missing as error:
                return error, {}
            if told:
                told(client, cells, one.said, time.monotonic() - begun)
            return cells, one.said

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            found = dict(zip((client.title for client in clients), pool.map(row, clients)))
        before = {kind: sources.dump(path) for kind, path in sources.of("science").items()}
        for kind, arrays in before.items():
            assert {name: part["values"] for name, part in arrays.items()} == {name: values.tolist() for name, values in DATA.items()}, kind
        return {title: cells for title, (cells, _) in found.items()}, {title: said for title, (_, said) in found.items()}


@contextlib.contextmanager
def home(folder):
    """Without what the settings of a user change."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(folder)
    try:
        yield
    finally:
        os.environ["HOME"] = before or "/"


def main(arguments):
    chosen = [argument for argument in arguments if argument != "--write"]
    clients = [client for client in CLIENTS if not chosen or client.__name__ in chosen]

    def told(client, cells, said, seconds):
        print(f"{client.title}: {seconds:.1f} s", file=sys.stderr)
        for place, text in said.items():
            print(f"  {', '.join(place)}: {text}", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="codecfs-table-") as folder:
        shutil.copy(PROGRAMS / "table_zarrita.mjs", VENVS / "zarrita") if (VENVS / "zarrita").is_dir() else None
        rows, _ = run_rows(clients, pathlib.Path(folder), told=told)
    for title, cells in rows.items():
        if isinstance(cells, Missing):
            print(f"{cells}", file=sys.stderr)
    rows = {title: cells for title, cells in rows.items() if not isinstance(cells, Missing)}
    print(table_of(rows))
    if "--write" in arguments:
        known = read_table()
        write_table({client.title: rows.get(client.title) or known[client.title] for client in CLIENTS
                     if client.title in rows or client.title in known})


if __name__ == "__main__":
    main(sys.argv[1:])
