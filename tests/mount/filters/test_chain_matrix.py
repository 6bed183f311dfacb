"""Chains of filters in every format and in every way that gives a variable one: each filter alone, and behind or before
others. The judges are libhdf5 (h5py, with the plugins of Debian and two of our own), numcodecs, and for NCZarr netCDF-C;
CODECFS_LONG=1 tries all pairs."""
import itertools
import json
import os
import pickle
import sys

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

from conftest import xattr
from running import codecfs, run
from test_encoded_chains import fletcher32  # noqa: F401: Debian's numcodecs lacks it
from filter_plugins import DEBIAN, OURS, compile_plugin
from venvs import python_of

DATA = np.arange(4000, dtype="<i4").reshape(40, 100)
CHUNKS = (10, 50)

# A spec, the codec that numcodecs or a plugin has for it, and its id in HDF5.
FILTERS = {
    "deflate": ("1,4", "zlib"), "shuffle": ("2", "shuffle"), "fletcher32": ("3", "fletcher32"), "szip": ("4,4,16", None),
    "bzip2": ("307,5", "bz2"), "lzf": ("32000", None), "blosc": ("32001,0,0,0,0,5,1,1", "blosc"), "lz4": ("32004", "lz4"),
    "zstd": ("32015,3", "zstd"), "bitshuffle": ("32008,0,2", None), "mask": ("32900,23,0,0", "mask"), "completing": ("32904,7", None),
}
FIRST = ("shuffle", "fletcher32", "mask")
PAIRS = [(first, last) for first in FIRST for last in FILTERS if last not in FIRST]
if os.environ.get("CODECFS_LONG") == "1":
    PAIRS = list(itertools.permutations(FILTERS, 2))
CHAINS = [(name,) for name in FILTERS] + PAIRS

# netCDF's order of the filters of a spec.
RANK = {"fletcher32": 0, "shuffle": 1}


def name_of(chain):
    return "-".join(chain)


def spec_of(chain):
    return "|".join(FILTERS[name][0] for name in chain)


def in_order(chain):
    return sorted(chain, key=lambda name: RANK.get(name, 2))


def has_codecs(chain):
    """Whether Zarr has a codec for each."""
    return all(FILTERS[name][1] is not None for name in chain)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A search path with the plugins of Debian and two of our own, one of which has a codec in Zarr."""
    folder = tmp_path_factory.mktemp("matrix")
    compile_plugin("mask_filter.c", folder / "libmask.so")
    compile_plugin("mask_codec.c", folder / "libmaskcodec.so", "-Wl,--no-as-needed", "-lnetcdf")
    compile_plugin("completing_filter.c", folder / "libcompleting.so")
    return f"{folder}:{DEBIAN}"


# ---- the judges

NOT_IN_DEBIAN = {32008, 32015}  # bitshuffle, zstd

SHOW = """
import h5py, pickle, sys
found = {}
with h5py.File(sys.argv[1]) as f:
    for name in f:
        properties = f[name].id.get_create_plist()
        ids = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        is_in_debian = not set(ids) & set(map(int, sys.argv[3:]))
        if is_in_debian == (sys.argv[2] == "debian"):
            found[name] = ids, f[name][()].tolist()
