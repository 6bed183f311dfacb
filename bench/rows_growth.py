"""What is made or changed, as there is more of it: each figure against a tenth of the work, and against what h5py or
zarr-python need for the same on the file itself. See rows_scale.py for what is read."""
import json
import os
import statistics
import sys

import h5py
import netCDF4
import numpy as np
import zarr

from harness import MIB, remove, row, run, settle, timed
from rows_scale import CONSTANT, LINEAR
from rows_write import sync

ITEMS = 1024  # int32, so a chunk has 4 KiB
MOST_ROUNDS = 3


def grows(bench, what, sizes, ours, rivals=None, at_most=LINEAR, bar=None):
    """`ours` and `rivals`, {name: function}, take a size and return seconds. `bar`: the least that the ratio with the
    first rival must be, at the larger size."""
    small, large = sizes
    if bench.before:
        bench.pairs(f"{what}, {small:,}", lambda: ours(small), {})
        return
    rounds = range(min(bench.rounds, MOST_ROUNDS))
    lesser = [float(ours(small)) for _ in rounds]
    times = {"codecfs": [float(ours(large)) for _ in rounds]}
    bench.growth(f"{what}: {large:,} against {small:,}", [value * 1e3 for value in lesser],
                 [value * 1e3 for value in times["codecfs"]], "ms", at_most, 5)
    for name, rival in (rivals or {}).items():
        times[name] = [float(rival(large)) for _ in rounds]
    if rivals:
        bench.ratio(f"{what}, {large:,}", times, bar=bar)


def sizes_of(bench, full):
    full = full // 10 if bench.quick else full
    return full // 10, full


# --- new chunks

def make_hdf5(path, count, kind):
    remove(path)
    with h5py.File(path, "w", libver="earliest" if kind == "B-tree v1" else "latest") as f:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        square = kind == "B-tree v2"
        creation.set_chunk((ITEMS, 1) if square else (ITEMS,))
        if kind == "implicit":
            creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        unlimited = h5py.h5s.UNLIMITED
        shape = (ITEMS * count, 1) if square else (ITEMS * count,)
        most = {"B-tree v2": (unlimited, unlimited), "extensible array": (unlimited,)}.get(kind, shape)
        h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I32LE, h5py.h5s.create_simple(shape, most), creation)


def make_zarr(path, count, kind):
    remove(path)
    (path / "v").mkdir(parents=True)
    if kind == "Zarr v2":
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        (path / "v/.zarray").write_text(json.dumps(
            {"zarr_format": 2, "shape": [ITEMS * count], "chunks": [ITEMS], "dtype": "<i4", "fill_value": 0, "order": "C",
             "compressor": None, "filters": None}))
        return
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    in_shards = kind == "Zarr v3, shards"
    codecs = [little] if not in_shards else [
        {"name": "sharding_indexed",
         "configuration": {"chunk_shape": [ITEMS], "codecs": [little], "index_codecs": [little, {"name": "crc32c"}]}}]
    (path / "v/zarr.json").write_text(json.dumps(
        {"zarr_format": 3, "node_type": "array", "shape": [ITEMS * count], "data_type": "int32",
         "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [ITEMS * (100 if in_shards else 1)]}},
         "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
         "codecs": codecs, "attributes": {}}))


def block(number):
    return np.full(ITEMS, number, "<i4")


def write_chunks(bench, path, count, name_of):
    """Seconds until all are stored; the mount checks each with close()."""
    settle()
    with bench.mount(path) as mount:
        def write_all():
            for i in range(count):
                (mount.path / "v" / name_of(i)).write_bytes(block(i))
            sync(mount.path)
        return timed(write_all)


