"""Filters from plugins, on real mounts: third-party libraries, compiled as their documentation says, good and bad ones.

HDF5 reads HDF5_PLUGIN_PATH once, so files that need a plugin of ours to be written are written by a process of its own.
"""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import sys
import threading

import h5py
import numpy as np
import pytest

from conftest import xattr
from filter_plugins import DEBIAN, OURS, compile_plugin
from running import codecfs, run

SLOW = 8 if os.environ.get("CODECFS_SANITIZE") else 1


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """A folder with libmask.so (HDF5 half only) and libmaskcodec.so (codec half only)."""
    folder = tmp_path_factory.mktemp("plugins")
    compile_plugin("mask_filter.c", folder / "libmask.so")
    # With the libnetcdf that its questions are meant for, which knows nothing of our variables.
    compile_plugin("mask_codec.c", folder / "libmaskcodec.so", "-Wl,--no-as-needed", "-lnetcdf")
    return folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "plugins"
    made.mkdir()
    return made


def table(mounted):
    """The rows of .codecfs/filters by id and by name, and its comments."""
    text = (mounted.path / ".codecfs/filters").read_text()
    rows = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        row = dict(zip(("id", "name", "codec", "origin", "hdf5", "json", "status"), cells))
        assert len(cells) == 7, line
        rows[row["id"] if row["id"] != "-" else row["name"]] = row
    return rows, [line for line in text.splitlines() if line.startswith("#")]


def read(mounted, path):
    return (mounted.path / path).read_bytes()


