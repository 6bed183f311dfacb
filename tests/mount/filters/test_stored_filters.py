"""Pipelines as an HDF5 file stores them: user._FilterStored, which carries flags and complete parameters from one variable
to another, and h5repack's UD=. The judges are h5repack and h5py, which know nothing of either."""
import contextlib
import json
import os
import re
import sys

import h5py
import numpy as np
import pytest

from conftest import xattr
from filter_plugins import DEBIAN, compile_plugin
from running import codecfs, run
from venvs import python_of

DATA = np.arange(4000, dtype="<i4").reshape(40, 100)
COMPLETING = 32904  # of completing_filter.c
OPTIONAL, MANDATORY = h5py.h5z.FLAG_OPTIONAL, h5py.h5z.FLAG_MANDATORY


@pytest.fixture
def mount(mount):
    """Mounts that end with a `with` statement."""
    return lambda *words, **options: contextlib.closing(mount(*words, **options))


def make(path, **pipelines):
    """A file of variables with these pipelines: (id, flags, parameters) each."""
    with h5py.File(path, "w") as file:
        for name, pipeline in pipelines.items():
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((10, 50))
            for stage in pipeline:
                properties.set_filter(*stage)
            made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple(DATA.shape), properties)
            h5py.Dataset(made)[...] = DATA
    return path


def pipeline(path, name="v"):
    """What the file says of a variable: (id, flags, parameters) of each filter."""
    with h5py.File(path) as file:
        properties = file[name].id.get_create_plist()
        return [properties.get_filter(i)[:3] for i in range(properties.get_nfilters())]


def set_filter(mounted, value, name="_Filter", variable="v"):
    os.setxattr(mounted.path / variable, f"user.{name}", value.encode())


@pytest.fixture(scope="module")
def completing(tmp_path_factory):
    """The folder of a plugin whose set_local changes its parameters."""
    folder = tmp_path_factory.mktemp("completing")
    compile_plugin("completing_filter.c", folder / "libcompleting.so")
    return folder


@pytest.fixture
def completed(tmp_path, completing):
    """A file whose variable v has the filter with parameters that its set_local completed."""
    program = f"""
import h5py, numpy
with h5py.File({str(tmp_path / "a.h5")!r}, "w") as f:
    f.create_dataset("v", data=numpy.arange(4000, dtype="<i4").reshape(40, 100), chunks=(10, 50), compression={COMPLETING},
                     compression_opts=(23,))
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(completing)})
    assert pipeline(tmp_path / "a.h5") == [(COMPLETING, OPTIONAL, (4, 23))]
    return tmp_path / "a.h5"


def read_with(plugins, path, name="v"):
    """The values as h5py reads them with the plugin."""
    program = f"""
import h5py, sys
with h5py.File({str(path)!r}) as f:
    sys.stdout.buffer.write(f[{name!r}][()].tobytes())
