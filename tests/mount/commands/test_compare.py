"""codecfs compare: equal if and only if numpy says so, whatever the formats, chunks, filters and byte orders."""
import json
import random
import shutil

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import zarr
from conftest import DATA
from running import codecfs
from zarr3_cases import LITTLE, ZSTD, sharding
from zarr3_stores import write_array, write_group

SHAPE = (13, 17)


def compared(one, other, *words, code=0, timeout=60):
    return codecfs("compare", *words, one, other, seconds=timeout, code=code).stdout


def compare(one, other, *words, code=0):
    return json.loads(compared(one, other, "--json", *words, code=code))


def texts(found):
    return {item["path"]: item["text"] for item in found["different"]}


def values(dtype="f8", shape=SHAPE, seed=1):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.names:
        made = np.empty(shape, dtype)
        for name in dtype.names:
            made[name] = values(dtype[name].base, shape + dtype[name].shape, seed)
        return made
    if dtype.kind in "S":
        return np.array([b"%d" % i for i in rng.integers(0, 99999, int(np.prod(shape)))]).reshape(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * 100).astype(dtype)


# ---- one dataset in many forms

def hdf5(path, array, chunks, fill=0, **options):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=array, chunks=chunks, fillvalue=fill if chunks else None, **options)


def zarr2(path, array, chunks, fill=0, **options):
    g = zarr.open_group(str(path), "w")
    g.create_dataset("v", data=array, chunks=chunks if chunks else False, fill_value=fill, **options)


def zarr_zip(path, array, chunks, fill=0, **options):
    with zarr.ZipStore(str(path), mode="w") as store:
        zarr.open_group(store, "w").create_dataset("v", data=array, chunks=chunks if chunks else False, fill_value=fill,
                                                   **options)


def zarr3(path, array, chunks, fill=0, codecs=(LITTLE, ZSTD)):
    write_group(path)
    write_array(path / "v", array, chunks or array.shape, list(codecs), array.dtype.name, fill, fill)


def swapped(array):
    return array.astype(array.dtype.newbyteorder(">"))


