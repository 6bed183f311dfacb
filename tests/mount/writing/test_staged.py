"""Files that are neither chunk nor metadata: which are accepted for a while, and which are refused as they can never be stored."""
import errno
import json
import os
import shutil

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from conftest import CODECFS, is_mounted
from running import codecfs, run
from venvs import python_of

ARRAY = np.arange(60, dtype="<i4").reshape(6, 10)
CHUNKS = (3, 5)


def make(kind, tmp_path):
    """A source with a variable v, a group g with a variable w, and an empty group e."""
    path = tmp_path / {"hdf5": "a.h5", "zarr": "a.zarr"}[kind]
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
            file.create_dataset("g/w", data=ARRAY, chunks=CHUNKS)
            file.create_group("e")
    else:
        group = zarr.open_group(str(path), "w")
        group.create_dataset("v", data=ARRAY, chunks=CHUNKS)
        group.create_dataset("g/w", data=ARRAY, chunks=CHUNKS)
        group.create_group("e")
    return path


@pytest.fixture(params=["hdf5", "zarr"])
def m(request, mount, tmp_path):
    return mount(make(request.param, tmp_path))


def error_of(directory):
    return os.getxattr(directory, "user._Error").decode()


def refused(action):
    """With EINVAL."""
    with pytest.raises(OSError) as failure:
        action()
    assert failure.value.errno == errno.EINVAL, failure.value


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


VIEWS = ["", ".codecfs/view/encoded", ".codecfs/view/npy", ".codecfs/view/raw"]


@pytest.mark.parametrize("view", VIEWS)
def test_zarr_json_is_refused_by_every_call(m, view):
    top = m.path / view
    directories = ["", "g", "e"] + ["v"] * (view in VIEWS[:2])
    for name in directories:
        directory = top / name
        target = directory / "zarr.json"
        calls = [lambda: create(target), lambda: os.mkdir(target), lambda: os.symlink("v", target),
                 lambda: os.link(m.path / ".zgroup", target) if view == "" else os.mkdir(target)]
        for call in calls:
            refused(call)
            assert "Zarr format 3" in error_of(directory) and "zarr_format=2" in error_of(directory)
        if view in VIEWS[:2]:
            staged = directory / "zarr.1234.partial"
            staged.write_text("{}")
            other = top if name else top / "g"
            os.rename(staged, other / "zarr.1234.partial")
            refused(lambda: os.rename(other / "zarr.1234.partial", target))
            for noted in (directory, other):
                assert "Zarr format 3" in error_of(noted)
            assert os.listdir(other).count("zarr.1234.partial") == 1
            os.unlink(other / "zarr.1234.partial")
        assert not target.exists()
    assert "Zarr format 3" in m.messages()
    if view == "":
        refused(lambda: os.rename(m.path / "e", m.path / "zarr.json"))  # a group


def test_chunk_directories_of_zarr_3(m):
    e = m.path / "e"
    (e / "c").mkdir()  # before zarr.json it may be any group
    refused(lambda: create(e / "zarr.json"))
    refused(lambda: create(e / "c/0"))
    assert "Zarr format 3" in error_of(e / "c")
    os.rmdir(e / "c")
    refused(lambda: os.mkdir(e / "c"))
    (e / ".zattrs").write_text('{"a": 1}')  # format 2 after all
    (e / "c").mkdir()


# What the table in docs/semantics/writing.md has.
STAGED = [".0.0.x5Fg2A", ".0.0.swp", ".zattrs.abc123", ".#0.0", "#0.0#", "0.0~", "~0.0", "0.0.tmp", "new.tmp1", "part-3.tmp",
          "0.0.0123456789abcdef.partial", "zarr.ab12.partial", "zarr.json#1", ".zarray#12",
          "tmp.Jx5gT2", "tmpab3_x9", "temp", "temp1", "x.part", "0.0.__lock", "zarr.json.__lock",
          "0.0-1", "sedx5Fg2A", "x5Fg2AbC", "new", "temporary", "notes.new", "_Filter.new", ".nczarr", "4913x"]
REFUSED = ["notes", "notes.txt", "README.md", "temperature", "temperatures.csv", "attempt", "partly", "data.bin", "x", "Makefile",
           "sedation", "parts list"]


