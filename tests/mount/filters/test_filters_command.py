"""codecfs filters: the list, and the trial of a library. HDF5 itself, through h5py, is the judge of what a filter makes."""
import os
import re
import sys

import pytest

from filter_plugins import DEBIAN, OURS, compile_plugin
from running import codecfs, run

TYPES = {"int8": "i1", "uint8": "u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8",
         "uint64": "<u8", "float32": "<f4", "float64": "<f8", "big-endian int32": ">i4", "big-endian float64": ">f8",
         "text of 8 bytes": "S8"}


def filters(*arguments, path="", code=0):
    done = codecfs("filters", *arguments, seconds=300, env={"HDF5_PLUGIN_PATH": str(path)}, code=None)
    assert done.returncode in ((0, 2) if code is None else (code,)), done.stdout + done.stderr
    return done.stdout if done.returncode in (0, 2) else done.stderr


def by_hdf5(path, program):
    """What a program prints in a process whose libhdf5 has these plugins."""
    return run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(path)}).stdout


def sizes_of(text):
    """{type: {sample: encoded bytes}} of a report."""
    found = {}
    for name in TYPES:
        line = next(line for line in text.splitlines() if line.startswith(name + " "))
        found[name] = {sample: int(size) for sample, size in re.findall(r"  (\w+) (\d+)", line)}
    return found


def test_the_list_has_what_a_mount_shows(mount, tmp_path):
    import h5py
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = [1, 2, 3]
    mounted = mount(tmp_path / "a.h5", f"ro,plugin_path={DEBIAN},builtin=off:bzip2", env={"HDF5_PLUGIN_PATH": ""})
    shown = (mounted.path / ".codecfs/filters").read_text()
    mounted.close()
    listed = filters("-O", f"plugin_path={DEBIAN},builtin=off:bzip2")
    without_workers = [[line for line in text.splitlines() if not line.startswith(("# workers", "# libhdf5 runs"))]
                       for text in (shown, listed)]
    assert without_workers[0] == without_workers[1]
    assert re.search(rf"^307 .*{DEBIAN}/libh5bz2.so", listed, re.M)


def test_the_list_has_what_hdf5_can_load():
    """All filters of the project's own plugins, with what HDF5 says of both directions."""
    ids = re.findall(r"^(\d+) ", listed := filters("-O", "builtin=off", path=OURS), re.M)
    said = by_hdf5(OURS, f"""
import h5py
for id in {[int(one) for one in ids]}:
    if h5py.h5z.filter_avail(id):
        flags = h5py.h5z.get_filter_info(id)
        print(id, bool(flags & h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED), bool(flags & h5py.h5z.FILTER_CONFIG_DECODE_ENABLED))
""")
    theirs = {one.split()[0]: one.split()[1:] for one in said.splitlines()}
    ours = {}
    for line in listed.splitlines():
        cells = re.split(r"  +", line.strip())
        if cells[0] in ids and OURS in cells[3] and cells[4] != "-":
            ours[cells[0]] = [str("write" in cells[4]), str("read" in cells[4])]
    assert len(ours) >= 4 and ours == {id: theirs[id] for id in ours}


def test_libraries_that_are_not_used_are_listed(tmp_path):
    (tmp_path / "libbad.so").write_bytes(b"\177ELF" + bytes(100) + b"H5PLget_plugin_info")
    listed = filters(path=tmp_path)
    assert f"# searched {tmp_path}: 1 plugin" in listed and f"# not used {tmp_path}/libbad.so: " in listed
    assert f"# searched {tmp_path}/none: No such file" in filters("-O", f"plugin_path={tmp_path}/none")
    assert "plugins=off" in filters("-O", "plugins=off", path=tmp_path)


@pytest.mark.parametrize("name, id, parameters", [("libh5bz2.so", 307, (9,)), ("libh5lz4.so", 32004, ())])
def test_a_trial_makes_what_hdf5_stores(name, id, parameters, tmp_path):
    """Of counting numbers and zeros: a chunk of the same numbers takes as many bytes in a file that libhdf5 writes."""
    library = os.path.join(DEBIAN, name)
    if not os.path.exists(library):  # by another name in newer releases
        library = next(os.path.join(DEBIAN, one) for one in sorted(os.listdir(DEBIAN)) if name[5:8] in one)
    words = ["--parameters", ",".join(map(str, parameters))] if parameters else []
    text = filters("--check", library, *words, code=None)
    assert f"HDF5 filter {id} " in text
    # Debian's bzip2 does not come to an end with a chunk that was cut.
    faults = [line for line in text.splitlines() if line.startswith("FAULT")]
    assert not faults or id == 307 and len(faults) == 1 and faults[0].startswith("FAULT damaged chunks: "), faults
    assert all("; exact" in line for line in text.splitlines() if line.startswith(tuple(TYPES)))
    said = by_hdf5(DEBIAN, f"""
import h5py, numpy
for name, dtype in {TYPES}.items():
    for sample in ("zeros", "counting"):
        data = numpy.arange(4096) * (sample == "counting")
        data = (numpy.array([str(i) if i else "" for i in data.tolist()], "S8") if dtype == "S8"
                else data.astype(dtype)).reshape(64, 64)
        with h5py.File("core", "w", driver="core", backing_store=False) as f:
            v = f.create_dataset("v", (128, 128), dtype, chunks=(64, 64), compression={id}, compression_opts={parameters})
            v[:64, :64] = data
            print(name, sample, v.id.get_chunk_info(0).size, sep="|")
""")
    sizes = sizes_of(text)
    for line in said.splitlines():
        of, sample, size = line.split("|")
        assert sizes[of][sample] == int(size), (of, sample)