pickle.dump(found, sys.stdout.buffer)
"""


def read_hdf5(plugins, path):
    """name -> (ids of the pipeline, values) of each variable, by h5py of Debian, or with hdf5plugin where Debian has no plugin."""
    found = {}
    current = python_of("hdf5plugin")
    of_hdf5plugin = run(current, "-c", "import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)").stdout.strip()
    for python, which, search in [(sys.executable, "debian", plugins),
                                  (current, "others", f"{plugins.partition(':')[0]}:{of_hdf5plugin}")]:
        done = run(python, "-c", SHOW, path, which, *NOT_IN_DEBIAN, seconds=300, env={"HDF5_PLUGIN_PATH": search}, text=False)
        found |= pickle.loads(done.stdout)
    return found


def flipped(raw, value):
    return bytes(np.frombuffer(bytes(raw), "u1") ^ np.uint8(value))


def unmask(raw):
    return flipped(raw, 23)


CODEC_OF = {name: codec for name, (_, codec) in FILTERS.items()} | {"szip": "szip"}


def codecs_of(array):
    """Of Zarr v2."""
    told = json.loads((array / ".zarray").read_text())
    return [*(told["filters"] or []), *([told["compressor"]] if told["compressor"] else [])]


def read_zarr(store, name):
    """The names of the codecs of an array of either version, and its values by numcodecs."""
    array = store / name
    if (array / "zarr.json").exists():
        told = json.loads((array / "zarr.json").read_text())
        codecs = [{"id": c["name"].removeprefix("numcodecs."), **c.get("configuration", {})} for c in told["codecs"] if c["name"] != "bytes"]
        prefix, separator = "c/", "/"
    else:
        told = json.loads((array / ".zarray").read_text())
        codecs = codecs_of(array)
        prefix, separator = "", told.get("dimension_separator", ".")
    whole = np.zeros(DATA.shape, DATA.dtype)
    for i, j in itertools.product(range(4), range(2)):
        raw = (array / f"{prefix}{i}{separator}{j}").read_bytes()
        for codec in reversed(codecs):
            known = {"checksum", "typesize"} if codec["id"] in ("zstd", "blosc") else set()  # newer than Debian's
            told = {key: value for key, value in codec.items() if key not in known}
            if told["id"] == "blosc" and isinstance(told["shuffle"], str):
                told["shuffle"] = ["noshuffle", "shuffle", "bitshuffle"].index(told["shuffle"])
            raw = unmask(raw) if codec["id"] == "mask" else bytes(memoryview(numcodecs.get_codec(told).decode(raw)))
        whole[10 * i:10 * i + 10, 50 * j:50 * j + 50] = np.frombuffer(raw, "<i4").reshape(CHUNKS)
    return [codec["id"] for codec in codecs], whole


def read_nczarr(plugins, store):
    """The values of all variables, by netCDF-C, which finds the other halves of the codecs among our plugins."""
    program = f"""
import netCDF4, pickle, sys
with netCDF4.Dataset("file://{store}#mode=nczarr,file") as file:
    file.set_auto_maskandscale(False)
    pickle.dump({{name: file[name][...] for name in file.variables}}, sys.stdout.buffer)
"""
    done = run(python_of("netcdf"), "-W", "ignore", "-c", program, seconds=300,
               env={"HDF5_PLUGIN_PATH": f"{plugins.partition(':')[0]}:{OURS}"}, text=False)
    return pickle.loads(done.stdout)


def check(plugins, target, chains, kind):
    """All variables hold the data, with these chains."""
    if kind == "nczarr":
        found = read_nczarr(plugins, target)
        for chain in chains:
            assert sorted(codec["id"] for codec in codecs_of(target / name_of(chain))) == sorted(CODEC_OF[name] for name in chain)
            assert np.array_equal(found[name_of(chain)], DATA), chain
        return
    if kind == "hdf5":
        found = read_hdf5(plugins, target)
        ids = {name: int(spec.partition(",")[0]) for name, (spec, _) in FILTERS.items()}
        for chain in chains:
            told, values = found[name_of(chain)]
            assert sorted(told) == sorted(ids[name] for name in chain), (chain, told)
            assert np.array_equal(values, DATA), chain
        return
    for chain in chains:
        told, values = read_zarr(target, name_of(chain))
        assert len(told) == len(chain), (chain, told)
        assert {"zlib" if name == "gzip" else name for name in told} == {FILTERS[name][1] for name in chain}, (chain, told)
        assert np.array_equal(values, DATA), chain


# ---- sources and targets

def make_hdf5(path, names):
    with h5py.File(path, "w") as file:
        for name in names:
            file.create_dataset(name, data=DATA, chunks=CHUNKS)
    return path


def make_zarr(path, names):
    group = zarr.open_group(str(path), mode="w")
    for name in names:
        group.create_dataset(name, data=DATA, chunks=CHUNKS, compressor=None)
    return path


def make_zarr3(path, names):
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    for name in names:
        array = path / name
        for i, j in itertools.product(range(4), range(2)):
            chunk = array / f"c/{i}/{j}"
            chunk.parent.mkdir(parents=True, exist_ok=True)
            chunk.write_bytes(DATA[10 * i:10 * i + 10, 50 * j:50 * j + 50].tobytes())
        (array / "zarr.json").write_text(json.dumps(
            {"zarr_format": 3, "node_type": "array", "shape": DATA.shape, "data_type": "int32", "fill_value": 0, "attributes": {},
             "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}},
             "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
             "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}))
    return path


def make_nczarr(path, names):
    program = f"""
