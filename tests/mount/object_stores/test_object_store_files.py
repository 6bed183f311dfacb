"""HDF5 and netCDF-4 files in object stores, against the S3 server of our own, which counts requests and fails on demand.

What is read is compared with a mount of the same local file, and with h5py.
"""
import errno
import os
import pathlib
import zipfile

import h5py
import numpy as np
import pytest
import zarr

from buckets import (  # noqa: F401 (fixtures)
    BUCKET, codecfs_with, environment, files_of, make_far, make_v2, make_v3, operations, put, remote, server, settled, weather)
from conftest import DATA
from mounts import signal_all, workers_of

MIB = 1 << 20


def samples():
    return sorted(path for end in ("*.h5", "*.nc") for path in pathlib.Path(DATA, "hdf5").glob(end))


OUTSIDE = ["external_files.h5", "links.h5", "c_odd_links.h5", "virtual_dataset.h5"]  # which refer to other files


@pytest.mark.parametrize("path", [p for p in samples() if p.name not in OUTSIDE], ids=lambda path: path.name)
def test_shows_what_a_mount_of_the_file_shows(path, mount, remote, server):
    local = mount(path, "ro")
    expected = files_of(local.path)
    put(server, path)
    assert files_of(remote(path.name).path) == expected


def test_needs_few_requests(weather, mount, remote, server):
    put(server, weather)
    mounted = remote(weather.name)
    names = sorted(str(p) for p in mounted.path.rglob(".zattrs"))
    for name in names:
        pathlib.Path(name).read_bytes()
    assert len(names) == 5
    _, seen = settled(server, mounted)
    assert seen["operations"].keys() == {"GetObject"}
    assert seen["operations"]["GetObject"] <= 20
    assert seen["bytes"] <= 6 * MIB

    settled(server, mounted)
    server.control(clear_log=True)
    chunks = sorted((mounted.path / "v2").iterdir(), key=lambda p: [int(n) for n in p.name.split(".")] if p.name[0].isdigit() else [])
    content = [chunk.read_bytes() for chunk in chunks if chunk.name[0].isdigit()]
    with h5py.File(weather) as f:
        assert b"".join(content) == b"".join(
            f["v2"][t, y:y + 150, x:x + 200].tobytes() for t in range(24) for y in (0, 150) for x in (0, 200))
        stored = f["v2"].id.get_storage_size()
    _, seen = settled(server, mounted)
    assert seen["operations"]["GetObject"] < 96 / 2
    assert seen["bytes"] < 1.5 * stored


def test_an_array_as_one_file(weather, remote, server):
    put(server, weather)
    mounted = remote(weather.name, "view=npy")
    with h5py.File(weather) as f:
        stored = f["v1"].id.get_storage_size()
        expected = f["v1"][:]
    settled(server, mounted)
    server.control(clear_log=True)
    assert np.array_equal(np.load(mounted.path / "v1.npy"), expected)
    _, seen = settled(server, mounted)
    assert seen["operations"]["GetObject"] < 96 / 2
    assert seen["bytes"] < 2 * stored
    # A slice of one column touches every step.
    mapped = np.load(mounted.path / "v1.npy", mmap_mode="r")
    assert np.array_equal(mapped[:, 17, 33], expected[:, 17, 33])


def test_a_small_file_is_two_requests(remote, server, tmp_path):
    path = tmp_path / "small.h5"
    with h5py.File(path, "w") as f:
        f["a"] = np.arange(700_000.0)  # 5.6 MB
        f.create_dataset("b", data=np.arange(1000), chunks=(10,), compression="gzip")
    put(server, path)
    mounted = remote(path.name, "view=npy")
    assert np.array_equal(np.load(mounted.path / "a.npy"), np.arange(700_000.0))
    assert np.array_equal(np.load(mounted.path / "b.npy"), np.arange(1000))
    assert operations(server) == {"GetObject": 2}


def test_one_chunk_of_many(remote, server, tmp_path):
    path = tmp_path / "many.h5"
    with h5py.File(path, "w", libver="earliest") as f:
        d = f.create_dataset("v", shape=(300, 300, 64), chunks=(1, 1, 64), dtype="f4", shuffle=True)
        content = np.arange(64, dtype="f4").tobytes()
        for i in range(300):
            for j in range(300):
                d.id.write_direct_chunk((i, j, 0), content)
    put(server, path)
    mounted = remote(path.name)
    (mounted.path / "v/250.17.0").read_bytes()
    assert settled(server, mounted)[1]["operations"]["GetObject"] <= 6
    server.control(clear_log=True)
    info = codecfs_with(server, "info", f"s3://{BUCKET}/{path.name}")
    assert "300 × 300 × 64" in info.stdout, info.stderr


