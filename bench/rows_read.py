"""Reading: cold, by two readers, warm, single codecs, Zarr stores, views, and the memory that it takes. Mounts are read-only."""
import hashlib
import random
import subprocess

import h5py
import numpy as np

from harness import MIB, Memory, read_into_page_cache, row, timed
from rivals import h5py_in_process, h5py_read

CACHE = 64 * MIB  # the mount's default, -o cache=


def cat(directory):
    subprocess.run("cat v/[0-9]* >/dev/null", shell=True, cwd=directory, check=True)


def two_cats(directory):
    halves = ["cat v/*[02468].0.0 >/dev/null", "cat v/*[13579].0.0 >/dev/null"]
    readers = [subprocess.Popen(half, shell=True, cwd=directory) for half in halves]
    if any([reader.wait() for reader in readers]):
        raise subprocess.CalledProcessError(1, halves)


def same_chunks(bench, directory, expected):
    """`expected`: the array, in which each chunk is one piece."""
    flat = np.asarray(expected).reshape(-1).view("u1")
    names = [name for name in (path.name for path in (directory / "v").iterdir()) if name[0].isdigit()]
    chunk = flat.size // len(names)
    for name in names:
        number = int(name.split(".")[0])
        bench.check((directory / "v" / name).read_bytes() == flat[number * chunk:(number + 1) * chunk].tobytes(),
                    f"chunk {name} differs")


def checked(bench, source, array):
    """Memory that h5py reads into; by now h5py and a cold mount have given the same bytes as the array has."""
    read_into_page_cache(source)
    out = np.zeros(array.shape, array.dtype)
    h5py_read(source, out)
    bench.check(np.array_equal(out.view("u1"), array.view("u1")), f"h5py reads other bytes from {source}")
    with bench.mount(source, "ro") as mount:
        same_chunks(bench, mount.path, array)
    return out


def against_h5py(bench, title, kind, codec, bar=None, aim=None, read=cat, chunk=MIB, source=None, extra=False,
                 mebibytes=None):
    source = source or bench.data.hdf5(kind, codec, chunk, mebibytes)
    array, _ = bench.data.shaped(kind, chunk, mebibytes)
    out = checked(bench, source, array)
    rivals = {"h5py": h5py_in_process(source, out)}
    if extra:
        rivals |= bench.rivals.in_c(("libhdf5", "netcdf-c"), source)
        rivals |= bench.rivals.in_workers(["hidefix"], source, hashlib.sha256(array).hexdigest())
    bench.pairs(title, lambda: bench.cold(source, read, "ro"), rivals, array.nbytes, bar, aim, source=source)


@row("cold", "cold sequential read of deflate+shuffle, one cat of all chunks, against h5py in process")
def cold(bench):
    for kind, bar, aim in (("packed", 3.6, "4x"), ("smooth", 4, "5x")):
        against_h5py(bench, f"cold cat, deflate, {kind}", kind, "deflate", bar, aim, extra=True)


@row("two", "the same with two readers")
def two(bench):
    for kind, bar, aim in (("packed", 3.6, "4x"), ("smooth", 4, "5x")):
        against_h5py(bench, f"cold, two readers, deflate, {kind}", kind, "deflate", bar, aim, two_cats)


@row("codecs", "zstd, lz4 and blosc chunks against h5py with the same plugin")
def codecs(bench):
    for codec, bar, aim in (("zstd", 1.5, "2.2x"), ("lz4", 1.3, "1.8x"), ("blosc", 1.2, "1.8x")):
        against_h5py(bench, f"cold cat, {codec}, packed", "packed", codec, bar, aim)


@row("zarr", "cold, against the best of zarr-python, tensorstore and zarrs on the same Zarr store read directly")
def zarr(bench):
    for codec, bar, aim in (("zlib", 1.3, "2x"), ("shuffle+zlib", 1.3, "2x"), ("zstd", 0.9, "1.2x"),
                            ("shuffle+zstd", 0.9, "1.2x"), ("blosc", 0.5, "0.65x"), ("none", 0.55, "0.85x")):
        source = bench.data.zarr("packed", codec)
        array, _ = bench.data.shaped("packed", MIB)
        read_into_page_cache(source)
        with bench.mount(source, "ro") as mount:
            same_chunks(bench, mount.path, array)
        rivals = bench.rivals.in_workers(["zarr-python", "zarr-python 3", "tensorstore", "zarrs"], source,
                                         hashlib.sha256(array).hexdigest())
        bench.pairs(f"cold cat, Zarr {codec}, packed", lambda: bench.cold(source, cat, "ro"), rivals, array.nbytes, bar, aim,
                    best_of=list(rivals), source=source)


