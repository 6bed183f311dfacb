"""HDF5 programs write and read with our plugins, exchange files with Debian's plugins, and chunks with numcodecs."""
import sys

import h5py
import numcodecs
import numpy
import pytest
from running import run

# id, parameters: every plugin with none, and with its usual ones
BLOSC = [(32001, (0, 0, 0, 0, level, shuffle, compressor))
         for level, shuffle, compressor in [(5, 1, 0), (9, 0, 1), (5, 2, 2), (1, 1, 4), (7, 2, 5)]]
FILTERS = [(307, ()), (307, (1,)), (32015, ()), (32015, (19,)), (32015, (2**32 - 5,)), (32001, ()), *BLOSC,
           (32004, ()), (32004, (1000,))]


def arrays():
    generator = numpy.random.default_rng(3)
    yield numpy.arange(6000, dtype="<i4").reshape(60, 100)
    yield generator.random((60, 100))
    yield generator.integers(0, 256, (60, 100), dtype="u1")
    yield numpy.zeros((60, 100), dtype=">f4")
    yield numpy.linspace(0, 1, 6000, dtype="<f2").reshape(60, 100)
    yield generator.integers(-9, 9, (60, 100), dtype="<i8")
    record = numpy.zeros((60, 100), dtype=[("a", "i2"), ("b", "f8"), ("c", "S300")])
    record["b"] = generator.random((60, 100))
    yield record


def write(path, data, chunks, filter_id, options, optional=True):
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        plist.set_filter(filter_id, h5py.h5z.FLAG_OPTIONAL if optional else h5py.h5z.FLAG_MANDATORY, options)
        space = h5py.h5s.create_simple(data.shape)
        name = h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(data.dtype), space, plist)
        h5py.Dataset(name)[...] = data


def read(path):
    with h5py.File(path) as file:
        return file["x"][...]


def same(left, right):
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("filter_id, options", FILTERS)
@pytest.mark.parametrize("chunks", [(60, 100), (7, 33), (1, 1)])
@pytest.mark.parametrize("optional", [True, False])
def test_h5py_writes_and_reads(tmp_path, filter_id, options, chunks, optional):
    for data in arrays():
        if chunks == (1, 1):
            data = data[:5, :5].copy()
        write(tmp_path / "a.h5", data, chunks, filter_id, options, optional)
        assert same(read(tmp_path / "a.h5"), data)


@pytest.mark.parametrize("filter_id, options", FILTERS)
def test_compresses(tmp_path, filter_id, options):
    data = numpy.arange(100000, dtype="i4") // 50
    write(tmp_path / "a.h5", data, (20000,), filter_id, options)
    with h5py.File(tmp_path / "a.h5") as file:
        stored = file["x"].id
        assert stored.get_create_plist().get_filter(0)[0] == filter_id
        assert all(stored.get_chunk_info(i).filter_mask == 0 for i in range(5))
        assert stored.get_storage_size() < data.nbytes // 2


def test_blosc_knows_type_and_chunk(tmp_path):
    """set_local puts the element's and the chunk's size into the file, as other readers expect."""
    for dtype, element in [("i1", 1), ("f8", 8), ("S300", 1), (numpy.dtype(("i4", (5,))), 4)]:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            made = file.create_dataset("x", (10, 10), dtype, chunks=(5, 6), compression=32001,
                                       compression_opts=(0, 0, 0, 0, 7, 2, 5))
            values = made.id.get_create_plist().get_filter(0)[2]
            assert values == (2, 2, element, 30 * numpy.dtype(dtype).itemsize, 7, 2, 5)


def test_blosc_without_gain(tmp_path):
    """An optional filter leaves such a chunk unfiltered; one that must be applied stores Blosc's copy of it."""
    data = numpy.random.default_rng(1).integers(0, 256, 5000, dtype="u1")
    for optional, mask, size in [(True, 1, 5000), (False, 0, 5016)]:
        write(tmp_path / "a.h5", data, (5000,), 32001, (0, 0, 0, 0, 9, 1, 1), optional)
        with h5py.File(tmp_path / "a.h5") as file:
            chunk = file["x"].id.get_chunk_info(0)
            assert (chunk.filter_mask, chunk.size) == (mask, size)
        assert same(read(tmp_path / "a.h5"), data)


