"""Zarr stores in zip archives: what is true of a directory is true of an archive. What others write there is read here, what is
written here is read by others, and nothing that a hostile or damaged archive says does harm."""
import errno
import os
import shutil
import signal
import struct
import threading
import time
import zipfile
import zlib

import numcodecs
import numpy as np
import pytest
import zarr

import zips
from compare import same_values
from conftest import DATA, detach, mounted, xattr
from running import codecfs, run
from zarr_sources import arrays, attributes, check_array

STORES = sorted(p for p in (DATA / "zarr").iterdir() if not p.name.startswith("damaged") and p.name != "links")
ARRAY = np.arange(4000, dtype="<i4").reshape(40, 100)


def chunk_files(store):
    """Every chunk of a store by the name of its array, as the mount decodes it."""
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*"))
            if p.is_file() and ".codecfs" not in p.parts and p.name not in ("_Progress",)}


def leftovers(directory):
    return [name for name in os.listdir(directory) if ".codecfs-" in name]


# --- Reading.

@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """What a mount shows of each store that is a directory."""
    place, shown = tmp_path_factory.mktemp("directories"), {}
    for store in STORES:
        with mounted(store, place / "mnt") as m:
            shown[store] = chunk_files(m.path)
    return shown


@pytest.mark.parametrize("way", zips.WAYS)
def test_an_archive_shows_what_the_directory_shows(tmp_path, directories, way):
    for store in STORES:
        path = zips.pack(store, tmp_path / f"{store.name}.zip", way)
        before = path.read_bytes()
        with mounted(path, tmp_path / "z") as archive:
            wanted = directories[store]
            assert wanted and chunk_files(archive.path) == wanted, store.name
        assert path.read_bytes() == before


@pytest.mark.parametrize("way", ["zarr_python", "netcdf_c"])
def test_every_chunk_is_what_zarr_reads(mount, tmp_path, way):
    for store in STORES:
        if store.name.startswith("nczarr"):
            continue
        path = zips.pack(store, tmp_path / f"{store.name}.zip", way)
        m = mount(path)
        source, shown = zips.open_zip(path), zarr.open(str(m.path), "r")
        if isinstance(source, zarr.Array):
            check_array(m, m.path, source)
            continue
        prefix = source.path + "/" if source.path else ""
        for name, array in arrays(source):
            name = array.path.removeprefix(prefix)
            check_array(m, m.path / name, array)
            assert same_values(shown[name][...], array[...]), name
            assert attributes(shown[name]) == attributes(array), name
        m.close()


def with_backslashes(store, path, host):
    """As .NET Framework before 4.6.1 separates names. `host`: who made it, 0 FAT, 3 Unix."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, name in zips.files_of(store):
            info = zipfile.ZipInfo(name.replace("/", "\\"))
            info.create_system = host
            archive.writestr(info, file.read_bytes())
    return path


@pytest.mark.parametrize("host", [0, 3])
def test_backslashes_separate_names(mount, tmp_path, directories, host):
    tried = 0
    for store in STORES:
        if not any((store / name).exists() for name in (".zgroup", ".zarray", "zarr.json")):
            continue
        path = with_backslashes(store, tmp_path / f"{store.name}.zip", host)
        before = path.read_bytes()
        m = mount(path)
        assert chunk_files(m.path) == directories[store], store.name
        m.close()
        assert path.read_bytes() == before
        tried += 1
    assert tried > 3


def test_backslashes_do_not_lead_out_of_the_archive(mount, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in ((".zgroup", b'{"zarr_format": 2}'), ("v\\.zarray", ZARRAY), ("v\\0", CHUNK), ("..\\..\\escape", b"harm"),
                              ("v\\\\9", b"harm"), ("v\\.zarray\\9", b"harm")):
            archive.writestr(name, content)
    m = mount(path)
    assert (m.path / "v/0").read_bytes() == CHUNK and "left out" in m.messages()
    assert {p.name for p in (m.path / "v").iterdir()} - {".zattrs", ".zarray", "_Filter", "_Codecs"} == {"0"}
    before = path.read_bytes()
    with pytest.raises(OSError) as failure:
        (m.path / "v/0").write_bytes(CHUNK[::-1])
    assert failure.value.errno == errno.EROFS
    m.close()
    assert path.read_bytes() == before and not list(tmp_path.rglob("*escape*"))


def test_the_last_of_two_entries_counts(mount, tmp_path):
    """zarr-python's ZipStore writes a chunk again by appending it."""
    path = tmp_path / "s.zip"
    store = zarr.ZipStore(str(path), mode="w")
    array = zarr.open_group(store, "w").create_dataset("v", data=ARRAY, chunks=(40, 100), compressor=None)
    with pytest.warns(UserWarning, match="Duplicate"):
        array[...] = ARRAY * 2
    store.close()
    m = mount(path)
    assert (m.path / "v/0.0").read_bytes() == (ARRAY * 2).tobytes()
    assert "more than once" in m.messages()
    (m.path / "v/.zattrs").write_text('{"a": 1}')
    m.close()
    zips.check(path)
    assert np.array_equal(zips.open_zip(path)["v"][...], ARRAY * 2) and zips.open_zip(path)["v"].attrs["a"] == 1


