"""The Python package of packaging/python as its wheel installs it, but with the program that is tested ($CODECFS): in this process, and
in others with its entry points. The fixtures that its tests share."""
import gc
import importlib.util
import pathlib
import sys
import tempfile
import tomllib

import h5py
import numpy as np
import pytest
from running import run

PACKAGING = pathlib.Path(__file__).parents[3] / "packaging/python"
SOURCES = PACKAGING / "src"

if importlib.util.find_spec("codecfs") is None:
    sys.path.append(str(SOURCES))


def install(site):
    """A directory for PYTHONPATH, with what makes Python find entry points."""
    project = tomllib.loads((PACKAGING / "pyproject.toml").read_text())["project"]
    facts = site / "codecfs-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / "codecfs").symlink_to(SOURCES / "codecfs")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: codecfs\nVersion: 1.0\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    return site


def in_python(site, text, *arguments, python="/usr/bin/python3", **more):
    """What a program prints that has the package installed."""
    # A directory that is writable would get a __pycache__ beside the sources.
    variables = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **more.pop("env", {})}
    return run(python, "-c", text, *arguments, env=variables, **more).stdout


# --- fixtures


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The package, installed, for other processes."""
    return install(tmp_path_factory.mktemp("site") / "packages")


@pytest.fixture(scope="session")
def made_sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "sample.nc"
    run("ncgen", "-4", "-o", path, PACKAGING.parents[1] / "tests" / "data/sample.cdl")
    return path


@pytest.fixture
def sample(made_sample, tmp_path):
    path = tmp_path / "sample.nc"
    path.write_bytes(made_sample.read_bytes())
    return path


@pytest.fixture
def grid(tmp_path):
    """An HDF5 file with one variable, `v`, and its values: chunks at the edges are cut off."""
    values = np.random.default_rng(1).integers(0, 1000, (37, 22, 19), "i4")
    path = tmp_path / "grid.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, chunks=(5, 7, 6), compression="gzip")
    return path, values


@pytest.fixture(autouse=True)
def no_mount_is_left(tmp_path, monkeypatch):
    """Mounts are made in a directory of the test, and are gone when nothing has them any more."""
    place = tmp_path / "mounts"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    from codecfs import _mount, _shared

    for resting in list(_mount._resting):
        resting.close()
    _shared._unpickled.clear()
    gc.collect()
    assert list(place.iterdir()) == [], "a mount is left"
