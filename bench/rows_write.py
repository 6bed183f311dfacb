"""Writing, re-encoding, and converting."""
import os
import shutil
import subprocess

import h5py
import numpy as np

from harness import MIB, remove, row, run, settle, timed


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def sync_tree(path):
    """All files below a directory: fsync of the directory itself stores only the names in it."""
    subprocess.run(["sync", "-f", path], check=True)


def holds(bench, path, array, level=None):
    with h5py.File(path, "r") as f:
        v = f["v"]
        for first in range(0, len(array), 16):
            bench.check(np.array_equal(v[first:first + 16], array[first:first + 16]), f"{path} holds other values")
        bench.check(level is None or v.compression_opts == level, f"{path} is not of level {level}")


def sizes(bench, title, ours, theirs, at_most=None):
    bench.value(title, os.path.getsize(ours) / os.path.getsize(theirs), "of it", at_most)


@row("write", "write deflate+shuffle level 4, fsync included, against h5py at the same level, size within 3 %")
def write(bench):
    for kind in ("packed", "smooth"):
        array = np.array(bench.data.shaped(kind, MIB)[0])
        ours, theirs = bench.scratch("codecfs.h5"), bench.scratch("h5py.h5")

        def make_empty(path):
            remove(path)
            with h5py.File(path, "w") as f:
                f.create_dataset("v", array.shape, "<f4", chunks=(1, 512, 512), compression="gzip", compression_opts=4,
                                 shuffle=True)
            settle(memory=2 * array.nbytes)  # what is written, waits and is stored

        def through_mount():
            make_empty(ours)
            with bench.mount(ours) as mount:
                def write_all():
                    for t in range(len(array)):
                        (mount.path / f"v/{t}.0.0").write_bytes(array[t])
                    sync(mount.path)
                return timed(write_all)

        def by_h5py():
            make_empty(theirs)

            def write_all():
                with h5py.File(theirs, "r+") as f:
                    for t in range(len(array)):
                        f["v"].write_direct(array, np.s_[t], np.s_[t])
                sync(theirs)
            return timed(write_all)

        bench.pairs(f"write and fsync, deflate 4, {kind}", through_mount, {"h5py": by_h5py}, array.nbytes, 3,
                    "cores x encoder")
        holds(bench, ours, array, 4)
        if bench.before:
            continue
        holds(bench, theirs, array, 4)
        sizes(bench, f"size of what was written, {kind}, against h5py's", ours, theirs, 1.03)


@row("recode", "store a variable anew (setfattr) against h5repack of it")
def recode(bench):
    for kind in ("packed", "smooth"):
        source = bench.data.hdf5(kind, "deflate")
        array, _ = bench.data.shaped(kind, MIB)
        ours, theirs = bench.scratch("codecfs.h5"), bench.scratch("h5repack.h5")

        def setfattr():
            remove(ours)
            shutil.copyfile(source, ours)
            settle(ours)
            with bench.mount(ours) as mount:
                return timed(lambda: run("setfattr", "-n", "user._Filter", "-v", "shuffle|1,6", mount.path / "v"))

        def h5repack():
            remove(theirs)
            settle(source)
            return timed(lambda: run("h5repack", "-f", "v:SHUF", "-f", "v:GZIP=6", source, theirs))

        bench.pairs(f"setfattr to deflate 6, {kind}", setfattr, {"h5repack": h5repack}, array.nbytes, 3,
                    "cores x (decoder + encoder)")
        holds(bench, ours, array, 6)
        if bench.before:
            continue
        sizes(bench, f"size of what was re-encoded, {kind}, against h5repack's", ours, theirs)


@row("encoded", "cp -r of the encoded view against cp of the source file")
def encoded(bench):
    source = bench.data.hdf5("packed", "deflate")
    array, _ = bench.data.shaped("packed", MIB)
    ours, theirs = bench.scratch("codecfs.zarr"), bench.scratch("copy.h5")

    def cp_view():
        remove(ours)
        settle(source, memory=array.nbytes)
        with bench.mount(source) as mount:
            return timed(lambda: run("cp", "-r", mount.path / ".codecfs/view/encoded", ours))

    def cp_file():
        remove(theirs)
        settle(source, memory=array.nbytes)
        # Copied, as the chunks are: not shared with the source, where the filesystem could do that.
        return timed(lambda: run("cp", "--reflink=never", source, theirs))

    bench.pairs("cp -r of the encoded view", cp_view, {"cp": cp_file}, os.path.getsize(source), 0.7, "1x")
    zarr_holds(bench, ours, array, "zlib")
    with bench.mount(source) as mount:
        before = mount.stats()["chunks_decoded"]
        run("cp", "-r", mount.path / ".codecfs/view/encoded", bench.scratch("again.zarr"))
        bench.check(mount.stats()["chunks_decoded"] == before, "chunks were decoded on the way")


def zarr_holds(bench, path, array, codec):
    import zarr
    v = zarr.open_group(str(path), "r")["v"]
    bench.check(v.compressor is not None and v.compressor.codec_id == codec, f"{path} is not {codec}")
    for first in range(0, len(array), 16):
        bench.check(np.array_equal(v[first:first + 16], array[first:first + 16]), f"{path} holds other values")


@row("convert", "conversion by a rule (-F) on the encoded view against h5repack and nccopy of the same")
def convert(bench):
    # nccopy 4.9.0 keeps the deflate of a compressed source whatever -F says (netcdf-c issue 2198).
    for codec, names in (("deflate", ["h5repack"]), ("none", ["nccopy", "h5repack"])):
        convert_from(bench, codec, [name for name in names if name in bench.rivals.versions])


def convert_from(bench, codec, names):
    source = bench.data.hdf5("packed", codec)
    array, _ = bench.data.shaped("packed", MIB)
    ours = bench.scratch("codecfs.zarr")
    copies = {"nccopy": bench.scratch("nccopy.nc"), "h5repack": bench.scratch("h5repack.h5")}
    options = {"nccopy": ["-F", "*,2,4|32015,3"], "h5repack": ["-f", "v:SHUF", "-f", "v:UD=32015,0,1,3"]}

    def cp_view():
        remove(ours)
        settle(source)
        return bench.cold(source, lambda directory: run("cp", "-r", directory, ours), "view=encoded", "ro",
                          rules=["*,shuffle|zstd,3"])

    def copy(name):
        remove(copies[name])
        settle(source)
        return timed(lambda: run(name, *options[name], source, copies[name]))

    bench.pairs(f"{codec} to shuffle+zstd by a rule and cp -r", cp_view,
                {name: lambda name=name: copy(name) for name in names}, array.nbytes, best_of=names)
    zarr_holds(bench, ours, array, "zstd")
    for name in () if bench.before else names:
        holds(bench, copies[name], array)
        with h5py.File(copies[name], "r") as f:
            chain = f["v"].id.get_create_plist()
            ids = [chain.get_filter(i)[0] for i in range(chain.get_nfilters())]
        bench.check(ids == [2, 32015], f"{name} made the filters {ids}")
