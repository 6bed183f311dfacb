"""codecfs info --html: the page, against numpy; hostile names; what is damaged or missing; large sources."""
import os
import shutil
import time

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import DATA
from overview_pages import facts_of, page_of, parsed, pixels_of, share, statistics_of, variables_of
from running import codecfs

SLOWER = 10 if os.environ.get("CODECFS_SANITIZE") else 1


def close(text, number):
    return float(text) == pytest.approx(number, rel=2e-5)


def check_statistics(variable, values, missing):
    """What the page says of all elements, against numpy."""
    found = statistics_of(variable)
    values = np.asarray(values, "f8").ravel()
    valid = values[~np.asarray(missing).ravel()]
    if len(values) > 1:
        assert share(found["fill"]) == pytest.approx((len(values) - len(valid)) / len(values), rel=1e-2)
    if len(values) == 1 and len(valid):
        assert close(found["value"], valid[0])
    elif len(valid):
        assert close(found["least"], valid.min()) and close(found["greatest"], valid.max())
        assert float(found["mean"]) == pytest.approx(valid.mean(), rel=2e-5, abs=2e-5 * np.abs(valid).max())
    assert "from a sample:" not in found


# ---- statistics

def test_statistics_of_each_type_and_byte_order(tmp_path):
    rng = np.random.default_rng(3)
    arrays = {}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
            for order in "<>":
                for rank, shape in enumerate(((), (50,), (23, 31), (5, 7, 9))):
                    values = np.asarray(rng.normal(50, 20, shape)).astype(order + kind)
                    values = np.where(values == 0, values.dtype.type(1), values)  # the fill value
                    arrays[f"/{kind}{'b' if order == '>' else 'l'}{rank}"] = values
                    chunks = tuple(max(1, n // 3) for n in shape) or None
                    f.create_dataset(f"{kind}{'b' if order == '>' else 'l'}{rank}", data=np.asarray(values, order + kind), chunks=chunks)
    found = variables_of(page_of(tmp_path / "a.h5"))
    assert found.keys() == arrays.keys()
    for path, values in arrays.items():
        values = np.abs(values) if values.dtype.kind == "c" else values
        check_statistics(found[path], values, np.zeros(values.shape, bool))


def test_missing_values_and_packing(tmp_path):
    rng = np.random.default_rng(4)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("y", 40)
        f.createDimension("x", 60)
        stored = rng.integers(-3000, 3000, (40, 60)).astype("i2")
        stored[:10] = -32000
        stored[10, :5] = 7777
        v = f.createVariable("packed", "i2", ("y", "x"), fill_value=-32000, zlib=True, chunksizes=(7, 60))
        v.scale_factor, v.add_offset, v.missing_value, v.units = -0.5, 20.0, np.int16(7777), "m s-1"
        v.set_auto_maskandscale(False)
        v[:] = stored
        w = f.createVariable("nan", "f4", ("y", "x"))
        values = rng.normal(0, 1, (40, 60)).astype("f4")
        values[5:9, 5:9] = np.nan
        w[:] = values
        f.createVariable("unwritten", "f8", ("y", "x"))
        u = f.createVariable("unsigned", "i1", ("x",), fill_value=np.int8(-1))
        u._Unsigned = "true"
        u.set_auto_maskandscale(False)
        bytes_ = rng.integers(0, 255, 60).astype("u1")
        bytes_[3] = 255
        u[:] = bytes_.view("i1")
    with netCDF4.Dataset(tmp_path / "a.nc") as f:
        masked = f["packed"][:]
    found = variables_of(page_of(tmp_path / "a.nc"))
    check_statistics(found["/packed"], masked.data, masked.mask)
    assert facts_of(found["/packed"])["unpacked"] == "number × -0.5 + 20" and "[m s-1]" in found["/packed"].text
    check_statistics(found["/nan"], values, np.isnan(values))
    assert statistics_of(found["/unwritten"])["fill"] == "all" and "only fill" in found["/unwritten"].text
    check_statistics(found["/unsigned"], bytes_, bytes_ == 255)


def test_chunks_that_are_not_stored_are_fill(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        d = f.create_dataset("v", (60, 60), "i4", chunks=(10, 10), fillvalue=-5)
        d[20:35, 20:60] = np.arange(15 * 40).reshape(15, 40)
        values = d[:]
    variable = variables_of(page_of(tmp_path / "a.h5"))["/v"]
    check_statistics(variable, values, values == -5)
    pixels = pixels_of(variable)
    assert pixels.shape[:2] == (60, 60)
    np.testing.assert_array_equal(pixels[..., 3] == 0, values == -5)


def test_a_sample_says_that_it_is_one(tmp_path):
    values = np.arange(200 * 100 * 100, dtype="f4").reshape(200, 100, 100)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 25, 25))
    variable = variables_of(page_of(tmp_path / "a.h5"))["/v"]
    found = statistics_of(variable)
    assert found["from a sample:"].endswith(" of 3,200 chunks") and int(found["from a sample:"].split()[0]) <= 256
    assert 0 <= float(found["least"]) <= float(found["mean"]) <= float(found["greatest"]) <= values.max()
    assert facts_of(variable)["picture"] == "[100, 0:100, 0:100]"


# ---- pictures

def test_a_heat_map_has_the_colours_of_the_numbers(tmp_path):
    """Each pixel is an element; brighter for larger ones."""
    values = np.arange(20 * 30, dtype="f8").reshape(20, 30) + 1
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("up", data=values, chunks=(6, 7), compression="gzip")
        f.create_dataset("down", data=values[::-1, ::-1])
        f.create_dataset("around", data=values - 300)
    found = variables_of(page_of(tmp_path / "a.h5"))
    pixels = pixels_of(found["/up"]).astype("f8")
    assert pixels.shape == (20, 30, 4) and (pixels[..., 3] == 255).all()
    light = pixels[..., :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(light.ravel()) >= -0.5).all() and light[-1, -1] - light[0, 0] > 150
    np.testing.assert_array_equal(pixels_of(found["/down"])[::-1, ::-1], pixels_of(found["/up"]))
    around = pixels_of(found["/around"]).astype("f8")
    assert around[0, 0, 2] > around[0, 0, 0] and around[-1, -1, 0] > around[-1, -1, 2] and around[10, 0, :3].min() > 200
    assert [scale.attributes["class"] for scale in found["/around"].find_all("i")] == ["diverging"]
    assert [scale.attributes["class"] for scale in found["/up"].find_all("i")] == ["sequential"]


def test_cells_are_means_of_elements(tmp_path):
    rng = np.random.default_rng(5)
    values = np.kron(np.arange(1, 13).reshape(3, 4), np.ones((160, 160))) + rng.normal(0, 0.01, (480, 640))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(100, 100))
    variable = variables_of(page_of(tmp_path / "a.h5"))["/v"]
    pixels = pixels_of(variable)
    height, width = pixels.shape[:2]
    assert height <= 120 and width <= 160 and width / height == pytest.approx(4 / 3, rel=0.05)
    blocks = [[pixels[int((y + 0.5) * height / 3), int((x + 0.5) * width / 4)].tolist() for x in range(4)] for y in range(3)]
    assert len({tuple(block) for row in blocks for block in row}) == 12
    assert "480" in variable.text and "640" in variable.text


