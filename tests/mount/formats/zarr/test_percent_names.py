"""Names with percent signs in Zarr stores: shown as they are, but for escaped forms of other names; found, made and copied under the
same names, in both views and in HDF5."""
import errno
import json
import os

import h5py
import numpy as np
import pytest
import zarr
from conftest import xattr
from running import codecfs
from zarr3_stores import named, write_array, write_group

PLAIN = ["%41", "%2541", "100%", "per%20cent", "%2e", "a%2fb", "%é", "%2Etmp", "%%", "%~x"]
ESCAPED = {"a%2Fb": "a%252Fb", "%FF": "%25FF", "%2Ezarray": "%252Ezarray", "a%252Fb": "a%25252Fb"}
NAMES = {**{name: name for name in PLAIN}, **ESCAPED}
VIEWS = ["decoded", "encoded", "decoded3", "encoded3"]


def make_store(path, version):
    if version == "v3":
        write_group(path)
        for i, name in enumerate(NAMES):
            write_array(path / name, np.full(3, i, "i4"), (3,), [named("bytes", endian="little")], "int32", -1, -1)
        return path
    group = zarr.open_group(str(path), "w")
    for name in NAMES:
        (path / name).mkdir()
    for i, name in enumerate(NAMES):
        zarr.open_array(str(path / name), "w", shape=3, chunks=3, dtype="i4", fill_value=-1, compressor=None)[:] = i
    zarr.consolidate_metadata(group.store)
    return path


@pytest.fixture(params=["v2", "v3"])
def store(request, tmp_path):
    return make_store(tmp_path / "store", request.param)


@pytest.mark.parametrize("where", VIEWS)
def test_each_name_is_shown_and_found(mount, store, where):
    m = mount(store, f"view={where}")
    is_v3 = where.endswith("3")
    assert {name for name in os.listdir(m.path) if name[0] != "." and name != "zarr.json"} == set(NAMES.values())
    for i, shown in enumerate(NAMES.values()):
        assert (m.path / shown / ("c/0" if is_v3 else "0")).read_bytes() == np.full(3, i, "i4").tobytes()
    text = json.loads((m.path / ("zarr.json" if is_v3 else ".zmetadata")).read_text())
    metadata = text["consolidated_metadata"]["metadata"] if is_v3 else text["metadata"]
    assert {key.removesuffix("/.zarray") for key in metadata if is_v3 or key.endswith("/.zarray")} == set(NAMES.values())
    for absent in ("A", "%2541%", "a/b", "%FE", "%252541"):
        assert not (m.path / absent).exists()
    if not is_v3:
        group = zarr.open_group(str(m.path), "r")
        assert [int(group[shown][0]) for shown in NAMES.values()] == list(range(len(NAMES)))


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_names_are_stored_as_they_are_made(mount, tmp_path, version):
    store = tmp_path / "new.zarr"
    m = mount(store, "create=zarr" if version == "v2" else "create=zarr3", "view=decoded")
    for i, shown in enumerate(NAMES.values()):
        zarr.open_array(str(m.path / shown), "w", shape=3, chunks=3, dtype="i4", fill_value=-1, compressor=None)[:] = i
    (m.path / "%42").mkdir()
    os.rename(m.path / "%42", m.path / "%43")
    with pytest.raises(OSError) as caught:
        (m.path / "b%2Fc").mkdir()
    assert caught.value.errno == errno.EINVAL and "b%252Fc" in xattr(m.path, "_Error")
    m.unmount()
    assert {name for name in os.listdir(store) if name[0] != "." and name != "zarr.json"} == {*NAMES, "%43"}
    m = mount(store, "ro", "view=decoded")
    for i, shown in enumerate(NAMES.values()):
        assert (m.path / shown / "0").read_bytes() == np.full(3, i, "i4").tobytes()


def test_conversions_keep_the_names(store, tmp_path):
    def convert(source, destination):
        codecfs("convert", source, destination)

    convert(store, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert {name: int(file[name][0]) for name in file if file[name].shape == (3,) and name in NAMES} == {
            name: i for i, name in enumerate(NAMES)}
    convert(tmp_path / "a.h5", tmp_path / "b.zarr")
    names = {name for name in os.listdir(tmp_path / "b.zarr") if name[0] != "." and name != "zarr.json"}
    assert names == set(NAMES.values()), "escaped ones are escaped in a copy"
    assert set(PLAIN) < names


def test_commands_take_the_names(store):
    for i, shown in enumerate(NAMES.values()):
        told = codecfs("info", "--json", store, shown).stdout
        assert shown in str(json.loads(told)), i
