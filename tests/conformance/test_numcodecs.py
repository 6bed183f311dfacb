"""Zarr's codecs: what numcodecs encodes we decode, and what we encode numcodecs decodes. The codecs that compute make
the same bytes, roundings and overflows included."""
import numcodecs
import numpy
import pytest

# Threads put their blocks into the buffer in the order in which they are ready.
numcodecs.blosc.use_threads = False

NUMPY_1 = numpy.__version__.startswith("1.")
SIZES = [0, 1, 2, 7, 1000, 4097, 300_001]
LARGE = 5_000_001
NUMBERS = ["|i1", "|u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", "<u8", ">u8", "<f2", "<f4", ">f4", "<f8",
           ">f8"]


def arrays(dtype, sizes=SIZES):
    """Of each size: what compresses well, and what does not."""
    dtype = numpy.dtype(dtype)
    generator = numpy.random.default_rng(11)
    for size in sizes:
        if dtype.kind == "f":
            yield (numpy.sin(numpy.arange(size) / 30) * 50).astype(dtype)
            yield (generator.normal(size=size) * 1000).astype(dtype)
        elif dtype.kind == "b":
            yield numpy.arange(size) % 3 == 0
            yield generator.integers(0, 2, size).astype(bool)
        else:
            yield (numpy.arange(size) // 7 % 100).astype(dtype)
            yield numpy.frombuffer(generator.bytes(size * dtype.itemsize), dtype)


def same(left, right):
    return bytes(numpy.ascontiguousarray(left).tobytes()) == bytes(numpy.ascontiguousarray(right).tobytes())


def both_ways(recode, config, array, equal_bytes=False):
    codec = numcodecs.get_codec(dict(config))
    theirs = codec.encode(array.copy())
    theirs = theirs if isinstance(theirs, bytes) else numpy.ascontiguousarray(theirs).tobytes()
    ours, mask = recode.encode(array, codecs=[config])
    assert mask == 0
    assert same(recode.decode(theirs, array, codecs=[config]), array), "we decode other data"
    if equal_bytes:
        assert ours == theirs
    assert same(numpy.frombuffer(codec.decode(ours), array.dtype), array), "numcodecs decodes other data"


COMPRESSORS = [
    *({"id": "zlib", "level": level} for level in (-1, 0, 1, 5, 9)),
    *({"id": "gzip", "level": level} for level in (0, 1, 9)),
    *({"id": "bz2", "level": level} for level in (1, 9)),
    *({"id": "zstd", "level": level} for level in (1, 3, 19, 22)),
    *({"id": "lz4", "acceleration": level} for level in (1, 10)),
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "lzma", "format": 1, "check": 1, "preset": 1, "filters": None},
    {"id": "lzma", "format": 1, "check": 0, "preset": 0x80000002, "filters": None},
    {"id": "lzma", "format": 2, "check": -1, "preset": 3, "filters": None},
    {"id": "lzma", "format": 3, "check": -1, "preset": None,
     "filters": [{"id": 3, "dist": 2}, {"id": 33, "preset": 2, "dict_size": 1 << 20, "lc": 2, "lp": 1, "pb": 1,
                                        "mode": 1, "nice_len": 40, "mf": 3, "depth": 9}]},
    *({"id": "blosc", "cname": name, "clevel": level, "shuffle": shuffle, "blocksize": block}
      for name, level, shuffle, block in [
          ("blosclz", 5, 1, 0), ("lz4", 5, 1, 0), ("lz4", 0, 1, 0), ("lz4hc", 9, 2, 0), ("zlib", 1, 0, 0),
          ("zstd", 3, 1, 4096), ("zstd", 7, -1, 0), ("lz4", 1, -1, 65536)]),
]
# Which of them have no freedom: the same library at the same level. PyPI's numcodecs carries another libzstd.
SAME_LIBRARY = {"bz2", "lz4", "lzma", "blosc"} | ({"zstd"} if "/dist-packages/" in numcodecs.__file__
                                                 and "/local/" not in numcodecs.__file__ else set())


def name_of(config):
    return "-".join(str(value) for value in config.values() if not isinstance(value, list))