def loaded_by(path):
    """The ids of the processes that have loaded a library below this path."""
    found = []
    for maps in glob.glob("/proc/[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if str(path) in open(maps).read():
                found.append(int(maps.split("/")[2]))
    return found


def fails(mounted, path):
    """The reason for which a chunk cannot be read."""
    with pytest.raises(OSError) as failure:
        read(mounted, path)
    assert failure.value.errno == 5
    return xattr(mounted.path / path, "_Error")


DATA = np.arange(4000, dtype="<i4").reshape(40, 100)
CHUNK = DATA[10:20, 50:100].tobytes()  # 1.1


def zarr_array(path, codec, data=DATA, chunks=(10, 50), encode=lambda raw: raw, dimensions=None):
    """A Zarr array whose chunks `encode` makes."""
    path.mkdir(parents=True)
    (path / ".zarray").write_text(json.dumps(
        {"zarr_format": 2, "shape": data.shape, "chunks": chunks, "dtype": data.dtype.str, "compressor": codec,
         "fill_value": 0, "order": "C", "filters": None}))
    for i in range(data.shape[0] // chunks[0]):
        for j in range(data.shape[1] // chunks[1]):
            part = data[i * chunks[0]:(i + 1) * chunks[0], j * chunks[1]:(j + 1) * chunks[1]]
            (path / f"{i}.{j}").write_bytes(encode(part.tobytes()))
    return path


def masked(value):
    return lambda raw: bytes(byte ^ value for byte in raw)


def write_hdf5(path, plugins, datasets):
    """Writes DATA with h5py in a process of its own. datasets: name -> keyword arguments of create_dataset."""
    program = f"""
import h5py, numpy
data = numpy.arange(4000, dtype="<i4").reshape(40, 100)
with h5py.File({str(path)!r}, "w") as f:
    for name, options in {datasets!r}.items():
        f.create_dataset(name, data=data, chunks=(10, 50), **options)
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(plugins)})


def own_filter(*parameters, identifier=32900, **more):
    return {"compression": identifier, "compression_opts": parameters, **more}


# --- third-party plugins


def test_hdf5_only_library_serves_hdf5(mount, libraries, folder, tmp_path):
    """A filter that is registered nowhere: unknown without its library, read with it, from either path."""
    shutil.copy(libraries / "libmask.so", folder)
    write_hdf5(tmp_path / "a.h5", folder, {"v": own_filter(7), "chained": own_filter(9, shuffle=True, fletcher32=True)})
    without = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(tmp_path)})
    reason = fails(without, "v/1.1")
    assert "32900" in reason and str(tmp_path) in reason, reason
    assert (without.path / "v/_Filter").read_text() == "32900,7\n"

    for options, env in ((["plugin_path=" + str(folder)], {"HDF5_PLUGIN_PATH": ""}), ([], {"HDF5_PLUGIN_PATH": str(folder)})):
        mounted = mount(tmp_path / "a.h5", *options, env=env)
        assert read(mounted, "v/1.1") == CHUNK and read(mounted, "chained/1.1") == CHUNK
        row = table(mounted)[0]["32900"]
        assert row == {"id": "32900", "name": "mask", "codec": "-", "origin": str(folder / "libmask.so"), "hdf5": "read+write",
                       "json": "-", "status": "usable in HDF5 files; has no Zarr codec"}
        codecs = json.loads((mounted.path / "v/_Codecs").read_text())
        assert codecs == [{"id": "hdf5:32900", "name": "mask", "parameters": [7]}]


def test_separate_codec_library_makes_a_filter_usable_in_zarr(mount, libraries, folder, tmp_path):
    store = tmp_path / "s"
    zarr_array(store / "v", {"id": "mask", "value": 90}, encode=masked(90))
    zarr_array(store / "plain", None)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    env = {"HDF5_PLUGIN_PATH": str(folder)}

    shutil.copy(libraries / "libmask.so", folder)
    mounted = mount(store, env=env)
    assert "'mask'" in fails(mounted, "v/1.1")
    assert read(mounted, "plain/1.1") == CHUNK  # an unknown codec does not affect other variables
    assert table(mounted)[0]["32900"]["json"] == "-"

    shutil.copy(libraries / "libmaskcodec.so", folder)
    mounted = mount(store, env=env)
    assert read(mounted, "v/1.1") == CHUNK
    row = table(mounted)[0]["32900"]
    assert row["codec"] == "mask" and row["json"] == "yes" and row["status"] == "usable"
    assert row["origin"] == f"{folder}/libmask.so + {folder}/libmaskcodec.so"
    assert (mounted.path / "v/_Filter").read_text() == "32900,90,0,0\n"

    (folder / "libmask.so").unlink()  # codec-only: netCDF crashes here
    mounted = mount(store, env=env)
    reason = fails(mounted, "v/1.1")
    assert "libmaskcodec.so" in reason and "32900" in reason and str(folder) in reason
    assert table(mounted)[0]["32900"]["status"] == "not usable: no library has the HDF5 filter 32900"
    assert read(mounted, "plain/1.1") == CHUNK


def test_codec_from_hdf5_side(mount, libraries, tmp_path):
    """An HDF5 chain whose filter has a plugin's codec is told with it."""
    write_hdf5(tmp_path / "a.h5", libraries, {"v": own_filter(7)})
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert json.loads((mounted.path / "v/_Codecs").read_text()) == [{"id": "mask", "value": 7}]
    assert read(mounted, "v/1.1") == CHUNK  # working parameters of HDF5 are complete: nothing is modified


@pytest.mark.parametrize("dtype, number, order", [("<i4", 4, 1), (">i2", 3, 2), ("|u1", 7, 0), ("<f8", 6, 1), (">u8", 11, 2),
                                                  ("|b1", 7, 0), ("<c16", 32, 1)])
def test_working_parameters_come_from_our_answers(mount, libraries, tmp_path, dtype, number, order):
    """NCZ_modify_parameters asks for the variable through netCDF's functions, with libnetcdf loaded beside."""
    data = DATA.astype(dtype)
    size = data.dtype.itemsize
    mask = (number + size + order + 0 + (40 + 3 * 10) + (100 + 3 * 50)) & 0xff
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 1, "of_variable": 1}, data, encode=masked(mask))
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert read(mounted, "1.1") == data[10:20, 50:100].tobytes()
    workers = loaded_by(libraries / "libmaskcodec.so")
    assert workers and mounted.process.pid not in workers
    assert all("libnetcdf" in open(f"/proc/{worker}/maps").read() for worker in workers)


def test_netcdf_is_asked_without_being_linked(mount, libraries, folder, tmp_path):
    shutil.copy(libraries / "libmask.so", folder)
    compile_plugin("mask_codec.c", folder / "libmaskcodec.so")
    mask = (4 + 4 + 1 + (40 + 3 * 10) + (100 + 3 * 50)) & 0xff
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 1, "of_variable": 1}, encode=masked(mask))
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(folder)})
    assert read(mounted, "1.1") == CHUNK
    assert not any("libnetcdf" in open(f"/proc/{worker}/maps").read() for worker in loaded_by(folder / "libmaskcodec.so"))


def test_changed_visible_parameters_are_stored(mount, libraries, tmp_path):
    store = zarr_array(tmp_path / "s/v", None).parent
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(libraries)})
    os.setxattr(mounted.path / "v", "user._Filter", b"32900,777")
    assert xattr(mounted.path / "v", "_Filter").startswith("32900,9")
    assert read(mounted, "v/1.1") == CHUNK
    mounted.close()
    stored = json.loads((store / "v/.zarray").read_text())
    assert stored["compressor"] == {"id": "mask", "value": 9}
    assert (store / "v/1.1").read_bytes() == bytes(byte ^ 9 for byte in CHUNK)