@pytest.mark.parametrize("filter_id, options", [(307, ()), (32015, ()), (32001, ()), (32004, (1000,))])
def test_damaged_chunks_are_errors(tmp_path, filter_id, options):
    """Reading such a chunk fails with HDF5's error; the chunks beside it are read."""
    data = numpy.arange(20000, dtype="i4") // 50
    write(tmp_path / "a.h5", data, (10000,), filter_id, options)
    with h5py.File(tmp_path / "a.h5") as file:
        chunk = file["x"].id.read_direct_chunk((0,))[1]
    for damaged in [chunk[:-1], chunk[:len(chunk) // 2], chunk[:3], bytes(len(chunk)), b"\xff" * len(chunk), chunk[8:]]:
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["x"].id.write_direct_chunk((0,), damaged)
        with h5py.File(tmp_path / "a.h5") as file:
            with pytest.raises(OSError):
                file["x"][:10]
            assert (file["x"][10000:] == data[10000:]).all()


CODECS = [(307, (5,), numcodecs.BZ2(5)), (32015, (5,), numcodecs.Zstd(5)),
          *[(32001, (0, 0, 0, 0, 5, shuffle, code), numcodecs.Blosc(name, 5, shuffle))
            for shuffle in (0, 1, 2) for code, name in [(0, "blosclz"), (1, "lz4"), (2, "lz4hc"), (4, "zlib"), (5, "zstd")]]]


@pytest.mark.parametrize("filter_id, options, codec", CODECS)
def test_chunks_are_numcodecs_chunks(tmp_path, filter_id, options, codec):
    data = numpy.arange(3000, dtype="f8").reshape(30, 100)
    write(tmp_path / "a.h5", data, (30, 100), filter_id, options, optional=False)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        mask, chunk = file["x"].id.read_direct_chunk((0, 0))
        assert mask == 0 and bytes(codec.decode(chunk)) == data.tobytes()
        theirs = codec.encode(data * 2)
        file["x"].id.write_direct_chunk((0, 0), theirs)
    assert same(read(tmp_path / "a.h5"), data * 2)


COPY = """
import sys, h5py
source, target, number, *options = sys.argv[1:]
with h5py.File(source) as old, h5py.File(target, "w") as new:
    for name in old:
        new.create_dataset(name, data=old[name][...], chunks=old[name].chunks or True, compression=int(number),
                           compression_opts=tuple(map(int, options)))
"""


PLAIN = """
import sys, h5py
with h5py.File(sys.argv[1]) as old, h5py.File(sys.argv[2], "w") as new:
    new["x"] = old["x"][...]
"""


@pytest.mark.parametrize("filter_id, options", [(307, (9,)), (307, (1,)), (32004, ()), (32004, (1000,)), *BLOSC])
def test_files_of_debians_plugins(tmp_path, debian_plugins, filter_id, options):
    """What Debian's plugin writes ours reads, and the other way round. Another process has the other plugins."""
    for data in arrays():
        with h5py.File(tmp_path / "plain.h5", "w") as file:
            file.create_dataset("x", data=data, chunks=(25, 40))
        run(sys.executable, "-c", COPY, tmp_path / "plain.h5", tmp_path / "theirs.h5", filter_id, *options,
            env={"HDF5_PLUGIN_PATH": debian_plugins})
        assert same(read(tmp_path / "theirs.h5"), data)
        write(tmp_path / "ours.h5", data, (25, 40), filter_id, options)
        run(sys.executable, "-c", PLAIN, tmp_path / "ours.h5", tmp_path / "back.h5", env={"HDF5_PLUGIN_PATH": debian_plugins})
        assert same(read(tmp_path / "back.h5"), data)


@pytest.mark.parametrize("filter_id, options", [(307, (9,)), (32015, (5,)), (32004, (0,)), (32001, (0, 0, 0, 0, 5, 1, 1))])
class TestTools:
    def test_h5repack_and_h5dump(self, tmp_path, filter_id, options):
        data = numpy.arange(6000, dtype="i4").reshape(60, 100)
        with h5py.File(tmp_path / "plain.h5", "w") as file:
            file["x"] = data
        text = ",".join(map(str, (filter_id, 0, len(options), *options)))
        run("h5repack", "-l", "x:CHUNK=20x50", "-f", f"x:UD={text}", tmp_path / "plain.h5", tmp_path / "packed.h5")
        with h5py.File(tmp_path / "packed.h5") as file:
            assert file["x"].id.get_create_plist().get_filter(0)[0] == filter_id
        assert same(read(tmp_path / "packed.h5"), data)

        def dump(path):
            return run("h5dump", "-y", "-d", "x", path).stdout.split("DATA {")[1]

        assert dump(tmp_path / "packed.h5") == dump(tmp_path / "plain.h5")
        assert "5998, 5999" in dump(tmp_path / "packed.h5")
        assert f"FILTER_ID {filter_id}" in run("h5dump", "-p", "-H", tmp_path / "packed.h5").stdout

    def test_nccopy_and_ncdump(self, tmp_path, filter_id, options):
        values = ", ".join(str(i * 0.5) for i in range(1200))
        (tmp_path / "a.cdl").write_text(
            "netcdf a { dimensions: y = 30; x = 40; variables: double v(y, x); short w(x); data: "
            f"v = {values}; w = {', '.join(str(i) for i in range(40))}; }}")
        run("ncgen", "-k", "nc4", "-o", tmp_path / "a.nc", tmp_path / "a.cdl")
        spec = ",".join(map(str, (filter_id, *options)))
        run("nccopy", "-c", "y/10,x/40", "-F", f"*,{spec}", tmp_path / "a.nc", tmp_path / "b.nc")
        with h5py.File(tmp_path / "b.nc") as file:
            for name in "vw":
                assert file[name].id.get_create_plist().get_filter(0)[0] == filter_id
                assert file[name].id.get_chunk_info(0).filter_mask == 0 or name == "w"
        assert f'"{filter_id},' in run("ncdump", "-h", "-s", tmp_path / "b.nc").stdout
        assert run("ncdump", "-n", "a", tmp_path / "b.nc").stdout == run("ncdump", "-n", "a", tmp_path / "a.nc").stdout
