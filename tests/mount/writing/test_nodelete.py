"""Removing variables and groups: it is logged, -o nodelete refuses it, and what zarr's mode "w" does on the mount point."""
import errno
import os
import shutil
import sys

import h5py
import numpy as np
import pytest
import zarr

from client_venvs import python_of
from running import run


@pytest.fixture
def source(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(8), chunks=(4,), fillvalue=0)
        f.create_dataset("g/w", data=np.arange(8), chunks=(4,), fillvalue=0)
        f.create_group("empty")
    return tmp_path / "a.h5"


def refused(call, *arguments):
    with pytest.raises(OSError) as raised:
        call(*arguments)
    return raised.value.errno


def test_removals_are_logged(mount, source):
    m = mount(source)
    shutil.rmtree(m.path / "g")
    log = (m.path / ".codecfs/log").read_text()
    assert "/g/w: variable removed" in log and "/g: group removed" in log and "/v:" not in log


@pytest.mark.parametrize("view", ["", ".codecfs/view/encoded", ".codecfs/view/decoded3"])
def test_nodelete(mount, source, view):
    """Nothing that removes trees removes anything, whether it stops at the first error or not; other changes work."""
    m = mount(source, "nodelete")
    root = m.path / view
    metadata = "zarr.json" if "3" in view else ".zarray"
    assert refused(os.rmdir, root / "empty") == errno.EPERM and refused(os.unlink, root / "v" / metadata) == errno.EPERM
    assert "nodelete" in os.getxattr(root / "v", "user._Error").decode()
    assert refused(shutil.rmtree, root / "g") == errno.EPERM
    assert run("rm", "-rf", root / "v", root / "g", code=None).returncode != 0
    if not view:
        np.arange(10, 14).tofile(root / "v/0")
        (root / "empty/.zattrs").write_text('{"a": 1}')
    m.close()
    with h5py.File(source, "r") as f:
        assert f["v"][()].tolist() == [*(range(10, 14) if not view else range(4)), 4, 5, 6, 7]
        assert f["g/w"][()].tolist() == list(range(8)) and "empty" in f


def test_nodelete_permits_removing_chunks(mount, source):
    """zarr's writers remove chunks that are all fill."""
    m = mount(source, "nodelete")
    zarr.open_array(str(m.path / "v"), mode="r+", write_empty_chunks=False)[:4] = 0
    os.unlink(m.path / "g/w/1")
    m.close()
    with h5py.File(source, "r") as f:
        assert f["v"][()].tolist() == [0, 0, 0, 0, 4, 5, 6, 7] and f["g/w"][()].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("client", ["zarr of Debian", "zarr 3"])
@pytest.mark.parametrize("options", [[], ["nodelete"]])
def test_mode_w_on_the_mount_point(mount, source, client, options):
    """It removes the directory of the store, which the kernel refuses for a mount point, after it has removed what is in it."""
    python = sys.executable if client == "zarr of Debian" else python_of(client)
    m = mount(source, *options)

    def open_group(mode):
        program = ("import sys, zarr\nmore = {'zarr_format': 2} if zarr.__version__ >= '3' else {}\n"
                   "zarr.open_group(sys.argv[1], mode=sys.argv[2], **more).attrs['made'] = 1")
        return run(python, "-B", "-c", program, m.path, mode, code=None)

    done = open_group("w")
    assert done.returncode != 0 and ("Operation not permitted" if options else "Device or resource busy") in done.stderr
    if options:
        assert (m.path / "v/0").exists() and (m.path / "g/w/0").exists()
        return
    assert os.listdir(m.path) == [] and "/v: variable removed" in (m.path / ".codecfs/log").read_text()
    done = open_group("a")
    assert done.returncode == 0, done.stderr
    m.close()
    with h5py.File(source, "r") as f:
        assert list(f) == [] and f.attrs["made"] == 1
