"""codecfs info: what it tells about datasets, against h5py and zarr-python; the tree on a terminal."""
import json
import os
import re
import shutil
import unicodedata

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from compare import numpy_dtype
from conftest import CODECFS, DATA
from running import codecfs, run
from terminals import on_terminal, without_colours
from zarr3_cases import LITTLE, ZSTD, sharding
from zarr3_stores import write_array, write_group, zip_store

SHARDS = sharding([2, 3], [LITTLE, ZSTD])


def info_of(*words, code=0, **kwargs):
    result = codecfs("info", *words, **kwargs, code=code)
    return result.stdout if code == 0 else result.stderr


def info(*words):
    return json.loads(info_of(*words, "--json"))


def by_path(found):
    return {variable["path"]: variable for variable in found["variables"]}


def columns_of(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


# ---- against the libraries

def hdf5_datasets(path):
    """All datasets of a file, each by the first of its names."""
    found = {}
    with h5py.File(path) as f:
        f.visititems(lambda name, item: found.update({"/" + name: None}) if isinstance(item, h5py.Dataset) else None)
    return found


HDF5 = sorted(path.name for path in (DATA / "hdf5").iterdir() if path.suffix in (".h5", ".nc"))


@pytest.mark.parametrize("name", [name for name in HDF5 if not name.startswith("damaged")])
def test_hdf5_is_as_h5py_says(name):
    path = DATA / "hdf5" / name
    found = by_path(info(path))
    checked = 0
    with h5py.File(path) as f:
        for own, variable in found.items():
            dataset = f[own] if own in f else None
            if dataset is None:
                continue  # a name that is shown in another way
            if dataset.shape is None:
                continue  # H5S_NULL has no array
            if dataset.dtype.kind == "O" or dataset.is_virtual or dataset.external:
                continue
            # Elements that are arrays are shown as further dimensions.
            inner = list(dataset.dtype.subdtype[1]) if dataset.dtype.subdtype else []
            shape, chunks = list(dataset.shape) + inner, list(dataset.chunks or ()) + inner
            if name == "netcdf_name_of_a_dimension.nc":
                shape = variable["shape"]  # of a record dimension: netCDF counts the records of all its variables
            assert variable["shape"] == shape, own
            if "error" not in variable:
                assert variable["decoded_bytes"] == int(np.prod(shape, dtype=object)) * numpy_dtype(variable["dtype"]).itemsize
            if dataset.chunks and "error" not in variable:
                assert variable["chunks"] == chunks, own
                try:
                    count = dataset.id.get_num_chunks()
                    stored = sum(dataset.id.get_chunk_info(i).size for i in range(count))
                except (AttributeError, RuntimeError, ValueError):
                    count, stored = None, dataset.id.get_storage_size()
                if count is not None and variable["all_chunks"] > 0:
                    assert variable["stored_chunks"] == count, own
                assert variable["stored_bytes"] == stored, own
                names = [item.get("id") for item in variable["codecs"]]
                for word, is_set in (("shuffle", dataset.shuffle), ("fletcher32", dataset.fletcher32)):
                    assert (word in names) == is_set, own
                assert ("zlib" in names) == (dataset.compression == "gzip"), own
            elif not dataset.chunks and "error" not in variable and name != "netcdf_name_of_a_dimension.nc":
                assert variable["stored_bytes"] in (dataset.id.get_storage_size(), 0), own
            checked += 1
    assert checked > 0 or name in ("external_files.h5", "virtual_dataset.h5", "many_attributes.h5"), found.keys()


def arrays_of(group):
    if isinstance(group, zarr.Array):
        return {"/": group}
    found = {}
    group.visititems(lambda name, item: found.update({"/" + name: item}) if isinstance(item, zarr.Array) else None)
    return found


ZARR = ["attributes", "blosc", "compressors", "filters", "fortran_order", "groups", "missing_chunks", "numeric_types",
        "shapes", "slash_separator", "strings", "structured", "times", "objects", "array_as_root", "scalar_as_root"]


@pytest.mark.parametrize("name", ZARR)
def test_zarr_is_as_zarr_python_says(name):
    path = DATA / "zarr" / name
    found = by_path(info(path))
    arrays = arrays_of(zarr.open(str(path), "r"))
    assert set(found) == set(arrays) and arrays
    for own, array in arrays.items():
        variable = found[own]
        assert variable["shape"] == list(array.shape) and variable["chunks"] == list(array.chunks), own
        assert variable["all_chunks"] == array.nchunks, own
        if array.shape and name != "slash_separator":  # zarr-python counts the metadata of a scalar, and no subfolders
            assert variable["stored_chunks"] == array.nchunks_initialized, own
        chunks = [file for file in (path / own[1:]).rglob("*") if file.is_file() and not file.name.startswith(".z")]
        assert variable["stored_bytes"] == sum(file.stat().st_size for file in chunks), own
        if array.shape and name != "slash_separator":  # where zarr-python counts only what is directly in the folder
            own_metadata = (path / own[1:]).glob(".z*")
            assert variable["stored_bytes"] == array.nbytes_stored - sum(file.stat().st_size for file in own_metadata)
        if array.dtype.kind != "O":
            assert numpy_dtype(variable["dtype"]) == array.dtype, own
            assert variable["decoded_bytes"] == array.nbytes, own
        codecs = [codec.get_config() for codec in (array.filters or [])] + \
                 ([array.compressor.get_config()] if array.compressor else [])
        ids = [codec["id"] for codec in codecs if not (array.dtype.kind == "O" and codec is codecs[0])]
        assert [codec["id"] for codec in variable["codecs"]] == ids, own


def test_totals_are_the_sums():
    found = info(DATA / "hdf5/filters_builtin.h5")
    assert found["stored_bytes"] == sum(v["stored_bytes"] for v in found["variables"]) > 0
    assert found["decoded_bytes"] == sum(v["decoded_bytes"] for v in found["variables"]) > 0
    assert found["file_bytes"] == os.path.getsize(DATA / "hdf5/filters_builtin.h5")
    assert found["source"] == str(DATA / "hdf5/filters_builtin.h5") and found["format"] == "HDF5"


@pytest.mark.parametrize("name, kind", [("hdf5/netcdf_groups.nc", "netCDF-4"), ("zarr/groups", "Zarr v2"),
                                        ("hdf5/links.h5", "HDF5")])
def test_the_format_is_named(name, kind):
    assert info(DATA / name)["format"] == kind


def test_types_as_people_name_them(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for kind in ("i1", "u2", "f4", "f8", "c8", "?", "S7"):
            f.create_dataset(kind.replace("?", "b"), (2,), kind)
        f.create_dataset("text", (2,), h5py.string_dtype())
        f.create_dataset("record", (2,), np.dtype([("x", "i1"), ("y", "f8", (3,)), ("z", [("u", "u2")])]))
        f.create_dataset("big", (2,), ">f4")
        f.create_dataset("scalar", data=1.5)
        f.create_dataset("empty", (0, 3), "f4", chunks=(1, 3), maxshape=(None, 3))
    found = by_path(info(path))
    types = {name[1:]: variable["type"] for name, variable in found.items()}
    assert types["i1"] == "int8" and types["u2"] == "uint16" and types["f4"] == types["big"] == "float32"
    assert types["f8"] == "float64" and types["c8"] == "complex64" and types["b"] == "bool" and types["S7"] == "bytes[7]"
    assert types["text"] == "string" and types["record"] == "{x: int8, y: float64[3], z: {u: uint16}}"
    assert found["/scalar"]["shape"] == [] and found["/scalar"]["decoded_bytes"] == 8
    assert found["/empty"]["all_chunks"] == found["/empty"]["stored_bytes"] == found["/empty"]["decoded_bytes"] == 0
    assert all("\n" not in variable["type"] for variable in found.values())


def test_sizes_beyond_64_bits_do_not_wrap(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", (1 << 40, 1 << 30), "f8", chunks=(1 << 20, 16))
    variable = by_path(info(tmp_path / "a.h5"))["/v"]
    assert variable["decoded_bytes"] == 2**64 - 1 and variable["stored_bytes"] == 0


def test_a_chunk_index_with_many_chunks(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        d = f.create_dataset("v", (20000,), "i4", chunks=(2,), compression="gzip")
        d[:9000] = np.arange(9000)
        d[15000:15003] = 1
        count, size = d.id.get_num_chunks(), d.id.get_storage_size()
    variable = by_path(info(tmp_path / "a.h5"))["/v"]
    assert (variable["stored_chunks"], variable["stored_bytes"]) == (count, size) == (4502, size)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_the_stored_bytes_of_many_chunks(tmp_path, version):
    """In B-trees of several levels. libhdf5 tells the size, and the filters that were left out of each chunk."""
    shape = (90, 70)
    with h5py.File(tmp_path / "a.h5", "w", libver=version) as file:
        v = file.create_dataset("v", shape, "u1", chunks=(1, 2), maxshape=(None, None), shuffle=True, compression="gzip")
        for row in range(0, shape[0], 2):
            for column in range(0, shape[1], 2):
                mask = 2 if (row + column) % 3 == 0 else 0
                v.id.write_direct_chunk((row, column), bytes(1 + (row * column) % 9), filter_mask=mask)
    with h5py.File(tmp_path / "a.h5") as file:
        v = file["v"].id
        chunks = [v.get_chunk_info(i) for i in range(v.get_num_chunks())]
    found = by_path(info(tmp_path / "a.h5"))["/v"]
    assert found["stored_chunks"] == len(chunks) == 45 * 35
    assert found["stored_bytes"] == sum(c.size for c in chunks)
    assert found["masked_chunks"] == sum(c.filter_mask != 0 for c in chunks) > 0


def test_nested_groups_and_links(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["a/b/c/v"] = np.arange(3)
        f["z_again"] = f["a/b/c/v"]
        f["soft"] = h5py.SoftLink("/a/b")
    found = info(tmp_path / "a.h5")
    assert {group["path"] for group in found["groups"]} == {"/", "/a", "/a/b", "/a/b/c"}
    assert len(found["variables"]) == 1  # each object once
    text = info_of(tmp_path / "a.h5")
    assert "soft → a/b" in text and re.search(r"z_again → |v → ", text)
    for path in ("a/b/c/v", "/a/b/c/v", "a//b/./c/v/", "z_again", "soft/c/v"):
        assert "int64" in info_of(tmp_path / "a.h5", path), path
        assert info(tmp_path / "a.h5", path)["variables"][0]["shape"] == [3]
    assert {group["path"] for group in info(tmp_path / "a.h5", "a/b")["groups"]} == {"/a/b", "/a/b/c"}
    assert "there is no /a/x" in info_of(tmp_path / "a.h5", "a/x/y", code=32)
    assert "there is no /a/b/c/vv; did you mean v?" in info_of(tmp_path / "a.h5", "a/b/c/vv", code=32)
    assert "there is no /sotf; did you mean soft?" in info_of(tmp_path / "a.h5", "sotf/c/v", code=32)
    assert "is not a group" in info_of(tmp_path / "a.h5", "a/b/c/v/w", code=32)


def test_shards_of_zarr_3(tmp_path):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", np.arange(21 * 17).reshape(21, 17), (8, 6), [SHARDS], "int32", 0, 0)
    zip_store(tmp_path / "s", tmp_path / "s.zip")
    for store in (tmp_path / "s", tmp_path / "s.zip"):
        found = info(store)
        variable = by_path(found)["/v"]
        assert found["format"].startswith("Zarr v3") and variable["type"] == "int32"
        assert variable["shards"] == [8, 6] and variable["chunks"] == [2, 3] and variable["shape"] == [21, 17]
        assert variable["stored_chunks"] == variable["all_chunks"] == 11 * 6
        files = sum(file.stat().st_size for file in (tmp_path / "s/v").rglob("*") if file.name != "zarr.json")
        assert 0 < variable["stored_bytes"] <= files
        assert "2 × 3 in shards of 8 × 6" in info_of(store, "v")


def test_a_folder_of_datasets(tmp_path):
    shutil.copy(DATA / "hdf5/layouts.h5", tmp_path / "one.h5")
    (tmp_path / "below").mkdir()
    shutil.copytree(DATA / "zarr/groups", tmp_path / "below/two.zarr")
    (tmp_path / "readme.txt").write_text("nothing")
    found = info(tmp_path)
    paths = set(by_path(found))
    assert any("one" in path for path in paths) and any(path.startswith("/below/two") for path in paths)
    assert len(paths) == len(info(DATA / "hdf5/layouts.h5")["variables"]) + len(info(DATA / "zarr/groups")["variables"])
    assert "below/" in info_of(tmp_path) and "file_bytes" not in found


def test_what_to_install_for_a_missing_filter():
    [variable] = [v for v in info(DATA / "hdf5/filter_unknown.h5")["variables"] if "missing_filters" in v]
    assert "32999" in variable["missing_filters"][0]
    found = info("-O", "plugins=off,builtin=off:lz4", DATA / "hdf5/filters_plugins.h5")
    missing = [v for v in found["variables"] if "missing_filters" in v]
    assert len(missing) == 2 and all("lz4" in text for v in missing for text in v["missing_filters"])
    text = info_of("-O", "plugins=off,builtin=off:lz4", DATA / "hdf5/filters_plugins.h5")
    assert "is not installed" in text


def test_what_cannot_be_read_does_not_hide_the_rest(tmp_path):
    store = tmp_path / "s"
    shutil.copytree(DATA / "zarr/groups", store)
    good = len(info(store)["variables"])
    g = zarr.open_group(str(store), "a")
    g.create_dataset("bad", shape=(3,), dtype="i4")
    (store / "bad/.zarray").write_text("{")
    found = info(store)
    assert len(found["variables"]) == good + 1 and "error" in by_path(found)["/bad"]
    assert "! " in info_of(store)
    if os.geteuid() == 0:
        return  # may read everything
    locked = store / "locked"
    locked.mkdir(mode=0)
    assert len(info(store)["variables"]) == good + 1


def test_a_group_that_cannot_be_listed(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=("v108", "v108"), track_order=False) as f:
        for i in range(40):  # in a fractal heap, with a B-tree of version 2
            f[f"g/v{i}"] = i
        f["w"] = np.arange(5)
    data = path.read_bytes()
    at = data.find(b"BTHD")
    assert at > 0
    path.write_bytes(data[:at] + b"XXXX" + data[at + 4:])
    found = info(path)
    [group] = [group for group in found["groups"] if group["path"] == "/g"]
    assert "error" in group and by_path(found)["/w"]["shape"] == [5]
    assert "! " in info_of(path)


@pytest.mark.parametrize("source", ["/nonexistent.h5", "text"])
def test_failures_have_one_line_and_exit_code_32(source, tmp_path):
    (tmp_path / "text").write_text("hello\n" * 100)
    error = info_of(source, code=32, cwd=tmp_path)
    assert error.count("\n") == 1 and source in error


def test_wrong_words_have_exit_code_1():
    for words in ([], ["--nonsense", "a"], ["a", "b", "c"], ["-O", "nonsense", str(DATA / "hdf5/layouts.h5")]):
        result = codecfs("info", *words, seconds=30, code=1)
        assert result.stderr.count("\n") == 1, (words, result)


def test_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        result = codecfs("info", DATA / "hdf5/layouts.h5", stdout=full, seconds=30, code=None, text=False)
    assert result.returncode == 32


def test_the_variable_with_its_attributes():
    path = DATA / "hdf5/netcdf_simple.nc"
    text = info_of(path, "temperature")
    with netCDF4.Dataset(path) as d:
        variable = d["temperature"]
        assert f"units = {variable.units}" in text
        assert ", ".join(variable.dimensions) in text and "unlimited" in text
        for name in variable.ncattrs():
            assert f"    {name} = " in text


# ---- on a terminal

@pytest.mark.parametrize("columns", [40, 60, 80, 132, 400])
@pytest.mark.parametrize("name", ["hdf5/filters_builtin.h5", "hdf5/types_compound.h5", "zarr/unicode_names",
                                  "hdf5/filter_unknown.h5", "hdf5/links.h5"])
def test_lines_fit_on_the_terminal(name, columns):
    shown = without_colours(on_terminal(DATA / name, columns=columns))
    for line in shown.splitlines():
        assert columns_of(line) <= columns, line
    everything = info_of(DATA / name)
    if columns == 400:
        assert shown == everything
    for variable in info(DATA / name)["variables"]:
        last = variable["path"].split("/")[-1]
        assert last[:4] in shown


def test_a_variable_fits_on_the_terminal():
    path = DATA / "hdf5/filters_scaleoffset_nbit.h5"
    shown = without_colours(on_terminal(path, by_first(path), columns=50))
    assert all(columns_of(line) <= 50 for line in shown.splitlines())


def by_first(path):
    return sorted(by_path(info(path)))[0]


def test_colours_only_on_a_terminal(tmp_path):
    path = DATA / "hdf5/netcdf_groups.nc"
    assert "\x1b" not in info_of(path)
    assert "\x1b[" in on_terminal(path)
    assert "\x1b" not in on_terminal(path, NO_COLOR="1")
    assert "\x1b[" in on_terminal(path, NO_COLOR="")
    assert "\x1b" not in info_of(path, env={"CLICOLOR_FORCE": "1"})


@pytest.mark.parametrize("name", ["a\x1b]0;title\x07b", "a\nb", "a\x9b31mb", "a\u202eb", "a\x7fb"])
def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path, name):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset(name, data=np.arange(3))
        f.attrs["x"] = name
        f[name].attrs[name] = name
        f.create_group("g" + name)
    for text in (without_colours(on_terminal(path)), info_of(path), info_of(path, by_first(path))):
        for bad in "\x1b\x07\x9b\u202e\x7f":
            assert bad not in text, repr(text)
    bad = tmp_path / f"b{name}.h5"
    shutil.copy(path, bad)
    assert not set("\x1b\x07\x9b\u202e\x7f") & set(without_colours(on_terminal(bad)))
    assert not set("\x1b\x07\x9b\u202e\x7f") & set(info_of(bad, "nix", code=32))


def test_names_of_wide_characters_are_aligned(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["温度"], f["abc"], f["e\u0301e\u0301"] = 1, 2, 3
    lines = info_of(tmp_path / "a.h5").splitlines()[3:]
    places = {columns_of(line[:line.index("int64")]) for line in lines}
    assert len(lines) == 3 and len(places) == 1


def test_help_has_examples():
    text = info_of("--help")
    assert "Examples:" in text and "codecfs info " in text and "--json" in text


def test_no_mount_and_no_fuse_are_needed(tmp_path):
    """No descriptor of /dev/fuse is opened."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    trace = tmp_path / "trace"
    run("strace", "-f", "-e", "trace=openat,mount", "-o", trace, CODECFS, "info", DATA / "zarr/groups")
    assert "/dev/fuse" not in trace.read_text() and "mount(" not in trace.read_text()


def test_objects_that_libhdf5_finds_damaged_do_not_hide_the_rest(tmp_path):
    """They are asked for together; libhdf5 is not used any more once it reports damage."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for i in range(30):
            f.create_dataset(f"v{i:02}", data=np.arange(5, dtype="<i4" if i % 10 == 3 else "<f8"))
    data = path.read_bytes()
    kind = b"\x10\x08\0\0\x04\0\0\0\0\0\x20\0"  # the datatype message of an integer: version 1, class 0
    assert data.count(kind) == 3
    path.write_bytes(data.replace(kind, b"\x90" + kind[1:]))
    found = by_path(info(path))
    assert len(found) == 30
    bad = {name for name, variable in found.items() if "error" in variable}
    assert bad == {"/v03", "/v13", "/v23"}
    assert all(found[name]["stored_bytes"] == 40 for name in set(found) - bad)
