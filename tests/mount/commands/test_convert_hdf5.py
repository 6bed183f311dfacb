"""codecfs convert from HDF5 to HDF5 keeps everything: h5dump and ncdump print the same of both files but for the filters."""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time

import h5py
import netCDF4
import numpy as np
import pytest

from conftest import CODECFS, mounted
from running import codecfs, run

COLOURS = {"RED": 0, "GREEN": 1, "BLUE": 42}


def dump(path, *options):
    """Without what must differ: the name of the file, and places in it."""
    done = run("h5dump", *options, path)
    text = done.stdout.split("\n", 1)[1].replace(str(path), "")  # h5dump of HDF5 2 has it at each reference
    text = re.sub(r"OFFSET \d+\n", "OFFSET\n", text)
    return re.sub(r'\b(DATASET|GROUP) \d+ "', r'\1 "', text)


def make(path):
    """A file with what Zarr has no form for, and what a mount shows in another form."""
    rng = np.random.default_rng(3)
    with h5py.File(path, "w", userblock_size=512) as f:
        enum = h5py.enum_dtype(COLOURS, basetype="i2")
        f["enum_type"] = np.dtype(enum)
        f.create_dataset("enum", (40,), dtype=f["enum_type"], chunks=(10,), maxshape=(100,), fillvalue=1)[:15] = 42
        compound = np.dtype([("a", "<i4"), ("b", ">f8", (2, 3)), ("s", "S7"), ("e", enum)])
        values = np.zeros(30, compound)
        values["a"], values["b"], values["s"], values["e"] = np.arange(30), rng.random((30, 2, 3)), b"ab\0cd", 1
        f["compound_type"] = compound
        f.create_dataset("compound", (30,), dtype=f["compound_type"], chunks=(8,), maxshape=(None,), compression="gzip")[:] = values
        sequences = f.create_dataset("sequences", (7,), dtype=h5py.vlen_dtype("i4"), chunks=(3,))
        for i in range(6):
            sequences[i] = np.arange(i)
        f.create_dataset("text", (5,), dtype=h5py.string_dtype(), data=["a", "bé", "", "ddd", "e"])
        f.create_dataset("fixed", (3,), dtype=h5py.string_dtype("ascii", 9), data=[b"a", b"b\0c", b""])
        f.create_dataset("opaque", data=np.frombuffer(bytes(range(20)), "V5"))
        f.create_dataset("limited", (4, 6), maxshape=(4, 60), chunks=(2, 3), data=np.arange(24.).reshape(4, 6), fillvalue=-7.5,
                         shuffle=True, compression=3)
        f.create_dataset("empty", (100,), dtype="f4", chunks=(10,))
        f.create_dataset("big", data=rng.integers(0, 50, (200, 100)).astype(">i4"), chunks=(20, 100), fletcher32=True)
        f["scalar"], f["null"], f["g/h/deep"] = np.float32(2.5), h5py.Empty("f8"), np.arange(4)
        for name, length in ("x", 6), ("y", 4):
            f[name] = np.arange(length) / 3
            f[name].make_scale(name)
            f["limited"].dims["yx".index(name)].attach_scale(f[name])
        f["limited"].dims[0].label = "label"
        f.create_dataset("references", (3,), dtype=h5py.ref_dtype)[:2] = [f["big"].ref, f["g"].ref]
        f.create_dataset("regions", (2,), dtype=h5py.regionref_dtype)[0] = f["big"].regionref[3:5, 1:9:2]
        f["hard"], f["g/cycle"] = f["g/h/deep"], f["g"]
        f["soft"], f["dangling"], f["external"] = h5py.SoftLink("/g/h/deep"), h5py.SoftLink("/no"), h5py.ExternalLink("o.h5", "/v")
        f.attrs["two_d"] = np.array([[b"ab", b"cde"], [b"", b"f"]], dtype="S5")
        f.attrs.create("nul", np.array(b"a\0b\0\0", dtype="S6"))
        f.attrs.create("colour", 1, dtype=enum)
        f.attrs.create("named", values[0], dtype=f["compound_type"])
        for name, value in {"u1": np.uint8(7), "i2": np.arange(3, dtype="<i2"), "texts": ["x", "yé"], "ref": f["big"].ref, "c": 1 + 2j,
                            "bool": True, "null": h5py.Empty("i4")}.items():
            f.attrs[name] = value
        f["g"].attrs["half"] = np.float16(1.5)
        f["gone"] = np.zeros(50000)
    with h5py.File(path, "r+") as f:
        del f["gone"]
    with open(path, "r+b") as f:
        f.write(b"what the user has here")
    return path


