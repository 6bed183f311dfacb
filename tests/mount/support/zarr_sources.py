"""The generated Zarr stores that are sound, and the comparison of a mount with what zarr-python reads of them."""
import numpy as np
import zarr
from compare import read_variable
from conftest import DATA

STORES = sorted(p for p in (DATA / "zarr").iterdir() if not p.name.startswith(("damaged", "nczarr")))


def arrays(group):
    found = []
    group.visititems(lambda name, item: found.append((name, item)) if isinstance(item, zarr.Array) else None)
    return found


def attributes(item):
    """As text, because NaN is not equal to itself; without netCDF's bookkeeping, which is hidden."""
    return {k: repr(v) for k, v in item.attrs.items() if not k.lower().startswith("_nczarr")}


def check_array(m, directory, array):
    if array.dtype.kind == "O" and array.filters[0].codec_id != "vlen-utf8":
        return  # the object codec stays; zarr-python's answer is compared below
    read_variable(directory, np.asarray(array[...]))