def test_many_readers_at_once(mount, tmp_path):
    path = tmp_path / "s.zip"
    data = np.random.default_rng(1).integers(0, 100, (64, 1000), dtype="<i4")
    store = zarr.ZipStore(str(path), mode="w")
    zarr.open_group(store, "w").create_dataset("v", data=data, chunks=(1, 1000), compressor=numcodecs.Zlib(1))
    store.close()
    m = mount(path)
    wrong = []

    def read(seed):
        for i in np.random.default_rng(seed).permutation(64):
            if (m.path / f"v/{i}.0").read_bytes() != data[i].tobytes():
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- Writing.

@pytest.fixture
def small(tmp_path):
    """A function small(way) that makes an archive with the arrays v and w in a group, and a file that is not Zarr's."""

    def make(way="zarr_python"):
        directory = tmp_path / "plain"
        shutil.rmtree(directory, ignore_errors=True)
        group = zarr.open_group(str(directory), "w")
        for name in "vw":
            group.create_dataset(name, data=ARRAY, chunks=(10, 50), compressor=numcodecs.Zlib(1))
        group.create_group("g/h").attrs["k"] = "ä"
        (directory / "README").write_text("not Zarr's")
        zarr.consolidate_metadata(str(directory))
        path = tmp_path / f"{way}.zip"
        path.unlink(missing_ok=True)
        return zips.pack(directory, path, way)

    return make


