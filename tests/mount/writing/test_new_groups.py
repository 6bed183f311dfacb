"""New groups as Zarr's writers need them: empty until something is in them. zarr-python 2 and xarray of Debian, and zarr-python 3 in
the venv "zarr3" of scripts/client-test; without it its tests say that they were skipped."""
import os
import sys
import time

import pytest
import zarr

from client_venvs import python_of
from running import run

VIEWS = ["", ".codecfs/view/encoded", ".codecfs/view/decoded3", ".codecfs/view/encoded3"]
WRITE = """
import sys, warnings
import numpy as np, xarray as xr, zarr
warnings.simplefilter("ignore")
path, version, mode = sys.argv[1:]
ds = xr.Dataset({"t": (("y", "x"), np.arange(12.0).reshape(3, 4))}, {"x": [1, 2, 3, 4]}, {"title": "T"})
more = {"zarr_format": int(version)} if zarr.__version__ >= "3" else {}
plain = {"compressor": None} if zarr.__version__ < "3" else {"compressors": None}
if version == "2" and "encoded" not in path or "decoded3" in path:
    more["encoding"] = {name: plain for name in ds.variables}
ds.to_zarr(path, consolidated=False, **({"mode": mode} if mode else {}), **more)
xr.testing.assert_equal(xr.open_zarr(path, consolidated=False).load(), ds)
"""


def write(python, path, mode=""):
    version = "3" if "3" in path.parent.name else "2"
    run(python, "-B", "-c", WRITE, path, version, mode, seconds=300)


@pytest.fixture
def m(mount, tmp_path):
    return mount(tmp_path / "a.h5", "create=hdf5,view=decoded")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("client", ["zarr of Debian", "zarr 3"])
def test_to_zarr_makes_a_new_store(m, mount, tmp_path, client, view):
    """Mode "w-", which xarray uses by default, on a missing directory and on one that is there and empty."""
    if client == "zarr of Debian" and "3" in view:
        pytest.skip("zarr-python 2 writes format 2")
    python = sys.executable if client == "zarr of Debian" else python_of(client)
    root = m.path / view
    write(python, root / "missing")
    os.mkdir(root / "made")
    assert os.listdir(root / "made") == []
    write(python, root / "made")
    write(python, root / "made", mode="w")
    m.close()
    again = mount(tmp_path / "a.h5", "ro")
    for name in ("missing", "made"):
        assert zarr.open_group(str(again.path), "r")[name]["t"][...].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("view", VIEWS)
def test_empty_group_shows_nothing(m, view):
    """In its view, however long it stays empty; then it shows its metadata."""
    group = m.path / view / "g"
    os.mkdir(group)
    time.sleep(11)
    files = ["zarr.json"] if "3" in view else [".zgroup", ".zattrs", ".zmetadata"]
    assert os.listdir(group) == []
    assert not any((group / name).exists() for name in ("zarr.json", ".zgroup", ".zattrs", ".zmetadata"))
    for other in VIEWS:
        if other != view:
            assert (m.path / other / "g" / ("zarr.json" if "3" in other else ".zgroup")).exists()
    os.mkdir(group / "h")
    assert sorted(os.listdir(group)) == sorted([*files, "h"]) and os.listdir(group / "h") == []
    for other in VIEWS:
        assert (m.path / other / "g" / ("zarr.json" if "3" in other else ".zgroup")).exists()


def test_attributes_of_an_empty_group(m, mount, tmp_path):
    os.mkdir(m.path / "g")
    os.setxattr(m.path / "g", "user.title", b"T")
    assert "T" in (m.path / "g/.zattrs").read_text()
    os.mkdir(m.path / "empty")
    m.close()
    again = mount(tmp_path / "a.h5")
    assert (again.path / "empty/.zgroup").exists(), "known from the source, it is a group like any other"
