"""codecfs convert, without a mount: h5py, netCDF4 and zarr-python read the result, and find in it what is in the source."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

from conftest import CODECFS, DATA, libhdf5_version
from mounts import signal_all
from damaged_attributes import damaged_message
from running import codecfs, run
from zarr3_cases import LITTLE, sharding
from zarr3_stores import named, write_array, write_group

FORMATS = ["zarr", "zarr3", "zip", "hdf5"]


def make_source(path, rows=60):
    """A netCDF-4 file with what scientists have in one."""
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a title"
        for name, length in ("time", None), ("y", 30), ("x", 41):
            file.createDimension(name, length)
        file.createVariable("time", "f8", ("time",), chunksizes=(16,))[:] = np.arange(rows) * 0.25
        t = file.createVariable("t", "i2", ("time", "y", "x"), zlib=True, complevel=4, chunksizes=(7, 10, 41),
                                fill_value=-9)
        t.units = "K"
        t.setncattr("step", np.float32(0.01))
        t.set_auto_maskandscale(False)
        t[:] = rng.integers(0, 300, (rows, 30, 41))
        group = file.createGroup("g")
        group.note = [1, 2, 3]
        group.createVariable("big", "f4", ("y", "x"), zlib=True, shuffle=True, endian="big")[:] = rng.random((30, 41))
        group.createVariable("names", str, ("y",))[:] = np.array([f"n{i}é" for i in range(30)], dtype=object)
        group.createVariable("scalar", "f8", ())[:] = 2.5
    return path


def values_of(path):
    """{path: array} by the libraries of Debian."""
    found = {}
    if path.suffix in (".h5", ".nc"):
        with h5py.File(path) as file:
            def visit(name, item):
                if isinstance(item, h5py.Dataset):
                    found[name] = item.asstr()[...] if h5py.check_string_dtype(item.dtype) else item[...]
            file.visititems(visit)
    else:
        group = zarr.open(zarr.ZipStore(str(path), mode="r") if path.suffix == ".zip" else str(path), mode="r")
        def visit(name, item):
            if isinstance(item, zarr.Array):
                found[name] = item[...]
        group.visititems(visit)
    return found


def are_same(one, other):
    return one.shape == other.shape and np.array_equal(one.astype(one.dtype.newbyteorder("=")) if one.dtype != object else one,
                                                       other)


@pytest.mark.parametrize("form", ["zarr", "zip", "hdf5"])
def test_others_read_the_same(tmp_path, form):
    source = make_source(tmp_path / "a.nc")
    made = tmp_path / {"zarr": "b.zarr", "zip": "b.zip", "hdf5": "b.nc"}[form]
    assert "chunks" in codecfs("convert", source, made).output
    wanted, found = values_of(source), values_of(made)
    names = set(wanted) - {"x", "y"}  # dimensions without a variable are datasets of netCDF-4
    assert names <= set(found)
    for name in names:
        assert are_same(wanted[name], found[name]), name
    if form == "hdf5":
        with netCDF4.Dataset(made) as file:
            assert file["t"].dimensions == ("time", "y", "x") and file["t"].units == "K"
            assert file["t"].filters()["zlib"] and file["t"].filters()["complevel"] == 4
    assert sorted(os.listdir(tmp_path)) == sorted(["a.nc", made.name])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["hdf5/filters_builtin.h5", "hdf5/netcdf_all_types.nc", "hdf5/layouts.h5", "zarr/filters",
                                  "zarr/fortran_order", "zarr/missing_chunks", "zarr/groups", "zarr/nczarr_493"])
def test_compare_finds_no_difference(tmp_path, name, form):
    if form == "hdf5" and name in ("zarr/filters", "zarr/fortran_order"):
        pytest.skip("HDF5 has no form for some of its codecs and types: see test_what_hdf5_cannot_have")
    made = tmp_path / f"b.{form}"
    codecfs("convert", "--format", form, DATA / name, made)
    codecfs("compare", DATA / name, made)


@pytest.mark.parametrize("form", FORMATS)
def test_and_back_again(tmp_path, form):
    source = make_source(tmp_path / "a.nc")
    codecfs("convert", "--format", form, source, tmp_path / "b")
    codecfs("convert", "--format", "hdf5", tmp_path / "b", tmp_path / "c.nc")
    codecfs("compare", source, tmp_path / "c.nc")


def test_stored_bytes_are_passed_through(tmp_path):
    source = make_source(tmp_path / "a.nc")
    codecfs("convert", source, tmp_path / "b.zarr")
    with h5py.File(source) as file:
        t = file["t"].id
        for i in range(t.get_num_chunks()):
            info = t.get_chunk_info(i)
            name = ".".join(str(o // c) for o, c in zip(info.chunk_offset, (7, 10, 41)))
            assert (tmp_path / "b.zarr/t" / name).read_bytes() == t.read_direct_chunk(info.chunk_offset)[1]


@pytest.mark.parametrize("form", FORMATS)
def test_rules_give_other_filters(tmp_path, form):
    source = make_source(tmp_path / "a.nc")
    codecfs("convert", "--format", form, "-F", "t,shuffle|zstd,5", "-F", "/g/big,none", source, tmp_path / "b")
    found = {v["path"]: v for v in json.loads(codecfs("info", "--json", tmp_path / "b").stdout)["variables"]}
    assert found["/t"]["filter"] == "2,2|32015,5" and found["/g/big"]["filter"] == "none"
    codecfs("compare", source, tmp_path / "b")


def test_what_hdf5_cannot_have(tmp_path):
    """It is told, and nothing is left: a second attempt would fail in the same way."""
    zarr.open_group(str(tmp_path / "a.zarr"), "w").create_dataset("v", data=np.zeros(3, "f16"))
    assert "HDF5 has no type" in codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5", code=32).output
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_codecs_that_hdf5_lacks_are_left_out(tmp_path):
    """The chunks are decoded, and a warning says so."""
    done = codecfs("convert", DATA / "zarr/filters", tmp_path / "b.h5")
    assert "-F gives other filters" in done.stderr, done.stderr
    codecfs("compare", DATA / "zarr/filters", tmp_path / "b.h5")


def test_codecs_that_hdf5_lacks_are_replaced(tmp_path):
    codecfs("convert", "-F", "*,deflate,1", DATA / "zarr/filters", tmp_path / "b.h5")
    codecfs("compare", DATA / "zarr/filters", tmp_path / "b.h5")


def test_the_ending_chooses_the_format(tmp_path):
    source = DATA / "hdf5/layouts.h5"
    for name, what in (("a.h5", "HDF5"), ("a.nc", "HDF5"), ("a.zip", "zip"), ("a.zarr", "Zarr v2"), ("plain", "Zarr v2")):
        codecfs("convert", source, tmp_path / name)
        told = json.loads(codecfs("info", "--json", tmp_path / name).stdout)["format"]
        assert what.split()[0] in told or (what == "HDF5" and "netCDF-4" in told), (name, told)


@pytest.mark.parametrize("ending", ["h5ad", "h5mu", "loom", "nxs", "nwb", "cool", "hdf", "he5", "nc4", "H5AD", "NC"])
def test_endings_of_formats_that_are_hdf5(tmp_path, ending):
    """Without names of dimensions, h5py finds datasets and nothing of netCDF's."""
    source = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    source.create_dataset("g/x", data=np.arange(6), chunks=3)
    codecfs("convert", tmp_path / "a.zarr", tmp_path / f"b.{ending}")
    with h5py.File(tmp_path / f"b.{ending}") as f:
        assert (f["g/x"][...] == np.arange(6)).all() and list(f) == ["g"] and list(f["g"]) == ["x"] and set(f["g/x"].attrs) <= {"_FillValue"}
    codecfs("compare", tmp_path / "a.zarr", tmp_path / f"b.{ending}")


