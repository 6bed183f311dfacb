"""-o coherent: what zarr-python changes in a store while it is mounted is seen within a second."""
import errno
import json
import os
import shutil
import time

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

from conftest import Mount, mounted, unmount, xattr

VALUES = np.arange(600, dtype="<i4").reshape(20, 30)


def soon(check):
    """What is checked must hold within a second (a slow machine gets another). Tells whether it held at the end."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            if check():
                return True
        except (OSError, KeyError, ValueError):
            pass
        time.sleep(0.05)
    return check()


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    group = zarr.open_group(str(path), "w")
    group.create_dataset("v", data=VALUES, chunks=(10, 10), compressor=numcodecs.Zlib(1))
    group.create_dataset("g/inner", data=VALUES, chunks=(10, 10))
    group["v"].attrs["units"] = "m"
    zarr.consolidate_metadata(str(path))
    return path


def chunk(path, dtype="<i4", shape=(10, 10)):
    return np.frombuffer(path.read_bytes(), dtype).reshape(shape)


def test_changed_chunks(mount, store):
    m = mount(store, "coherent")
    theirs = zarr.open_group(str(store))
    for round in range(3):
        theirs["v"][:] = VALUES + round
        assert soon(lambda: (chunk(m.path / "v/1.2") == VALUES[10:, 20:] + round).all())
        assert (zarr.open_group(str(m.path), "r")["v"][:] == VALUES + round).all()


def test_a_mapped_chunk_that_is_opened_again(mount, store):
    m = mount(store, "coherent")
    before = np.memmap(m.path / "v/0.0", "<i4", "r")
    assert before[0] == 0
    zarr.open_group(str(store))["v"][0, 0] = 99
    assert soon(lambda: np.memmap(m.path / "v/0.0", "<i4", "r")[0] == 99)


def test_chunks_that_come_and_go(mount, store):
    m = mount(store, "coherent")
    theirs = zarr.open_group(str(store)).create_dataset("sparse", shape=(20, 30), chunks=(10, 10), dtype="<i4",
                                                        fill_value=7)
    assert soon(lambda: "sparse" in os.listdir(m.path))
    assert not (m.path / "sparse/0.1").exists()
    theirs[0, 10] = 5
    assert soon(lambda: chunk(m.path / "sparse/0.1")[0, 0] == 5) and "0.1" in os.listdir(m.path / "sparse")
    os.unlink(store / "sparse/0.1")
    assert soon(lambda: not (m.path / "sparse/0.1").exists()) and "0.1" not in os.listdir(m.path / "sparse")


def test_removed_here_and_written_there(mount, store):
    m = mount(store, "coherent")
    os.unlink(m.path / "v/0.0")
    assert not (store / "v/0.0").exists() and not (m.path / "v/0.0").exists()
    zarr.open_group(str(store))["v"][0, 0] = 8
    assert soon(lambda: chunk(m.path / "v/0.0")[0, 0] == 8) and "0.0" in os.listdir(m.path / "v")


def test_attributes(mount, store):
    m = mount(store, "coherent")
    assert xattr(m.path / "v", "units") == "m" and json.loads((m.path / "v/.zattrs").read_text())["units"] == "m"
    theirs = zarr.open_group(str(store))
    theirs["v"].attrs["units"] = "a much longer unit than it was before"
    theirs.attrs["title"] = "group"
    assert soon(lambda: json.loads((m.path / "v/.zattrs").read_text())["units"].startswith("a much"))
    assert xattr(m.path / "v", "units").startswith("a much")
    assert soon(lambda: json.loads((m.path / ".zattrs").read_text()) == {"title": "group"})
    os.unlink(store / "v/.zattrs")
    assert soon(lambda: json.loads((m.path / "v/.zattrs").read_text()) == {})


def test_members_that_come_and_go(mount, store):
    m = mount(store, "coherent")
    assert sorted(zarr.open_group(str(m.path), "r")) == ["g", "v"] and not (m.path / "new").exists()
    theirs = zarr.open_group(str(store))
    theirs.create_group("new").create_dataset("deep", data=VALUES)
    assert soon(lambda: (m.path / "new/deep/.zarray").exists() and "new" in os.listdir(m.path))
    assert (zarr.open_group(str(m.path), "r")["new/deep"][:] == VALUES).all()
    del theirs["new"], theirs["v"]
    assert soon(lambda: not (m.path / "new").exists() and not (m.path / "v/.zarray").exists())
    assert soon(lambda: sorted(zarr.open_group(str(m.path), "r")) == ["g"])
    # The name of an array is a group's now.
    theirs.create_group("v/below")
    assert soon(lambda: (m.path / "v/below/.zgroup").exists() and not (m.path / "v/.zarray").exists())


def test_consolidated_metadata(mount, store):
    m = mount(store, "coherent")

    def told():
        return json.loads((m.path / ".zmetadata").read_text())["metadata"]

    assert set(told()) >= {"v/.zarray", "g/inner/.zarray"} and told()["v/.zattrs"]["units"] == "m"
    theirs = zarr.open_group(str(store))
    theirs["v"].attrs["units"] = "much longer than before, so that the text has another size"
    theirs.create_dataset("g/later", data=VALUES)
    del theirs["g/inner"]
    assert soon(lambda: "g/later/.zarray" in told() and "g/inner/.zarray" not in told())
    assert told()["v/.zattrs"]["units"].startswith("much longer")
    encoded = m.path / ".codecfs/view/encoded/.zmetadata"
    assert soon(lambda: "g/later/.zarray" in json.loads(encoded.read_text())["metadata"])


@pytest.mark.parametrize("shape", [(40, 30), (20, 50), (5, 5), (35, 45)])
def test_another_shape(mount, store, shape):
    """Chunks have other numbers then; none is taken for another."""
    m = mount(store, "coherent")
    everything = [chunk(m.path / "v" / f"{i}.{j}") for i in range(2) for j in range(3)]
    assert (everything[-1] == VALUES[10:, 20:]).all()
    theirs = zarr.open_group(str(store))["v"]
    theirs.resize(shape)
    whole = np.arange(shape[0] * shape[1], dtype="<i4").reshape(shape) + 10_000
    theirs[:] = whole
    assert soon(lambda: json.loads((m.path / "v/.zarray").read_text())["shape"] == list(shape))
    assert (zarr.open_group(str(m.path), "r")["v"][:] == whole).all()
    # What is written then goes to its place.
    last = f"{(shape[0] - 1) // 10}.{(shape[1] - 1) // 10}"
    (m.path / "v" / last).write_bytes(np.full(100, 5, "<i4").tobytes())
    os.sync()
    fd = os.open(m.path / "v" / last, os.O_RDWR)
    os.fsync(fd)
    os.close(fd)
    expected = whole.copy()
    expected[(shape[0] - 1) // 10 * 10:, (shape[1] - 1) // 10 * 10:] = 5
    assert (zarr.open_group(str(store), "r")["v"][:] == expected).all()


def test_another_array_of_the_name(mount, store):
    m = mount(store, "coherent")
    assert chunk(m.path / "v/0.0")[0, 1] == 1
    group = zarr.open_group(str(store))
    del group["v"]
    group.create_dataset("v", data=VALUES[::-1].astype(">f8"), chunks=(4, 30), compressor=numcodecs.Zstd(1))
    assert soon(lambda: json.loads((m.path / "v/.zarray").read_text())["dtype"] == ">f8")
    assert (chunk(m.path / "v/0.0", ">f8", (4, 30)) == VALUES[::-1][:4]).all()
    assert (zarr.open_group(str(m.path), "r")["v"][:] == VALUES[::-1]).all()


def test_another_compressor(mount, store):
    """The same chunks, stored otherwise: the encoded view tells so too."""
    m = mount(store, "coherent")
    encoded = m.path / ".codecfs/view/encoded"
    assert json.loads((encoded / "v/.zarray").read_text())["compressor"]["id"] == "zlib"
    assert numcodecs.Zlib().decode((encoded / "v/0.0").read_bytes()) == VALUES[:10, :10].tobytes()
    fresh = store.with_name("fresh")
    zarr.open_group(str(fresh), "w").create_dataset("v", data=VALUES + 3, chunks=(10, 10), compressor=numcodecs.BZ2(9))
    shutil.rmtree(store / "v")
    shutil.copytree(fresh / "v", store / "v")
    assert soon(lambda: json.loads((encoded / "v/.zarray").read_text())["compressor"]["id"] == "bz2")
    assert (encoded / "v/0.0").read_bytes() == (store / "v/0.0").read_bytes()
    assert soon(lambda: (chunk(m.path / "v/0.0") == VALUES[:10, :10] + 3).all())


def test_arrays_as_files(mount, store):
    m = mount(store, "coherent")
    npy = m.path / ".codecfs/view/npy"
    assert (np.load(npy / "v.npy") == VALUES).all()
    theirs = zarr.open_group(str(store))
    theirs["v"][5, 25] = 99
    assert soon(lambda: np.load(npy / "v.npy", mmap_mode="r")[5, 25] == 99)
    theirs["v"].resize(25, 35)
    theirs["v"][:] = 4
    assert soon(lambda: np.load(npy / "v.npy").shape == (25, 35)) and (np.load(npy / "v.npy") == 4).all()
    theirs.create_dataset("later", data=VALUES)
    assert soon(lambda: (np.load(npy / "later.npy") == VALUES).all())


def test_what_is_edited_here_stays_until_it_is_stored(store, tmp_path):
    with mounted(store, tmp_path / "mnt", "coherent", "commit=3600") as m:
        mine = np.full((10, 10), -1, "<i4")
        (m.path / "v/1.1").write_bytes(mine.tobytes())
        zarr.open_group(str(store))["v"].resize(40, 50)
        time.sleep(1.2)
        assert (chunk(m.path / "v/1.1") == mine).all()
        fd = os.open(m.path / "v/1.1", os.O_RDWR)
        os.fsync(fd)
        os.close(fd)
        assert soon(lambda: json.loads((m.path / "v/.zarray").read_text())["shape"] == [40, 50])
        assert (chunk(m.path / "v/1.1") == mine).all()
    whole = zarr.open_group(str(store), "r")["v"][:]
    assert whole.shape == (40, 50) and (whole[10:20, 10:20] == mine).all() and (whole[:10, :30] == VALUES[:10]).all()


def sync(path):
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("options", [["coherent"], []])
def test_another_compressor_while_a_chunk_waits(store, tmp_path, options):
    """The chunk is stored with the chain that .zarray tells then: with the previous one it could not be read."""
    mine = np.full((10, 10), -1, "<i4")
    with mounted(store, tmp_path / "mnt", "commit=3600", *options) as m:
        encoded = m.path / ".codecfs/view/encoded"
        (m.path / "v/1.1").write_bytes(mine.tobytes())
        (encoded / "v/0.1").write_bytes(numcodecs.Zlib(1).encode(mine))
        told = json.loads((store / "v/.zarray").read_text())
        for name in os.listdir(store / "v"):
            if not name.startswith("."):
                values = numcodecs.Zlib().decode((store / "v" / name).read_bytes())
                (store / "v" / name).write_bytes(numcodecs.BZ2(1).encode(values))
        (store / "v/.zarray").write_text(json.dumps({**told, "compressor": {"id": "bz2", "level": 1}}))
        sync(m.path / "v/1.1")
        sync(encoded / "v/0.1")
        expected = VALUES.copy()
        expected[10:, 10:20] = expected[:10, 10:20] = mine
        assert (zarr.open_group(str(store), "r")["v"][:] == expected).all()
        if options:
            assert soon(lambda: (chunk(m.path / "v/1.1") == mine).all())
            assert soon(lambda: json.loads((encoded / "v/.zarray").read_text())["compressor"]["id"] == "bz2")
            assert (zarr.open_group(str(encoded), "r")["v"][:] == expected).all()
        assert (chunk(m.path / "v/0.0") == VALUES[:10, :10]).all()


@pytest.mark.parametrize("change", [{"dtype": "<f4"}, {"chunks": [5, 10]}, {"shape": [10, 30]}])
def test_other_chunks_while_a_chunk_waits(store, tmp_path, change):
    m = Mount(store, tmp_path / "mnt", "commit=3600", "coherent")
    try:
        before = (store / "v/1.1").read_bytes()
        (m.path / "v/1.1").write_bytes(np.full((10, 10), -1, "<i4").tobytes())
        text = (store / "v/.zarray").read_text()
        (store / "v/.zarray").write_text(json.dumps({**json.loads(text), **change}))
        with pytest.raises(OSError) as error:
            sync(m.path / "v/1.1")
        assert error.value.errno == errno.ESTALE
        assert (store / "v/1.1").read_bytes() == before
        # What waits is stored when its place is there again.
        (store / "v/.zarray").write_text(text)
        sync(m.path / "v/1.1")
        assert (zarr.open_group(str(store), "r")["v"][10:, 10:20] == -1).all()
        m.close()
    finally:
        m.process.kill()
        unmount(m.path)


def test_both_write_at_the_same_time(store, tmp_path):
    """Each its own chunks."""
    with mounted(store, tmp_path / "mnt", "coherent", "commit=1") as m:
        theirs = zarr.open_group(str(store))["v"]
        for round in range(30):
            theirs[:10] = round
            (m.path / f"v/1.{round % 3}").write_bytes(np.full(100, 1000 + round, "<i4").tobytes())
            assert soon(lambda: chunk(m.path / "v/0.1")[0, 0] == round)
        assert m.stats()["errors"] == 0
    whole = zarr.open_group(str(store), "r")["v"][:]
    assert (whole[:10] == 29).all() and [whole[15, 5], whole[15, 15], whole[15, 25]] == [1027, 1028, 1029]


def test_in_a_folder(mount, store):
    m = mount(store.parent, "coherent")
    v = m.path / "store/v"
    assert chunk(v / "0.0")[0, 1] == 1
    theirs = zarr.open_group(str(store))["v"]
    theirs.resize(30, 40)
    theirs[:] = 12
    assert soon(lambda: (zarr.open_array(str(v), "r")[:] == 12).all() and (v / "2.3").exists())


def test_hdf5_is_as_without(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = VALUES
    m = mount(path, "coherent")
    assert (zarr.open_group(str(m.path))["v"][:] == VALUES).all()


def test_without_the_option_no_file_is_asked_for_twice(mount, store):
    m = mount(store)
    assert (m.path / "v/.zarray").exists()
    before = m.stats()["lookups"]
    time.sleep(1.2)
    for _ in range(10):
        (m.path / "v/.zarray").read_bytes()
    assert m.stats()["lookups"] - before <= 3  # of .codecfs/stats itself


def test_changes_of_ones_own_leave_open_chunks_as_they_are(mount, store):
    """A chunk file that was opened before a new chain or attribute is the same one after it: what is written to the chunk is read. Also
    where a new shape of another variable made the mount forget what it knew of this one."""
    m = mount(store, "coherent")
    (m.path / "v/.zarray").read_text()
    with open(m.path / "v/0.0", "rb", buffering=0) as before:
        for round in range(4):
            if round % 2:
                os.setxattr(m.path / "v", "user.units", b"km")
            else:
                os.setxattr(m.path / "v", "user._Filter", b"1,%d" % (3 + round))
            inner = json.loads((m.path / "g/inner/.zarray").read_text())
            (m.path / "g/inner/.zarray").write_text(json.dumps({**inner, "shape": [20, 31 + round]}))
            time.sleep(0.06)  # an object is not looked at more often than every 50 ms
            (m.path / "v/.zarray").read_text()
            assert os.fstat(before.fileno()).st_ino == (m.path / "v/0.0").stat().st_ino
            assert len(os.pread(before.fileno(), 400, 0)) == 400
            mine = np.full((10, 10), 1000 + round, "<i4")
            (m.path / "v/0.0").write_bytes(mine.tobytes())
            assert os.pread(before.fileno(), 400, 0) == mine.tobytes()
    assert "no such inode" not in m.log.read_text()


def test_a_new_shape_from_outside_makes_open_chunks_stale(mount, store):
    """Not only for requests to the daemon: the kernel drops its pages of them."""
    m = mount(store, "coherent")
    with open(m.path / "v/0.0", "rb", buffering=0) as before:
        assert os.pread(before.fileno(), 4, 4) == VALUES[0, 1].tobytes()
        zarr.open_group(str(store))["v"].resize(20, 45)

        def is_stale():
            (m.path / "v/.zarray").read_text()
            try:
                os.pread(before.fileno(), 4, 4)
            except OSError as error:
                return error.errno == errno.ESTALE
            return False

        assert soon(is_stale)