FORMS = {
    "contiguous.h5": lambda path, a: hdf5(path, a, None),
    "gzip.h5": lambda path, a: hdf5(path, a, (4, 5), compression="gzip", shuffle=True),
    "fletcher32.h5": lambda path, a: hdf5(path, a, (13, 1), fletcher32=True),
    "whole.h5": lambda path, a: hdf5(path, a, (13, 17), compression="lzf"),
    "large_chunks.h5": lambda path, a: hdf5(path, a, (13, 17), maxshape=(None, None)),
    "big_endian.h5": lambda path, a: hdf5(path, swapped(a), (3, 17)),
    "zlib.zarr": lambda path, a: zarr2(path, a, (5, 4), compressor=numcodecs.Zlib(1)),
    "blosc.zarr": lambda path, a: zarr2(path, a, (1, 17), compressor=numcodecs.Blosc()),
    "big_endian.zarr": lambda path, a: zarr2(path, swapped(a), (20, 30), compressor=numcodecs.Zstd(1)),
    "fortran.zarr": lambda path, a: zarr2(path, a, (4, 4), order="F", dimension_separator="/"),
    "store.zip": lambda path, a: zarr_zip(path, a, (6, 7), compressor=numcodecs.LZ4()),
    "zarr3": lambda path, a: zarr3(path, a, (6, 5)),
    "shards": lambda path, a: zarr3(path, a, (6, 10), codecs=[sharding([2, 5], [LITTLE, ZSTD])]),
}
NAMES = sorted(FORMS)


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The same array in all forms; ragged edges have other paddings."""
    made = {}
    for name in NAMES:
        made[name] = tmp_path_factory.mktemp("forms") / name
        FORMS[name](made[name], values())
    return made


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_the_same_data_in_two_forms(forms, number):
    for step in (1, 4):
        one, other = NAMES[number], NAMES[(number + step) % len(NAMES)]
        found = compare(forms[one], forms[other])
        assert found["differences"] == 0 and found["different"] == found["not_compared"] == []
        assert found["variables"] == 1 and found["groups"] == 1 and found["compared_bytes"] >= values().nbytes
    assert "have the same content" in compared(forms[one], forms[other])


@pytest.mark.parametrize("one, other", [("gzip.h5", "zlib.zarr"), ("contiguous.h5", "gzip.h5"), ("store.zip", "shards"),
                                        ("zarr3", "whole.h5"), ("fortran.zarr", "big_endian.h5")])
@pytest.mark.parametrize("seed", range(3))
def test_a_changed_element_is_found_at_its_place(forms, one, other, seed, tmp_path):
    rng = random.Random(f"{one}{other}{seed}")
    changed = values()
    places = sorted({(rng.randrange(SHAPE[0]), rng.randrange(SHAPE[1])) for _ in range(rng.choice([1, 1, 5]))})
    for place in places:
        changed[place] += 1
    FORMS[other](tmp_path / other, changed)
    for first, second, back in ((forms[one], tmp_path / other, False), (tmp_path / other, forms[one], True)):
        found = compare(first, second, code=2)
        assert found["differences"] == 1
        text = texts(found)["/v"]
        assert text.startswith("1 element differs" if len(places) == 1 else f"{len(places)} elements differ")
        at = ", ".join(map(str, places[0]))
        old, new = float(values()[places[0]]), float(changed[places[0]])
        assert text.endswith(f"at [{at}]: {new}, {old}" if back else f"at [{at}]: {old}, {new}"), text
        assert f"/v: {text}\n" in compared(first, second, code=2)


DTYPES = ["i1", "u2", "<i4", ">i8", "f4", ">f8", "c16", "?", "S5", [("a", "i2"), ("b", ">f8", (2,)), ("c", "S3")]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types(dtype, tmp_path):
    array = values(dtype)
    swapped_type = array.dtype.newbyteorder()
    fill = np.zeros((), array.dtype)[()]
    hdf5(tmp_path / "a.h5", array, (4, 5), fill=fill, compression="gzip")
    zarr2(tmp_path / "b.zarr", array.astype(swapped_type), (5, 7),
          fill=None if array.dtype.names else np.zeros((), swapped_type)[()])
    assert compare(tmp_path / "a.h5", tmp_path / "b.zarr")["differences"] == 0
    place = (7, 11)
    if array.dtype.names:
        array["b"][place] += 1
    else:
        array[place] = b"zzz" if array.dtype.kind == "S" else not array[place] if array.dtype.kind == "b" else array[place] + 1
    hdf5(tmp_path / "c.h5", array, (13, 2), fill=fill)
    text = texts(compare(tmp_path / "c.h5", tmp_path / "b.zarr", code=2))["/v"]
    assert "1 element differs" in text and "at [7, 11]: " in text
    if array.dtype.kind == "S":
        assert '"zzz"' in text
    if array.dtype.names:
        assert "{a: " in text and "b: [" in text


def test_strings_of_variable_length(tmp_path):
    words = np.array(["", "a", "naïve", "温度", "x" * 300, "a b"], object).reshape(2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=words, dtype=h5py.string_dtype(), chunks=(1, 2), compression="gzip")
    with netCDF4.Dataset(tmp_path / "b.nc", "w") as d:
        d.createDimension("y", 2), d.createDimension("x", 3)
        d.createVariable("v", str, ("y", "x"))[:] = words
    g = zarr.open_group(str(tmp_path / "c.zarr"), "w")
    g.create_dataset("v", data=words, dtype=object, object_codec=numcodecs.VLenUTF8(), chunks=(2, 2))
    assert compare(tmp_path / "a.h5", tmp_path / "c.zarr")["differences"] == 0
    assert "/v" not in texts(json.loads(codecfs("compare", "--json", tmp_path / "b.nc", tmp_path / "c.zarr", code=None).stdout))
    changed = words.copy()
    changed[1, 0] = "温"
    g = zarr.open_group(str(tmp_path / "d.zarr"), "w")
    g.create_dataset("v", data=changed, dtype=object, object_codec=numcodecs.VLenUTF8(), chunks=(2, 3))
    text = texts(compare(tmp_path / "a.h5", tmp_path / "d.zarr", code=2))["/v"]
    assert 'the first at [1, 0]: "温度", "温"' in text


def test_object_codecs_of_whole_chunks(tmp_path):
    """JSON and pickles: the same bytes are the same, others are not known."""
    assert compare(DATA / "zarr/objects", DATA / "zarr/objects")["not_compared"] == []
    shutil.copytree(DATA / "zarr/objects", tmp_path / "b")
    g = zarr.open_group(str(tmp_path / "b"), "a")
    g["json"][0, 0] = "other"
    g["bytes"][1] = b"b"
    found = compare(DATA / "zarr/objects", tmp_path / "b", code=2)
    assert set(texts(found)) == {"/bytes"} and [item["path"] for item in found["not_compared"]] == ["/json"]
    g["bytes"][1] = b"a\0b"
    compare(DATA / "zarr/objects", tmp_path / "b", code=3)


# ---- names, types, attributes

def two(tmp_path, change):
    """Two files, of which `change` changes the second."""
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name, "w") as f:
            d = f.create_dataset("g/v", data=np.arange(6.0).reshape(2, 3))
            d.attrs["units"], d.attrs["n"], d.attrs["list"] = "K", 5, [1.5, float("nan")]
            f["g"].attrs["title"] = "one"
            f.create_dataset("g/w", data=np.arange(3))
            for i, name_of in enumerate(("y", "x")):
                d.dims[i].label = name_of
    with h5py.File(tmp_path / "b.h5", "a") as f:
        change(f)
    return tmp_path / "a.h5", tmp_path / "b.h5"


def rewritten(f, **more):
    del f["g/w"]
    f.create_dataset("g/w", **more)


@pytest.mark.parametrize("change, path, words", [
    (lambda f: f["g/v"].attrs.modify("units", "C"), "/g/v", 'attribute units: "K", "C"'),
    (lambda f: f["g/v"].attrs.create("new", 1), "/g/v", "attribute new: only in the second"),
    (lambda f: f["g/v"].attrs.__delitem__("n"), "/g/v", "attribute n: only in the first"),
    (lambda f: f["g/v"].attrs.modify("list", [1.5, 2.5]), "/g/v", "attribute list: [1.5, NaN], [1.5, 2.5]"),
    (lambda f: f["g"].attrs.modify("title", "two"), "/g", 'attribute title: "one", "two"'),
    (lambda f: f.__delitem__("g/w"), "/g/w", "only in the first (variable)"),
    (lambda f: f.create_dataset("g/u", data=1), "/g/u", "only in the second (variable)"),
    (lambda f: f.create_group("h"), "/h", "only in the second (group)"),
    (lambda f: rewritten(f, data=np.arange(4)), "/g/w", "shape: [3], [4]"),
    (lambda f: rewritten(f, data=np.arange(3).astype("i4")), "/g/w", 'type: "<i8", "<i4"'),
    (lambda f: (f.__delitem__("g/w"), f.create_group("g/w")), "/g/w", "a variable in the first, a group in the second"),
], ids=range(11))
def test_what_differs_is_named(change, path, words, tmp_path):
    one, other = two(tmp_path, change)
    found = compare(one, other, code=2)
    assert texts(found) == {path: words} and found["differences"] == 1
    assert compared(one, other, code=2) == f"{path}: {words}\n"
    assert compare(other, one, code=2)["differences"] == 1
    assert compare(one, one)["differences"] == 0


def test_names_of_dimensions(tmp_path):
    def named_dimensions(path, names):
        with netCDF4.Dataset(path, "w") as d:
            for name, size in zip(names, (2, 3)):
                d.createDimension(name, size)
            d.createVariable("v", "f4", names)[:] = 1
    named_dimensions(tmp_path / "a.nc", ("y", "x"))
    named_dimensions(tmp_path / "b.nc", ("y", "z"))
    hdf5(tmp_path / "c.h5", np.ones((2, 3), "f4"), None)
    compare(tmp_path / "a.nc", tmp_path / "a.nc")
    assert texts(compare(tmp_path / "a.nc", tmp_path / "b.nc", code=2))["/v"] == 'dimensions: ["y", "x"], ["y", "z"]'
    # Where a format stores no names, there is nothing to compare.
    found = json.loads(codecfs("compare", "--json", tmp_path / "a.nc", tmp_path / "c.h5", code=None).stdout)
    assert "dimensions" not in texts(found).get("/v", "")


def test_the_order_of_members_of_an_attribute_does_not_matter(tmp_path):
    for name, value in (("a", {"x": 1, "y": [1, {"p": 1, "q": 2}]}), ("b", {"y": [1, {"q": 2, "p": 1}], "x": 1}),
                        ("c", {"x": 1, "y": [1, {"p": 1, "q": 3}]})):
        zarr.open_group(str(tmp_path / name), "w").attrs["o"] = value
    compare(tmp_path / "a", tmp_path / "b")
    compare(tmp_path / "a", tmp_path / "c", code=2)


def test_long_values_are_cut_between_characters(tmp_path):
    for name, text in (("a", "é" * 5000), ("b", "è" * 5000)):
        zarr.open_group(str(tmp_path / name), "w").attrs["t"] = text
    text = compared(tmp_path / "a", tmp_path / "b", code=2)
    assert len(text) < 1000 and "…" in text


# ---- what is not stored

def test_absent_chunks_are_the_same_as_stored_fill(tmp_path):
    array = np.zeros(SHAPE, "i4")
    array[:3] = 7
    hdf5(tmp_path / "a.h5", array, (3, 4))
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f.create_dataset("v", SHAPE, "i4", chunks=(5, 17))[:3] = 7
    g = zarr.open_group(str(tmp_path / "c"), "w")
    g.create_dataset("v", shape=SHAPE, dtype="i4", chunks=(2, 3), fill_value=0)[:3] = 7
    with h5py.File(tmp_path / "d.h5", "w") as f:
        f.create_dataset("v", SHAPE, "i4", chunks=(5, 5), fillvalue=7)[3:] = 0
    for other in ("b.h5", "c", "d.h5"):
        for one, two_ in (("a.h5", other), (other, "a.h5"), (other, "c")):
            compare(tmp_path / one, tmp_path / two_)


def test_fill_values_where_nothing_is_stored(tmp_path):
    for name, fill in (("a.h5", 1.5), ("b.h5", 2.5)):
        with h5py.File(tmp_path / name, "w") as f:
            f.create_dataset("v", SHAPE, "f8", chunks=(4, 4), fillvalue=fill)
    text = texts(compare(tmp_path / "a.h5", tmp_path / "b.h5", code=2))["/v"]
    assert "neither stores" in text and "1.5, 2.5" in text
    # Where everything is stored, they do not matter.
    for name, fill in (("c.h5", 1.5), ("d.h5", 2.5)):
        hdf5(tmp_path / name, values(), (4, 4), fill=fill)
    compare(tmp_path / "c.h5", tmp_path / "d.h5")
    # One is stored in part.
    with h5py.File(tmp_path / "e.h5", "w") as f:
        f.create_dataset("v", SHAPE, "f8", chunks=(13, 17), fillvalue=2.5)[2, 3] = 1.5
    text = texts(compare(tmp_path / "a.h5", tmp_path / "e.h5", code=2))["/v"]
    assert text == f"{13 * 17 - 1} elements differ, the first at [0, 0]: 1.5, 2.5"


def test_fills_of_strings(tmp_path):
    def make(name, fill):
        g = zarr.open_group(str(tmp_path / name), "w")
        g.create_dataset("v", shape=(5,), dtype=str, chunks=(2,), fill_value=fill)
    make("a", "none"), make("b", "none"), make("c", ""), make("d", "")
    compare(tmp_path / "a", tmp_path / "b"), compare(tmp_path / "c", tmp_path / "d")
    assert '"none", ""' in texts(compare(tmp_path / "a", tmp_path / "c", code=2))["/v"]


def test_nan_is_the_same_as_nan(tmp_path):
    array = values()
    array[3, 4] = np.nan
    hdf5(tmp_path / "a.h5", array, (4, 4), fill=np.nan)
    zarr2(tmp_path / "b", array, (3, 3), fill=np.nan)
    compare(tmp_path / "a.h5", tmp_path / "b")
    array[3, 4] = 0
    zarr2(tmp_path / "c", array, (3, 3), fill=np.nan)
    assert "[3, 4]: NaN, 0.0" in texts(compare(tmp_path / "a.h5", tmp_path / "c", code=2))["/v"]


def test_scalars_and_arrays_without_elements(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["s"], f["t"] = 1.5, 2.5
        f.create_dataset("e", (0, 3), "f4")
    g = zarr.open_group(str(tmp_path / "b"), "w")
    g["s"], g["t"] = np.array(1.5), np.array(3.5)
    g.create_dataset("e", shape=(0, 3), dtype="f4", fill_value=5)
    assert texts(compare(tmp_path / "a.h5", tmp_path / "b", code=2)) == {
        "/t": "1 element differs, the first at []: 2.5, 3.5"}


def test_huge_sparse_arrays_take_no_time(tmp_path):
    shape = (1 << 19, 1 << 18)  # 1 TiB
    for name, chunks, place in (("a.h5", (1024, 1024), (1 << 18, 77)), ("b.h5", (4096, 256), (1 << 18, 77)),
                                ("c.h5", (1024, 1024), (1 << 18, 78))):
        with h5py.File(tmp_path / name, "w", libver="latest") as f:
            f.create_dataset("v", shape, "f8", chunks=chunks, compression="gzip")[place] = 5
    compare(tmp_path / "a.h5", tmp_path / "b.h5")  # times out if it reads what is not stored
    text = texts(compare(tmp_path / "a.h5", tmp_path / "c.h5", code=2))["/v"]
    assert text.startswith(f"2 elements differ, the first at [{1 << 18}, 77]: 5.0, 0.0")


def test_one_chunk_against_many(tmp_path):
    """Neither a list of all chunks nor a chunk of fill for each."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", (1 << 24,), "u1", chunks=(1 << 24,), compression="gzip")[12345] = 1
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f.create_dataset("v", (1 << 24,), "u1", chunks=(1 << 12,), compression="gzip")[12345] = 1
    compare(tmp_path / "a.h5", tmp_path / "b.h5")
    compare(tmp_path / "b.h5", tmp_path / "a.h5")