def two_cats_of_zarr3(directory):
    halves = ["cat v/c/*[02468]/0/0 >/dev/null", "cat v/c/*[13579]/0/0 >/dev/null"]
    readers = [subprocess.Popen(half, shell=True, cwd=directory) for half in halves]
    if any([reader.wait() for reader in readers]):
        raise subprocess.CalledProcessError(1, halves)


@row("zarr3", "two readers, cold, of Zarr v3 with its default zstd, against the best of zarr-python 3, tensorstore and zarrs")
def zarr3(bench):
    array, _ = bench.data.shaped("packed", MIB)
    for title, per_shard in (("chunks", None), ("shards of 64 chunks", 64)):
        source = bench.data.zarr3("packed", per_shard)
        read_into_page_cache(source)
        with bench.mount(source, "ro") as mount:
            for number in range(len(array)):
                bench.check((mount.path / f"v/c/{number}/0/0").read_bytes() == array[number].tobytes(),
                            f"chunk {number} differs")
        rivals = bench.rivals.in_workers(["zarr-python 3", "tensorstore", "zarrs"], source,
                                         hashlib.sha256(array).hexdigest())
        bench.pairs(f"cold, two readers, Zarr v3, {title}", lambda: bench.cold(source, two_cats_of_zarr3, "ro"), rivals,
                    array.nbytes, 1, best_of=list(rivals), source=source)


@row("shards", "random inner chunks of one large Zarr v3 shard, against a reader of whole shards")
def shards(bench):
    import numcodecs
    mebibytes = 128 if bench.quick else 1024
    source = bench.data.zarr3("packed", per_shard=mebibytes, mebibytes=mebibytes)
    array, _ = bench.data.shaped("packed", MIB, mebibytes)
    read_into_page_cache(source)
    rng = random.Random(7)
    places = [rng.randrange(len(array)) for _ in range(20)]
    zstd = numcodecs.Zstd()

    def ours():
        with bench.mount(source, "ro") as mount:
            return timed(lambda: [(mount.path / f"v/c/{number}/0/0").read_bytes() for number in places])

    def whole_shards():
        def read():
            for number in places:
                shard = (source / "v/c/0/0/0").read_bytes()
                begin, size = np.frombuffer(shard, "<u8", 2, len(shard) - 4 - 16 * (len(array) - number))
                zstd.decode(shard[int(begin):int(begin + size)])
        return timed(read)

    with bench.mount(source, "ro") as mount:
        for number in places:
            bench.check((mount.path / f"v/c/{number}/0/0").read_bytes() == array[number].tobytes(),
                        f"chunk {number} differs")
    bench.pairs(f"random chunks of a shard of {mebibytes} MiB", ours, {"whole shards": whole_shards},
                len(places) * MIB, 5, memory=array.nbytes, source=source)


@row("uncompressed", "uncompressed contiguous and raw chunks, cold, against h5py's page-cached read")
def uncompressed(bench):
    against_h5py(bench, "cold cat, contiguous", "packed", "none", 0.6, "0.85x", source=bench.data.contiguous("packed"))
    against_h5py(bench, "cold cat, raw chunks", "packed", "none", 0.6, "0.85x")


@row("warm", "second read against warm plain files")
def warm(bench):
    source, files = bench.data.hdf5("packed", "deflate"), bench.data.chunk_files("packed")
    array, _ = bench.data.shaped("packed", MIB)
    again = []  # percent of the bytes that the kernel asked of the daemon once more

    def second(directory):
        Memory.free()
        cat(directory)
        return timed(lambda: cat(directory))

    with bench.mount(source, "ro") as mount:
        def ours():
            Memory.free()
            cat(mount.path)
            before = mount.stats()["bytes_read"]
            seconds = timed(lambda: cat(mount.path))
            again.append(100 * (mount.stats()["bytes_read"] - before) / array.nbytes)
            return seconds

        same_chunks(bench, mount.path, array)
        same_chunks(bench, files, array)
        bench.pairs("warm cat", ours, {"plain files": lambda: second(files)}, array.nbytes, 0.8, "0.95x")
    bench.value("warm cat: what reached the daemon", again, "%", 1)