def test_a_filter_with_a_parameter_of_64_bits(mount, libraries, tmp_path):
    """It calls a function of netCDF for that, and does not link libnetcdf."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(100, dtype="i4"), chunks=(50,))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(libraries)})
    os.setxattr(mounted.path / "v", "user._Filter", b"32900,1,15,90.0d")
    assert read(mounted, "v/1") == np.arange(50, 100, dtype="i4").tobytes()
    mounted.close()
    with h5py.File(tmp_path / "a.h5") as f:
        mask, stored = f["v"].id.read_direct_chunk((50,))
        assert mask == 0 and stored == bytes(byte ^ 90 for byte in np.arange(50, 100, dtype="i4").tobytes())


def test_refused_json(mount, libraries, tmp_path):
    store = zarr_array(tmp_path / "s/v", {"id": "mask", "refuse": 1}).parent
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(libraries)})
    with pytest.raises(OSError):
        os.listdir(mounted.path / "v")
    assert "libmaskcodec.so does not understand" in mounted.messages() and "-36" in mounted.messages()


@pytest.mark.parametrize("behaviour, says", [
    (0, None), (1, "reports a failure"), (2, "reports a failure"), (3, None), (4, None), (5, None),
    (6, "gives no room"), (7, "more than"), (8, "decoded to 1000 bytes, not 2000"), (10, None)])
def test_manners_of_filters(mount, libraries, tmp_path, behaviour, says):
    """What real filters do with their buffers; a filter that fails is EIO for the chunk, and the mount lives on."""
    zarr_array(tmp_path / "s/v", {"id": "mask", "value": 3, "behaviour": behaviour}, encode=masked(3))
    (tmp_path / "s/.zgroup").write_text('{"zarr_format": 2}')
    mounted = mount(tmp_path / "s", env={"HDF5_PLUGIN_PATH": str(libraries)})
    for _ in range(3):
        if says:
            reason = fails(mounted, "v/1.1")
            assert says in reason and "mask" in reason, reason
        else:
            assert read(mounted, "v/1.1") == CHUNK


LONG = np.random.default_rng(5).integers(0, 1 << 30, (256, 1024)).astype("<i4")  # in chunks of 256 KiB


def grow_of_hdf5(path, folder, program):
    """Runs a program on a file with the plugin, in a process of its own: its last line must print what is expected."""
    done = run(sys.executable, "-c", f"import h5py, numpy, hashlib\npath = {str(path)!r}\n" + program,
               env={"HDF5_PLUGIN_PATH": str(folder)})
    return done.stdout.strip()


@pytest.mark.parametrize("times", [4, 10, 100])
def test_chunks_that_a_plugin_makes_much_longer(mount, folder, tmp_path, times):
    """HDF5: read, written, and as they are stored, alone and with filters before and after."""
    compile_plugin("grow_filter.c", folder / "libgrow.so")
    path = tmp_path / "a.h5"
    grow_of_hdf5(path, folder, f"""
data = numpy.random.default_rng(5).integers(0, 1 << 30, (256, 1024)).astype("<i4")
with h5py.File(path, "w") as f:
    f.create_dataset("v", data=data, chunks=(64, 1024), compression=32905, compression_opts=({times},))
    f.create_dataset("w", data=data, chunks=(64, 1024), compression=32905, compression_opts=({times},), shuffle=True)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((64, 1024))
    properties.set_filter(32905, 0, ({times},))
    properties.set_deflate(1)
    space = h5py.h5s.create_simple((256, 1024))
    h5py.h5d.create(f.id, b"z", h5py.h5t.STD_I32LE, space, dcpl=properties)
    f["z"][...] = data
""")
    mounted = mount(path, "plugin_path=" + str(folder))
    for name in "vwz":
        for i in range(4):
            assert read(mounted, f"{name}/{i}.0") == LONG[i * 64:i * 64 + 64].tobytes()
            (mounted.path / f"{name}/{i}.0").write_bytes(LONG[::-1][i * 64:i * 64 + 64].tobytes())
    # As it is stored, in both directions.
    stored = mounted.path / ".codecfs/view/encoded"
    assert read(mounted, ".codecfs/view/encoded/v/1.0") == LONG[::-1][64:128].copy().view("u1").reshape(-1).repeat(times).tobytes()
    (stored / "v/2.0").write_bytes(LONG[:64].copy().view("u1").reshape(-1).repeat(times).tobytes())
    assert read(mounted, "v/2.0") == LONG[:64].tobytes()
    mounted.close()
    now = LONG[::-1].copy()
    sums = grow_of_hdf5(path, folder, """
with h5py.File(path) as f:
    for name in "vwz":
        print(hashlib.sha256(f[name][...].tobytes()).hexdigest())
