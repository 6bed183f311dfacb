"""Types that only HDF5 has come back when a file is converted to Zarr and back: h5py compares the types of all attributes and
datasets. zarr-python reads the store between, as before."""
import json

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from running import codecfs, run


def text_type(size, pad, utf8=False):
    kind = h5py.h5t.TypeID.copy(h5py.h5t.C_S1)
    kind.set_size(h5py.h5t.VARIABLE if size is None else size)
    kind.set_strpad(pad)
    kind.set_cset(h5py.h5t.CSET_UTF8 if utf8 else h5py.h5t.CSET_ASCII)
    return kind


def low_level(item, name, kind, data):
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    attribute = h5py.h5a.create(item.id, name.encode(), kind, space)
    attribute.write(np.array(data, "S6"), kind)


def fill_attributes(item):
    for code in "i1", "u1", "<i2", ">i4", "u8", "<f4", ">f8", "f2":
        item.attrs[f"number {code}"] = np.array(3, code)
        item.attrs[f"numbers {code}"] = np.array([1, 2], code)
    item.attrs["bytes"], item.attrs["list of bytes"] = np.bytes_(b"abc"), np.array([b"a", b"bcd"])
    item.attrs["text"], item.attrs["texts"] = "tëxt", ["a", "bé"]
    item.attrs.create("ascii", "abc", dtype=h5py.string_dtype("ascii"))
    item.attrs.create("fixed utf8", "é".encode(), dtype=h5py.string_dtype("utf-8", 5))
    low_level(item, "spaces", text_type(6, h5py.h5t.STR_SPACEPAD), b"ab    ")
    low_level(item, "zero", text_type(6, h5py.h5t.STR_NULLTERM), b"ab")
    item.attrs.create("enum", 2, dtype=h5py.enum_dtype({"A": 0, "B": 2}, basetype="i2"))
    item.attrs["flag"], item.attrs["flags"] = True, [True, False]
    item.attrs["record"] = np.array((1, 2.5, b"x"), [("i", "<i4"), ("f", "<f8"), ("s", "S3")])
    item.attrs["complex"] = np.complex64(1 + 2j)
    item.attrs.create("sequences", np.array([np.array([1, 2]), np.array([3])], object), dtype=h5py.vlen_dtype("i4"))
    item.attrs["nothing"] = h5py.Empty("i2")
    item.attrs["five"], item.attrs["one five"], item.attrs["table"] = 5, [5], np.eye(2, dtype="f4")


def make(path):
    with h5py.File(path, "w") as f:
        fill_attributes(f)
        fill_attributes(f.create_group("group"))
        fill_attributes(f.create_dataset("data", data=np.arange(6), chunks=(4,)))
        f.create_dataset("enum", data=[0, 2, 2], dtype=h5py.enum_dtype({"A": 0, "B": 2}, basetype="<u2"))
        f.create_dataset("words", data=["a", "b"], dtype=h5py.string_dtype("ascii"))
        f.create_dataset("fixed", data=["é".encode(), b"b"], dtype=h5py.string_dtype("utf-8", 4))
        f.create_dataset("records", data=np.zeros(3, [("e", h5py.enum_dtype({"A": 0, "B": 2})), ("b", "?"), ("s", "S2")]))
        space = h5py.h5s.create_simple((4,))
        bits = h5py.h5d.create(f.id, b"bits", h5py.h5t.STD_B8LE, space)
        bits.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype="u1"), mtype=h5py.h5t.NATIVE_B8)


def contents(path):
    """By path: the type of a dataset, and type, shape and value of each attribute."""
    found = {}

    def plain(value):
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    def visit(name, item):
        attributes = {}
        for key in sorted(item.attrs):
            attribute = item.attrs.get_id(key)
            value = item.attrs[key]
            if key == "sequences":
                value = [part.tolist() for part in value]
            attributes[key] = (attribute.get_type(), attribute.get_space().get_simple_extent_type(), attribute.shape,
                               "empty" if isinstance(value, h5py.Empty) else plain(value))
        found[name] = (item.id.get_type() if isinstance(item, h5py.Dataset) else None, attributes)

    with h5py.File(path, "r") as f:
        visit("/", f)
        f.visititems(visit)
        found = {name: (kind and kind.encode(), {key: (one[0].encode(), *one[1:]) for key, one in attributes.items()})
                 for name, (kind, attributes) in found.items()}
    return found