@pytest.mark.parametrize("ending", ["cdf", "CDF", "mat", "nc3", "h4", "n5", "npy", "tif"])
def test_endings_of_other_formats_are_refused(tmp_path, ending):
    source = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    source.create_dataset("x", data=np.arange(6), chunks=3)
    assert "--format" in codecfs("convert", tmp_path / "a.zarr", tmp_path / f"b.{ending}", code=32).output
    assert os.listdir(tmp_path) == ["a.zarr"]
    codecfs("convert", "--format", "hdf5", tmp_path / "a.zarr", tmp_path / f"b.{ending}")
    with h5py.File(tmp_path / f"b.{ending}") as f:
        assert (f["x"][...] == np.arange(6)).all()


def test_errors_leave_nothing(tmp_path):
    (tmp_path / "there").mkdir()
    assert "exists" in codecfs("convert", DATA / "hdf5/layouts.h5", tmp_path / "there", code=32).output
    assert "No such file" in codecfs("convert", tmp_path / "nowhere", tmp_path / "b.zarr", code=32).output
    assert "no Zarr" in codecfs("convert", DATA / "hdf5/types_without_zarr_form.h5", tmp_path / "b.zarr", code=32).output
    assert "--format" in codecfs("convert", "--format", "tar", DATA / "hdf5/layouts.h5", tmp_path / "b", code=1).output
    assert os.listdir(tmp_path) == ["there"]


