"""Rectilinear chunk grids of Zarr v3, written by support/zarr3_stores.py: the chunks of the tree are regular, put together of the
stored ones, and can only be read."""
import errno
import itertools
import os
import random

import numpy as np
import pytest
import zarr
from compare import same_values
from conftest import xattr
from running import run
from zarr3_stores import named, write_group, write_rectilinear

LITTLE = named("bytes", endian="little")
ZSTD = named("zstd", level=3, checksum=False)
# Ways to write the same axis of 6 elements; the last one goes beyond the array.
AXES = [(4, [4, 4]), ([1, 2, 3], [1, 2, 3]), ([[4, 2]], [4, 4]), ([[1, 3], 3], [1, 1, 1, 3]), ([4, 4, 4], [4, 4, 4])]


@pytest.fixture
def mount(mount):
    """Mounts with the view of v2, which zarr-python 2 reads."""
    return lambda source, *options, **more: mount(source, "view=decoded", *options, **more)


def write(path, values, edges, chunk_shapes, codecs=(LITTLE, ZSTD), absent=(), data_type="int32"):
    write_group(path)
    return write_rectilinear(path / "v", values, edges, chunk_shapes, list(codecs), data_type, -1, absent)


def numbers(*shape):
    return np.arange(np.prod(shape)).reshape(shape).astype("i4")


def test_all_ways_to_write_an_axis(mount, tmp_path):
    """The example of the specification."""
    shapes, edges = zip(*AXES)
    expected = write(tmp_path / "s", numbers(6, 6, 6, 6, 6), edges, shapes)
    m = mount(tmp_path / "s")
    shown = zarr.open(str(m.path), "r")["v"]
    assert shown.chunks == (4, 3, 4, 3, 4)
    assert same_values(shown[...], expected)
    raw = np.fromfile(m.path / ".codecfs/view/raw/v", "i4").reshape(expected.shape)
    assert same_values(raw, expected)


@pytest.mark.parametrize("seed", range(8))
def test_random_grids(mount, tmp_path, seed):
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    shape = [rng.randint(1, 30) for _ in range(rank)]
    edges = []
    for extent in shape:
        lengths = []
        while sum(lengths) < extent:
            lengths.append(rng.randint(1, 12))
        edges.append(lengths)
    places = list(itertools.product(*(range(len(lengths)) for lengths in edges)))
    absent = set(rng.sample(places, len(places) // 3))
    codecs = [named("transpose", order=rng.sample(range(rank), rank)), LITTLE, rng.choice([ZSTD, named("gzip", level=1)])]
    expected = write(tmp_path / "s", numbers(*shape), edges, edges, codecs, absent)
    m = mount(tmp_path / "s")
    for view in ("", ".codecfs/view/encoded"):
        shown = zarr.open(str(m.path / view), "r")["v"]
        assert same_values(shown[...], expected), view
        # A chunk is listed if a part of it is stored.
        listed = {name for name in os.listdir(m.path / view / "v") if name[0].isdigit()}
        chunks = shown.chunks
        for place in itertools.product(*(range(n) for n in shown.cdata_shape)):
            inside = tuple(slice(p * c, (p + 1) * c) for p, c in zip(place, chunks))
            name = ".".join(map(str, place))
            if (expected[inside] != -1).any():
                assert name in listed
            elif name not in listed:
                assert not (m.path / view / "v" / name).exists()


def test_views_of_v3_show_a_regular_grid(mount, tmp_path):
    expected = write(tmp_path / "s", numbers(10, 7), [[4, 6], [7]], [[4, 6], 7])
    m = mount(tmp_path / "s")
    decoded = m.path / ".codecfs/view/decoded3/v"
    assert '"regular"' in (decoded / "zarr.json").read_text()
    assert (decoded / "c/0/0").read_bytes() == expected[:6].tobytes()


def test_only_read(mount, tmp_path):
    write(tmp_path / "s", numbers(10), [[3, 3, 4]], [[3, 3, 4]])
    before = run("tar", "c", "--sort=name", "s", cwd=tmp_path, text=False).stdout
    m = mount(tmp_path / "s")
    with pytest.raises(OSError) as caught:
        (m.path / "v/0").write_bytes(bytes(16))
    assert caught.value.errno in (errno.EOPNOTSUPP, errno.EROFS, errno.EACCES)
    for change in (lambda: zarr.open(str(m.path / "v"), "r+").resize(20), lambda: os.unlink(m.path / "v/0"),
                   lambda: os.setxattr(m.path / "v", "user._Filter", b"1,1")):
        with pytest.raises(OSError):
            change()
        assert "rectilinear" in xattr(m.path / "v", "_Error") + m.messages()
    m.unmount()
    assert run("tar", "c", "--sort=name", "s", cwd=tmp_path, text=False).stdout == before


def test_attributes_can_be_changed(mount, tmp_path):
    expected = write(tmp_path / "s", numbers(10), [[3, 3, 4]], [[3, 3, 4]])
    m = mount(tmp_path / "s")
    os.setxattr(m.path / "v", "user.units", b"m")
    assert same_values(zarr.open(str(m.path), "r")["v"][...], expected)
    m.unmount()
    assert '"units"' in (tmp_path / "s/v/zarr.json").read_text()
    assert '"rectilinear"' in (tmp_path / "s/v/zarr.json").read_text()


def test_a_damaged_chunk_fails_alone(mount, tmp_path):
    expected = write(tmp_path / "s", numbers(12), [[3, 3, 6]], [[3, 3, 6]])
    (tmp_path / "s/v/c/1").write_bytes(b"damaged")
    m = mount(tmp_path / "s")
    with pytest.raises(OSError) as caught:
        (m.path / "v/0").read_bytes()
    assert caught.value.errno == errno.EIO
    assert "c/1" in xattr(m.path / "v/0", "_Error")
    assert (m.path / "v/1").read_bytes() == expected[6:].tobytes()