def same_type(one, other):
    """Of encoded types: an encoding has a version, too."""
    return one == other or (one and other and h5py.h5t.decode(one).equal(h5py.h5t.decode(other)))


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_types_of_hdf5_come_back_from_zarr(tmp_path, form):
    source, store, back = tmp_path / "a.h5", tmp_path / f"a.{form}", tmp_path / "b.h5"
    make(source)
    codecfs("convert", "--format", form, source, store)
    codecfs("convert", store, back)
    one, other = contents(source), contents(back)
    assert one.keys() == other.keys()
    for name in one:
        assert same_type(one[name][0], other[name][0]), name
        assert one[name][1].keys() == other[name][1].keys(), name
        for key, attribute in one[name][1].items():
            assert same_type(attribute[0], other[name][1][key][0]), (name, key)
            assert attribute[1:] == other[name][1][key][1:], (name, key)
    if form == "zarr":
        group = zarr.open_group(str(store), "r")
        assert group["enum"][...].tolist() == [0, 2, 2] and group["data"].attrs["bytes"] == "abc"
    codecfs("compare", source, store)


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_fill_values_and_empty_datasets_come_back(tmp_path, form):
    """Also where the fill value does not mark missing data, and so is none in Zarr v2."""
    pair = np.dtype([("a", "<i4"), ("b", "<f8")])
    fills = {"f": ("<f4", -1), "nan": ("<f8", np.nan), "big": (">i8", 7), "text": ("S3", b"ab"), "flag": ("?", True),
             "pair": (pair, np.array((1, 2.5), pair)), "complex": ("<c8", 1 + 2j), "zero": ("<i2", 0)}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, (dtype, fill) in fills.items():
            f.create_dataset(name, (4, 5), dtype, chunks=(2, 5), maxshape=(None, 5), fillvalue=fill)[0] = np.zeros(5, dtype)
        for name, dtype in ("number", ">i2"), ("words", h5py.string_dtype()):
            f[f"empty/{name}"] = h5py.Empty(dtype)
        f["empty/list"] = np.zeros(0, "<i4")
    codecfs("convert", "--format", form, tmp_path / "a.h5", tmp_path / "store")
    codecfs("convert", tmp_path / "store", tmp_path / "b.h5")
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        for name in fills:
            assert a[name].dtype == b[name].dtype and np.array(a[name].fillvalue).tobytes() == np.array(b[name].fillvalue).tobytes(), name
            assert a[name][...].tobytes() == b[name][...].tobytes() and not b[name].attrs, name
        for name in "number", "words", "list":
            assert a["empty"][name].shape == b["empty"][name].shape, name
            assert a["empty"][name].id.get_type().equal(b["empty"][name].id.get_type()), name
    if form == "zarr":  # another fill value of the store is what its writer means
        path = tmp_path / "store/f/.zarray"
        path.write_text(path.read_text().replace('"fill_value": null', '"fill_value": 5.0'))
        (tmp_path / "store/.zmetadata").unlink()
        codecfs("convert", tmp_path / "store", tmp_path / "c.h5")
        with h5py.File(tmp_path / "c.h5") as c:
            assert c["f"].fillvalue == 5


def limits(path):
    with h5py.File(path) as f:
        return {name: item.maxshape for name, item in f.items() if isinstance(item, h5py.Dataset)}


