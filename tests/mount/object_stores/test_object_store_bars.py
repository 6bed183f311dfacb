"""How many requests the work on datasets of usual sizes takes, on a server behind a proxy that counts and delays them as S3 does.

An extra of two minutes for each server: CODECFS_OBJECT_STORE_BARS=1 is versitygw, and CODECFS_OBJECT_STORE_BARS=minio,ceph names others. They
and boto3 must be installed (scripts/object-store-servers). The other tests of object
stores count on our own server with small datasets. No test asserts a time.
"""
import os
import pathlib
import sys
import time

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

from buckets import BUCKET, settled
import servers
from lag_proxy import LagProxy
from running import codecfs, run

MIB = 1 << 20
STEPS, CHUNKS = 40, 160  # of the ERA5-like file: each step of a variable is four chunks


WANTED = os.environ.get("CODECFS_OBJECT_STORE_BARS", "")


@pytest.fixture(scope="module", params=["versitygw"] if WANTED in ("", "1") else WANTED.split(","))
def gateway(request):
    if not WANTED:
        pytest.skip("takes two minutes: set CODECFS_OBJECT_STORE_BARS=1")
    if (reason := servers.unavailable(request.param)) is not None:
        pytest.skip(reason)
    with servers.running(request.param) as server:
        try:
            client = servers.boto3_client(server)
        except servers.NotHere as error:
            pytest.skip(str(error))
        client.create_bucket(Bucket=BUCKET)
        with LagProxy(server.endpoint, latency=0.03, bandwidth=80e6) as proxy:
            proxy.client = client
            proxy.environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | server.environment() | {
                "AWS_ENDPOINT_URL": proxy.endpoint}
            yield proxy


@pytest.fixture
def remote(gateway, mount):
    gateway.requests(reset=True)
    return lambda name, *options: mount(f"s3://{BUCKET}/{name}", *options, env=gateway.environment)


def put(gateway, path, key):
    with open(path, "rb") as file:
        gateway.client.put_object(Bucket=BUCKET, Key=key, Body=file)


def counted(gateway, what, there=None):
    """(requests, bytes) since the last call, which are printed with what they are of. `there`: a mount that may still request something
    ahead of its readers."""
    if there is not None:
        settled(gateway, there)
    seen = gateway.requests(reset=True)
    assert all(each.method == "GET" and each.status in (200, 206, 304, 404) for each in seen), "neither HEAD nor an error"
    took = max(each.end for each in seen) - min(each.begin for each in seen)
    size = sum(each.bytes for each in seen)
    print(f"{what}: {len(seen)} requests, {size / MIB:.1f} MiB, {took:.2f} s", file=sys.__stderr__)
    return len(seen), size


def see_all(root):
    """ls -R, and all attributes."""
    for folder, folders, names in os.walk(root):
        if ".codecfs" in folders:
            folders.remove(".codecfs")
        if ".zattrs" in names:
            pathlib.Path(folder, ".zattrs").read_bytes()


# --- datasets


def make_era5(path):
    random = np.random.default_rng(2)
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("time", None)
        f.createDimension("lat", 721)
        f.createDimension("lon", 1440)
        t = f.createVariable("time", "f8", ("time",))
        f.createVariable("lat", "f4", ("lat",))[:] = np.linspace(90, -90, 721)
        f.createVariable("lon", "f4", ("lon",))[:] = np.arange(1440) / 4
        made = [f.createVariable(f"v{k}", "i2", ("time", "lat", "lon"), zlib=True, complevel=1, shuffle=True, chunksizes=(1, 361, 720))
                for k in range(10)]
        for variable in made:
            for a in range(12):
                variable.setncattr(f"attr{a}", "x" * 40)
        base = np.cumsum(random.integers(-3, 4, size=(721, 1440)), axis=1).astype("i2")
        for step in range(STEPS):
            t[step] = step
            for variable in made:
                variable[step] = base + random.integers(-8, 9, size=base.shape).astype("i2")


def make_many(path):
    random = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w") as f:
        for name, size in [("time", None), ("y", 180), ("x", 360)]:
            f.createDimension(name, size)
        for a in range(40):
            f.setncattr(f"global_{a}", "some text of a global attribute " * 3)
        for k in range(500):
            v = f.createVariable(f"var_{k:03d}", "f4", ("time", "y", "x"), zlib=True, complevel=1, chunksizes=(1, 90, 180))
            for a in range(30):
                v.setncattr(f"attribute_{a}", f"text of attribute {a} " * 2 if a % 3 else float(a))
        base = random.normal(size=(180, 360)).astype("f4")
        for k in range(500):
            f[f"var_{k:03d}"][0:4] = np.round(base + k, 1)


