"""Chunks written through a real mount: what the mount shows at once, and what h5py and zarr-python find afterwards."""
import contextlib
import errno
import hashlib
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import h5py
import numpy as np
import pytest

from conftest import CODECFS, DATA, is_mounted, mounted, without_pointers, xattr
from mounts import processes_of, wait_until
from running import codecfs, run

OURS = os.environ["CODECFS_PLUGINS"]
WAL = ".{}.codecfs-wal"
SLOW = 8 if os.environ.get("CODECFS_SANITIZE") else 1

ARRAY = np.arange(4000, dtype="<i4").reshape(40, 100)
CHUNKS = (10, 50)


def part(array, i, j):
    return array[10 * i:10 * i + 10, 50 * j:50 * j + 50]


def values(path, name="v", plugins=OURS):
    """A dataset as h5py reads it, in a process of its own that has our plugins."""
    program = ("import h5py, io, numpy, sys\nout = io.BytesIO()\n"
               f"with h5py.File({str(path)!r}, 'r') as f: numpy.save(out, f[{name!r}][()])\n"
               "sys.stdout.buffer.write(out.getvalue())")
    done = run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(plugins)}, text=False)
    import io
    return np.load(io.BytesIO(done.stdout))


def write_synced(path, data):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.write(fd, data) == len(data)
        os.fsync(fd)
    finally:
        os.close(fd)


def digest(path):
    status = os.stat(path)
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest(), status.st_mtime_ns, status.st_size, status.st_ino


CHAINS = {
    "none": {},
    "deflate": {"compression": "gzip", "compression_opts": 4},
    "shuffle_deflate": {"compression": "gzip", "shuffle": True},
    "checked": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "szip": {"compression": "szip", "compression_opts": ("nn", 8)},
    "lzf": {"compression": "lzf", "shuffle": True},
    "bzip2": {"compression": 307, "compression_opts": (5,)},
    "lz4": {"compression": 32004, "compression_opts": (0,)},
    "lz4_small": {"compression": 32004, "compression_opts": (100,)},
    "blosc": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 1)},
    "zstd": {"compression": 32015, "compression_opts": (3,)},
    "zstd_optional": {"compression": 32015, "compression_opts": (3,), "shuffle": True},
    "scaleoffset": {"scaleoffset": 0},
}


