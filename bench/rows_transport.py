"""The ways in which chunks reach their readers (docs/transport.md), against each other."""
import mmap

import numpy as np

from harness import MIB, Memory, Wrong, read_into_page_cache, row, timed
from rows_read import cat, same_chunks

WAYS = ("push", "read", "passthrough")  # beside the default


def map_all(directory):
    """Maps every chunk, and touches all of its pages."""
    total = 0
    for path in (directory / "v").iterdir():
        if path.name[0].isdigit():
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as pages:
                total += int(np.frombuffer(pages, "u1")[::mmap.PAGESIZE].sum())
    return total


def ways(bench, source):
    """Those that are possible here: passthrough needs root and a recent kernel."""
    found = []
    for way in WAYS:
        try:
            with bench.mount(source, "ro", f"transport={way}"):
                found.append(way)
        except Wrong as error:
            print(f"  transport={way} is left out: {error}", flush=True)
    return found


def compare(bench, title, source, array, read=cat, before=None):
    """`before`: what is done on the new mount before the clock starts."""
    read_into_page_cache(source)
    with bench.mount(source, "ro") as mount:
        same_chunks(bench, mount.path, array)

    def by(*options):
        with bench.mount(source, "ro", *options) as mount:
            if before:
                Memory.free()
                before(mount.path)
            return timed(lambda: read(mount.path))

    rivals = {way: lambda way=way: by(f"transport={way}") for way in ways(bench, source)}
    bench.pairs(title, by, rivals, array.nbytes, source=source)


@row("transport", "the default way of chunks to their readers against push (of which the ratio is), read and passthrough")
def transport(bench):
    array, _ = bench.data.shaped("packed", MIB)
    for codec in ("none", "blosc", "zstd"):
        compare(bench, f"transport: cold cat, {codec}", bench.data.hdf5("packed", codec), array)
    for codec in ("none", "blosc", "zstd"):
        compare(bench, f"transport: cold cat, Zarr {codec}", bench.data.zarr("packed", codec), array)
    for codec in ("none", "zstd"):
        source = bench.data.hdf5("packed", codec)
        compare(bench, f"transport: warm cat, {codec}", source, array, before=cat)
        compare(bench, f"transport: mapped, {codec}", source, array, map_all)
        compare(bench, f"transport: mapped again, {codec}", source, array, map_all, before=map_all)
    small, _ = bench.data.shaped("packed", 64 << 10)
    compare(bench, "transport: cold cat, blosc, 64 KiB", bench.data.hdf5("packed", "blosc", 64 << 10), small)
    compare(bench, "transport: warm cat, blosc, 64 KiB", bench.data.hdf5("packed", "blosc", 64 << 10), small, before=cat)