""").split()
    whole = hashlib.sha256(now.tobytes()).hexdigest()
    now[128:192] = LONG[:64]
    assert sums == [hashlib.sha256(now.tobytes()).hexdigest(), whole, whole]


def test_long_chunks_of_a_plugin_in_zarr(mount, folder, tmp_path):
    compile_plugin("grow_filter.c", folder / "libgrow.so")

    def grown(raw):
        return np.frombuffer(raw, "u1").repeat(100).tobytes()

    store = tmp_path / "s"
    zarr_array(store / "v", {"id": "grow", "times": 100}, LONG, (64, 1024), grown)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    mounted = mount(store, "plugin_path=" + str(folder))
    for i in range(4):
        assert read(mounted, f"v/{i}.0") == LONG[i * 64:i * 64 + 64].tobytes()
    (mounted.path / "v/3.0").write_bytes(LONG[:64].tobytes())
    (mounted.path / ".codecfs/view/encoded/v/1.0").write_bytes(grown(LONG[:64].tobytes()))
    assert read(mounted, "v/1.0") == LONG[:64].tobytes()
    mounted.close()
    for i, begin in enumerate((0, 0, 128, 0)):
        assert (store / f"v/{i}.0").read_bytes() == grown(LONG[begin:begin + 64].tobytes())


def test_one_call_at_a_time(mount, libraries, tmp_path):
    """A library that does not say that it is re-entrant is never entered twice."""
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3, "behaviour": 9}, encode=masked(3))
    mounted = mount(store, "cache=1M", env={"HDF5_PLUGIN_PATH": str(libraries)})
    results = []

    def reader(start):
        for i in range(8):
            number = (start + i) % 8
            results.append(len(read(mounted, f"{number // 2}.{number % 2}")) == 2000)

    threads = [threading.Thread(target=reader, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 64 and all(results)


def test_initialize_and_finalize(mount, libraries, folder, tmp_path):
    """Both are called once, and for a codec of the highest id as well (netCDF forgets that one)."""
    shutil.copy(libraries / "libmask.so", folder)
    shutil.copy(libraries / "libmaskcodec.so", folder)
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3}, encode=masked(3))
    trace = tmp_path / "trace"
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(folder), "MASK_TRACE": str(trace)})
    assert read(mounted, "1.1") == CHUNK and read(mounted, "0.0")
    assert trace.read_text() == "initialize\n"
    mounted.close()
    assert trace.read_text() == "initialize\n" + "finalize\n"


def test_defaults_library(mount, libraries, folder, tmp_path):
    """NCZ_codec_info_defaults serves where no other library has the codec."""
    compile_plugin("mask_codec.c", folder / "liba_defaults.so", "-DAS_DEFAULTS", "-lnetcdf")
    shutil.copy(libraries / "libmask.so", folder)
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3}, encode=masked(3))
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(folder)})
    assert read(mounted, "1.1") == CHUNK
    assert table(mounted)[0]["32900"]["origin"].endswith("liba_defaults.so")
    shutil.copy(libraries / "libmaskcodec.so", folder)
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": str(folder)})
    assert read(mounted, "1.1") == CHUNK
    assert table(mounted)[0]["32900"]["origin"].endswith("libmaskcodec.so")


# --- bad ones

BAD = {  # case: (number, what .codecfs/filters says)
    "crashes": (1, "crashes while it is loaded (Segmentation fault)"),
    "exits": (2, "ends the process while it is loaded"),
    "hangs": (3, "did not finish loading within"),
    "crashes_asked": (4, "crashes while it is loaded (Aborted)"),
    "crashes_later": (5, "crashes while it is loaded (Aborted)"),
    "vol": (6, "an HDF5 plugin of another kind (1), no filter"),
    "filter_version": (7, "version 2 of the HDF5 filter interface; 1 is known"),
    "filter_null": (8, "H5PLget_plugin_info returns nothing"),
    "filter_no_function": (9, "filter 32901 has no function"),
    "filter_id": (10, "filter id 70000 is not between 1 and 65535"),
    "codec_version": (11, "version 2, sort 1 of the codec interface"),
    "codec_sort": (12, "version 1, sort 2 of the codec interface"),
    "codec_no_id": (13, "a codec without an id"),
    "codec_no_function": (14, "codec 'bad' lacks a conversion"),
    "codec_null": (15, "NCZ_get_codec_info returns nothing"),
    "ids_differ": (16, "its HDF5 filter is 32901, its codec 'bad' is for 32902: neither is used"),
    "no_type": (17, "H5PLget_plugin_info without H5PLget_plugin_type"),
    "missing_symbol": (18, "undefined symbol: a_function_that_no_library_has"),
    "missing_function": (20, "undefined symbol: a_function_that_no_library_has"),  # which is called only later
}


def test_bad_libraries_are_set_aside(mount, libraries, folder, tmp_path):
    """A folder full of trouble, and after it in the alphabet the good ones, which work."""
    for name, (number, _) in BAD.items():
        options = ["-Wl,-z,lazy"] if name != "missing_symbol" else ["-Wl,-z,now"]
        compile_plugin("bad_plugin.c", folder / f"liba_{name}.so", f"-DCASE={number}", *options)
    for name in ("libmask.so", "libmaskcodec.so"):
        shutil.copy(libraries / name, folder)
    (folder / "libtext.so").write_text("H5PLget_plugin_info\n" * 10)
    (folder / "libempty.so").touch()
    (folder / "libelf.so").write_bytes(b"\177ELF" + b"NCZ_get_codec_info" * 10)
    os.mkfifo(folder / "libfifo.so")
    (folder / "libfolder.so").mkdir()
    os.symlink("nowhere", folder / "libdangling.so")
    os.symlink("libmask.so", folder / "libmask.so.1")
    shutil.copy(libraries / "libmask.so", folder / "mask.so")  # not named lib*
    file = tmp_path / "file"
    file.touch()
    path = ":".join([str(tmp_path / "missing"), str(file), "", str(folder), str(folder) + "/"])

    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3}, encode=masked(3))
    mounted = mount(store, env={"HDF5_PLUGIN_PATH": path})
    assert read(mounted, "1.1") == CHUNK
    rows, comments = table(mounted)
    for name, (_, says) in BAD.items():
        found = [line for line in comments if f"/liba_{name}.so: " in line]
        assert len(found) == 1 and says in found[0], (name, found)
    assert "32901" not in rows and "32902" not in rows
    assert f"# searched {tmp_path}/missing: No such file or directory" in comments
    assert f"# searched {file}: Not a directory" in comments
    assert f"# searched {folder}: {len(BAD) + 3} plugins" in comments  # libelf.so looks like one
    not_used = [line for line in comments if not line.startswith("# workers of ")]
    assert not [line for line in not_used if "libmask" in line or "libtext" in line or "libfifo" in line], not_used
    assert [line for line in comments if "/libelf.so: " in line]


def test_filter_that_only_encodes(mount, folder, tmp_path):
    compile_plugin("bad_plugin.c", folder / "libbad.so", "-DCASE=19")
    with h5py.File(tmp_path / "a.h5", "w") as f:  # made without the filter: the chunk says that it has passed it
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4,))
        properties.set_filter(32901, h5py.h5z.FLAG_OPTIONAL)
        data = h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((4,)), properties)
        data.write_direct_chunk((0,), bytes(16))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(folder)})
    assert "can only encode" in fails(mounted, "v/0")
    assert table(mounted)[0]["32901"]["status"] == "not usable: its library can only encode"


def test_first_directory_wins_for_each_half(mount, libraries, tmp_path):
    """And -o plugin_path= comes before HDF5_PLUGIN_PATH."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        shutil.copy(libraries / "libmaskcodec.so", directory)
    shutil.copy(libraries / "libmask.so", second)
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3}, encode=masked(3))
    mounted = mount(store, f"plugin_path={first}", env={"HDF5_PLUGIN_PATH": str(second)})
    assert read(mounted, "1.1") == CHUNK
    rows, comments = table(mounted)
    assert rows["32900"]["origin"] == f"{second}/libmask.so + {first}/libmaskcodec.so"
    assert f"# not used {second}/libmaskcodec.so: codec 'mask': {first}/libmaskcodec.so comes first" in comments