@pytest.fixture
def source(tmp_path):
    """A file with a dataset for each chain, made with our plugins."""
    path = tmp_path / "source" / "a.h5"
    path.parent.mkdir()
    program = f"""
import h5py, numpy
data = numpy.arange(4000, dtype="<i4").reshape(40, 100)
with h5py.File({str(path)!r}, "w") as f:
    for name, options in {CHAINS!r}.items():
        f.create_dataset(name, data=data, chunks=(10, 50), maxshape=(None, None), **options)
    f.create_dataset("contiguous", data=data)
    f.create_dataset("absent", shape=(40, 100), dtype="<i4", chunks=(10, 50), fillvalue=7, compression="gzip")
    f["absent"].attrs["_FillValue"] = numpy.int32(7)
    f.create_dataset("edges", data=data[:35, :90], chunks=(10, 50), compression="gzip")
    f.create_dataset("late", shape=(40, 100), dtype="<i4")
    f.create_dataset("text", data=["one", "two", "", "vier"], dtype=h5py.string_dtype())
    f.create_dataset("scalar", data=3.5)
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": OURS})
    return path


@pytest.fixture
def v(tmp_path):
    """A file with one dataset, deflated."""
    path = tmp_path / "source" / "v.h5"
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip", shuffle=True)
    return path


def test_every_filter(mount, source):
    """Each chunk gets new content; the mount shows it at once, h5py reads it after the unmount."""
    wanted = {}
    mounted_ = mount(source, env={"HDF5_PLUGIN_PATH": OURS})
    rng = np.random.default_rng(1)
    for name in [*CHAINS, "contiguous"]:
        # Numbers that compress, and in one chunk some that do not.
        new = ARRAY * 3 + 1
        if name != "scaleoffset":
            new[0:10, 0:50] = rng.integers(-2**31, 2**31 - 1, (10, 50), dtype="i4")
        wanted[name] = new
        if name == "contiguous":
            (mounted_.path / name / "0.0").write_bytes(new.tobytes())
            continue
        for i in range(4):
            for j in range(2):
                (mounted_.path / name / f"{i}.{j}").write_bytes(part(new, i, j).tobytes())
                assert (mounted_.path / name / f"{i}.{j}").read_bytes() == part(new, i, j).tobytes()
    mounted_.close()
    for name, new in wanted.items():
        assert np.array_equal(values(source, name), new), name
    assert not (source.parent / WAL.format("a.h5")).exists()
    run("h5dump", "-H", source)
    # And a second mount reads the same.
    again = mount(source, env={"HDF5_PLUGIN_PATH": OURS})
    for name in CHAINS:
        assert (again.path / name / "0.0").read_bytes() == part(wanted[name], 0, 0).tobytes()


@pytest.mark.parametrize("superblock", ["earliest", "v108", "latest"])
def test_superblocks_and_indexes(mount, tmp_path, superblock):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=(superblock, "latest" if superblock == "latest" else "v108" if superblock == "v108" else "v110")) as f:
        for name, shape, maxshape in (("fixed", (40, 100), None), ("one", (40, 100), (None, 100)), ("two", (40, 100), (None, None)),
                                      ("single", (10, 50), None)):
            f.create_dataset(name, data=ARRAY[:shape[0], :shape[1]], chunks=CHUNKS, maxshape=maxshape, compression="gzip")
    m = mount(path)
    new = ARRAY[::-1].copy()
    for name in ("fixed", "one", "two", "single"):
        for i in range(1 if name == "single" else 4):
            for j in range(1 if name == "single" else 2):
                (m.path / name / f"{i}.{j}").write_bytes(part(new, i, j).tobytes())
    m.close()
    for name in ("fixed", "one", "two"):
        assert np.array_equal(values(path, name), new), name
    assert np.array_equal(values(path, "single"), new[:10, :50])


def test_ways_of_writing(mount, v):
    m = mount(v)
    chunk = m.path / "v/1.1"
    expected = bytearray(part(ARRAY, 1, 1).tobytes())

    with open(chunk, "r+b") as f:  # in part
        f.seek(40)
        f.write(b"\x01\x02\x03\x04")
        expected[40:44] = b"\x01\x02\x03\x04"
        f.flush()
        assert chunk.read_bytes() == expected
    with open(chunk, "r+b") as f, mmap.mmap(f.fileno(), 0) as map_:  # mapped
        map_[100:104] = b"\xff\xfe\xfd\xfc"
        expected[100:104] = b"\xff\xfe\xfd\xfc"
        map_.flush()
    assert chunk.read_bytes() == expected
    array = np.memmap(chunk, dtype="<i4", mode="r+", shape=CHUNKS)
    array[5, 5] = -1
    array.flush()
    del array
    expected[4 * 255:4 * 256] = b"\xff" * 4
    run("dd", f"of={chunk}", "conv=notrunc", "bs=4", "seek=7", "count=1", "status=none", input=b"dddd", text=False)
    expected[28:32] = b"dddd"
    assert chunk.read_bytes() == expected
    fd = os.open(chunk, os.O_WRONLY | os.O_APPEND)
    with pytest.raises(OSError) as failure:  # beyond the end
        os.write(fd, b"x")
    os.close(fd)
    assert failure.value.errno == errno.EFBIG
    with pytest.raises(OSError) as failure:
        os.truncate(chunk, 2001)
    assert failure.value.errno == errno.EFBIG
    assert "2000 bytes" in xattr(chunk, "_Error")

    # Written beside and renamed, as editors, rsync and zarr-python do.
    other = m.path / "v/.1.0.new"
    other.write_bytes(part(ARRAY, 0, 0).tobytes())
    assert ".1.0.new" in os.listdir(m.path / "v")
    os.replace(other, m.path / "v/1.0")
    assert ".1.0.new" not in os.listdir(m.path / "v")
    assert (m.path / "v/1.0").read_bytes() == part(ARRAY, 0, 0).tobytes()
    assert os.stat(m.path / "v/1.0").st_size == 2000
    m.close()
    result = values(v)
    assert part(result, 1, 1).tobytes() == expected
    assert np.array_equal(part(result, 1, 0), part(ARRAY, 0, 0))
    assert np.array_equal(part(result, 2, 0), part(ARRAY, 2, 0))


def test_shortened_chunks_are_filled(mount, source):
    m = mount(source)
    # Through a shell: truncated at open, part written, closed.
    run("sh", "-c", "printf abcd > 1.1", cwd=m.path / "absent")
    fill = np.full(500, 7, "<i4").tobytes()
    deadline = time.monotonic() + 10
    while os.stat(m.path / "absent/1.1").st_size != 2000 and time.monotonic() < deadline:
        time.sleep(0.01)  # the file is whole again when the kernel has released it
    assert (m.path / "absent/1.1").read_bytes() == b"abcd" + fill[4:]
    os.truncate(m.path / "deflate/1.1", 6)
    assert os.stat(m.path / "deflate/1.1").st_size == 2000
    assert (m.path / "deflate/1.1").read_bytes() == part(ARRAY, 1, 1).tobytes()[:6] + bytes(1994)
    with open(m.path / "absent/0.0", "wb") as f:
        f.write(b"1234")
        f.flush()
        assert os.stat(m.path / "absent/0.0").st_size == 4
        assert (m.path / "absent/0.0").read_bytes() == b"1234"
    (m.path / "absent/2.0").touch()  # created, nothing written
    assert sorted(name for name in os.listdir(m.path / "absent") if name[0] != "." and name[0] != "_") == ["0.0", "1.1", "2.0"]
    m.close()
    result = values(source, "absent")
    assert part(result, 1, 1).tobytes() == b"abcd" + fill[4:]
    assert part(result, 0, 0).tobytes() == b"1234" + fill[4:]
    assert (part(result, 2, 0) == 7).all() and (part(result, 3, 1) == 7).all()


def settled(path, size):
    """The content once the kernel has released the last descriptor, which it does after close() has returned."""
    wait_until(lambda: os.stat(path).st_size == size)
    return path.read_bytes()


def put_by_rename(path, data):
    temporary = path.with_name(".0.0.x5Fg2A")
    temporary.write_bytes(data)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink()
        raise


def put_by_link(path, data):
    """As obstore writes a new file."""
    temporary = path.with_name("0.0.partial")
    temporary.write_bytes(data)
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()


def test_a_shorter_file_does_not_replace_a_chunk(mount, source):
    """It is probably encoded, by a client with the metadata of another view: padded, it would be garbage."""
    import zlib
    m = mount(source, "commit=1")
    before = part(ARRAY, 1, 1).tobytes()
    encoded = zlib.compress(before)
    assert len(encoded) < 2000
    for put in (put_by_rename, lambda path, data: path.write_bytes(data)):
        with pytest.raises(OSError) as raised:
            put(m.path / "deflate/1.1", encoded)
        assert raised.value.errno == errno.EINVAL
        assert settled(m.path / "deflate/1.1", 2000) == before
    assert "encoded" in xattr(m.path / "deflate/1.1", "_Error")
    # Chunks that are absent: a file that is renamed or linked is finished.
    for put in (put_by_rename, put_by_link):
        with pytest.raises(OSError) as raised:
            put(m.path / "absent/0.0", encoded)
        assert raised.value.errno == errno.EINVAL
        assert not (m.path / "absent/0.0").exists()
    # A program that copies, and says so.
    done = run("cp", "/dev/stdin", m.path / "deflate/1.0", input=b"short", code=1, text=False)
    assert b"Invalid argument" in done.stderr
    m.close()
    assert np.array_equal(values(source, "deflate"), ARRAY)
    assert (values(source, "absent") == 7).all()


def test_a_refused_replacement_keeps_what_was_written_before(mount, source):
    m = mount(source, "commit=3600")
    chunk = m.path / "deflate/1.1"
    new = bytes(range(250)) * 8
    chunk.write_bytes(new)  # not stored yet
    fd = os.open(chunk, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"short")
    with pytest.raises(OSError) as raised:
        os.fsync(fd)
    assert raised.value.errno == errno.EINVAL
    # Other chunks of the variable can be stored meanwhile.
    write_synced(m.path / "deflate/0.0", new)
    with pytest.raises(OSError):
        os.close(fd)
    assert settled(chunk, 2000) == new
    # A writer that is killed.
    writer = subprocess.Popen(["dd", f"of={chunk}", "bs=5", "count=2", "status=none"], stdin=subprocess.PIPE)
    writer.stdin.write(b"short")
    writer.stdin.flush()
    wait_until(lambda: os.stat(chunk).st_size == 5)
    writer.kill()
    writer.wait(60)
    writer.stdin.close()
    assert settled(chunk, 2000) == new
    m.close()
    result = values(source, "deflate")
    assert part(result, 1, 1).tobytes() == part(result, 0, 0).tobytes() == new


def test_replacements_in_parts(mount, source):
    m = mount(source, "commit=1")
    chunk = m.path / "deflate/1.1"
    new = bytes(range(250)) * 8
    # The shell closes a descriptor before the command writes.
    run("sh", "-c", f"cat > {chunk}", input=new, text=False)
    assert settled(chunk, 2000) == new
    # Nothing was written: the chunk is empty, that is, fill.
    run("sh", "-c", f": > {m.path}/deflate/0.0")
    assert settled(m.path / "deflate/0.0", 2000) == bytes(2000)
    with open(chunk, "wb", buffering=0) as f:
        f.write(b"x" * 1000)
        os.setxattr(m.path / "deflate", "user._Filter", b"1,9")  # of what is stored
        f.write(b"x" * 1000)
        os.fsync(f)
    # Edited in place: padded.
    os.truncate(m.path / "deflate/2.0", 100)
    m.close()
    result = values(source, "deflate")
    assert part(result, 1, 1).tobytes() == b"x" * 2000
    assert not part(result, 0, 0).any()
    assert part(result, 2, 0).tobytes() == part(ARRAY, 2, 0).tobytes()[:100] + bytes(1900)


def test_an_incomplete_replacement_is_not_stored(mount, tmp_path):
    """Also if the daemon is killed meanwhile."""
    import zarr
    old = np.arange(500, dtype="<i4")
    zarr.save_array(str(tmp_path / "a.zarr"), old, chunks=(500,))
    m = mount(tmp_path / "a.zarr", "commit=1")
    with open(m.path / "0", "wb", buffering=0) as f:
        f.write(b"x" * 1000)
        os.sync()
        time.sleep(2)  # a commit
        assert (zarr.open(str(tmp_path / "a.zarr"))[:] == old).all()
        m.kill()
        with contextlib.suppress(OSError):
            f.close()
    assert (zarr.open(str(tmp_path / "a.zarr"))[:] == old).all()


def test_what_is_left_out_is_zeros(mount, source, tmp_path):
    """As in any file, also where the fill value is another: cp and tar leave out the zeros of sparse files."""
    m = mount(source)
    chunk = m.path / "absent/0.0"
    wanted = bytearray(2000)
    wanted[900:904] = b"data"
    fd = os.open(chunk, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.pwrite(fd, b"data", 900)
    assert os.pread(fd, 2000, 0) == wanted[:904]
    os.ftruncate(fd, 1000)
    assert os.pread(fd, 2000, 0) == wanted[:1000]
    os.close(fd)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2000)
    run("cp", "--sparse=always", tmp_path / "sparse", m.path / "absent/2.1")
    mapped = np.memmap(m.path / "absent/1.1", "<i4", "w+", shape=CHUNKS)
    mapped[0, 0] = 5
    del mapped
    m.close()
    result = values(source, "absent")
    assert part(result, 0, 0).tobytes() == wanted[:1000] + np.full(250, 7, "<i4").tobytes()
    assert (part(result, 2, 1) == 0).all()
    assert part(result, 1, 1).ravel().tolist() == [5] + [0] * 499


def test_a_part_of_an_absent_chunk_leaves_the_rest_as_it_is(mount, source):
    """Which is fill: no new file was requested."""
    m = mount(source)
    for name in ("0.0", "1.0"):
        if name == "1.0":
            (m.path / "absent/1.0").write_bytes(b"x" * 2000)
            (m.path / "absent/1.0").unlink()
        run("dd", f"of={m.path / 'absent' / name}", "conv=notrunc", "bs=4", "seek=7", "count=1", "status=none", input=b"dddd", text=False)
    m.close()
    wanted = np.full(500, 7, "<i4")
    wanted[7] = int.from_bytes(b"dddd", "little")
    result = values(source, "absent")
    assert (part(result, 0, 0).ravel() == wanted).all() and (part(result, 1, 0).ravel() == wanted).all()


def test_a_mapping_keeps_what_it_writes_after_a_write_was_cut_short(mount, tmp_path):
    """The kernel takes the page in which a write was cut short for one that it has to read again, although it is mapped."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.zeros((2, 12_000), "u1"), chunks=(1, 12_000))
    m = mount(tmp_path / "a.h5")
    fd = os.open(m.path / "v/0.0", os.O_RDWR)
    with mmap.mmap(fd, 12_000) as map_:
        map_[:] = b"a" * 12_000
        map_.flush()
        assert os.pwrite(fd, b"b" * 5000, 11_000) == 1000
        os.close(os.open(m.path / "v/0.0", os.O_WRONLY))  # the kernel has heard of it
        map_[11_500:] = b"c" * 500
        assert os.pread(fd, 12_000, 0) == map_[:] == b"a" * 11_000 + b"b" * 500 + b"c" * 500
    os.close(fd)
    m.close()
    assert values(tmp_path / "a.h5")[0].tobytes() == b"a" * 11_000 + b"b" * 500 + b"c" * 500