def test_a_replaced_object_is_stale(weather, remote, server):
    put(server, weather)
    mounted = remote(weather.name)
    first = (mounted.path / "v0/0.0.0").read_bytes()
    assert len(first) == 60_000
    server.put(BUCKET, weather.name, weather.read_bytes()[:-1] + b"x")
    with pytest.raises(OSError, match="Stale"):
        (mounted.path / "v3/20.0.0").read_bytes()
    reason = os.getxattr(mounted.path / "v3/20.0.0", "user._Error").decode()
    assert "replaced" in reason
    assert (mounted.path / "v0/0.0.0").read_bytes() == first


def test_a_server_that_ignores_ranges(weather, remote, server):
    """It sends the whole object: neither wrong bytes, nor taken for a refusal."""
    put(server, weather)
    mounted = remote(weather.name, "retry=1")
    server.fault("ignore_range")
    with pytest.raises(OSError) as caught:
        (mounted.path / "v3/20.1.1").read_bytes()
    assert caught.value.errno in (errno.EIO, errno.EOPNOTSUPP), mounted.messages()


def test_faults_are_repeated(weather, mount, remote, server):
    expected = files_of(mount(weather, "ro").path)
    put(server, weather)
    server.fault("error", probability=0.2)
    server.fault("reset", probability=0.05)
    server.fault("short_body", by=1000, probability=0.1)
    mounted = remote(weather.name)
    assert files_of(mounted.path) == expected


def test_a_failing_server_is_an_error_and_no_damage(weather, remote, server):
    put(server, weather)
    mounted = remote(weather.name, "retry=1")
    chunk = mounted.path / "v3/23.1.1"
    chunk.stat()  # so that the name is known, under which the reason is asked for
    server.fault("error")
    with pytest.raises(OSError) as error:
        chunk.read_bytes()
    assert error.value.errno == errno.EIO
    assert "503" in os.getxattr(chunk, "user._Error").decode()
    server.control(clear_faults=True)
    with h5py.File(weather) as f:
        assert chunk.read_bytes() == f["v3"][23, 150:, 200:].tobytes()


def test_metadata_survives_a_failing_server(remote, server, tmp_path):
    """The index of the chunks is far from the beginning, and the server fails when it is read first."""
    path = tmp_path / "far.h5"
    make_far(path)
    put(server, path)
    mounted = remote(path.name, "retry=1")
    server.fault("error", status=500)
    with pytest.raises(OSError):
        (mounted.path / "g/.zattrs").read_bytes()
    server.control(clear_faults=True)
    assert b"text of variable length" in (mounted.path / "g/.zattrs").read_bytes()
    assert "damage" not in (mounted.path / ".codecfs/log").read_text()


def test_is_read_only_with_a_reason(weather, remote, server):
    put(server, weather)
    mounted = remote(weather.name)
    with pytest.raises(OSError) as error:
        (mounted.path / "v0/0.0.0").write_bytes(b"x")
    assert error.value.errno == errno.EROFS
    assert "object store" in (mounted.path / ".codecfs/log").read_text()


def test_a_killed_process_is_replaced(weather, remote, server):
    put(server, weather)
    mounted = remote(weather.name)
    assert len((mounted.path / "v0/0.0.0").read_bytes()) == 60_000
    signal_all(workers_of(mounted.path, ["codecfs-hdf5"]))
    assert len((mounted.path / "v1/5.0.0").read_bytes()) == 60_000
    assert b"attribute3" in (mounted.path / "v2/.zattrs").read_bytes()


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_files_are_not_read(name, mount, remote, server):
    """Neither from the store nor from this machine: what is there is not what the writer meant."""
    path = pathlib.Path(DATA, "hdf5", name)
    expected = files_of(mount(path, "ro").path)
    put(server, path)
    shown = files_of(remote(name).path)
    different = {key for key in expected.keys() | shown.keys() if shown.get(key) != expected.get(key)}
    assert different
    for key in different:
        assert shown.get(key) in (None, errno.EACCES, errno.ENOENT, errno.EIO), key