def test_search_is_lazy(mount, libraries, folder, tmp_path):
    """A mount that needs no plugin loads none, and a bad one cannot even be met."""
    compile_plugin("bad_plugin.c", folder / "libbad.so", "-DCASE=1")
    shutil.copy(libraries / "libmaskcodec.so", folder)
    trace = tmp_path / "trace"
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=DATA, chunks=(10, 50), compression="gzip", shuffle=True, fletcher32=True)
        f.create_dataset("lzf", data=DATA, chunks=(10, 50), compression="lzf")
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(folder), "MASK_TRACE": str(trace)})
    for name in ("v", "lzf"):
        assert read(mounted, f"{name}/1.1") == CHUNK
        os.listxattr(mounted.path / name)
    assert str(folder) not in open(f"/proc/{mounted.process.pid}/maps").read() and not trace.exists()
    assert "plugin" not in mounted.messages()
    # Libraries that are no plugins are never loaded either.
    shutil.copy(glob.glob("/usr/lib/*/hdf5/serial/plugins/libblosc_filter.so")[0], folder)
    assert f"# searched {folder}: 2 plugins" in table(mounted)[1]
    assert loaded_by(folder / "libmaskcodec.so") and not loaded_by(folder / "libblosc_filter.so")
    assert not loaded_by(folder / "libbad.so")


def test_no_directories(mount, tmp_path):
    mounted = mount(zarr_array(tmp_path / "v", {"id": "mask"}), env={"HDF5_PLUGIN_PATH": ""})
    assert "no directory is searched" in fails(mounted, "1.1")
    assert [line for line in table(mounted)[1] if "no directory is searched" in line]