def test_absent_edge_and_removed_chunks(mount, source):
    m = mount(source)
    directory = m.path / "absent"
    assert not (directory / "0.1").exists()
    (directory / "0.1").write_bytes(part(ARRAY, 0, 1).tobytes())
    assert (directory / "0.1").exists() and "0.1" in os.listdir(directory)
    for name in ("4.0", "0.2", "00.1", "0.1.0"):
        with pytest.raises(OSError) as failure:
            (directory / name).write_bytes(b"x")
        assert failure.value.errno == errno.EINVAL
    assert "4 x 2 chunks" in xattr(directory, "_Error")
    # Over the edge of the array what lies outside does not come back.
    edge = np.full(CHUNKS, 9, "<i4")
    (m.path / "edges/3.1").write_bytes(edge.tobytes())
    # Removing.
    os.unlink(directory / "0.1")
    assert not (directory / "0.1").exists() and "0.1" not in os.listdir(directory)
    os.unlink(m.path / "deflate/2.1")  # gone also where absent chunks are shown otherwise, or tar xf would try for ever
    assert not (m.path / "deflate/2.1").exists() and "2.1" not in os.listdir(m.path / "deflate")
    with pytest.raises(FileNotFoundError):
        os.unlink(directory / "3.1")
    # Late allocated contiguous storage.
    (m.path / "late/0.0").write_bytes(ARRAY.tobytes())
    assert (m.path / "late/0.0").read_bytes() == ARRAY.tobytes()
    (m.path / "scalar/0").write_bytes(np.float64(2.25).tobytes())
    m.close()
    assert (values(source, "absent") == 7).all()
    assert (values(source, "edges")[30:, 50:] == 9).all() and np.array_equal(values(source, "edges")[:30], ARRAY[:30, :90])
    assert (part(values(source, "deflate"), 2, 1) == 0).all()
    assert np.array_equal(values(source, "late"), ARRAY) and values(source, "scalar") == 2.25


