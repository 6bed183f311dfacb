"""codecfs.open(): an open source in a notebook, its tree as HTML, its arrays through numpy, xarray and zarr."""
import gc
import html.parser
import pickle
import re

import h5py
import numpy as np
import pytest
import xarray
import zarr

from conftest import DATA, TESTS
from python_package import grid, in_python, made_sample, no_mount_is_left, sample, site  # noqa: F401: fixtures

import codecfs
from codecfs import _dataset


class Page(html.parser.HTMLParser):
    """Checks that tags are closed as they were opened, and keeps what a browser shows and would load or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], set(), set(), []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)
        if tag not in ("br",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


TAGS = {"style", "div", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "span", "b", "br"}


def test_a_source_is_shown(sample):
    data = codecfs.open(sample)
    page = Page(data._repr_html_())
    assert page.tags <= TAGS and page.attributes <= {"class", "open"}
    assert {"sample.nc", "ocean/", "salinity", "temperature", "float32", "1 × 9 × 18", "shuffle, zlib 5", "fletcher32, bz2 9"} <= {
        text.strip() for text in page.texts}
    assert any("netCDF-4, 5 variables" in text for text in page.texts)
    assert repr(data).splitlines()[0] == f"<codecfs.Dataset {str(sample)!r}>" and "  temperature  float32  2 × 18 × 36" in repr(data)
    assert list(data) == ["ocean", "time", "lat", "lon", "temperature"] and len(data) == 5
    assert data.groups == ["ocean"] and "temperature" in data and "ocean/salinity" in data and "nothing" not in data
    assert data._ipython_key_completions_() == list(data) and data.format == "netCDF-4" and data.info["file_bytes"] > 0
    assert "salinity" in repr(data["ocean"]) and Page(data["ocean"]._repr_html_()).texts.count("salinity") == 1
    assert data.attrs == {"title": "a small atmosphere over a small ocean"}


def test_nothing_is_mounted_until_something_is_read(sample, no_mount_is_left):
    data = codecfs.open(sample)
    assert data._repr_html_() and repr(data["temperature"])
    assert list(no_mount_is_left.iterdir()) == []
    assert data["temperature"].dims == ("time", "lat", "lon")
    assert [place.name.startswith("codecfs-sample.nc-") for place in no_mount_is_left.iterdir()] == [True]
    data.close()
    assert list(no_mount_is_left.iterdir()) == []


def test_hostile_names_are_text(tmp_path):
    script = "<script>alert(1)</script>"
    with h5py.File(tmp_path / "<img src=x>.h5", "w") as file:
        group = file.create_group(script.replace("/", "\\"))
        v = group.create_dataset('"><b onclick="x">\u202e\n', data=[1, 2], chunks=(1,))
        v.attrs["<i>"] = script
        v.attrs["list"] = [script, "&amp;"]
    data = codecfs.open(tmp_path / "<img src=x>.h5")
    page = Page(data._repr_html_())
    assert page.tags <= TAGS and page.attributes <= {"class", "open"}
    assert any("<script>" in text for text in page.texts) and "\u202e" not in data._repr_html_()
    (group,) = data.values()
    (variable,) = group.values()
    page = Page(variable._repr_html_())
    assert page.tags <= TAGS and script in page.texts and "<i>" in page.texts
    assert "\n" not in repr(variable) and "\u202e" not in repr(data) + repr(group) + repr(variable)


def test_a_deep_and_a_wide_tree(tmp_path):
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        group = file
        for _ in range(300):
            group = group.create_group("g")
        group["v"] = 1
        for number in range(1200):
            file[f"wide/{number}"] = number
            file.create_group(f"w{number}")
    data = codecfs.open(tmp_path / "deep.h5")
    page = Page(data._repr_html_())
    assert any("and 502 more groups and 201 more variables" in text for text in page.texts) and page.texts.count("g/") == 300
    assert len(data) == 1202 and set(data["wide"]) == {str(number) for number in range(1200)}
    assert len(repr(data["wide"]).splitlines()) < 210
    assert int(data["/".join(["g"] * 300)]["v"][()]) == 1


def test_a_variable(sample):
    data = codecfs.open(sample)
    t = data["temperature"]
    assert (t.name, t.path, t.shape, t.ndim, t.size, t.chunks) == ("temperature", "/temperature", (2, 18, 36), 3, 1296, (1, 9, 18))
    assert t.type == "float32" and t.dtype == np.dtype("f4") and t.filter == "2,4|1,5" and len(t) == 2
    assert t.attrs == {"units": "K", "long_name": "air temperature", "_FillValue": -999.0, "valid_range": [180.0, 330.0]}
    page = Page(t._repr_html_())
    assert {"time, lat, lon", "units", "K", "1 × 9 × 18"} <= set(page.texts)
    with h5py.File(sample) as file:
        wanted = file["temperature"][...]
    for key in (0, -1, (0, 3), (0, 3, 5), ..., (), (..., 2), (slice(None), [1, 5]), (1, ..., slice(None, None, -7)), np.int64(1),
                (0, np.arange(18) % 2 == 0), (slice(5, 2),), [], (Ellipsis, np.array([3, -1])), (0, slice(1, 9, 3), 4)):
        found, expected = t[key], wanted[key]
        assert isinstance(found, np.ndarray) or expected.ndim == 0
        np.testing.assert_array_equal(found, expected, err_msg=str(key))
    for key in (2, (0, 0, 0, 0), (..., ...), "x", 1.5, ([0], [1]), (0, [[1]]), (0, np.ones(17, bool)), (0, 0, 36)):
        with pytest.raises(IndexError):
            t[key]
    np.testing.assert_array_equal(np.asarray(t), wanted)
    assert np.asarray(t, "f8").dtype == np.dtype("f8") and float(np.max(t)) == wanted.max()
    assert [part.shape for part in t] == [(18, 36)] * 2
    for name, error in (("nothing", KeyError), ("ocean/nothing", KeyError), (5, TypeError)):
        with pytest.raises(error):
            data[name]


def test_an_array_that_is_the_source():
    data = codecfs.open(DATA / "zarr/array_as_root")
    variable = data["/"]
    assert list(data) == [] and isinstance(variable, codecfs.Variable)
    wanted = zarr.open_array(str(DATA / "zarr/array_as_root"), mode="r")
    np.testing.assert_array_equal(variable[...], wanted[...])
    assert Page(data._repr_html_()).tags <= TAGS


@pytest.mark.parametrize("name", ["objects", "lzma", "filters", "blosc", "structured", "compressors", "nczarr_493"])
def test_stores_of_all_kinds_are_shown(name):
    data = codecfs.open(DATA / "zarr" / name)
    assert Page(data._repr_html_()).tags <= TAGS
    for member in data.values():
        assert Page(member._repr_html_()).tags <= TAGS and member.name in repr(member)
    data.close()


def test_what_cannot_be_read_says_why():
    data = codecfs.open(DATA / "hdf5/types_without_zarr_form.h5")
    assert "references point into the HDF5 file and have no Zarr form" in data._repr_html_()
    with pytest.raises((codecfs.CodecfsError, OSError), match="no Zarr"):
        data["references"][...]
    assert data["target"][0] is not None
    with pytest.raises(codecfs.CodecfsError, match="No such file"):
        codecfs.open("/nonexistent.nc")


def test_through_xarray(sample):
    data = codecfs.open(sample)
    found = data["temperature"].xarray()
    assert isinstance(found, xarray.DataArray) and found.dims == ("time", "lat", "lon") and list(found.coords) == ["time", "lat", "lon"]
    with xarray.open_dataset(sample, engine="netcdf4") as wanted:
        xarray.testing.assert_identical(data.xarray().load(), wanted.load())
        xarray.testing.assert_identical(found.load(), wanted.temperature)
    assert list(data["ocean"].xarray(mask_and_scale=False)) == ["salinity"]
    assert data["ocean/salinity"].xarray(mask_and_scale=False)[0, 1] == 3468
    copy = pickle.loads(pickle.dumps(data.xarray()))
    xarray.testing.assert_identical(copy.load(), data.xarray().load())


def test_through_zarr(sample, no_mount_is_left):
    data = codecfs.open(sample)
    group = data.zarr()
    assert isinstance(group, zarr.Group)
    data.close()
    del data
    array = group["temperature"]
    del group
    gc.collect()
    assert round(float(array[0, 0, 0]), 1) == 265.3 and len(list(no_mount_is_left.iterdir())) == 1
    with pytest.raises(Exception, match="read-only|readonly"):
        array[0, 0, 0] = 1
    del array
    gc.collect()
    assert list(no_mount_is_left.iterdir()) == []
    assert codecfs.open(sample)["ocean/salinity"].zarr()[0, 1] == 3468


def test_numbers_that_json_does_not_have(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        v = file.create_dataset("v", data=[1.0])
        v.attrs["limits"] = [-np.inf, np.inf]
        v.attrs["text"] = "NaN"
        v.attrs["nan"] = np.nan
    attributes = codecfs.open(tmp_path / "a.h5")["v"].attrs
    assert attributes["limits"] == [-np.inf, np.inf] and attributes["text"] == "NaN" and np.isnan(attributes["nan"])


def test_zarr_v3_through_zarr_python_2(tmp_path, sample):
    codecfs.convert(sample, tmp_path / "three.zarr", format="zarr3")
    assert codecfs.open(tmp_path / "three.zarr").zarr()["ocean/salinity"][0, 1] == 3468


def test_options_of_sources_are_those_of_the_reference():
    """They are given to the command that looks into the source, too."""
    text = (TESTS.parent / "docs/reference.md").read_text()
    names = re.findall(r"^\| `(\w+)` \|", text[text.index("## Mount options"):text.index("`-O` of the commands")], re.M)
    wanted = set(names[names.index("endpoint"):names.index("retry") + 1])
    assert _dataset.SOURCE_OPTIONS == wanted | {"plugin_path", "plugins", "builtin", "max_chunk", "follow", "isolate"}


def test_a_relative_path_and_the_home_directory(sample, monkeypatch, tmp_path):
    monkeypatch.chdir(sample.parent)
    data = codecfs.open("sample.nc")
    monkeypatch.chdir("/")
    assert data.source == str(sample) and data["time"].shape == (2,) and float(data["lat"][0]) == -85
    with codecfs.open(sample) as again:
        assert int(again["ocean/salinity"][0, 1]) == 3468


def test_only_numpy_is_needed(site, sample):
    """And what needs more says so."""
    text = f"""if True:
        import sys
        for name in ("xarray", "zarr", "h5py", "IPython"):
            sys.modules[name] = None
        import codecfs
        data = codecfs.open({str(sample)!r})
        print(data._repr_html_()[:6], round(float(data["temperature"][0, 0, 0]), 1))
        def zarr_group():
            with codecfs.open_zarr({str(sample)!r}):
                pass
        for function in data.xarray, data["temperature"].xarray, data.zarr, zarr_group:
            try:
                function()
            except ImportError as error:
                print(error)
        sys.modules["numpy"] = None
        try:
            data["temperature"][0]
        except ImportError as error:
            print(error)
        assert codecfs.verify({str(sample)!r})
    """
    lines = in_python(site, text).splitlines()
    assert lines[0] == "<style 265.3"
    wanted = ["xarray() needs xarray", "xarray() needs xarray", "zarr() needs zarr", "codecfs.open_zarr needs zarr", "reading arrays needs numpy"]
    assert [line.split(",")[0] for line in lines[1:]] == wanted
    assert all("pip install" in line for line in lines[1:])
