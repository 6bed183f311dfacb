"""codecfs recode, without a mount, and codecfs set on a mount: h5py and zarr-python find the new filters and the old values."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile

import h5py
import numpy as np
import pytest
import zarr

from conftest import CODECFS, DATA
from running import codecfs


def make(path, rows=200):
    values = np.random.default_rng(2).integers(0, 90, (rows, 1000)).astype("<i4")
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=values, chunks=(10, 1000), compression="gzip")
        file.create_dataset("g/b", data=values, chunks=(10, 1000))
        file["plain"] = values
        file["scalar"] = 3.0
    return values


def filters(path):
    with h5py.File(path) as file:
        def ids(dataset):
            properties = dataset.id.get_create_plist()
            return [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        return {name: ids(file[name]) for name in ("a", "g/b", "plain", "scalar")}


def test_rules_name_what_changes(tmp_path):
    path = tmp_path / "a.h5"
    values = make(path)
    before = path.read_bytes()
    told = codecfs("recode", "--dry-run", "-F", "/g/b,shuffle|deflate,3", path).output
    assert "/g/b: none -> shuffle|deflate,3 (20 chunks" in told and "/a:" not in told
    assert path.read_bytes() == before
    told = codecfs("recode", "-F", "/g/b,shuffle|deflate,3", path).output
    assert re.search(r"/g/b: none -> shuffle,4\|deflate,3 \(20 chunks, .* -> ", told), told
    assert filters(path) == {"a": [1], "g/b": [2, 1], "plain": [], "scalar": []}
    assert "has shuffle,4|deflate,3 already" in codecfs("recode", "-F", "/g/b,shuffle|deflate,3", path).output
    codecfs("recode", "-F", "*,fletcher32", path)
    assert filters(path) == {"a": [3], "g/b": [3], "plain": [3], "scalar": []}
    with h5py.File(path) as file:
        assert all((file[name][...] == values).all() for name in ("a", "g/b", "plain")) and file["scalar"][()] == 3.0


def test_rules_for_what_is_not_there_are_told(tmp_path):
    path = tmp_path / "a.h5"
    make(path)
    told = codecfs("recode", "-F", "a,none", "-F", "tpyo,zstd,3", path).output
    assert "tpyo" in told and "no such variable" in told and filters(path)["a"] == []


def test_names_cannot_write_to_the_terminal(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v\x1b[31m", data=np.zeros(100), chunks=(10,))
    for words in (["recode", "--estimate"], ["recode", "-F", "*,deflate,1"]):
        told = codecfs(*words, tmp_path / "a.h5").output
        assert "\x1b" not in told and "v?[31m" in told


def test_a_zarr_directory_and_an_archive(tmp_path):
    values = np.arange(60000, dtype="<f4").reshape(60, 1000)
    zarr.save_array(str(tmp_path / "a.zarr"), values, chunks=(7, 1000))
    codecfs("recode", "-F", "/,shuffle|zstd,3", tmp_path / "a.zarr")
    array = zarr.open(str(tmp_path / "a.zarr"), mode="r")
    assert array.compressor.codec_id == "zstd" and array.filters[0].codec_id == "shuffle" and (array[...] == values).all()
    with zarr.ZipStore(str(tmp_path / "a.zip"), mode="w") as store:
        zarr.group(store).create_dataset("v", data=values, chunks=(7, 1000))
    codecfs("recode", "-F", "v,none", tmp_path / "a.zip")
    with zarr.ZipStore(str(tmp_path / "a.zip"), mode="r") as store:
        array = zarr.open_group(store, "r")["v"]
        assert array.compressor is None and (array[...] == values).all()


def test_exit_codes_say_whether_something_was_changed(tmp_path, small_disk):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["null"], f["v"] = h5py.Empty("f8"), np.zeros(100)
    before = path.read_bytes()
    told = codecfs("recode", "-F", "null,deflate,1", path, code=32).output
    assert "/null: left as it is" in told and "no variable was changed" in told and path.read_bytes() == before
    assert "/null: left as it is" in codecfs("recode", "-F", "*,deflate,1", path, code=3).output
    # An archive is rewritten after each variable.
    disk = small_disk("9m")
    archive = disk / "a.zip"
    with zarr.ZipStore(str(archive), mode="w", compression=zipfile.ZIP_STORED) as store:
        group = zarr.group(store)
        group.create_dataset("a", data=np.zeros(100_000), chunks=(10_000,), compressor=None)
        values = np.random.default_rng(1).integers(0, 1 << 60, 500_000)
        group.create_dataset("b", data=values, chunks=(10_000,), compressor=None)
    def kept():
        return {v["path"]: v["filter"] for v in json.loads(codecfs("info", "--json", archive).stdout)["variables"]}
    told = codecfs("recode", "-F", "*,deflate,1", archive, code=3).output
    assert re.search(r"^/a: none -> deflate,1 \(10 chunks, .* -> .*\)$", told, re.M) and "/b: left as it is: " in told, told
    assert "No space left" in told and kept() == {"/a": "1,1", "/b": "none"}
    assert "no variable was changed" in codecfs("recode", "-F", "b,deflate,1", archive, code=32).output
    assert os.listdir(disk) == ["a.zip"] and kept() == {"/a": "1,1", "/b": "none"}
    small_disk("30m")
    codecfs("recode", "-F", "*,deflate,1", archive)
    assert kept() == {"/a": "1,1", "/b": "1,1"}


def test_what_cannot_work_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "a.h5"
    make(path)
    assert "-F" in codecfs("recode", path, code=1).output
    assert "nosuch" in codecfs("recode", "-F", "*,nosuch", path, code=1).output
    assert "no rule names a variable" in codecfs("recode", "-F", "nowhere,deflate,1", path, code=32).output
    assert "one by one" in codecfs("recode", "-F", "*,none", tmp_path, code=32).output
    held = h5py.File(path, "r+")
    assert "another program" in codecfs("recode", "-F", "a,none", path, code=32).output
    held.close()
    assert filters(path)["a"] == [1]
    os.chmod(path, 0o444)
    if os.geteuid() != 0:
        codecfs("recode", "-F", "a,none", path, code=32)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_each_variable_whole(tmp_path, how):
    path = tmp_path / "a.h5"
    values = make(path, 4000)
    process = subprocess.Popen([CODECFS, "recode", "-F", "*,shuffle|zstd,19", path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(0.7)
    process.send_signal(how)
    told, error = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was faster than the signal")
    assert process.returncode == 32 and "interrupted" in error
    found = filters(path)
    for name in ("a", "g/b", "plain"):
        assert (found[name] == [2, 32015]) == (f"/{name}: " in told), (told, found)
    assert os.listdir(tmp_path) == ["a.h5"]
    codecfs("recode", "-F", "*,shuffle|deflate,1", path)
    with h5py.File(path) as file:
        assert all((file[name][...] == values).all() for name in ("a", "g/b", "plain"))


def test_estimates_are_those_of_h5py(tmp_path):
    """The ratio of deflate is that of a file which h5py writes with it."""
    path = tmp_path / "a.h5"
    values = make(path)
    before = path.read_bytes()
    told = codecfs("recode", "--estimate", path).output
    assert path.read_bytes() == before and told.count("recommended") == 3 and "/scalar" not in told
    ratio = float(re.search(r"/g/b:.*?shuffle\|deflate,4 +([\d.]+)", told, re.S)[1])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        stored = file.create_dataset("v", data=values, chunks=(10, 1000), shuffle=True, compression=4).id.get_storage_size()
    assert abs(ratio - values.nbytes / stored) < 0.25 * ratio
    assert "szip" in codecfs("recode", "--estimate", "-F", "a,szip,32,8", path).output


def test_set_tells_the_reason(tmp_path, mount):
    shutil.copy(DATA / "hdf5/filters_builtin.h5", tmp_path / "a.h5")
    point = mount(tmp_path / "a.h5").path
    said = codecfs("set", point / "gzip", "shuffle|zstd,3").output.splitlines()
    assert said[0].endswith("2,4|32015,3") and "needs a plugin of HDF5 for zstd" in said[1]
    assert len(codecfs("set", point / "gzip", "shuffle|deflate,3").output.splitlines()) == 1
    codecfs("set", point / "gzip", "shuffle|zstd,3")
    assert os.getxattr(point / "gzip", "user._Filter") == b"2,4|32015,3"
    assert "no filter of this name" in codecfs("set", point / "gzip", "zsdt,3", code=32).output
    assert "No such file" in codecfs("set", point / "nowhere", "zstd", code=32).output
    assert "not in a mount" in codecfs("set", tmp_path, "zstd", code=32).output
    assert "user._Filter" not in os.listxattr(tmp_path)
