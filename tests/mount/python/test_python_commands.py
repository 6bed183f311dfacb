"""codecfs.convert, verify, compare and set_filter: their results, errors and progress; and what works without FUSE."""
import json
import os
import re
import shutil
import sys
import warnings

import h5py
import numpy as np
import pytest
import zarr

from conftest import DATA, wait_until
from python_package import grid, in_python, made_sample, no_mount_is_left, sample, site  # noqa: F401: fixtures
from running import run

import codecfs


def test_convert(sample, tmp_path):
    result = codecfs.convert(sample, tmp_path / "new.zarr", format="zarr3", filters=["*,shuffle|zstd,3"])
    assert (tmp_path / "new.zarr/zarr.json").exists() and result.target == str(tmp_path / "new.zarr")
    assert re.search(r"new\.zarr: 13 chunks, ", result.summary) and result.left_out == result.warnings == ()
    assert "13 chunks" in repr(result)
    assert codecfs.compare(sample, tmp_path / "new.zarr")
    with pytest.raises(codecfs.CodecfsError, match="new.zarr"):
        codecfs.convert(sample, tmp_path / "new.zarr")
    with pytest.raises(codecfs.CodecfsError, match="--format") as raised:
        codecfs.convert(sample, tmp_path / "other", format="nonsense")
    assert raised.value.exit_code == 1
    for wrong in ({"filters": "*,zstd"}, {"skip": "/lat"}, {"options": "ro"}):
        with pytest.raises(TypeError, match="not a string"):
            codecfs.convert(sample, tmp_path / "other", **wrong)


def test_convert_tells_what_is_left_out(tmp_path):
    source = DATA / "hdf5/types_without_zarr_form.h5"
    with pytest.raises(codecfs.CodecfsError, match="(?s)/references.*/ragged|/ragged.*/references") as raised:
        codecfs.convert(source, tmp_path / "a.zarr")
    assert "codecfs:" not in str(raised.value)
    with pytest.warns(codecfs.CodecfsWarning) as told:
        result = codecfs.convert(source, tmp_path / "a.zarr", skip_unsupported=True)
    assert any(text.startswith("/references") for text in result.left_out) and "left out: /ragged" in repr(result)
    assert len(told) == len(result.left_out) + len(result.warnings)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = codecfs.convert(source, tmp_path / "b.zarr", skip=["/references", "/ragged", "/compound_with_text", "/@reference"])
    assert len(result.left_out) == 4 == len(told)


def test_verify(sample):
    good = codecfs.verify(sample)
    assert good and (good.chunks, good.variables, good.damages, good.damaged, good.unchecked) == (13, 5, 0, (), ())
    assert repr(good) == f"<codecfs.Verification of {sample}: no damage, 13 chunks of 5 variables read>"
    bad = codecfs.verify(DATA / "hdf5/damaged_byte_under_fletcher32.h5")
    assert not bad and bad.damages == 1 and bad.lost_bytes == 4000
    (damage,) = bad.damaged
    assert (damage.path, damage.chunk, damage.region) == ("/v", "2.0", "[2:3, 0:1000]") and "fletcher32" in damage.reason
    assert f"  /v, chunk 2.0 [2:3, 0:1000]: {damage.reason}" in repr(bad).splitlines()
    unknown = codecfs.verify(DATA / "hdf5/filter_unknown.h5")
    assert not unknown and unknown.damages == 0 and unknown.unchecked[0].path == "/unknown"
    with pytest.raises(codecfs.CodecfsError, match="No such file") as raised:
        codecfs.verify("/nonexistent.nc")
    assert raised.value.exit_code == 32


def test_compare(sample, tmp_path):
    same = codecfs.compare(sample, sample)
    assert same and same.same_content and same.differences == 0 and "the same content" in repr(same)
    copy = shutil.copy(sample, tmp_path / "copy.nc")
    with h5py.File(copy, "r+") as file:
        file["temperature"].attrs["units"] = "kelvin"
    other = codecfs.compare(sample, copy)
    assert not other and not other.same_content and other.differences == 1
    (difference,) = other.different
    assert (difference.path, difference.kind) == ("/temperature", "content") and '"K", "kelvin"' in difference.text
    assert "  /temperature: attribute units:" in repr(other)
    for name, value in (("a", [5]), ("b", 5)):
        zarr.open_group(str(tmp_path / name), mode="w").attrs["x"] = value
    form = codecfs.compare(tmp_path / "a", tmp_path / "b")
    assert not form and form.same_content and form.different[0].kind == "form" and "(only the form differs)" in repr(form)
    incomplete = codecfs.compare(DATA / "hdf5/filter_unknown.h5", DATA / "hdf5/filter_unknown.h5")
    assert not incomplete and not incomplete.same_content and incomplete.not_compared