@pytest.mark.parametrize("way", zips.WAYS)
def test_all_kinds_of_changes(mount, tmp_path, small, way):
    path = small(way)
    os.chmod(path, 0o640)
    root = zips.root_in(path)
    with zipfile.ZipFile(path) as archive:
        before = {name: archive.getinfo(name) for name in archive.namelist()}
    m = mount(path)
    (m.path / "v/0.0").write_bytes((ARRAY[:10, :50] + 5).tobytes())
    os.unlink(m.path / "v/3.1")
    os.setxattr(m.path / "w", "user._Filter", b"307,9")
    os.setxattr(m.path / "w", "user.units", b"m")
    (m.path / "new").mkdir()
    zarr.open_group(str(m.path), "a").create_dataset("new/x", data=ARRAY[0], chunks=30, compressor=None)
    os.rename(m.path / "g/h", m.path / "new/moved")
    os.rmdir(m.path / "g")
    # All of it is seen before it is stored, and after.
    for _ in range(2):
        assert (m.path / "v/0.0").read_bytes() == (ARRAY[:10, :50] + 5).tobytes()
        assert not (m.path / "v/3.1").exists()
        assert sorted(p.name for p in m.path.iterdir() if p.is_dir()) == ["new", "v", "w"]
        assert xattr(m.path / "w", "_Filter") == "307,9"
        os.sync()
        fd = os.open(m.path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    m.close()
    zips.check(path)
    assert not leftovers(tmp_path) and path.stat().st_mode & 0o777 == 0o640
    group = zips.open_zip(path)
    expected = ARRAY.copy()
    expected[:10, :50] += 5
    expected[30:, 50:] = 0
    assert np.array_equal(group["v"][...], expected)
    assert np.array_equal(group["w"][...], ARRAY) and group["w"].compressor.codec_id == "bz2" and group["w"].attrs["units"] == "m"
    assert np.array_equal(group["new/x"][...], ARRAY[0]) and group["new/moved"].attrs["k"] == "ä" and "g" not in group
    consolidated = zarr.open_consolidated(zarr.ZipStore(str(path), mode="r")) if not root else None
    if consolidated is not None:
        assert "new/x" in consolidated and "g" not in consolidated and consolidated["w"].attrs["units"] == "m"
    # What was not changed is as it was, bytes, times and place in the tree.
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert {name.split("/")[0] for name in names} == {root} if root else ".zgroup" in names
        prefix = root + "/" if root else ""
        assert archive.read(prefix + "README") == b"not Zarr's"
        for name in (prefix + "v/1.0", prefix + "README", prefix + ".zgroup"):
            old, new = before[name], archive.getinfo(name)
            for field in ("compress_type", "compress_size", "file_size", "CRC", "date_time", "external_attr", "create_system"):
                assert getattr(old, field) == getattr(new, field), (name, field)
        if way == "netcdf_c":
            assert names[0] == "top/" and "top/new/x/" in names
    with mounted(path, tmp_path / "again") as again:
        assert (again.path / "new/x/3").read_bytes() == ARRAY[0, 90:].tobytes() + bytes(80)


@pytest.mark.parametrize("way", ["zarr_python", "streamed"])
def test_encoded_chunks_pass_as_they_are(mount, tmp_path, small, way):
    path = small(way)
    m = mount(path)
    encoded = m.path / ".codecfs/view/encoded"
    with zipfile.ZipFile(path) as archive:
        wanted = {name: archive.read(name) for name in archive.namelist() if name.startswith("v/") and name[2].isdigit()}
    assert len(wanted) == 8 and all((encoded / name).read_bytes() == data for name, data in wanted.items())
    assert m.stats()["chunks_decoded"] == 0
    (encoded / "w/0.0").write_bytes(wanted["v/3.1"])
    m.close()
    zips.check(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("w/0.0") == wanted["v/3.1"]
    assert np.array_equal(zips.open_zip(path)["w"][:10, :50], ARRAY[30:, 50:])


@pytest.mark.parametrize("way", zips.WAYS)
def test_every_store_is_unchanged_when_it_is_rewritten(tmp_path, way):
    place = list(zips.WAYS).index(way)
    for store in STORES[place % 3::3]:  # each store in two ways
        path = zips.pack(store, tmp_path / f"{store.name}.zip", way)
        with mounted(path, tmp_path / "m") as m:
            wanted = chunk_files(m.path)
        done = codecfs("--compact", path)
        assert "bytes" in done.stdout, done.stderr
        zips.check(path)
        with mounted(path, tmp_path / "m") as m:
            assert chunk_files(m.path) == wanted, store.name


def test_only_fsync_and_the_end_rewrite_a_large_archive(mount, tmp_path):
    path = tmp_path / "large.zip"
    store = zarr.ZipStore(str(path), mode="w")
    data = np.frombuffer(np.random.default_rng(1).bytes(66 << 20), "u1").reshape(66, 1 << 20)
    zarr.open_group(store, "w").create_dataset("v", data=data, chunks=(1, 1 << 20), compressor=None)
    store.close()
    inode = path.stat().st_ino
    m = mount(path, "commit=1")
    (m.path / "v/0.0").write_bytes(bytes(1 << 20))
    time.sleep(2.5)
    assert path.stat().st_ino == inode and (m.path / "v/0.0").read_bytes() == bytes(1 << 20)
    fd = os.open(m.path / "v/0.0", os.O_RDWR)
    os.fsync(fd)
    assert path.stat().st_ino != inode
    inode = path.stat().st_ino
    os.pwrite(fd, b"abc", 5)
    os.close(fd)
    m.close()
    assert path.stat().st_ino != inode
    zips.check(path)
    assert zips.open_zip(path)["v"][0].tobytes() == bytes(5) + b"abc" + bytes((1 << 20) - 8)


def test_a_small_archive_is_rewritten_at_intervals(mount, small):
    path = small()
    inode = path.stat().st_ino
    m = mount(path, "commit=1")
    (m.path / "v/0.0").write_bytes(bytes(2000))
    deadline = time.monotonic() + 20
    while path.stat().st_ino == inode and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (zips.open_zip(path)["v"][:10, :50] == 0).all()
    m.kill()
    zips.check(path)


def test_untouched_where_nothing_is_written(mount, small):
    path = small()
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    for options in ([], ["ro"]):
        m = mount(path, *options)
        chunk_files(m.path)
        if options:
            with pytest.raises(OSError) as failure:
                (m.path / "v/0.0").write_bytes(bytes(2000))
            assert failure.value.errno == errno.EROFS
        m.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_one_writer(mount, small):
    path = small()
    first, other = mount(path), mount(path, "ro")
    fd = os.open(first.path / "v/0.0", os.O_WRONLY)
    with pytest.raises(OSError) as failure:
        os.write(fd, bytes(2000))
    assert failure.value.errno == errno.EBUSY
    other.close()
    assert os.write(fd, bytes(2000)) == 2000
    os.fsync(fd)
    # The lock is on the archive that is there now.
    late = mount(path)
    with pytest.raises(OSError) as failure:
        (late.path / "v/0.0").write_bytes(bytes(2000))
    assert failure.value.errno == errno.EBUSY
    os.close(fd)
    first.close()
    assert (zips.open_zip(path)["v"][:10, :50] == 0).all()


def test_an_archive_that_another_program_replaced(mount, small):
    """What the other wrote stays, and the user hears that his own was not stored."""
    path = small()
    m = mount(path, "commit=3600")
    with open(m.path / "v/0.0", "r+b") as file:
        file.write(bytes(2000))
        file.flush()
        other = path.with_name("other.zip")
        shutil.copy(path, other)
        os.replace(other, path)
        content = path.read_bytes()
        with pytest.raises(OSError) as failure:
            os.fsync(file.fileno())
        assert failure.value.errno == errno.ESTALE
    with pytest.raises(RuntimeError, match="replaced"):
        m.close()
    # His own is beside it.
    rescued = path.with_name(path.name + ".codecfs-rescued")
    assert path.read_bytes() == content and leftovers(path.parent) == [rescued.name]
    v = zarr.open_group(zarr.ZipStore(str(rescued), mode="r"), "r")["v"]
    assert not v[tuple(slice(0, length) for length in v.chunks)].any()


def test_an_archive_to_which_another_program_appended(mount, small):
    path = small()
    m = mount(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more", "x")
    content = path.read_bytes()
    with pytest.raises(OSError) as failure:
        (m.path / "v/0.0").write_bytes(bytes(2000))
    assert failure.value.errno == errno.ESTALE
    m.close()
    assert path.read_bytes() == content


def test_killed_at_any_time(mount, tmp_path, small):
    """The archive is that of a commit: what was synced is in it, and each chunk has one of the contents it was given."""
    path = small()
    synced = 0
    rng = np.random.default_rng(3)
    for round_ in range(12):
        m = mount(path, "commit=1")
        stop = threading.Event()
        done = []

        def write():
            number = synced
            try:
                while not stop.is_set():
                    number += 1
                    fd = os.open(m.path / "v/0.0", os.O_WRONLY)
                    os.write(fd, np.full(500, number, "<i4").tobytes())
                    os.fsync(fd)
                    done.append(number)
                    os.close(fd)
            except OSError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(0.05 + 0.3 * rng.random())
        m.process.send_signal(signal.SIGKILL)
        stop.set()
        m.process.wait(60)
        detach(m.path)
        m.ended = True
        writer.join()
        zips.check(path)
        got = zips.open_zip(path)["v"][...]
        assert np.array_equal(got[10:], ARRAY[10:])
        if done:
            assert (got[:10, :50] == got[0, 0]).all() and got[0, 0] in (done[-1], done[-1] + 1), (got[0, 0], done[-1])
            synced = int(got[0, 0])
    with mounted(path, tmp_path / "again") as again:
        (again.path / "v/0.0").write_bytes(bytes(2000))
    assert not leftovers(tmp_path)


def test_a_full_disk(mount, tmp_path, small):
    """No room for the new archive: the old one stays whole, the user is told, and may go on when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk)
    try:
        path = disk / "s.zip"
        store = zarr.ZipStore(str(path), mode="w")
        zarr.open_group(store, "w").create_dataset("v", data=np.frombuffer(np.random.default_rng(1).bytes(1 << 20), "u1"), chunks=1 << 17,
                                                   compressor=None)
        store.close()
        content = path.read_bytes()
        (disk / "ballast").write_bytes(bytes(1200 << 10))
        m = mount(path, "commit=3600")
        fd = os.open(m.path / "v/0", os.O_RDWR)
        os.write(fd, b"\x07" * (1 << 17))
        with pytest.raises(OSError) as failure:
            os.fsync(fd)
        assert failure.value.errno == errno.ENOSPC
        assert path.read_bytes() == content and not leftovers(disk)
        assert (m.path / "v/1").read_bytes() == content[content.index((m.path / "v/1").read_bytes()):][:1 << 17]
        os.unlink(disk / "ballast")
        os.fsync(fd)
        os.close(fd)
        m.close()
        zips.check(path)
        assert (zips.open_zip(path)["v"][:1 << 17] == 7).all()
    finally:
        run("umount", "-l", disk)


def test_an_array_as_the_whole_archive(mount, tmp_path):
    for way in ("zarr_python", "netcdf_c"):
        directory = tmp_path / f"a_{way}"
        zarr.save_array(str(directory), ARRAY, chunks=(10, 50), compressor=numcodecs.Zlib(1))
        path = zips.pack(directory, tmp_path / f"{way}.zip", way)
        m = mount(path)
        os.setxattr(m.path, "user._Filter", b"2|307,4")
        (m.path / "0.0").write_bytes(bytes(2000))
        m.close()
        zips.check(path)
        array = zips.open_zip(path)
        expected = ARRAY.copy()
        expected[:10, :50] = 0
        assert array.compressor.codec_id == "bz2" and np.array_equal(array[...], expected)
        assert not leftovers(tmp_path)


def test_create(mount, tmp_path):
    path = tmp_path / "new.zip"
    m = mount(path, "create=zip,view=decoded")
    group = zarr.open_group(str(m.path), "a")
    group.create_dataset("slash", data=ARRAY, chunks=(10, 50), compressor=None)
    group.attrs["title"] = "new"
    m.close()
    zips.check(path)
    assert np.array_equal(zips.open_zip(path)["slash"][...], ARRAY) and zips.open_zip(path).attrs["title"] == "new"
    assert zipfile.ZipFile(path).namelist()[0] == ".zgroup"


def test_check_recover_and_compact(tmp_path, small):
    path = small("junk")
    for option in ("--check", "--recover"):
        done = codecfs(option, path)
        assert "old or the new" in done.stdout
    size = path.stat().st_size
    done = codecfs("--compact", path)
    assert path.stat().st_size < size - 10000
    zips.check(path)
    assert np.array_equal(zips.open_zip(path)["v"][...], ARRAY)
    content = path.read_bytes()
    done = codecfs("--compact", path)
    assert "cannot become smaller" in done.stdout and path.read_bytes() == content


def test_what_a_kill_left_is_removed(mount, tmp_path, small):
    path = small()
    left = [tmp_path / f".{path.name}.codecfs-4711-{i}" for i in range(3)]
    for file in left:
        file.write_bytes(b"half an archive")
    others = [tmp_path / f".other.zip.codecfs-4711-1", tmp_path / f".{path.name}.codecfs-4711-x"]
    for file in others:
        file.write_bytes(b"somebody else's")
    with mounted(path, tmp_path / "m", "ro") as m:
        (m.path / "v/0.0").read_bytes()
    assert all(file.exists() for file in left)
    m = mount(path)
    (m.path / "v/0.0").write_bytes(bytes(2000))
    m.close()
    assert not any(file.exists() for file in left) and all(file.exists() for file in others)


# --- Archives that lie. Each names what it does, and what is to come of it: a refusal, or what is contained.

def entry(name, data=b"", **more):
    return {"name": name, "data": data, **more}


def build(path, entries, *, prefix=b"", comment=b"", end=None):
    """An archive of which every number may be a lie."""
    out, central = bytearray(prefix), bytearray()
    for one in entries:
        name = one["name"] if isinstance(one["name"], bytes) else one["name"].encode()
        data = one["data"]
        crc = one.get("crc", zlib.crc32(one.get("plain", data)))
        size, stored = one.get("size", len(one.get("plain", data))), one.get("stored", len(data))
        method, flags = one.get("method", 0), one.get("flags", 0x800)
        told = one.get("offset", len(out) - len(prefix))
        if not one.get("no_local"):
            local = {"name": name, "crc": crc, "size": size, "stored": stored, "method": method, "flags": flags, **one.get("local", {})}
            out += struct.pack("<IHHHIIIIHH", one.get("signature", 0x04034B50), 20, local["flags"], local["method"], 0x21, local["crc"],
                               local["stored"], local["size"], len(local["name"]), len(local.get("extra", b"")))
            out += local["name"] + local.get("extra", b"") + data
        extra = one.get("extra", b"")
        central += struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 0x314, 20, flags, method, 0x21, crc, stored, size, len(name), len(extra), 0,
                               one.get("disk", 0), 0, one.get("external", 0o100644 << 16), told)
        central += name + extra
    at = len(out) - len(prefix)
    out += central
    fields = {"disk": 0, "count": len(entries), "bytes": len(central), "offset": at, **(end or {})}
    out += struct.pack("<IHHHHIIH", 0x06054B50, fields["disk"], fields["disk"], fields["count"], fields["count"], fields["bytes"],
                       fields["offset"], len(comment)) + comment
    path.write_bytes(out)
    return path


ZARRAY = (b'{"zarr_format": 2, "shape": [1000], "chunks": [1000], "dtype": "|u1", "compressor": null, "filters": null, "fill_value": 0, '
          b'"order": "C"}')
GOOD = [entry(".zgroup", b'{"zarr_format": 2}'), entry("v/.zarray", ZARRAY)]
CHUNK = bytes(range(250)) * 4


def deflate(data):
    compressor = zlib.compressobj(9, 8, -15)
    return compressor.compress(data) + compressor.flush()


def zip64(*values):
    return struct.pack("<HH", 1, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)


BOMB = deflate(bytes(64 << 20))
# The whole archive is refused: what the reason says.
REFUSED = {
    "overlapping": ([*GOOD, entry("v/0", CHUNK), entry("v/1", no_local=True, offset=100, stored=900, size=900)], {}, "overlap"),
    "same_bytes_twice": ([*GOOD, entry("v/0", CHUNK), entry("v/1", no_local=True, offset=0)], {}, "overlap"),
    "quoted_overlap": ([*GOOD, entry("v/0", CHUNK, stored=5000, size=5000), entry("v/1", bytes(6000))], {}, "overlap"),
    "offset_beyond": ([*GOOD, entry("v/0", CHUNK, offset=1 << 30)], {}, "outside"),
    "size_beyond": ([*GOOD, entry("v/0", CHUNK, stored=1 << 30, size=1 << 30)], {}, "outside"),
    "offset_64_wraps": ([*GOOD, entry("v/0", CHUNK, offset=0xFFFFFFFF, extra=zip64((1 << 64) - 100))], {}, "outside"),
    "size_64_wraps": ([*GOOD, entry("v/0", CHUNK, stored=0xFFFFFFFF, extra=zip64((1 << 64) - 100))], {}, "outside"),
    "zip64_missing": ([*GOOD, entry("v/0", CHUNK, size=0xFFFFFFFF)], {}, "missing"),
    "directory_beyond": (GOOD, {"end": {"bytes": 1 << 30}}, "outside"),
    "directory_offset_beyond": (GOOD, {"end": {"offset": 1 << 30}}, "outside"),
    "claims_many": (GOOD, {"end": {"count": 60000}}, "claims 60000"),
    "claims_few": ([*GOOD, entry("v/0", CHUNK)], {"end": {"count": 1}}, "more entries"),
    "claims_one_more": ([*GOOD, entry("x" * 60, b"")], {"end": {"count": 4}}, "3 entries"),
    "two_volumes": (GOOD, {"end": {"disk": 1}}, "several volumes"),
    "entry_of_another_volume": ([*GOOD, entry("v/0", CHUNK, disk=3)], {}, "several volumes"),
    "no_store": ([entry("a.txt", b"text")], {}, "without a Zarr store"),
    "two_stores": ([entry("x", b""), entry("a/.zgroup", b"{}"), entry("b/.zgroup", b"{}")], {}, "several"),
    "zarr_v3": ([entry("zarr.json", b"{}")], {}, "not 3"),
    "empty": ([], {}, "without a Zarr store"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    entries, more, reason = REFUSED[name]
    path = build(tmp_path / "bad.zip", entries, **more)
    (tmp_path / "m").mkdir()
    done = codecfs(path, tmp_path / "m", seconds=20, code=32)
    assert reason in done.stderr and "bad.zip" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


# The rest of the archive is shown: the error of v/0, None where it reads well; what is not shown at all.
CONTAINED = {
    "bomb_with_true_size": (entry("v/0", BOMB, method=8, plain=bytes(64 << 20)), errno.EIO),
    "bomb_with_false_size": (entry("v/0", BOMB, method=8, plain=bytes(64 << 20), size=1000), errno.EIO),
    "impossible_expansion": (entry("v/0", deflate(b"x"), method=8, plain=bytes(60000), size=60000), errno.EIO),
    "absurd_size": (entry("v/0", deflate(CHUNK), method=8, plain=CHUNK, size=0xFFFFFFF0), errno.EIO),
    "stored_with_another_size": (entry("v/0", CHUNK, size=1100), errno.EIO),
    "too_short": (entry("v/0", deflate(CHUNK), method=8, plain=CHUNK, size=1001), errno.EIO),
    "wrong_crc": (entry("v/0", CHUNK, crc=1), errno.EIO),
    "wrong_crc_deflated": (entry("v/0", deflate(CHUNK), method=8, plain=CHUNK, crc=1), errno.EIO),
    "no_deflate_stream": (entry("v/0", b"\xff" * 500, method=8, plain=CHUNK), errno.EIO),
    "no_local_header": (entry("v/0", CHUNK, signature=0x12345678), errno.EIO),
    "local_name": (entry("v/0", CHUNK, local={"name": b"v/1"}), errno.EIO),
    "local_size": (entry("v/0", CHUNK, local={"size": 999, "stored": 999}), errno.EIO),
    "local_crc": (entry("v/0", CHUNK, local={"crc": 5}), errno.EIO),
    "local_method": (entry("v/0", CHUNK, local={"method": 8}), errno.EIO),
    "local_encryption": (entry("v/0", CHUNK, local={"flags": 0x801}), errno.EIO),
    "local_zip64_missing": (entry("v/0", CHUNK, local={"size": 0xFFFFFFFF, "stored": 0xFFFFFFFF}), errno.EIO),
    "encrypted": (entry("v/0", CHUNK, flags=0x801), errno.EOPNOTSUPP),
    "unknown_method": (entry("v/0", CHUNK, method=93), errno.EOPNOTSUPP),
}
LEFT_OUT = {
    "traversal": "../../escape", "traversal_inside": "v/../../escape", "absolute": "/etc/escape", "nul": "v/a\0b", "not_utf8": b"v/\xff\xfe",
    "no_name": "", "dot": "v/./9", "double_slash": "v//9", "too_deep": "/".join("x" * 300), "file_as_directory": "v/.zarray/9",
    "link": None,
}


@pytest.mark.parametrize("name", CONTAINED)
def test_contained(mount, tmp_path, name):
    bad, code = CONTAINED[name]
    path = build(tmp_path / "bad.zip", [*GOOD, entry("w/.zarray", ZARRAY), entry("w/0", CHUNK), bad])
    before = path.read_bytes()
    m = mount(path)
    assert (m.path / "w/0").read_bytes() == CHUNK
    with pytest.raises(OSError) as failure:
        (m.path / "v/0").read_bytes()
    assert failure.value.errno == code and xattr(m.path / "v/0", "_Error")
    assert m.resident_peak() < 200 << 20
    if code == errno.EOPNOTSUPP:
        m.close()
        assert path.read_bytes() == before
        return
    # What is damaged is not copied as if it were not; without it all goes on.
    (m.path / "w/0").write_bytes(CHUNK[::-1])
    os.unlink(m.path / "v/0")
    m.close()
    zips.check(path)
    assert zips.open_zip(path)["w"][...].tobytes() == CHUNK[::-1]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_left_out(mount, tmp_path, name):
    bad = entry("v/link", b"/etc/passwd", external=0o120777 << 16) if name == "link" else entry(LEFT_OUT[name], b"harm")
    (tmp_path / "in").mkdir()
    path = build(tmp_path / "in/bad.zip", [*GOOD, entry("v/0", CHUNK), bad])
    before = path.read_bytes()
    m = mount(path)
    assert sorted(p.name for p in m.path.iterdir() if not p.name.startswith(".")) == ["v"]
    assert {p.name for p in (m.path / "v").iterdir()} - {".zattrs", ".zarray", "_Filter", "_Codecs"} == {"0"}
    assert (m.path / "v/0").read_bytes() == CHUNK
    assert "left out" in m.messages()
    with pytest.raises(OSError) as failure:
        (m.path / "v/0").write_bytes(CHUNK[::-1])
    assert failure.value.errno == errno.EROFS  # a commit would lose the entry
    m.close()
    assert path.read_bytes() == before and not list(tmp_path.rglob("*escape*"))


@pytest.mark.parametrize("keep", [1, 10, 21, 22, 40, 100, 250, 400])
def test_cut_off(tmp_path, keep):
    path = build(tmp_path / "bad.zip", [*GOOD, entry("v/0", CHUNK)])
    path.write_bytes(path.read_bytes()[:-keep])
    (tmp_path / "m").mkdir()
    done = codecfs(path, tmp_path / "m", seconds=20, code=32)
    assert "truncated" in done.stderr, done.stderr


def test_any_byte_changed(tmp_path):
    """Each byte of a small archive in turn: the mount says no, or every file reads as it should or says no."""
    good = build(tmp_path / "good.zip", [*GOOD, entry("v/0", deflate(CHUNK), method=8, plain=CHUNK)]).read_bytes()
    start = good.index(b"v/0") - 30
    rng = np.random.default_rng(5)
    for i in sorted({*rng.integers(start, len(good), 60), *range(len(good) - 22, len(good))}):
        bad = bytearray(good)
        bad[i] ^= 1 << rng.integers(0, 8)
        path = tmp_path / "bad.zip"
        path.write_bytes(bad)
        try:
            with mounted(path, tmp_path / "m", "ro") as m:
                try:
                    assert (m.path / "v/0").read_bytes() == CHUNK, i
                except OSError as failure:
                    assert failure.errno in (errno.EIO, errno.ENOENT, errno.EOPNOTSUPP), (i, failure)
        except RuntimeError as failure:
            assert "ended with 32" in str(failure), i
