"""The data: made once, kept, and the same in every run.

What changes here takes another name: a file that is there is not made again.

Arrays (raw files, C order), of which every HDF5 file and Zarr store below holds one as the variable `v`:
  packed   float32 measurements of limited precision, like most archives: hard to compress, slow to decode
  smooth   a slowly varying float32 field
  blocky   float32 with few values in large areas, like a classification
  int16    counts, packed as archives do (scale and offset)
  uint8    an image
"""
import json
import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy as np

from harness import MIB, remove

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from zarr3_stores import crc32c, named  # noqa: E402

TYPES = {"packed": "<f4", "smooth": "<f4", "blocky": "<f4", "int16": "<i2", "uint8": "|u1"}
# h5py's arguments for each codec, with usual settings; the plugins' parameters are in plugins/README.md.
HDF5 = {
    "none": {},
    "deflate": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "szip": {"compression": "szip", "compression_opts": ("nn", 16)},
    "bzip2": {"compression": 307, "compression_opts": (9,), "shuffle": True},
    "zstd": {"compression": 32015, "compression_opts": (3,), "shuffle": True},
    "lz4": {"compression": 32004, "compression_opts": (0,), "shuffle": True},
    "blosc": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 1)},  # lz4, byte shuffle
}
# Compressor, its parameters, and whether a shuffle filter goes before it (tensorstore reads no store with filters).
ZARR = {
    "none": (None, {}, False),
    "zlib": ("Zlib", {"level": 4}, False),
    "shuffle+zlib": ("Zlib", {"level": 4}, True),
    "zstd": ("Zstd", {"level": 3}, False),
    "shuffle+zstd": ("Zstd", {"level": 3}, True),
    "blosc": ("Blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}, False),
}
EDGE = {MIB: 512, 64 << 10: 128, 16 * MIB: 2048}  # of a chunk (1, edge, edge) of 4-byte elements


def field(kind, rng, first, planes, edge):
    """Planes first, first + 1, ... of the array."""
    y, x = np.mgrid[0:edge, 0:edge].astype("f4") / edge
    made = np.empty((planes, edge, edge), TYPES[kind])
    for i in range(planes):
        t = first + i
        smooth = 280 + 20 * np.sin(3 * x + t / 40) * np.cos(5 * y - t / 60)
        if kind == "smooth":
            made[i] = smooth
        elif kind == "blocky":
            made[i] = np.floor(smooth / 5) * 5
        else:
            noisy = smooth + rng.standard_normal(smooth.shape, "f4") / 2
            if kind == "packed":
                made[i] = np.round(noisy / 0.01) * 0.01
            elif kind == "int16":
                made[i] = np.round((noisy - 280) / 0.01)
            else:
                made[i] = np.clip((noisy - 255) * 5, 0, 255)
    return made


class Data:
    def __init__(self, directory, mebibytes):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory = self.directory.resolve()
        self.mebibytes = mebibytes
        self.made = []  # what this run had to make

    def keep(self, name, make):
        """The file or directory of this name; `make(path)` makes it where it is not there yet, all or nothing."""
        path = self.directory / name
        if path.exists():
            return path
        print(f"  making {name} ...", flush=True)
        draft = self.directory / f"draft-{name}"
        remove(draft)
        try:
            make(draft)
        except BaseException:
            remove(draft)
            raise
        draft.rename(path)
        self.made.append(name)
        return path

    def array(self, kind, mebibytes=None):
        """The array as a read-only map of a raw file: (planes, edge, edge), a plane of 512 x 512 elements."""
        mebibytes = mebibytes or self.mebibytes
        dtype = np.dtype(TYPES[kind])
        planes = mebibytes * MIB // (512 * 512 * dtype.itemsize)

        def make(path):
            rng = np.random.default_rng(42)
            with open(path, "wb") as out:
                for first in range(0, planes, 8):
                    field(kind, rng, first, min(8, planes - first), 512).tofile(out)

        path = self.keep(f"{kind}-{mebibytes}.raw", make)
        return np.memmap(path, dtype, "r", shape=(planes, 512, 512))

    def shaped(self, kind, chunk_bytes, mebibytes=None):
        """The same bytes as (chunks, edge, edge), a plane of which is a chunk, so that a chunk is one piece of it."""
        array = self.array(kind, mebibytes)
        edge = EDGE[chunk_bytes]
        planes = chunk_bytes // (edge * edge * array.dtype.itemsize)
        return array.reshape(-1, edge, edge), (planes, edge, edge)

    def hdf5(self, kind, codec, chunk_bytes=MIB, mebibytes=None):
        mebibytes = mebibytes or self.mebibytes
        array, chunks = self.shaped(kind, chunk_bytes, mebibytes)

        def make(path):
            with h5py.File(path, "w") as f:
                v = f.create_dataset("v", array.shape, array.dtype, chunks=chunks, **HDF5[codec])
                for first in range(0, len(array), chunks[0]):
                    v[first:first + chunks[0]] = array[first:first + chunks[0]]

        return self.keep(f"{kind}-{codec}-{chunk_bytes >> 10}K-{mebibytes}.h5", make)

    def contiguous(self, kind):
        array, _ = self.shaped(kind, MIB)

        def make(path):
            with h5py.File(path, "w") as f:
                f.create_dataset("v", data=array)

        return self.keep(f"{kind}-contiguous-{self.mebibytes}.h5", make)

    def zarr(self, kind, codec):
        array, chunks = self.shaped(kind, MIB)

        def make(path):
            import numcodecs
            import zarr
            name, parameters, shuffled = ZARR[codec]
            filters = [numcodecs.Shuffle(array.dtype.itemsize)] if shuffled else None
            group = zarr.open_group(str(path), "w")
            group.create_dataset("v", shape=array.shape, dtype=array.dtype, chunks=chunks, fill_value=0,
                                 filters=filters, compressor=name and getattr(numcodecs, name)(**parameters))[:] = array
            zarr.consolidate_metadata(str(path))

        return self.keep(f"{kind}-{codec}-{self.mebibytes}.zarr", make)

    def zarr3(self, kind, per_shard=None, mebibytes=None):
        """As zarr-python 3 makes it by default, with zstd; `per_shard`: chunks in a shard, if there are any."""
        array, chunks = self.shaped(kind, MIB, mebibytes)

        def make(path):
            import numcodecs
            zstd = numcodecs.Zstd(0)
            codecs = [named("bytes", endian="little"), named("zstd", level=0, checksum=False)]
            outer = chunks
            if per_shard:
                codecs = [named("sharding_indexed", chunk_shape=list(chunks), codecs=codecs,
                                index_codecs=[named("bytes", endian="little"), named("crc32c")], index_location="end")]
                outer = (per_shard, *chunks[1:])
            v = path / "v"
            group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
            metadata = {"zarr_format": 3, "node_type": "array", "shape": list(array.shape), "data_type": "float32",
                        "chunk_grid": named("regular", chunk_shape=list(outer)),
                        "chunk_key_encoding": named("default", separator="/"), "fill_value": 0.0, "codecs": codecs,
                        "attributes": {}}
            v.mkdir(parents=True)
            (path / "zarr.json").write_text(json.dumps(group))
            (v / "zarr.json").write_text(json.dumps(metadata))
            for number, first in enumerate(range(0, len(array), per_shard or 1)):
                place = v / "c" / str(number) / "0"
                place.mkdir(parents=True)
                with open(place / "0", "wb") as file:
                    index = []
                    for plane in array[first:first + (per_shard or 1)]:
                        encoded = zstd.encode(np.ascontiguousarray(plane))
                        index += [file.tell(), len(encoded)]
                        file.write(encoded)
                    if per_shard:
                        index = np.array(index, "<u8").tobytes()
                        file.write(index + crc32c(index).to_bytes(4, "little"))

        size = f"{mebibytes or self.mebibytes}"
        return self.keep(f"{kind}-zstd-{f'shards-{per_shard}' if per_shard else 'chunks'}-{size}.zarr3", make)

    def chunk_files(self, kind):
        """The decoded chunks as plain files: what a mount shows, on the disk's own filesystem."""
        array, chunks = self.shaped(kind, MIB)

        def make(path):
            (path / "v").mkdir(parents=True)
            for i in range(len(array)):
                array[i].tofile(path / "v" / f"{i}.0.0")

        return self.keep(f"{kind}-files-{self.mebibytes}", make)

    # --- Cost as work grows

    def many_chunks(self, count, latest):
        """`count` stored chunks of 256 int16, deflated; libhdf5 itself makes them all at creation. Every 997th has its
        number in it."""
        def make(path):
            with h5py.File(path, "w", libver="latest" if latest else "earliest") as f:
                creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                creation.set_chunk((256,))
                creation.set_deflate(4)
                creation.set_fill_value(np.array(-1, "<i2"))
                creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                space = h5py.h5s.create_simple((256 * count,), (h5py.h5s.UNLIMITED,))
                v = h5py.Dataset(h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I16LE, space, creation))
                for number in range(0, count, 997):
                    v[256 * number:256 * (number + 1)] = number % 32768

        return self.keep(f"chunks-{count}-{'latest' if latest else 'earliest'}.h5", make)

    def many_variables(self, count):
        def make(path):
            with h5py.File(path, "w", libver="latest") as f:
                creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                space = h5py.h5s.create_simple((4,))
                for i in range(count):
                    d = h5py.h5d.create(f.id, b"v%06d" % i, h5py.h5t.STD_I32LE, space, creation)
                    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.full(4, i, "<i4"))

        return self.keep(f"variables-{count}.h5", make)

    def many_attributes(self, count):
        def make(path):
            with h5py.File(path, "w", libver="latest") as f:
                v = f.create_dataset("v", data=np.arange(4, dtype="<i4"))
                for i in range(count):
                    v.attrs.create(f"a{i:05d}", i, dtype="<i4")

        return self.keep(f"attributes-{count}.h5", make)

    def sparse(self, chunks, latest):
        """A variable of `chunks` chunks of 1 MiB of which 1000 are stored."""
        def make(path):
            with h5py.File(path, "w", libver="latest" if latest else "earliest") as f:
                v = f.create_dataset("v", (chunks, 512, 512), "<f4", chunks=(1, 512, 512), compression="gzip",
                                     shuffle=True, fillvalue=-1, maxshape=(None, 512, 512))
                # So that absent chunks are not presented as files.
                v.attrs["_FillValue"] = np.float32(-1)
                for i in range(1000):
                    v[i * (chunks // 1000)] = np.full((512, 512), i, "f4")

        return self.keep(f"sparse-{chunks}-{'latest' if latest else 'earliest'}.h5", make)

    def describe(self):
        filesystem = subprocess.run(["stat", "-f", "-c", "%T", self.directory], capture_output=True, text=True).stdout
        held = sum(file.stat().st_blocks * 512 for file in self.directory.rglob("*") if file.is_file())
        return f"{self.directory} ({filesystem.strip()}; {held / 1e9:.1f} GB held, " \
               f"{shutil.disk_usage(self.directory).free / 1e9:.0f} GB free)"