@pytest.mark.parametrize("forms", [["zarr"], ["zarr3"], ["zip"], ["zarr", "zarr3"], ["zarr3", "zarr"], ["zarr", "nczarr"]])
def test_maximum_shapes_come_back(tmp_path, forms):
    """As h5py tells them, and for netCDF's dimensions as ncdump does; those that cannot grow need no note."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, most in {"first": (None, 6), "second": (5, None), "both": (None, None), "larger": (50, 6), "none": (5, 6)}.items():
            f.create_dataset(name, (5, 6), "i2", chunks=(2, 3), maxshape=most)[...] = np.arange(30).reshape(5, 6)
        f["whole"], f["scalar"] = np.arange(4), 1
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, length in {"t": None, "x": 4, "without": None, "y": 3}.items():
            f.createDimension(name, length)
        f.createVariable("t", "f8", ("t",))[:] = np.arange(5)
        for name, dimensions in {"v": ("t", "y", "x"), "w": ("y", "x"), "u": ("without", "t")}.items():
            f.createVariable(name, "i4", dimensions)[...] = np.ones([{"t": 5, "x": 4, "y": 3, "without": 2}[d] for d in dimensions])

    def header(path):
        shown = run("ncdump", "-h", "-n", "a", path).stdout
        return sorted(line.replace("(2 currently)", "").strip() for line in shown.splitlines())
    for name in "a.h5", "a.nc":
        source = tmp_path / name
        for form in forms:
            codecfs("convert", "--format", form, source, tmp_path / f"{name}.{form}")
            source = tmp_path / f"{name}.{form}"
        codecfs("convert", source, tmp_path / f"back_{name}")
    expected = limits(tmp_path / "a.h5")
    if "nczarr" in forms:  # which has unlimited dimensions, and no limits
        expected["larger"] = (5, 6)
    assert limits(tmp_path / "back_a.h5") == expected
    assert header(tmp_path / "back_a.nc") == header(tmp_path / "a.nc")
    if forms == ["zarr"]:
        noted = {path.parent.name for path in (tmp_path / "a.h5.zarr").rglob(".zattrs") if "max_shape" in path.read_text()}
        assert noted == {"first", "second", "both", "larger"}
        # What another program has made longer, or given another number of dimensions.
        group = zarr.open_group(str(tmp_path / "a.h5.zarr"))
        group["first"].resize(9, 8)
        group["larger"].resize(60, 6)
        notes = {"_nc_hdf5_types": group["both"].attrs["_nc_hdf5_types"]}
        group.create_dataset("both", data=np.zeros((2, 3, 4)), overwrite=True).attrs.update(notes)
        codecfs("convert", tmp_path / "a.h5.zarr", tmp_path / "grown.h5")
        grown = limits(tmp_path / "grown.h5")
        assert (grown["first"], grown["larger"], grown["both"]) == ((None, 8), (60, 6), (2, 3, 4))


def test_noted_maximum_shapes_in_a_mount(mount, tmp_path):
    """As cp -r writes a copy into a mounted file. _maxshape is stronger; a new variable without either is unlimited."""
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    zarray = {"zarr_format": 2, "shape": [5, 6], "chunks": [2, 3], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": None,
              "filters": None}
    note = {"_nc_hdf5_types": json.dumps({"type": None, "max_shape": [None, 6]})}
    m = mount(tmp_path / "a.h5")
    for name, attributes, more in ("noted", note, {}), ("told", note, {"_maxshape": [5, 60]}), ("neither", {}, {}):
        (m.path / name).mkdir()
        (m.path / name / ".zattrs").write_text(json.dumps(attributes))
        (m.path / name / ".zarray").write_text(json.dumps({**zarray, **more}))
    m.unmount()
    assert limits(tmp_path / "a.h5") == {"noted": (None, 6), "told": (5, 60), "neither": (None, None)}


def test_arrays_of_zarr_have_their_shape_as_maximum(tmp_path):
    """xarray's to_netcdf and nccopy make fixed dimensions; nccopy -k cdf5 takes one that is unlimited."""
    x = {"a": (("y", "x"), np.arange(12.).reshape(3, 4)), "none": (("n",), np.zeros(0)), "b": (("x",), np.arange(4))}
    xarray.Dataset(x).to_zarr(tmp_path / "a.zarr")
    xarray.Dataset(x).to_netcdf(tmp_path / "expected.nc")
    zarr.open_group(str(tmp_path / "a.zarr")).create_dataset("long_chunk", data=np.arange(6), chunks=(10,), fill_value=None) \
        .attrs["_ARRAY_DIMENSIONS"] = ["l"]
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")
    def dimensions(path):
        with netCDF4.Dataset(path) as f:
            return {name: (len(d), d.isunlimited()) for name, d in f.dimensions.items()}
    assert dimensions(tmp_path / "b.nc") == {**dimensions(tmp_path / "expected.nc"), "l": (6, False)}
    with netCDF4.Dataset(tmp_path / "b.nc") as f:
        assert f["long_chunk"][:].tolist() == list(range(6)) and f["a"][:].tolist() == x["a"][1].tolist()
    run("nccopy", "-k", "cdf5", tmp_path / "b.nc", tmp_path / "classic.nc")
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as f:
        with pytest.raises((IndexError, RuntimeError)):
            f["long_chunk"][6] = 1


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
def test_groups_use_the_dimensions_above_them(tmp_path, form):
    """Unless they have a variable of that name themselves, whatever the names sort like. netCDF4 tells whose they are."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, length in {"time": None, "x": 4}.items():
            f.createDimension(name, length)
            f.createVariable(name, "f8", (name,))[:] = np.arange(length or 5)
        group = f.createGroup("a")
        group.createVariable("v", "i4", ("time", "x"))[:] = np.ones((5, 4))
        own = f.createGroup("own")
        own.createDimension("x", 4)
        own.createVariable("before_x", "i4", ("time", "x"))[:] = np.ones((5, 4))
        own.createVariable("x", "f8", ("x",))[:] = np.arange(4) * 10
        own.createGroup("a").createVariable("w", "i4", ("x",))[:] = 1
        other = f.createGroup("other")
        other.createDimension("x", 3)
        other.createVariable("v", "i2", ("x",))[:] = 1
    codecfs("convert", "--format", form, tmp_path / "a.nc", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")

    def owners(group):
        found = {group.path: sorted(group.dimensions)}
        for name, variable in group.variables.items():
            found[f"{group.path}/{name}"] = [(d.name, d.group().path, len(d), d.isunlimited()) for d in variable.get_dims()]
        for inner in group.groups.values():
            found.update(owners(inner))
        return found
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc") as b:
        assert owners(a) == owners(b)
        assert b["own/x"][:].tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("forms", [["zarr"], ["zarr3"], ["zip"], ["zarr", "zarr3"]])
def test_committed_types_come_back(tmp_path, forms):
    """netCDF-C finds the name of a variable's type among them; h5py tells which datasets share one."""
    colours, pair = {"red": 0, "blue": 1}, np.dtype([("a", "<i4"), ("b", "<f8")])
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("x", 3)
        colour = f.createEnumType("u1", "colour_t", colours)
        kind = f.createCompoundType(pair, "pair_t")
        f.createVariable("c", colour, ("x",))[:] = [0, 1, 0]
        group = f.createGroup("g")
        group.createEnumType("i2", "unused_t", {"one": 1})
        group.createVariable("p", kind, ("x",))[:] = np.array([(1, 2), (3, 4), (5, 6)], pair)
        group.createVariable("n", "i4", ("x",))[:] = 7
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["pair"], f["colour"], f["per%cent é"] = pair, h5py.enum_dtype(colours, "u1"), np.dtype("i4")
        f.create_dataset("p", (2,), dtype=f["pair"])
        f.create_dataset("g/c", (2, 3), dtype=f["colour"], chunks=(1, 3), compression="gzip")[0] = 1
        f["n"] = np.arange(3)
    for name in "a.nc", "a.h5":
        source = tmp_path / name
        for form in forms:
            codecfs("convert", "--format", form, source, tmp_path / f"{name}.{form}")
            source = tmp_path / f"{name}.{form}"
        codecfs("convert", source, tmp_path / f"back_{name}")

    def shown(path):
        with netCDF4.Dataset(path) as f:
            return {"enums": {n: t.enum_dict for n, t in f.enumtypes.items()}, "compounds": {n: t.dtype for n, t in f.cmptypes.items()},
                    "inner": {n: t.enum_dict for n, t in f["g"].enumtypes.items()}, "c": f["c"].datatype.name, "p": f["g/p"].datatype.name,
                    "values": [f["c"][:].tolist(), f["g/p"][:].tolist(), f["g/n"][:].tolist()]}
    assert shown(tmp_path / "back_a.nc") == shown(tmp_path / "a.nc")
    with h5py.File(tmp_path / "back_a.h5") as f:
        for name, kind in {"p": "pair", "g/c": "colour"}.items():
            committed = f[name].id.get_type()
            assert committed.committed() and h5py.h5o.get_info(committed).addr == h5py.h5o.get_info(f[kind].id).addr, name
        assert f["g/c"][...].tolist() == [[1] * 3, [0] * 3] and h5py.check_enum_dtype(f["g/c"].dtype) == colours
        assert not f["n"].id.get_type().committed() and "_nc_hdf5_links" not in f.attrs and set(f) == {"pair", "colour", "per%cent é", "p", "g", "n"}
    if forms == ["zarr"]:  # what another program changed is no obstacle
        path = tmp_path / "a.nc.zarr/.zattrs"
        attributes = json.loads(path.read_text())
        notes = json.loads(attributes["_nc_hdf5_links"])
        notes.update({"pair_t": {"type": {"compound": -1}}, "c": notes["colour_t"], "g": notes["colour_t"], "odd": 5, "bad": {"type": []}})
        attributes["_nc_hdf5_links"] = json.dumps(notes)
        path.write_text(json.dumps(attributes))
        (tmp_path / "a.nc.zarr/.zmetadata").unlink()
        codecfs("convert", tmp_path / "a.nc.zarr", tmp_path / "c.nc")
        with h5py.File(tmp_path / "c.nc") as f:
            assert set(f) == {"c", "colour_t", "g", "x"} and f["c"][...].tolist() == [0, 1, 0] and f["g/n"][...].tolist() == [7] * 3