# ---- what cannot be read

def test_what_cannot_be_compared_is_no_match():
    found = compare(DATA / "hdf5/filter_unknown.h5", DATA / "hdf5/filter_unknown.h5", code=3)
    assert found["differences"] == 0 and found["not_compared"][0]["path"] == "/unknown"
    path = DATA / "hdf5/damaged_byte_under_fletcher32.h5"
    assert "not compared" in compared(path, path, code=3)


def test_exit_codes(tmp_path):
    good = DATA / "hdf5/layouts.h5"
    compared(good, "/nonexistent", code=32), compared("/nonexistent", good, code=32)
    codecfs("compare", good, seconds=30, code=1)
    result = codecfs("compare", "--help", seconds=30)
    assert "Exit codes" in result.stdout and "Examples:" in result.stdout
    with open("/dev/full", "w") as full:
        codecfs("compare", good, good, stdout=full, seconds=30, code=32)


def all_sources():
    for folder in ("hdf5", "zarr"):
        for path in sorted((DATA / folder).iterdir()):
            if not path.name.startswith("damaged") and not path.name.endswith((".raw1", ".raw2")):
                yield f"{folder}/{path.name}"


@pytest.mark.parametrize("name", all_sources())
def test_everything_is_the_same_as_itself(name):
    result = codecfs("compare", "--json", DATA / name, DATA / name, code=None, text=False)
    assert result.returncode in (0, 3) and json.loads(result.stdout)["differences"] == 0