@row("npy", "random 4 KiB reads over an npy view against h5py point reads with its chunk cache")
def npy(bench):
    mebibytes = 128 if bench.quick else 1024
    source = bench.data.hdf5("packed", "deflate", mebibytes=mebibytes)
    array, _ = bench.data.shaped("packed", MIB, mebibytes)
    read_into_page_cache(source)
    rng = random.Random(7)
    places = [(rng.randrange(len(array)), 2 * rng.randrange(256)) for _ in range(300 if bench.quick else 2000)]
    taken = {}

    def take(reader, view):
        taken[reader] = [np.array(view[t, y:y + 2]) for t, y in places]  # 2 rows of 2 KiB: one page, of one chunk

    def mapped():
        with bench.mount(source, "ro") as mount:
            def read():
                take("np.load", np.load(mount.path / ".codecfs/view/npy/v.npy", mmap_mode="r"))
            return timed(read)

    def pread():
        with bench.mount(source, "ro") as mount:
            def read():
                with open(mount.path / ".codecfs/view/raw/v", "rb", buffering=0) as file:
                    taken["pread"] = []
                    for t, y in places:
                        file.seek((t * 512 + y) * 2048)
                        taken["pread"].append(np.frombuffer(file.read(4096), "<f4").reshape(2, 512))
            return timed(read)

    def h5py_points():
        def read():
            with h5py.File(source, "r", rdcc_nbytes=CACHE, rdcc_nslots=10007) as f:
                take("h5py", f["v"])
        return timed(read)

    size = 4096 * len(places)
    bench.pairs(f"random 4 KiB, np.load of {mebibytes} MiB", mapped, {"h5py": h5py_points}, size, 2, "10x",
                memory=array.nbytes)
    bench.pairs(f"random 4 KiB, pread of {mebibytes} MiB", pread, {"h5py": h5py_points}, size, memory=array.nbytes)
    for reader, values in taken.items():
        bench.check(all(np.array_equal(value, array[t, y:y + 2]) for value, (t, y) in zip(values, places)),
                    f"{reader} read other values")


@row("matrix", "cold cat for each codec at 1 MiB, each chunk size and each kind of data for deflate, against h5py")
def matrix(bench):
    for codec in ("none", "deflate", "zstd", "lz4", "blosc", "szip", "bzip2"):
        # At 20 to 40 MB/s of a core, bzip2 would take longer than all other rows together.
        less = min(64, bench.data.mebibytes) if codec == "bzip2" else None
        against_h5py(bench, f"matrix: {codec}, packed, 1 MiB", "packed", codec, mebibytes=less)
    for chunk in (64 << 10, 16 * MIB):
        against_h5py(bench, f"matrix: deflate, packed, {chunk >> 10} KiB", "packed", "deflate", chunk=chunk)
    for kind in ("smooth", "blocky", "int16", "uint8"):
        against_h5py(bench, f"matrix: deflate, {kind}, 1 MiB", kind, "deflate")


@row("memory", "resident memory of the daemon while streaming")
def memory(bench):
    def whole_array(directory):
        subprocess.run(["cp", ".codecfs/view/npy/v.npy", "/dev/null"], cwd=directory, check=True)

    readings = {"cat, 1 MiB chunks": (MIB, cat), "two readers, 1 MiB chunks": (MIB, two_cats),
                "cat, 16 MiB chunks": (16 * MIB, cat), "npy view, 1 MiB chunks": (MIB, whole_array)}
    for title, (chunk, read) in readings.items():
        source = bench.data.hdf5("packed", "deflate", chunk)
        read_into_page_cache(source)
        with bench.mount(source, "ro") as mount:
            read(mount.path)
            bench.value(f"memory (VmHWM): {title}", mount.memory() / MIB, "MiB", (CACHE >> 20) + 64)
