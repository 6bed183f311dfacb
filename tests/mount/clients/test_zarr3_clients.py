"""Random arrays of Zarr v3 (types, codecs, shards, ragged edges), written by zarr-python 3, tensorstore and zarrs, are read right on
a mount; and what is written through the mount they read right. An extra: the venv "zarr3" of scripts/client-test, with zarrs too.
CODECFS_ZARR3_ARRAYS: how many arrays (120)."""
import json
import os
import pathlib
import shutil

import h5py
import numpy as np
import pytest
import zarr
from conftest import PROGRAMS
from client_venvs import VENVS
from running import codecfs, run

SCRIPT = PROGRAMS / "zarr3_random.py"
COUNT = int(os.environ.get("CODECFS_ZARR3_ARRAYS", "120"))
SEED = int(os.environ.get("CODECFS_ZARR3_SEED", "1"))


def in_venv(*arguments):
    python = VENVS / "zarr3/bin/python3"
    has_all = python.exists() and run(python, "-c", "import zarr, tensorstore, zarrs", code=None).returncode == 0
    if not has_all:
        pytest.skip(f"zarr-python 3, tensorstore and zarrs are not in {VENVS}: scripts/client-test installs them")
    return run(python, "-B", *arguments, seconds=1800, env={"PYTHONPATH": None}).stdout


def run_random(*arguments):
    return json.loads(in_venv(SCRIPT, *arguments).rpartition("RESULT ")[2] or "null")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    top = tmp_path_factory.mktemp("random")
    run_random("write", top / "store", top / "values", COUNT, SEED)
    return top


def same(got, wanted):
    if got.dtype.kind == "O":
        return got.shape == wanted.shape and [str(x) for x in got.ravel()] == [str(x) for x in wanted.ravel()]
    return (got.shape == wanted.shape and got.dtype.kind == wanted.dtype.kind
            and np.array_equal(got, wanted, equal_nan=wanted.dtype.kind in "fc"))


def values_in(folder):
    return {file.stem: np.load(file) for file in sorted(folder.glob("*.npy"))}


def test_what_others_wrote(mount, store):
    m = mount(store / "store", "view=decoded")
    shown = zarr.open(str(m.path), "r")
    wanted = values_in(store / "values")
    assert len(wanted) == COUNT
    assert [name for name, values in wanted.items() if not same(shown[name][...], values)] == []


@pytest.mark.parametrize("view", ["decoded3", "encoded3"])
def test_what_others_wrote_in_views_of_v3(mount, store, view):
    m = mount(store / "store", f"view={view}")
    told = run_random("check", m.path, store / "values")
    before = run_random("check", store / "store", store / "values")
    known = {text.split(":")[0] for text in before["bad"]}
    assert [text for text in told["bad"] if text.split(":")[0] not in known] == []
    assert told["read"]["zarr-python"] == COUNT and told["read"]["tensorstore"] > COUNT / 2


def test_what_was_written_through_the_mount(mount, store, tmp_path):
    shutil.copytree(store / "store", tmp_path / "store")
    (tmp_path / "values").mkdir()
    m = mount(tmp_path / "store", "view=decoded")
    shown = zarr.open(str(m.path), "r+")
    rng = np.random.default_rng(SEED)
    for name, values in values_in(store / "values").items():
        flat = values.ravel().copy()
        rng.shuffle(flat)
        new = flat.reshape(values.shape)
        # All of it, or a part: what is in the same shard stays.
        part = tuple(slice(int(rng.integers(0, n)), None) for n in values.shape) if rng.random() < 0.5 else ...
        shown[name][part] = new[part].astype(object) if shown[name].dtype.kind == "O" else new[part]
        expected = values.copy()
        expected[part] = new[part]
        np.save(tmp_path / "values" / f"{name}.npy", expected)
    m.unmount()
    told = run_random("check", tmp_path / "store", tmp_path / "values")
    before = run_random("check", store / "store", store / "values")
    known = {text.split(":")[0] for text in before["bad"]}  # that a reader cannot read in what others wrote either
    assert [text for text in told["bad"] if text.split(":")[0] not in known] == []
    assert told["read"]["zarr-python"] == COUNT and told["read"]["tensorstore"] > COUNT / 2


def test_stores_of_other_projects(mount, tmp_path):
    """Each array in the folder that CODECFS_CORPUS names, as zarr-python reads it."""
    corpus = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
    if not corpus.is_dir():
        pytest.skip("CODECFS_CORPUS names no folder of stores to try")
    found = run_random("dump", corpus, tmp_path)
    if not found:
        pytest.skip(f"no array of Zarr v3 in {corpus}")
    wrong = []
    for path, name in found.items():
        if name.startswith("error: "):
            continue
        m = mount(corpus / path, "view=decoded", "ro")
        wanted = np.load(tmp_path / name)
        got = zarr.open(str(m.path), "r")[...]
        if not same(np.asarray(got), wanted):
            wrong.append(path)
        m.unmount()
    assert wrong == []
    assert sum(not name.startswith("error: ") for name in found.values()) >= len(found) * 0.9


