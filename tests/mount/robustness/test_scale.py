"""Size is no obstacle: a million chunks, grids of billions of cells, gigabytes of data; memory stays where it is."""
import hashlib
import json
import os
import random
import subprocess

import h5py
import netCDF4
import numpy as np
import pytest
from running import run

SANITIZED = bool(os.environ.get("CODECFS_SANITIZE"))


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """1,000,000 stored chunks of 8 bytes."""
    path = tmp_path_factory.mktemp("million") / "million.h5"
    with h5py.File(path, "w", libver="latest") as f:
        d = f.create_dataset("v", (1_000_000,), "i8", chunks=(1,), fillvalue=-1)
        for first in range(0, 1_000_000, 10_000):  # all at once would take h5py 6 GB
            d[first:first + 10_000] = np.arange(first, first + 10_000)
    return path


def test_a_million_chunks_are_listed_without_keeping_them(mount, million):
    m = mount(million)
    (m.path / "v/.zarray").read_bytes()
    before = m.resident_peak()
    with subprocess.Popen(["ls", "-f", m.path / "v"], stdout=subprocess.PIPE) as listing:
        names = listing.stdout.read().split(b"\n")
    assert len(names) == 1_000_000 + 4 + 1 and len(set(names)) == len(names)
    if not SANITIZED:
        assert m.resident_peak() - before < 32 << 20


def test_listed_chunks_are_opened_without_being_looked_up(mount, tmp_path):
    """And so a sequential reader of many small chunks finds many of them in the page cache."""
    values = np.random.default_rng(3).integers(0, 50, (4000, 4096), "i4")
    with h5py.File(tmp_path / "small.h5", "w", libver="latest") as f:
        f.create_dataset("v", data=values, chunks=(1, 4096), compression=1)
    m = mount(tmp_path / "small.h5", "ro")
    before = m.stats()
    names = [name for name in os.listdir(m.path / "v") if name[0].isdigit()]
    for name in names:
        assert (m.path / "v" / name).read_bytes() == values[int(name.split(".")[0])].tobytes()
    after = m.stats()
    assert len(names) == 4000 and after["lookups"] - before["lookups"] < 10
    if not SANITIZED:
        assert after["reads"] - before["reads"] < 3000, after


def test_a_long_listing_with_attributes_looks_few_names_up(mount, million):
    m = mount(million)
    before = m.stats()["lookups"]
    seen = 0
    with os.scandir(m.path / "v") as entries:
        for entry in entries:
            if entry.name[0].isdigit():
                assert entry.stat().st_size == 8
                seen += 1
                if seen == 60_000:
                    break
    assert m.stats()["lookups"] - before < seen / 10


def test_a_random_chunk_of_a_million_is_found_without_walking(mount, million):
    m = mount(million)
    numbers = random.Random(1).sample(range(1_000_000), 2000)
    for number in numbers:
        assert (m.path / f"v/{number}").read_bytes() == number.to_bytes(8, "little")
    assert m.stats()["chunks_decoded"] == 2000
    if not SANITIZED:
        assert m.resident_peak() < 96 << 20


def test_a_sparse_grid_lists_what_is_stored(mount, tmp_path):
    path = tmp_path / "sparse.h5"
    rng = random.Random(2)
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", (1 << 20, 1 << 20), "u1", chunks=(4, 4), maxshape=(None, 1 << 20), fillvalue=0)
        d.attrs["_FillValue"] = np.uint8(0)
        cells = sorted({(rng.randrange(1 << 18), rng.randrange(1 << 18)) for _ in range(2000)})
        for i, j in cells:
            d[4 * i, 4 * j] = 1
    m = mount(path)
    listed = [n for n in os.listdir(m.path / "v") if n[0].isdigit()]
    assert listed == [f"{i}.{j}" for i, j in cells]
    i, j = cells[1000]
    assert (m.path / f"v/{i}.{j}").read_bytes() == b"\1" + bytes(15)