def make_granule(path):
    """As ICESat-2 is written: 600 datasets that grow by turns, so that the headers are spread over the file."""
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as f:
        for beam in ("gt1l", "gt1r", "gt2l", "gt2r", "gt3l", "gt3r"):
            made = []
            for name in ("heights", "geolocation", "bckgrd_atlas", "geophys_corr"):
                group = f.create_group(f"{beam}/{name}")
                for k in range(25):
                    made.append(group.create_dataset(f"p{k:02d}", shape=(0,), maxshape=(None,), chunks=(10000,), dtype="f4", compression="gzip",
                                                     compression_opts=1, shuffle=True))
                    for a in range(8):
                        made[-1].attrs[f"a{a}"] = "text " * 8
            for _ in range(20):
                for dataset in made:
                    n = dataset.shape[0]
                    dataset.resize((n + 10000,))
                    dataset[n:] = np.cumsum(random.integers(-5, 6, 10000)).astype("f4")


def make_paged(path):
    """As docs/object-stores.md advises. Strings have a fixed length, as in netCDF: others are in global heaps, between the data."""
    with h5py.File(f"{path}.plain", "w") as f:
        for i in range(200):
            v = f.create_dataset(f"g{i % 10}/v{i}", data=np.arange(100_000, dtype="i4") + i, chunks=(10_000,), compression="gzip")
            for a in range(10):
                v.attrs[f"attribute{a}"] = np.bytes_(b"text " * 8)
    run("h5repack", "-S", "PAGE", "-G", 4 * MIB, f"{path}.plain", path)


def make_million(path):
    with h5py.File(path, "w", libver="earliest") as f:
        d = f.create_dataset("v", shape=(1000, 1000, 64), chunks=(1, 1, 64), dtype="f4", fillvalue=0, shuffle=True)
        content = np.arange(64, dtype="f4").tobytes()
        for i in range(1000):
            for j in range(1000):
                d.id.write_direct_chunk((i, j, 0), content)


@pytest.fixture(scope="session")
def era5_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("era5") / "era5.nc"
    make_era5(path)
    return path


@pytest.fixture(scope="session")
def million_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("million") / "million.h5"
    make_million(path)
    return path


@pytest.fixture(scope="session")
def era5_store(era5_file, tmp_path_factory):
    """One of its variables as Zarr v2, with the same chunks."""
    store = tmp_path_factory.mktemp("era5") / "era5.zarr"
    with h5py.File(era5_file) as f:
        v = f["v3"]
        made = zarr.open_group(str(store), mode="w").create_dataset(
            "v3", shape=v.shape, chunks=v.chunks, dtype=v.dtype, compressor=zarr.Zlib(1), filters=[zarr.Shuffle(2)])
        made[:] = v[:]
    zarr.consolidate_metadata(str(store))
    return store


@pytest.fixture(scope="module")
def era5(gateway, era5_file):
    put(gateway, era5_file, "era5.nc")
    return era5_file


@pytest.fixture(scope="module")
def era5_zarr(gateway, era5_store):
    for path in era5_store.rglob("*"):
        if path.is_file():
            put(gateway, path, f"era5.zarr/{path.relative_to(era5_store)}")
    return era5_store


# --- bars


def test_the_tree_of_an_era5_file(era5, gateway, remote):
    there = remote("era5.nc")
    see_all(there.path)
    requests, size = counted(gateway, "ERA5-like: mount, ls -R, attributes", there)
    assert requests <= 42 and size <= 7 * MIB


@pytest.mark.parametrize("make,most,mib", [(make_many, 12, 5), (make_granule, 40, 7), (make_paged, 2, 8)], ids=["many variables", "granule", "paged"])
def test_the_tree_of_other_files(make, most, mib, gateway, remote, tmp_path, request):
    make(tmp_path / "file.h5")
    put(gateway, tmp_path / "file.h5", "file.h5")
    (tmp_path / "file.h5").unlink()
    gateway.requests(reset=True)
    there = remote("file.h5")
    see_all(there.path)
    requests, size = counted(gateway, request.node.name, there)
    assert requests <= most and size <= mib * MIB