def test_a_local_file_is_not_read(remote, server, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"secret" * 100)
    path = tmp_path / "thief.h5"
    with h5py.File(path, "w") as f:
        f["own"] = [1, 2]
        f["link"] = h5py.ExternalLink(str(tmp_path / "own.h5"), "/own")
        f.create_dataset("stolen", shape=(600,), dtype="u1", external=[(str(tmp_path / "secret.bin"), 0, 600)])
    path_of_copy = tmp_path / "own.h5"
    path_of_copy.write_bytes(path.read_bytes())
    put(server, path)
    mounted = remote(path.name)
    assert (mounted.path / "own/0").read_bytes() == np.array([1, 2]).tobytes()
    with pytest.raises(OSError):
        (mounted.path / "stolen/0").read_bytes()
    assert "read alone" in (mounted.path / ".codecfs/log").read_text()
    assert not (mounted.path / "link/0").exists()


def test_below_a_web_server(weather, mount, server):
    expected = files_of(mount(weather, "ro").path)
    put(server, weather)
    url = f"{server.endpoint}/_files/{BUCKET}/{weather.name}"
    assert files_of(mount(url, env=environment(server)).path) == expected
    refused = codecfs_with(server, "info", f"{server.endpoint}/_files-norange/{BUCKET}/{weather.name}")
    assert refused.returncode != 0
    assert "part of the object" in refused.stderr


def test_what_is_no_dataset(server):
    for key, content, reason in [("text.nc", b"hello", "neither"), ("empty.h5", b"", "empty"), ("old.nc", b"CDF\1" + bytes(100), "netCDF-3")]:
        server.put(BUCKET, key, content)
        refused = codecfs_with(server, "info", f"s3://{BUCKET}/{key}")
        assert refused.returncode != 0
        assert reason in refused.stderr
    refused = codecfs_with(server, "info", f"s3://{BUCKET}/missing.nc")
    assert refused.returncode != 0


def test_a_truncated_file(weather, server, remote, mount, tmp_path):
    cut = tmp_path / "cut.nc"
    cut.write_bytes(weather.read_bytes()[:-MIB])
    expected = codecfs_with(server, "info", cut)
    put(server, cut)
    shown = codecfs_with(server, "info", f"s3://{BUCKET}/{cut.name}")
    assert shown.returncode == expected.returncode


@pytest.mark.parametrize("command", ["verify", "info"])
def test_commands(command, weather, server):
    put(server, weather)
    done = codecfs_with(server, command, f"s3://{BUCKET}/{weather.name}")
    assert done.returncode == 0, done.stderr


def test_compare_and_convert(weather, server, tmp_path):
    put(server, weather)
    url = f"s3://{BUCKET}/{weather.name}"
    assert codecfs_with(server, "compare", url, weather).returncode == 0
    made = codecfs_with(server, "convert", url, tmp_path / "made.zarr")
    assert made.returncode == 0, made.stderr
    assert codecfs_with(server, "compare", weather, tmp_path / "made.zarr").returncode == 0


def test_hostile_files(server, tmp_path):
    """Flipped bytes end in what is read, or in errors; not in a hang or a crash of the daemon."""
    path = tmp_path / "base.h5"
    with h5py.File(path, "w") as f:
        for i in range(20):
            f.create_group(f"g{i}").create_dataset("v", data=np.arange(100), chunks=(10,))
    content = path.read_bytes()
    random = np.random.default_rng(5)
    for number in range(12):
        damaged = bytearray(content)
        for at in random.integers(0, len(damaged), 30):
            damaged[at] ^= 1 << random.integers(0, 8)
        server.put(BUCKET, "damaged.h5", bytes(damaged))
        done = codecfs_with(server, "verify", f"s3://{BUCKET}/damaged.h5")
        assert done.returncode >= 0, done.stderr


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("make", [make_v2, make_v3])
def test_zip_archives(make, compression, mount, remote, server, tmp_path):
    make(tmp_path / "store")
    path = tmp_path / "store.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for file in sorted((tmp_path / "store").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(tmp_path / "store"))
    expected = files_of(mount(path, "ro").path)
    assert len(expected) > 10
    put(server, path)
    assert files_of(remote(path.name).path) == expected
    assert operations(server) == {"GetObject": 1}


