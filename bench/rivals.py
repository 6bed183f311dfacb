"""The alternatives to codecfs: which ones are installed, and how they read."""
import atexit
import json
import os
import pathlib
import platform
import select
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

from harness import MIB, Memory, Wrong, run, timed

HERE = pathlib.Path(__file__).resolve().parent
# Installed from PyPI one by one, so that a missing one does not affect the rest.
EXTRAS = {"tensorstore": "tensorstore", "zarr": "zarr>=3", "zarrs": "zarrs", "hidefix": "hidefix",
          "virtualizarr": "virtualizarr[hdf]", "kerchunk": "kerchunk"}
PIP_SECONDS = 600


class Worker:
    """worker.py, or another `script` beside it, in one of the Pythons. `variables`: more of its environment."""

    def __init__(self, python, script="worker.py", variables=()):
        # Memory that was freed is used again without page faults.
        environment = {**os.environ, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", **dict(variables)}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(python), str(HERE / script)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        atexit.register(self.close)

    def ask(self, limit=None, **request):
        """`limit`: seconds, after which it is killed: TimeoutError."""
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            if limit and not select.select([self.process.stdout], [], [], limit)[0]:
                self.process.kill()
                raise TimeoutError(f"more than {limit} s")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            raise Wrong(f"the reader ended: {self.log.read()[-500:].decode(errors='replace')}")
        reply = json.loads(line)
        if "error" in reply:
            raise Wrong(reply["error"].splitlines()[0][:200])
        return reply

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Rivals:
    """Versions of those that are here, the reason for each that is not, and the readers of arrays."""

    def __init__(self, tools, data_directory, extras):
        self.tools = pathlib.Path(tools)
        self.versions = {"h5py": f"{h5py.version.version} (libhdf5 {h5py.version.hdf5_version})",
                         "numpy": np.__version__, "python": platform.python_version()}
        self.missing = {}
        self.workers = {}  # library: Worker
        for name, program in {"libhdf5": "bench_h5d_read", "netcdf-c": "bench_nc_get_var"}.items():
            if (self.tools / program).exists():
                self.versions[name] = "in C"
            else:
                self.missing[name] = f"{self.tools / program} is not built (cmake --build build/release)"
        for name in ("h5repack", "nccopy", "cp", "setfattr"):
            if shutil.which(name):
                self.versions[name] = "program"
            else:
                self.missing[name] = "not installed (scripts/install-packages --tests)"
        self._worker("zarr-python", "zarr", sys.executable)
        if extras:
            self._install(pathlib.Path(data_directory) / "venv")
        else:
            for name in EXTRAS:
                self.missing[self.title(name)] = "left out (--no-extras)"

    @staticmethod
    def title(extra):
        return "zarr-python 3" if extra == "zarr" else extra

    def _worker(self, title, library, python, worker=None):
        """`worker`: one that is there already, in the same Python."""
        worker = worker or Worker(python)
        try:
            self.versions[title] = worker.ask(version=library)["version"]
            self.workers[title] = (worker, library)
        except Wrong as error:
            self.missing[title] = str(error).splitlines()[-1]
        return worker

    def _install(self, venv):
        python = venv / "bin/python"
        if not python.exists():
            done = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True)
            if done.returncode:
                shutil.rmtree(venv, ignore_errors=True)
                reason = f"no venv: {(done.stderr or done.stdout).strip()[-200:]}"
                self.missing.update({self.title(name): reason for name in EXTRAS})
                return
        have = run(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
        have = {line.split("==")[0].lower() for line in have.splitlines()}
        for name, requirement in EXTRAS.items():
            if name in have:
                continue
            print(f"  installing {requirement} into {venv} ...", flush=True)
            try:
                done = subprocess.run([python, "-m", "pip", "install", "-q", "--only-binary=:all:",
                                       "--disable-pip-version-check", requirement], capture_output=True, text=True,
                                      timeout=PIP_SECONDS)
                reason = done.stderr.strip().splitlines()[-1:] if done.returncode else None
            except subprocess.TimeoutExpired:
                reason = [f"pip took longer than {PIP_SECONDS} s"]
            if reason is not None:
                self.missing[self.title(name)] = f"not from PyPI: {''.join(reason)[:200]}"
        for name in EXTRAS:
            # Each in a process of its own: their thread pools must not meet.
            if self.title(name) not in self.missing:
                self._worker(self.title(name), name, python)

    def describe(self):
        lines = [f"  {name:<14} {version}" for name, version in self.versions.items()]
        return lines + [f"  {name:<14} NOT HERE: {reason}" for name, reason in self.missing.items()]

    # --- Readers of all of `v`. Each gives a function that returns seconds, or is left out where the rival is missing.

    def in_c(self, names, path):
        programs = {"libhdf5": "bench_h5d_read", "netcdf-c": "bench_nc_get_var"}
        def seconds(program):
            Memory.free()
            return float(run(program, path))

        return {name: lambda program=self.tools / programs[name]: seconds(program)
                for name in names if name in self.versions}

    def in_workers(self, titles, path, expected_digest):
        """The readers that are installed and read `path` correctly; prints the error of each other one."""
        readers = {}
        for title in titles:
            if title not in self.workers:
                continue
            worker, library = self.workers[title]
            try:
                digest = worker.ask(library=library, path=str(path), digest=True)["digest"]
                if digest != expected_digest:
                    raise Wrong("it read other bytes")
            except Wrong as error:
                print(f"  {title} is left out: {error}", flush=True)
                continue
            readers[title] = lambda worker=worker, library=library: self.ask_for_seconds(worker, library, path)
        return readers

    @staticmethod
    def ask_for_seconds(worker, library, path):
        Memory.free()
        return worker.ask(library=library, path=str(path))["seconds"]


def slab(v):
    """Planes that h5py reads at a time: whole chunks, 4 MiB or one chunk."""
    planes = v.chunks[0] if v.chunks else 1
    chunk = planes * v.dtype.itemsize * v.shape[1] * v.shape[2]
    return planes * max(1, 4 * MIB // chunk)


def h5py_read(path, out):
    with h5py.File(path, "r") as f:
        v = f["v"]
        step = slab(v)
        for first in range(0, v.shape[0], step):
            v.read_direct(out, np.s_[first:first + step], np.s_[first:first + step])


def h5py_in_process(path, out):
    return lambda: timed(lambda: h5py_read(path, out))
