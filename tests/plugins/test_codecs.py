"""The codec halves: JSON to parameters and back, bad JSON, and what modify_parameters makes of a variable."""
import ctypes
import json

import numcodecs
import pytest

from plugin_abi import codecs
from running import run

CODECS = codecs()
INVALID, NOT_BUILT, FILTER_ERROR = -36, -128, -132


def test_codecs_and_their_ids():
    assert {name: codec.info.hdf5id for name, codec in CODECS.items()} == {
        "bz2": 307, "zstd": 32015, "blosc": 32001, "zlib": 1, "shuffle": 2, "fletcher32": 3, "szip": 4}


THERE_AND_BACK = [
    ({"id": "zlib", "level": 0}, [0]),
    ({"id": "zlib", "level": 9}, [9]),
    ({"id": "bz2", "level": 1}, [1]),
    ({"id": "bz2", "level": 9}, [9]),
    ({"id": "zstd", "level": 0}, [0]),
    ({"id": "zstd", "level": 22}, [22]),
    ({"id": "zstd", "level": -7}, [2**32 - 7]),
    ({"id": "shuffle", "elementsize": 1}, [1]),
    ({"id": "shuffle", "elementsize": 8}, [8]),
    ({"id": "fletcher32"}, []),
    ({"id": "szip", "mask": 32, "pixels-per-block": 16}, [32, 16]),
    ({"id": "blosc", "cname": "blosclz", "clevel": 0, "shuffle": 0, "blocksize": 0}, [0, 0, 0, 0, 0, 0, 0]),
    ({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 4096}, [0, 0, 0, 4096, 5, 1, 1]),
    ({"id": "blosc", "cname": "lz4hc", "clevel": 9, "shuffle": 2, "blocksize": 0}, [0, 0, 0, 0, 9, 2, 2]),
    ({"id": "blosc", "cname": "snappy", "clevel": 9, "shuffle": 2, "blocksize": 0}, [0, 0, 0, 0, 9, 2, 3]),
    ({"id": "blosc", "cname": "zlib", "clevel": 1, "shuffle": -1, "blocksize": 0}, [0, 0, 0, 0, 1, 2**32 - 1, 4]),
    ({"id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 1, "blocksize": 0}, [0, 0, 0, 0, 7, 1, 5]),
]


@pytest.mark.parametrize("codec, parameters", THERE_AND_BACK)
def test_there_and_back(codec, parameters):
    plugin = CODECS[codec["id"]]
    assert plugin.to_hdf5(json.dumps(codec)) == parameters
    assert json.loads(plugin.to_codec(*parameters)) == codec


@pytest.mark.parametrize("codec", [numcodecs.Zlib(3), numcodecs.BZ2(4), numcodecs.Zstd(7), numcodecs.Shuffle(2),
                                   numcodecs.Blosc("zstd", 3, 2, 1024)])
def test_numcodecs_configurations(codec):
    """What numcodecs writes is understood, and what we write is numcodecs' own configuration."""
    config = codec.get_config()
    plugin = CODECS[config["id"]]
    text = plugin.to_codec(*plugin.to_hdf5(json.dumps(config)))
    assert numcodecs.get_codec(json.loads(text)).get_config() == config


@pytest.mark.parametrize("text, parameters", [
    # missing keys: numcodecs' defaults; for shuffle the item's size, which modify_parameters knows
    ('{"id": "zlib"}', [1]), ('{"id": "bz2"}', [1]), ('{"id": "zstd"}', [0]), ('{"id":"shuffle"}', []),
    ('{"id": "blosc"}', [0, 0, 0, 0, 5, 1, 1]), ('{"id": "blosc", "cname": "zstd"}', [0, 0, 0, 0, 5, 1, 5]),
    ('{"id": "zlib", "level": -1}', [6]),
    # all the ways in which stores spell an integer
    ('{"id": "zlib", "level": "5"}', [5]), ('{"id": "zlib", "level": 5.0}', [5]), ('{"id":"zlib","level": 5.9}', [5]),
    ('{"id": "zlib", "level": "5.0"}', [5]), ('{"id": "zlib", "level": 5e0}', [5]), ('{"id": "zlib", "level": 50E-1}', [5]),
    ('{"id": "zlib", "level": true}', [1]), ('{"id": "zlib", "level": false}', [0]), ('{"id": "zlib", "level": -0}', [0]),
    ('{"id": "shuffle", "elementsize": "0"}', []), ('{"id": "shuffle", "elementsize": 0}', []),
    ('{"id": "szip", "mask": "32", "pixels-per-block": "8"}', [32, 8]),
    # other members, order, space, escapes, a key twice
    (' {\n"level"\t:\r4 , "x": [1, {"level": 9}, null, "}", "\\"", []], "id" : "zlib" } ', [4]),
    ('{"id": "\\u007alib", "le\\u0076el": 4}', [4]), ('{"id": "zlib", "level": 4, "level": 7}', [7]),
    ('{"id": "zstd", "level": 3, "checksum": false}', [3]), ('{"id": "zlib", "\u00fc\u20ac": "\u00fc", "level": 2}', [2]),
    ('{"id": "blosc", "typesize": null}', [0, 0, 0, 0, 5, 1, 1]),
    ('{"id": "fletcher32", "x": ' + "[" * 60 + "]" * 60 + "}", []),
])
def test_liberal_reading(text, parameters):
    assert CODECS[json.loads(text)["id"]].to_hdf5(text) == parameters


@pytest.mark.parametrize("value", ["null", "[]", "{}", "[5]", '""', '"x"', '"5x"', '" 5"', "10", "-2", '"10"', "1e9", "1e999",
                                   "-1e999", '"1e400"', "99999999999999999999", '"0x5"', '"NaN"'])
def test_bad_values(value):
    for name, key in [("zlib", "level"), ("bz2", "level"), ("blosc", "clevel"), ("szip", "pixels-per-block")]:
        rest = '"mask": 0, ' if name == "szip" else ""
        if name == "szip" and value in ("10", '"10"'):
            continue
        assert CODECS[name].to_hdf5(f'{{"id": "{name}", {rest}"{key}": {value}}}') is None


@pytest.mark.parametrize("text", [
    '{"id": "bz2", "level": 0}', '{"id": "zstd", "level": 23}', '{"id": "shuffle", "elementsize": -1}',
    '{"id": "shuffle", "elementsize": 4294967296}', '{"id": "blosc", "shuffle": 3}', '{"id": "blosc", "shuffle": -2}',
    '{"id": "blosc", "cname": "lz5"}', '{"id": "blosc", "cname": ""}', '{"id": "blosc", "cname": 1}',
    '{"id": "blosc", "cname": null}', '{"id": "blosc", "blocksize": -1}', '{"id": "blosc", "cname": "' + "x" * 1000 + '"}',
    '{"id": "szip", "mask": 32}', '{"id": "szip", "pixels-per-block": 8}', '{"id": "szip"}',
    '{"id": "szip", "mask": 32, "pixels-per-block": 7}', '{"id": "szip", "mask": 32, "pixels-per-block": 0}',
    '{"id": "szip", "mask": 32, "pixels-per-block": 34}'])
def test_more_bad_values(text):
    assert CODECS[json.loads(text)["id"]].to_hdf5(text) is None


GOOD = '{"id": "NAME", "level": 5, "a": [1, -2.5e+3, true, "\\u00e9\\n"], "b": {"c": null}}'
BAD = ["", " ", "null", "5", '"zlib"', "[]", "{", "}", "{}", '{"id"}', '{"id": }', '{"id": "other"}', '{"id": 5}',
       '{"id": null}', '{"level": 5}', '["NAME"]', '{"id": "NAME",}', '{"id": "NAME" "level": 5}', '{"id": "NAME"} x',
       '{"id": "NAME"}{"id": "NAME"}', "{'id': 'NAME'}", '{id: "NAME"}', '{"id": NAME}', '{"id": "NAME", "x": 01}',
       '{"id": "NAME", "x": 1.}', '{"id": "NAME", "x": .5}', '{"id": "NAME", "x": 1e}', '{"id": "NAME", "x": +1}',
       '{"id": "NAME", "x": -}', '{"id": "NAME", "x": tru}', '{"id": "NAME", "x": nul}', '{"id": "NAME", "x": NaN}',
       '{"id": "NAME", "x": "\\q"}', '{"id": "NAME", "x": "\\u12g4"}', '{"id": "NAME", "x": "\\u12"}',
       '{"id": "NAME", "x": "\n"}', '{"id": "NAME", "x": [1,]}', '{"id": "NAME", "x": [1 2]}', '{"id": "NAME", "x": [}',
       '{"id": "NAME", "x": {"a"}}', '{"id": "NAME", /* */ "x": 1}', '{"id": "NAME", "x": ' + "[" * 100 + "]" * 100 + "}",
       '{"id": "NAME", "x": ' + "[" * 1000000]


@pytest.mark.parametrize("name", CODECS)
def test_malformed_json(name):
    for text in BAD:
        assert CODECS[name].to_hdf5(text.replace("NAME", name)) is None, text[:80]
    whole = GOOD.replace("NAME", name)
    for cut in range(len(whole)):
        assert CODECS[name].to_hdf5(whole[:cut]) is None, whole[:cut]
    assert CODECS[name].to_hdf5(None) is None


@pytest.mark.parametrize("name", CODECS)
def test_any_text_is_safe(name):
    import random

    source, whole = random.Random(name), GOOD.replace("NAME", name).encode()
    for _ in range(3000):
        text = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(text))
            text[at:at + source.randint(0, 3)] = source.choice([b'"', b"\\", b"{", b"}", b"[", b":", b",", b"9", b"\xff", b"\\u"])
        CODECS[name].to_hdf5(bytes(text))


@pytest.mark.parametrize("name, parameters", [
    ("zlib", []), ("zlib", [1, 2]), ("zlib", [10]), ("bz2", [1, 2]), ("bz2", [0]), ("bz2", [10]), ("zstd", [1, 2]),
    ("zstd", [23]), ("shuffle", []), ("shuffle", [0]), ("shuffle", [4, 4]), ("fletcher32", [1]), ("szip", []), ("szip", [32]),
    ("szip", [32, 7]), ("szip", [32, 16, 8]), ("blosc", [0] * 8), ("blosc", [0, 0, 0, 0, 10, 1, 1]),
    ("blosc", [0, 0, 0, 0, 5, 3, 1]), ("blosc", [0, 0, 0, 0, 5, 1, 6])])
def test_bad_parameters(name, parameters):
    assert CODECS[name].to_codec(*parameters) is None


def test_parameters_of_hdf5_files():
    """Working parameters become JSON too; missing ones are the filter's own defaults."""
    assert json.loads(CODECS["blosc"].to_codec(2, 2, 8, 16000, 7, 2, 5)) == {
        "id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 2, "blocksize": 0}
    assert json.loads(CODECS["blosc"].to_codec(2, 2, 4, 400))["cname"] == "blosclz"
    assert json.loads(CODECS["bz2"].to_codec()) == {"id": "bz2", "level": 9}
    assert json.loads(CODECS["zstd"].to_codec()) == {"id": "zstd", "level": 3}
    assert json.loads(CODECS["szip"].to_codec(141, 16, 32, 100)) == {"id": "szip", "mask": 141, "pixels-per-block": 16}


# A variable as netCDF would describe it: the functions that the codecs look for, in a library of their own.
NETCDF = """
#include <stddef.h>
int type_size, rank, big, failing;
size_t lengths[4], chunks[4];
int nc_inq_var(int nc, int var, char* name, int* type, int* ndims, int* ids, int* natts) {
  if (failing) return failing;
  if (type) *type = type_size;
  if (ndims) *ndims = rank;
  for (int i = 0; ids && i < rank; ++i) ids[i] = i;
  return nc == 5 && var == 6 ? 0 : -33;
}
int nc_inq_type(int nc, int type, char* name, size_t* size) { *size = type; return 0; }
int nc_inq_dimlen(int nc, int dim, size_t* length) { *length = lengths[dim]; return 0; }
int nc_inq_var_chunking(int nc, int var, int* storage, size_t* sizes) {
  *storage = 0;
  for (int i = 0; i < rank; ++i) sizes[i] = chunks[i];
  return 0;
}
int nc_inq_var_endian(int nc, int var, int* order) { *order = big ? 2 : 1; return 0; }
"""


def test_modify_without_netcdf():
    """The libraries load and answer where no netCDF is. (A sized shuffle needs none.)"""
    program = ("import conftest, plugin_abi; c = plugin_abi.codecs(); print(c['shuffle'].modify([]), c['shuffle'].modify([4]),"
               " c['blosc'].modify([]), c['szip'].modify([32, 16]))")
    import os
    import sys
    done = run(sys.executable, "-B", "-c", program, cwd=os.path.dirname(__file__), code=None)
    assert done.stdout.strip() == (f"({NOT_BUILT}, [], [99]) (0, [4], [4]) ({NOT_BUILT}, [], [99]) "
                                   f"({NOT_BUILT}, [32, 16], [99])"), done.stderr


@pytest.fixture(scope="module")
def variable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("netcdf")
    (folder / "netcdf.c").write_text(NETCDF)
    run("cc", "-shared", "-fPIC", "-o", folder / "libfake.so", folder / "netcdf.c")
    library = ctypes.CDLL(str(folder / "libfake.so"), mode=ctypes.RTLD_GLOBAL)

    def describe(type_size, lengths, chunks, big=False, failing=0):
        for name, value in [("type_size", type_size), ("rank", len(lengths)), ("big", big), ("failing", failing)]:
            ctypes.c_int.in_dll(library, name).value = value
        for name, values in [("lengths", lengths), ("chunks", chunks)]:
            array = (ctypes.c_size_t * 4).in_dll(library, name)
            for i, value in enumerate(values):
                array[i] = value

    return describe


def modify(name, visible):
    return CODECS[name].modify(visible, 5, 6)


def test_modify_shuffle(variable):
    """The visible parameters get the size, as JSON is made of them."""
    variable(8, [100], [10])
    assert modify("shuffle", []) == (0, [8], [8])
    assert modify("shuffle", [0]) == (0, [8], [8])
    assert modify("shuffle", [4]) == (0, [4], [4])
    assert modify("shuffle", [4, 4]) == (INVALID, [4, 4], [99])
    assert CODECS["shuffle"].modify([], 1, 1) == (-33, [], [99])


def test_modify_blosc(variable):
    variable(8, [100, 50], [10, 20])
    visible = [0, 0, 0, 4096, 7, 2, 5]
    assert modify("blosc", visible) == (0, visible, [2, 2, 8, 1600, 7, 2, 5])
    assert modify("blosc", []) == (0, [], [2, 2, 8, 1600, 5, 1, 0])
    variable(300, [100], [10])
    assert modify("blosc", visible) == (0, visible, [2, 2, 1, 3000, 7, 2, 5])
    variable(4, [], [])
    assert modify("blosc", visible) == (0, visible, [2, 2, 4, 4, 7, 2, 5])
    variable(8, [2**40], [2**40])
    assert modify("blosc", visible) == (FILTER_ERROR, visible, [99])
    variable(8, [2**40, 2**40], [2**40, 2**40])
    assert modify("blosc", visible) == (FILTER_ERROR, visible, [99])
    variable(8, [10], [10], failing=-57)
    assert modify("blosc", visible) == (-57, visible, [99])
    assert modify("blosc", [0, 0, 0, 0, 10, 1, 1])[0] == INVALID


@pytest.mark.parametrize("size, lengths, chunks, big, block, working", [
    (4, [8, 200], [4, 50], False, 16, [128 | 1 | 8, 16, 32, 200]),
    (4, [8, 200], [4, 50], True, 16, [128 | 1 | 16, 16, 32, 200]),
    (8, [8, 5000], [4, 5000], False, 16, [137, 16, 64, 2048]),
    (1, [8, 4000], [4, 50], False, 8, [137, 8, 8, 1024]),
    (2, [100, 4], [100, 4], False, 8, [137, 8, 16, 400]),
    (2, [1000, 4], [1000, 4], False, 8, [137, 8, 16, 1024])])
def test_modify_szip(variable, size, lengths, chunks, big, block, working):
    """netCDF's rules: the scanline follows the last dimension, or the chunk where that is shorter than a block."""
    variable(size, lengths, chunks, big)
    assert modify("szip", [2, block]) == (0, [2, block], working)


def test_modify_szip_refuses(variable):
    variable(4, [3, 4], [3, 4])
    assert modify("szip", [32, 16]) == (FILTER_ERROR, [32, 16], [99])
    variable(4, [], [])
    assert modify("szip", [32, 16])[0] == FILTER_ERROR
    assert modify("szip", [32])[0] == INVALID
    assert modify("szip", [32, 7])[0] == INVALID