import netCDF4, numpy
with netCDF4.Dataset("file://{path}#mode=nczarr,file", "w") as file:
    file.createDimension("y", 40), file.createDimension("x", 100)
    for name in {list(names)}:
        file.createVariable(name, "<i4", ("y", "x"), chunksizes={CHUNKS}, fill_value=False)[:] = numpy.arange(4000).reshape(40, 100)
"""
    run(python_of("netcdf"), "-W", "ignore", "-c", program, seconds=300)
    return path


TARGETS = {"hdf5": (make_hdf5, "t.h5"), "nczarr": (make_nczarr, "n.zarr"), "zarr": (make_zarr, "t.zarr"), "zarr3": (make_zarr3, "t3.zarr")}


@pytest.fixture(params=TARGETS)
def kind(request):
    return request.param


def possible(kind, by_spec=True):
    """The chains that the format has, and the others. A spec names HDF5's lz4, whose format is not that of numcodecs; netCDF-C
    has no codec for either."""
    if kind == "hdf5":
        return CHAINS, []
    # szip in Zarr is netCDF-C's alone, and numcodecs shuffles no compressed bytes: neither is judged where it is the judge.
    chains = [chain for chain in CHAINS if "szip" not in chain and not (chain[-1] == "shuffle" and not set(chain) <= set(FIRST))]
    can = [chain for chain in chains if has_codecs(chain) and not ((by_spec or kind == "nczarr") and "lz4" in chain)]
    cannot = [chain for chain in chains if chain not in can]
    if kind == "nczarr":
        can += [("szip",), ("shuffle", "szip")]
    return can, cannot


def write_all(folder):
    """Overwrites each variable with what it holds."""
    group = zarr.open_group(str(folder), mode="r+")
    for name in group:
        group[name][...] = DATA


def test_set_by_attribute(mount, tmp_path, plugins, kind):
    make, name = TARGETS[kind]
    can, cannot = possible(kind)
    target = make(tmp_path / name, map(name_of, CHAINS))
    mounted = mount(target, env={"HDF5_PLUGIN_PATH": plugins})
    for chain in can:
        os.setxattr(mounted.path / name_of(chain), "user._Filter", spec_of(chain).encode())
    for chain in cannot:
        with pytest.raises(OSError) as refused:
            os.setxattr(mounted.path / name_of(chain), "user._Filter", spec_of(chain).encode())
        assert refused.value.errno == 22
        reason = xattr(mounted.path / name_of(chain), "_Error")
        assert any(part in reason for part in chain if FILTERS[part][1] is None or part == "lz4"), (chain, reason)
    mounted.close()
    check(plugins, target, can, kind)


def test_given_by_a_rule(mount, tmp_path, place, plugins, kind):
    make, name = TARGETS[kind]
    can, cannot = possible(kind)
    target = make(tmp_path / name, map(name_of, can))
    mounted = mount(target, "view=decoded", rules=[f"{name_of(chain)},{spec_of(chain)}" for chain in can],
                    env={"HDF5_PLUGIN_PATH": plugins})
    write_all(mounted.path)
    mounted.close()
    check(plugins, target, can, kind)
    place.mkdir()
    for chain in cannot[:4]:
        done = codecfs("-F", f"*,{spec_of(chain)}", target, place, env={"HDF5_PLUGIN_PATH": plugins}, code=None)
        assert done.returncode in (1, 32) and any(part in done.stderr for part in chain), done.stderr


def test_new_variables(mount, tmp_path, plugins, kind):
    make, name = TARGETS[kind]
    can, _ = possible(kind)
    target = make(tmp_path / name, ["seed"])
    mounted = mount(target, "view=decoded", rules=[f"{name_of(chain)},{spec_of(chain)}" for chain in can],
                    env={"HDF5_PLUGIN_PATH": plugins})
    group = zarr.open_group(str(mounted.path), mode="r+")
    for chain in can:
        group.create_dataset(name_of(chain), data=DATA, chunks=CHUNKS, compressor=None)
    mounted.close()
    check(plugins, target, can, kind)


@pytest.fixture(scope="module")
def every_chain(tmp_path_factory, plugins):
    """An HDF5 file with all chains, made by codecfs and judged by libhdf5 before it is used."""
    folder = tmp_path_factory.mktemp("chains")
    make_hdf5(folder / "plain.h5", map(name_of, CHAINS))
    rules = [word for chain in CHAINS for word in ("-F", f"{name_of(chain)},{spec_of(chain)}")]
    codecfs("convert", *rules, folder / "plain.h5", folder / "all.h5", seconds=300, env={"HDF5_PLUGIN_PATH": plugins})
    check(plugins, folder / "all.h5", CHAINS, "hdf5")
    return folder / "all.h5"


def test_converted_out_of_hdf5(tmp_path, plugins, every_chain, kind):
    _, name = TARGETS[kind]
    can, cannot = possible(kind, by_spec=False)
    done = codecfs("convert", "--format", kind, every_chain, tmp_path / name, seconds=300, env={"HDF5_PLUGIN_PATH": plugins})
    check(plugins, tmp_path / name, can, kind)
    assert ("variables are stored without filters" in done.stderr) == bool(cannot), done.stderr
    for chain in cannot:
        told, values = read_zarr(tmp_path / name, name_of(chain))
        assert told == [] and np.array_equal(values, DATA), chain


def encode(raw, codecs):
    for codec in codecs:
        if codec["id"] == "fletcher32":
            raw = bytes(raw) + checksum(bytes(raw))
        else:
            raw = flipped(raw, 23) if codec["id"] == "mask" else numcodecs.get_codec(codec).encode(raw)
    return bytes(memoryview(raw))


def checksum(raw):
    """HDF5's Fletcher-32, from its description: sums of the big-endian words of 16 bits."""
    one = two = 0
    for i in range(0, len(raw), 2):
        one = (one + (raw[i] << 8) + (raw[i + 1] if i + 1 < len(raw) else 0)) % 65535
        two = (two + one) % 65535
    # Zero is 65535 in this sum, unless all was zero.
    fold = lambda value: value or (65535 if any(raw) else 0)  # noqa: E731
    return (fold(two) << 16 | fold(one)).to_bytes(4, "little")


