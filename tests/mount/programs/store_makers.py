"""Makes Zarr stores with other implementations, for scripts/store-test: store_makers.py TOOL FOLDER, with the Python of a venv that has
the tool. An array that a version of the tool cannot make is left out, and said so on stderr."""

import pathlib
import sys
import warnings

import numpy as np

TYPES = ["bool", "int8", "uint16", "<i4", "<u8", ">i2", ">f8", "float16", "float32", "float64", "complex64", "complex128"]


def values_of(dtype, shape):
    dtype, count = np.dtype(dtype), int(np.prod(shape))
    base = np.random.default_rng(1).integers(0, 100, count)
    if dtype.kind == "b":
        values = base > 50
    elif dtype.kind == "S":
        values = np.array([b"%d" % v for v in base])
    elif dtype.kind == "U":
        values = np.array([f"{v}\u00e9\U0001f600"[: v % 4] for v in base])
    elif dtype.kind == "c":
        values = base + 1j * base[::-1]
    elif dtype.kind in "mM":
        values = base.astype(np.int64).view(np.dtype(dtype.str[1:])) if dtype.isnative else base.astype("<i8").view(dtype)
    else:
        values = base - 50 if dtype.kind in "if" else base
    return np.asarray(values).astype(dtype).reshape(shape)


