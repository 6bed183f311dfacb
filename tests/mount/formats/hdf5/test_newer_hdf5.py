"""What a newer HDF5 wrote: it is not damaged, and hides nothing else. Files of h5py of PyPI with libver="latest", which Debian's
libhdf5 cannot read; h5py of PyPI judges that they are sound. Of files with changed bytes nobody says that they are newer."""
import json
import re
import shutil
import struct

import h5py
import numpy as np
import pytest
from conftest import libhdf5_version, xattr
from running import codecfs, run
from venvs import python_of

MAKE = """
import h5py, numpy as np, sys
np_bool, comp = np.dtype(bool), np.dtype([("a", "i4"), ("b", "f8")])
colour = h5py.enum_dtype({"RED": 0, "GREEN": 1}, basetype="i1")
def file(name, **options):
    f = h5py.File(sys.argv[1] + "/" + name, "w", **options)
    f.create_dataset("good", data=np.arange(12, dtype="<i4"), chunks=(4,))
    return f
with file("types.h5", libver="latest") as f:
    f["truth"], f["rows"], f["z"] = np.array([True, False]), np.array([(1, 2.5)], comp), np.array([1 + 2j])
    f.create_dataset("colour", data=np.array([0, 1], "i1"), dtype=colour)
    f.create_dataset("many", (2,), dtype=h5py.vlen_dtype(np_bool))
    f["g/inner"] = np.array([True])
    f["scale"] = np.array([True])
    f["scale"].make_scale("x")
with file("attributes.h5", libver="latest") as f:
    f["other"] = np.arange(3.0)
    f.create_group("g")["v"] = np.arange(3)
    for holder in f, f["good"], f["g"]:
        holder.attrs["n"], holder.attrs["flag"] = 3, np.bool_(True)
with file("removed.h5", libver="latest") as f:  # its heaps still have what was removed
    f["truth"] = np.array([True])
    for holder in f.create_group("g"), f["good"]:
        for i in range(20):
            holder.attrs[f"number{i}"] = np.arange(4.0)
        holder.attrs["flag"] = np.bool_(True)
        holder.attrs["last"] = 1
        del holder.attrs["flag"]
with file("dense.h5", libver="latest") as f:
    g, v = f.create_group("g"), f["good"]
    for holder, count in (g, 12), (v, 700):  # the second ones need an indirect block of their heap
        for i in range(count):
            holder.attrs[f"number{i}"] = np.arange(4.0)
        holder.attrs["flag"] = np.bool_(True)
with file("committed.h5", libver="latest") as f:
    f["type"] = comp
    f.create_dataset("c", data=np.array([(1, 2.5)], comp), dtype=f["type"])
    f["sound"] = np.arange(3)
    f["sound"].attrs.create("a", np.array([(1, 2.5)], comp), dtype=f["type"])
with file("virtual.h5", libver="latest") as f:
    layout = h5py.VirtualLayout((2, 6), "i4")
    layout[:, ::2] = h5py.VirtualSource(".", "good", (12,))[:6]
    f.create_virtual_dataset("v", layout)
    layout = h5py.VirtualLayout((6,), "i4", maxshape=(None,))
    layout[:h5py.h5s.UNLIMITED] = h5py.VirtualSource(".", "good", (12,), maxshape=(None,))[:h5py.h5s.UNLIMITED]
    f.create_virtual_dataset("growing", layout)
with file("many.h5", libver="latest") as f:
    for i in range(1200):
        f[f"t{i}"] = np.array([True])
if h5py.version.hdf5_version_tuple >= (2, 0, 0):
    with file("layout.h5", libver="latest") as f:
        f.create_dataset("packed", data=np.arange(100), chunks=(10,), compression="gzip")
    with file("complex.h5") as f:  # the object headers have no checksums
        space = h5py.h5s.create_simple((2,))
        h5py.h5d.create(f.id, b"z", h5py.h5t.COMPLEX_IEEE_F64LE, space)
        h5py.h5a.create(f["good"].id, b"za", h5py.h5t.COMPLEX_IEEE_F64LE, space)
"""
READ = """
import h5py, sys
with h5py.File(sys.argv[1]) as f:
    f.visititems(lambda name, item: [item[...] if isinstance(item, h5py.Dataset) else 0, dict(item.attrs)])
    dict(f.attrs)
"""
NEWER = re.compile(r'(attribute "\w+": )?written by a newer HDF5 \((.*)\); this codecfs has libhdf5 1\.10\.\d+: use the portable '
                   "program or wheel")
# What cannot be read of each: paths, and what is new there.
TYPE = r"datatype version [45]"
FILES = {
    "types.h5": ({"/truth", "/rows", "/z", "/colour", "/many", "/g/inner", "/scale"}, TYPE),
    "attributes.h5": ({"/", "/good", "/g"}, TYPE),
    "dense.h5": ({"/good", "/g"}, TYPE),
    "committed.h5": ({"/c", "/sound"}, TYPE),
    "virtual.h5": ({"/v", "/growing"}, r"selection version 3 in a virtual dataset|virtual dataset mappings version 1"),
    "many.h5": ({f"/t{i}" for i in range(1200)}, TYPE),
    "layout.h5": ({"/packed"}, "data layout version 5"),
    "complex.h5": ({"/z", "/good"}, "datatype version 5"),
}