def test_set_filter(sample, tmp_path):
    assert codecfs.set_filter(sample, "temperature", "shuffle|zstd,3") == "2,4|32015,3"
    assert codecfs.info(sample, "temperature")["variables"][0]["filter"] == "2,4|32015,3"
    assert codecfs.set_filter(sample, "/ocean/salinity", "none") == "none"
    for variable, filters, reason in (("nothing", "none", "nothing"), ("temperature", "zstt", "did you mean zstd"),
                                      ("temperature", "deflate,44", "from 0 to 9")):
        with pytest.raises(codecfs.CodecfsError, match=reason):
            codecfs.set_filter(sample, variable, filters)
    with codecfs.mount(sample, writable=True) as path:
        assert codecfs.set_filter(path, "temperature", "deflate,2") == "1,2"
        with pytest.raises(codecfs.CodecfsError, match="from 0 to 9"):
            codecfs.set_filter(path, "temperature", "deflate,44")
    mounted = codecfs.mount(sample, writable=True)
    assert codecfs.set_filter(mounted, "temperature", "shuffle|deflate,1") == "2,4|1,1"
    mounted.close()
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        for name in ("a&b", "c,d", "e|f", "g\\h", "*"):
            file.create_dataset(name, data=range(10), chunks=(5,), dtype="i4")
    for name in ("a&b", "c,d", "e|f", "g\\h", "*"):
        assert codecfs.set_filter(tmp_path / "odd.h5", name, "shuffle") == "2,4"
        assert [entry["filter"] for entry in codecfs.info(tmp_path / "odd.h5")["variables"]].count("2,4") == 1, name
        codecfs.set_filter(tmp_path / "odd.h5", name, "none")


# --- progress


@pytest.fixture
def large(tmp_path):
    """Takes seconds to convert to a slow filter."""
    rng = np.random.default_rng(2)
    with h5py.File(tmp_path / "large.h5", "w") as file:
        v = file.create_dataset("v", (64, 1 << 18), "i4", chunks=(1, 1 << 18))
        for row in range(64):
            v[row] = rng.integers(0, 1000, 1 << 18)
    return tmp_path / "large.h5"


def test_a_function_is_called_with_the_progress(large, tmp_path):
    seen = []
    codecfs.convert(large, tmp_path / "new.zarr", filters=["*,deflate,9"], progress=seen.append)
    assert seen and all(isinstance(progress, codecfs.Progress) for progress in seen)
    done = [progress.done for progress in seen]
    assert done == sorted(done) and 0 <= done[0] and done[-1] <= 1
    assert seen[-1].what == f"converting {large}" and "of 64 chunks" in seen[-1].amounts
    assert re.fullmatch(r"converting .*large\.h5: \d+ %, \d+ of 64 chunks.*", str(seen[-1]))