def attempt(what, make, *arguments, **options):
    try:
        return make(*arguments, **options)
    except Exception as error:
        print(f"store-test: {what} is left out: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return None


ATTRIBUTES = {
    "title": "sp\u00e4t",
    "empty": "",
    "zero": 0,
    "one": 1.0,
    "negative": -9,
    "large": 2**63,
    "larger": -(2**63),
    "none": None,
    "yes": True,
    "list": [1, 2, 3],
    "floats": [1.0, 2.5],
    "single": [5],
    "nothing": [],
    "texts": ["a", "", "\u4e2d"],
    "mixed": [1, "a", None],
    "nested": [[1, 2], [3, 4]],
    "ragged": [[1], [2, 3]],
    "object": {"a": {"b": [1, {"c": None}]}, "d": 1e300},
    "booleans": [True, False],
}


def zarr2(folder):
    import numcodecs
    import zarr

    root = zarr.open_group(str(folder / "types.zarr"), "w")
    root.attrs.update(ATTRIBUTES)
    for dtype in [
        *TYPES,
        "S5",
        "<U4",
        ">U3",
        "<M8[ns]",
        "<m8[s]",
        ">M8[D]",
        [("a", "<i4"), ("b", ">f8")],
        [("s", "S3"), ("n", "<f4", (2,))],
        "V5",
    ]:
        name = "".join(c if c.isalnum() else "_" for c in str(dtype))
        attempt(name, lambda: root.create_dataset(name, shape=(7, 5), chunks=(3, 5), dtype=dtype))
        if not isinstance(dtype, list) and dtype != "V5":
            root[name][...] = values_of(dtype, (7, 5))
    for fill in (0, 5, None, np.nan, np.inf, -np.inf):
        array = root.create_dataset(f"fill_{fill}", shape=(6, 6), chunks=(2, 3), dtype="f8", fill_value=fill)
        array[:2] = 1
        array.attrs.update(ATTRIBUTES)
    root.create_dataset("scalar", data=np.float32(2.5))
    root.create_dataset("scalar_raw", data=np.int64(7), compressor=None)
    root.create_dataset("empty", shape=(0, 3), chunks=(1, 3), dtype="i4")
    root.create_dataset("fortran", data=values_of("i4", (6, 4)), chunks=(4, 3), order="F")
    root.create_dataset("slashes", data=values_of("i4", (6, 4)), chunks=(4, 3), dimension_separator="/")
    root.create_dataset("a/b/c/deep", data=values_of("i4", (6,)), chunks=(4,))
    text = np.array(["", "a", "\u4e2d\u6587", "x" * 300], dtype=object)
    for name, codec in [("vlen_utf8", numcodecs.VLenUTF8), ("json", numcodecs.JSON), ("pickle", numcodecs.Pickle)]:
        attempt(name, lambda: root.create_dataset(f"objects_{name}", data=text, object_codec=codec(), chunks=(3,)))
    attempt("vlen_bytes", lambda: root.create_dataset("objects_bytes", data=np.array([b"", b"a\0b"], dtype=object), dtype=bytes))
    attempt(
        "vlen_array",
        lambda: root.create_dataset(
            "objects_array", data=np.array([np.arange(2), np.arange(3)], dtype=object), object_codec=numcodecs.VLenArray("i8")
        ),
    )
    attempt(
        "categorize",
        lambda: root.create_dataset(
            "categories", data=np.array(["a", "b", "a"], object), filters=[numcodecs.Categorize(["a", "b"], dtype=object)]
        ),
    )
    codecs = zarr.open_group(str(folder / "codecs.zarr"), "w")
    compressors = {
        "none": None,
        "zlib": numcodecs.Zlib(9),
        "gzip": numcodecs.GZip(5),
        "bz2": numcodecs.BZ2(),
        "lzma": numcodecs.LZMA(),
        "lz4": numcodecs.LZ4(),
        "zstd": numcodecs.Zstd(5),
        **{f"blosc_{c}_{s}": numcodecs.Blosc(cname=c, shuffle=s) for c in ("lz4", "zstd", "zlib", "lz4hc", "blosclz") for s in (0, 1, 2)},
    }
    data = values_of("i4", (20, 30))
    for name, codec in compressors.items():
        codecs.create_dataset(name, data=data, chunks=(7, 30), compressor=codec)
    filters = {
        "delta": ("i4", [numcodecs.Delta("i4")]),
        "delta_i2": ("i4", [numcodecs.Delta("i4", astype="i2")]),
        "scale": ("f8", [numcodecs.FixedScaleOffset(offset=0, scale=10, dtype="f8", astype="i2")]),
        "quantize": ("f4", [numcodecs.Quantize(3, "f4")]),
        "bitround": ("f4", [numcodecs.BitRound(10)]),
        "shuffle": ("i4", [numcodecs.Shuffle(4)]),
        "packbits": ("bool", [numcodecs.PackBits()]),
        "crc32": ("i4", [numcodecs.CRC32()]),
        "adler32": ("i4", [numcodecs.Adler32()]),
        "astype": ("f8", [numcodecs.AsType("f4", "f8")]),
        "base64": ("i4", [numcodecs.Base64()]),
        "fletcher": ("i4", [numcodecs.Fletcher32()]),
        "many": ("i4", [numcodecs.Delta("i4"), numcodecs.Shuffle(4), numcodecs.CRC32()]),
    }
    for name, (dtype, chain) in filters.items():
        attempt(name, lambda: codecs.create_dataset(f"f_{name}", data=values_of(dtype, (20, 30)), chunks=(7, 30), filters=chain))
    if hasattr(numcodecs, "ZFPY"):
        attempt(
            "zfpy",
            lambda: codecs.create_dataset(
                "zfpy", data=values_of("f8", (20, 30)), chunks=(7, 30), compressor=numcodecs.ZFPY(mode=4, tolerance=0.1)
            ),
        )
    zarr.save_array(str(folder / "root_array.zarr"), data, chunks=(7, 7))
    zarr.save_array(str(folder / "root_array.zip"), data, chunks=(7, 7))
    zarr.consolidate_metadata(str(folder / "codecs.zarr"))
    with zarr.ZipStore(str(folder / "group.zip"), mode="w") as store:
        group = zarr.group(store)
        group.attrs.update(ATTRIBUTES)
        group.create_dataset("a", data=data, chunks=(7, 7))
    xarray_store(folder / "xarray.zarr")


def xarray_store(path, **options):
    def make():
        import xarray

        times = np.array(["2020-01-01", "2020-01-02", "NaT"], "M8[ns]")
        dataset = xarray.Dataset(
            {
                "t": (("time", "x"), values_of("f4", (3, 4)), {"units": "K", "valid_range": [0.0, 1.0]}),
                "s": ("x", np.array(["a", "bb", "", "\u00e9"])),
                "o": ("x", np.array(["a", "bb", "", "\u00e9"], dtype=object)),
                "when": ("time", times),
                "flag": ("x", [True, False, True, True]),
                "scalar": ((), 3.5),
                "packed": ("x", [1.0, np.nan, 2.0, 3.0], {}, {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}),
            },
            {"time": [0, 1, 2], "x": [0.5, 1.5, 2.5, 3.5]},
            ATTRIBUTES_OF_XARRAY,
        )
        dataset.to_zarr(path, **options)

    attempt("xarray", make)


ATTRIBUTES_OF_XARRAY = {"title": "x", "count": 3, "list": [1, 2]}


def zarr3(folder, prefix=""):
    import zarr

    for version in (2, 3):
        root = zarr.create_group(folder / f"{prefix}types_v{version}.zarr", zarr_format=version, attributes=ATTRIBUTES)
        for dtype in [*TYPES, "S5", "<U4", "<M8[ns]", "<m8[s]", "V5", [("a", "<i4"), ("b", "<f8")]]:
            name = "".join(c if c.isalnum() else "_" for c in str(dtype))

            def make():
                array = root.create_array(name, shape=(7, 5), chunks=(3, 5), dtype=np.dtype(dtype))
                if not isinstance(dtype, list) and dtype != "V5":
                    array[...] = values_of(dtype, (7, 5))

            attempt(name, make)
        for fill in (0, 5, np.nan, np.inf, -np.inf):
            array = root.create_array(f"fill_{fill}", shape=(6, 6), chunks=(2, 3), dtype="f8", fill_value=fill, attributes=ATTRIBUTES)
            array[:2] = 1
        root.create_array("scalar", data=np.asarray(np.float32(2.5)))
        root.create_array("empty", shape=(0, 3), chunks=(1, 3), dtype="i4")
        root.create_array("fortran", data=values_of("i4", (6, 4)), chunks=(4, 3), **({"order": "F"} if version == 2 else {}))
        for separator in "./":
            attempt(
                "separators",
                root.create_array,
                f"separated_{'dot' if separator == '.' else 'slash'}",
                data=values_of("i4", (6, 4)),
                chunks=(4, 3),
                chunk_key_encoding={"name": "v2" if version == 2 else "default", "separator": separator},
            )
        if version == 3:
            attempt(
                "v2 keys",
                root.create_array,
                "v2_keys",
                data=values_of("i4", (6, 4)),
                chunks=(4, 3),
                chunk_key_encoding={"name": "v2", "separator": "."},
            )
            attempt("names", root.create_array, "names", data=values_of("i4", (6, 4)), chunks=(4, 3), dimension_names=["y", None])
            attempt(
                "equal names", root.create_array, "equal_names", data=values_of("i4", (4, 4)), chunks=(4, 3), dimension_names=["y", "y"]
            )
        attempt(
            "text",
            root.create_array,
            "text",
            data=np.array(["", "a", "\u4e2d\u6587", "x" * 300], np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else object),
            chunks=(3,),
        )
        zarr.consolidate_metadata(folder / f"{prefix}types_v{version}.zarr")
        codecs_of_zarr3(zarr, zarr.create_group(folder / f"{prefix}codecs_v{version}.zarr", zarr_format=version), version)
        zarr.create_array(
            folder / f"{prefix}root_array_v{version}.zarr", data=values_of("i4", (20, 30)), chunks=(7, 7), zarr_format=version
        )
        if not prefix:
            xarray_store(folder / f"xarray_v{version}.zarr", zarr_format=version)
    if not prefix:
        store = zarr.storage.ZipStore(folder / "group.zip", mode="w")
        zarr.create_group(store, attributes=ATTRIBUTES).create_array("a", data=values_of("i4", (20, 30)), chunks=(7, 7))
        store.close()


def codecs_of_zarr3(zarr, root, version):
    import numcodecs

    data = values_of("i4", (20, 30))
    if version == 2:
        for name, codec in {
            "zlib": numcodecs.Zlib(),
            "gzip": numcodecs.GZip(),
            "zstd": numcodecs.Zstd(),
            "blosc": numcodecs.Blosc(),
            "lz4": numcodecs.LZ4(),
        }.items():
            attempt(name, root.create_array, name, data=data, chunks=(7, 30), compressors=codec)
        attempt("shuffle", root.create_array, "shuffle", data=data, chunks=(7, 30), filters=[numcodecs.Shuffle(4)])
        return
    from zarr import codecs

    bytes_codecs = {
        "gzip": codecs.GzipCodec(),
        "zstd": codecs.ZstdCodec(),
        "zstd_checksum": codecs.ZstdCodec(checksum=True),
        "crc32c": codecs.Crc32cCodec(),
        **{
            f"blosc_{c}_{s}": codecs.BloscCodec(cname=c, shuffle=s)
            for c in ("lz4", "zstd", "zlib")
            for s in ("noshuffle", "shuffle", "bitshuffle")
        },
    }
    for name, codec in bytes_codecs.items():
        attempt(name, root.create_array, name, data=data, chunks=(7, 30), compressors=[codec])
    attempt("big", root.create_array, "big_endian", data=data, chunks=(7, 30), serializer=codecs.BytesCodec(endian="big"))
    attempt(
        "transpose",
        root.create_array,
        "transposed",
        data=values_of("f4", (4, 5, 6)),
        chunks=(2, 3, 4),
        filters=[codecs.TransposeCodec(order=(2, 0, 1))],
    )
    for name, options in {
        "plain": {},
        "raw": {"compressors": None},
        "transposed": {"filters": [codecs.TransposeCodec(order=(1, 0))]},
    }.items():
        attempt("shards", root.create_array, f"shards_{name}", data=data, chunks=(5, 5), shards=(10, 15), **options)
    attempt(
        "start",
        root.create_array,
        "shards_index_first",
        data=data,
        chunks=(10, 15),
        compressors=None,
        filters=None,
        serializer=codecs.ShardingCodec(chunk_shape=(5, 5), index_location="start"),
    )
    try:
        import numcodecs.zarr3 as more
    except ImportError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in {
            "lz4": lambda: more.LZ4(),
            "bz2": lambda: more.BZ2(),
            "zlib": lambda: more.Zlib(),
            "lzma": lambda: more.LZMA(),
            "shuffle": lambda: more.Shuffle(elementsize=4),
            "crc32": lambda: more.CRC32(),
            "adler32": lambda: more.Adler32(),
            "fletcher32": lambda: more.Fletcher32(),
            "pcodec": None,
        }.items():
            if make:
                attempt(name, lambda: root.create_array(f"n_{name}", data=data, chunks=(7, 30), compressors=[make()]))
        for name, (dtype, make) in {
            "delta": ("i4", lambda: more.Delta(dtype="<i4")),
            "bitround": ("f4", lambda: more.BitRound(keepbits=8)),
            "scale": ("f8", lambda: more.FixedScaleOffset(offset=0, scale=10, dtype="<f8", astype="<i2")),
            "quantize": ("f4", lambda: more.Quantize(digits=3, dtype="<f4")),
            "packbits": ("bool", lambda: more.PackBits()),
            "astype": ("f8", lambda: more.AsType(encode_dtype="<f4", decode_dtype="<f8")),
        }.items():
            attempt(name, lambda: root.create_array(f"n_{name}", data=values_of(dtype, (20, 30)), chunks=(7, 30), filters=[make()]))
        attempt("pcodec", lambda: root.create_array("n_pcodec", data=data, chunks=(7, 30), serializer=more.PCodec()))
        attempt(
            "zfpy",
            lambda: root.create_array(
                "n_zfpy", data=values_of("f8", (20, 30)), chunks=(7, 30), serializer=more.ZFPY(mode=4, tolerance=0.1)
            ),
        )


def zarrs(folder):
    import zarr
    import zarrs  # noqa: F401

    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        zarr3(folder, "zarrs_")


def tensorstore(folder):
    import tensorstore as ts

    types = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "complex64",
        "complex128",
        "int4",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3b11fnuz",
    ]
    for driver in ("zarr", "zarr3"):
        for dtype in types:

            def make():
                store = ts.open(
                    {"driver": driver, "kvstore": {"driver": "file", "path": f"{folder}/{driver}/{dtype}/"}},
                    create=True,
                    dtype=ts.dtype(dtype),
                    shape=[7, 5],
                    chunk_layout=ts.ChunkLayout(chunk_shape=[3, 5]),
                ).result()
                small = values_of("i1", (7, 5)) % 7 if dtype == "int4" else values_of("i1", (7, 5))
                store[...] = small.astype(store.dtype.numpy_dtype)

            attempt(f"{driver} {dtype}", make)
    for name, codec in {
        "blosc": {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
        "zlib": {"id": "zlib", "level": 5},
        "bz2": {"id": "bz2", "level": 5},
        "zstd": {"id": "zstd", "level": 3},
        "none": None,
        "gzip": {"id": "gzip", "level": 3},
    }.items():
        for order in "CF":

            def make():
                ts.open(
                    {
                        "driver": "zarr",
                        "kvstore": {"driver": "file", "path": f"{folder}/codecs/{name}_{order}/"},
                        "metadata": {
                            "compressor": codec,
                            "order": order,
                            "shape": [20, 30],
                            "chunks": [7, 8],
                            "dtype": ">i4",
                            "dimension_separator": "/",
                        },
                    },
                    create=True,
                ).result()[...] = values_of("i4", (20, 30))

            attempt(name, make)

    def structured():
        ts.open(
            {
                "driver": "zarr",
                "kvstore": {"driver": "file", "path": f"{folder}/structured/"},
                "field": "b",
                "metadata": {"shape": [4], "chunks": [4], "dtype": [["a", "|u1"], ["b", "<i4"]], "compressor": None},
            },
            create=True,
        ).result()[...] = [1, 2, 3, 4]

    attempt("structured", structured)
    crc, little = {"name": "crc32c"}, {"name": "bytes", "configuration": {"endian": "little"}}
    chains = {
        "gzip": [little, {"name": "gzip", "configuration": {"level": 3}}],
        "zstd_crc": [little, {"name": "zstd", "configuration": {"level": 3}}, crc],
        "blosc": [little, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 3, "shuffle": "bitshuffle"}}],
        "big": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "transpose": [{"name": "transpose", "configuration": {"order": [1, 0]}}, little],
        "shards": [
            {
                "name": "sharding_indexed",
                "configuration": {"chunk_shape": [5, 5], "codecs": [little, {"name": "gzip"}], "index_codecs": [little, crc]},
            }
        ],
        "shards_start": [
            {
                "name": "sharding_indexed",
                "configuration": {"chunk_shape": [5, 5], "codecs": [little], "index_codecs": [little], "index_location": "start"},
            }
        ],
        "nested": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [5, 5],
                    "index_codecs": [little, crc],
                    "codecs": [
                        {
                            "name": "sharding_indexed",
                            "configuration": {"chunk_shape": [1, 5], "codecs": [little], "index_codecs": [little, crc]},
                        }
                    ],
                },
            }
        ],
        "transposed_shards": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 5], "codecs": [little], "index_codecs": [little, crc]}},
        ],
    }
    for name, codecs in chains.items():

        def make():
            ts.open(
                {
                    "driver": "zarr3",
                    "kvstore": {"driver": "file", "path": f"{folder}/codecs3/{name}/"},
                    "metadata": {
                        "shape": [20, 30],
                        "data_type": "int32",
                        "codecs": codecs,
                        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 15]}},
                        "attributes": ATTRIBUTES,
                        "dimension_names": ["y", None],
                    },
                },
                create=True,
            ).result()[...] = values_of("i4", (20, 30))

        attempt(name, make)