CODECS = {"deflate": {"id": "zlib", "level": 4}, "shuffle": {"id": "shuffle", "elementsize": 4}, "fletcher32": {"id": "fletcher32"},
          "bzip2": {"id": "bz2", "level": 5}, "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
          "lz4": {"id": "lz4", "acceleration": 1}, "zstd": {"id": "zstd", "level": 3}, "mask": {"id": "mask", "value": 23}}


@pytest.fixture(scope="module")
def every_codec(tmp_path_factory):
    """A Zarr store with all chains of codecs, encoded by numcodecs."""
    store = make_zarr(tmp_path_factory.mktemp("codecs") / "s.zarr", [])
    for chain in possible("zarr", by_spec=False)[0]:
        codecs = [CODECS[name] for name in chain]
        array = store / name_of(chain)
        array.mkdir()
        (array / ".zarray").write_text(json.dumps(
            {"zarr_format": 2, "shape": DATA.shape, "chunks": CHUNKS, "dtype": "<i4", "order": "C", "fill_value": 0,
             "filters": codecs[:-1] or None, "compressor": codecs[-1]}))
        for i, j in itertools.product(range(4), range(2)):
            (array / f"{i}.{j}").write_bytes(encode(DATA[10 * i:10 * i + 10, 50 * j:50 * j + 50].tobytes(), codecs))
    return store