def test_set_local_and_can_apply_are_called(tmp_path):
    compile_plugin("completing_filter.c", tmp_path / "libcompleting.so")
    text = filters("--check", tmp_path / "libcompleting.so", "--parameters", "7")
    assert "set_local" in text and "parameters: 7" in text
    assert re.search(r"^int16 .*; parameters 2,7$", text, re.M) and re.search(r"^float64 .*; parameters 8,7$", text, re.M)
    compile_plugin("mask_filter.c", tmp_path / "libmask.so", "-DCANNOT_APPLY")
    text = filters("--check", tmp_path / "libmask.so")
    assert len(re.findall("not applied: it cannot be applied", text)) == len(TYPES)


def test_both_halves_are_tried(tmp_path):
    compile_plugin("mask_codec.c", tmp_path / "libmaskcodec.so", "-Wl,--no-as-needed", "-lnetcdf")
    text = filters("--check", tmp_path / "libmaskcodec.so", "--parameters", '{"id": "mask", "value": 777, "behaviour": 0}')
    assert 'codec "mask" of filter 32900, NCZ_modify_parameters' in text
    assert 'codec "mask", int8: stores 9,0' in text, text  # 777 % 256
    assert '"value": 9' in text and "No faults" in text
    compile_plugin("grow_filter.c", tmp_path / "libgrow.so")
    text = filters("--check", tmp_path / "libgrow.so", "--parameters", "100")
    assert "random 3276800" in next(line for line in text.splitlines() if line.startswith("float64 "))
    assert '{"id": "grow", "times": 100}' in text


@pytest.mark.parametrize("behaviour, says", [(1, "decoding: .*reports a failure"), (8, "decoded to 2048 bytes, not 4096"),
                                             (6, "decoding: .*gives no room"), (13, "encoding: .*Aborted")])
def test_faults_are_told(tmp_path, behaviour, says):
    compile_plugin("mask_filter.c", tmp_path / "libmask.so")
    text = filters("--check", tmp_path / "libmask.so", "--parameters", f"90,{behaviour}", code=2)
    assert re.search(f"^FAULT int8, zeros: {says}", text, re.M), text
    assert "Faults were found" in text


def test_a_declined_chunk_is_no_fault(tmp_path):
    """Which begins with 0xff: the random one of some types."""
    compile_plugin("mask_filter.c", tmp_path / "libmask.so")
    assert "No faults" in filters("--check", tmp_path / "libmask.so", "--parameters", "90,12")
    assert "random declined" in filters("--check", os.path.join(DEBIAN, "liblzf_filter.so"), code=None)


def test_a_decoder_that_crashes_on_damage_is_a_fault(tmp_path):
    source = tmp_path / "trusting.c"
    source.write_text('''
#include <H5PLextern.h>
#include <stdlib.h>
#include <string.h>
/* Stores the length in front, and believes it. */
static size_t f(unsigned flags, size_t n, const unsigned v[], size_t size, size_t* room, void** buffer) {
  size_t length = size;
  if (flags & H5Z_FLAG_REVERSE) memcpy(&length, *buffer, sizeof length);
  const size_t made = flags & H5Z_FLAG_REVERSE ? length : size + sizeof length;
  char* out = malloc(made);
  if (!out) abort();
  if (flags & H5Z_FLAG_REVERSE) memcpy(out, (char*)*buffer + sizeof length, length);
  else memcpy(out, &length, sizeof length), memcpy(out + sizeof length, *buffer, size);
  free(*buffer);
  *buffer = out;
  *room = made;
  return made;
}
static const H5Z_class2_t trusting = {H5Z_CLASS_T_VERS, 32910, 1, 1, "trusting", NULL, NULL, f};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &trusting; }
''')
    compile_plugin(source, tmp_path / "libtrusting.so")
    text = filters("--check", tmp_path / "libtrusting.so", code=2)
    assert re.search(r"^FAULT damaged chunks: .*(Aborted|Segmentation fault)", text, re.M), text
    assert text.count("; exact") == len(TYPES)


def test_what_keeps_a_mount_from_using_it(tmp_path):
    compile_plugin("mask_filter.c", tmp_path / "mask.so")
    os.chmod(tmp_path / "mask.so", 0o666)
    text = filters("--check", tmp_path / "mask.so", code=2)
    assert "FAULT not used by a mount: its name is not lib*.so" in text
    assert re.search("FAULT not used by a mount: .*can be written to by all users", text), text


def test_what_is_no_plugin(tmp_path):
    (tmp_path / "libtext.so").write_text("text")
    assert "H5PLget_plugin_info" in filters("--check", tmp_path / "libtext.so", code=32)
    assert "No such file" in filters("--check", tmp_path / "none.so", code=32)
    (tmp_path / "libbad.so").write_bytes(b"\177ELF" + bytes(100) + b"H5PLget_plugin_info")
    assert "libbad.so: " in filters("--check", tmp_path / "libbad.so", code=32)
    compile_plugin("mask_filter.c", tmp_path / "libmask.so")
    assert "no codec" in filters("--check", tmp_path / "libmask.so", "--parameters", '{"id": "mask"}', code=1)
    assert "character" in filters("--check", tmp_path / "libmask.so", "--parameters", "3.5", code=1)
    assert "needs --check" in filters("--parameters", "3", code=1)