def test_a_large_zip_archive(remote, server, tmp_path):
    """One request for the beginning, one for the directory at the end, one for each chunk."""
    random = np.random.default_rng(1)
    path = tmp_path / "large.zip"
    array = random.integers(0, 256, (32, 1000, 1000), "u1")
    with zarr.ZipStore(str(path), mode="w") as store:
        made = zarr.open_array(store, mode="w", shape=array.shape, chunks=(1, 1000, 1000), dtype="u1", compressor=None)
        made[:] = array
    put(server, path)
    mounted = remote(path.name)
    assert operations(server) == {"GetObject": 2}
    server.control(clear_log=True)
    assert (mounted.path / "17.0.0").read_bytes() == array[17].tobytes()
    assert operations(server) == {"GetObject": 1}
    assert np.array_equal(zarr.open_array(str(mounted.path), mode="r")[:], array)
    assert server.summary()["bytes"] < 1.1 * array.nbytes
    with pytest.raises(OSError) as error:
        (mounted.path / "1.0.0").write_bytes(array[1].tobytes())
    assert error.value.errno == errno.EROFS


def test_a_cache_on_disk(weather, mount, remote, server, tmp_path):
    """The second mount is one request, which asks whether the object is still the same."""
    expected = files_of(mount(weather, "ro").path)
    put(server, weather)
    cache = tmp_path / "cache"
    first = remote(weather.name, f"cache_dir={cache}")
    assert files_of(first.path) == expected
    settled(server, first)  # what is under way is not stored
    first.unmount()
    assert cache.stat().st_mode & 0o777 == 0o700
    server.control(clear_log=True)
    second = remote(weather.name, f"cache_dir={cache}")
    assert files_of(second.path) == expected
    _, seen = settled(server, second)
    assert seen["requests"] == 1
    assert seen["statuses"] == {"304": 1}
    assert seen["bytes"] == 0
    second.unmount()

    for file in cache.rglob("*-*-*"):  # every file is damaged
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert files_of(remote(weather.name, f"cache_dir={cache}").path) == expected


def test_a_cache_with_pipes(weather, mount, remote, server, tmp_path):
    """Opening one for reading would wait for ever."""
    expected = files_of(mount(weather, "ro").path)
    put(server, weather)
    cache = tmp_path / "cache"
    first = remote(weather.name, f"cache_dir={cache}")
    assert files_of(first.path) == expected
    settled(server, first)
    first.unmount()
    files = [file for file in cache.rglob("*") if file.is_file()]
    assert any(file.name == "state" for file in files) and len(files) > 1
    for file in files:
        file.unlink()
        os.mkfifo(file)
    assert files_of(remote(weather.name, f"cache_dir={cache}").path) == expected


def test_a_cache_of_another_state(weather, remote, server, tmp_path):
    put(server, weather)
    cache = tmp_path / "cache"
    first = remote(weather.name, f"cache_dir={cache}")
    assert len((first.path / "v0/0.0.0").read_bytes()) == 60_000
    first.unmount()
    path = tmp_path / "changed.nc"
    path.write_bytes(weather.read_bytes())
    with h5py.File(path, "a") as f:
        f["v0"][:] = 7
    put(server, path, weather.name)
    second = remote(weather.name, f"cache_dir={cache}")
    assert (second.path / "v0/0.0.0").read_bytes() == np.full(30_000, 7, "i2").tobytes()


def test_a_cache_that_others_may_write(weather, server, tmp_path):
    put(server, weather)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    refused = codecfs_with(server, "info", "-O", f"cache_dir={tmp_path}/cache", f"s3://{BUCKET}/{weather.name}")
    assert refused.returncode != 0
    assert "other users" in refused.stderr


def test_converting_to_hdf5_copies_the_file(weather, server, tmp_path):
    put(server, weather)
    made = codecfs_with(server, "convert", f"s3://{BUCKET}/{weather.name}", tmp_path / "made.nc")
    assert made.returncode == 0, made.stderr
    assert codecfs_with(server, "compare", weather, tmp_path / "made.nc").returncode == 0
    assert server.summary()["operations"]["GetObject"] < 20


def test_commands_join_requests(weather, server):
    """The 384 chunks of four variables."""
    put(server, weather)
    assert codecfs_with(server, "verify", f"s3://{BUCKET}/{weather.name}").returncode == 0
    assert server.summary()["requests"] < 40