def test_the_default_directory_is_searched_last(mount, tmp_path):
    """As a last resort: libhdf5's default directory has bzip2 of Debian, which h5py uses here."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("v", data=np.arange(64, dtype="i4"), chunks=(64,), compression=307)
    empty = tmp_path / "empty"
    empty.mkdir()
    options = ["builtin=off"]
    found = mount(tmp_path / "x.h5", *options, env={"HDF5_PLUGIN_PATH": str(empty)})
    assert (found.path / "v/0").read_bytes() == np.arange(64, dtype="i4").tobytes()
    assert table(found)[0]["307"]["origin"].startswith(DEBIAN)
    both = mount(tmp_path / "x.h5", *options, env={"HDF5_PLUGIN_PATH": OURS})
    assert (both.path / "v/0").read_bytes() == np.arange(64, dtype="i4").tobytes()
    assert table(both)[0]["307"]["origin"].startswith(OURS)
    excluded = mount(tmp_path / "x.h5", *options, env={"HDF5_PLUGIN_PATH": ""})
    assert "no directory is searched" in fails(excluded, "v/0")


def test_relative_directory(mount, libraries, tmp_path):
    """Relative to where the command was given, although the daemon goes elsewhere."""
    store = zarr_array(tmp_path / "v", {"id": "mask", "value": 3}, encode=masked(3))
    point = tmp_path / "point"
    point.mkdir()
    codecfs(store, point, cwd=libraries.parent, env={"HDF5_PLUGIN_PATH": libraries.name})
    try:
        assert (point / "1.1").read_bytes() == CHUNK
    finally:
        run("fusermount3", "-u", point)


def test_rules_name_filters_of_plugins(mount, libraries, tmp_path):
    store = zarr_array(tmp_path / "s/v", None).parent
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    mounted = mount(store, rules=["v,Mask,1"], env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert xattr(mounted.path / "v", "_FilterOut") == "32900,1"


# --- Debian's and ours, against the built-in filters

CHAINS = {
    "bzip2": own_filter(5, identifier=307),
    "lz4": own_filter(0, identifier=32004),
    "lz4_small_blocks": own_filter(256, identifier=32004),
    "blosc": own_filter(0, 0, 0, 0, 5, 1, 1, identifier=32001),
    "blosc_bits_zstd": own_filter(0, 0, 0, 0, 9, 2, 5, identifier=32001),
    "bzip2_checked": own_filter(9, identifier=307, fletcher32=True),
}


def every_chunk(mounted, name):
    return b"".join(read(mounted, f"{name}/{i}.{j}") for i in range(4) for j in range(2))


@pytest.mark.parametrize("plugins", ["debian", "ours"])
def test_plugins_and_built_in_agree(mount, tmp_path, plugins):
    """What HDF5 writes with a plugin, the plugin and the built-in filter both read, as h5py does."""
    path = {"debian": DEBIAN, "ours": OURS}[plugins]
    chains = dict(CHAINS)
    if plugins == "ours":
        chains["zstd"] = own_filter(3, identifier=32015)
        chains["zstd_shuffled"] = own_filter(19, identifier=32015, shuffle=True)
        ids = ("307", "32001", "32004", "32015")
    else:
        ids = ("307", "32001", "32004")
    write_hdf5(tmp_path / "a.h5", path, chains)
    built_in = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": ""})
    plugged = mount(tmp_path / "a.h5", "builtin=off:" + ":".join(ids), env={"HDF5_PLUGIN_PATH": path})
    expected = b"".join(DATA[i:i + 10, j:j + 50].tobytes() for i in range(0, 40, 10) for j in (0, 50))
    for name in chains:
        assert every_chunk(built_in, name) == expected, name
        assert every_chunk(plugged, name) == expected, name
    rows = table(plugged)[0]
    for identifier in ids:
        assert rows[identifier]["origin"].startswith(path), rows[identifier]
        assert table(built_in)[0][identifier]["origin"] == "built-in"
    workers = loaded_by(path)
    assert workers and plugged.process.pid not in workers
    # Damage is an error on both sides.
    damaged = tmp_path / "damaged.h5"
    shutil.copy(tmp_path / "a.h5", damaged)
    offset = int(xattr(plugged.path / "bzip2/1.1", "_Offset"))
    with open(damaged, "r+b") as f:
        f.seek(offset + 20)
        f.write(b"\x55\xaa\x55\xaa")
    for options in ([], ["builtin=off:bzip2"]):
        # Debian's bzip2 filter leaks its decoder on a failure.
        env = {"HDF5_PLUGIN_PATH": path, "ASAN_OPTIONS": "detect_leaks=0"}
        assert "307" in fails(mount(damaged, *options, env=env), "bzip2/1.1")


def test_zfp_comes_from_debian(mount, tmp_path):
    """A lossy filter that is not built in: the mount gives the values that h5py reads."""
    # h5repack -f UD=32013,... with zfp's rate mode: mode 1, a double of 16 bits a value.
    parameters = (1, 0, *np.array([16.0]).view("<u4").tolist())
    field = np.fromfunction(lambda i, j: np.sin(i / 7) * np.cos(j / 9), (40, 100)).astype("<f8")
    np.save(tmp_path / "field.npy", field)
    program = f"""
import h5py, numpy
data = numpy.load({str(tmp_path / "field.npy")!r})
with h5py.File({str(tmp_path / "a.h5")!r}, "w") as f:
    f.create_dataset("v", data=data, chunks=(10, 50), compression=32013, compression_opts={parameters!r})