# ---- at random

def some_array(rng):
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(0, 4)))
    dtype = rng.choice(["<i2", ">i2", "<f4", ">f8", "u1", "<c8"])
    return rng.integers(0, 3, shape).astype(dtype)


def some_form(rng, path, array):
    """Stores it in one of the formats; chunks of zeros may be absent."""
    chunks = tuple(int(rng.integers(1, n + 3)) for n in array.shape)
    kind = rng.integers(0, 3)
    if kind == 0:
        with h5py.File(path, "w") as f:
            if array.ndim == 0 or rng.integers(0, 3) == 0:
                f["v"] = array
                return
            options = [{}, {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}][rng.integers(0, 4)]
            d = f.create_dataset("v", array.shape, array.dtype, chunks=tuple(map(min, chunks, array.shape)), **options)
            put_some(rng, d, array)
    else:
        store = zarr.DirectoryStore(str(path)) if kind == 1 else zarr.ZipStore(str(path), mode="w")
        d = zarr.open_group(store, "w").create_dataset("v", shape=array.shape, dtype=array.dtype, chunks=chunks, fill_value=0,
                                                       order=rng.choice(["C", "F"]), write_empty_chunks=True)
        put_some(rng, d, array)
        store.close()


def put_some(rng, d, array):
    if not array.any() and rng.integers(0, 2):
        return
    if array.ndim > 0 and not array[0].any() and rng.integers(0, 2):
        d[1:] = array[1:]
    else:
        d[...] = array


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_numpy_says(seed, tmp_path):
    rng = np.random.default_rng(seed)
    array = some_array(rng)
    other = array.copy().astype(array.dtype.newbyteorder() if rng.integers(0, 2) else array.dtype)
    for _ in range(rng.choice([0, 0, 1, 3])):
        place = tuple(rng.integers(0, n) for n in array.shape)
        other[place] = rng.integers(0, 3)
    if rng.integers(0, 8) == 0:
        array, other = np.zeros_like(array), np.zeros_like(other)
    some_form(rng, tmp_path / "a", array)
    some_form(rng, tmp_path / "b", other)
    differing = np.argwhere(array != other)
    found = compare(tmp_path / "a", tmp_path / "b", code=2 if len(differing) else 0)
    if len(differing):
        text = texts(found)["/v"]
        at = ", ".join(map(str, differing[0]))
        assert text.startswith(f"{len(differing)} element") and f"the first at [{at}]: " in text, text


