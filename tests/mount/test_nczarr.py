"""NCZarr stores of every generation: on the mount they are plain Zarr, with the values that netCDF-C was given."""
import json
import sys
import pathlib

import pytest
import zarr
from compare import read_variable, same_values
from conftest import DATA

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "data"))
import make_zarr  # noqa: E402

STORES = sorted(p for p in (DATA / "zarr").iterdir() if p.name.startswith("nczarr"))


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_values_and_dimensions(mount, path):
    m = mount(path)
    shown = zarr.open(str(m.path), "r")
    found = {}
    shown.visititems(lambda name, item: found.update({name: item}) if isinstance(item, zarr.Array) else None)
    wanted = make_zarr.expected(path.name)
    assert set(found) == set(wanted)
    for name, (values, dimensions) in wanted.items():
        read_variable(m.path / name, values)
        assert found[name].dtype == values.dtype and same_values(found[name][...], values), name
        if dimensions is not None:
            assert found[name].attrs["_ARRAY_DIMENSIONS"] == dimensions, name


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_the_dialect_is_gone(mount, path):
    m = mount(path)
    for file in m.path.rglob(".z*"):
        assert '"_nczarr' not in file.read_text().lower(), file
    names = {p.name for p in m.path.rglob("*")}
    assert not [name for name in names if name.startswith(".ncz")]
    assert json.loads((m.path / "i/.zattrs").read_text())["units"] == "m"
    assert json.loads((m.path / ".zattrs").read_text())["title"] == "NCZarr"