@pytest.mark.parametrize("directory", ["", "v", "g", "e", ".codecfs/view/encoded/v"])
def test_names(m, directory):
    directory = m.path / directory
    for name in STAGED:
        (directory / name).write_text("x")
        assert (directory / name).read_text() == "x"
        (directory / name).unlink()
    for name in REFUSED:
        refused(lambda: create(directory / name))
        assert name in error_of(directory) and "neither a chunk nor metadata" in error_of(directory)
        (directory / ".x").write_text("x")
        refused(lambda: os.rename(directory / ".x", directory / name))
        (directory / ".x").unlink()


def test_a_directory_with_a_temporary_name_holds_any_file(m):
    (m.path / "e/work.tmp").mkdir()
    (m.path / "e/work.tmp/notes.txt").write_text("x")
    refused(lambda: os.rename(m.path / "e/work.tmp/notes.txt", m.path / "e/notes.txt"))
    (m.path / "e/work.tmp/notes.txt").unlink()


def test_chunks_before_their_zarray(m):
    """Only where a variable can still come to be."""
    for directory in ("", "g", ".codecfs/view/encoded", ".codecfs/view/encoded/g"):
        for name in ("0.0", "7", "_Filter", "_Codecs"):
            refused(lambda: create(m.path / directory / name))
        assert "is the name of a file of an array" in error_of(m.path / directory)
    e = m.path / "e"
    (e / "0.0").write_bytes(b"\1" * 60)
    (e / "_Filter").write_text("1,5\n")
    (e / ".zarray").write_bytes((m.path / "v/.zarray").read_bytes())
    assert (e / "0.0").read_bytes() == b"\1" * 60 and os.getxattr(e, "user._Filter") == b"1,5"


def test_editors_and_copies(m, tmp_path):
    """What renames its temporary files goes on working."""
    attributes = m.path / "v/.zattrs"
    attributes.write_text('{"units": "m"}')
    run("sed", "-i", "s/m/kg/", attributes)
    assert json.loads(attributes.read_text())["units"] == "kg"
    run("perl", "-pi", "-e", "s/kg/K/", attributes)
    assert json.loads(attributes.read_text())["units"] == "K"
    for place in (attributes, m.path / ".zattrs"):
        place.write_text('{"units": "K"}')
        done = run("vim", "-u", "NONE", "-es", "-c", "set backup writebackup", "-c", "%s/K/s/", "-c", "wq", place, code=None)
        assert json.loads(place.read_text())["units"] == "s", done
        for left in place.parent.glob("*~"):
            left.unlink()
    copy = tmp_path / "copy"
    shutil.copytree(m.path / "v", copy)
    for work in (["cp", "-r", copy, m.path / "cp"], ["rsync", "-a", f"{copy}/", m.path / "rsync"],
                 ["rsync", "-a", "--inplace", f"{copy}/", m.path / "inplace"]):
        run(*work)
    archive = tmp_path / "a.tar"
    run("tar", "cf", archive, "-C", tmp_path, "copy")
    run("tar", "xf", archive, "-C", m.path, "--no-same-owner", "--no-same-permissions")
    group = zarr.open_group(str(m.path), "r")
    for name in ("cp", "rsync", "inplace", "copy"):
        assert np.array_equal(group[name][...], ARRAY), name
    assert "user._NotStored" not in os.listxattr(m.path)


def test_zarr_2_goes_on_working(m, tmp_path):
    group = zarr.open_group(str(m.path), "a")
    group.create_dataset("made", data=ARRAY, chunks=CHUNKS, compressor=None)
    group["v"][2:4] = 5
    group["v"].attrs["a"] = 1
    encoded = zarr.open_group(str(m.path / ".codecfs/view/encoded"), "a")
    encoded.create_dataset("encoded", data=ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(4))
    m.close()  # nothing is left


