"""Floats of 8 and 16 bits that numpy lacks (bfloat16, float8_e4m3, float8_e5m2, as HDF5 2.0 names them): views of Zarr v3 have their
names, and copies keep them. h5py is the judge of the values: libhdf5 converts such floats to numpy's."""
import json

import h5py
import numpy as np
import pytest
from conftest import xattr
from running import codecfs

# name: bytes, bits of the exponent and of the mantissa, bias
FORMATS = {"bfloat16": (2, 8, 7, 127), "float8_e3m4": (1, 3, 4, 3), "float8_e4m3": (1, 4, 3, 7), "float8_e5m2": (1, 5, 2, 15)}
WIDER = {"big-endian": (2, 8, 7, 127), "bias": (1, 4, 3, 8), "seven bits": (1, 3, 3, 3)}  # of which Zarr v3 has none


def type_of(size, exponent, mantissa, bias):
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    made.set_size(size)
    made.set_precision(1 + exponent + mantissa)
    made.set_ebias(bias)
    return made


def raw(path, name):
    """The stored bytes of all elements."""
    with h5py.File(path) as f:
        return b"".join(f[name].id.read_direct_chunk((at,))[1] for at in range(0, f[name].shape[0], f[name].chunks[0]))


def values(path, name):
    """What libhdf5 converts the elements to. NaN are no numbers of which anything is said here."""
    with h5py.File(path) as f:
        found = np.empty(f[name].shape, "f4")
        f[name].id.read(h5py.h5s.ALL, h5py.h5s.ALL, found, h5py.h5t.NATIVE_FLOAT)
        return np.where(np.isnan(found), np.float32(-12345), found)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "small.h5"
    with h5py.File(path, "w") as f:
        for name, fields in {**FORMATS, **WIDER}.items():
            count = 256 if fields[0] == 1 else 4096
            made = type_of(*fields)
            if name == "big-endian":
                made.set_order(h5py.h5t.ORDER_BE)
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((count // 2,))
            h5py.h5d.create(f.id, name.encode(), made, h5py.h5s.create_simple((count,)), properties)
            bits = np.arange(count, dtype="<u1" if fields[0] == 1 else "<u2") * (1 if fields[0] == 1 else 16)
            for half in range(2):
                f[name].id.write_direct_chunk((half * count // 2,), bits[half * count // 2:][:count // 2].tobytes())
    return path


def described(tree, name):
    return json.loads((tree / name / "zarr.json").read_text())


def test_names_in_views_of_zarr_v3(mount, source):
    mnt = mount(source, "view=decoded3", "ro").path
    for name in FORMATS:
        assert described(mnt, name)["data_type"] == name
        chunks = b"".join((mnt / name / "c" / str(chunk)).read_bytes() for chunk in range(2))
        assert chunks == raw(source, name)
    for name in WIDER:
        assert described(mnt, name)["data_type"] == {"name": "raw_bytes", "configuration": {"length_bytes": WIDER[name][0]}} \
            or described(mnt, name)["data_type"] == f"r{8 * WIDER[name][0]}", name


def test_views_of_zarr_v2_have_bytes_and_tell_the_type(mount, source):
    mnt = mount(source, "ro").path
    assert json.loads((mnt / "float8_e4m3/.zarray").read_text())["dtype"] == "|V1"
    assert xattr(mnt / "float8_e4m3", "_Type")


def test_copies_keep_the_type(tmp_path, source):
    codecfs("convert", source, tmp_path / "v3.zarr", "--format", "zarr3")
    codecfs("convert", tmp_path / "v3.zarr", tmp_path / "back.h5")
    for name in FORMATS:
        assert described(tmp_path / "v3.zarr", name)["data_type"] == name
        with h5py.File(source) as before, h5py.File(tmp_path / "back.h5") as after:
            assert before[name].id.get_type().equal(after[name].id.get_type()), name
        assert (values(source, name) == values(tmp_path / "back.h5", name)).all(), name
    codecfs("compare", source, tmp_path / "v3.zarr")
    codecfs("compare", tmp_path / "v3.zarr", tmp_path / "back.h5")


def test_an_array_of_v3_is_created_in_hdf5(mount, tmp_path):
    array = {"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "bfloat16",
             "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
             "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 1.5,
             "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {}}
    path = tmp_path / "new.h5"
    m = mount(path, "create=hdf5", "view=decoded3")
    (m.path / "a").mkdir()
    (m.path / "a/zarr.json").write_text(json.dumps(array))
    (m.path / "b").mkdir()
    with pytest.raises(OSError):
        (m.path / "b/zarr.json").write_text(json.dumps({**array, "data_type": "float8_e4m3fn"}))
    m.close()
    assert values(path, "a").tolist() == [1.5] * 4


def test_info_has_the_names(source):
    types = {one["path"]: one["type"] for one in json.loads(codecfs("info", "--json", source).stdout)["variables"]}
    assert all(types["/" + name] == name for name in FORMATS) and "float8" not in types["/bias"]
