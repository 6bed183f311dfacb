"""Chunks at the edge of an HDF5 dataset that are stored only as far as the array reaches (H5Dwrite_chunk): all views show what
libhdf5 reads. The judges are h5py and zarr-python."""
import json
import os
import zlib

import h5py
import numpy as np
import pytest
import zarr
from buckets import environment, put, remote, server  # noqa: F401 (fixtures)
from mounts import MountError
from references import Referenced, refs
from running import codecfs

FILL = -7
LINE = np.arange(100, 114, dtype="<i4")
PLANE = np.arange(7 * 9, dtype="<i4").reshape(7, 9) * 1_000_003


def shuffled(data):
    return np.frombuffer(data, "u1").reshape(-1, 4).T.tobytes() if len(data) % 4 == 0 else data


# What each kind stores for the bytes of a chunk, and the options of h5py.
KINDS = {
    "gzip": (zlib.compress, {"compression": "gzip"}),
    "shuffle": (lambda data: zlib.compress(shuffled(data)), {"compression": "gzip", "shuffle": True}),
    "none": (bytes, {}),
    "lzf": (None, {"compression": "lzf"}),
}


def encoded_by_h5py(stored, options):
    """As libhdf5 encodes so many bytes, with the filter mask."""
    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("v", data=np.frombuffer(stored, "<i4"), chunks=(len(stored) // 4,), **options)
        return data.id.read_direct_chunk((0,))


def write(file, name, array, chunks, kind="gzip", spare=0):
    """Chunks at the edge have no bytes behind their last element in the array, but `spare`."""
    encode, options = KINDS[kind]
    data = file.create_dataset(name, array.shape, array.dtype, chunks=chunks, maxshape=(None,) * array.ndim, fillvalue=FILL,
                               **options)
    for at in np.ndindex(*(-(-n // c) for n, c in zip(array.shape, chunks))):
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks))
        part = array[box]
        whole = np.full(chunks, 99, array.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        last = np.ravel_multi_index([n - 1 for n in part.shape], chunks)
        stored = whole.tobytes()[:(last + 1) * array.dtype.itemsize + spare]
        mask, encoded = (0, encode(stored)) if encode else encoded_by_h5py(stored, options)
        data.id.write_direct_chunk(tuple(b.start for b in box), encoded, mask)


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for kind in KINDS:
            write(file, f"line_{kind}", LINE, (6,), kind)
            write(file, f"plane_{kind}", PLANE, (4, 5), kind)
        write(file, "spare", LINE, (6,), spare=6)  # ends within an element
    with h5py.File(path) as file:
        for name, data in file.items():
            assert np.array_equal(data[()], PLANE if "plane" in name else LINE), name
    return path


def decoded(mount, name, chunks, shape):
    array = np.empty(shape, "<i4")
    for at in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunks))):
        box = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(at, chunks, shape))
        path = mount.path / name / ".".join(map(str, at))
        content = path.read_bytes()
        assert len(content) == path.stat().st_size == np.prod(chunks) * 4
        array[box] = np.frombuffer(content, "<i4").reshape(chunks)[tuple(slice(0, b.stop - b.start) for b in box)]
    return array


def check_all(path):
    with h5py.File(path) as file:
        return {name: data[()] for name, data in file.items()}


def test_decoded_chunks(mount, short):
    m = mount(short, "ro")
    for name, expected in check_all(short).items():
        assert np.array_equal(decoded(m, name, (4, 5) if expected.ndim == 2 else (6,), expected.shape), expected), name
    # What is not stored is the fill value.
    assert np.frombuffer((m.path / "line_gzip/2").read_bytes(), "<i4").tolist() == [112, 113] + [FILL] * 4
    assert np.frombuffer((m.path / "spare/2").read_bytes(), "<i4").tolist() == [112, 113, 99] + [FILL] * 3
    chunk = np.frombuffer((m.path / "plane_shuffle/1.1").read_bytes(), "<i4").reshape(4, 5)
    assert chunk[:, 4].tolist() == [99, 99, FILL, FILL] and (chunk[3] == FILL).all()