def test_a_link_is_what_it_leads_to_where_the_other_has_a_copy(tmp_path):
    with h5py.File(tmp_path / "links.h5", "w") as f:
        f["entry/data/z"] = np.arange(4)
        f["entry/soft"], f["entry/hard"], f["group"] = h5py.SoftLink("data/z"), f["entry/data"], h5py.SoftLink("/entry")
        f["dangling"], f["loop"] = h5py.SoftLink("/no/where"), h5py.SoftLink("/loop")
    copies = zarr.open_group(str(tmp_path / "copies"), "w")
    for place in "entry/data/z", "entry/soft", "entry/hard/z", "group/data/z":
        copies[place] = np.arange(4)
    for one, other in ("links.h5", "copies"), ("copies", "links.h5"):
        compared(tmp_path / one, tmp_path / other)
    copies["entry/soft"][1] = 9
    copies["group/data/z"].attrs["a"] = 1
    copies["dangling"] = copies["loop"] = np.arange(4)
    found = texts(compare(tmp_path / "links.h5", tmp_path / "copies", code=2))
    assert set(found) == {"/entry/soft", "/group/data/z", "/dangling", "/loop"}
    assert "[1]" in found["/entry/soft"] and "only in the second" in found["/loop"]


# ---- the form and the content

def kinds(found):
    return {(item["path"], item["text"].split(":")[0]): item["kind"] for item in found["different"]}