def test_converted_out_of_zarr(tmp_path, plugins, every_codec, kind):
    can, _ = possible("zarr", by_spec=False)
    _, name = TARGETS[kind]
    done = codecfs("convert", "--format", kind, every_codec, tmp_path / name, seconds=300, env={"HDF5_PLUGIN_PATH": plugins})
    left = [chain for chain in can if kind == "nczarr" and "lz4" in chain]  # which netCDF-C has no codec for
    check(plugins, tmp_path / name, [chain for chain in can if chain not in left], kind)
    assert ("variables are stored without filters" in done.stderr) == bool(left), done.stderr
    for chain in left:
        told, values = read_zarr(tmp_path / name, name_of(chain))
        assert told == [] and np.array_equal(values, DATA), chain


def test_copied_as_encoded_files(mount, tmp_path, plugins, every_codec):
    """cp of a Zarr store into the encoded view of an HDF5 file, which shows what was written until it is unmounted."""
    can, _ = possible("zarr", by_spec=False)
    make_hdf5(tmp_path / "t.h5", [])
    mounted = mount(tmp_path / "t.h5", "view=encoded", env={"HDF5_PLUGIN_PATH": plugins})
    for chain in can:
        run("cp", "-r", every_codec / name_of(chain), mounted.path / name_of(chain))
    for chain in can:
        told, values = read_zarr(mounted.path, name_of(chain))
        assert told == [CODECS[name]["id"] for name in chain] and np.array_equal(values, DATA), chain
    mounted.close()
    check(plugins, tmp_path / "t.h5", can, "hdf5")


@pytest.mark.parametrize("order", ["listed", "sorted"])
def test_copied_with_attributes(mount, tmp_path, plugins, every_chain, kind, order):
    """By cp, which sets attributes as they are listed, and by programs that sort them, such as rsync."""
    make, name = TARGETS[kind]
    can, _ = possible(kind)
    target = make(tmp_path / name, [])
    environment = {"HDF5_PLUGIN_PATH": plugins}
    source = mount(every_chain, "ro", env=environment)
    into = mount(target, "view=decoded", env=environment)
    for chain in can:
        words = ["--preserve=xattr"] if order == "listed" else []
        run("cp", "-r", *words, source.path / name_of(chain), into.path / name_of(chain))
        if order == "sorted":
            for attribute in sorted(set(os.listxattr(source.path / name_of(chain))) & {"user._Filter", "user._FilterStored"}):
                os.setxattr(into.path / name_of(chain), attribute, os.getxattr(source.path / name_of(chain), attribute))
    source.close()
    into.close()
    check(plugins, target, can, kind)
    if kind == "hdf5":
        for chain in can:
            with h5py.File(every_chain) as one, h5py.File(target) as other:
                pipelines = [file[name_of(chain)].id.get_create_plist() for file in (one, other)]
                told = [[p.get_filter(i)[:3] for i in range(p.get_nfilters())] for p in pipelines]
            if order == "listed":
                assert told[0] == told[1], chain