def test_four_gibibytes_in_a_quarter_of_one(mount, tmp_path):
    count, size = 256, 16 << 20
    path = tmp_path / "big.h5"
    patterns = [np.random.default_rng(i).integers(0, 256, 1 << 14, "u1").tobytes() * (size >> 14) for i in range(4)]
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", (count, size), "u1", chunks=(1, size), compression="gzip")
        for i in range(count):
            if i < len(patterns):
                d[i] = np.frombuffer(patterns[i], "u1")
            else:
                _, stored = d.id.read_direct_chunk((i % 4, 0))
                d.id.write_direct_chunk((i, 0), stored)
    expected = hashlib.sha256()
    for name in sorted(f"{i}.0" for i in range(count)):
        expected.update(patterns[int(name.split(".")[0]) % 4])
    m = mount(path)
    result = run("sh", "-c", "cat v/[0-9]* | sha256sum", cwd=m.path, env={"LC_ALL": "C"})
    assert result.stdout.split()[0] == expected.hexdigest()
    # One may be dropped while it is read ahead of. What the kernel was given and asks for again, as it took the pages back,
    # is decoded again (a machine whose host reclaims memory does so at any time).
    stats = m.stats()
    again = stats["bytes_pushed"] + stats["bytes_read"] - count * size
    assert count <= stats["chunks_decoded"] <= count + 2 + min(again // (128 << 10), count // 10)
    if not SANITIZED:
        assert m.resident_peak() < 256 << 20


def test_ten_thousand_variables(mount, tmp_path):
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as f:
        for i in range(10_000):
            f.create_dataset(f"v{i}", data=np.int32(i), shape=())
    m = mount(path)
    assert len(os.listdir(m.path)) == 10_003
    for i in range(0, 10_000, 997):
        assert (m.path / f"v{i}/0").read_bytes() == i.to_bytes(4, "little")
    run("ls", "-l", m.path, stdout=subprocess.DEVNULL)


def names_of_group(m):
    return sorted(name for name in os.listdir(m.path) if not name.startswith("."))


def test_removals_tell_the_kernel_of_as_many_files_each(mount, tmp_path):
    """Also where it knows the names and sizes of all others, which may change with the removal."""
    each = {}
    for count in (50, 400):
        path = tmp_path / f"{count}.h5"
        with h5py.File(path, "w") as f:
            for i in range(count):
                f.create_dataset(f"v{i:03}", data=np.arange(i + 1))  # a dimension of its own: phony_dim_N
        m = mount(path, "rw")
        run("ls", "-lRa", m.path, stdout=subprocess.DEVNULL)
        before = m.stats()["metadata_notices"]
        for i in range(1, count):
            run("rm", "-r", m.path / f"v{i:03}")
        each[count] = (m.stats()["metadata_notices"] - before) / count
        # What is left is shown as it is now, also where its size was known before.
        assert names_of_group(m) == ["v000"]
        for file in (m.path / "v000/.zattrs", m.path / ".zmetadata"):
            text = file.read_bytes()
            assert file.stat().st_size == len(text) and b"phony_dim_0" in text, text
        m.close()
        with h5py.File(path) as f:
            assert list(f) == ["v000"]
    assert each[400] < each[50] + 10, each


def scale_users(scale):
    """The names of the datasets that a dimension scale lists, each of which must list the scale."""
    if "REFERENCE_LIST" not in scale.attrs:
        return []
    users = [(scale.file[entry["dataset"]], entry["dimension"]) for entry in scale.attrs["REFERENCE_LIST"]]
    for user, dimension in users:
        assert [scale.file[reference] for reference in user.attrs["DIMENSION_LIST"][dimension]] == [scale]
    return [user.name for user, _ in users]


def test_many_variables_that_share_dimensions_are_made_and_removed(mount, tmp_path):
    """As zarr-python and xarray make them: names of dimensions and attributes follow in .zattrs."""
    description = json.dumps({"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": 0, "order": "C",
                              "compressor": None, "filters": None})
    path = tmp_path / "shared.h5"

    def told(directory):
        zattrs = json.loads((directory / ".zattrs").read_text())
        return {name: value for name, value in zattrs.items() if name != "_FillValue"}

    h5py.File(path, "w").close()
    m = mount(path, "rw")
    (m.path / "g").mkdir()
    for i in range(300):
        directory = m.path / f"g/v{i:03}"
        directory.mkdir()
        (directory / ".zarray").write_text(description)
        names = [["y", "x", f"own{i:03}", f"v{i:03}"][i % 4]]
        (directory / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": names, "number": i}))
        assert told(directory) == {"_ARRAY_DIMENSIONS": names, "number": i}
    for i in range(0, 300, 3):
        run("rm", "-r", m.path / f"g/v{i:03}")
    kept = {f"v{i:03}": told(m.path / f"g/v{i:03}") for i in range(300) if i % 3}
    m.close()
    with netCDF4.Dataset(path) as file:
        found = {name: {"_ARRAY_DIMENSIONS": list(v.dimensions), "number": v.getncattr("number")}
                 for name, v in file["g"].variables.items()}
    assert found == kept
    with h5py.File(path) as file:
        for name in ("x", "y"):
            users = [f"/g/{user}" for user, zattrs in kept.items() if zattrs["_ARRAY_DIMENSIONS"] == [name]]
            assert len(users) >= 20 and sorted(scale_users(file["g"][name])) == users
    m = mount(path, "rw")
    run("rm", "-r", m.path / "g", seconds=100)
    assert names_of_group(m) == []
    m.close()
    with h5py.File(path) as file:
        assert list(file) == []


@pytest.mark.parametrize("form", ["h5", "zarr"])
def test_a_deep_tree_is_made_and_removed(mount, tmp_path, form):
    depth = 700
    path = tmp_path / f"deep.{form}"
    if form == "h5":
        h5py.File(path, "w").close()
    else:
        path.mkdir()
        (path / ".zgroup").write_text('{"zarr_format": 2}')
    m = mount(path, "rw")
    at = os.open(m.path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("g", dir_fd=at)
        below = os.open("g", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    run("rm", "-rf", m.path / "g", seconds=100)
    assert names_of_group(m) == []
    m.close()
    if form == "h5":
        with h5py.File(path) as f:
            assert list(f) == []
    else:
        assert not (path / "g").exists()


def test_ten_thousand_attributes(mount, tmp_path):
    path = tmp_path / "attributes.h5"
    with h5py.File(path, "w", libver="latest") as f:
        d = f.create_dataset("v", data=np.arange(3))
        for i in range(10_000):
            d.attrs[f"a{i}"] = i
    m = mount(path)
    assert os.getxattr(m.path / "v", "user.a7777") == b"7777"
    assert '"a9999": 9999' in (m.path / "v/.zattrs").read_text()
    # The kernel's list of names ends at 64 KiB; what it holds can be read in time linear in their number.
    text = run("getfattr", "-d", m.path / "v").stdout
    assert len(text.splitlines()) > 5000
