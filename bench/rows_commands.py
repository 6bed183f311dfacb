"""The commands that need no mount, against the programs that people use for the same."""
import json
import os
import shutil
import sys

from harness import MIB, read_into_page_cache, remove, row, run, settle, timed
from rows_write import holds, sync, sync_tree, zarr_holds


def program(bench, *words):
    return lambda: timed(lambda: run(bench.program, *words))


@row("commands", "recode, convert, verify, compare and info against h5repack, nccopy, cp, h5py, h5diff and ncdump")
def commands(bench):
    if bench.before:
        return  # it had no commands
    source = bench.data.hdf5("packed", "deflate")
    array, _ = bench.data.shaped("packed", MIB)
    recode(bench, source, array)
    convert(bench, source, array)
    check(bench, source, array)


def recode(bench, source, array):
    ours, theirs = bench.scratch("codecfs.h5"), bench.scratch("h5repack.h5")

    def recode_in_place():
        remove(ours)
        shutil.copyfile(source, ours)
        settle(ours)
        return timed(lambda: run(bench.program, "recode", "-F", "v,shuffle|deflate,6", ours))

    def h5repack():
        remove(theirs)
        settle(source)
        return timed(lambda: (run("h5repack", "-f", "v:SHUF", "-f", "v:GZIP=6", source, theirs), sync(theirs)))

    bench.pairs("codecfs recode to deflate 6", recode_in_place, {"h5repack": h5repack}, array.nbytes, 5, "cores x (decoder + encoder)")
    holds(bench, ours, array, 6)


def convert(bench, source, array):
    ours, zarr = bench.scratch("codecfs.nc"), bench.scratch("codecfs.zarr")
    nccopy_made, copied = bench.scratch("nccopy.nc"), bench.scratch("copied.zarr")
    plain = bench.data.hdf5("packed", "none")

    def ours_encodes():
        remove(ours)
        settle(plain, memory=array.nbytes)
        return timed(lambda: run(bench.program, "convert", "-F", "v,shuffle|deflate,4", plain, ours))

    def nccopy():
        remove(nccopy_made)
        settle(plain, memory=array.nbytes)
        return timed(lambda: (run("nccopy", "-d", "4", "-s", plain, nccopy_made), sync(nccopy_made)))

    if "nccopy" in bench.rivals.versions:
        bench.pairs("codecfs convert, encoding with deflate 4", ours_encodes, {"nccopy": nccopy}, array.nbytes, 3, "cores x encoder")
        holds(bench, ours, array, 4)

    def ours_passes():
        remove(zarr)
        settle(source, memory=array.nbytes)
        return timed(lambda: run(bench.program, "convert", source, zarr))

    ours_passes()
    kept = bench.scratch("kept.zarr")
    os.rename(zarr, kept)

    def cp_kept():
        remove(copied)
        read_into_page_cache(kept)
        return timed(lambda: (run("cp", "-r", "--reflink=never", kept, copied), sync_tree(copied)))

    bench.pairs("codecfs convert to Zarr, bytes passed through", ours_passes, {"cp -r of the result": cp_kept},
                os.path.getsize(source), 0.67, "1x")
    zarr_holds(bench, zarr, array, "zlib")


def check(bench, source, array):
    def h5py():
        script = "import sys, h5py\nv = h5py.File(sys.argv[1])['v']\nfor i in range(0, len(v), v.chunks[0]): v[i:i + v.chunks[0]]"
        return timed(lambda: run(sys.executable, "-c", script, source))

    bench.pairs("codecfs verify", program(bench, "verify", source), {"h5py reads all": h5py}, array.nbytes, 1, "cores x decoder",
                source=source)
    other = bench.scratch("other.h5")
    shutil.copyfile(source, other)

    bench.pairs("codecfs compare", program(bench, "compare", source, other),
                {"h5diff": lambda: timed(lambda: run("h5diff", source, other))}, 2 * array.nbytes, 1, "cores x decoder",
                source=source)
    many = bench.data.many_variables(10_000 if bench.quick else 100_000)
    bench.pairs("codecfs info, many variables", program(bench, "info", many),
                {"h5ls": lambda: timed(lambda: run("h5ls", "-rv", many))}, None, 1, source=many)


@row("refs", "codecfs refs of a million chunks against VirtualiZarr and kerchunk")
def refs(bench):
    if bench.before:
        return
    count = 100_000 if bench.quick else 1_000_000
    source = bench.data.many_chunks(count, True)
    out = bench.scratch("refs.json")
    python = bench.data.directory / "venv/bin/python"
    imports = {"virtualizarr": "from virtualizarr.parsers import HDFParser; from obspec_utils.registry import "
                               "ObjectStoreRegistry; from obstore.store import LocalStore; import pathlib",
               "kerchunk": "import json; from kerchunk.hdf import SingleHdf5ToZarr"}
    work = {"virtualizarr": "u = 'file://' + str(pathlib.Path(sys.argv[1]).resolve())\n"
                            "m = HDFParser()(url=u, registry=ObjectStoreRegistry({'file://': LocalStore()}))\n"
                            "m.to_virtual_dataset().vz.to_kerchunk(sys.argv[2], format='json')",
            "kerchunk": "json.dump(SingleHdf5ToZarr(sys.argv[1]).translate(), open(sys.argv[2], 'w'))"}
    theirs = bench.scratch("theirs.json")

    def by(name):
        """Without the time of the imports."""
        script = f"{imports[name]}\nimport sys, time\nbegun = time.perf_counter()\n{work[name]}\nprint(time.perf_counter() - begun)"
        return lambda: float(run(python, "-c", script, source, theirs).split()[-1])

    rivals = {name: by(name) for name in imports if name in bench.rivals.versions}
    def ours():
        remove(out)  # codecfs replaces nothing
        return timed(lambda: run(bench.program, "refs", source, "-o", out))

    bench.pairs(f"codecfs refs, {count:,} chunks", ours, rivals, None, 5,
                best_of=list(rivals), source=source)
    found = json.loads(out.read_text())["refs"]
    bench.check(sum(isinstance(value, list) for value in found.values()) == count, "references are missing")