@pytest.mark.parametrize("isolate", ["on", "off"])
@pytest.mark.parametrize("view", ["encoded", "encoded3", "decoded", "decoded3"])
def test_views_that_zarr_reads(mount, short, view, isolate):
    """zarr 2 reads the v2 views; of the v3 views, which need zarr 3, the chunks are decoded here."""
    m = mount(short, "ro", f"view={view}", *(["isolate=off"] if isolate == "off" else []))
    for name, expected in check_all(short).items():
        if not view.endswith("3"):
            assert np.array_equal(zarr.open(str(m.path), mode="r")[name][()], expected), (name, view)
            continue
        told = json.loads((m.path / name / "zarr.json").read_text())
        codecs = [codec["name"] for codec in told["codecs"]]
        for file in (m.path / name / "c").rglob("*"):
            if not file.is_file():
                continue
            content = file.read_bytes()
            assert len(content) == file.stat().st_size, file
            if view == "decoded3":
                assert len(content) == (80 if expected.ndim == 2 else 24), file
            elif codecs[-1] in ("zlib", "numcodecs.zlib"):
                assert len(zlib.decompress(content)) == (80 if expected.ndim == 2 else 24), file


def test_references_hold_whole_chunks(short):
    group = zarr.open(Referenced(refs(short)), mode="r")
    for name, expected in check_all(short).items():
        assert np.array_equal(group[name][()], expected), name
    found = json.loads(refs(short))["refs"]
    assert isinstance(found["line_gzip/1"], list) and found["line_gzip/2"].startswith("base64:")
    assert isinstance(found["plane_gzip/0.0"], list) and found["plane_gzip/1.1"].startswith("base64:")


def test_commands(short, tmp_path):
    before = check_all(short)
    assert json.loads(codecfs("verify", "--json", short).stdout)["damages"] == 0
    codecfs("convert", short, tmp_path / "a.zarr")
    group = zarr.open(str(tmp_path / "a.zarr"), mode="r")
    for name, expected in before.items():
        assert np.array_equal(group[name][()], expected), name
    codecfs("compare", short, tmp_path / "a.zarr")
    codecfs("convert", short, tmp_path / "b.h5")
    codecfs("compare", short, tmp_path / "b.h5")
    codecfs("compact", short)
    for path in (tmp_path / "b.h5", short):
        after = check_all(path)
        assert all(np.array_equal(after[name], expected) for name, expected in before.items()), path
    codecfs("recode", "-F", "*,shuffle|zlib,2", short)
    after = check_all(short)
    assert all(np.array_equal(after[name], expected) for name, expected in before.items())


def test_a_write_keeps_the_rest(mount, short):
    m = mount(short)
    for name in ("line_gzip", "spare"):
        with open(m.path / name / "2", "r+b") as file:
            file.write(np.array([5], "<i4").tobytes())
    with open(m.path / "plane_shuffle" / "1.1", "r+b") as file:
        file.seek(4)
        file.write(np.array([6], "<i4").tobytes())
    m.close()
    after = check_all(short)
    line, plane = LINE.copy(), PLANE.copy()
    line[12] = 5
    plane[4, 6] = 6
    for name in ("line_gzip", "spare"):
        assert np.array_equal(after[name], line), name
    assert np.array_equal(after["plane_shuffle"], plane)
    assert np.array_equal(after["line_shuffle"], LINE) and np.array_equal(after["plane_gzip"], PLANE)


