"""Every generated Zarr store: each chunk file holds the bytes that zarr-python reads, and zarr-python and xarray see on the
mount what they see in the store."""

import os
import socket

import numpy as np
import pytest
import zarr
from compare import same_values
from zarr_sources import STORES, arrays, attributes, check_array



@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_every_chunk_is_what_zarr_reads(mount, path):
    m = mount(path)
    source, shown = zarr.open(str(path), "r"), zarr.open(str(m.path), "r")
    if isinstance(source, zarr.Array):
        check_array(m, m.path, source)
        assert same_values(shown[...], source[...])
        return
    assert attributes(shown) == attributes(source)
    names = [name for name, _ in arrays(source)]
    assert names == [name for name, _ in arrays(shown)]
    for name, array in arrays(source):
        ours = shown[name]
        check_array(m, m.path / name, array)
        assert ours.shape == array.shape and ours.chunks == array.chunks and ours.dtype == array.dtype
        assert same_values(ours[...], array[...]), name
        assert same_values(ours.fill_value, array.fill_value), name
        assert attributes(ours) == attributes(array), name
    assert zarr.open_consolidated(str(m.path), mode="r").tree()


def test_a_store_that_changes_outside_is_never_touched(mount, copy):
    store = copy("zarr/" + STORES[0].name)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in store.rglob("*") if p.is_file()}
    m = mount(store)
    for p in m.path.rglob("*"):
        if p.is_file():
            p.read_bytes()
    m.close()
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in store.rglob("*") if p.is_file()}


@pytest.mark.parametrize("separator", [".", "/"])
def test_what_is_no_regular_file_is_no_chunk(mount, tmp_path, separator):
    """Listing and lookup agree on pipes, sockets, directories and links in place of chunks. A link to nothing is an error."""
    store = tmp_path / "a.zarr"
    values = np.arange(28, dtype="<i4").reshape(14, 2)
    zarr.open_group(str(store), "w").create_dataset("v", data=values, chunks=(2, 2), dimension_separator=separator)
    name = "{}.0".format if separator == "." else "{}/0".format
    chunks = [store / "v" / name(i) for i in range(7)]
    for chunk in chunks[1:6]:
        chunk.unlink()
    os.mkfifo(chunks[1])
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(chunks[2].parent, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/{chunks[2].name}")
        os.close(here)
    chunks[3].mkdir()
    chunks[4].symlink_to("nothing")
    chunks[5].symlink_to(chunks[6])
    (store / "v/unrelated").mkdir()
    m = mount(store, "ro")
    for view in ("", ".codecfs/view/encoded"):
        shown = sorted(n for n in os.listdir(m.path / view / "v") if n[0].isdigit())
        assert shown == ["0.0", "4.0", "5.0", "6.0"], shown
        assert shown == [f"{i}.0" for i in range(7) if (m.path / view / f"v/{i}.0").exists()]
    expected = values.copy()
    expected[2:10] = 0
    expected[10:12] = values[12:14]
    opened = zarr.open_group(str(m.path), "r")["v"]
    with pytest.raises(OSError):
        opened[...]
    assert np.array_equal(opened[:8], expected[:8]) and np.array_equal(opened[10:], expected[10:])
    os.listdir(m.path / "v")
    log = m.log.read_text()
    for i in (1, 2, 3):
        assert log.count(f"v/{name(i)}: has the name of a chunk but is not a regular file") == 1, log