PAIRS = [  # values of attributes
    (5, [5]), (5, [[5]]), ([1, 2], [[1, 2]]), (True, 1), (True, np.int8(1)), (False, 1), ([True, False], [1, 0]), (-9, -9.0), (-9, -9.5),
    (np.int64(2**53 + 1), 2.0**53), (np.int64(2**53), 2.0**53), (np.uint64(2**64 - 1), 2.0**64), (np.uint64(2**63), 2.0**63),
    (np.float32(0.1), float(np.float32(0.1))), (np.float32([0.1, 2]), np.float64(np.float32([0.1, 2]))), (np.float32(0.1), [0.2]),
    ([1, 2, 3], [1.0, 2.0, 3.0]), ([1, 2, 3], [1, 2]), ([1, 2, 3], [1, 2, 4]), ("a", ["a"]), ("a", ["b"]), ("5", 5), (5, 6),
    (np.nan, [np.nan]), (np.nan, 0.0), (-np.inf, [-np.inf]), ([], 5), (0, False),
]


@pytest.mark.parametrize("one, other", PAIRS, ids=range(len(PAIRS)))
def test_an_attribute_of_another_form_is_told_from_another_value(one, other, tmp_path):
    """numpy says whether the values are equal, without axes of length 1."""
    for name, value in (("a.h5", one), ("b.h5", other)):
        with h5py.File(tmp_path / name, "w") as f:
            f.attrs["x"] = value
    read = []
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name) as f:
            value = np.squeeze(np.asarray(f.attrs["x"]))
            # numpy compares integers and floats as floats, which rounds.
            read.append(value.astype(object) if value.dtype.kind in "iub" else value)
    is_text = [value.dtype.kind in "OUS" and isinstance(value.flat[0] if value.size else 0, str) for value in read]
    equal = is_text[0] == is_text[1] and read[0].shape == read[1].shape and all(
        a == b or (a != a and b != b) for a, b in zip(read[0].ravel().tolist(), read[1].ravel().tolist()))
    for first, second in (("a.h5", "b.h5"), ("b.h5", "a.h5")):
        found = compare(tmp_path / first, tmp_path / second, code=2)
        assert kinds(found) == {("/", "attribute x"): "form" if equal else "content"}, (read, found)
        assert found["differences"] == 1 and found["differences_of_form"] == equal
        lines = compared(tmp_path / first, tmp_path / second, code=2).splitlines()
        assert lines[0].endswith(" (only the form differs)") == equal
        assert lines[1:] == (["0 differences of the content, 1 of the form"] if equal else [])