@pytest.mark.parametrize("refused", [0, 0.01])
def test_one_variable_of_hdf5(refused, era5, gateway, remote):
    """Also when a hundredth of the requests is refused: then without an error, too."""
    with h5py.File(era5) as f:
        expected, stored = f["v3"][:], f["v3"].id.get_storage_size()
    there = remote("era5.nc", "view=npy")
    (there.path / "v3.npy").stat()
    settled(gateway, there)
    gateway.requests(reset=True)
    gateway.refused = refused
    try:
        assert np.array_equal(np.load(there.path / "v3.npy"), expected)
    finally:
        gateway.refused = 0
    if refused == 0:
        requests, size = counted(gateway, "one variable of HDF5", there)
        # Its chunks lie in 33 places of the file, as netCDF's cache has written them; the others are of the index and of the first steps.
        assert requests <= 42 and size <= 1.05 * stored


@pytest.mark.parametrize("view", ["npy", "decoded"])
def test_the_same_variable_of_zarr(view, era5_zarr, gateway, remote):
    expected = zarr.open(str(era5_zarr), mode="r")["v3"][:]
    there = remote("era5.zarr", f"view={view}")
    before = len(gateway.requests())
    if view == "npy":
        seen = np.load(there.path / "v3.npy")
    else:
        seen = np.empty(expected.shape, "i2")
        cells = [(t, y, x) for t in range(STEPS) for y in range(2) for x in range(2)]
        for t, y, x in cells:
            part = np.frombuffer((there.path / f"v3/{t}.{y}.{x}").read_bytes(), "i2").reshape(361, 720)
            target = seen[t, 361 * y:361 * (y + 1), 720 * x:720 * (x + 1)]
            target[:] = part[:target.shape[0], :target.shape[1]]
    assert np.array_equal(seen, expected)
    requests, _ = counted(gateway, f"the same of Zarr, {view}", there)
    assert before <= 2 and requests - before <= CHUNKS


def test_a_chunk_of_a_million(million_file, gateway, remote):
    put(gateway, million_file, "million.h5")
    gateway.requests(reset=True)
    there = remote("million.h5")
    assert (there.path / "v/777.123.0").read_bytes()[:8] != b""
    requests, _ = counted(gateway, "a cold chunk of a million", there)
    assert requests <= 6
    began = time.monotonic()
    info = codecfs("info", f"s3://{BUCKET}/million.h5", environment=gateway.environment, code=None)
    assert "1000 × 1000 × 64" in info.stdout, info.stderr
    requests, size = counted(gateway, f"codecfs info, with the whole index, in {time.monotonic() - began:.1f} s")
    # The 17,544 leaves are between the chunks; those of one of 308 parents are requested together.
    assert requests <= 700 and size <= 1.1 * million_file.stat().st_size


def test_a_second_mount(era5, gateway, remote, tmp_path):
    first = remote("era5.nc", f"cache_dir={tmp_path}/cache")
    see_all(first.path)
    settled(gateway, first)
    first.unmount()
    gateway.requests(reset=True)
    second = remote("era5.nc", f"cache_dir={tmp_path}/cache")
    see_all(second.path)
    assert counted(gateway, "the second mount", second)[0] == 1


def test_a_whole_chunk_that_is_written(era5_zarr, gateway, remote):
    there = remote("era5.zarr")
    chunk = there.path / "v3/5.0.0"
    content = chunk.read_bytes()
    gateway.requests(reset=True)
    chunk.write_bytes(content)
    there.unmount()
    assert [each.method for each in gateway.requests()] == ["PUT"]


def test_an_object_that_is_replaced(gateway, remote, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.random.default_rng(1).random((100, 50_000)), chunks=(1, 50_000))
    put(gateway, tmp_path / "a.h5", "a.h5")
    there = remote("a.h5")
    first = (there.path / "v/0.0").read_bytes()
    gateway.client.put_object(Bucket=BUCKET, Key="a.h5", Body=(tmp_path / "a.h5").read_bytes()[:-1] + b"x")
    with pytest.raises(OSError, match="Stale"):
        (there.path / "v/90.0").read_bytes()
    assert (there.path / "v/0.0").read_bytes() == first