# --- codecfs -u, and what it tells


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_unmounting_keeps_files_that_are_not_stored(tmp_path, place, kind):
    source = make(kind, tmp_path)
    done = codecfs("-o", "mkdir", source, place)
    (place / "v/notes.tmp").write_text("nowhere else")
    (place / "e/0.0").write_text("a chunk without an array")
    (place / ".codecfs/view/encoded/g/x~").write_text("x")
    names = ["/v/notes.tmp", "/e/0.0", "/.codecfs/view/encoded/g/x~"]
    assert sorted(os.getxattr(place, "user._NotStored").decode().split("\n")) == sorted(names)
    done = codecfs("-u", place, code=32)
    assert is_mounted(place) and done.stderr.count("\n") == 1
    assert all(f"'{name}'" in done.stderr for name in names) and "remove them, then unmount again" in done.stderr
    assert (place / "v/notes.tmp").read_text() == "nowhere else"
    for i in range(30):
        (place / f"e/{i}").write_text("x")
    done = codecfs("-u", place, code=32)
    assert "and more" in done.stderr and len(done.stderr) < 1000
    for name in names + [f"/e/{i}" for i in range(30)]:
        (place / name[1:]).unlink()
    assert "user._NotStored" not in os.listxattr(place)
    codecfs("-u", place)
    assert not is_mounted(place)


def test_the_helper_of_umount_keeps_them_too(tmp_path, place):
    """umount(8) calls it as umount.fuse.codecfs; -l and -f unmount all the same, as they always do."""
    helper = tmp_path / "umount.fuse.codecfs"
    helper.symlink_to(CODECFS)
    for kind, last in (("hdf5", "-l"), ("zarr", "-f")):
        source = make(kind, tmp_path)
        codecfs("-o", "mkdir", source, place)
        (place / "v/notes.tmp").write_text("nowhere else")
        done = run(helper, place, code=32)
        assert is_mounted(place) and "'/v/notes.tmp'" in done.stderr, done.stderr
        run(helper, place, last, code=None)
        assert not is_mounted(place)


# --- today's clients, from PyPI: an extra


@pytest.fixture(scope="module")
def zarr3():
    """Runs a program with zarr-python 3 and xarray."""
    python = python_of("mount-tests")

    return lambda program, *arguments: run(python, "-B", "-c", program, *arguments, code=None)


WRITERS = {
    "array": "import sys, zarr; zarr.create_array(sys.argv[1] + '/new', shape=(4,), chunks=(2,), dtype='i4')[:] = 5",
    "group": "import sys, zarr; zarr.create_group(sys.argv[1] + '/new')",
    "save": "import sys, numpy, zarr; zarr.save(sys.argv[1] + '/new', numpy.arange(5))",
    "xarray": "import sys, xarray; xarray.Dataset({'t': ('x', [1, 2, 3])}).to_zarr(sys.argv[1] + '/new', mode='w')",
}


@pytest.mark.parametrize("view", VIEWS[:2])
@pytest.mark.parametrize("writer", WRITERS)
def test_writing_format_3_is_an_error(m, zarr3, writer, view):
    done = zarr3(WRITERS[writer], m.path / view)
    assert done.returncode != 0 and "Invalid argument" in done.stderr, done.stdout + done.stderr
    assert "Zarr format 3" in m.messages() and "zarr_format=2" in error_of(m.path / view / "new")
    m.close()  # no file is left that would be lost


def test_new_clients_write_format_2(m, zarr3):
    done = zarr3("""import sys, numpy, xarray, zarr
group = zarr.open_group(sys.argv[1], mode="a", zarr_format=2)
made = group.create_array("made", shape=(6, 10), chunks=(3, 5), dtype="<i4", compressors=None)
made[:] = numpy.arange(60).reshape(6, 10)
group["v"][2:4] = 5
group["v"].attrs["a"] = 1
xarray.Dataset({"t": (("y", "x"), numpy.arange(6.0).reshape(2, 3))}).to_zarr(
    sys.argv[1] + "/ds", mode="w", zarr_format=2, consolidated=False, encoding={"t": {"compressors": None}})
""", m.path)
    assert done.returncode == 0, done.stderr
    group = zarr.open_group(str(m.path), "r")
    assert np.array_equal(group["made"][...], ARRAY) and (group["v"][2:4] == 5).all() and group["v"].attrs["a"] == 1
    assert np.array_equal(group["ds/t"][...], np.arange(6.0).reshape(2, 3))
    m.close()