def text_arrays():
    words = ["", "a", "naïve", "温度"]
    for name, array, dtype in (("fixed", np.array([w.encode() for w in words], "S8"), None),
                               ("longer", np.array([w.encode() for w in words], "S20"), None),
                               ("any", np.array(words, object), h5py.string_dtype())):
        yield name, array, dtype


def test_texts_of_another_length_are_another_form(tmp_path):
    for name, array, dtype in text_arrays():
        with h5py.File(tmp_path / f"{name}.h5", "w") as f:
            f.create_dataset("v", data=array, dtype=dtype, chunks=(3,))
            f.create_dataset("absent", (5,), dtype or array.dtype, chunks=(2,))
    zarr.open_group(str(tmp_path / "unicode"), "w").create_dataset("v", data=np.array(list(text_arrays())[2][1], "U6"), chunks=(2,))
    zarr.open_group(str(tmp_path / "unicode"), "a").create_dataset("absent", shape=(5,), dtype="U3", chunks=(2,), fill_value="")
    places = [tmp_path / name for name in ("fixed.h5", "longer.h5", "any.h5", "unicode")]
    for one in places:
        for other in places:
            # A netCDF file has texts of any length for those of UTF-32 in Zarr, as a conversion makes them.
            same = one == other or {one.name, other.name} == {"any.h5", "unicode"}
            found = compare(one, other, code=0 if same else 2)
            assert set(kinds(found)) == (set() if same else {("/v", "type"), ("/absent", "type")})
            assert found["differences_of_form"] == found["differences"] and found["not_compared"] == []
    with h5py.File(tmp_path / "any.h5", "a") as f:
        f["v"][2] = "naive"
        f["absent"][1] = "x"
    found = compare(tmp_path / "fixed.h5", tmp_path / "any.h5", code=2)
    assert sorted(item["kind"] for item in found["different"]) == ["content", "content", "form", "form"]
    assert '1 element differs, the first at [2]: "naïve", "naive"' in [item["text"] for item in found["different"]]
    assert '1 element differs, the first at [1]: "", "x"' in [item["text"] for item in found["different"]]
    lines = compared(tmp_path / "fixed.h5", tmp_path / "any.h5", code=2).splitlines()
    assert lines[-1] == "2 differences of the content, 2 of the form"