def z5py(folder):
    import z5py

    with z5py.File(str(folder / "z5.zarr"), "w", use_zarr_format=True) as file:
        file.attrs["title"] = "z5"
        for compression in ("raw", "zlib", "gzip", "bzip2", "blosc", "lz4", "zstd", "xz"):
            for dtype in ("uint8", "int16", "float32", "float64", "uint64"):
                attempt(
                    compression,
                    lambda: file.create_dataset(
                        f"{compression}/{dtype}", data=values_of(dtype, (20, 30)), chunks=(7, 8), compression=compression
                    ),
                )


def netcdf4(folder):
    import netCDF4

    for mode in ("nczarr,file", "zarr,file", "nczarr,zip", "xarray,file"):

        def make():
            name = mode.replace(",", "_") + (".zip" if "zip" in mode else ".zarr")
            with netCDF4.Dataset(f"file://{folder / name}#mode={mode}", "w") as file:
                file.title = "netcdf"
                file.createDimension("x", 5)
                file.createDimension("y", 7)
                for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"):
                    variable = file.createVariable(
                        dtype, dtype, ("y", "x"), chunksizes=(3, 5), **({"zlib": True} if dtype[0] == "f" else {})
                    )
                    variable[...] = values_of("S1" if dtype == "S1" else dtype, (7, 5))
                    variable.units, variable.numbers = "m", np.array([1, 2], dtype if dtype != "S1" else "i4")
                group = file.createGroup("g")
                group.createVariable("v", "f4", ("x",), fill_value=-1.0)[:3] = 2
                group.createVariable("scalar", "i4")[...] = 3

        attempt(mode, make)