COMPOUND = np.dtype([("a", "<i2"), ("b", "<f8"), ("c", "S3")])
NUMBERS = np.dtype([("a", "<i2"), ("b", "<f8")])  # tensorstore does not know the other types
NESTED = np.dtype([("p", [("x", "<f4"), ("y", "<f4")]), ("n", "u1")])
READ = """
import sys, numpy, zarr
for path, name in zip(sys.argv[1::2], sys.argv[2::2]):
    array = zarr.open_array(path, mode="r")
    numpy.save(name, array[...])
    numpy.save(name + "-fill", numpy.array(array.fill_value))
"""
READ_FIELDS = """
import sys, numpy, tensorstore
for path, name in zip(sys.argv[1::2], sys.argv[2::2]):
    for field in "ab":
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}, "field": field}
        numpy.save(f"{name}-{field}", tensorstore.open(spec, read=True, open=True).result().read().result())
"""


def test_compounds_are_read_by_others(mount, tmp_path):
    """zarr-python below 3.2 knows one form of them."""
    values = np.array([(i, i / 4, b"s%d" % i) for i in range(10)], COMPOUND)
    nested = np.array([((i, -i), i) for i in range(10)], NESTED)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("plain", data=values, chunks=(4,), compression="gzip", fillvalue=np.array((7, 0.5, b"x"), COMPOUND))
        file.create_dataset("numbers", data=values[["a", "b"]].astype(NUMBERS), chunks=(4,))
        file.create_dataset("nested", data=nested, chunks=(4,))
    codecfs("convert", tmp_path / "c.h5", tmp_path / "copy.zarr", "--format", "zarr3")
    m = mount(tmp_path / "c.h5", "view=decoded3")
    places = [m.path, m.path / ".codecfs/view/encoded3", tmp_path / "copy.zarr"]
    for script, names in (READ, ("plain", "numbers", "nested")), (READ_FIELDS, ("numbers",)):
        arguments = [word for i, place in enumerate(places) for name in names for word in (place / name, tmp_path / f"{name}{i}.npy")]
        in_venv("-c", script, *arguments)
    for i in range(len(places)):
        assert np.array_equal(np.load(tmp_path / f"plain{i}.npy"), values), places[i]
        assert np.array_equal(np.load(tmp_path / f"nested{i}.npy"), nested), places[i]
        assert np.load(tmp_path / f"plain{i}.npy-fill.npy") == np.array((7, 0.5, b"x"), COMPOUND)
        for field in "ab":
            assert np.array_equal(np.load(tmp_path / f"numbers{i}.npy-{field}.npy"), values[field])


TRANSPOSED = """
import itertools, json, pathlib, sys
import numpy, tensorstore, zarr
folder = pathlib.Path(sys.argv[1])
for rank in (2, 3):
    for order in itertools.permutations(range(rank)):
        shape, shard, inner = [25, 20, 14][:rank], [12] * rank, [6, 3, 2][:rank]
        values = numpy.load(folder / f"{rank}.npy")
        path = folder / "store" / "".join(map(str, order))
        if sys.argv[2] == "write":
            path.mkdir(parents=True)
            named = lambda name, **configuration: {"name": name, "configuration": configuration}
            codecs = [named("transpose", order=list(reversed(range(rank)))), named("bytes", endian="little"), named("zstd", level=1, checksum=False)]
            (path / "zarr.json").write_text(json.dumps({
                "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int32", "fill_value": 0, "attributes": {},
                "chunk_grid": named("regular", chunk_shape=shard), "chunk_key_encoding": named("default", separator="/"),
                "codecs": [named("transpose", order=order),
                           named("sharding_indexed", chunk_shape=[inner[axis] for axis in order], codecs=codecs, index_location="end",
                                 index_codecs=[named("bytes", endian="little"), {"name": "crc32c"}])]}))
            zarr.open_array(str(path), mode="r+")[...] = values
        assert (zarr.open_array(str(path), mode="r")[...] == values).all(), order
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
        assert (tensorstore.open(spec, open=True).result().read().result() == values).all(), order
"""


def test_transposes_in_front_of_shards(mount, tmp_path):
    """All orders of axes, written by zarr-python, read and changed through the mount, and read by zarr-python and tensorstore."""
    values = {rank: np.arange(np.prod((25, 20, 14)[:rank]), dtype="i4").reshape((25, 20, 14)[:rank]) for rank in (2, 3)}
    for rank, array in values.items():
        np.save(tmp_path / f"{rank}.npy", array)
    (tmp_path / "store").mkdir()
    (tmp_path / "store/zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    in_venv("-W", "ignore", "-c", TRANSPOSED, tmp_path, "write")
    m = mount(tmp_path / "store", "view=decoded")
    shown = zarr.open(str(m.path), "r+")
    assert len(list(shown.arrays())) == 8
    for name, array in shown.arrays():
        assert np.array_equal(array[...], values[len(name)]), name
        array[2:9] = -values[len(name)][2:9]
    m.unmount()
    for rank, array in values.items():
        array[2:9] *= -1
        np.save(tmp_path / f"{rank}.npy", array)
    in_venv("-W", "ignore", "-c", TRANSPOSED, tmp_path, "check")