def test_strings(mount, source):
    from numcodecs import VLenUTF8
    m = mount(source)
    codec = VLenUTF8()
    assert list(codec.decode((m.path / "text/0").read_bytes())) == ["one", "two", "", "vier"]
    (m.path / "text/0").write_bytes(codec.encode(np.array(["längere", "", "texte 🙂", "x" * 5000], dtype=object)))
    assert list(codec.decode((m.path / "text/0").read_bytes()))[2] == "texte 🙂"
    m.close()
    with h5py.File(source) as f:
        assert [t.decode() for t in f["text"][()]] == ["längere", "", "texte 🙂", "x" * 5000]


def test_what_is_no_chunk(mount, v):
    """Other files may be there for a while, and the unmount reports those that are left."""
    m = mount(v)
    for action in (lambda: os.link(m.path / "v/0.0", m.path / "v/x"), lambda: os.mkdir(m.path / "v/d"),
                   lambda: os.symlink("0.0", m.path / "v/s"), lambda: os.mkfifo(m.path / "f"),
                   lambda: os.chmod(m.path / "v/0.0", 0o777), lambda: os.chown(m.path / "v/0.0", 1, 1)):
        with pytest.raises(OSError) as failure:
            action()
        assert failure.value.errno == errno.EPERM, failure.value
    os.chmod(m.path / "v/0.0", os.stat(m.path / "v/0.0").st_mode & 0o7777)
    os.utime(m.path / "v/0.0", ns=(10**18, 10**18 + 5))
    assert os.stat(m.path / "v/0.0").st_mtime_ns == 10**18 + 5
    scratch = m.path / "v/notes~"
    scratch.write_text("hello")
    os.chmod(scratch, 0o640)
    assert scratch.read_text() == "hello" and os.stat(scratch).st_mode & 0o7777 == 0o640
    os.rename(scratch, m.path / "v/more notes~")
    assert sorted(n for n in os.listdir(m.path / "v") if "notes" in n) == ["more notes~"]
    os.unlink(m.path / "v/more notes~")
    (m.path / "v/forgotten.tmp").write_text("x")
    for name in ("0.0~", "0.1"):  # a chunk itself is copied, not renamed
        with pytest.raises(OSError) as failure:
            os.rename(m.path / "v/0.0", m.path / "v" / name)
        assert failure.value.errno == errno.EXDEV
    run("mv", m.path / "v/0.0", m.path / "v/0.0~")
    assert (m.path / "v/0.0~").read_bytes() == part(ARRAY, 0, 0).tobytes() and not (m.path / "v/0.0").exists()
    os.rename(m.path / "v/0.0~", m.path / "v/0.0")
    assert (m.path / "v/0.0").read_bytes() == part(ARRAY, 0, 0).tobytes()
    with pytest.raises(RuntimeError, match="neither chunk nor metadata"):
        m.close()
    assert "/v/forgotten.tmp: this file" in m.log.read_text()
    assert np.array_equal(values(v), ARRAY)


def test_sources_stay_untouched(mount, v, tmp_path):
    """Read-only mounts, and writable ones that are not written, change no byte, no time, and leave nothing beside."""
    before = digest(v)
    for options in ([], ["ro"]):
        m = mount(v, *options)
        for name in ("0.0", "3.1", ".zarray", "_Codecs"):
            (m.path / "v" / name).read_bytes()
        with open(m.path / "v/0.0", "r+b" if not options else "rb"):
            pass  # opened for writing, nothing written
        if options:
            with pytest.raises(OSError) as failure:
                (m.path / "v/0.0").write_bytes(bytes(2000))
            assert failure.value.errno == errno.EROFS
        m.close()
        assert digest(v) == before and os.listdir(v.parent) == [v.name]