@row("new chunks", "new chunks of 4 KiB: HDF5 of each index, Zarr v2, v3 and shards, and the npy view")
def new_chunks(bench):
    sizes = sizes_of(bench, 100_000)
    path = bench.scratch("new.h5")

    def by_h5py(kind):
        def write(count):
            make_hdf5(path, count, kind)
            settle()

            def write_all():
                with h5py.File(path, "r+") as f:
                    v = f["v"]
                    for i in range(count):
                        v[ITEMS * i:ITEMS * (i + 1)] = block(i).reshape((ITEMS,) + v.shape[1:])
                    f.flush()
                    sync(path)
            return timed(write_all)
        return write

    def through_mount(kind):
        def write(count):
            make_hdf5(path, count, kind)
            seconds = write_chunks(bench, path, count, (lambda i: f"{i}.0") if kind == "B-tree v2" else str)
            with h5py.File(path) as f:
                for i in range(0, count, 997):
                    bench.check((f["v"][ITEMS * i:ITEMS * (i + 1)] == i).all(), f"chunk {i} differs")
            return seconds
        return write

    for kind in ("B-tree v1", "B-tree v2", "extensible array", "fixed array", "implicit"):
        grows(bench, f"new chunks, HDF5 ({kind})", sizes, through_mount(kind), {"h5py": by_h5py(kind)}, 11)

    store = bench.scratch("new.zarr")

    def into_zarr(kind):
        def write(count):
            make_zarr(store, count, kind)
            seconds = write_chunks(bench, store, count, str if kind == "Zarr v2" else lambda i: f"c/{i}")
            if kind == "Zarr v2":
                v = zarr.open_array(str(store / "v"), mode="r")
                bench.check((v[:: 997 * ITEMS] == np.arange(0, count, 997)).all(), "chunks differ")
            return seconds
        return write

    for kind in ("Zarr v2", "Zarr v3", "Zarr v3, shards"):
        grows(bench, f"new chunks, {kind}", sizes, into_zarr(kind), at_most=11)
    if not bench.before:
        count = sizes[1]
        hdf5, v3 = through_mount("B-tree v1"), into_zarr("Zarr v3")
        bench.pairs(f"new chunks, HDF5 against Zarr v3, {count:,}", lambda: hdf5(count),
                    {"the same into Zarr v3": lambda: v3(count)}, bar=1 / 1.2)

    def by_npy(count):
        make_hdf5(path, count, "B-tree v1")
        values = np.repeat(np.arange(count, dtype="<i4"), ITEMS)
        settle(memory=2 * values.nbytes)
        with bench.mount(path) as mount:
            def write_all():
                view = np.load(mount.path / ".codecfs/view/npy/v.npy", mmap_mode="r+")
                view[:] = values
                view.flush()
                sync(mount.path)
            return timed(write_all)

    def by_h5py_at_once(count):
        make_hdf5(path, count, "B-tree v1")
        values = np.repeat(np.arange(count, dtype="<i4"), ITEMS)
        settle(memory=values.nbytes)

        def write_all():
            with h5py.File(path, "r+") as f:
                f["v"][:] = values
                f.flush()
                sync(path)
        return timed(write_all)

    grows(bench, "new chunks, npy view", sizes, by_npy, {"h5py": by_h5py_at_once}, 11, 1 / 3)


@row("overwrites", "100 chunks overwritten, each with fsync, in a file of a million")
def overwrites(bench):
    def overwrite(count):
        source = bench.data.many_chunks(count, False)
        path = bench.scratch("overwritten.h5")
        run("cp", "--reflink=auto", source, path)
        settle(path)
        with bench.mount(path) as mount:
            def write_all():
                for i in range(100):
                    chunk = mount.path / f"v/{i * (count // 100)}"
                    with open(chunk, "r+b") as file:
                        file.write(np.full(256, i, "<i2").tobytes())
                        file.flush()
                        os.fsync(file.fileno())
            return timed(write_all)

    grows(bench, "100 overwrites with fsync", sizes_of(bench, 1_000_000), overwrite, at_most=CONSTANT)


@row("appends", "20 rows appended by zarr-python, each a chunk, to arrays of 100,000")
def appends(bench):
    def array(path, count):
        make_zarr(path, count, "Zarr v2")
        for i in range(count):
            (path / f"v/{i}").write_bytes(block(i))

    def append_to(directory):
        v = zarr.open_array(str(directory / "v"), mode="a")
        return timed(lambda: [v.append(block(i)) for i in range(20)])

    def to_store(count):
        path = bench.scratch("appended.zarr")
        array(path, count)
        settle()
        with bench.mount(path) as mount:
            return append_to(mount.path)

    def plain(count):
        path = bench.scratch("appended.zarr")
        array(path, count)
        settle()
        return append_to(path)

    grows(bench, "20 appends, Zarr", sizes_of(bench, 100_000), to_store, {"zarr-python, no mount": plain}, CONSTANT)

    def to_hdf5(count):
        path = bench.scratch("appended.h5")
        with h5py.File(path, "w") as f:
            f.create_dataset("v", data=np.zeros(ITEMS * count, "<i4"), chunks=(ITEMS,), maxshape=(None,))
        settle()
        with bench.mount(path) as mount:
            return append_to(mount.path)

    grows(bench, "20 appends, HDF5", sizes_of(bench, 100_000), to_hdf5, at_most=CONSTANT)