def test_what_a_new_file_gets_anyway_is_not_noted(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.attrs["title"], f.attrs["count"], f.attrs["ratio"], f.attrs["flag"], f.attrs["words"] = "a", 1, 2.5, True, ["a", "b"]
        f["data"], f["text"], f["flags"] = np.arange(3, dtype="i2"), ["a", "b"], [True]
    codecfs("convert", "--format", "zarr", tmp_path / "a.h5", tmp_path / "a.zarr")
    for path in (tmp_path / "a.zarr").rglob(".zattrs"):
        assert "_nc_hdf5_types" not in json.loads(path.read_text()), path


@pytest.mark.parametrize("types", [
    "no JSON", "[1]", '{"type": null, "fill": "x"}', '{"type": null, "fill": [1, 2]}', '{"type": {"empty": "<i4"}}', '{"fill": {"a": 1}}', '{"attributes": 5, "type": []}', '{"attributes": {"a": "<i1"}}', '{"type": "<f8"}',
    '{"attributes": {"a": {"string": 1e30}}}', '{"type": {"compound": 8, "members": [["a", 7, "<i4"]]}}',
    '{"attributes": {"a": {"array": [4294967296, 4294967296], "of": "<i8"}}}', '{"attributes": {"a": {"enum": [["A", 300]], "of": "<i1"}}}',
    '{"attributes": {"a": ' + '{"sequence": ' * 100 + '"<i4"' + "}" * 102, '{"type": {"enum": [["A", 1]], "of": "<i2"}}'])
def test_types_that_do_not_fit_are_ignored(tmp_path, types):
    group = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    array = group.create_dataset("v", data=np.arange(4, dtype="i4"))
    for item in group, array:
        item.attrs["a"], item.attrs["_nc_hdf5_types"] = 300, types
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5", "r") as f:
        assert f["v"][...].tolist() == [0, 1, 2, 3] and f["v"].dtype == "i4"
        assert f["v"].attrs["a"] == 300 and "_nc_hdf5_types" not in f["v"].attrs
        assert f.attrs["a"] == 300
