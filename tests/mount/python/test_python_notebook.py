"""An extra: the package in a real notebook, and with today's xarray, Dask and zarr-python, from the venv "notebook" that
scripts/client-test makes."""
import json
import os
import pathlib

import pytest
from client_venvs import VENVS
from conftest import DATA, wait_until
from python_package import PACKAGING, made_sample, sample, site  # noqa: F401: fixtures
from running import run

PYTHON = VENVS / "notebook/bin/python3"
CORPUS = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"skipped: no venv notebook in {VENVS}: scripts/client-test installs it")


def in_venv(site, text, *arguments, seconds=300, **more):  # noqa: F811
    return run(PYTHON, "-B", "-c", text, *arguments, env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}, seconds=seconds, **more).stdout


RUN = """
import json, sys
import nbclient, nbformat
cells = json.loads(sys.argv[1])
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
print("RESULT", json.dumps([[dict(output.get("data", {}), type=output.output_type, text=output.get("text", ""))
                             for output in cell.outputs] for cell in notebook.cells]))
"""


def outputs_of(site, *cells, cwd):  # noqa: F811
    return json.loads(in_venv(site, RUN, json.dumps(cells), cwd=cwd).rpartition("RESULT ")[2])


@pytest.mark.parametrize("lines", [
    ["import codecfs", 'data = codecfs.open("sample.nc")', 'data["temperature"].xarray()[0].plot();'],
    ["import xarray", 'data = xarray.open_dataset("sample.nc", engine="codecfs")', "data.temperature[0].plot();"],
], ids=["codecfs", "xarray"])
def test_three_lines_to_a_plot(site, sample, lines):  # noqa: F811
    """The first line may be preceded by nothing: Jupyter itself shows figures of matplotlib in the cell."""
    last = outputs_of(site, *lines, cwd=sample.parent)[-1]
    (figure,) = [output["image/png"] for output in last if "image/png" in output]
    assert len(figure) > 5000
    assert [entry for entry in sample.parent.iterdir() if entry.name.startswith("codecfs-")] == []


def test_cells(site, sample):  # noqa: F811
    shown, variable, verified, again = outputs_of(
        site, 'import codecfs\ndata = codecfs.open("sample.nc")\ndata', 'data["temperature"]', 'codecfs.verify("sample.nc")',
        'data["temperature"][0, 0, :2].tolist()', cwd=sample.parent)
    assert '<div class="codecfs">' in shown[0]["text/html"] and "salinity" in shown[0]["text/html"]
    assert "air temperature" in variable[0]["text/html"]
    assert "no damage" in verified[0]["text/plain"]
    assert again[0]["text/plain"].startswith("[265.2")


def test_progress_is_shown_and_cleared(site, sample, tmp_path):  # noqa: F811
    """By a program that takes its time."""
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nfor part in 25 75; do printf '\\r\\033[Kverifying: %s %% [####................], x' $part >&2; sleep 0.2; "
                       "done\nprintf '\\r\\033[K' >&2\nexec \"$PROGRAM\" \"$@\"\n")
    program.chmod(0o755)
    code = f"import codecfs, os\nos.environ.update(PROGRAM=os.environ['CODECFS'], CODECFS={str(program)!r})\ncodecfs.verify('sample.nc')"
    # nbclient applies updates to the output that was displayed: the last one is empty.
    first, result = outputs_of(site, code, cwd=sample.parent)[0]
    assert first["type"] == "display_data" and first["text/html"] == "" and "no damage" in result["text/plain"]


SAME = """
import os, sys, warnings
import xarray
warnings.simplefilter("ignore")
compared = 0
for path in sys.argv[1:]:
    for engine, more in (("netcdf4", {}), ("h5netcdf", {"phony_dims": "sort"})):
        try:
            wanted = xarray.open_datatree(path, engine=engine, **more).load()
        except Exception as error:
            print("not read by", engine, os.path.basename(path), str(error)[:80])
            continue
        try:
            found = xarray.open_datatree(path, engine="codecfs").load()
        except OSError as error:
            assert "no Zarr v2 form" in str(error), (path, error)
            continue
        assert [node.path for node in found.subtree] and {node.path for node in found.subtree} == {node.path for node in wanted.subtree}
        xarray.testing.assert_identical(found, wanted)
        compared += 1
print("compared", compared)
"""


