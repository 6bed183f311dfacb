"""The rows of bench/object-stores: what is in the buckets, and which clients do what with it.

Each client's entry is its name in the table: (client of store_worker.py, what mounts the bucket for it or None).
"""
import random

import numpy as np

import store_data
from store_data import digest_of

ZARR = {"codecfs": ("codecfs", "codecfs"), "obstore": ("obstore", None), "tensorstore": ("tensorstore", None), "s3fs": ("s3fs", None),
        "s3fs-fuse": ("mounted", "s3fs-fuse"), "rclone": ("mounted", "rclone")}
ZARR3 = {**ZARR, "icechunk": ("icechunk", None)}
# Two ways to write a mount of codecfs: the array as one file (view=raw), or a file for each chunk, by 16 threads.
WRITERS = {"codecfs": ZARR["codecfs"], "codecfs, chunk files": ("chunk-files", "codecfs"),
           **{name: how for name, how in ZARR.items() if name != "codecfs"}}
NETCDF = {"codecfs": ("codecfs", "codecfs"), "kerchunk": ("kerchunk", None), "h5py on s3fs": ("h5py", None),
          "h5py on s3fs-fuse": ("h5py", "s3fs-fuse"), "h5py on rclone": ("h5py", "rclone")}
MODULES = {"codecfs": [], "chunk-files": [], "obstore": ["obstore", "zarr", "zarr.storage"], "s3fs": ["s3fs", "zarr", "zarr.storage"],
           "kerchunk": ["s3fs", "fsspec.implementations.reference", "zarr", "zarr.storage"], "icechunk": ["icechunk", "zarr"],
           "tensorstore": ["tensorstore"], "mounted": ["zarr", "zarr.storage"], "root": ["zarr", "zarr.storage"], "h5py": ["h5py", "s3fs"]}


class Rows:
    """`sizes`: those of --quick, or the full ones."""

    def __init__(self, quick):
        self.steps = 10 if quick else 40
        self.many = 200 if quick else 1000
        self.picked = 40 if quick else 100
        self.listed = 5000 if quick else 100_000
        self.few_writes, self.many_writes = (50, 500) if quick else (200, 10_000)
        self.branches = 3 if quick else 4
        era5 = {"kind": "era5", "count": self.steps}
        rows = {"kind": "rows", "count": self.many}
        few = {"kind": "floats", "count": self.few_writes, "width": 1 << 16}
        many = {"kind": "floats", "count": self.many_writes, "width": 1 << 10}
        chunks = sorted(random.Random(1).sample(range(self.many), self.picked), key=lambda index: index * 7919 % 1009)
        number = 4 * self.steps
        self.values_of = {"era5": era5, "rows": rows}
        self.rows = {
            "netcdf": self.reading(f"a variable of netCDF-4, {number} chunks", "era5.nc", 4, era5, NETCDF),
            "zarr2": self.reading(f"the same in Zarr v2, {number} chunks", "era5-2.zarr", 2, era5, ZARR),
            "zarr3": self.reading(f"the same in Zarr v3, {number} chunks", "era5-3.zarr", 3, era5, ZARR3),
            "sharded": self.reading(f"the same in Zarr v3, {self.steps // 10} shards of 40 chunks", "era5-s.zarr", 3, era5, ZARR3),
            "random": {"what": f"{self.picked} random chunks of {self.many} (64 KiB, v3) by 32 threads", "do": "random", "path": "rows.zarr",
                       "format": 3, "chunks": chunks, "dtype": "u1", "clients": ZARR3, "expected": lambda: digest_of(
                           np.concatenate([np.ravel(store_data.values(rows)[index]) for index in chunks]))},
            "list": {"what": f"a list of the {self.listed:,} chunks of an array", "do": "list", "path": "listed.zarr", "format": 2,
                     "clients": ZARR, "expected": lambda: digest_of(sorted(str(index) for index in range(self.listed)))},
            "open": {"what": f"all {len(self.tree())} groups and arrays of a v3 store without consolidated metadata", "do": "walk",
                     "path": "tree.zarr", "format": 3, "expected": lambda: digest_of(self.tree()),
                     "clients": {"codecfs": ("root", "codecfs"), **{name: how for name, how in ZARR3.items()
                                                                    if name not in ("codecfs", "tensorstore")}}},  # it has no groups
        }
        for label, values, size in (("few", few, "256 KiB"), ("many", many, "4 KiB")):
            for version in (2, 3):
                clients = WRITERS if version == 2 else {**WRITERS, "icechunk": ZARR3["icechunk"]}
                if values is many:  # the other mounts have 5 to 28 requests for each chunk, few of them at a time: minutes
                    clients = {name: how for name, how in clients.items() if how[1] in (None, "codecfs")}
                self.rows[f"write-{label}-v{version}"] = {
                    "what": f"writing {values['count']:,} chunks of {size} in v{version}", "do": "write", "path": "written", "format": version,
                    "values": values, "clients": clients, "expected": lambda values=values: digest_of(store_data.values(values))}
        for row in self.rows.values():
            row["name"] = "v"

    @staticmethod
    def reading(what, path, version, values, clients):
        return {"what": f"reading {what}", "do": "read", "path": path, "format": version, "clients": clients,
                "expected": lambda: digest_of(store_data.values(values))}

    def tree(self):
        """[path, shape] of all nodes below the root of the store of `open`, sorted."""
        found = []
        for a in range(self.branches):
            found.append([f"a{a}", []])
            for b in range(self.branches):
                found.append([f"a{a}/b{b}", []])
                found += [[f"a{a}/b{b}/v{v}", [10 + v]] for v in range(self.branches)]
        return sorted(found)