HDF5 = libhdf5_version()
pytestmark = pytest.mark.skipif(tuple(map(int, HDF5.groups())) >= (1, 12), reason="this libhdf5 reads them: test_hdf5_2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    run(python_of("hdf5plugin"), "-c", MAKE, folder)
    return folder


def file_of(made, name):
    if not (made / name).exists():
        pytest.skip("h5py of PyPI has no HDF5 2")
    return made / name


@pytest.mark.parametrize("name", FILES)
def test_verify_cannot_check_it_and_calls_nothing_damaged(made, name):
    path, (wanted, what) = file_of(made, name), FILES[name]
    run(python_of("hdf5plugin"), "-c", READ, path)
    found = json.loads(codecfs("verify", "--json", path, code=3).stdout)
    assert found["damages"] == 0 and found["damaged"] == []
    assert {place["path"] for place in found["unchecked"]} == wanted
    for place in found["unchecked"]:
        match = NEWER.fullmatch(place["reason"])
        assert match and re.fullmatch(what, match[2]), place
    assert found["chunks"] >= 3  # those of "good" were read
    text = codecfs("info", path, code=0).output
    assert "damage" not in text and "good" in text


@pytest.mark.parametrize("name", FILES)
def test_all_else_is_shown_by_a_mount(mount, made, name):
    path = file_of(made, name)
    m = mount(path, "ro")
    for _ in range(2):  # before and after what cannot be read is known
        names = {entry.name for entry in m.path.iterdir() if not entry.name.startswith(".")}
        with h5py.File(path) as f:
            assert names == {name for name in f if name != "type"}
        assert [np.fromfile(m.path / f"good/{i}", "<i4").tolist() for i in range(3)] == np.arange(12).reshape(3, 4).tolist()
        for entry in sorted(names)[:3]:
            try:
                list((m.path / entry).iterdir())
                (m.path / entry / ".zattrs").read_bytes()
            except OSError:
                assert NEWER.search(xattr(m.path / entry, "_Error")), entry
    metadata = json.loads((m.path / ".zmetadata").read_bytes())["metadata"]
    assert "good/.zarray" in metadata
    assert "damage" not in m.messages()


def test_what_is_of_a_newer_version_is_never_left_out_of_a_conversion(made, tmp_path):
    for target in "new.zarr", "new.h5":
        for words in [], ["--skip-unsupported"]:
            told = codecfs("convert", *words, made / "types.h5", tmp_path / target, code=32).output
            assert not (tmp_path / target).exists()
            for path in FILES["types.h5"][0]:
                assert NEWER.search(next(line for line in told.splitlines() if line.startswith(f"codecfs: {path}: "))), told


def test_without_isolation(made):
    found = json.loads(codecfs("verify", "--json", "-O", "isolate=off", made / "types.h5", code=3).stdout)
    assert found["damages"] == 0 and {place["path"] for place in found["unchecked"]} == FILES["types.h5"][0]
    assert all(NEWER.fullmatch(place["reason"]) for place in found["unchecked"])


def test_sources_of_virtual_datasets(made, tmp_path):
    """libhdf5 reads the fill value in the place of a source that it cannot read: a copy must not have that."""
    shutil.copy(made / "types.h5", tmp_path / "source.h5")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, source, kind in ("v", "truth", bool), ("sound", "good", "i4"):
            layout = h5py.VirtualLayout((2,), kind)
            layout[:] = h5py.VirtualSource("source.h5", source, (2,))
            f.create_virtual_dataset(name, layout)
        assert f["v"][:].tolist() == [False, False]
    [place] = json.loads(codecfs("verify", "--json", tmp_path / "a.h5", code=3).stdout)["unchecked"]
    assert place["path"] == "/v" and place["reason"].startswith("its source truth in source.h5 is written by a newer HDF5 (")
    for words in [], ["--skip-unsupported"]:
        assert NEWER.search(codecfs("convert", *words, tmp_path / "a.h5", tmp_path / "b.zarr", code=32).output)
        assert not (tmp_path / "b.zarr").exists()
    assert "warning" not in codecfs("convert", "--skip", "v", tmp_path / "a.h5", tmp_path / "b.zarr", code=0).output
    assert np.fromfile(tmp_path / "b.zarr/sound/0", "<i4").tolist() == [0, 1]
    (tmp_path / "source.h5").unlink()
    told = codecfs("convert", tmp_path / "a.h5", tmp_path / "c.zarr", code=0).output
    for name in "v", "sound":
        assert f"warning: /{name}: its source source.h5 cannot be found: the copy has the fill value in its place" in told


def test_superblocks(made, tmp_path):
    data = bytearray((made / "types.h5").read_bytes())
    data[8] = 4
    (tmp_path / "damaged.h5").write_bytes(data)
    told = codecfs("info", tmp_path / "damaged.h5", code=32).output
    assert "written by" not in told and "bad superblock version number" in told
    data[44:48] = struct.pack("<I", lookup3(data[:44]))
    (tmp_path / "new.h5").write_bytes(data)
    assert NEWER.search(codecfs("info", tmp_path / "new.h5", code=32).output)[2] == "superblock version 4"


def lookup3(data):
    """HDF5's checksum of metadata (Bob Jenkins' hash)."""
    mask = 0xffffffff
    state = [0xdeadbeef + len(data) & mask] * 3
    rot = lambda x, k: (x << k | x >> (32 - k)) & mask  # noqa: E731
    for at in range(0, len(data), 12):
        words = struct.unpack("<3I", bytes(data[at:at + 12]).ljust(12, b"\0"))
        state = [s + w & mask for s, w in zip(state, words)]
        if len(data) - at <= 12:
            break
        for step, shift in enumerate((4, 6, 8, 16, 19, 4)):
            a, b, c = step % 3, (step + 1) % 3, (step + 2) % 3
            state[a] = (state[a] - state[c] & mask) ^ rot(state[c], shift)
            state[c] = state[c] + state[b] & mask
    for step, shift in enumerate((14, 11, 25, 16, 4, 14, 24)):
        a, b = (step + 2) % 3, (step + 1) % 3
        state[a] = (state[a] ^ state[b]) - rot(state[b], shift) & mask
    return state[2]


# ---- damaged ones

def damaged_types(made, tmp_path):
    """A byte of the type's version in an object header, where it has a checksum and where it has none."""
    data = bytearray((made / "types.h5").read_bytes())
    at = min(data.index(b"RED\0"), data.index(b"GREEN\0")) - 8 - 12
    assert data[at] & 15 == 8
    for version in 1, 9, 15:
        data[at] = version << 4 | 8
        yield f"/colour as {version} in a checked header", bytes(data), "/colour"
    with h5py.File(tmp_path / "old.h5", "w") as f:
        f["good"], f["whole"], f["truth"] = np.arange(12, dtype="<i4"), np.arange(3, dtype="<i8"), np.array([True])
        f.create_dataset("reference", data=[f["good"].ref], dtype=h5py.ref_dtype)
        f["row"] = np.array([(1, 2.5)], np.dtype([("a", "i4"), ("b", "f8")]))
        f["text"] = ["a", "b"]
    old = (tmp_path / "old.h5").read_bytes()
    kinds = {"whole": b"\x10\x08\0\0\x08\0\0\0\0\0\x40\0", "truth": b"\x18\x02\0\0\x01\0\0\0", "reference": b"\x17\0\0\0\x08\0\0\0",
             "row": b"\x16\x02\0\0\x0c\0\0\0", "text": b"\x19\x01\x01\0\x10\0\0\0"}
    for name, message in kinds.items():
        with h5py.File(tmp_path / "old.h5") as f:
            at = old.index(message, h5py.h5o.get_info(f[name].id).addr)
        for version in 4, 5, 9:
            data = bytearray(old)
            data[at] = version << 4 | message[0] & 15
            yield f"{name} as {version}", bytes(data), f"/{name}"


def test_a_changed_byte_is_damage_and_not_newer(made, tmp_path):
    for number, (what, data, place) in enumerate(damaged_types(made, tmp_path)):
        path = tmp_path / f"{number}.h5"
        path.write_bytes(data)
        found = json.loads(codecfs("verify", "--json", path, code=2).stdout)
        reasons = [damage["reason"] for damage in found["damaged"] if damage["path"] == place]
        assert len(reasons) == 1 and "damage" in reasons[0] and "newer" not in reasons[0], (what, found)


def test_a_damaged_type_beside_newer_ones(made, tmp_path):
    shutil.copy(made / "attributes.h5", tmp_path / "a.h5")
    data = bytearray((tmp_path / "a.h5").read_bytes())
    with h5py.File(tmp_path / "a.h5") as f:
        data[h5py.h5o.get_info(f["other"].id).addr + 40] ^= 0xff
    (tmp_path / "a.h5").write_bytes(data)
    found = json.loads(codecfs("verify", "--json", tmp_path / "a.h5", code=2).stdout)
    assert [damage["path"] for damage in found["damaged"]] == ["/other"]
    assert {place["path"] for place in found["unchecked"]} == {"/", "/good", "/g"}


def test_attributes_that_were_removed_hide_no_others(made, mount):
    assert b"flag" in (made / "removed.h5").read_bytes()
    there = mount(made / "removed.h5", "ro")
    with pytest.raises(OSError):
        (there.path / "truth/.zarray").read_text()
    for name in "good", "g":
        assert json.loads((there.path / name / ".zattrs").read_text())["last"] == 1
