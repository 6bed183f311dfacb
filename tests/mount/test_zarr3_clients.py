"""Random arrays of Zarr v3 (types, codecs, shards, ragged edges), written by zarr-python 3, tensorstore and zarrs, are read right on
a mount; and what is written through the mount they read right. An extra: the venv "zarr3" of scripts/client-test, with zarrs too.
CODECFS_ZARR3_ARRAYS: how many arrays (120)."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import zarr
from test_clients import VENVS

SCRIPT = pathlib.Path(__file__).with_name("zarr3_random.py")
COUNT = int(os.environ.get("CODECFS_ZARR3_ARRAYS", "120"))
SEED = int(os.environ.get("CODECFS_ZARR3_SEED", "1"))


def run(*arguments):
    python = VENVS / "zarr3/bin/python3"
    has_all = python.exists() and subprocess.run([python, "-c", "import zarr, tensorstore, zarrs"], capture_output=True).returncode == 0
    if not has_all:
        pytest.skip(f"zarr-python 3, tensorstore and zarrs are not in {VENVS}: scripts/client-test installs them")
    done = subprocess.run([python, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=1800,
                          env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("RESULT ")[2] or "null")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    top = tmp_path_factory.mktemp("random")
    run("write", top / "store", top / "values", COUNT, SEED)
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
    told = run("check", m.path, store / "values")
    before = run("check", store / "store", store / "values")
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
    told = run("check", tmp_path / "store", tmp_path / "values")
    before = run("check", store / "store", store / "values")
    known = {text.split(":")[0] for text in before["bad"]}  # that a reader cannot read in what others wrote either
    assert [text for text in told["bad"] if text.split(":")[0] not in known] == []
    assert told["read"]["zarr-python"] == COUNT and told["read"]["tensorstore"] > COUNT / 2


def test_stores_of_other_projects(mount, tmp_path):
    """Each array in the folder that CODECFS_CORPUS names, as zarr-python reads it."""
    corpus = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
    if not corpus.is_dir():
        pytest.skip("CODECFS_CORPUS names no folder of stores to try")
    found = run("dump", corpus, tmp_path)
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
