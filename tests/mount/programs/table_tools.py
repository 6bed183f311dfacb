"""Programs in the table of docs/python.md, as table_clients.py has libraries: what they print and copy is read by numpy and Debian's
netCDF4, and by zarr-python (client_table.py) where they copy a store."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from table_clients import DATA, T, T_CHUNKS, V2, V3, VIEWS, Client, V, W  # noqa: E402


def tool(*words, shell=False, **more):
    done = subprocess.run(words[0] if shell else [str(word) for word in words], shell=shell, capture_output=True, text=True, errors="replace", **more)
    if done.returncode < 0:
        raise RuntimeError(f"signal {-done.returncode}: {done.stderr.strip()}")
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-1000:])
    return done.stdout


class Tool(Client):
    """`packages`: of Debian."""

    @classmethod
    def version(cls):
        told = tool("dpkg-query", "-W", "-f", "${Version}\n", *cls.packages).split()
        return " / ".join(re.sub(r"^\d+:|[-+~].*", "", version) for version in told)

    @property
    def work(self):
        return self.job["work"]

    @property
    def chunk(self):
        return "t/c/0/0/0" if self.job["view"] in V3 else "t/0.0.0"


# --- files


class Files(Tool):
    """Copies a store out of a mount, a chunk from another mount, and a store from a disk; in the last column files of npy."""
    reads, changes, creates = (*VIEWS, "file"), (*VIEWS, "file"), VIEWS
    file = "mount"

    @classmethod
    def expected(cls, action, view, kind):
        if view == "file" and action == "read":
            return {"t": T}
        return super().expected(action, view, kind)

    def read(self, path):
        os.mkdir(f"{self.work}/copy")
        if self.job["view"] != "file":
            self.copy(path, ".", f"{self.work}/copy")
            return f"{self.work}/copy"
        self.copy(f"{path}/.codecfs/view/npy", "t.npy", f"{self.work}/copy")
        return {"t": np.load(f"{self.work}/copy/t.npy")}

    def change(self, path, **more):
        view, name = ("/.codecfs/view/npy", "t.npy") if self.job["view"] == "file" else ("", self.chunk)
        self.copy(f"{self.job['other']}{view}", name, f"{path}{view}", **more)

    def create(self, path):
        self.copy(self.job["store"], ".", path)


class Cp(Files):
    packages = ("coreutils",)
    title = program = "cp -r"

    def copy(self, source, name, target):
        tool("cp", "-r", f"{source}/{name}", f"{target}/{name}")


class CpArchive(Files):
    packages = ("coreutils",)
    title = program = "cp -a"

    def copy(self, source, name, target):
        tool("cp", "-a", f"{source}/{name}", f"{target}/{name}")


class Rsync(Files):
    packages = ("rsync",)
    title, program = "rsync -a", "rsync"
    instead = {("change", "file"): {"inplace": True, "say": "--inplace"}}

    def copy(self, source, name, target, inplace=False):
        tool("rsync", "-a", *(["--inplace"] if inplace else []), f"{source}/{name}{'/' if name == '.' else ''}", f"{target}/{name}")


class Tar(Files):
    packages = ("tar",)
    title = program = "tar"
    instead = {("change", "file"): {"overwrite": True, "say": "--overwrite"}}

    def copy(self, source, name, target, overwrite=False):
        tool("tar", "-C", source, "-cf", f"{self.work}/a.tar", name)
        tool("tar", "-C", target, *(["--overwrite"] if overwrite else []), "-xf", f"{self.work}/a.tar")


class Zip(Files):
    packages = ("zip", "unzip")
    title, program = "zip, unzip", "zip"

    def copy(self, source, name, target):
        tool("zip", "-qr", f"{self.work}/a.zip", name, cwd=source)
        tool("unzip", "-qo", f"{self.work}/a.zip", cwd=target)


class Dd(Tool):
    """A part of a chunk, or of a raw file."""
    packages = ("coreutils",)
    title = program = "dd, cat"
    reads, changes, file = ("decoded", "decoded3", "file"), ("decoded", "decoded3", "file"), "mount"
    names = ("t",)

    def place(self, path):
        """Of the changed values: the file, and the offset of the first row in it."""
        if self.job["view"] == "file":
            return f"{path}/.codecfs/view/raw/t", 8
        return f"{path}/{self.chunk}", 8

    def read(self, path):
        file, _ = self.place(path)
        content = subprocess.run(["cat", file], capture_output=True, check=True).stdout
        found = T.copy()
        if self.job["view"] == "file":
            found[...] = np.frombuffer(content, "<f4").reshape(T.shape)
        else:
            found[:2, :4] = np.frombuffer(content, "<f4").reshape(T_CHUNKS)
        return {"t": found}

    def change(self, path):
        file, width = self.place(path)
        for row in (1, 2):
            tool("dd", f"of={file}", "conv=notrunc", "bs=4", f"seek={row * width + 2}", "count=4", "status=none",
                 input=None, stdin=self.values())

    def values(self):
        with open(f"{self.work}/values", "wb") as file:
            file.write(np.full(4, 99.5, "<f4").tobytes())
        return open(f"{self.work}/values", "rb")


class Sha256sum(Tool):
    """Of a chunk: decoded as numpy has it, encoded as it is stored."""
    packages = ("coreutils",)
    title = program = "sha256sum"
    reads = VIEWS

    @staticmethod
    def applies(action, view, kind):
        return "decoded" in view or (view == "encoded3") == (kind == "Zarr v3")  # otherwise no other program has the same bytes

    def read(self, path):
        stored = np.ascontiguousarray(T[:2, :4]).tobytes()
        if self.job["view"] in ("encoded", "encoded3"):
            stored = self.stored()
        told = tool("sha256sum", f"{path}/{self.chunk}").split()[0]
        return {"same": np.array(told == hashlib.sha256(stored).hexdigest())}

    def stored(self):
        if self.job["kind"] != "HDF5":
            return pathlib.Path(self.job["source"], self.chunk).read_bytes()
        import h5py
        with h5py.File(self.job["source"], locking=False) as file:
            return file["t"].id.read_direct_chunk((0, 0, 0))[1]

    @classmethod
    def expected(cls, action, view, kind):
        return {"same": np.array(True)}


class Sed(Tool):
    packages = ("sed",)
    title, program = "sed -i (an attribute)", "sed"
    changes, units = VIEWS, True

    @classmethod
    def expected(cls, action, view, kind):
        return DATA

    def change(self, path):
        tool("sed", "-i", 's/"K"/"C"/', f"{path}/t/{'zarr.json' if self.job['view'] in V3 else '.zattrs'}")


class Move(Tool):
    packages = ("coreutils",)
    title, program = "mv, rm -r (variables)", "mv"
    changes = VIEWS

    @classmethod
    def expected(cls, action, view, kind):
        return {**{name: values for name, values in DATA.items() if name not in ("count", "ocean/s")}, "number": DATA["count"]}

    def change(self, path):
        tool("mv", f"{path}/count", f"{path}/number")
        tool("rm", "-r", f"{path}/ocean")


# --- netCDF and GDAL


def address(path):
    return f"file://{path}#mode=zarr,file"


def values_of(path, names):
    import netCDF4
    with netCDF4.Dataset(path) as data:
        data.set_auto_maskandscale(False)
        return {name: data[name][...] for name in names}


def cdl(work):
    """A netCDF-4 file for programs that copy one into a view."""
    import netCDF4
    with netCDF4.Dataset(f"{work}/in.nc", "w") as data:
        for name, size in ("b", 6), ("a", 10), ("n", 12):
            data.createDimension(name, size)
        data.createVariable("v", "f4", ("b", "a"))[...] = V
        data.createGroup("sub").createVariable("w", "i4", ("n",))[...] = W
    return f"{work}/in.nc"


class NetCDFTool(Tool):
    file = "hdf5"

    def source(self, path):
        return path if self.job["view"] == "file" else address(path)


class Ncdump(NetCDFTool):
    packages = ("netcdf-bin",)
    title = program = "ncdump"
    reads = (*V2, "file")

    def read(self, path):
        text = tool("ncdump", self.source(path))
        found = {}
        for section in re.split(r"^\s*data:", text, flags=re.M)[1:]:
            for name, numbers in re.findall(r"^\s*(\w+) =\s*([^;]*);", section, re.M):
                name = "ocean/s" if name == "s" else name
                if name in DATA:
                    found[name] = np.array(numbers.replace("_", "nan").split(","), float).reshape(DATA[name].shape)
        return found


class Nccopy(NetCDFTool):
    packages = ("netcdf-bin",)
    title = program = "nccopy"
    reads, creates = (*V2, "file"), V2

    def read(self, path):
        tool("nccopy", "-4", self.source(path), f"{self.work}/out.nc")
        return values_of(f"{self.work}/out.nc", self.names)

    def create(self, path):
        tool("nccopy", cdl(self.work), address(path))


class Nco(NetCDFTool):
    packages = ("nco",)
    title, program = "NCO (ncks, ncatted)", "ncks"
    reads, changes, creates = (*V2, "file"), V2, V2
    units = True
    instead = {("create", view): {"no_tmp_fl": True, "say": "--no_tmp_fl"} for view in V2}

    @classmethod
    def expected(cls, action, view, kind):
        return DATA if action == "change" else super().expected(action, view, kind)

    def read(self, path):
        tool("ncks", "-4", self.source(path), f"{self.work}/out.nc")
        return values_of(f"{self.work}/out.nc", self.names)

    def change(self, path):
        tool("ncatted", "-O", "-a", "units,t,o,c,C", address(path))

    def create(self, path, no_tmp_fl=False):
        tool("ncks", "-O", *(["--no_tmp_fl"] if no_tmp_fl else []), cdl(self.work), address(path))


class Cdo(NetCDFTool):
    packages = ("cdo",)
    title, program = "CDO", "cdo"
    reads = (*V2, "file")
    names = ("t",)

    def read(self, path):
        tool("cdo", "-s", "-f", "nc4", "selname,t", self.source(path), f"{self.work}/out.nc")
        return values_of(f"{self.work}/out.nc", self.names)


class H5dump(NetCDFTool):
    packages = ("hdf5-tools",)
    title = program = "h5dump"
    reads = ("file",)

    def read(self, path):
        found = {}
        for name in self.names:
            tool("h5dump", "-d", name, "-b", "LE", "-o", f"{self.work}/out", path)
            found[name] = np.fromfile(f"{self.work}/out", DATA[name].dtype).reshape(DATA[name].shape)
        return found


class Gdal(Tool):
    packages = ("gdal-bin",)
    title, program = "gdal_translate", "gdal_translate"
    reads, file = (*VIEWS, "file"), "hdf5"
    creates = VIEWS
    names, made = ("t", "ocean/s"), {"v/v": V}

    def read(self, path):
        if self.job["view"] == "file":
            return {name: self.bands(f'HDF5:"{path}"://{name}').reshape(DATA[name].shape) for name in self.names}
        steps = [self.bands(f'ZARR:"{path}":/t:{i}') for i in range(3)]
        return {"t": np.array(steps).reshape(T.shape), "ocean/s": self.bands(f'ZARR:"{path}":/ocean/s').reshape(10, 8)}

    def bands(self, source):
        tool("gdal_translate", "-q", "-of", "ENVI", source, f"{self.work}/out")
        return np.fromfile(f"{self.work}/out", "<f8" if source.endswith("s") else "<f4")

    def create(self, path):
        with open(f"{self.work}/v", "wb") as file:
            file.write(V.tobytes())
        with open(f"{self.work}/v.hdr", "w") as file:
            file.write("ENVI\nsamples = 10\nlines = 6\nbands = 1\ndata type = 4\ninterleave = bsq\nbyte order = 0\n")
        tool("gdal_translate", "-q", "-of", "Zarr", f"{self.work}/v", f"{path}/v")


# --- JavaScript


class Zarrita(Tool):
    title, program = "zarrita.js", "node"
    reads = changes = creates = VIEWS
    instead = {("create", view): {"codecs": "bytes", "say": "codecs: [{name: 'bytes', ...}], fillValue: 0"} for view in V3}

    @classmethod
    def version(cls):
        with open(os.path.join(os.environ["CODECFS_CLIENTS"], "zarrita/node_modules/zarrita/package.json")) as file:
            return json.load(file)["version"]

    def script(self, action, *words):
        return tool("node", os.path.join(os.environ["CODECFS_CLIENTS"], "zarrita/table_zarrita.mjs"), action, *words)

    def read(self, path):
        found = json.loads(self.script("read", path, *self.names))
        return {name: np.array(found[name]).reshape(DATA[name].shape) for name in self.names}

    def change(self, path):
        self.script("change", path)

    def create(self, path, codecs=""):
        self.script("create", path, codecs)


def is_there(client):
    """The program of a client."""
    if client.program == "node":
        return shutil.which("node") is not None and os.path.isdir(os.path.join(os.environ["CODECFS_CLIENTS"], "zarrita/node_modules"))
    return not client.program or shutil.which(client.program.split()[0].rstrip(",")) is not None