def test_what_cannot_be_written(mount, source, tmp_path):
    """A file or a folder without write permission (as an ordinary user), and what lies in other files."""
    layout = h5py.VirtualLayout((40, 100), "<i4")
    layout[...] = h5py.VirtualSource(str(source), "deflate", (40, 100))
    with h5py.File(tmp_path / "virtual.h5", "w") as f:
        f.create_virtual_dataset("v", layout)
        f.create_dataset("w", data=ARRAY, chunks=CHUNKS)
    before = digest(source)
    m = mount(tmp_path / "virtual.h5")
    with pytest.raises(OSError) as failure:
        (m.path / "v/0.0").write_bytes(ARRAY.tobytes())
    assert failure.value.errno == errno.EOPNOTSUPP and "virtual" in xattr(m.path / "v/0.0", "_Error")
    (m.path / "w/0.0").write_bytes(bytes(2000))
    assert (m.path / "v/0.0").read_bytes() == ARRAY.tobytes()
    m.close()
    assert digest(source) == before
    assert (values(tmp_path / "virtual.h5", "w")[:10, :50] == 0).all()


def test_missing_filter(mount, tmp_path):
    shutil.copy(DATA / "hdf5/filter_unknown.h5", tmp_path / "a.h5")
    m = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": ""})
    name = next(name for name in os.listdir(m.path) if os.path.isdir(m.path / name) and (m.path / name / "_Filter").read_text().startswith("3"))
    chunk = next(n for n in os.listdir(m.path / name) if n[0].isdigit())
    with pytest.raises(OSError) as failure:
        (m.path / name / chunk).write_bytes(b"x")
    assert failure.value.errno == errno.EIO


def test_fsync_survives_a_kill(mount, v, tmp_path):
    """What was synced is there after SIGKILL: shown by the next mount, also a read-only one, and recovered."""
    m = mount(v, "commit=3600")
    new = ARRAY + 1000
    write_synced(m.path / "v/1.1", part(new, 1, 1).tobytes())
    (m.path / "v/0.0").write_bytes(part(new, 0, 0).tobytes())  # not synced
    m.kill()
    log = v.parent / WAL.format(v.name)
    assert log.exists()
    assert "1 " in codecfs("--check", v).stdout
    before = digest(v), digest(log)
    with mounted(v, tmp_path / "ro", "ro") as reader:
        assert (reader.path / "v/1.1").read_bytes() == part(new, 1, 1).tobytes()
        assert (reader.path / "v/0.0").read_bytes() == part(ARRAY, 0, 0).tobytes()
    assert (digest(v), digest(log)) == before
    codecfs("--recover", v)
    assert not log.exists()
    expected = ARRAY.copy()
    expected[10:20, 50:] = part(new, 1, 1)
    assert np.array_equal(values(v), expected)
    run("h5dump", "-d", "/v", v)
    with mounted(v, tmp_path / "again") as again:
        (again.path / "v/0.0").write_bytes(part(new, 0, 0).tobytes())
    expected[0:10, :50] = part(new, 0, 0)
    assert np.array_equal(values(v), expected)


def test_mount_recovers(mount, v, tmp_path):
    """A writable mount goes on from the log of a killed one."""
    m = mount(v, "commit=3600")
    for i in range(4):
        write_synced(m.path / f"v/{i}.0", bytes([i + 1]) * 2000)
    m.kill()
    with mounted(v, tmp_path / "again") as again:
        assert (again.path / "v/3.0").read_bytes() == b"\x04" * 2000
        (again.path / "v/0.1").write_bytes(b"\x09" * 2000)
    assert not (v.parent / WAL.format(v.name)).exists()
    result = values(v)
    assert part(result, 2, 0).tobytes() == b"\x03" * 2000 and part(result, 0, 1).tobytes() == b"\x09" * 2000


def test_log_of_an_edited_source_is_refused(mount, v, tmp_path):
    m = mount(v, "commit=3600")
    write_synced(m.path / "v/1.1", bytes(2000))
    m.kill()
    with h5py.File(v, "r+") as f:
        f["v"][0, 0] = 77
    log = v.parent / WAL.format(v.name)
    before = digest(v), digest(log)
    for command in ([CODECFS, "-o", "nonempty", str(v), str(tmp_path)], [CODECFS, "--recover", str(v)], [CODECFS, "--check", str(v)]):
        done = run(*command, code=32)
        assert log.name in done.stderr and done.stderr.count("\n") == 1, done
    assert (digest(v), digest(log)) == before


def test_one_writer(mount, v, tmp_path):
    """A writer has the source alone: a second mount is refused meanwhile, and a reader that is there keeps writers out."""
    first = mount(v)
    reader = mount(v, "ro")
    with pytest.raises(OSError) as failure:
        (first.path / "v/0.0").write_bytes(bytes(2000))
    assert failure.value.errno == errno.EBUSY, failure.value
    assert (first.path / "v/0.0").read_bytes() == part(ARRAY, 0, 0).tobytes()
    assert v.name in xattr(first.path / "v/0.0", "_Error")
    reader.close()
    write_synced(first.path / "v/0.0", b"\x03" * 2000)
    done = codecfs("-o", "nonempty", v, tmp_path, code=32)
    assert v.name in done.stderr
    with pytest.raises(OSError):
        h5py.File(v, "r+")
    first.close()
    assert part(values(v), 0, 0).tobytes() == b"\x03" * 2000