@pytest.mark.parametrize("config", COMPRESSORS, ids=name_of)
def test_compressors(recode, config):
    for dtype in ("|u1", "<i4", ">f8"):
        for array in arrays(dtype):
            if array.size == 0 and config["id"] in ("lz4", "blosc", "zstd"):
                # numcodecs encodes no bytes, but refuses to decode that.
                stored, _ = recode.encode(array, codecs=[config])
                assert stored == numcodecs.get_codec(dict(config)).encode(array)
                continue
            both_ways(recode, config, array, equal_bytes=config["id"] in SAME_LIBRARY)


@pytest.mark.parametrize("config", [config for config in COMPRESSORS if config.get("level", 1) in (1, -1)
                                    and config["id"] not in ("lzma", "bz2")], ids=name_of)
def test_large_chunks(recode, config):
    for array in arrays("<i4", [LARGE]):
        both_ways(recode, config, array)


@pytest.mark.parametrize("dtype", [*NUMBERS, "|b1", "|S3", "<c16", "<M8[ns]"])
@pytest.mark.parametrize("cname", ["lz4", "zstd"])
def test_blosc_item_sizes(recode, dtype, cname):
    for shuffle in (-1, 0, 1, 2):
        config = {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
        array = numpy.arange(4001).astype("<i8").view("|u1")[:4001 // 48 * 48 * 8].view(dtype)
        both_ways(recode, config, array, equal_bytes=True)


def test_lzma_with_filters(recode):
    """numcodecs encodes .xz with them, but decodes only without."""
    config = {"id": "lzma", "format": 1, "check": 10, "preset": None, "filters": [{"id": 3, "dist": 4}, {"id": 33}]}
    for array in arrays("<i4", [0, 1, 4097]):
        stored, _ = recode.encode(array, codecs=[config])
        assert stored == numcodecs.get_codec(dict(config)).encode(array)
        assert same(recode.decode(stored, array, codecs=[config]), array)


def test_zstd_levels_below_1(recode):
    # numcodecs 0.11 makes 1 of them; others, and we, give them to the library.
    for array in arrays("<i4", [1, 1000]):
        for level in (0, -1, -7):
            stored, _ = recode.encode(array, codecs=[{"id": "zstd", "level": level}])
            assert same(numpy.frombuffer(numcodecs.Zstd().decode(stored), array.dtype), array)


def test_deflate_is_as_small_as_zlib(recode):
    total = {}
    for dtype in ("<i4", "<f4", "<f8", "<i2"):
        for array in arrays(dtype, [300_001]):
            for level in range(10):
                ours, _ = recode.encode(array, codecs=[{"id": "zlib", "level": level}])
                theirs = numcodecs.Zlib(level).encode(array)
                assert len(ours) <= len(theirs) * 1.03
                total.setdefault(level, []).append((len(ours), len(theirs)))
    for level, sizes in total.items():
        assert sum(size for size, _ in sizes) <= sum(size for _, size in sizes) * 1.001, level


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 17])
def test_shuffle(recode, size):
    for count in (0, 1, 2, 15, 16, 17, 33, 1000, 100_001):
        array = numpy.frombuffer(numpy.random.default_rng(2).bytes(count * max(size, 1)), "|u1")
        both_ways(recode, {"id": "shuffle", "elementsize": size}, array, equal_bytes=size > 1)


@pytest.mark.parametrize("name", ["crc32", "adler32"])
def test_checksums(recode, name):
    for array in arrays("|u1"):
        both_ways(recode, {"id": name}, array, equal_bytes=True)


@pytest.mark.parametrize("where", ["start", "end"])
@pytest.mark.parametrize("name", ["crc32", "adler32", "crc32c"])
def test_places_of_checksums(recode, name, where):
    """Not in numcodecs 0.11, so computed here."""
    array = numpy.arange(100, dtype="<u2")
    stored, _ = recode.encode(array, codecs=[{"id": name, "location": where}])
    data = array.tobytes()
    if name == "crc32c":
        value = 0xFFFFFFFF
        for byte in data:
            value ^= byte
            for _ in range(8):
                value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        value ^= 0xFFFFFFFF
    else:
        import zlib
        value = getattr(zlib, name)(data)
    expected = value.to_bytes(4, "little")
    assert stored == (expected + data if where == "start" else data + expected)


def test_base64(recode):
    for array in arrays("|u1"):
        both_ways(recode, {"id": "base64"}, array, equal_bytes=True)