def test_trees_of_netcdf_files_are_as_other_engines_read_them(site):  # noqa: F811
    # Attributes with members, of 32 bits, or of bytes that are no text are others in JSON: test_python_xarray.py.
    others = {"ref_nc_test_netcdf4_4_0.nc", "ref_tst_compounds4.nc", "ref_tst_xplatform2_1.nc", "ref_tst_xplatform2_2.nc"}
    files = [path for path in [*sorted((DATA / "hdf5").glob("netcdf_*.nc")), *sorted(CORPUS.rglob("*.nc"))]
             if path.read_bytes()[:3] != b"CDF" and path.name not in others]
    said = in_venv(site, SAME, *files)
    assert int(said.rpartition("compared ")[2]) > len(files), said


STORES = """
import sys
import numpy, xarray
made = xarray.Dataset(
    {"a": (("y", "x"), numpy.arange(12.0).reshape(3, 4), {"flags": [1], "pair": [1, 2], "none": None}), "i": ("x", numpy.arange(4)),
     "gaps": ("x", [numpy.nan, 1, 2, numpy.nan]), "b": ("x", [True, False, True, False]), "c": ("x", numpy.arange(4) * 1j),
     "words": ("x", numpy.array(["a", "\\u00e9", "", "long"], object)), "fixed": ("y", numpy.array(["b", "", "\\u00fc"])), "s": ((), 5.0)},
    {"time": ("y", numpy.array(["2001-01-01", "2002-02-02", "2003-01-01"], "M8[ns]")), "x": [1, 2, 3, 4]}, {"title": "t"})
for version in 2, 3:
    for number, encoding in enumerate(({}, {"a": {"_FillValue": 5.0, "chunks": (2, 3)}},
                                       {"i": {"_FillValue": 0}, "a": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": 4}})):
        path = f"{sys.argv[1]}/{version}.{number}.zarr"
        made.to_zarr(path, zarr_format=version, encoding=encoding)
        wanted = xarray.open_dataset(path, engine="zarr").load()
        xarray.testing.assert_identical(xarray.open_dataset(path, engine="codecfs").load(), wanted)
        assert bool(wanted.a.isnull().any()) == (number > 0)
print("the same")
"""


def test_zarr_stores_are_as_the_engine_zarr_reads_them(site, tmp_path):  # noqa: F811
    (tmp_path / "stores").mkdir()
    assert in_venv(site, STORES, tmp_path / "stores").endswith("the same\n")


ARRAYS = """
import os, sys, warnings
import numpy, zarr
import codecfs
warnings.simplefilter("ignore")
compared = 0
for path in sys.argv[1:]:
    try:
        array = zarr.open_array(path, mode="r")
    except Exception as error:
        print("not read by zarr-python", path, str(error)[:80])
        continue
    wanted = numpy.asarray(array[...])
    found = codecfs.open(path)["/"][...]
    assert found.shape == wanted.shape and (found.astype(object) == wanted.astype(object)).all(), path
    compared += 1
print("compared", compared)
"""


def test_arrays_of_zarr_v3_are_as_zarr_python_reads_them(site):  # noqa: F811
    arrays = [path.parent for path in sorted(CORPUS.rglob("zarr.json")) if json.loads(path.read_bytes()).get("node_type") == "array"]
    if not arrays:
        pytest.skip("skipped: CODECFS_CORPUS names no folder with arrays of Zarr v3")
    said = in_venv(site, ARRAYS, *arrays)
    assert int(said.rpartition("compared ")[2]) > len(arrays) * 0.9, said