def begin(source, made, *words):
    return subprocess.Popen([CODECFS, "convert", *words, source, made], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("form", ["zarr", "zarr3", "hdf5", "zip"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_one_is_resumed(tmp_path, form, how):
    """The name appears with the whole; what was done is not done again."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        rng = np.random.default_rng(1)
        file.create_dataset("v", data=rng.integers(0, 50, (6000, 5000)).astype("i4"), chunks=(4, 5000), compression="gzip")
    made = tmp_path / "b"
    partial = tmp_path / "b.codecfs-partial"
    slow = ("-F", "*,shuffle|zstd,19")
    process = begin(source, made, "--format", form, *slow)
    deadline = time.monotonic() + 30
    # A file of the partial one appears when a chunk is there, but for HDF5 and archives.
    while not (partial.is_file() or sum(path.is_file() for path in partial.rglob("*")) > 20):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert process.returncode != 0 and not made.exists() and partial.exists()
    if how == signal.SIGINT:
        assert "--resume" in told
    assert "--resume" in codecfs("convert", "--format", form, *slow, source, made, code=32).output
    assert "another conversion" in codecfs("convert", "--format", form, "--resume", source, made, code=32).output
    told = codecfs("convert", "--format", form, *slow, "--resume", source, made).output
    if form in ("zarr", "zarr3"):
        assert "were there" in told
    codecfs("compare", source, made)
    left = [name for name in os.listdir(tmp_path) if name not in ("a.h5", "b")]
    assert left == []
    if form in ("zarr", "zarr3"):
        assert not [name for _, _, names in os.walk(made) for name in names if "codecfs" in name]


def many_small(path, count):
    """A store of Zarr v2 with scalars and short arrays, with and without names of dimensions."""
    group = zarr.open_group(str(path), "w")
    for i in range(count):
        shape = () if i % 2 == 0 else (3,)
        array = group.create_dataset(f"v{i}", shape=shape, chunks=shape or None, dtype="f8", compressor=None)
        array[...] = i + 0.5
        array.attrs["number"] = i
        if i % 4 == 3:
            array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    return path


def test_many_small_variables(tmp_path):
    codecfs("convert", many_small(tmp_path / "a.zarr", 400), tmp_path / "b.nc")
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert all(float(file[f"v{i}"][...].ravel()[-1]) == i + 0.5 and file[f"v{i}"].number == i for i in range(400))
        assert file["v3"].dimensions == file["v399"].dimensions == ("x",)


def workers_of(session):
    """Processes of a session that run libhdf5 and may write."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "codecfs-hdf5\n" and os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_end_of_the_process_that_writes_is_told_and_resumed(tmp_path):
    """Its changes since the last commit are lost: the command does not go on as if they were there."""
    source, made, partial = many_small(tmp_path / "a.zarr", 3000), tmp_path / "b.nc", tmp_path / "b.nc.codecfs-partial"
    process = subprocess.Popen([CODECFS, "convert", source, made], stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (partial.exists() and workers_of(process.pid)):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    signal_all(workers_of(process.pid))
    _, told = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was faster than the signal")
    assert "is lost" in told and not made.exists() and partial.exists()
    with h5py.File(partial, "r"):
        pass
    codecfs("convert", "--resume", source, made)
    codecfs("compare", source, made)


def test_a_changed_source_is_not_resumed(tmp_path):
    source = make_source(tmp_path / "a.nc")
    made = tmp_path / "b.zarr"
    (tmp_path / "b.zarr.codecfs-partial").mkdir()
    (tmp_path / "b.zarr.codecfs-partial.json").write_text("{}\n")
    assert "has changed" in codecfs("convert", "--resume", source, made, code=32).output
    assert not made.exists()


def test_files_from_before_a_power_cut_are_written_anew(tmp_path):
    """They may have their size and not their content."""
    source, made = make_source(tmp_path / "a.nc"), tmp_path / "b.zarr"
    partial, note = tmp_path / "b.zarr.codecfs-partial", tmp_path / "b.zarr.codecfs-partial.json"
    codecfs("convert", source, tmp_path / "whole.zarr")
    process = begin(source, made)
    while not note.exists() or not note.read_text().endswith("\n"):
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=60)
    if made.exists():
        pytest.skip("it was faster than the signal")
    identity, boot = note.read_text().splitlines()
    assert boot == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(tmp_path / "whole.zarr", partial)
    chunk = partial / "t/0.0.0"
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    note.write_text(f"{identity}\nanother boot\n")
    assert "were there" not in codecfs("convert", "--resume", source, made).output
    codecfs("compare", source, made)


def test_rules_that_cannot_work_leave_nothing(tmp_path):
    source = make_source(tmp_path / "a.nc")
    assert "szip" in codecfs("convert", "-F", "/g/names,szip,32,8", source, tmp_path / "b.nc", code=32).output
    assert os.listdir(tmp_path) == ["a.nc"]


def test_a_full_disk(tmp_path, small_disk):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file["v"] = np.random.default_rng(1).integers(0, 2**31, (64, 65536)).astype("i4")
    for form in ("zarr", "hdf5"):
        disk = small_disk("8m")
        made = disk / f"b.{form}"
        assert "No space left" in codecfs("convert", "--format", form, source, made, code=32).output
        assert not made.exists()
        for left in disk.glob("b*"):
            run("rm", "-r", left)


@pytest.mark.parametrize("form", ["hdf5", "zip"])
def test_a_full_disk_is_not_told_for_each_chunk(tmp_path, small_disk, form):
    values = np.random.default_rng(1).integers(0, 1 << 60, (2000, 500))
    zarr.open_group(str(tmp_path / "a.zarr"), "w").create_dataset("v", data=values, chunks=(1, 500), compressor=None)
    disk = small_disk("4m")
    told = codecfs("convert", "-F", "*,deflate,1", "--format", form, tmp_path / "a.zarr", disk / "b", code=32).output.splitlines()
    assert 2 < len(told) < 20 and any("more attempts to store chunks failed" in line for line in told), len(told)


def test_a_dataset_is_not_converted_into_itself(tmp_path):
    zarr.save_array(str(tmp_path / "a.zarr/v"), np.arange(9))
    zarr.open_group(str(tmp_path / "a.zarr"), "a")
    (tmp_path / "link").symlink_to("a.zarr/v")
    for name in ("a.zarr/b.zarr", "a.zarr/v/b.h5", "link/b.zip", "a.zarr/../a.zarr/b"):
        assert "in the source itself" in codecfs("convert", tmp_path / "a.zarr", tmp_path / name, code=32).output
    assert sorted(os.listdir(tmp_path / "a.zarr")) == [".zgroup", "v"]
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "a.zarr2")


def test_members_that_cannot_be_read_are_not_left_out_silently(tmp_path):
    """Neither by convert nor by the commands that look for damage and differences."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["g/v"], f["w"] = np.arange(1000), 1
        f.create_dataset("a", data=np.arange(50), chunks=(10,))  # before it in listings
        address = h5py.h5o.get_info(f["g/v"].id).addr
    whole = path.read_bytes()
    (tmp_path / "whole.h5").write_bytes(whole)
    path.write_bytes(whole[:address] + bytes(16) + whole[address + 16:])
    found = json.loads(codecfs("verify", "--json", path, code=None).stdout)
    assert [item["path"] for item in found["damaged"]] == ["/g/v"]
    codecfs("verify", path, code=2)
    assert "/g/v" in codecfs("compare", path, tmp_path / "whole.h5", code=3).output
    assert "! " in codecfs("info", path).output
    for words in (["convert", path, tmp_path / "b.zarr"], ["recode", "-F", "*,deflate,1", path], ["refs", path]):
        assert "/g/v: " in codecfs(*words, code=32).output
    assert path.read_bytes() == whole[:address] + bytes(16) + whole[address + 16:] and not (tmp_path / "b.zarr").exists()
    codecfs("convert", path, tmp_path / "b.zarr", "--skip", "g/v")
    assert zarr.open_group(str(tmp_path / "b.zarr"), "r")["w"][()] == 1


def test_links_in_a_directory_are_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["g/v"] = np.arange(5)
        f["hard"], f["soft"], f["dangling"] = f["g/v"], h5py.SoftLink("/g/v"), h5py.SoftLink("/no/where")
        f["one"], f["two"] = h5py.ExternalLink("o.h5", "/v"), h5py.ExternalLink("p.h5", "/v")
    for words in [], ["--format", "zarr3"]:
        told = codecfs("convert", *words, tmp_path / "a.h5", tmp_path / "b.zarr").output.splitlines()
        assert sum("symbolic link" in line for line in told) == 2, told
        assert any("3 links (the first is /dangling -> no/where) became symbolic links" in line for line in told)
        assert any("2 links (the first is /one -> " in line and "lead nowhere" in line for line in told)
        assert os.readlink(tmp_path / "b.zarr/soft") == "g/v"
        shutil.rmtree(tmp_path / "b.zarr")
    told = codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zip").output.splitlines()
    assert sum("warning" in line for line in told) == 1, told
    assert any("5 links (the first is /dangling -> no/where): readers do not see them" in line for line in told)
    with h5py.File(tmp_path / "c.h5", "w") as f:
        f["v"] = np.arange(5)
    assert "symbolic" not in codecfs("convert", tmp_path / "c.h5", tmp_path / "c.zarr").output


@pytest.mark.parametrize("words", [[], ["--format", "zarr3"]])
def test_only_the_root_has_consolidated_metadata(tmp_path, words):
    """That of all groups would grow with the square of their depth."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["/".join("g" * 100) + "/v"] = np.arange(5)
    codecfs("convert", *words, tmp_path / "a.h5", tmp_path / "b")
    found = [path for path in (tmp_path / "b").rglob("*") if path.name == ".zmetadata" or
             path.name == "zarr.json" and "consolidated_metadata" in path.read_text()]
    assert found == [tmp_path / "b" / ("zarr.json" if words else ".zmetadata")]
    assert len(found[0].read_text()) > 100 * 50
    codecfs("compare", tmp_path / "a.h5", tmp_path / "b")


def test_a_store_without_its_group_file(tmp_path):
    zarr.save_array(str(tmp_path / "a.zarr/v"), np.arange(9))
    told = codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5", code=32).output
    assert "is a folder of datasets" in told and ".zgroup" in told
    (tmp_path / "a.zarr/.zgroup").write_text('{"zarr_format": 2}')
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    assert (h5py.File(tmp_path / "b.h5")["v"][...] == np.arange(9)).all()


@pytest.mark.parametrize("nested", [False, True])
def test_shards_with_damaged_indexes_are_not_copied(tmp_path, nested):
    """Only the bytes of their chunks are passed through unseen."""
    inner = [sharding([2, 2], [LITTLE], index_codecs=[LITTLE, named("crc32c")], index_location="end")] if nested else [LITTLE]
    write_group(tmp_path / "a.zarr")
    for name in "vw":
        write_array(tmp_path / "a.zarr" / name, np.arange(16 * 8).reshape(16, 8), (8, 8),
                    [sharding([4, 4], inner, index_codecs=[LITTLE, named("crc32c")], index_location="end")], "int64", 0, 0)
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.zarr")
    shard = tmp_path / "a.zarr/v/c/1/0"
    whole = shard.read_bytes()
    assert (tmp_path / "b.zarr/v/c/1/0").read_bytes() == whole
    # An index of 4 chunks has 16 bytes for each, and 4 of a checksum.
    begin, size = map(int, np.frombuffer(whole[-68:-52], "<u8"))
    for at, is_damage in ((len(whole) - 10, True), (begin + size - 1, nested), (begin + 40, False)):
        shard.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        shutil.rmtree(tmp_path / "c.zarr", ignore_errors=True)
        if is_damage:
            told = codecfs("convert", tmp_path / "a.zarr", tmp_path / "c.zarr", code=32).output
            assert "/v/c/1/0: " in told and "index" in told and "--skip" in told and not (tmp_path / "c.zarr").exists()
            codecfs("verify", tmp_path / "a.zarr", code=2)
            for left in tmp_path.glob("c.zarr.*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            codecfs("convert", "--skip", "v", tmp_path / "a.zarr", tmp_path / "c.zarr")
            assert (tmp_path / "c.zarr/w/c/1/0").exists() and not (tmp_path / "c.zarr/v").exists()
        else:
            codecfs("convert", tmp_path / "a.zarr", tmp_path / "c.zarr")


@pytest.mark.parametrize("name, words", [("b.zarr", []), ("b3", ["--format", "zarr3"]), ("b.zip", [])])
def test_variables_and_groups_are_left_out(tmp_path, name, words):
    values = np.arange(20, dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = f["g/v"] = f["g/h/w"] = f["gg"] = values
        f.create_dataset("references", (2,), dtype=h5py.ref_dtype)[0] = f["v"].ref
        f.attrs["metadata"] = "references"
    source, made = tmp_path / "a.h5", tmp_path / name
    told = codecfs("convert", *words, source, made, code=32).output
    assert "/references: " in told and "--skip" in told and not made.exists()
    assert "--skip /nowhere: not in" in codecfs("convert", *words, source, made, "--skip", "nowhere", code=32).output
    assert sorted(os.listdir(tmp_path)) == ["a.h5"]
    codecfs("convert", *words, source, made, "--skip", "/references", "--skip", "g/h/")
    info = json.loads(codecfs("info", "--json", made).stdout)
    assert sorted(v["path"] for v in info["variables"]) == ["/g/v", "/gg", "/v"]
    if name == "b.zip":
        group = zarr.open_group(zarr.ZipStore(str(made), mode="r"), "r")
        assert sorted(group) == ["g", "gg", "v"] and (group["g/v"][...] == values).all()
        return
    if name != "b3":
        group = zarr.open_consolidated(zarr.DirectoryStore(str(made)))
        assert sorted(group) == ["g", "gg", "v"] and list(group["g"]) == ["v"] and (group["g/v"][...] == values).all()
        assert group.attrs["metadata"] == "references"
    else:
        listed = json.loads((made / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
        assert sorted(listed) == ["g", "g/v", "gg", "v"]


def damage_type(path, name):
    """The version in the datatype message becomes one that does not exist, so that the dataset cannot be opened."""
    with h5py.File(path) as f:
        address = h5py.h5o.get_info(f[name].id).addr
        kind = f[name].id.get_type().get_class()
    whole = bytearray(path.read_bytes())
    at = next(i for i in range(address, address + 272) if whole[i] == 0x10 | kind)
    whole[at] = 0xf0 | kind
    path.write_bytes(whole)


@pytest.mark.parametrize("words", [["--format", form] for form in ("zarr", "zarr3", "zip", "nczarr")])
def test_all_that_cannot_be_opened_is_told(tmp_path, words):
    """--skip-unsupported never covers damage."""
    path, made = tmp_path / "a.h5", tmp_path / "made"
    with h5py.File(path, "w") as f:
        f["whole"], f["g/bad"], f["worse"] = np.arange(30), np.arange(40), np.arange(50.)
        f.create_dataset("references", (2,), dtype=h5py.ref_dtype)[0] = f["whole"].ref
    for name in "g/bad", "worse":
        damage_type(path, name)
        with h5py.File(path) as f, pytest.raises((KeyError, OSError)):
            f[name]
    for more in [], ["--skip-unsupported"]:
        told = codecfs("convert", *words, *more, path, made, code=32).output
        assert "/g/bad: " in told and "/worse: " in told and ("/references: " in told) == (not more), told
        assert os.listdir(tmp_path) == ["a.h5"]
    told = codecfs("convert", *words, "--skip", "g/bad", "--skip-unsupported", path, made, code=32).output
    assert "/worse: " in told and "/g/bad" not in told
    told = codecfs("convert", *words, "--skip", "worse", "--skip", "g/bad", "--skip-unsupported", path, made).output
    for name in "/g/bad", "/worse", "/references":
        assert f"left out: {name}: " in told
    assert [v["path"] for v in json.loads(codecfs("info", "--json", made).stdout)["variables"]] == ["/whole"]


def test_what_zarr3_has_no_form_for(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["a"] = np.arange(5)
        for name in "uv":
            f.create_dataset(f"g/{name}", (3,), dtype=h5py.vlen_dtype("i4"))  # nothing is stored
    told = codecfs("convert", "--format", "zarr3", tmp_path / "a.h5", tmp_path / "b", code=32).output
    assert "/g/u: " in told and "/g/v: " in told and not (tmp_path / "b").exists()
    told = codecfs("convert", "--format", "zarr3", "--skip-unsupported", tmp_path / "a.h5", tmp_path / "b").output
    assert "/g/u: " in told and "/g/v: " in told
    assert sorted(os.listdir(tmp_path / "b")) == ["a", "g", "zarr.json"] and os.listdir(tmp_path / "b/g") == ["zarr.json"]
    assert sorted(json.loads((tmp_path / "b/zarr.json").read_text())["consolidated_metadata"]["metadata"]) == ["a", "g"]


def test_what_hdf5_has_no_form_for_is_left_out_alone(tmp_path):
    source = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    values = np.arange(60).reshape(6, 10)
    for name in "abc":
        source.create_dataset(name, data=values, chunks=(3, 10), compressor=None)
    for name in "long", "z":
        source.create_dataset(name, data=np.zeros(3, "f16"))
        source[name].attrs["units"] = "m"
    told = codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5", code=32).output
    assert "/long" in told and "/z" in told and sorted(os.listdir(tmp_path)) == ["a.zarr"]
    told = codecfs("convert", "--skip-unsupported", tmp_path / "a.zarr", tmp_path / "b.h5").output
    assert "left out: /long: " in told and "left out: /z: " in told
    with h5py.File(tmp_path / "b.h5") as f:
        assert sorted(f) == ["a", "b", "c"] and all((f[name][...] == values).all() for name in f)


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip", "nczarr"])
def test_attributes_that_cannot_be_read_are_not_replaced(tmp_path, form):
    """zarr.json of a mount shows the reason in their place, which must not become an attribute of the copy."""
    damaged_message(tmp_path / "a.h5", "version")
    told = codecfs("convert", "--format", form, tmp_path / "a.h5", tmp_path / "b", code=32).output
    assert "/v: " in told and "/g: " in told and not (tmp_path / "b").exists()
    codecfs("convert", "--format", form, "--skip-unsupported", tmp_path / "a.h5", tmp_path / "c", code=32)
    for left in tmp_path.glob("*partial*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    codecfs("convert", "--format", form, "--skip", "v", "--skip", "g", tmp_path / "a.h5", tmp_path / "d")
    assert [v["path"] for v in json.loads(codecfs("info", "--json", tmp_path / "d").stdout)["variables"]] == ["/w"]


RULES = [("v,szip,4,16", "szip"), ("v,lzf", "lzf"), ("nowhere,deflate,1", "no such variable"), ("g,deflate,1", "is a group"),
         ("scalar,deflate,1", "scalar")]


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
@pytest.mark.parametrize("rule, reason", RULES)
def test_a_rule_for_a_named_variable_is_kept_or_fails(tmp_path, form, rule, reason):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(4096, dtype="i4"), chunks=(1024,))
        f["scalar"], f["g/w"] = 1, np.arange(5)
    told = codecfs("convert", "--format", form, "-F", rule, tmp_path / "a.h5", tmp_path / "b", code=32).output
    assert reason in told and os.listdir(tmp_path) == ["a.h5"]


def test_a_rule_for_all_variables_tells_where_it_is_not_kept(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(4096, dtype="i4"), chunks=(1024,))
    told = codecfs("convert", "-F", "*,lzf", tmp_path / "a.h5", tmp_path / "b.zarr").output
    assert "warning" in told and "/v: lzf" in told
    assert json.loads((tmp_path / "b.zarr/v/.zarray").read_text())["compressor"] is None


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
def test_texts_that_hdf5_gives_no_such_filter(tmp_path, form):
    """fletcher32 is not for strings of variable length in HDF5: they keep their own filters, and are in the copy."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name in "text", "g/more":
            f.create_dataset(name, data=["a", "bc", "d" * 100], dtype=h5py.string_dtype(), chunks=(2,))
        f.create_dataset("x", data=np.arange(1000), chunks=(100,))
    codecfs("convert", "--format", form, "-F", "*,deflate,1", tmp_path / "a.h5", tmp_path / "a")
    one = [CODECFS, "convert", "-F", "text,fletcher32", tmp_path / "a", tmp_path / "b.h5"]
    hdf5 = libhdf5_version()
    if int(hdf5[1]) >= 2 and run(*one, code=None).returncode == 0:
        with h5py.File(tmp_path / "b.h5") as f:  # HDF5 2.2 gives it to them, and 1.10 reads them; 2.0 refuses
            assert f["text"].fletcher32 and f["text"].asstr()[:].tolist() == ["a", "bc", "d" * 100] and not f["g/more"].fletcher32
        pytest.skip(f"{hdf5[0]} has this filter for these strings")
    for more in [], ["--skip-unsupported"]:
        told = codecfs("convert", *more, "-F", "*,shuffle|fletcher32", tmp_path / "a", tmp_path / "b.h5").output
        assert "2 variables are not given the filters of the rule for all variables: the first is /" in told
        assert "left out" not in told
        with h5py.File(tmp_path / "b.h5") as f:
            assert f["x"].fletcher32 and f["x"].shuffle and f["x"][:].tolist() == list(range(1000))
            for name in "text", "g/more":
                assert f[name].asstr()[:].tolist() == ["a", "bc", "d" * 100] and not f[name].fletcher32
        os.remove(tmp_path / "b.h5")
        told = codecfs("convert", *more, "-F", "text,fletcher32", tmp_path / "a", tmp_path / "b.h5", code=32).output
        assert 'filter rule "text,fletcher32": /text: ' in told and "skip" not in told
        assert sorted(os.listdir(tmp_path)) == ["a", "a.h5"]


def test_a_rule_for_shards_that_are_copied(tmp_path):
    write_group(tmp_path / "a.zarr")
    write_array(tmp_path / "a.zarr/v", np.arange(64).reshape(8, 8), (8, 8), [sharding([4, 4], [LITTLE])], "int64", 0, 0)
    told = codecfs("convert", "-F", "v,zstd,3", tmp_path / "a.zarr", tmp_path / "b.zarr", code=32).output
    assert "/v: its shards" in told
    assert "warning" in codecfs("convert", "-F", "*,zstd,3", tmp_path / "a.zarr", tmp_path / "b.zarr").output
    codecfs("convert", "--format", "zarr", "-F", "v,zstd,3", tmp_path / "a.zarr", tmp_path / "c.zarr")
    assert json.loads((tmp_path / "c.zarr/v/.zarray").read_text())["compressor"]["id"] == "zstd"


def test_paths_that_are_too_long(tmp_path):
    """Refused with the path, and nothing is written; in an archive or an HDF5 file it is kept."""
    source, names = tmp_path / "a.h5", ["g" * 250] * 20
    with h5py.File(source, "w") as file:
        file["near"] = np.arange(3)
        file["/".join(names) + "/far"] = np.arange(5)
    for format in ("zarr", "zarr3", "nczarr"):
        told = codecfs("convert", "--format", format, source, tmp_path / "out", code=32).output
        assert "/" + "/".join(names[:15]) in told and "4095" in told, told[-300:]
        assert os.listdir(tmp_path) == ["a.h5"]
    codecfs("convert", "--skip", "/" + names[0], source, tmp_path / "skipped")
    assert zarr.open(str(tmp_path / "skipped"), mode="r")["near"][:].tolist() == [0, 1, 2]
    codecfs("convert", source, tmp_path / "b.zip")
    codecfs("compare", source, tmp_path / "b.zip")
    codecfs("convert", tmp_path / "b.zip", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["/".join(names) + "/far"][:].tolist() == list(range(5))


def test_a_directory_with_paths_that_are_too_long(tmp_path):
    """What cannot be opened by its path is not taken for absent."""
    source = tmp_path / "a.zarr"
    source.mkdir()
    at = os.open(source, os.O_RDONLY)
    for depth in range(20):
        with os.fdopen(os.open(".zgroup", os.O_WRONLY | os.O_CREAT, dir_fd=at), "w") as file:
            file.write('{"zarr_format": 2}')
        os.mkdir("g" * 250, dir_fd=at)
        at = os.open("g" * 250, os.O_RDONLY, dir_fd=at)
    told = codecfs("convert", source, tmp_path / "b.h5", code=32).output
    assert "g" * 250 + "/" + "g" * 250 in told, told[-300:]
    assert os.listdir(tmp_path) == ["a.zarr"]
    shutil.rmtree(source)


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip", "nczarr"])
def test_attributes_without_a_form(tmp_path, form):
    """References, and more than is read of an attribute: the copy is refused, or lists what it lacks."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        f["v"], f["w"], f["w2"], f["v@ref"] = np.arange(6.), np.arange(3), np.arange(3), np.arange(2)
        f.attrs["ref"] = f["v"].ref
        f["v"].attrs["a/b"] = np.array([f["w"].ref, f["v"].ref], h5py.ref_dtype)
        f["v"].attrs["region"], f["v"].attrs["units"] = f["w"].regionref[1:2], "m"
        f.create_group("g").attrs["big"] = np.zeros(3 << 20)
        f["w"].make_scale("w")
        f["w2"].dims[0].attach_scale(f["w"])  # by references, which Zarr has as names
    missing = ["/@ref", "/v@a/b", "/v@region", "/g@big"]
    told = codecfs("convert", "--format", form, tmp_path / "a.h5", tmp_path / "b", code=32).output
    assert all(f"codecfs: {path}: " in told for path in missing) and "DIMENSION_LIST" not in told
    assert "4 variables, groups or attributes cannot be converted" in told and not (tmp_path / "b").exists()

    told = codecfs("convert", "--format", form, "--skip-unsupported", tmp_path / "a.h5", tmp_path / "b").output
    assert all(f"left out: {path}: " in told for path in missing)
    told = codecfs("convert", "--format", form, *[word for path in missing for word in ("--skip", path)], tmp_path / "a.h5",
                   tmp_path / "c").output
    assert all(f"left out: {path}: --skip" in told for path in missing)
    for name in "b", "c":
        codecfs("convert", tmp_path / name, tmp_path / f"{name}.h5")
        with h5py.File(tmp_path / f"{name}.h5") as f:
            assert f["v"][...].tolist() == list(range(6)) and f["v"].attrs["units"] in ("m", b"m")
            assert f["v@ref"][...].tolist() == [0, 1] and f["w2"].dims[0][0].name == "/w" and not f["g"].attrs
    for wrong, reason in ("v@units", "only those that cannot be copied"), ("v@nothing", "only those"), ("u@ref", "not in"):
        assert reason in codecfs("convert", "--format", form, "--skip", wrong, "--skip-unsupported", tmp_path / "a.h5", tmp_path / "d",
                                 code=32).output
    assert "not in" in codecfs("convert", "--format", "hdf5", "--skip", "v@region", tmp_path / "a.h5", tmp_path / "d", code=32).output
    codecfs("convert", "--format", "hdf5", tmp_path / "a.h5", tmp_path / "d")
    with h5py.File(tmp_path / "d") as f:
        assert f[f.attrs["ref"]].name == "/v" and f["g"].attrs["big"].size == 3 << 20


def damage_values(path, name):
    """The values of an attribute of strings get a place behind the end of the file."""
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL").to_bytes(8, "little")
    at = content.index(heap, content.index(name.encode() + b"\0"))
    content[at:at + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content)
    with h5py.File(path) as f, pytest.raises(OSError):
        f["v"].attrs[name]


@pytest.mark.parametrize("form", ["zarr", "zarr3", "nczarr"])
@pytest.mark.parametrize("isolation", ["on", "off"])
def test_one_attribute_that_cannot_be_read(tmp_path, form, isolation):
    """With isolation, no attribute of an object is read any more after libhdf5 has found damage in one."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = np.arange(6.)
        f["v"].attrs["number"], f["v"].attrs["texts"] = 1, ["some", "texts"]
    damage_values(tmp_path / "a.h5", "texts")
    options = ["-O", f"isolate={isolation}"]
    found = codecfs("verify", "--json", *options, tmp_path / "a.h5", code=None, text=False)
    [damage] = json.loads(found.stdout)["damaged"]
    assert found.returncode == 2 and damage["path"] == "/v" and "attribute" in damage["reason"]
    convert = ["convert", "--format", form, *options, tmp_path / "a.h5", tmp_path / "b"]
    path = "/v" if isolation == "on" else "/v@texts"
    for words in [], ["--skip-unsupported"]:
        told = codecfs(*convert, *words, code=32).output
        assert f"codecfs: {path}: " in told and f"--skip {path} leaves it out" in told
        assert os.listdir(tmp_path) == ["a.h5"]
    assert f"left out: {path}: --skip" in codecfs(*convert, "--skip", path).output
    codecfs("convert", tmp_path / "b", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert isolation == "on" or (f["v"].attrs["number"] == 1 and "texts" not in f["v"].attrs and f["v"].size == 6)


@pytest.mark.parametrize("version", [2, 3])
def test_texts_of_xarray_in_netcdf(tmp_path, version):
    """numpy's text of UTF-32 is a string in a netCDF file; in other HDF5 files it is what h5py has for it."""
    words = np.array([["a", "bcd", ""], ["tëxt", "\U0001f600", "x"]])
    store = tmp_path / "a.zarr"
    if version == 2:
        group = zarr.open_group(str(store), "w")
        for name in "named", "alone":
            group.create_dataset(name, data=words, chunks=(2, 2), fill_value=None)
        group["named"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    else:
        for name, names in ("named", ["y", "x"]), ("alone", None):
            (store / name).mkdir(parents=True)
            padded = np.array([["a", "bcd"], ["tëxt", "\U0001f600"]], "<U4"), np.array([["", ""], ["x", ""]], "<U4")
            (store / name / "c/0").mkdir(parents=True)
            for i, chunk in enumerate(padded):
                (store / name / f"c/0/{i}").write_bytes(chunk.tobytes())
            (store / name / "zarr.json").write_text(json.dumps({
                "zarr_format": 3, "node_type": "array", "shape": [2, 3], "dimension_names": names, "attributes": {},
                "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}, "fill_value": "",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
                "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}))
        (store / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    codecfs("convert", store, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as f:
        assert f["named"][...].tolist() == words.tolist() and f["named"].dimensions == ("y", "x")
    codecfs("compare", store, tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.nc", "r+") as f:
        f["named"][1, 1] = "another"
    codecfs("compare", store, tmp_path / "a.nc", code=2)
    shutil.rmtree(store / "named")
    if version == 2:
        codecfs("convert", store, tmp_path / "a.h5")
        with h5py.File(tmp_path / "a.h5") as f:
            assert f["alone"].dtype == words.dtype and f["alone"][...].tolist() == words.tolist()
