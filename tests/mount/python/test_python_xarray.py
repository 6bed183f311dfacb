"""xarray.open_dataset(..., engine="codecfs"): it has what xarray's own engines read from the same source, and gives mounts back."""
import errno
import fcntl
import gc
import os
import pathlib
import pickle
import shutil
import signal
import threading

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from buckets import BUCKET, KEYS, make_v2, server  # noqa: F401: a fixture
from conftest import DATA, wait_until
from mounts import is_mounted, signal_all
from python_package import grid, in_python, made_sample, no_mount_is_left, sample, site  # noqa: F401: fixtures
from running import run

import codecfs
from codecfs import _shared
from codecfs._arrays import read, tree_of
from codecfs._mount import is_alive
from codecfs._shared import SharedMount
from codecfs._xarray import CodecfsBackendEntrypoint as ENGINE

CORPUS = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
# What netCDF-4 has and the JSON of an attribute does not: the width of its numbers, bytes that are no text, members of compounds.
OTHER_ATTRIBUTES = {"ref_nc_test_netcdf4_4_0.nc", "ref_tst_compounds4.nc", "ref_tst_xplatform2_1.nc", "ref_tst_xplatform2_2.nc"}
NETCDF = [path for path in [*sorted((DATA / "hdf5").glob("netcdf_*.nc")), *sorted(CORPUS.rglob("*.nc"))]
          if path.read_bytes()[:3] != b"CDF"]


def groups_of(path):
    def below(group, name):
        yield name
        for member, found in group.groups.items():
            yield from below(found, f"{name.rstrip('/')}/{member}")

    try:
        with netCDF4.Dataset(path) as file:
            return list(below(file, "/"))
    except TypeError:  # a type that netCDF4 does not have
        return ["/"]


def opened(path, group, engine):
    """The dataset, or why there is none: what xarray itself refuses."""
    try:
        with xarray.open_dataset(path, engine=engine, group=group) as dataset:
            return dataset.load()
    except Exception as error:
        return error


@pytest.mark.parametrize("path", NETCDF, ids=lambda path: path.name)
def test_netcdf_files_are_as_netcdf4_reads_them(path):
    for group in groups_of(path):
        wanted, found = opened(path, group, "netcdf4"), opened(path, group, ENGINE)
        if isinstance(wanted, Exception):
            # Where codecfs reads what netCDF4 cannot, there is nothing to compare with.
            assert not isinstance(found, Exception) or type(found) is type(wanted), found
            continue
        if path.name == "netcdf_user_types.nc" and group == "/":  # sequences of variable length, which Zarr does not have
            assert "no Zarr v2 form" in str(found)
            with xarray.open_dataset(path, engine=ENGINE, drop_variables=["ragged"]) as dataset:
                xarray.testing.assert_equal(dataset.load(), wanted.drop_vars("ragged"))
            continue
        assert not isinstance(found, Exception), found
        if path.name in OTHER_ATTRIBUTES:
            for name, variable in wanted.variables.items():
                assert found.variables[name].equals(variable) and list(found.variables[name].attrs) == list(variable.attrs), name
            assert set(found.variables) == set(wanted.variables)
        else:
            xarray.testing.assert_identical(found, wanted)


def test_there_is_a_corpus():
    if not CORPUS.is_dir():
        pytest.skip("skipped: CODECFS_CORPUS names no folder of files to try")
    assert any(CORPUS in path.parents for path in NETCDF)


def test_zarr_stores_are_as_the_engine_zarr_reads_them(tmp_path):
    made = xarray.Dataset({"a": (("y", "x"), np.arange(12.0).reshape(3, 4), {"flags": [1], "pair": [1, 2], "none": None}),
                           "words": ("x", np.array(["a", "é", "", "long"], object)), "fixed": ("y", np.array(["b", "", "ü"]))},
                          {"time": ("y", np.array(["2001-01-01", "2002-02-02", "NaT"], "M8[ns]"))}, {"title": "t"})
    made.to_zarr(tmp_path / "a.zarr", encoding={"a": {"_FillValue": 5.0, "chunks": (2, 3)}})
    for path in (DATA / "zarr/xarray_dataset", tmp_path / "a.zarr"):
        with xarray.open_dataset(path, engine=ENGINE) as found, xarray.open_dataset(path, engine="zarr") as wanted:
            xarray.testing.assert_identical(found.load(), wanted.load())


