"""codecfs compact of files in which fill values are references: for h5py, each refers to the same object afterwards."""
import ctypes
import os

import h5py
import numpy as np
import pytest
from running import codecfs, run

IDS = ctypes.c_int64


def library():
    """The one that h5py uses."""
    with open("/proc/self/maps") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if "libhdf5" in line and "_hl" not in line and "cpp" not in line))


def reference_bytes(f, path, selection=None):
    """As libhdf5 has it in memory: an address, or for a region a place in a heap of the file."""
    made = ctypes.create_string_buffer(8 if selection is None else 12)
    space = h5py.h5s.create_simple(f[path].shape) if selection is not None else None
    if space is not None:
        space.select_hyperslab(*selection)
    assert library().H5Rcreate(made, IDS(f.id.id), path.encode(), int(space is not None), IDS(space.id if space else -1)) >= 0
    return made.raw


def make(f, path, kind, fill, shape=(4,), chunks=(2,), **settings):
    """A dataset whose fill value has these bytes."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks:
        properties.set_chunk(chunks)
    if settings.get("deflate"):
        properties.set_deflate(3)
    assert library().H5Pset_fill_value(IDS(properties.id), IDS(kind.id), fill) >= 0
    h5py.h5d.create(f.id, path.encode(), kind, h5py.h5s.create_simple(shape), properties)


def compact(path):
    """What was unused goes, and the file is one for HDF5's own tool as well."""
    before = path.stat().st_size
    codecfs("compact", path)
    assert path.stat().st_size < before
    run("h5dump", "-p", path)


def waste(f):
    """Space before and between objects, so that all addresses change."""
    f["waste"] = np.zeros(100_000)


def unwaste(path):
    with h5py.File(path, "a") as f:
        del f["waste"]


REF = h5py.h5t.STD_REF_OBJ
REGION = h5py.h5t.STD_REF_DSETREG


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_references_to_objects(libver, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, track_order=libver == "latest") as f:
        waste(f)
        # Links to some of the targets are found before the datasets, of others behind them.
        f["a/target"] = np.arange(3)
        f["z/h/target"] = np.arange(5)
        f["z/type"] = np.dtype("i4")
        f["z"].attrs["back"] = f["a"].ref
        for number, target in enumerate(("a/target", "z/h/target", "z", "z/type", "/", "a", "z/h")):
            make(f, f"a/fill{number}", REF, reference_bytes(f, target), deflate=number % 2)
        make(f, "a/whole", REF, reference_bytes(f, "z/h/target"), chunks=None)
        make(f, "a/of_a_filled_one", REF, reference_bytes(f, "a/fill1"))
        make(f, "chain", REF, reference_bytes(f, "a/of_a_filled_one"))
        f["a/fill1"][3] = f["z"].ref
        f["second name"] = f["z/h/target"]
    unwaste(path)

    def look():
        with h5py.File(path) as f:
            names = {}
            for name in [f"a/fill{n}" for n in range(7)] + ["a/whole", "a/of_a_filled_one", "chain"]:
                names[name] = [f[reference] == f[target] and target for reference in f[name][:]
                               for target in ("a/target", "z/h/target", "z", "z/type", "/", "a", "z/h", "a/fill1", "a/of_a_filled_one")
                               if f[reference] == f[target]]
            links = []
            f.visit(links.append)
            return names, links, list(f["a"]), [h5py.h5o.get_info(f[name].id).rc for name in links]

    before = look()
    assert before[0]["a/fill1"] == ["z/h/target"] * 3 + ["z"] and before[0]["chain"] == ["a/of_a_filled_one"] * 4
    compact(path)
    assert look() == before
    with h5py.File(path, "a") as f:  # and it is a file to work with
        f["a/fill2"][0] = f["chain"].ref
        assert f[f["a/fill2"][1]] == f["z"] and f["z/h/target"][4] == 4
        assert f[f["z"].attrs["back"]] == f["a"]


def test_references_to_regions(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        waste(f)
        make(f, "first", REF, b"\0" * 8)
        f["z/target"] = np.arange(20)
        make(f, "fill", REGION, reference_bytes(f, "z/target", ((3,), (4,))))
    unwaste(path)
    compact(path)
    with h5py.File(path) as f:
        for reference in f["fill"][:]:
            assert f[reference] == f["z/target"] and f["z/target"][reference].tolist() == [3, 4, 5, 6]
        assert not f["first"][0]


def test_references_in_compound_types(tmp_path):
    path = tmp_path / "a.h5"
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 32)
    kind.insert(b"n", 0, h5py.h5t.NATIVE_INT64)
    kind.insert(b"two", 8, h5py.h5t.array_create(REF, (2,)))
    kind.insert(b"null", 24, REF)
    with h5py.File(path, "w") as f:
        waste(f)
        f["d/target"] = 1
        f["e"] = 2
        fill = (7).to_bytes(8, "little") + reference_bytes(f, "e") + reference_bytes(f, "d/target") + b"\0" * 8
        make(f, "c", kind, fill)
    unwaste(path)
    compact(path)
    with h5py.File(path) as f:
        for value in f["c"][:]:
            assert value["n"] == 7 and [f[reference].name for reference in value["two"]] == ["/e", "/d/target"] and not value["null"]


def test_a_fill_value_that_refers_to_nothing_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        waste(f)
        f["gone"] = np.arange(3)
        f["stays"] = np.arange(3)
        make(f, "fill", REF, reference_bytes(f, "gone"))
        del f["gone"]
    unwaste(path)
    before = path.read_bytes()
    assert "/fill: its fill value refers to an object at" in codecfs("compact", path, code=32).output
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.h5"]