with h5py.File({str(tmp_path / "a.h5")!r}) as f:
    numpy.save({str(tmp_path / "read.npy")!r}, f["v"][()])
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": DEBIAN})
    lossy = np.load(tmp_path / "read.npy")
    assert not np.array_equal(lossy, field) and np.allclose(lossy, field, atol=1e-3)
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": DEBIAN})
    assert read(mounted, "v/1.1") == lossy[10:20, 50:100].tobytes()
    assert table(mounted)[0]["32013"]["origin"] == f"{DEBIAN}/libh5zzfp.so"
    without = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": ""})
    assert "32013" in fails(without, "v/1.1")


def test_lzf_of_h5py_and_debian(mount, tmp_path):
    """lzf is built in. Debian's plugin does not load in most programs, as it does not say which library it needs; ours
    happens to have that library."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=DATA, chunks=(10, 50), compression="lzf")
    assert read(mount(tmp_path / "a.h5"), "v/1.1") == CHUNK
    mounted = mount(tmp_path / "a.h5", "builtin=off:lzf", env={"HDF5_PLUGIN_PATH": DEBIAN})
    rows, comments = table(mounted)
    if "32000" in rows:
        assert read(mounted, "v/1.1") == CHUNK
    else:
        assert [line for line in comments if "liblzf_filter.so: undefined symbol" in line]
        assert "32000" in fails(mounted, "v/1.1")


def test_our_codecs_serve_zarr(mount, tmp_path):
    """All of our plugins, and none of the built-in filters, on Zarr stores that zarr-python writes."""
    import numcodecs
    import zarr
    store = tmp_path / "s"
    group = zarr.open_group(str(store), "w")
    codecs = {"zlib": numcodecs.Zlib(4), "bz2": numcodecs.BZ2(3), "zstd": numcodecs.Zstd(5),
              "blosc": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.SHUFFLE), "blosc_auto": numcodecs.Blosc("lz4", 1, -1)}
    for name, codec in codecs.items():
        group.create_dataset(name, data=DATA, chunks=(10, 50), compressor=codec)
    group.create_dataset("shuffled", data=DATA, chunks=(10, 50), compressor=numcodecs.Zlib(1),
                         filters=[numcodecs.Shuffle(4)])
    mounted = mount(store, "builtin=off", env={"HDF5_PLUGIN_PATH": OURS})
    for name in [*codecs, "shuffled"]:
        assert read(mounted, f"{name}/1.1") == CHUNK, name
    rows = table(mounted)[0]
    assert all(rows[i]["origin"].startswith(OURS) and rows[i]["status"] == "usable" for i in ("1", "2", "3", "4", "307", "32001", "32015"))
    # Also where a writer leaves out what has a default (netCDF's own codecs crash there).
    bare = zarr_array(tmp_path / "bare", {"id": "zlib"}, encode=numcodecs.Zlib(1).encode)
    assert read(mount(bare, "builtin=off", env={"HDF5_PLUGIN_PATH": OURS}), "1.1") == CHUNK


def test_virtual_dataset_over_a_plugin(mount, libraries, tmp_path):
    """libhdf5 reads virtual datasets itself, with the plugins of our path, past a folder that is not there."""
    write_hdf5(tmp_path / "source.h5", libraries, {"v": own_filter(7)})
    layout = h5py.VirtualLayout((40, 100), "<i4")
    layout[...] = h5py.VirtualSource(str(tmp_path / "source.h5"), "v", (40, 100))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_virtual_dataset("all", layout)
    mounted = mount(tmp_path / "a.h5", f"plugin_path={tmp_path}/missing:{libraries}", env={"HDF5_PLUGIN_PATH": ""})
    assert read(mounted, "all/0.0") == DATA.tobytes()


@pytest.mark.parametrize("option, says", [("builtin=maybe", "on, off, or off:"), ("builtin=off:", "on, off, or off:"),
                                          ("builtin=off:nosuch", "not a built-in filter"), ("builtin=off:nbit", "not a built-in filter"),
                                          ("plugin_path", "needs a value")])
def test_wrong_options(tmp_path, option, says):
    result = codecfs("-o", option, tmp_path, tmp_path, code=1)
    assert says in result.stderr and result.stderr.count("\n") == 1


# --- permissions of plugins and their folders


def chmod(path, mode):
    os.chmod(path, mode)
    return path


def by_a_link(folder, elsewhere):
    """The library is in a folder that all users can write to; the one that is searched has a link to it."""
    shutil.move(folder / "libmask.so", elsewhere / "libmask.so")
    chmod(elsewhere, 0o777)
    (folder / "libmask.so").symlink_to(elsewhere / "libmask.so")


WRITABLE = {
    "folder": (lambda folder, _: chmod(folder, 0o777), "plugins can be written to by all users (mode 0777)"),
    "sticky folder": (lambda folder, _: chmod(folder, 0o1777), "plugins can be written to by all users (mode 1777)"),
    "group's folder": (lambda folder, _: chmod(folder, 0o775), "plugins can be written to by group"),
    "folder above": (lambda folder, _: chmod(folder.parent, 0o777), "can be written to by all users (mode 0777)"),
    "file": (lambda folder, _: chmod(folder / "libmask.so", 0o666), "libmask.so can be written to by all users"),
    "group's file": (lambda folder, _: chmod(folder / "libmask.so", 0o664), "libmask.so can be written to by group"),
    "link": (by_a_link, "elsewhere can be written to by all users (mode 0777)"),
    "other's folder": (lambda folder, _: os.chown(folder, 65534, -1), "plugins belongs to user 65534"),
    "other's file": (lambda folder, _: os.chown(folder / "libmask.so", 65534, -1), "libmask.so belongs to user 65534"),
}


@pytest.mark.parametrize("what", WRITABLE)
def test_plugins_that_other_users_can_write_to_are_not_loaded(mount, libraries, folder, tmp_path, what):
    """Neither by us nor by libhdf5, which decodes texts of variable length and virtual datasets; the reason is told, and
    the files go on being read."""
    if what.startswith("other's") and os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    change, says = WRITABLE[what]
    shutil.copy(libraries / "libmask.so", folder)
    source = tmp_path / "files" / "a.h5"
    source.parent.mkdir()
    write_hdf5(source, folder, {"v": own_filter(7), "plain": {}})
    write_texts(source, folder, own_filter(7))
    (tmp_path / "elsewhere").mkdir()
    change(folder, tmp_path / "elsewhere")
    mounted = mount(source, env={"HDF5_PLUGIN_PATH": str(folder)})
    for chunk in ("v/1.1", "texts/0", "virtual/0.0"):
        reason = fails(mounted, chunk)
        assert "32900" in reason or chunk != "v/1.1", reason
        assert says in reason or chunk != "v/1.1", reason
    assert read(mounted, "plain/1.1") == CHUNK
    rows, comments = table(mounted)
    assert "32900" not in rows and [line for line in comments if says in line], comments
    assert "libmask" not in open(f"/proc/{mounted.process.pid}/maps").read()
    assert says in mounted.messages()


def write_texts(path, plugins, options):
    """Adds what only libhdf5 decodes: texts of variable length, and a virtual dataset of v in a file beside it."""
    program = f"""