def make_netcdf(path):
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("t", None)
        f.createDimension("n", 5)
        colour = f.createEnumType("i1", "colour_t", COLOURS)
        point = f.createCompoundType(np.dtype([("x", "f4"), ("y", "i2")]), "point_t")
        ragged = f.createVLType("i4", "ragged_t")
        f.createVariable("t", "f8", ("t",))[:] = np.arange(4)
        f.createVariable("colour", colour, ("t", "n"), zlib=True, fill_value=1)[:] = np.full((4, 5), 42, "i1")
        f.createVariable("point", point, ("n",))[:] = np.array([(i, -i) for i in range(5)], point.dtype)
        sequences = f.createVariable("ragged", ragged, ("n",))
        for i in range(5):
            sequences[i] = np.arange(i + 1, dtype="i4")
        v = f.createGroup("g").createVariable("v", "i2", ("t", "n"), chunksizes=(2, 5), fill_value=-1)
        v.valid_range = np.array([0, 9], "i2")
        v[:] = np.arange(20).reshape(4, 5)
    return path


def filters(path, name):
    with h5py.File(path) as f:
        properties = f[name].id.get_create_plist()
        return [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]


def test_everything_is_kept(tmp_path):
    source, made = make(tmp_path / "a.h5"), tmp_path / "b.h5"
    before = source.read_bytes()
    assert codecfs("convert", source, made).output == f"{made}: 31 chunks, 80.3 KiB\n"
    assert dump(source) == dump(made) and dump(source, "-pH") == dump(made, "-pH")
    assert source.read_bytes() == before and made.read_bytes()[:512] == before[:512]
    assert made.stat().st_size < len(before) - 390_000 and "cannot become smaller" in codecfs("compact", made).output
    assert made.stat().st_mode & 0o777 == 0o666 & ~os.umask(os.umask(0o22) or 0o22)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"] and not os.listxattr(made)


def test_of_netcdf_too(tmp_path):
    source, made = make_netcdf(tmp_path / "a.nc"), tmp_path / "b.nc"
    codecfs("convert", "-F", "colour&/g/v,shuffle|deflate,3", source, made)
    def text(path):
        return run("ncdump", "-n", "a", path).stdout
    assert text(source) == text(made)
    with netCDF4.Dataset(made) as f:
        assert f["colour"].filters()["complevel"] == 3 and f["g/v"].filters()["shuffle"] and not f["point"].filters()["zlib"]
        assert f["colour"].datatype.enum_dict == COLOURS and f["t"].shape == (4,) and f.dimensions["t"].isunlimited()


def test_rules_change_only_filters(tmp_path):
    source, made = make(tmp_path / "a.h5"), tmp_path / "b.h5"
    codecfs("convert", "-F", "enum&compound&big&limited&opaque&sequences,shuffle|deflate,5", source, made)
    assert dump(source) == dump(made)
    changed = [(one, other) for one, other in zip(dump(source, "-A", "-p").split("DATASET "), dump(made, "-A", "-p").split("DATASET "))
               if one != other]
    assert len(changed) >= 5 and all("DEFLATE { LEVEL 5 }" in other for _, other in changed)
    for name in ("enum", "compound", "big", "limited", "opaque"):
        assert filters(made, name) == [2, 1]
    assert filters(made, "empty") == [] and "cannot become smaller" in codecfs("compact", made).output
    # Where filters could not apply, a rule for all variables leaves them out and says so.
    assert "/null: HDF5 has no filters" in codecfs("convert", "-F", "*,deflate,1", source, tmp_path / "c.h5").output
    assert filters(tmp_path / "c.h5", "empty") == [1] and dump(source) == dump(tmp_path / "c.h5")