def test_packbits(recode):
    for array in arrays("|b1", [0, 1, 7, 8, 9, 1000, 100_003]):
        both_ways(recode, {"id": "packbits"}, array, equal_bytes=True)


def computed_as_in_numpy_1(dtype, *parameters):
    """Whether numpy computes with these Python numbers as numpy 1 does, and we: in a wider type where the array's cannot
    hold them. numpy 2 keeps the array's type (NEP 50), and so overflows, loses digits or refuses."""
    dtype = numpy.dtype(dtype)
    if NUMPY_1 or dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        limits = numpy.iinfo(dtype)
        return all(isinstance(value, float) or limits.min <= value <= limits.max for value in parameters)
    return all(numpy.promote_types(dtype, numpy.min_scalar_type(value)) == dtype.newbyteorder("=") for value in parameters)


def same_encoding(recode, config, array, decode=True):
    """numcodecs and we make the same bytes, and the same of them again (unless decode is False)."""
    codec = numcodecs.get_codec(dict(config))
    with numpy.errstate(all="ignore"):
        try:
            theirs = numpy.ascontiguousarray(codec.encode(array.copy()))
        except OverflowError:
            if NUMPY_1:
                raise
            pytest.skip("numcodecs refuses numbers that do not fit with numpy 2")
        ours, _ = recode.encode(array, codecs=[config])
        if theirs.tobytes() != ours:
            mine = numpy.frombuffer(ours, theirs.dtype)
            wrong = [i for i in range(mine.size) if mine[i:i + 1].tobytes() != theirs[i:i + 1].tobytes()]
            raise AssertionError(f"{config}: {array.dtype} {array[wrong[:3]]} -> {mine[wrong[:3]]}, "
                                 f"not {theirs[wrong[:3]]}")
        if not decode:
            return
        expected = numpy.ascontiguousarray(codec.decode(theirs.copy()))
        assert same(recode.decode(ours, array, codecs=[config]), expected)


@pytest.mark.parametrize("astype", [None, "|i1", "<i2", ">i4", "<i8", "<f4", "<f8"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_delta(recode, dtype, astype):
    if numpy.dtype(dtype).kind == "f" and astype is not None and numpy.dtype(astype).kind == "i":
        pytest.skip("conversions that overflow are left open")
    if numpy.dtype(dtype).kind != "f" and astype is not None and numpy.dtype(astype).kind == "f":
        pytest.skip("numpy cannot sum floats up to integers")
    if numpy.dtype(dtype) in ("<u8", ">u8") and astype is not None:
        pytest.skip("numcodecs cannot encode numbers beyond 2^63 then, and sums in double")
    config = {"id": "delta", "dtype": dtype}
    if astype is not None:
        config["astype"] = astype
    for array in arrays(dtype, [1, 2, 1000, 4097]):
        same_encoding(recode, config, array)


@pytest.mark.parametrize("scale, offset", [(10, 0), (1, 5), (2.5, 1.25), (100, 1000), (1, -5), (0.1, 70000),
                                           (70000, 0), (1.0, 0.0), (1e-3, 1e6)])
@pytest.mark.parametrize("dtype", [*NUMBERS, "|b1"])
def test_fixedscaleoffset(recode, dtype, scale, offset):
    for astype in ("<f8", "<f4", ">f8", "<i4", "<i8", "|u1", None):
        if astype is None and dtype == "|b1":
            continue
        if not all(computed_as_in_numpy_1(one, scale, offset) for one in (dtype, astype or dtype)):
            continue
        config = {"id": "fixedscaleoffset", "scale": scale, "offset": offset, "dtype": dtype}
        if astype is not None:
            config["astype"] = astype
        for array in arrays(dtype, [0, 1, 1000]):
            encoded = numpy.dtype(astype or dtype)
            if encoded.kind in "iu":
                # What does not fit is left open: keep to what does.
                with numpy.errstate(all="ignore"):
                    values = numpy.around((array - offset) * scale)
                    limits = numpy.iinfo(encoded)
                    # The limits as doubles may lie beyond the integers.
                    fits = (values.astype("f8") > float(limits.min)) & (values.astype("f8") < float(limits.max))
                    if encoded.kind == "u":
                        fits |= values == 0
                array = array[fits]
            # Floats that do not fit into integers are left open when decoding, too.
            decoded = numpy.dtype(dtype)
            below = decoded.kind == "u" and array.size > 0 and array.min() < offset
            same_encoding(recode, config, array, decode=not below and (decoded.kind == "f" or decoded.itemsize < 8))


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 5, 10, -1, -2])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", ">f8"])
def test_quantize(recode, dtype, digits):
    if not computed_as_in_numpy_1(dtype, 10.0 ** digits):
        pytest.skip("overflows in numpy 2")
    for astype in (dtype, "<f2", "<f4", ">f8"):
        for array in arrays(dtype, [0, 1, 1000, 4097]):
            config = {"id": "quantize", "digits": digits, "dtype": dtype, "astype": astype}
            same_encoding(recode, config, array)


