"""An extra: files that nobody here wrote, from the folder that CODECFS_CORPUS names (such as netcdf-c's reference files, in
sub-folders). Says that it was skipped where there is none."""
import os
import pathlib

import pytest
import zarr
from compare import same_values
from test_hdf5 import check_file

CORPUS = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
NETCDF3 = b"CDF"
FILES = [p for p in sorted(CORPUS.rglob("*")) if p.suffix in (".nc", ".h5") and p.read_bytes()[:3] != NETCDF3]
STORES = [p.parent for p in sorted(CORPUS.rglob(".zgroup")) if not (p.parent.parent / ".zgroup").exists()]


def test_there_is_a_corpus():
    if not CORPUS.is_dir():
        pytest.skip("skipped: CODECFS_CORPUS names no folder of files to try")
    assert FILES or STORES


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_file(mount, path, tmp_path):
    check_file(mount(path), path, tmp_path)


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_store(mount, path):
    m = mount(path)
    source, shown = zarr.open_group(str(path), mode="r"), zarr.open_group(str(m.path), mode="r")
    for name, array in source.arrays():
        assert same_values(shown[name][...], array[...]), name