def test_scaled_and_missing_values(tmp_path):
    path = tmp_path / "packed.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 6)
        packed = file.createVariable("packed", "i2", ("x",), fill_value=-1, zlib=True)
        packed.scale_factor, packed.add_offset = 0.25, 10.0
        packed.set_auto_maskandscale(False)
        packed[:] = [0, 1, -1, 3, 4, -1]
        time = file.createVariable("time", "f8", ("x",))
        time.units = "days since 2001-01-01"
        time[:] = range(6)
        unwritten = file.createVariable("unwritten", "f4", ("x",), fill_value=False, chunksizes=(2,))
        unwritten.long_name = "never written"
    with xarray.open_dataset(path, engine=ENGINE) as found, xarray.open_dataset(path, engine="netcdf4") as wanted:
        # libhdf5 gives undefined numbers where nothing was written and there is no fill value.
        assert (found.unwritten.values == 0).all()
        xarray.testing.assert_identical(found.drop_vars("unwritten").load(), wanted.drop_vars("unwritten").load())
        assert np.isnan(found.packed.values[[2, 5]]).all() and found.packed.values[3] == 10.75
        assert found.time.dtype.kind == "M"
        assert found.packed.encoding["_FillValue"] == -1 and found.packed.encoding["dtype"] == np.dtype("i2")


def test_scale_factors_of_32_bits(tmp_path):
    """They have 64 bits in JSON: the values are the same but for rounding."""
    path = tmp_path / "packed.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        packed = file.createVariable("packed", "i2", ("x",))
        packed.set_auto_maskandscale(False)
        packed.scale_factor = np.float32(0.01)
        packed[:] = [1, 2, 3]
        file.createVariable("plain", "f4", ("x",), fill_value=np.float32(0.1))[:] = [0.1, 2, 3]
    with xarray.open_dataset(path, engine=ENGINE) as found, xarray.open_dataset(path, engine="netcdf4") as wanted:
        np.testing.assert_allclose(found.packed.values, wanted.packed.values, rtol=1e-6)
        xarray.testing.assert_identical(found.plain, wanted.plain)
        assert np.isnan(found.plain.values[0])


def test_the_encoding_makes_the_same_file_again(tmp_path, sample):
    with xarray.open_dataset(sample, engine=ENGINE) as found:
        assert found.encoding == {"unlimited_dims": {"time"}, "source": str(sample)}
        assert found.temperature.encoding["chunksizes"] == (1, 9, 18)
        assert found.temperature.encoding["preferred_chunks"] == {"time": 1, "lat": 9, "lon": 18}
        found.to_netcdf(tmp_path / "again.nc", engine="netcdf4")
    with netCDF4.Dataset(tmp_path / "again.nc") as file:
        assert file.dimensions["time"].isunlimited() and not file.dimensions["lat"].isunlimited()
        assert file["temperature"].chunking() == [1, 9, 18] and file["temperature"]._FillValue == -999


# --- the engine in xarray


def test_the_engine_is_there_and_takes_no_files_of_others(site, sample):
    said = in_python(site, f"""if True:
        import xarray
        dataset = xarray.open_dataset({str(sample)!r}, engine="codecfs")
        print(float(dataset.temperature[0, 0, 0]))
        assert "codecfs" in xarray.backends.plugins.list_engines()
        assert xarray.backends.plugins.guess_engine({str(sample)!r}) == "netcdf4"
    """)
    assert said.startswith("265.2")


def test_what_it_guesses(sample, tmp_path, monkeypatch):
    engine = ENGINE()
    assert not engine.guess_can_open(str(sample)), "netCDF4 is installed here"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert engine.guess_can_open(str(sample)) and engine.guess_can_open(sample)
    copy = shutil.copy(sample, tmp_path / "sample.h5")
    (tmp_path / "classic.nc").write_bytes(b"CDF\x01" + bytes(28))
    (tmp_path / "directory.nc").mkdir()
    for other in (copy, tmp_path / "classic.nc", tmp_path / "directory.nc", tmp_path / "nothing.nc", "s3://bucket/a.nc", "https://x/a.nc",
                  DATA / "zarr/xarray_dataset", b"\x89HDF", open(sample, "rb")):
        assert not engine.guess_can_open(other), other
    monkeypatch.setenv("CODECFS", "/nonexistent")
    assert not engine.guess_can_open(sample)