import h5py, numpy, shutil
with h5py.File({str(path)!r}, "a") as f:
    f.create_dataset("texts", data=["one", "two", ""], dtype=h5py.string_dtype(), chunks=(3,), **{options!r})
shutil.copy({str(path)!r}, {str(path.with_name("beside.h5"))!r})
with h5py.File({str(path)!r}, "a") as f:
    layout = h5py.VirtualLayout(shape=(40, 100), dtype="<i4")
    layout[:] = h5py.VirtualSource("beside.h5", "v", shape=(40, 100))
    f.create_virtual_dataset("virtual", layout)
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(plugins)})


TEXTS = b"\x03\0\0\0\x03\0\0\0one\x03\0\0\0two\0\0\0\0"


def test_libhdf5_is_lent_the_plugins(mount, libraries, tmp_path):
    write_hdf5(tmp_path / "a.h5", libraries, {"v": own_filter(7)})
    write_texts(tmp_path / "a.h5", libraries, own_filter(7))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert read(mounted, "texts/0") == TEXTS
    assert read(mounted, "virtual/0.0") == DATA.tobytes()
    assert read(mounted, "v/1.1") == CHUNK
    first = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert read(first, "virtual/0.0") == DATA.tobytes()  # the sources' filters are those of a variable that was not opened


def test_libhdf5_is_lent_what_is_built_in(mount, tmp_path):
    """Where there is no plugin at all."""
    write_hdf5(tmp_path / "a.h5", OURS, {"v": own_filter(3, identifier=32015)})
    write_texts(tmp_path / "a.h5", OURS, own_filter(3, identifier=32015))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": ""})
    assert read(mounted, "texts/0") == TEXTS
    assert read(mounted, "virtual/0.0") == DATA.tobytes()


def test_plugins_off(mount, libraries, tmp_path):
    write_hdf5(tmp_path / "a.h5", libraries, {"v": own_filter(7), "deflated": {"compression": "gzip"}})
    write_texts(tmp_path / "a.h5", libraries, own_filter(7))
    mounted = mount(tmp_path / "a.h5", f"plugins=off,plugin_path={libraries}", env={"HDF5_PLUGIN_PATH": str(libraries)})
    assert "no plugins are loaded (-o plugins=off)" in fails(mounted, "v/1.1")
    fails(mounted, "texts/0")
    fails(mounted, "virtual/0.0")
    assert read(mounted, "deflated/1.1") == CHUNK
    rows, comments = table(mounted)
    assert "32900" not in rows and comments[1] == "# no plugins are loaded (-o plugins=off)"
    assert all(comment.startswith("# libhdf5 runs in processes ") for comment in comments[2:])  # and no library
    assert "libmask" not in open(f"/proc/{mounted.process.pid}/maps").read()
