"""An array or group with damaged metadata hides nothing but itself: consolidated metadata, without which zarr-python 3 and xarray open
nothing of a mount, has everything else. zarr-python judges what is left."""
import errno
import json

import h5py
import numpy as np
import pytest
import zarr
from running import codecfs
from zarr3_stores import named, write_array, write_group

VALUES = np.arange(4, dtype="<i4")
V2_DAMAGES = {"attributes": (".zattrs", ""), "attributes_list": (".zattrs", "[1]"), "cut": (".zarray", '{"zarr_format": 2, "sha'),
              "shape": (".zarray", None), "empty": (".zarray", "")}
V3_DAMAGES = {"names": {"dimension_names": ["x", "y"]}, "shape": {"shape": [-4]}, "attributes": {"attributes": [1]},
              "key": {"new": {"must_understand": True}}, "fill": {"fill_value": "x"}, "transformers": {"storage_transformers": [{"name": "t"}]}}


def store2(path, damage):
    root = zarr.open_group(str(path), "w")
    for name in "g/good", "g/bad", "v", "w":
        root.create_dataset(name, data=VALUES, compressor=None)
        root[name].attrs["units"] = "m"
    file, text = V2_DAMAGES[damage]
    if text is None:
        text = json.dumps({**json.loads((path / "g/bad" / file).read_text()), "shape": [-1]})
    (path / "g/bad" / file).write_text(text)
    return path


def store3(path, damage):
    write_group(path)
    write_group(path / "g")
    for name in "g/good", "g/bad", "v", "w":
        write_array(path / name, VALUES, (4,), [named("bytes", endian="little")], "int32", 0, 0, attributes={"units": "m"})
    file = path / "g/bad/zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **V3_DAMAGES[damage]}))
    return path


def consolidated(path, is_v3):
    if is_v3:
        return json.loads((path / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    found = json.loads((path / ".zmetadata").read_text())["metadata"]
    return {key.rpartition("/")[0] or "/" for key in found if key.endswith((".zarray", ".zgroup"))} - {"/"}


@pytest.mark.parametrize("options", ["ro", "rw"])
@pytest.mark.parametrize("version, damage", [(2, name) for name in V2_DAMAGES] + [(3, name) for name in V3_DAMAGES])
def test_a_damaged_array_hides_only_itself(mount, tmp_path, version, damage, options):
    source = (store2 if version == 2 else store3)(tmp_path / "a.zarr", damage)
    m = mount(source, options)
    views = m.path / ".codecfs/view"
    for view in "decoded", "encoded", "decoded3", "encoded3":
        assert set(consolidated(views / view, view.endswith("3"))) == {"g", "g/good", "v", "w"}, view
        assert "good" in set(consolidated(views / view / "g", view.endswith("3"))), view
    group = zarr.open_consolidated(str(views / "decoded"))
    assert sorted(group) == ["g", "v", "w"] and (group["g/good"][...] == VALUES).all() and group["w"].attrs["units"] == "m"
    assert "g/bad" in (m.path / ".codecfs/log").read_text()
    with pytest.raises(OSError) as failed:
        (views / "decoded/g/bad/.zarray").read_text()
    assert failed.value.errno in (errno.EIO, errno.EOPNOTSUPP)
    if options == "rw":
        (views / "decoded/g/good/.zattrs").write_text('{"units": "km"}')
        assert set(consolidated(views / "decoded3", True)) == {"g", "g/good", "v", "w"}
    m.unmount()
    told = codecfs("convert", source, tmp_path / "b.zarr", code=32)
    assert "g/bad" in told.stderr and not (tmp_path / "b.zarr").exists()
    codecfs("convert", "--skip", "/g/bad", source, tmp_path / "b.zarr")


def test_a_repaired_array_comes_back(mount, tmp_path):
    source = store2(tmp_path / "a.zarr", "attributes")
    m = mount(source, "ro,coherent")
    view = m.path / ".codecfs/view/decoded3"
    assert set(consolidated(view, True)) == {"g", "g/good", "v", "w"}
    (source / "g/bad/.zattrs").write_text("{}")
    m.unmount()
    m = mount(source, "ro")
    assert set(consolidated(m.path / ".codecfs/view/decoded3", True)) == {"g", "g/good", "g/bad", "v", "w"}


@pytest.mark.parametrize("mark", [b"OHDR", b"\x01\x00"])
def test_a_damaged_dataset_hides_only_itself(mount, tmp_path, mark):
    """The header of one dataset of an HDF5 file, in the new format and in the old."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest" if mark == b"OHDR" else "earliest") as f:
        for name in "g/good", "g/bad", "v":
            f.create_dataset(name, data=VALUES, chunks=(2,))
        at = h5py.h5o.get_info(f["g/bad"].id).addr
    content = bytearray(path.read_bytes())
    assert content[at:at + len(mark)] == mark
    content[at + (4 if mark == b"OHDR" else 0)] = 99
    path.write_bytes(content)
    m = mount(path, "ro")
    for view in "decoded", "encoded3":
        found = set(consolidated(m.path / ".codecfs/view" / view, view.endswith("3")))
        assert {"g/good", "v"} <= found and "g/bad" not in found, (view, found)
    assert (zarr.open_consolidated(str(m.path / ".codecfs/view/decoded"))["g/good"][...] == VALUES).all()