def test_no_space(mount, small_disk):
    """A full disk: reported, the file stays as it was at the last commit, the mount goes on."""
    disk = small_disk("6m")
    with h5py.File(disk / "a.h5", "w") as f:
        f.create_dataset("v", shape=(16, 1 << 18), dtype="<i4", chunks=(1, 1 << 18))
        f["v"][0] = 1
    m = mount(disk / "a.h5", "commit=3600")
    failed = 0
    for i in range(16):
        try:
            write_synced(m.path / f"v/{i}.0", np.full(1 << 18, i + 100, "<i4").tobytes())
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            failed += 1
    assert 0 < failed < 16
    assert "No space" in m.messages() or "space" in m.messages()
    first = np.frombuffer((m.path / "v/0.0").read_bytes(), "<i4")
    assert (first == 100).all()
    m.process.terminate()
    assert m.process.wait(60) != 0  # what could not be stored is told
    m.ended = True
    codecfs("--recover", disk / "a.h5", code=None)
    small_disk("100m")
    codecfs("--recover", disk / "a.h5")
    result = values(disk / "a.h5")
    assert (result[0] == 100).all()
    assert all((row == i + 100).all() or (row == 0).all() for i, row in enumerate(result))


def test_terminating_keeps_mapped_pages(mount, v):
    """SIGTERM with a dirty page that was not synced: it is asked for, and stored."""
    m = mount(v)
    with open(m.path / "v/2.1", "r+b") as f:
        map_ = mmap.mmap(f.fileno(), 0)
    map_[0:4] = b"TERM"
    m.process.send_signal(signal.SIGTERM)
    assert m.process.wait(60) == 0
    m.ended = True
    assert part(values(v), 2, 1).tobytes()[:4] == b"TERM"


def test_umount_waits_and_tells(tmp_path, v):
    """umount.fuse.codecfs returns when everything is in the file."""
    point = tmp_path / "mnt"
    point.mkdir()
    helper = tmp_path / "umount.fuse.codecfs"
    helper.symlink_to(CODECFS)
    codecfs("-o", "commit=3600", v, point)
    (point / "v/0.0").write_bytes(b"\x05" * 2000)
    run(helper, point)
    assert not is_mounted(point)
    assert part(values(v), 0, 0).tobytes() == b"\x05" * 2000
    assert not (v.parent / WAL.format(v.name)).exists()
    done = run(helper, point, code=None)
    assert done.returncode != 0
    run(helper, code=1)


def test_rsync_tar_and_cp(mount, v, tmp_path):
    m = mount(v)
    new = tmp_path / "new"
    new.mkdir()
    for i in range(4):
        for j in range(2):
            (new / f"{i}.{j}").write_bytes(part(ARRAY + 5, i, j).tobytes())
            os.utime(new / f"{i}.{j}", (1_600_000_000 + i, 1_600_000_000 + i))
    if shutil.which("rsync"):
        flags = ["-a", "--no-owner", "--no-group", "--no-perms", "--itemize-changes"]
        assert ">f" in run("rsync", *flags, f"{new}/", m.path / "v/").stdout
        assert ">f" not in run("rsync", *flags, f"{new}/", m.path / "v/").stdout
        assert (m.path / "v/1.1").read_bytes() == part(ARRAY + 5, 1, 1).tobytes()
    run("cp", "--preserve=timestamps", new / "0.0", new / "0.1", m.path / "v")
    assert os.stat(m.path / "v/0.0").st_mtime == 1_600_000_000
    for i in range(4):
        for j in range(2):
            (new / f"{i}.{j}").write_bytes(part(ARRAY + 9, i, j).tobytes())
    run("tar", "cf", tmp_path / "new.tar", "-C", new, *os.listdir(new))
    run("tar", "xf", tmp_path / "new.tar", "--no-same-permissions", "--no-same-owner", "-C", m.path / "v")
    m.close()
    assert np.array_equal(values(v), ARRAY + 9)


def test_zarr_python_writes(mount, v):
    """zarr-python assigns into a mounted HDF5 file, in whole chunks and across their borders."""
    import zarr
    m = mount(v)
    array = zarr.open(str(m.path), mode="r+")["v"]
    expected = ARRAY.copy()
    array[...] = expected = expected * 2
    array[5:25, 30:70] = -3
    expected[5:25, 30:70] = -3
    assert np.array_equal(array[...], expected)
    m.close()
    assert np.array_equal(values(v), expected)