def test_what_ends_it_leaves_nothing_that_runs(large, tmp_path):
    """As Ctrl-C does in a notebook; the same call goes on with resume=True."""
    class Stop(Exception):
        pass

    def stop(progress):
        if progress.done > 0.1:
            raise Stop

    with pytest.raises(Stop):
        codecfs.convert(large, tmp_path / "new.zarr", filters=["*,deflate,9"], progress=stop)
    assert not (tmp_path / "new.zarr").exists() and (tmp_path / "new.zarr.codecfs-partial").exists()
    assert run("pgrep", "-f", str(tmp_path / "new.zarr"), code=1).stdout == ""
    result = codecfs.convert(large, tmp_path / "new.zarr", filters=["*,deflate,9"], resume=True)
    assert "were there" in result.summary and codecfs.compare(large, tmp_path / "new.zarr")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A function program(stderr, stdout, code) that makes these what codecfs prints."""
    def make(stderr, stdout="", code=0):
        path = tmp_path / "program"
        path.write_text(f"#!/usr/bin/python3\nimport sys, time\nfor part in {stderr!r}:\n    sys.stderr.write(part)\n    "
                        f"sys.stderr.flush()\n    time.sleep(0.02)\nsys.stdout.write({stdout!r})\nsys.exit({code})\n")
        path.chmod(0o755)
        monkeypatch.setenv("CODECFS", str(path))

    return make


CLEAR = "\r\x1b[K"


def test_the_progress_of_the_program_is_understood(program, tmp_path):
    seen = []
    program([CLEAR + "converting a: b: 7 % [#...................], 1 of 14 chunks", CLEAR + "converting a: b: 50 ", "% [##########..........]",
             CLEAR, "codecfs: warning: one: 3 % more\n", CLEAR + "converting a: b: 99 % [###################.], 3 B of 4 B, 1 B/s, 0 s left",
             "codecfs: left out: /x: no form\ncodecfs: info: two\n", CLEAR + "converting a: b: begun", CLEAR], "a.zarr: 14 chunks, 1 B\n")
    with pytest.warns(codecfs.CodecfsWarning):
        result = codecfs.convert("a", "a.zarr", progress=seen.append)
    assert [(progress.what, progress.done, progress.amounts) for progress in seen] == [
        ("converting a: b", 0.07, "1 of 14 chunks"), ("converting a: b", 0.5, ""), ]
    assert result.warnings == ("one: 3 % more",) and result.left_out == ("/x: no form",) and result.summary == "a.zarr: 14 chunks, 1 B"
    program([CLEAR + "converting a: 7 % [#...................]", CLEAR, "codecfs: a: gone\nfor another reason\n"], code=32)
    with pytest.raises(codecfs.CodecfsError, match="^a: gone\nfor another reason$") as raised:
        codecfs.convert("a", "a.zarr", progress=seen.append)
    assert raised.value.exit_code == 32


BARS = [CLEAR + "verifying: 25 % [#####...............], 1 B of 4 B", CLEAR + "verifying: 75 % [###############.....], 3 B of 4 B", CLEAR]
FOUND = json.dumps({"source": "a", "groups": 1, "variables": 0, "chunks": 0, "stored_bytes": 0, "decoded_bytes": 0, "damages": 0,
                    "lost_bytes": 0, "damaged": [], "unchecked": []})


def test_where_progress_is_shown(program, capsys, monkeypatch):
    program(BARS, FOUND)
    codecfs.verify("a")
    assert capsys.readouterr().err == "", "stderr is no terminal"
    codecfs.verify("a", progress=True)
    assert capsys.readouterr().err == "verifying: 25 %, 1 B of 4 B\nverifying: 75 %, 3 B of 4 B\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    codecfs.verify("a", progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    codecfs.verify("a")
    assert capsys.readouterr().err == f"{CLEAR}verifying: 25 %, 1 B of 4 B{CLEAR}verifying: 75 %, 3 B of 4 B{CLEAR}"


def test_progress_in_a_notebook(program, monkeypatch):
    """What a kernel of Jupyter has of IPython. tests of real notebooks: test_python_notebook.py."""
    import types

    shown = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.HTML = str
    display.display = lambda page, display_id: shown.append(page) or types.SimpleNamespace(update=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    program([part.replace("verifying", "verifying <a>") for part in BARS], FOUND)
    codecfs.verify("a")
    assert len(shown) == 3 and '<progress value="0.25"' in shown[0] and "verifying &lt;a&gt;: 75 %, 3 B of 4 B" in shown[1] and shown[2] == ""
    codecfs.verify("a", progress=False)
    assert len(shown) == 3


# --- without FUSE, without the program


def test_without_the_program(monkeypatch, sample):
    monkeypatch.setenv("CODECFS", "/nonexistent/codecfs")
    for function in (codecfs.info, codecfs.open, codecfs.mount, codecfs.verify):
        with pytest.raises(codecfs.CodecfsError, match="cannot run /nonexistent/codecfs: No such file.*CODECFS"):
            function(sample)


WITHOUT_FUSE = """if True:
    import sys, codecfs
    source = sys.argv[1]
    data = codecfs.open(source)
    assert "salinity" in data._repr_html_() and "shuffle, zlib 5" in data["temperature"]._repr_html_()
    assert codecfs.verify(source) and codecfs.info(source)["variables"]
    codecfs.convert(source, sys.argv[2])
    assert codecfs.compare(source, sys.argv[2])
    codecfs.set_filter(sys.argv[2], "temperature", "none")
    import xarray
    for function in (lambda: codecfs.mount(source), lambda: data["temperature"][0], lambda: data.xarray(), lambda: data.zarr(),
                     lambda: xarray.open_dataset(source, engine="codecfs")):
        try:
            function()
        except codecfs.FuseError as error:
            print(repr(str(error)))
"""


def test_without_fuse(site, sample, tmp_path):
    if os.geteuid() != 0 or run("unshare", "-m", "true", code=None).returncode != 0:
        pytest.skip("skipped: hiding /dev/fuse needs root")
    words = ["/usr/bin/python3", "-B", "-c", WITHOUT_FUSE, sample, tmp_path / "new.zarr"]
    hide = 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && exec "$@"'
    said = run("unshare", "-m", "sh", "-c", hide, "sh", *words, env={"PYTHONPATH": str(site)}).stdout
    lines = said.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert "there is no /dev/fuse" in line and "modprobe fuse" in line and "--device /dev/fuse" in line, "what to do"
        assert "codecfs.info, convert, verify, compare" in line, "what works"


def test_without_fusermount(program, sample):
    program(["fuse: failed to exec fusermount3: No such file or directory\n",
             "codecfs: cannot mount on /m; fusermount3 is missing, which mounts for users other than root: install the package fuse3\n"], code=32)
    with pytest.raises(codecfs.FuseError, match="install the package fuse3\n.*works? without FUSE") as raised:
        codecfs.mount(sample)
    assert "codecfs: " not in str(raised.value) and raised.value.exit_code == 32