def test_images_flags_and_maps(tmp_path):
    rng = np.random.default_rng(6)
    rgb = rng.integers(0, 256, (12, 16, 3), "u1")
    grey = rng.integers(0, 256, (12, 16), "u1")
    flags = rng.integers(0, 3, (12, 16)).astype("i1")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, size in (("lat", 12), ("lon", 16), ("c", 3)):
            f.createDimension(name, size)
        lat = f.createVariable("lat", "f4", ("lat",))
        lat.units, lat[:] = "degrees_north", np.linspace(-60, 60, 12)
        f.createVariable("rgb", "u1", ("lat", "lon", "c"))[:] = rgb
        v = f.createVariable("class", "i1", ("lat", "lon"))
        v.flag_values, v.flag_meanings, v[:] = np.array([0, 1, 2], "i1"), "sea land ice_sheet", flags
        f.createVariable("map", "f4", ("lat", "lon"))[:] = np.arange(12)[:, None] + np.zeros((12, 16)) + 1
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f["grey"] = grey
    found = variables_of(page_of(tmp_path / "a.nc"))
    np.testing.assert_array_equal(pixels_of(found["/rgb"])[..., :3], rgb)
    pixels = pixels_of(found["/class"])[::-1]  # north is above
    for value in range(3):
        assert len(np.unique(pixels[flags == value], axis=0)) == 1
    assert len(np.unique(pixels.reshape(-1, 4), axis=0)) == 3
    [keys] = found["/class"].find_all("span", "keys")
    assert keys.text == "sealandice_sheet"
    assert "north above" in facts_of(found["/map"])["picture"]
    light = pixels_of(found["/map"])[:, 0, :3].astype("f8") @ [0.299, 0.587, 0.114]
    assert light[0] > light[-1]
    pixels = pixels_of(variables_of(page_of(tmp_path / "b.h5"))["/grey"])
    assert (pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all()
    order = np.argsort(grey.ravel())
    assert (np.diff(pixels[..., 0].ravel()[order].astype(int)) >= 0).all()


def test_lines(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["few"] = np.array([1.0, 3.0, 2.0])
        f["many"] = np.sin(np.arange(100000) / 5000) * 7
        f["column"] = np.arange(5.0, 45.0)[:, None]
        f["vectors"] = np.arange(300.0).reshape(100, 3)
        f["constant"] = np.full(50, 4.0)
        f["gap"] = np.where(np.arange(90) // 30 == 1, np.nan, np.arange(90))
    found = variables_of(page_of(tmp_path / "a.h5"))
    for path, (low, top) in {"/few": ("1", "3"), "/column": ("5", "44"), "/constant": ("4", "4"), "/gap": ("0", "89")}.items():
        [plot] = found[path].find_all("span", "plot")
        assert [next(plot.find_all("span", kind)).text for kind in ("low", "top")] == [low, top], path
    [few] = found["/few"].find_all("path")
    assert few.attributes["d"] == "M0.0 77.0L1.5 3.0L3.0 40.0"
    [gap] = found["/gap"].find_all("path")
    assert gap.attributes["d"].count("M") == 2
    assert {path.attributes["class"] for path in found["/many"].find_all("path")} == {"zero", "area", "line"}
    assert list(found["/vectors"].find_all("path")) and not list(found["/vectors"].find_all("img"))


def test_without_numbers(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["text"] = ["one", "two & <three>"]
        f["fixed"] = np.array([b"ab", b"c"])
        f["record"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        f.create_dataset("vlen", (2,), h5py.vlen_dtype("i4"))
        f["scalar"] = 4.25
        f.create_dataset("empty", (0, 3), "f4", maxshape=(None, 3))
        f["flag"] = np.array([True, False, True])
    found = variables_of(page_of(tmp_path / "a.h5"))
    assert '"one", "two & <three>"' in found["/text"].text and '"ab", "c"' in found["/fixed"].text
    assert "{a: 1, b: 2.5}" in found["/record"].text and statistics_of(found["/scalar"]) == {"value": "4.25"}
    assert "no elements" in found["/empty"].text and statistics_of(found["/flag"])["greatest"] == "1"


# ---- what cannot be read

def test_a_missing_filter_is_named_where_it_is_missing():
    page = page_of(DATA / "hdf5/filters_plugins.h5", "-O", "plugins=off,builtin=off:lz4")
    found = variables_of(page)
    bad = [path for path, variable in found.items() if list(variable.find_all("div", "bad"))]
    assert len(bad) == 2 and all("lz4" in next(found[path].find_all("div", "bad")).text for path in bad)
    [problems] = page.find_all("section", "problems")
    assert "2 objects" in problems.text and all(path in problems.text for path in bad)
    for path, variable in found.items():
        assert bool(statistics_of(variable)) == (path not in bad), path


def test_damage_is_shown_where_it_is(tmp_path):
    values = np.arange(4096.0).reshape(64, 64)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        d = f.create_dataset("v", data=values, chunks=(16, 16), compression="gzip", fletcher32=True)
        offset = d.id.get_chunk_info(5).byte_offset
        where = d.id.get_chunk_info(5).chunk_offset
        f["w"] = np.arange(3.0)
    with open(tmp_path / "a.h5", "r+b") as f:
        f.seek(offset + 10)
        f.write(b"\xff\xff\xff\xff")
    found = variables_of(page_of(tmp_path / "a.h5"))
    assert len(list(found["/v"].find_all("div", "bad"))) == 1 and not list(found["/w"].find_all("div", "bad"))
    assert statistics_of(found["/v"])["from a sample:"] == "15 of 16 chunks"
    hidden = np.zeros((64, 64), bool)
    hidden[where[0]:where[0] + 16, where[1]:where[1] + 16] = True
    np.testing.assert_array_equal(pixels_of(found["/v"])[..., 3] == 0, hidden)


@pytest.mark.parametrize("name", sorted(str(path.relative_to(DATA)) for path in [*(DATA / "hdf5").iterdir(), *(DATA / "zarr").iterdir()]
                                        if path.suffix in (".h5", ".nc") or path.is_dir()))
def test_every_source_has_a_page(name):
    done = codecfs("info", "--html", "-", DATA / name, code=(0, 32))
    if done.returncode == 32:
        assert codecfs("info", DATA / name, code=None).returncode == 32
        return
    parsed(done.stdout)


HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onclick='x", "</style><b>", "&lt;b&gt;", "<!--", "]]>",
           "a\x01b\x1b[31m", "\u202eabc", "x" * 300, "javascript:alert(1)", "{}%s%n"]


def test_hostile_texts_are_only_text(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i, text in enumerate(HOSTILE):
            name = text.replace("/", "|")[:200]
            g = f.create_group(f"group {i} {name}")
            g.attrs[name] = text
            d = g.create_dataset(name, data=np.arange(6.0).reshape(2, 3))
            d.attrs[name] = text
            for attribute in ("units", "long_name", "flag_meanings"):
                d.attrs[attribute] = text
            d.attrs["flag_values"] = [0.0, 1.0]
            g["text"] = text.replace("\0", "")
            g["type"] = np.zeros(2, [(name[:60], "i4")])
            g[f"link {name}"] = h5py.SoftLink("/" + name)
    name = tmp_path / "<script> & ' \".h5"
    shutil.copy(tmp_path / "a.h5", name)
    page = page_of(name)
    assert not list(page.find_all("script")) and "<script> & ' \".h5" in page.text
    for text in HOSTILE[:7]:
        assert text.replace("/", "|") in page.text and text in page.text, text
    for bad in "\x01\x1b\u202e":
        assert bad not in page.text
    assert not any(image.attributes["src"] == "x" for image in page.find_all("img"))


# ---- the file

def test_the_file_is_replaced_only_if_it_is_a_page(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as f:
        f["v"] = np.arange(5)
    before = source.read_bytes()
    page = tmp_path / "page.html"
    assert codecfs("info", source, "--html", page).output == ""
    first = page.read_text()
    parsed(first)
    assert os.stat(page).st_mode & 0o777 == 0o644 and sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "page.html"]
    with h5py.File(source, "a") as f:
        f["w"] = np.arange(5)
    codecfs("info", source, "v", "--html", page)
    assert page.read_text() != first and list(variables_of(parsed(page.read_text()))) == ["/v"]
    assert "is no page" in codecfs("info", page, "--html", source, code=32).stderr
    assert source.read_bytes() != before and h5py.is_hdf5(source)
    (tmp_path / "other.html").write_text("<!DOCTYPE html><title>mine</title>")
    assert "is no page" in codecfs("info", source, "--html", tmp_path / "other.html", code=32).stderr
    (tmp_path / "link.html").symlink_to(page)
    assert "is no page" in codecfs("info", source, "--html", tmp_path / "link.html", code=32).stderr
    assert "nowhere" in codecfs("info", source, "--html", tmp_path / "nowhere/page.html", code=32).stderr
    os.chmod(source, 0o600)
    codecfs("info", source, "--html", page)
    assert os.stat(page).st_mode & 0o777 == 0o600


def test_forms_exclude_each_other(tmp_path):
    for words in (["--json", "--plot"], ["--html", "x", "--json"], ["--html", "x", "--plot"]):
        assert "exclude" in codecfs("info", *words, DATA / "hdf5/layouts.h5", code=1).stderr


# ---- bounds

def test_a_hundred_thousand_variables(tmp_path):
    """Under 20 MB, in seconds; each is in it."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        space, kind = h5py.h5s.create_simple((10,)), h5py.h5t.IEEE_F32LE
        for g in range(100):
            group = f.create_group(f"group_{g:03}").id
            for i in range(1000):
                h5py.h5d.create(group, b"variable_%04d" % i, kind, space)
    begin = time.monotonic()
    text = codecfs("info", "--html", "-", tmp_path / "a.h5").stdout
    seconds = time.monotonic() - begin
    assert len(text) < 20e6 and seconds < 10 * SLOWER, (len(text), seconds)
    page = parsed(text)
    rows = sum(1 for _ in page.find_all("p", "row"))
    assert rows + len(variables_of(page)) == 100_000 and len(variables_of(page)) >= 500


def test_many_pictures_and_long_attributes_stay_in_bounds(tmp_path):
    rng = np.random.default_rng(8)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i in range(1200):
            d = f.create_dataset(f"v{i:04}", data=rng.integers(0, 1 << 16, (150, 200), "u2"))
            d.attrs["history"] = d.attrs["comment"] = "x" * 10000
        f.attrs["long"] = "y" * 60000
    text = codecfs("info", "--html", "-", tmp_path / "a.h5").stdout
    assert len(text) < 20e6
    page = parsed(text)
    assert len(list(page.find_all("img"))) > 300 and "not drawn" in page.text
    assert "further attribute" in page.text and "… (60,000 bytes)" in page.text


def test_a_large_array_takes_a_bounded_time_and_memory(tmp_path):
    """8 TB of chunks, one in ten thousand of them stored."""
    store = tmp_path / "s"
    array = zarr.open(str(store), "w", shape=(1000, 1 << 15, 1 << 15), chunks=(1, 1 << 10, 1 << 10), dtype="f8", compressor=None,
                      fill_value=np.nan)
    array[700, 5000:6000, 7000:8000] = np.random.default_rng(9).normal(0, 1, (1000, 1000))
    begin = time.monotonic()
    variable = variables_of(page_of(store))["/"]
    assert time.monotonic() - begin < 10 * SLOWER
    assert pixels_of(variable)[..., 3].any() and "of 1,024,000 chunks" in statistics_of(variable)["from a sample:"]