def test_a_rule_for_all_where_one_variable_cannot_have_filters(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        text = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        h5py.Dataset(h5py.h5d.create(f.id, b"compact", text, h5py.h5s.create_simple((2,)), properties))[...] = ["a", "bc"]
        f.create_dataset("w", data=np.arange(1000), chunks=(100,))
        for name, kind in ("references", h5py.h5t.STD_REF_OBJ), ("lists", h5py.h5t.vlen_create(h5py.h5t.STD_I32LE)):
            h5py.h5d.create(f.id, name.encode(), kind, h5py.h5s.create_simple((2,)), properties)
        f["references"][0], f["lists"][1] = f["w"].ref, [1, 2, 3]
    told = codecfs("convert", "-F", "*,deflate,1", tmp_path / "a.h5", tmp_path / "b.h5").output
    for name in "compact", "references", "lists":
        assert f"warning: the filters are not changed: /{name}: " in told
    assert filters(tmp_path / "b.h5", "w") == [1] and dump(tmp_path / "a.h5") == dump(tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f[f["references"][0]] == f["w"] and f["lists"][1].tolist() == [1, 2, 3]
        assert f["references"].id.get_create_plist().get_layout() == h5py.h5d.COMPACT
    assert "/compact" in codecfs("convert", "-F", "compact,deflate,1", tmp_path / "a.h5", tmp_path / "c.h5", code=32).output
    assert not (tmp_path / "c.h5").exists()


def test_without_isolation(tmp_path):
    """The process that compacts is forked from one that has used libhdf5."""
    source, made = make(tmp_path / "a.h5"), tmp_path / "b.h5"
    codecfs("convert", "-O", "isolate=off", "-F", "big,shuffle|deflate,5", "--skip", "enum", source, made)
    codecfs("convert", "-F", "big,shuffle|deflate,5", "--skip", "enum", source, tmp_path / "c.h5")
    assert dump(made) == dump(tmp_path / "c.h5") and dump(made, "-pH") == dump(tmp_path / "c.h5", "-pH")


def test_what_is_skipped_is_not_in_the_file(tmp_path):
    source, made = make(tmp_path / "a.h5"), tmp_path / "b.h5"
    with h5py.File(source, "r+") as f:
        f["secret"], f["g/secret"] = b"a secret of mine", b"a secret of mine"
    # The references of others to them would dangle.
    assert "needed by what stays" in codecfs("convert", "--skip", "big", source, made, code=32).output
    assert os.listdir(tmp_path) == ["a.h5"]
    codecfs("convert", "--skip", "secret", "--skip", "/g/secret", "--skip", "g/h", "--skip", "enum", "--skip", "soft", "--skip", "x",
            source, made)
    with h5py.File(source) as one, h5py.File(made) as other:
        assert sorted(set(one) - set(other)) == ["enum", "secret", "soft"] and list(other["g"]) == ["cycle"]
        assert (other["hard"][...] == one["hard"][...]).all()
        # A dimension that others have stays, without its values.
        assert not other["x"][...].any() and other["limited"].dims[1][0] == other["x"]
    assert b"secret of mine" not in made.read_bytes()
    found = [v["path"] for v in json.loads(codecfs("info", "--json", made).stdout)["variables"]]
    assert "/x" not in found and "/y" in found


def test_resumed_with_and_without_the_copy(tmp_path):
    """What a killed one left is used once it is said to be whole."""
    source, made = tmp_path / "a.h5", tmp_path / "b.h5"
    partial, note = tmp_path / "b.h5.codecfs-partial", tmp_path / "b.h5.codecfs-partial.json"
    words = ["convert", "-F", "big,deflate,1", "--skip", "enum", source, made]
    with h5py.File(source, "w") as f:
        f.create_dataset("big", data=np.random.default_rng(1).integers(0, 99, (3000, 2000)), chunks=(100, 2000))
        f["enum"] = 1
    process = subprocess.Popen([CODECFS, *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text().endswith("copied\n")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait(60)
    assert partial.exists() and not made.exists()
    identity, _, _ = note.read_text().splitlines()
    # Without the line the copy is begun anew, as after a power cut.
    for text, content in ((f"{identity}\nanother boot\n", b"nothing"), (f"{identity}\nanother boot\ncopied\n", None)):
        note.write_text(text)
        if content:
            for left in tmp_path.glob(".b.h5*"):
                left.unlink()
            partial.write_bytes(content)
        else:
            shutil.copyfile(source, partial)
        codecfs(*words[:1], "--resume", *words[1:])
        assert filters(made, "big") == [1] and sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
        with h5py.File(made) as one, h5py.File(source) as other:
            assert (one["big"][...] == other["big"][...]).all() and list(one) == ["big"]
        made.unlink()


def test_interrupted_while_it_is_compacted(tmp_path):
    source, made = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as f:
        f["v"] = np.random.default_rng(1).integers(0, 1 << 60, (6000, 5000))
    process = subprocess.Popen([CODECFS, "convert", source, made], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".b.h5.codecfs-partial.codecfs-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, told = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was faster than the signal")
    assert process.returncode == 32 and "interrupted" in told and "--resume" in told and time.monotonic() - begun < 10
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5.codecfs-partial", "b.h5.codecfs-partial.json"]
    codecfs("convert", "--resume", source, made)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
    codecfs("compare", source, made)


def test_committed_changes_of_a_killed_mount_are_in_the_copy(tmp_path):
    source, made = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=np.arange(40, dtype="<i4"), chunks=(10,))
    expected = np.arange(40)
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        fd = os.open(m.path / "v/1", os.O_WRONLY)
        os.write(fd, (np.arange(10, dtype="<i4") + 500).tobytes())
        os.fsync(fd)
        os.close(fd)
        m.kill()
    expected[10:20] = np.arange(10) + 500
    before = source.read_bytes()
    assert (tmp_path / ".a.h5.codecfs-wal").exists()
    codecfs("convert", source, made)
    with h5py.File(made) as f:
        assert (f["v"][...] == expected).all()
    assert source.read_bytes() == before and (tmp_path / ".a.h5.codecfs-wal").exists()


def test_files_that_cannot_be_copied_are_refused(tmp_path):
    small = {"libver": ("latest", "latest")}
    with h5py.File(tmp_path / "f%d.h5", "w", driver="family", memb_size=4096) as f:
        f["v"] = np.arange(5000)
    assert "h5repack" in codecfs("convert", tmp_path / "f0.h5", tmp_path / "b.h5", code=32).output
    with h5py.File(tmp_path / "marked.h5", "w", **small) as f:
        f["v"] = 1
        f.flush()
        shutil.copyfile(tmp_path / "marked.h5", tmp_path / "copy.h5")
    assert "h5clear" in codecfs("convert", tmp_path / "copy.h5", tmp_path / "b.h5", code=32).output
    with open(tmp_path / "marked.h5") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another program" in codecfs("convert", tmp_path / "marked.h5", tmp_path / "b.h5", code=32).output
    assert not list(tmp_path.glob("b.h5*"))
    assert "exists" in codecfs("convert", tmp_path / "marked.h5", tmp_path / "copy.h5", code=32).output
    assert "exists" in codecfs("convert", tmp_path / "marked.h5", tmp_path / "marked.h5", code=32).output


def test_data_in_other_files(tmp_path):
    """It stays there, and a copy in another directory, which would not find it, is refused."""
    (tmp_path / "other").mkdir()
    with h5py.File(tmp_path / "source.h5", "w") as f:
        f["v"] = np.arange(10)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        layout = h5py.VirtualLayout((10,), "i8")
        layout[:] = h5py.VirtualSource("source.h5", "v", (10,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("w", data=np.arange(100), chunks=(10,))
    (tmp_path / "raw").write_bytes(np.arange(10, dtype="<i4").tobytes())
    with h5py.File(tmp_path / "e.h5", "w") as f:
        f.create_dataset("external", (10,), "<i4", external=[(str(tmp_path / "raw"), 0, 40)])
    for name, variable in ("a.h5", "virtual"), ("e.h5", "external"):
        source = tmp_path / name
        assert f"/{variable}: its data is in other files" in codecfs("convert", source, tmp_path / "other/b.h5", code=32).output
        assert os.listdir(tmp_path / "other") == []
        told = codecfs("convert", "-F", "*,deflate,1", source, tmp_path / "b.h5").output
        assert f"/{variable}: its data is in other files, to which the new file refers" in told
        assert "the filters are not changed" in told
        with h5py.File(tmp_path / "b.h5") as f:
            assert (f[variable][...] == np.arange(10)).all()
        assert dump(source) == dump(tmp_path / "b.h5")
        (tmp_path / "b.h5").unlink()
    (tmp_path / "other/link.h5").symlink_to("../a.h5")
    assert "other files" in codecfs("convert", tmp_path / "other/link.h5", tmp_path / "other/b.h5", code=32).output
    with h5py.File(tmp_path / "a.h5", "r+") as f:
        f["link"] = h5py.ExternalLink("source.h5", "/v")
    assert "external link" not in codecfs("convert", tmp_path / "a.h5", tmp_path / "c.h5").output
    assert "/link: external link" in codecfs("convert", "--skip", "virtual", tmp_path / "a.h5", tmp_path / "other/b.h5").output
    with h5py.File(tmp_path / "other/b.h5") as f:
        assert list(f) == ["link", "w"]


def test_disks_without_room(tmp_path, small_disk):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=np.random.default_rng(1).integers(0, 1 << 60, 600_000), chunks=(10_000,))
        f["w"] = 1
    disk = small_disk("4m")
    assert "No space left" in codecfs("convert", source, disk / "b.h5", code=32).output and os.listdir(disk) == []
    small_disk("7m")
    told = codecfs("convert", source, disk / "b.h5").output
    assert "unused space stays" in told and dump(source) == dump(disk / "b.h5")
    (disk / "b.h5").unlink()
    # Something of a skipped variable could stay in the file.
    assert "--resume" in codecfs("convert", "--skip", "w", source, disk / "b.h5", code=32).output
    small_disk("20m")
    codecfs("convert", "--skip", "w", "--resume", source, disk / "b.h5")
    assert os.listdir(disk) == ["b.h5"]
    (disk / "b.h5").unlink()
    small_disk("7m")
    told = codecfs("convert", "-F", "v,deflate,1", source, disk / "b.h5", code=32).output
    assert "--resume" in told and ("No space left" in told or "disk space" in told)
    small_disk("30m")
    codecfs("convert", "-F", "v,deflate,1", "--resume", source, disk / "b.h5")
    assert filters(disk / "b.h5", "v") == [1] and os.listdir(disk) == ["b.h5"]


def test_damage_is_not_copied(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as f:
        f["g/v"], f["w"] = np.arange(1000), 1
        address = h5py.h5o.get_info(f["g/v"].id).addr
    whole = source.read_bytes()
    source.write_bytes(whole[:address] + bytes(16) + whole[address + 16:])
    assert "/g/v: " in codecfs("convert", source, tmp_path / "b.h5", code=32).output
    # libhdf5 must read an object to remove it.
    assert "cannot be removed" in codecfs("convert", "--skip", "g/v", source, tmp_path / "b.h5", code=32).output
    assert os.listdir(tmp_path) == ["a.h5"]