"""
    done = run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(plugins)}, text=False)
    return np.frombuffer(done.stdout, "<i4").reshape(40, 100)


# ---- flags

def h5repack(source, target, *rules):
    run("h5repack", *(word for rule in rules for word in ("-f", rule)), source, target, env={"HDF5_PLUGIN_PATH": DEBIAN})


@pytest.mark.parametrize("spec", ["UD=307,0,1,9", "UD=307,1,1,9", "UD=32001,0,7,0,0,0,0,5,1,1", "UD=32001,1,7,0,0,0,0,5,1,1"])
def test_a_spec_of_h5repack_does_what_h5repack_does(mount, tmp_path, spec):
    make(tmp_path / "a.h5", v=[])
    h5repack(tmp_path / "a.h5", tmp_path / "other.h5", *(f"v:{part}" for part in spec.split("|")))
    with mount(tmp_path / "a.h5") as mounted:
        set_filter(mounted, spec)
        assert xattr(mounted.path / "v", "_Filter") == ncdumps_text(tmp_path / "other.h5")
    assert pipeline(tmp_path / "a.h5") == pipeline(tmp_path / "other.h5") != []


def ncdumps_text(path):
    return "|".join(",".join(map(str, (number, *parameters))) for number, _, parameters in pipeline(path))


def test_rules_take_flags(mount, tmp_path):
    make(tmp_path / "a.h5", v=[], w=[])
    with mount(tmp_path / "a.h5", "filter=v\\,UD=307\\,0\\,1\\,9") as mounted:
        (mounted.path / "v/0.0").write_bytes((mounted.path / "v/0.0").read_bytes())
    assert pipeline(tmp_path / "a.h5") == [(307, MANDATORY, (9,))] and pipeline(tmp_path / "a.h5", "w") == []
    codecfs("convert", "-F", "*,UD=307,0,1,3", tmp_path / "a.h5", tmp_path / "b.h5")
    assert pipeline(tmp_path / "b.h5", "w") == [(307, MANDATORY, (3,))]


def test_a_plain_spec_leaves_the_flags_of_an_equal_pipeline(mount, tmp_path):
    stages = [(2, OPTIONAL, (4,)), (1, MANDATORY, (6,))]
    make(tmp_path / "a.h5", v=stages)
    with mount(tmp_path / "a.h5", "filter=v\\,2|1\\,6") as mounted:
        (mounted.path / "v/0.0").write_bytes((mounted.path / "v/0.0").read_bytes())
        set_filter(mounted, "2|1,6")
        set_filter(mounted, xattr(mounted.path / "v", "_Filter"))
        set_filter(mounted, xattr(mounted.path / "v", "_Codecs"), "_Codecs")
        assert xattr(mounted.path / "v", "_FilterStored") == "UD=2,1,1,4|UD=1,0,1,6"
        assert mounted.stats()["variables_recoded"] == 0
    assert pipeline(tmp_path / "a.h5") == stages
    with mount(tmp_path / "a.h5") as mounted:
        set_filter(mounted, "UD=2,1,0|UD=1,1,1,6")  # the flags alone
        assert mounted.stats()["variables_recoded"] == 1
    assert pipeline(tmp_path / "a.h5") == [(2, OPTIONAL, (4,)), (1, OPTIONAL, (6,))]
    with mount(tmp_path / "a.h5") as mounted:
        set_filter(mounted, "UD=2,1,0|UD=1,0,1,6")
        set_filter(mounted, "2", "_DeflateLevel")
        set_filter(mounted, "true", "_Fletcher32")
    assert pipeline(tmp_path / "a.h5")[1] == (2, OPTIONAL, (4,))  # stays as it is where another filter changes
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["v"][()], DATA)


def test_what_is_no_flag(mount, tmp_path):
    make(tmp_path / "a.h5", v=[])
    with mount(tmp_path / "a.h5") as mounted:
        for spec in ("UD=307", "UD=307,2,1,9", "UD=307,1", "UD=307,1,2,9", "UD=307,1,0,9", "UD=,1,1,9", "UD=307,1,x,9", "307,UD=1"):
            with pytest.raises(OSError) as refused:
                set_filter(mounted, spec)
            assert refused.value.errno == 22, spec
        assert mounted.stats()["variables_recoded"] == 0


def test_info_shows_flags(tmp_path):
    make(tmp_path / "a.h5", v=[(2, OPTIONAL, (4,)), (1, MANDATORY, (6,))])
    text = codecfs("info", tmp_path / "a.h5", "v").stdout
    assert "shuffle optional, deflate mandatory" in text
    told = codecfs("info", "--json", tmp_path / "a.h5").stdout
    assert json.loads(told)["variables"][0]["filter_stored"] == "UD=2,1,1,4|UD=1,0,1,6"


# ---- complete parameters

def test_cp_carries_complete_parameters(mount, tmp_path, completed, completing):
    h5py.File(tmp_path / "b.h5", "w").close()
    environment = {"HDF5_PLUGIN_PATH": str(completing)}
    with mount(completed, "ro", env=environment) as source, mount(tmp_path / "b.h5", env=environment) as target:
        run("cp", "-r", "--preserve=xattr", source.path / "v", target.path / "v")
        assert xattr(target.path / "v", "_FilterStored") == "UD=32904,1,2,4,23"
        assert target.stats()["variables_recoded"] == 1  # none of the other attributes changes it again
    assert pipeline(tmp_path / "b.h5") == pipeline(completed)
    assert np.array_equal(read_with(completing, tmp_path / "b.h5"), DATA)


def test_complete_parameters_are_set_in_any_order(mount, tmp_path, completed, completing):
    make(tmp_path / "b.h5", v=[(1, OPTIONAL, (1,))])
    with mount(tmp_path / "b.h5", env={"HDF5_PLUGIN_PATH": str(completing)}) as mounted:
        set_filter(mounted, "32904,23")  # as a user writes it: set_local completes it
        assert xattr(mounted.path / "v", "_Filter") == "32904,4,23"
        set_filter(mounted, "32904,4,23")  # what is shown
        set_filter(mounted, xattr(mounted.path / "v", "_Codecs"), "_Codecs")
        assert xattr(mounted.path / "v", "_Filter") == "32904,4,23" and mounted.stats()["variables_recoded"] == 1
        set_filter(mounted, "UD=32904,0,2,4,7", "_FilterStored")
        assert xattr(mounted.path / "v", "_Filter") == "32904,4,7"
        set_filter(mounted, "true", "_Shuffle")  # another filter changes: these are still complete
        assert xattr(mounted.path / "v", "_FilterStored") == "UD=2,1,1,4|UD=32904,0,2,4,7"
        with pytest.raises(OSError) as refused:  # set_local refuses three
            set_filter(mounted, "32904,4,4,9")
        assert refused.value.errno == 22
        set_filter(mounted, "32904,4,4,9", "_FilterStored")
        set_filter(mounted, "1,4|32904,5")  # set_local runs again
        assert xattr(mounted.path / "v", "_Filter") == "1,4|32904,4,5"
    assert pipeline(tmp_path / "b.h5") == [(1, OPTIONAL, (4,)), (COMPLETING, OPTIONAL, (4, 5))]
    assert np.array_equal(read_with(completing, tmp_path / "b.h5"), DATA)


def test_only_variables_of_hdf5_have_it(mount, tmp_path, completed, completing):
    import zarr
    zarr.open(str(tmp_path / "z"), mode="w", shape=(40, 100), chunks=(10, 50), dtype="<i4")[...] = DATA
    with mount(completed, env={"HDF5_PLUGIN_PATH": str(completing)}) as mounted:
        with pytest.raises(OSError) as refused:
            os.setxattr(mounted.path, "user._FilterStored", b"UD=1,1,1,4")
        assert refused.value.errno == 1
    with mount(tmp_path / "z") as mounted:
        assert "user._FilterStored" not in os.listxattr(mounted.path)
        os.setxattr(mounted.path, "user._FilterStored", b"UD=307,1,1,4")  # as a copy with attributes does
        assert "user._FilterStored" not in os.listxattr(mounted.path) and xattr(mounted.path, "_Filter") == "307,4"
    assert np.array_equal(zarr.open(str(tmp_path / "z"), mode="r")[...], DATA)


def test_szip_is_shown_as_by_ncdump(mount, tmp_path):
    """Without the options and parameters that HDF5 has added; and what is shown sets the same."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, options in {"nearest": ("nn", 16), "entropy": ("ec", 8)}.items():
            file.create_dataset(name, data=DATA, chunks=(10, 50), compression="szip", compression_opts=options)
        file.create_dataset("plain", data=DATA, chunks=(10, 50))
    told = run("ncdump", "-hs", tmp_path / "a.h5").stdout
    before = {name: pipeline(tmp_path / "a.h5", name) for name in ("nearest", "entropy")}
    assert all(len(stages[0][2]) == 4 for stages in before.values())
    with mount(tmp_path / "a.h5") as mounted:
        shown = {name: xattr(mounted.path / name, "_Filter") for name in before}
        assert shown == {name: re.search(rf'{name}:_Filter = "([^"]*)"', told)[1] for name in before}
        for name, stages in before.items():
            assert xattr(mounted.path / name, "_FilterStored") == "UD=4,1,4," + ",".join(map(str, stages[0][2]))
            set_filter(mounted, shown[name], variable=name)
        set_filter(mounted, shown["nearest"], variable="plain")
    assert {name: pipeline(tmp_path / "a.h5", name) for name in before} == before
    assert pipeline(tmp_path / "a.h5", "plain") == before["nearest"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert all(np.array_equal(file[name][...], DATA) for name in file)


def test_every_filter_of_hdf5plugin_is_carried(mount, tmp_path):
    python = python_of("hdf5plugin")

    def by_wheel(program):
        return run(python, "-c", "import h5py, hdf5plugin as p, numpy as np\n" + program, cwd=tmp_path).stdout

    plugins = by_wheel("print(p.PLUGIN_PATH)").strip()
    names = json.loads(by_wheel("""
import json
d = np.linspace(0, 100, 64 * 64, dtype="f4").reshape(64, 64)
filters = dict(sz3=p.SZ3(absolute=0.01), sz=p.SZ(absolute=0.01), sperr=p.Sperr(rate=4), fci=p.FciDecomp(), zfp=p.Zfp(accuracy=0.01),
               blosc=p.Blosc(), blosc2=p.Blosc2(), bshuf=p.Bitshuffle(), lz4=p.LZ4(), zstd=p.Zstd(), bzip2=p.BZip2())
with h5py.File("a.h5", "w") as f:
    for name, filter in filters.items():
        f.create_dataset(name, data=d.astype("u2") if name == "fci" else d, chunks=(32, 64), compression=filter)
h5py.File("b.h5", "w").close()
print(json.dumps(list(filters)))"""))
    environment = {"HDF5_PLUGIN_PATH": plugins}
    with mount(tmp_path / "a.h5", "ro", env=environment) as source, mount(tmp_path / "b.h5", env=environment) as target:
        for name in names:
            run("cp", "-r", "--preserve=xattr", source.path / name, target.path / name)
    codecfs("convert", tmp_path / "a.h5", tmp_path / "c.h5", env=environment)
    for name in names:
        assert pipeline(tmp_path / "a.h5", name) == pipeline(tmp_path / "b.h5", name) == pipeline(tmp_path / "c.h5", name), name
    by_wheel("""
for copy in "b.h5", "c.h5":
    with h5py.File("a.h5") as a, h5py.File(copy) as b:
        for name in a:
            assert np.abs(a[name][()].astype("f8") - b[name][()]).max() < 0.02, (copy, name)""")