def test_without_filters_it_is_not_written(mount, tmp_path):
    """libhdf5 would write the whole chunk to the place of the short one, over the data behind it."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        write(file, "v", LINE, (6,), "none")
        file["behind"] = np.full(1000, 0x55, "u1")
    m = mount(path)
    error = None
    try:
        with open(m.path / "v" / "2", "r+b") as file:
            file.write(b"\1\2\3\4")
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        error = e
    assert error is not None and "recode" in os.getxattr(m.path / "v" / "2", "user._Error").decode()
    with pytest.raises(MountError):  # what was written is not stored, as the error said
        m.close()
    with h5py.File(path) as file:
        assert np.array_equal(file["v"][()], LINE) and (file["behind"][()] == 0x55).all()
    codecfs("recode", "-F", "v,zlib,1", path)
    m = mount(path)
    with open(m.path / "v" / "2", "r+b") as file:
        file.write(np.array([9], "<i4").tobytes())
    m.close()
    assert check_all(path)["v"].tolist() == LINE.tolist()[:12] + [9, 113]


@pytest.mark.parametrize("shape", [(16,), (13,), (19,), (5,)])
@pytest.mark.parametrize("kind", ["gzip", "shuffle"])
def test_another_shape(mount, tmp_path, kind, shape):
    """libhdf5 would read beyond the end of the chunk that it has decoded."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        write(file, "v", LINE, (6,), kind)
    m = mount(path)
    told = json.loads((m.path / "v/.zarray").read_text())
    (m.path / "v/.zarray").write_text(json.dumps({**told, "shape": list(shape)}))
    m.close()
    expected = np.full(shape, FILL, "<i4")
    kept = min(shape[0], LINE.size)
    expected[:kept] = LINE[:kept]
    with h5py.File(path) as file:
        assert np.array_equal(file["v"][()], expected)
    assert json.loads(codecfs("verify", "--json", path).stdout)["damages"] == 0


def test_what_is_cut_within_the_array_is_damaged(mount, tmp_path):
    """h5py reads what happens to be in memory."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        write(file, "line", LINE, (6,))
        file["line"].id.write_direct_chunk((12,), zlib.compress(LINE[12:13].tobytes()))
        write(file, "inside", LINE[:12], (6,))
        file["inside"].id.write_direct_chunk((6,), zlib.compress(LINE[6:8].tobytes()))
        # Shorter rows: libhdf5 reads them at the places of a whole chunk.
        write(file, "packed", PLANE, (4, 5))
        file["packed"].id.write_direct_chunk((4, 5), zlib.compress(np.ascontiguousarray(PLANE[4:, 5:]).tobytes()))
        write(file, "stream", LINE, (6,))
        file["stream"].id.write_direct_chunk((12,), zlib.compress(LINE[12:].tobytes())[:-3])
    with h5py.File(path) as file:
        assert not np.array_equal(file["packed"][4:, 5:], PLANE[4:, 5:])
    damaged = json.loads(codecfs("verify", "--json", path, code=2).stdout)["damaged"]
    assert {(d["path"], d["chunk"]) for d in damaged} == {("/line", "2"), ("/inside", "1"), ("/packed", "1.1"), ("/stream", "2")}
    reasons = {d["path"]: d["reason"] for d in damaged}
    assert "4 bytes" in reasons["/line"] and "the array has 8" in reasons["/line"]
    m = mount(path, "ro")
    for name in ("line/2", "inside/1", "packed/1.1", "stream/2"):
        with pytest.raises(OSError):
            (m.path / name).read_bytes()


def test_in_an_object_store(short, remote, server):
    """A lookup requests no data, so the error of the view of encoded chunks comes when they are read."""
    put(server, short)
    m = remote(short.name)
    for name, expected in check_all(short).items():
        assert np.array_equal(decoded(m, name, (4, 5) if expected.ndim == 2 else (6,), expected.shape), expected), name
    encoded = remote(short.name, "view=encoded").path / "line_gzip"
    assert zlib.decompress((encoded / "1").read_bytes()) == LINE[6:12].tobytes()
    with pytest.raises(OSError):
        (encoded / "2").read_bytes()
    assert "readers of Zarr" in os.getxattr(encoded / "2", "user._Error").decode()


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}])
def test_a_sparse_array_grows(tmp_path, mount, options):
    """Ten million chunks at its edge, of which one is stored: looking at each takes longer than libhdf5 is given."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (1, 200_000_000), "i4", chunks=(10, 20), maxshape=(None, None), fillvalue=-1, **options)[0, :5] = 3
    there = mount(path)
    text = json.loads((there.path / "v/.zarray").read_text())
    (there.path / "v/.zarray").write_text(json.dumps({**text, "shape": [3, 200_000_000]}))
    there.close()
    with h5py.File(path) as file:
        assert file["v"].shape == (3, 200_000_000) and file["v"][:, :6].tolist() == [[3] * 5 + [-1], [-1] * 6, [-1] * 6]