def test_arguments(sample):
    with xarray.open_dataset(sample, engine=ENGINE, drop_variables="temperature", mask_and_scale=False) as dataset:
        assert "temperature" not in dataset and "lat" in dataset.coords
    with xarray.open_dataset(sample, engine=ENGINE, group="/ocean/", options={"cache": "1M"}) as dataset:
        assert list(dataset) == ["salinity"]
    for group, reason in (("nothing", "not there"), ("temperature", "an array")):
        with pytest.raises(FileNotFoundError, match=reason):
            xarray.open_dataset(sample, engine=ENGINE, group=group)
    with pytest.raises(codecfs.CodecfsError, match="nothing.nc: No such file"):
        xarray.open_dataset("nothing.nc", engine=ENGINE)
    with pytest.raises(codecfs.CodecfsError, match="cache"):
        xarray.open_dataset(sample, engine=ENGINE, options=["cache=much"])
    with pytest.raises(TypeError, match="paths and URLs"):
        ENGINE().open_dataset(open(sample, "rb"))
    with pytest.raises(TypeError, match="not a string"):
        xarray.open_dataset(sample, engine=ENGINE, options="ro")


def test_a_folder_of_datasets(tmp_path, sample):
    (tmp_path / "all").mkdir()
    sample.rename(tmp_path / "all/one.nc")
    with xarray.open_dataset(tmp_path / "all", engine=ENGINE, group="one.nc/ocean") as dataset:
        assert round(float(dataset.salinity[0, 1]), 2) == 34.68


