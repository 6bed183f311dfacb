"""The wheel of scripts/make-wheel: in a venv of each Python that is here, and in a bare Debian root without a compiler."""
import errno
import os
import pathlib
import shutil
import zipfile

import pytest
from running import run

REPOSITORY = pathlib.Path(__file__).parents[2]
WHEELS = sorted((REPOSITORY / "build/wheel").glob(f"codecfs-*_{os.uname().machine}.whl"))
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel: scripts/make-wheel makes it")
# Others that are asked for: CODECFS_PYTHONS="/opt/python3.10/bin/python3 ..."
PYTHONS = list(dict.fromkeys(["/usr/bin/python3", *os.environ.get("CODECFS_PYTHONS", "").split()]))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "sample.nc"
    run("ncgen", "-4", "-o", path, REPOSITORY / "tests/data/sample.cdl")
    return path


@pytest.fixture(scope="module", params=PYTHONS, ids=lambda path: path.strip("/").replace("/", "."))
def python(request, tmp_path_factory):
    """The Python of a venv with the wheel, h5py, zarr and xarray."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param}")
    if run(request.param, "-c", "import ensurepip", code=None).returncode != 0:
        pytest.skip(f"{request.param} makes no venvs with pip (package python3-venv)")
    place = tmp_path_factory.mktemp("venv")
    run(request.param, "-m", "venv", place / "v")
    run(place / "v/bin/pip", "install", "-q", WHEELS[-1])
    others = run(place / "v/bin/pip", "install", "-q", "h5py", "zarr", "xarray", "matplotlib", "mypy", code=None)
    if others.returncode != 0:
        pytest.skip(f"h5py, zarr, xarray, matplotlib and mypy cannot be had: {others.stderr[-300:]}")
    return place / "v/bin/python"


def try_out(python, text, **kwargs):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CODECFS", "HDF5_PLUGIN", "PYTHON"))}
    return run(python, "-c", text, environment=environment, **kwargs).stdout


def test_what_is_in_it():
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(name for name in names if name.endswith("/WHEEL"))).decode()
        modes = {name: wheel.getinfo(name).external_attr >> 16 for name in names}
    assert "codecfs/bin/codecfs" in names and modes["codecfs/bin/codecfs"] & 0o111
    assert "codecfs/py.typed" in names and "codecfs/plugins/libcodecfs_zstd.so" in names
    assert any(name.startswith("codecfs/licenses/") for name in names)
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        entry_points = wheel.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    assert "[xarray.backends]\ncodecfs = codecfs._xarray:CodecfsBackendEntrypoint" in entry_points
    assert "Root-Is-Purelib: false" in metadata and "Tag: py3-none-manylinux_2_" in metadata


def test_its_tag_is_what_its_files_need(tmp_path):
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(tmp_path)
    version = WHEELS[-1].name.split("manylinux_")[1].split("_")[:2]
    run(REPOSITORY / "scripts/elf-needs", "--at-most", ".".join(version), tmp_path / "codecfs/bin/codecfs",
        *(tmp_path / "codecfs/plugins").glob("*.so"))


def test_the_command_is_on_the_path(python, sample):
    assert "temperature" in run(python.parent / "codecfs", "info", sample).stdout
    assert run(python.parent / "codecfs", "--version").stdout == run(python, "-m", "codecfs", "--version").stdout
    result = run(python.parent / "codecfs", "info", "/nonexistent.nc", code=None)
    assert result.returncode != 0 and "/nonexistent.nc" in result.stderr


def test_info(python, sample):
    text = "import codecfs, sys; print([v['path'] for v in codecfs.info(sys.argv[1])['variables']], codecfs.version())"
    assert "'/temperature'" in run(python, "-c", text, sample).stdout


def test_a_mount_and_its_end(python, sample, tmp_path):
    copy = shutil.copy(sample, tmp_path / "copy.nc")
    said = try_out(python, f"""if True:
        import codecfs, fcntl, os, pathlib
        with codecfs.mount({str(copy)!r}) as path:
            assert (path / "temperature" / ".zarray").exists() and os.path.ismount(path)
            try:
                (path / "temperature" / "0.0.0").write_bytes(b"")
            except OSError as error:
                print("read-only:", error.errno)
        # The block has closed the source, and what reads the mount later opens it again.
        fcntl.flock(open({str(copy)!r}, "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert (path / "temperature" / ".zarray").exists() and os.path.ismount(path)
        # It holds a lock then, as every reader does, until it rests again.
        with codecfs.mount({str(copy)!r}, writable=True) as other:
            try:
                os.setxattr(other / "temperature", "user.units", b"celsius")
            except OSError as error:
                print("while it is read:", error.errno)
        os.getxattr(path, "user._Rest")
        with codecfs.mount({str(copy)!r}, writable=True, options={{"cache": "1M", "coherent": False}}) as path:
            os.setxattr(path / "temperature", "user.units", b"kelvin")
        mounted = codecfs.mount({str(copy)!r})
        print(os.getxattr(mounted.path / "temperature", "user.units"), mounted)
        mounted.close()
        mounted.close()
        left = codecfs.mount({str(copy)!r})
        if os.fork() == 0:
            raise SystemExit(0)  # which is not the end of the mount
        os.wait()
        assert os.path.ismount(left.path)
        pathlib.Path({str(tmp_path)!r}, "left").write_text(str(left.path))
        pathlib.Path({str(tmp_path)!r}, "rested").write_text(str(path))
    """)
    assert "read-only: 30" in said and f"while it is read: {errno.EBUSY}" in said and "b'kelvin'" in said
    for name in ("left", "rested"):
        assert not pathlib.Path((tmp_path / name).read_text()).exists(), "Python ended and the mount did not"


def test_a_mount_whose_process_died_can_be_closed(python, sample):
    try_out(python, f"""if True:
        import codecfs, contextlib, os, subprocess
        mounted = codecfs.mount({str(sample)!r})
        for process in subprocess.run(["pgrep", "-f", str(mounted.path)], capture_output=True, text=True, check=True).stdout.split():
            with contextlib.suppress(ProcessLookupError):  # it has ended with another one
                os.kill(int(process), 9)
        mounted.close()
        assert not os.path.lexists(mounted.path)
    """)


def test_a_mount_in_use_goes_on(python, sample):
    said = try_out(python, f"""if True:
        import codecfs
        mounted = codecfs.mount({str(sample)!r})
        with open(mounted.path / "temperature" / "0.0.0", "rb") as file:
            try:
                mounted.close()
            except codecfs.CodecfsError as error:
                print(error)
        mounted.close()
        assert not mounted.path.exists()
    """)
    assert "in use" in said, said


def test_errors_have_the_reason(python, tmp_path):
    said = try_out(python, f"""if True:
        import codecfs, glob, tempfile
        tempfile.tempdir = {str(tmp_path)!r}
        for function in codecfs.mount, codecfs.info:
            try:
                function("nothing.nc")
            except codecfs.CodecfsError as error:
                print(error.exit_code, error)
        try:
            codecfs.mount("nothing.nc", options="ro")
        except TypeError as error:
            print(error)
        assert not glob.glob({str(tmp_path)!r} + "/*")
    """, cwd=tmp_path)
    assert said.count("nothing.nc") == 2 and "not a string" in said, said


def test_open_zarr(python, sample):
    said = try_out(python, f"""if True:
        import codecfs
        with codecfs.open_zarr({str(sample)!r}) as group:
            print(group["temperature"].shape, float(group["temperature"][0, 0, 0]))
    """)
    assert said == "(2, 18, 36) 265.29998779296875\n" or said.startswith("(2, 18, 36) 265.3"), said


def test_a_plot(python, sample, tmp_path):
    """xarray has no other engine for the file here."""
    try_out(python, f"""if True:
        import matplotlib
        matplotlib.use("agg")
        import codecfs
        data = codecfs.open({str(sample)!r})
        data["temperature"].xarray()[0].plot().figure.savefig("first.png")
        assert "salinity" in data._repr_html_()
        import xarray
        for engine in ("codecfs", None):
            xarray.open_dataset({str(sample)!r}, engine=engine).temperature[0].plot().figure.savefig(f"{{engine}}.png")
        assert codecfs.convert({str(sample)!r}, "new.zarr").summary and codecfs.compare({str(sample)!r}, "new.zarr")
    """, cwd=tmp_path)
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("first.png", "codecfs.png", "None.png"))


@pytest.mark.parametrize("first", ["codecfs.plugins()", "h5py"])
def test_h5py_writes_and_reads_with_the_plugins(python, tmp_path, first):
    """Whether h5py was imported, and has started libhdf5, before or after."""
    lines = ["import codecfs; codecfs.plugins(); codecfs.plugins()", "import h5py"]
    lines = lines if first != "h5py" else lines[::-1]
    try_out(python, "\n".join(lines) + f"""
import numpy
for number, filter in enumerate((32015, 32001, 32004, 307)):
    with h5py.File({str(tmp_path)!r} + f"/{{number}}.h5", "w") as file:
        file.create_dataset("v", data=numpy.arange(10000), chunks=(1000,), compression=filter)
    with h5py.File({str(tmp_path)!r} + f"/{{number}}.h5") as file:
        assert file["v"].id.get_storage_size() < 70000, filter
        assert (file["v"][:] == numpy.arange(10000)).all()
""")


def test_the_types_are_right(python, tmp_path):
    (tmp_path / "use.py").write_text("""import pathlib
import codecfs

with codecfs.mount("a.nc", options={"cache": "1G"}) as path:
    here: pathlib.Path = path
text: str = codecfs.plugins()
found: codecfs.Verification = codecfs.verify("a.nc", progress=False)
page: str = codecfs.open("a.nc")._repr_html_()
""")
    run(python, "-m", "mypy", "--strict", tmp_path / "use.py", cwd=tmp_path)
    # xarray of Python 3.9 describes engines otherwise.
    if "DataTree" in run(python, "-c", "import xarray; print(dir(xarray))").stdout:
        run(python, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "codecfs", cwd=tmp_path)


@pytest.fixture(scope="module")
def bare_root():
    """A minimal Debian with python3, pip and fuse3 but no compiler: $CODECFS_BARE_ROOT, made by make-bare-root."""
    place = os.environ.get("CODECFS_BARE_ROOT", os.path.expanduser("~/.cache/codecfs-platforms/bare"))
    if os.geteuid() != 0 or not os.path.exists(f"{place}/usr/bin/pip3"):
        pytest.skip("needs root and a bare Debian: tests/packaging/make-bare-root")
    assert not list(pathlib.Path(place, "usr/bin").glob("gcc*")), "it has a compiler"
    return place


def test_a_bare_debian_without_a_compiler(bare_root, sample):
    said = run(pathlib.Path(__file__).parent / "try-wheel", bare_root, WHEELS[-1], sample).stdout
    assert said.endswith("the wheel works\n"), said
