"""An extra: files of other projects, from the folder that CODECFS_CORPUS names (such as netcdf-c's reference files, in
sub-folders). Says that it was skipped where there is none."""
import os
import pathlib
import re
import shutil
import sys

import pytest
import zarr
from compare import same_values
from conftest import CODECFS, DATA, PROGRAMS
from hdf5_sources import check_file
from running import run

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


def test_the_script_for_foreign_files(tmp_path):
    """The short form of scripts/foreign-test, with files that we know."""
    names = ["layouts.h5", "types_compound.h5", "filters_szip.h5", "netcdf_groups.nc", "c_odd_links.h5", "damaged_truncated_file.h5"]
    for name in names:
        shutil.copy(DATA / "hdf5" / name, tmp_path)
    script = PROGRAMS / "foreign.py"
    done = run(sys.executable, "-B", script, CODECFS, tmp_path, "-v", seconds=300)
    assert f"{len(names)} files, 0 faults" in done.stdout and "h5py cannot open" in done.stdout, done.stdout
    assert int(re.search(r"(\d+) written", done.stdout)[1]) == len(names) - 1, done.stdout