@pytest.mark.parametrize("dtype, bits", [("<f2", 10), ("<f4", 23), ("<f8", 52)])
def test_bitround(recode, dtype, bits):
    generator = numpy.random.default_rng(4)
    for keep in (0, 1, 3, bits - 1, bits):
        noise = numpy.frombuffer(generator.bytes(8000), dtype)  # all bit patterns
        for array in [*arrays(dtype, [0, 1, 1000]), noise]:
            theirs = numcodecs.get_codec({"id": "bitround", "keepbits": keep}).encode(array.copy())
            ours, _ = recode.encode(array, codecs=[{"id": "bitround", "keepbits": keep}])
            assert ours == theirs.tobytes()
            # numcodecs 0.11 cannot do the other byte order.
            foreign, _ = recode.encode(array.astype(array.dtype.newbyteorder(">")) if array is not noise
                                       else array.byteswap().view(array.dtype.newbyteorder(">")),
                                       codecs=[{"id": "bitround", "keepbits": keep}])
            if not (array is not noise and numpy.isnan(array).any()):
                assert foreign == theirs.byteswap().tobytes()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_astype(recode, dtype):
    for other in NUMBERS:
        if numpy.dtype(dtype).kind == "f" and numpy.dtype(other).kind != "f":
            continue  # overflow is left open
        for array in arrays(dtype, [0, 1, 1000]):
            config = {"id": "astype", "encode_dtype": other, "decode_dtype": dtype}
            codec = numcodecs.get_codec(dict(config))
            with numpy.errstate(all="ignore"):
                theirs = codec.encode(array)
            ours, _ = recode.encode(array, codecs=[config])
            assert ours == theirs.tobytes(), other


CHAINS = [
    [{"id": "delta", "dtype": "<i4"}, {"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}],
    [{"id": "shuffle", "elementsize": 4}, {"id": "crc32"}, {"id": "zstd", "level": 3}],
    [{"id": "astype", "encode_dtype": "<i8", "decode_dtype": "<i4"}, {"id": "lz4", "acceleration": 1},
     {"id": "base64"}],
    [{"id": "fixedscaleoffset", "scale": 1, "offset": 3, "dtype": "<i4", "astype": "<i8"},
     {"id": "shuffle", "elementsize": 8}, {"id": "adler32"}, {"id": "bz2", "level": 2}, {"id": "gzip", "level": 1}],
]


@pytest.mark.parametrize("chain", CHAINS)
def test_chains(recode, chain):
    codecs = [numcodecs.get_codec(dict(config)) for config in chain]
    for array in arrays("<i4", [1, 7, 1000, 300_001]):
        theirs = array
        for codec in codecs:
            theirs = codec.encode(theirs)
        assert same(recode.decode(bytes(theirs), array, codecs=chain), array)
        ours, mask = recode.encode(array, codecs=chain)
        assert mask == 0
        for codec in reversed(codecs):
            ours = codec.decode(ours)
        assert same(numpy.frombuffer(ours, "|u1"), array)


def test_refusals(recode):
    array = numpy.arange(10, dtype="<i4")
    for config, reason in [({"id": "bitround", "keepbits": 3}, "no bits to round"),
                           ({"id": "zlib", "level": 10}, "not between -1 and 9"),
                           ({"id": "lzma", "format": 0}, "for decoding only"),
                           ({"id": "lzma", "format": 2, "check": 4}, "for the .xz format only"),
                           ({"id": "lzma", "format": 1, "preset": 1, "filters": [{"id": 33}]}, "exclude each other"),
                           ({"id": "no such"}, "is neither built in nor a plugin's")]:
        with pytest.raises(recode.Error, match=reason):
            recode.encode(array, codecs=[config])