def test_readers_during_writes(mount, v):
    """A chunk that is rewritten again and again is always one of its states, and never another chunk's bytes."""
    m = mount(v, "cache=1M", "commit=1")
    states = [bytes([value]) * 2000 for value in range(1, 9)]
    stop = threading.Event()
    wrong = []

    def reader(i):
        buffer = mmap.mmap(-1, 4096)
        while not stop.is_set():
            # From the daemon: the kernel's page cache itself lets readers see half of a write.
            fd = os.open(m.path / f"v/{i % 4}.{i % 2}", os.O_RDONLY | os.O_DIRECT)
            content = buffer[:os.preadv(fd, [buffer], 0)]
            os.close(fd)
            if content != part(ARRAY, i % 4, i % 2).tobytes() and content not in states:
                wrong.append(content[:16])

    threads = [threading.Thread(target=reader, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 4
    turn = 0
    while time.monotonic() < deadline:
        for i in range(4):
            for j in range(2):
                fd = os.open(m.path / f"v/{i}.{j}", os.O_RDWR)
                os.pwrite(fd, states[turn % 8], 0)
                if turn % 3 == 0:
                    os.fsync(fd)
                os.close(fd)
        turn += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and turn > 5
    m.close()
    run("h5dump", "-d", "/v", v)


def test_many_chunks_and_a_small_limit(mount, tmp_path):
    """More dirty bytes than are allowed: writers wait, memory stays bounded, everything arrives."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=(256, 1 << 16), dtype="<f4", chunks=(1, 1 << 16), compression="gzip", shuffle=True)
    m = mount(path, "dirty=4M", "cache=4M")
    rows = np.random.default_rng(3).integers(0, 100, (256, 1 << 16)).astype("<f4")

    def writer(start):
        for i in range(start, 256, 4):
            (m.path / f"v/{i}.0").write_bytes(rows[i].tobytes())

    threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not os.environ.get("CODECFS_SANITIZE"):
        assert m.resident_peak() < 200 << 20
    for i in (0, 17, 255):
        assert (m.path / f"v/{i}.0").read_bytes() == rows[i].tobytes()
    m.close()
    assert np.array_equal(values(path), rows)


@pytest.mark.parametrize("seed", range(3))
def test_random_operations_against_a_model(mount, source, seed):
    """Writes, truncations, removals and renames at random, by several handles, checked against plain byte strings."""
    rng = np.random.default_rng(seed)
    m = mount(source, "commit=1", "dirty=1M", env={"HDF5_PLUGIN_PATH": OURS})
    names = ["deflate", "zstd", "none", "checked", "contiguous"]
    model = {}
    for name in names[:-1]:
        for i in range(4):
            for j in range(2):
                model[f"{name}/{i}.{j}"] = bytearray(part(ARRAY, i, j).tobytes())
    model["contiguous/0.0"] = bytearray(ARRAY.tobytes())
    keys = list(model)
    for step in range(300 // SLOW):
        key = keys[rng.integers(len(keys))]
        path = m.path / key
        size = len(model[key])
        kind = rng.integers(7)
        if kind <= 2:
            offset = int(rng.integers(size))
            data = rng.bytes(int(rng.integers(1, size - offset + 1)))
            with open(path, "r+b") as f:
                f.seek(offset)
                f.write(data)
                f.flush()
                if rng.integers(4) == 0:
                    os.fsync(f.fileno())
            model[key][offset:offset + len(data)] = data
        elif kind == 3:
            length = int(rng.integers(size + 1))
            os.truncate(path, length)
            model[key][length:] = bytes(size - length)
        elif kind == 4 and key != "contiguous/0.0":
            os.unlink(path)
            assert not path.exists()
            data = rng.bytes(size)
            path.write_bytes(data)
            model[key][:] = data
        elif kind == 5:
            data = rng.bytes(size)
            temporary = path.with_name(f".tmp{step}")
            temporary.write_bytes(data)
            os.replace(temporary, path)
            model[key][:] = data
        else:
            assert path.read_bytes() == model[key], (step, key)
        if rng.integers(10) == 0:
            assert path.read_bytes() == model[key], (step, key, kind)
    for key in keys:
        assert (m.path / key).read_bytes() == model[key], key
    m.close()
    for name in names[:-1]:
        result = values(source, name)
        for i in range(4):
            for j in range(2):
                assert part(result, i, j).tobytes() == model[f"{name}/{i}.{j}"], (name, i, j)
    assert values(source, "contiguous").tobytes() == model["contiguous/0.0"]


def test_masks_change_with_and_without_the_size(mount, tmp_path):
    """A chunk that LZF does not make smaller is stored without it, also in the place and the size of one that it did."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        data = f.create_dataset("v", shape=(2, 1000), dtype="u1", chunks=(1, 1000), compression="lzf", maxshape=(None, None))
        data.id.write_direct_chunk((0, 0), b"x" * 1000, 0)  # no LZF stream, but of the size that is to come
    rng = np.random.default_rng(5)
    m = mount(path)
    for content in (rng.bytes(1000), bytes(1000), rng.bytes(1000), rng.bytes(1000)):
        (m.path / "v/0.0").write_bytes(content)
        write_synced(m.path / "v/0.0", content)
        assert xattr(m.path / "v/0.0", "_FilterMask") == ("0" if content == bytes(1000) else "1")
        with open(m.path / "v/0.0", "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert f.read() == content
    m.close()
    assert values(path)[0].tobytes() == content
    with h5py.File(path) as f:
        assert f["v"].id.get_chunk_info(0).filter_mask == 1


@pytest.mark.parametrize("engine", ["psync", "mmap"])
@pytest.mark.parametrize("pattern", ["write", "randwrite", "randrw"])
def test_fio_verifies(mount, tmp_path, engine, pattern):
    """fio writes blocks with checksums into chunk files and reads them back, in the mount and from a second one."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=(4, 1 << 20), dtype="u1", chunks=(1, 1 << 20), compression="gzip", compression_opts=1)
    job = ["fio", "--name=chunks", "--filename=" + ":".join(f"v/{i}.0" for i in range(4)), f"--rw={pattern}", "--bs=4k",
           f"--ioengine={engine}", "--size=4m", "--filesize=1m", "--verify=crc32c", "--do_verify=1", "--fallocate=none",
           "--overwrite=1", "--randseed=7", "--file_service_type=sequential"]
    m = mount(path, "commit=1")
    run(*job, cwd=m.path)
    for state in m.path.glob("*.state"):
        state.unlink()
    contents = [(m.path / f"v/{i}.0").read_bytes() for i in range(4)]
    assert all(any(content) for content in contents)
    m.close()
    assert [row.tobytes() for row in values(path)] == contents


def test_plugins_encode(mount, tmp_path):
    """With -o builtin=off the plugins of Debian encode as well; h5py reads what they made with them."""
    import glob
    debian = os.path.dirname(glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5bz2.so")[0])
    chains = {name: CHAINS[name] for name in ("bzip2", "lz4", "lz4_small", "blosc")}
    path = tmp_path / "a.h5"
    program = f"""
import h5py, numpy
data = numpy.arange(4000, dtype="<i4").reshape(40, 100)
with h5py.File({str(path)!r}, "w") as f:
    for name, options in {chains!r}.items():
        f.create_dataset(name, data=data, chunks=(10, 50), **options)
    f.create_dataset("zfp", data=data.astype("f8"), chunks=(10, 50), compression=32013,
                     compression_opts=(1, 0, *numpy.array([32.0]).view("<u4").tolist()))
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": debian})
    m = mount(path, "builtin=off:307:32004:32001", env={"HDF5_PLUGIN_PATH": debian})
    new = ARRAY * 7 - 5
    for name in chains:
        for i in range(4):
            for j in range(2):
                (m.path / name / f"{i}.{j}").write_bytes(part(new, i, j).tobytes())
                assert (m.path / name / f"{i}.{j}").read_bytes() == part(new, i, j).tobytes()
    (m.path / "zfp/1.1").write_bytes(part(new, 1, 1).astype("<f8").tobytes())
    workers = set(processes_of(m.process.pid)) - {m.process.pid}
    assert any(debian in open(f"/proc/{pid}/maps").read() for pid in workers)
    m.close()
    for name in chains:
        assert np.array_equal(values(path, name, debian), new), name
    assert np.allclose(part(values(path, "zfp", debian), 1, 1), part(new, 1, 1), rtol=1e-3)


REWRITTEN = sorted(p.name for p in (DATA / "hdf5").iterdir() if p.suffix in (".h5", ".nc") and not p.name.startswith("damaged"))


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewriting_every_chunk_changes_nothing(mount, tmp_path, name):
    """Every chunk of every kind of file that we can make is written back as it was read: h5dump sees no difference."""
    folder = tmp_path / "hdf5"
    shutil.copytree(DATA / "hdf5", folder)
    path = folder / name

    def dump():
        done = run("h5dump", name, cwd=folder, env={"HDF5_PLUGIN_PATH": OURS}, code=None, text=False)
        return without_pointers(done.stdout.decode(errors="surrogateescape"))

    before = dump()
    m = mount(path, env={"HDF5_PLUGIN_PATH": OURS})
    written = refused = 0
    for directory, _, names in os.walk(m.path):
        chunks = [n for n in names if n[0].isdigit()]
        for chunk in chunks[:200]:
            file = pathlib.Path(directory, chunk)
            try:
                content = file.read_bytes()
                file.write_bytes(content)
            except OSError as error:
                assert error.errno in (errno.EOPNOTSUPP, errno.EIO), (file, error)
                refused += 1
                continue
            assert file.read_bytes() == content
            written += 1
    m.close()
    assert dump() == before
    assert written or name in ("external_files.h5", "virtual_dataset.h5") or not refused


def test_closed_means_queued(mount, v):
    """What one handle closed is stored in time, also while another goes on; and what was written through a file that became
    a chunk."""
    m = mount(v, "commit=1")
    a = os.open(m.path / "v/0.0", os.O_RDWR)
    with open(m.path / "v/0.0", "r+b") as f:
        f.write(b"BBBB")
    os.pwrite(a, b"x", 100)
    temporary = os.open(m.path / "v/.new", os.O_RDWR | os.O_CREAT)
    os.write(temporary, bytes(2000))
    os.rename(m.path / "v/.new", m.path / "v/1.1")
    os.pwrite(temporary, b"late", 8)
    assert (m.path / "v/1.1").read_bytes()[:12] == bytes(8) + b"late"
    os.close(temporary)
    deadline = time.monotonic() + 20 * SLOW
    while m.stats()["dirty_bytes"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert m.stats()["dirty_bytes"] == 0
    time.sleep(1.5)  # the commit after it
    m.kill()
    with contextlib.suppress(OSError):
        os.close(a)  # of a dead mount
    codecfs("--recover", v)
    result = values(v)
    assert part(result, 0, 0).tobytes()[:4] == b"BBBB"
    assert part(result, 1, 1).tobytes() == bytes(8) + b"late" + bytes(1988)


def test_bad_strings_do_not_affect_other_variables(mount, source):
    """A chunk that cannot be encoded is told to its own writers; others go on, although it fills memory."""
    m = mount(source, "dirty=1M", env={"HDF5_PLUGIN_PATH": OURS})
    (m.path / "text/0").write_bytes(b"abc")
    for turn in range(30):
        for i in range(4):
            for j in range(2):
                (m.path / f"deflate/{i}.{j}").write_bytes(part(ARRAY + turn, i, j).tobytes())
    with pytest.raises(OSError) as failure:
        fd = os.open(m.path / "text/0", os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    assert failure.value.errno == errno.EINVAL and "vlen-utf8" in xattr(m.path / "text/0", "_Error")
    from numcodecs import VLenUTF8
    (m.path / "text/0").write_bytes(VLenUTF8().encode(np.array(["a", "b", "c", "d"], dtype=object)))
    m.close()
    assert np.array_equal(values(source, "deflate"), ARRAY + 29)
    with h5py.File(source) as f:
        assert [t.decode() for t in f["text"][()]] == ["a", "b", "c", "d"]


def test_a_failed_unlink_keeps_what_was_written(mount, small_disk):
    disk = small_disk("5m")
    with h5py.File(disk / "a.h5", "w") as f:
        f.create_dataset("v", shape=(4, 1 << 18), dtype="<i4", chunks=(1, 1 << 18))
        f["v"][0] = 1
        f.create_dataset("small", shape=(10,), dtype="<i4", chunks=(10,))
    m = mount(disk / "a.h5", "commit=3600")
    write_synced(m.path / "small/0", bytes(40))  # the log is there, and takes less than a chunk of v needs
    ballast = disk / "ballast"
    run("dd", "if=/dev/zero", f"of={ballast}", "bs=4k", "count=4000", code=None, text=False)
    new = b"\x02" * (1 << 20)
    fd = os.open(m.path / "v/0.0", os.O_WRONLY)
    os.write(fd, new)
    with pytest.raises(OSError) as failure:
        os.fsync(fd)
    assert failure.value.errno == errno.ENOSPC
    with pytest.raises(OSError):
        os.unlink(m.path / "v/0.0")
    ballast.unlink()
    small_disk("60m")
    os.fsync(fd)
    os.close(fd)
    m.close()
    assert values(disk / "a.h5")[0].tobytes() == new