def test_the_kinds_of_other_differences(tmp_path):
    """What is missing, and types of numbers that hold other values, are of the content."""
    with h5py.File(tmp_path / "a.h5", "w") as f, h5py.File(tmp_path / "b.h5", "w") as g:
        f["i"], g["i"] = np.arange(3, dtype="i4"), np.arange(3, dtype="i8")
        f["shape"], g["shape"] = np.arange(3), np.arange(4)
        f["value"], g["value"] = np.arange(3), np.arange(1, 4)
        f["kind"] = 1
        g.create_group("kind")
        f["left"], g["right"] = 1, 1
        f.attrs["left"], g.attrs["right"] = 1, 1
        f.attrs["n"], g.attrs["n"] = 5, [5]
    found = compare(tmp_path / "a.h5", tmp_path / "b.h5", code=2)
    assert found["differences"] == 9 and found["differences_of_form"] == 1
    assert [key for key, kind in kinds(found).items() if kind == "form"] == [("/", "attribute n")]
    assert set(kinds(found).values()) == {"form", "content"}
    assert compared(tmp_path / "a.h5", tmp_path / "b.h5", code=2).endswith("\n8 differences of the content, 1 of the form\n")


def test_a_conversion_and_back_changes_no_content(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = np.arange(4.0)
        for name, value in (("list", [5]), ("bool", True), ("float", -9.0), ("single", np.float32(0.1)), ("rows", [[1, 2]])):
            f["v"].attrs[name] = value
    for target in ("b.zarr", "c.h5"):
        source = tmp_path / ("a.h5" if target == "b.zarr" else "b.zarr")
        codecfs("convert", source, tmp_path / target)
        compared(tmp_path / "a.h5", tmp_path / target)
    with h5py.File(tmp_path / "a.h5") as f, netCDF4.Dataset(tmp_path / "d.nc", "w") as d:  # netCDF has one form of these
        d.createDimension("x", 4)
        v = d.createVariable("v", "f8", ("x",))
        v[:] = f["v"][:]
        v.setncatts({"list": 5, "bool": 1, "float": -9, "single": float(np.float32(0.1)), "rows": [1, 2]})
    found = compare(tmp_path / "a.h5", tmp_path / "d.nc", code=2)
    assert {text for _, text in kinds(found)} == {"attribute float", "attribute single", "attribute rows"}
    assert set(kinds(found).values()) == {"form"}