@row("tree", "10 thousand variables made and removed through a mount, HDF5 and Zarr")
def tree(bench):
    description = json.dumps({"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": 0, "order": "C",
                              "compressor": None, "filters": None})

    def in_source(name, zattrs=None):
        def make_and_remove(count):
            path = bench.scratch(name)
            if name.endswith(".h5"):
                h5py.File(path, "w").close()
            else:
                path.mkdir()
                (path / ".zgroup").write_text('{"zarr_format": 2}')
            settle()
            with bench.mount(path) as mount:
                def work():
                    (mount.path / "g").mkdir()
                    for i in range(count):
                        (mount.path / f"g/v{i}").mkdir()
                        (mount.path / f"g/v{i}/.zarray").write_text(description)
                        if zattrs:
                            (mount.path / f"g/v{i}/.zattrs").write_text(zattrs)
                    run("rm", "-r", mount.path / "g")
                return timed(work)
        return make_and_remove

    for name in ("tree.h5", "tree.zarr"):
        grows(bench, f"variables made and removed, {name[5:]}", sizes_of(bench, 10_000), in_source(name))

    def by_netcdf(count):
        path = bench.scratch("tree.nc")
        remove(path)

        def make_and_remove():
            with netCDF4.Dataset(path, "w") as f:
                f.createDimension("x", 4)
                for i in range(count):
                    f.createVariable(f"v{i}", "i4", ("x",)).units = "K"
            remove(path)
        return timed(make_and_remove)

    named = in_source("tree.h5", json.dumps({"_ARRAY_DIMENSIONS": ["x"], "units": "K"}))
    # HDF5 stores a list of all variables of a dimension anew with each: of netCDF4, 10,000 take 15 to 24 times 1,000.
    grows(bench, "variables of one dimension made and removed, h5", sizes_of(bench, 10_000), named, {"netCDF4": by_netcdf},
          2 * LINEAR)


@row("folder", "a chunk of each of 10 thousand HDF5 files in a folder, against h5py")
def folder(bench):
    def files(count):
        def make(path):
            path.mkdir()
            for i in range(count):
                with h5py.File(path / f"f{i:05d}.h5", "w") as f:
                    f.create_dataset("v", data=np.full((10, 10), i, "<i4"), chunks=(10, 10), compression="gzip")
        return bench.data.keep(f"folder-{count}", make)

    def read_all(count):
        source = files(count)
        settle(source)
        with bench.mount(source, "ro") as mount:
            def work():
                for i in range(count):
                    values = np.frombuffer((mount.path / f"f{i:05d}.h5/v/0.0").read_bytes(), "<i4")
                    bench.check(values.size == 100 and (values == i).all(), f"file {i} differs")
            return timed(work)

    def by_h5py(count):
        source = files(count)
        settle(source)

        def work():
            for i in range(count):
                with h5py.File(source / f"f{i:05d}.h5") as f:
                    bench.check((f["v"][:] == i).all(), f"file {i} differs")
        return timed(work)

    small, large = sizes_of(bench, 10_000)
    grows(bench, "folder of HDF5 files", (small, large), read_all, {"h5py": by_h5py}, 11)
    if not bench.before:
        bench.value("folder of HDF5 files: each file", read_all(large) / large * 1e3, "ms", 5)


@row("long arrays", "400 attributes of 60 KB of numbers, against h5py")
def long_arrays(bench):
    def file(count):
        def make(path):
            with h5py.File(path, "w", libver="latest") as f:
                v = f.create_dataset("v", data=np.arange(4, dtype="<i4"))
                for i in range(count):
                    v.attrs[f"a{i:03d}"] = np.arange(7500) + i / 7
        return bench.data.keep(f"long-attributes-{count}.h5", make)

    def read_all(count):
        source = file(count)
        with bench.mount(source, "ro") as mount:
            def work():
                text = (mount.path / "v/.zattrs").read_bytes()
                bench.check(text.count(b'"a') == count, f".zattrs has not {count} attributes")
            return timed(work)

    def by_h5py(count):
        source = file(count)

        def work():
            with h5py.File(source) as f:
                bench.check(len({name: value[...] for name, value in f["v"].attrs.items()}) == count, "attributes differ")
        return timed(work)

    grows(bench, ".zattrs of long attributes", (40, 400), read_all, {"h5py": by_h5py})


def memory_of(bench, *words):
    """Bytes that the processes of a command hold at most together (their own, not shared)."""
    script = """
import os, subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, start_new_session=True)
most = 0
while process.poll() is None:
    total = 0
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getsid(int(entry)) == process.pid:
                with open(f"/proc/{entry}/status") as status:
                    total += next((int(line.split()[1]) for line in status if line.startswith("RssAnon")), 0)
        except OSError:
            pass
    most = max(most, total)
    time.sleep(0.02)
print(most * 1024)
sys.exit(process.returncode)
"""
    return int(run(sys.executable, "-c", script, bench.program, *words))


@row("memory", "memory of info, verify and convert: many chunks, many variables")
def memory(bench):
    if bench.before:
        return
    sources = {"chunks": [(count, bench.data.many_chunks(count, False)) for count in sizes_of(bench, 1_000_000)],
               "variables": [(count, bench.data.many_variables(count)) for count in sizes_of(bench, 100_000)]}
    for what, both in sources.items():
        for command in ("info", "verify", "convert"):
            figures = []
            for _, source in both:
                copy = bench.scratch("memory.zip")
                figures.append(memory_of(bench, command, source, *([copy] if command == "convert" else [])) / MIB)
            (small, _), (large, _) = both
            bench.growth(f"memory of {command}, {what}: {large:,} against {small:,}", figures[:1], figures[1:], "MiB",
                         CONSTANT if what == "chunks" else LINEAR, 16)
            bench.value(f"memory of {command}, {what}, {large:,}", statistics.median(figures[1:]), "MiB")