def test_arrays_without_names_of_dimensions_are_left_out(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_dataset("plain", data=[1, 2])
    group.create_dataset("named", data=[3, 4]).attrs["_ARRAY_DIMENSIONS"] = ["x"]
    with pytest.warns(codecfs.CodecfsWarning, match="/plain is left out"):
        dataset = xarray.open_dataset(tmp_path / "a.zarr", engine=ENGINE)
    assert list(dataset) == ["named"]


def test_all_groups_at_once():
    path = DATA / "hdf5/netcdf_groups.nc"
    found = ENGINE().open_groups_as_dict(path)
    (place,) = {lazy.shared._mount.path for lazy in arrays_of(*found.values())}
    assert list(found) == sorted(groups_of(path), key=lambda name: name.split("/"))
    for group, dataset in found.items():
        xarray.testing.assert_identical(dataset.load(), xarray.open_dataset(path, engine="netcdf4", group=group).load())
    below = ENGINE().open_groups_as_dict(path, group="alpha")
    assert list(below) == ["/", "/inner"]
    for dataset in below.values():
        dataset.close()
    if not hasattr(xarray, "DataTree"):
        with pytest.raises(NotImplementedError, match="needs xarray 2024.10 or later"):
            ENGINE().open_datatree(path)
    *others, last = found.values()
    for dataset in others:
        dataset.close()
    assert is_mounted(place)
    last.close()
    assert not is_mounted(place)


def arrays_of(*datasets):
    """The lazy arrays of this package; datasets must not be decoded, nor loaded."""
    for dataset in datasets:
        for variable in dataset.variables.values():
            data = variable._data
            while not hasattr(data, "shared") and hasattr(data, "array"):
                data = data.array
            if hasattr(data, "shared"):
                yield data


# --- what is selected


def random_step(rng, length):
    kind = rng.integers(4)
    if kind == 0:
        return int(rng.integers(-length, length))
    if kind == 1:
        return rng.integers(-length, length, rng.integers(0, 6))
    step = int(rng.choice([-7, -2, -1, 1, 2, 5, 40]))
    ends = [None if rng.integers(4) == 0 else int(rng.integers(-length - 2, length + 3)) for _ in range(2)]
    return slice(*ends, step)


def test_random_selections(grid):
    path, values = grid
    rng = np.random.default_rng(7)
    with xarray.open_dataset(path, engine=ENGINE) as dataset:
        for _ in range(300):
            steps = [random_step(rng, length) for length in values.shape]
            wanted = values
            for axis in reversed(range(3)):
                wanted = wanted[(slice(None),) * axis + (steps[axis],)]
            found = dataset.v[tuple(steps)].values
            np.testing.assert_array_equal(found, wanted, err_msg=str(steps))
        points = [xarray.DataArray(rng.integers(0, length, 9), dims="point") for length in values.shape]
        np.testing.assert_array_equal(dataset.v[tuple(points)].values, values[tuple(point.values for point in points)])
        with pytest.raises(IndexError):
            dataset.v[37].values


@pytest.mark.parametrize("name", ["numeric_types", "shapes", "sparse", "structured", "strings", "fortran_order", "slash_separator", "objects",
                                  "nczarr_493", "scalar_as_root", "missing_chunks"])
def test_all_arrays_are_as_zarr_python_reads_them(name):
    """Of every type that Zarr has; and absent chunks."""
    shared = SharedMount(DATA / "zarr" / name)
    arrays = tree_of(shared).arrays
    assert arrays
    with shared.use() as path:
        for place, facts in arrays.items():
            wanted = zarr.open_array(str(path / place), mode="r")
            if facts.codecs not in ((), ("vlen-utf8",), ("vlen-bytes",)):
                with pytest.raises(codecfs.CodecfsError, match="cannot be read"):
                    read(shared, facts, (slice(None),) * len(facts.shape))
                continue
            found = read(shared, facts, (slice(None),) * len(facts.shape))
            expected = np.asarray(wanted[...])
            if expected.dtype.hasobject:
                expected = np.where(expected == 0, "", expected)
            if expected.dtype.names:  # members that are padding are none in C
                assert all((found[member] == expected[member]).all() for member in found.dtype.names), place
            else:
                np.testing.assert_array_equal(found, expected, err_msg=place)
                assert found.dtype == expected.dtype
    shared.end()


# --- mounts


def test_close_unmounts_and_reading_mounts_again(grid, no_mount_is_left):
    path, values = grid
    dataset = xarray.open_dataset(path, engine=ENGINE)
    (place,) = no_mount_is_left.iterdir()
    assert place.name.startswith("codecfs-grid.h5-") and is_mounted(place)
    first = dataset.v[:3].copy()
    dataset.close()
    assert list(no_mount_is_left.iterdir()) == []
    np.testing.assert_array_equal(first.values, values[:3])
    assert len(list(no_mount_is_left.iterdir())) == 1
    dataset.close()


def test_the_end_of_the_last_array_unmounts(grid, no_mount_is_left):
    dataset = xarray.open_dataset(grid[0], engine=ENGINE)
    part = dataset.v[0]
    del dataset
    gc.collect()
    assert len(list(no_mount_is_left.iterdir())) == 1
    assert part.shape == (22, 19)
    del part
    gc.collect()
    assert list(no_mount_is_left.iterdir()) == []


def test_the_end_of_python_unmounts(site, grid):
    place = in_python(site, f"""if True:
        import os, xarray
        dataset = xarray.open_dataset({str(grid[0])!r}, engine="codecfs")
        (place,) = os.listdir(os.environ["TMPDIR"])
        print(place)
        if os.fork() == 0:
            raise SystemExit(0)  # which is not the end of the mount
        os.wait()
        assert os.path.ismount(os.path.join(os.environ["TMPDIR"], place))
    """).strip()
    assert place.startswith("codecfs-grid.h5-") and not (pathlib.Path(os.environ["TMPDIR"]) / place).exists()


def test_other_programs_can_write_the_source(grid):
    """It is closed some seconds after it was read; what is read later is what is there then."""
    path, values = grid
    dataset = xarray.open_dataset(path, engine=ENGINE)
    (lazy,) = arrays_of(dataset)
    assert int(dataset.v[0, 0, 0]) == values[0, 0, 0]

    def is_free():
        with open(path, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    wait_until(is_free, 30)
    with h5py.File(path, "r+") as file:
        file["v"][...] = values + 1
    np.testing.assert_array_equal(dataset.v.values, values + 1)
    wait_until(is_free, 30)
    with h5py.File(path, "r+") as file:
        del file["v"]
    with pytest.raises((codecfs.CodecfsError, OSError)) as raised:
        read(lazy.shared, lazy.facts, (0, 0, 0))
    assert "changed" in str(raised.value) or raised.value.errno == errno.ESTALE
    dataset.close()


def test_a_killed_python_leaves_no_mount(site, grid, no_mount_is_left):
    text = f"import os, xarray; d = xarray.open_dataset({str(grid[0])!r}, engine='codecfs'); d.v[0].load(); os.kill(os.getpid(), 9)"
    in_python(site, text, code=-signal.SIGKILL)
    wait_until(lambda: list(no_mount_is_left.iterdir()) == [])


def test_few_sources_are_mounted_at_a_time(tmp_path, no_mount_is_left, monkeypatch):
    monkeypatch.setattr(_shared, "MOST_MOUNTS", 2)
    datasets = []
    for number in range(5):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("v", data=[number] * 3, chunks=(2,))
        datasets.append(xarray.open_dataset(tmp_path / f"{number}.h5", engine=ENGINE))
        assert len(list(no_mount_is_left.iterdir())) <= 2
    assert [int(dataset.v[2]) for dataset in datasets] == list(range(5))
    assert len(list(no_mount_is_left.iterdir())) == 2
    for dataset in datasets:
        dataset.close()


def test_threads_that_read_and_close(grid):
    path, values = grid
    dataset = xarray.open_dataset(path, engine=ENGINE)
    failures = []

    def work(number):
        try:
            for _ in range(10):
                np.testing.assert_array_equal(dataset.v[number::3].values, values[number::3])
                if number == 0:
                    dataset._close()
        except BaseException as error:
            failures.append(error)

    # A dataset keeps what it has read: each thread has its own.
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    dataset.close()


READ_PICKLE = "import pickle, sys; v = pickle.load(open(sys.argv[1], 'rb')); print(int(v.sum()))"


def test_a_pickled_dataset_is_read_by_another_process(site, grid, tmp_path):
    path, values = grid
    with xarray.open_dataset(path, engine=ENGINE) as dataset:
        (tmp_path / "pickled").write_bytes(pickle.dumps(dataset.v[3:9]))
    assert int(in_python(site, READ_PICKLE, tmp_path / "pickled")) == values[3:9].sum()
    # It is not the array that was opened any more.
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=np.zeros((37, 22, 19), "i8"), chunks=(5, 7, 6))
    with pytest.raises(AssertionError, match="was changed since it was opened"):
        in_python(site, READ_PICKLE, tmp_path / "pickled")
    path.unlink()
    with pytest.raises(AssertionError, match="No such file"):
        in_python(site, READ_PICKLE, tmp_path / "pickled")


def test_the_same_process_shares_the_mount_of_a_pickled_dataset(grid, no_mount_is_left):
    with xarray.open_dataset(grid[0], engine=ENGINE) as dataset:
        copy = pickle.loads(pickle.dumps(dataset.v))
        np.testing.assert_array_equal(copy.values, grid[1])
        assert len(list(no_mount_is_left.iterdir())) == 1


def test_forked_processes_have_mounts_of_their_own(site, grid, no_mount_is_left):
    """A pool forks while the parent has a mount, which the parent closes before its children read. The children are killed."""
    path, values = grid
    said = in_python(site, f"""if True:
        import multiprocessing, os, xarray
        dataset = xarray.open_dataset({str(path)!r}, engine="codecfs")
        def total(number):
            begin.wait()
            return int(dataset.v[number].sum())
        context = multiprocessing.get_context("fork")
        begin = context.Event()
        with context.Pool(2) as pool:
            results = pool.map_async(total, range(4))
            dataset.close()
            begin.set()
            print(*results.get(60))
    """)
    wait_until(lambda: list(no_mount_is_left.iterdir()) == [])
    assert [int(word) for word in said.split()] == [values[number].sum() for number in range(4)]


def test_a_mount_whose_process_has_died(grid, no_mount_is_left):
    path, values = grid
    dataset = xarray.open_dataset(path, engine=ENGINE)
    (lazy,) = arrays_of(dataset)

    def kill():
        (place,) = no_mount_is_left.iterdir()
        signal_all(map(int, run("pgrep", "-f", place).stdout.split()))
        wait_until(lambda: not is_alive(place))

    kill()
    np.testing.assert_array_equal(dataset.v[:2].values, values[:2])  # mounted again
    with pytest.raises(codecfs.CodecfsError, match="has ended while it was read"):
        with lazy.shared.use():
            kill()
    np.testing.assert_array_equal(dataset.v[:2].values, values[:2])
    dataset.close()


def test_damage_is_an_error_with_the_reason():
    with xarray.open_dataset(DATA / "hdf5/damaged_byte_under_fletcher32.h5", engine=ENGINE) as dataset:
        assert dataset.v[:1].values.size
        with pytest.raises(OSError, match=r"^\[Errno 5\] /v: chunk 2.0: filter 3 \(fletcher32\): the checksum") as raised:
            dataset.v.values
        assert raised.value.errno == 5


def test_an_object_store(server, tmp_path, monkeypatch, site):  # noqa: F811
    make_v2(tmp_path / "a.zarr")
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")
    group["a"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    server.put_tree(BUCKET, tmp_path / "a.zarr", "a.zarr/")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    options = {"endpoint": server.endpoint}
    with xarray.open_dataset(f"s3://{BUCKET}/a.zarr", engine=ENGINE, options=options) as dataset:
        wanted = zarr.open_array(str(tmp_path / "a.zarr"), path="a", mode="r")[...]
        np.testing.assert_array_equal(dataset.a.values, np.where(wanted == -1, np.nan, wanted))
        (tmp_path / "pickled").write_bytes(pickle.dumps(xarray.open_dataset(dataset.encoding["source"], engine=ENGINE, options=options).a))
    assert float(in_python(site, READ_PICKLE, tmp_path / "pickled")) == wanted.sum()
    with codecfs.open(f"s3://{BUCKET}/a.zarr", options=options) as data:
        assert data.info["format"].startswith("Zarr") and data["inner/b c+d"][10] == 0 and data["inner/b c+d"][0] == 9
