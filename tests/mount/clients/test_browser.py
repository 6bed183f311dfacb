"""The page of `codecfs info --html` in a headless Chromium, which is an extra: what it draws, by screenshots. With CODECFS_SCREENSHOTS,
a folder, they are kept there, to be looked at."""
import base64
import json
import os
import pathlib
import re
import shutil
import struct
import zlib

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from running import codecfs, run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="skipped: no chromium, in which pages are tried")


def browser(tmp_path, *words):
    return run(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/profile",
               "--force-device-scale-factor=1", "--enable-logging=stderr", *words, seconds=90)


def decoded(png):
    """Rows, columns, colours of a PNG without a palette."""
    at, body = 8, b""
    while at < len(png):
        size, = struct.unpack_from(">I", png, at)
        kind = png[at + 4:at + 8]
        if kind == b"IHDR":
            width, height, _, colours = struct.unpack_from(">IIBB", png, at + 8)
        if kind == b"IDAT":
            body += png[at + 8:at + 8 + size]
        at += 12 + size
    channels = {2: 3, 6: 4}[colours]
    rows = np.frombuffer(zlib.decompress(body), "u1").reshape(height, 1 + width * channels)
    image = np.zeros((height, width * channels), "u1")
    above = np.zeros(width * channels, int)
    for y, row in enumerate(rows.astype(int)):
        kind, values = row[0], row[1:].copy()
        if kind == 2:
            values = (values + above) & 255
        elif kind:
            for i, value in enumerate(values.tolist()):
                left = int(values[i - channels]) if i >= channels else 0
                corner = int(above[i - channels]) if i >= channels else 0
                up = int(above[i])
                near = min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))[2]
                values[i] = (value + {1: left, 3: (left + up) // 2, 4: near}[kind]) & 255
        image[y], above = values, values
    return image.reshape(height, width, channels)[..., :3]


def screenshot(page, tmp_path, name, height=900):
    """What the browser draws of a page; nothing was refused or fetched."""
    picture = pathlib.Path(os.environ.get("CODECFS_SCREENSHOTS") or tmp_path, f"{name}.png")
    done = browser(tmp_path, f"--window-size=1000,{height}", f"--screenshot={picture}", page.as_uri())
    assert not re.search("Content Security Policy|Refused to|net::ERR", done.stderr), done.stderr
    return decoded(picture.read_bytes())


def climate(path):
    with netCDF4.Dataset(path, "w") as f:
        for name, size in (("time", None), ("lat", 45), ("lon", 90)):
            f.createDimension(name, size)
        lat = f.createVariable("lat", "f4", ("lat",))
        lat.units, lat[:] = "degrees_north", np.linspace(-88, 88, 45)
        t = f.createVariable("temperature", "f4", ("time", "lat", "lon"), zlib=True, fill_value=-999)
        t.units, t.long_name = "K", "air temperature"
        field = 290 - 40 * np.abs(np.linspace(-1, 1, 45))[:, None] + 5 * np.sin(np.linspace(0, 9, 90))
        field[30:35, 20:40] = -999
        t[:] = np.stack([field] * 3)
        f.title = "an atmosphere"


def microscopy(path):
    y, x = np.mgrid[:300, :400]
    cells = sum(np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 300) for cy, cx in ((60, 80), (150, 200), (240, 310)))
    root = zarr.open_group(str(path), "w")
    for level in range(3):
        image = (cells[::2**level, ::2**level] * 4000 + 200).astype("u2")
        root.create_dataset(str(level), data=np.stack([image, image // 2])[:, None], chunks=(1, 1, 128, 128))
    root.create_dataset("overlay", data=np.stack([255 * cells.clip(0, 1), 0 * cells, 80 + 0 * cells], -1).astype("u1"), chunks=(150, 200, 3))


def single_cell(path):
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as f:
        counts = rng.poisson(2, 30000)
        f["X/data"], f["X/indices"], f["X/indptr"] = counts.astype("f4"), rng.integers(0, 2000, 30000), np.arange(0, 30001, 60)
        f["obs/cell_type"] = rng.integers(0, 5, 500).astype("i1")
        f["obs/_index"] = np.array([f"CELL{i:04}" for i in range(500)], "S")
        f.create_dataset("obsm/X_umap", data=rng.normal(0, 4, (500, 2)))
        f.create_dataset("obsp/distances", data=rng.normal(0, 1, (500, 500)), chunks=(100, 100), compression="gzip")


def detector(path):
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:256, :512]
    ring = 300 * np.exp(-((np.hypot(y - 128, x - 250) - 90) / 6) ** 2)
    frames = rng.poisson(ring + 2, (4, 256, 512)).astype("u4")
    frames[:, 120:124] = 2**32 - 1
    with h5py.File(path, "w") as f:
        f.create_dataset("entry/data/data", data=frames, chunks=(1, 256, 512), compression="gzip")
        f["entry/instrument/detector/count_time"] = 0.1
        f["entry"].attrs["NX_class"] = "NXentry"


def network(path):
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as f:
        for i, shape in enumerate([(3, 3, 3, 32), (3, 3, 32, 64), (1024, 128), (128, 10)]):
            f[f"layer_{i}/kernel:0"] = rng.normal(0, 0.1, shape).astype("f4")
            f[f"layer_{i}/bias:0"] = rng.normal(0, 0.1, shape[-1:]).astype("f4")


@pytest.mark.parametrize("make", [climate, microscopy, single_cell, detector, network])
def test_the_page_of_a_kind_of_file(make, tmp_path):
    """It is drawn: with pictures in colours on the left, with text, and nothing beyond its width."""
    source, page = tmp_path / make.__name__, tmp_path / "page.html"
    make(source)
    codecfs("info", source, "--html", page)
    image = screenshot(page, tmp_path, make.__name__)
    ink = (image.max(-1).astype(int) - image.min(-1)) > 40  # colours, which text does not have
    assert ink[:, :300].mean() > 0.01 and ink[:, 420:].mean() < 0.002
    assert (image[:, :900].max(-1) < 100).mean() > 0.001  # text
    shape = browser(tmp_path, "--window-size=1000,900", "--dump-dom", measured(page, tmp_path).as_uri()).stdout
    widths = json.loads(re.search(r"<title>(\[.*?\])</title>", shape)[1])
    assert widths[0] <= 1000 and widths[1] > 0 and widths[2] == 0, widths


def measured(page, tmp_path):
    """The same page with a script that tells its width, how many pictures it has, and how many of them cannot be drawn."""
    copy = tmp_path / "measured.html"
    text = page.read_text()
    assert text.count("<meta http-equiv=") == 1 and "<script" not in text
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    script = """<script>addEventListener("load", () => { const all = [...document.querySelectorAll("img,svg")];
      document.title = JSON.stringify([document.documentElement.scrollWidth, all.length,
        [...document.images].filter(image => !image.complete || image.naturalWidth == 0).length]); })</script>"""
    copy.write_text(text.replace("</body>", script + "</body>"))
    return copy


def test_the_picture_on_the_screen_has_the_pixels_of_the_image(tmp_path):
    """Four quarters of known colours, where the array has them."""
    rgb = np.zeros((16, 24, 3), "u1")
    rgb[:8, :12], rgb[:8, 12:], rgb[8:, :12], rgb[8:, 12:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["image"] = rgb
    codecfs("info", tmp_path / "a.h5", "--html", tmp_path / "page.html")
    image = screenshot(tmp_path / "page.html", tmp_path, "quarters").astype(int)
    places = []
    for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)):
        found = np.argwhere(np.abs(image - colour).max(-1) < 8)
        assert len(found) > 2000, colour
        places.append(np.median(found, axis=0))
    red, green, blue, yellow = places
    assert red[0] == green[0] < blue[0] == yellow[0] and red[1] == blue[1] < green[1] == yellow[1]


def test_scripts_in_names_do_not_run(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i, name in enumerate(["<script>document.title='run'<|script>", "\"><img src=x onerror=\"document.title='run'\">"]):
            f[name] = i
            f[name].attrs[name] = name.replace("|", "/")
    codecfs("info", tmp_path / "a.h5", "--html", tmp_path / "page.html")
    dom = browser(tmp_path, "--dump-dom", (tmp_path / "page.html").as_uri()).stdout
    assert "<title>a.h5</title>" in dom and "<script" not in dom


def test_a_hundred_thousand_rows_are_drawn(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        space = h5py.h5s.create_simple((10,))
        for g in range(20):
            group = f.create_group(f"g{g}").id
            for i in range(5000):
                h5py.h5d.create(group, b"variable_%04d" % i, h5py.h5t.IEEE_F32LE, space)
    codecfs("info", tmp_path / "a.h5", "--html", tmp_path / "page.html")
    image = screenshot(tmp_path / "page.html", tmp_path, "many")
    assert (image.max(-1) < 100).mean() > 0.001


def test_the_script_of_this_test_would_see_a_broken_image(tmp_path):
    """What test_the_page_of_a_kind_of_file() relies on."""
    broken = base64.b64encode(b"\x89PNG\r\n\x1a\n nothing").decode()
    (tmp_path / "page.html").write_text('<html><head><title>x</title><meta http-equiv="Content-Security-Policy" content="x"></head><body>'
                                        f'<img src="data:image/png;base64,{broken}"></body></html>')
    dom = browser(tmp_path, "--dump-dom", measured(tmp_path / "page.html", tmp_path).as_uri()).stdout
    assert json.loads(re.search(r"<title>(\[.*?\])</title>", dom)[1])[1:] == [1, 1]