def rasterio(folder):
    import rasterio

    for name, options in {
        "v2": {},
        "v2_blosc": {"COMPRESS": "BLOSC"},
        "v2_zlib": {"COMPRESS": "ZLIB"},
        "v2_zstd": {"COMPRESS": "ZSTD"},
        "v2_lzma": {"COMPRESS": "LZMA"},
        "v2_lz4": {"COMPRESS": "LZ4"},
        "v2_gzip": {"COMPRESS": "GZIP"},
        "v3": {"FORMAT": "ZARR_V3"},
        "v3_gzip": {"FORMAT": "ZARR_V3", "COMPRESS": "GZIP"},
        "v3_blosc": {"FORMAT": "ZARR_V3", "COMPRESS": "BLOSC"},
        "v3_zstd": {"FORMAT": "ZARR_V3", "COMPRESS": "ZSTD"},
        "v2_delta": {"FILTER": "delta"},
        "v2_interleaved": {"INTERLEAVE": "PIXEL"},
    }.items():
        for dtype in ("uint8", "int16", "float32", "complex64"):

            def make():
                with rasterio.open(
                    folder / f"{name}_{dtype}.zarr",
                    "w",
                    driver="Zarr",
                    width=30,
                    height=20,
                    count=1,
                    dtype=dtype,
                    nodata=None if dtype == "complex64" else 7,
                    crs="EPSG:4326",
                    transform=rasterio.transform.from_origin(0, 10, 0.5, 0.5),
                    BLOCKSIZE="7,8",
                    **options,
                ) as out:
                    out.write(values_of(dtype, (20, 30)), 1)

            attempt(name, make)


