"""Today's Zarr clients, each in a venv of its own, read every kind of source and write through the mount; h5py and zarr-python
of Debian judge. scripts/client-test makes the venvs; without them these tests say that they were skipped."""
import functools
import http.server
import json
import os
import shutil
import signal
import sys
import threading
import zipfile

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

import clients
from client_venvs import CLIENTS, VENVS, python_of
from conftest import PROGRAMS, TESTS
from running import run

sys.path.insert(0, str(TESTS / "attack"))
from known import KNOWN  # noqa: E402

SCRIPT = PROGRAMS / "clients.py"
T = np.random.default_rng(1).normal(size=(3, 10, 8)).astype("f4")
COUNT = np.arange(30, dtype="i4")


def run_client(client, action, path):
    """What the client prints. One that a signal ends without a word has a defect of its own and is run once more, but for SIGBUS, which a
    mapped file that cannot be read causes."""
    for _ in range(2):
        done = run(python_of(client), "-B", SCRIPT, f"{CLIENTS[client][1]}_{action}", path, seconds=300, env={"PYTHONPATH": None}, code=None)
        if done.returncode == 0:
            return json.loads(done.stdout.rpartition("RESULT ")[2])
        crashed = done.returncode < 0 and done.returncode != -signal.SIGBUS and not done.stderr.strip()
        if not crashed:
            raise RuntimeError(f"{client} ended with {done.returncode}: {done.stderr[-3000:].strip()}")
    pytest.skip(f"{client} was ended twice by {signal.Signals(-done.returncode).name}, without a message")


def make_source(folder, kind, shuffle=True):
    path = folder / f"source.{kind}"
    if kind == "nc":
        with netCDF4.Dataset(path, "w") as f:
            for name, size in [("time", None), ("y", 10), ("x", 8), ("n", 30)]:
                f.createDimension(name, size)
            f.createVariable("t", "f4", ("time", "y", "x"), zlib=True, shuffle=shuffle, chunksizes=(1, 5, 8), fill_value=-9)[:] = T
            f.createVariable("count", "i4", ("n",), zlib=True, shuffle=shuffle, chunksizes=(8,), fill_value=-9)[:] = COUNT
        return path
    if kind == "h5":
        with h5py.File(path, "w") as f:
            for name, data, chunks in [("t", T, (2, 5, 8)), ("count", COUNT, (7,))]:
                f.create_dataset(name, data=data, chunks=chunks, compression="lzf")
        return path
    store = zarr.DirectoryStore(str(folder / "source.zarr"))
    group = zarr.group(store)
    for name, data, chunks in [("t", T, (2, 5, 8)), ("count", COUNT, (7,))]:
        array = group.create_dataset(name, data=data, chunks=chunks, fill_value=-9)
        array.attrs["_ARRAY_DIMENSIONS"] = ["time", "y", "x"] if name == "t" else ["n"]
    zarr.consolidate_metadata(store)
    if kind == "zarr":
        return folder / "source.zarr"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((folder / "source.zarr").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder / "source.zarr"))
    return path


@pytest.mark.parametrize("kind", ["nc", "h5", "zarr", "zip"])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_reads_each_kind_of_source(mount, tmp_path, client, kind):
    python_of(client)
    m = mount(make_source(tmp_path, kind, shuffle=client != "VirtualiZarr"))  # which has no shuffle filter
    # VirtualiZarr takes all files that are listed beside .zarray for chunks.
    for view in ("", ".codecfs/view/encoded") if client == "VirtualiZarr" else ("",):
        found = run_client(client, "read", m.path / view)
        assert np.array_equal(np.array(found["t"], "f4"), T)
        assert found["count"] == COUNT.tolist()


@pytest.mark.parametrize("client", [name for name in CLIENTS if hasattr(clients, CLIENTS[name][1] + "_write")])
def test_client_writes_v2_into_hdf5(mount, tmp_path, client):
    python_of(client)
    source = make_source(tmp_path, "nc")
    m = mount(source)
    wanted = run_client(client, "write", m.path)
    m.close()
    with h5py.File(source, "r") as f:
        for name, values in wanted.items():
            assert f["made"][name][()].tolist() == values, name
        assert np.array_equal(f["t"][()], T)


@pytest.mark.parametrize("client", ["zarr 2.13", "zarr 2.18", "zarr 3"])
def test_client_writes_with_its_own_compressor_into_the_encoded_view(mount, tmp_path, client):
    python_of(client)
    source = make_source(tmp_path, "nc")
    m = mount(source)
    wanted = run_client(client, "write_encoded", m.path / ".codecfs/view/encoded")
    m.close()
    m = mount(source, "ro")
    assert zarr.open_group(str(m.path), "r")["made/z"][...].tolist() == wanted["z"]


def test_obstore_writes_v3_into_hdf5(mount, tmp_path):
    """Its temporary files have names of their own (zarr.json#1), and it makes new files by hard links."""
    python_of("obstore")
    source = make_source(tmp_path, "nc")
    m = mount(source)
    wanted = run_client("obstore", "write_encoded3", m.path / ".codecfs/view/encoded3")
    m.close()
    group = zarr.open_group(str(mount(source, "ro").path), "r")
    assert group["made/z"][...].tolist() == wanted["z"] and np.array_equal(group["t"][...], T)


@pytest.fixture
def web():
    """Serves a directory over HTTP: call it with the path to get the address."""
    servers = []

    def serve(path):
        handler = functools.partial(QuietHandler, directory=str(path))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"
    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.parametrize("kind", ["nc", "h5", "zarr"])
@pytest.mark.parametrize("view", ["", ".codecfs/view/encoded", ".codecfs/view/decoded3", ".codecfs/view/encoded3"])
def test_zarrita_js_reads_from_a_web_server(mount, tmp_path, web, kind, view):
    """A browser's client: the mount as the directory of a static web server."""
    modules = VENVS / "zarrita/node_modules"
    if shutil.which("node") is None or not modules.exists():
        pytest.skip(f"node and zarrita.js are not in {VENVS}: scripts/client-test installs zarrita.js")
    m = mount(make_source(tmp_path, kind, shuffle="3" not in view))
    if kind == "h5" and "encoded" in view:
        pytest.skip("zarrita.js has no lzf")
    script = PROGRAMS / "zarrita_read.mjs"
    shutil.copy(script, VENVS / "zarrita")  # modules are found beside a script
    done = run("node", VENVS / "zarrita" / script.name, web(m.path / view), "v3" if "3" in view else "v2")
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    assert np.array_equal(np.array(found["t"], "f4").reshape(T.shape), T) and found["count"] == COUNT.tolist()


@pytest.mark.xfail("8" in KNOWN, reason=KNOWN.get("8", ""), strict=False)
@pytest.mark.parametrize("kind", ["nc", "zarr"])
@pytest.mark.parametrize("client", ["zarr 3", "xarray"])
def test_client_that_writes_v3_is_told_so(mount, tmp_path, client, kind):
    python_of(client)
    m = mount(make_source(tmp_path, kind))
    with pytest.raises(RuntimeError):
        run_client(client, "write_v3", m.path)
    # Clients make the directory first. It is an empty group.
    three = m.path / "three"
    assert not three.exists() or set(os.listdir(three)) <= {".zgroup", ".zattrs", ".zmetadata"}