DASK = """
import os, pickle, sys
import dask, numpy, xarray
if __name__ == "__main__":
    import distributed
    path = sys.argv[1]
    wanted = xarray.open_dataset(path, engine="netcdf4").temperature.load()
    data = xarray.open_dataset(path, engine="codecfs", chunks={})
    assert data.temperature.chunks == ((1, 1), (9, 9), (18, 18)), data.temperature.chunks
    for scheduler in "threads", "processes":
        xarray.testing.assert_identical(data.temperature.compute(scheduler=scheduler), wanted)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, distributed.Client(cluster):
        xarray.testing.assert_identical(data.temperature.compute(), wanted)
        many = xarray.open_mfdataset([path] * 2, engine="codecfs", combine="nested", concat_dim="run", parallel=True)
        assert many.temperature.sizes["run"] == 2 and float(many.temperature.isel(run=1).mean()) == float(wanted.mean())
    again = xarray.open_dataset(path, engine="codecfs", chunks={})
    assert dask.base.tokenize(again.temperature.data) == dask.base.tokenize(data.temperature.data), "the same file is the same task"
    import asyncio
    import codecfs
    opened = codecfs.open(path)
    assert opened.xarray(chunks={}).temperature.chunks == data.temperature.chunks
    xarray.testing.assert_identical(opened["temperature"].xarray(chunks={}).compute(), wanted)
    lazy = xarray.open_dataset(path, engine="codecfs")
    xarray.testing.assert_identical(asyncio.run(lazy.load_async()).temperature, wanted)
    print("the same")
"""


def test_dask(site, sample, tmp_path):  # noqa: F811
    script = tmp_path / "use.py"
    script.write_text(DASK)
    place = tmp_path / "mounts"
    place.mkdir()
    environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(place)}
    assert run(PYTHON, "-B", script, sample, env=environment, seconds=300).stdout.endswith("the same\n")
    wait_until(lambda: [entry for entry in place.iterdir() if entry.name.startswith("codecfs-")] == [])


def test_zarr_python_3(site, sample):  # noqa: F811
    said = in_venv(site, f"""if True:
        import codecfs, gc, os
        data = codecfs.open({str(sample)!r})
        group = data.zarr()
        array = group["temperature"]
        del group, data
        gc.collect()
        print(round(float(array[0, 0, 0]), 1), round(float(codecfs.open({str(sample)!r})["temperature"].zarr()[0, 0, 0]), 1))
    """)
    assert said == "265.3 265.3\n"


def test_the_types_are_right(site, tmp_path):  # noqa: F811
    """Of the package, and of what a program sees of it."""
    (tmp_path / "use.py").write_text("""import pathlib
from typing import Callable

import codecfs

with codecfs.mount("a.nc", options={"cache": "1G"}) as path:
    here: pathlib.Path = path
data: codecfs.Dataset = codecfs.open("a.nc", options=["anon"])
member: codecfs.Group | codecfs.Variable = data["a"]
if isinstance(member, codecfs.Variable):
    shape: tuple[int, ...] = member.shape
    member.xarray(chunks={}).isel(x=0)
page: str = data._repr_html_()
report: Callable[[codecfs.Progress], None] = print
done: codecfs.Conversion = codecfs.convert("a.nc", pathlib.Path("b.zarr"), filters=["*,none"], progress=report)
damages: int = codecfs.verify("a.nc", progress=True).damages
kinds: list[str] = [difference.kind for difference in codecfs.compare("a.nc", "b.nc").different]
text: str = codecfs.set_filter("a.nc", "v", "zstd,3") + codecfs.plugins()
""")
    environment = {"MYPYPATH": str(PACKAGING / "src")}
    words = [PYTHON, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", tmp_path / "cache"]
    run(*words, tmp_path / "use.py", env=environment, seconds=300, cwd=tmp_path)
    run(*words, "-p", "codecfs", env=environment, seconds=300, cwd=tmp_path)
    (tmp_path / "wrong.py").write_text("import codecfs\nnumber: int = codecfs.version()\n")
    assert "Incompatible types" in run(*words, tmp_path / "wrong.py", env=environment, code=1, cwd=tmp_path).stdout