def spatialdata(folder):
    def with_anndata():
        import anndata
        import pandas
        import scipy.sparse

        made = anndata.AnnData(
            scipy.sparse.random(6, 5, 0.5, "csr", "f4", random_state=1),
            pandas.DataFrame(
                {
                    "kind": pandas.Categorical(["a", "b", "a", "c", "b", "a"]),
                    "number": pandas.array([1, None, 3, 4, 5, 6], "Int64"),
                    "flag": [True, False] * 3,
                    "text": list("abcdef"),
                },
                index=list("uvwxyz"),
            ),
            pandas.DataFrame(index=[f"g{i}" for i in range(5)]),
            {"nested": {"a": 1, "b": "text", "c": np.arange(3)}},
            obsm={"pca": np.ones((6, 2))},
            layers={"dense": np.ones((6, 5), "i2")},
        )
        for version in (2, 3):
            anndata.settings.zarr_write_format = version
            attempt(f"anndata {version}", made.write_zarr, folder / f"anndata_v{version}.zarr")

    attempt("anndata", with_anndata)

    def with_spatialdata():
        import spatialdata.datasets

        spatialdata.datasets.blobs(32).write(folder / "spatialdata.zarr")

    attempt("spatialdata", with_spatialdata)

    def with_ome():
        import ome_zarr.writer
        import zarr

        for version in (2, 3):
            group = zarr.open_group(str(folder / f"ome_v{version}.zarr"), mode="w", zarr_format=version)
            ome_zarr.writer.write_image(values_of("u2", (2, 40, 50)), group, axes="cyx", storage_options={"chunks": (1, 16, 16)})

    attempt("ome-zarr", with_ome)


def webknossos(folder):
    import webknossos as wk

    for data_format in ("zarr", "zarr3"):
        for dtype in ("uint8", "uint32", "float32"):

            def make():
                dataset = wk.Dataset(folder / f"{data_format}_{dtype}", voxel_size=(1, 1, 1))
                layer = dataset.add_layer(
                    "color",
                    wk.COLOR_CATEGORY,
                    data_format=data_format,
                    dtype_per_channel=dtype,
                    bounding_box=wk.BoundingBox((0, 0, 0), (64, 64, 32)),
                )
                layer.add_mag(1, chunk_shape=(32, 32, 32), shard_shape=(64, 64, 32) if data_format == "zarr3" else (32, 32, 32)).write(
                    values_of(dtype, (64, 64, 32))
                )

            attempt(f"{data_format} {dtype}", make)


if __name__ == "__main__":
    tool, target = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    globals()[tool](target)
