"""codecfs convert of HDF5's links into Zarr and back: for h5py, they are the same links. And symbolic links that others made in a store."""
import json
import os
import shutil

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from running import codecfs, run


def links_of(path):
    """What h5py says of each link: the text of soft and external ones, and for hard ones which names one object has."""
    with h5py.File(path, "r") as f:
        links, names = {}, {}
        waiting = [("", f)]
        names[h5py.h5o.get_info(f.id).addr] = [""]
        while waiting:
            at, group = waiting.pop(0)
            for name in group.keys():
                link, place = group.get(name, getlink=True), f"{at}/{name}"
                if isinstance(link, h5py.SoftLink):
                    links[place] = ("soft", link.path)
                elif isinstance(link, h5py.ExternalLink):
                    links[place] = ("external", link.filename, link.path)
                else:
                    address = h5py.h5o.get_info(group[name].id).addr
                    if address not in names and isinstance(group[name], h5py.Group):
                        waiting.append((place, group[name]))
                    names.setdefault(address, []).append(place)
        return links, sorted(map(sorted, names.values()))


def make_links(path):
    with h5py.File(path, "w") as f:
        f["g/h/v"] = np.arange(5)
        f["g/w"] = np.arange(6.0)
        f["entry/data"] = np.arange(3)
        for place, target in {
                "relative": "g/h/v", "absolute": "/g/h/v", "g/beside": "w", "g/h/up": "/g/w", "slash": "/g/", "dots": "./g/w", "root": "/",
                "dangling": "no/where", "g/dangling": "/no/where", "loop": "/loop", "g/h/cycle": "/g", "g/h/here": ".", "one": "two",
                "two": "/one", "g/h/per%20cent": "/100%", "utf8 é": "/温度", "far": "../g", "double": "//g//w"}.items():
            f[place] = h5py.SoftLink(target)
        for place, words in {"other": ("o.h5", "/v"), "g/other": ("../x/o.h5", "v"), "away": ("/data/o:1.h5", "/a:b/c"),
                             "g/h/again": ("o.h5", "/"), "itself": (os.path.basename(path), "/g/w")}.items():
            f[place] = h5py.ExternalLink(*words)
        f["second"], f["g/h/third"], f["g/h/other g"] = f["g/w"], f["g/w"], f["entry"]
        f["g/h/hard cycle"], f["g/the root"] = f["g"], f["/"]


@pytest.mark.parametrize("target", ["b.zarr", "b.zip", "v3"])
def test_links_come_back(target, tmp_path):
    make_links(tmp_path / "a.h5")
    links, names = links_of(tmp_path / "a.h5")
    assert len(links) == 23 and sum(len(of_one) for of_one in names) == 12
    codecfs("convert", *(["--format", "zarr3"] if target == "v3" else []), tmp_path / "a.h5", tmp_path / target)
    told = codecfs("convert", tmp_path / target, tmp_path / "c.h5").output
    assert "left out" not in told, told
    assert links_of(tmp_path / "c.h5") == (links, names)
    with h5py.File(tmp_path / "c.h5") as f:
        assert not f.attrs and f["g/h/third"][:].tolist() == list(range(6)) and f["g/h/cycle/h/v"][:].tolist() == list(range(5))
    codecfs("compare", tmp_path / "a.h5", tmp_path / "c.h5")
    codecfs("compare", tmp_path / "a.h5", tmp_path / target).output if target != "b.zip" else None
    run("h5dump", "-H", tmp_path / "c.h5")
    if target != "b.zip":  # a copy without the symbolic links, as many programs make it
        for folder, folders, files in os.walk(tmp_path / target):
            for name in folders + files:
                if os.path.islink(os.path.join(folder, name)):
                    os.unlink(os.path.join(folder, name))
        codecfs("convert", tmp_path / target, tmp_path / "d.h5")
        assert links_of(tmp_path / "d.h5") == (links, names)


def test_links_that_are_not_utf8(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = 1
        f.id.links.create_soft(b"soft", b"/caf\xe9")
        f.id.links.create_external(b"external", b"caf\xe9.h5", b"/v\xe9")
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as f:
        assert f.id.links.get_val(b"soft") == b"/caf\xe9"
        assert f.id.links.get_val(b"external") == (b"caf\xe9.h5", b"/v\xe9")


NAMES = [b"a%b", b"a%2Fb", b"a%252Fb", b"a%41", b"temp\xe9", b"temp%E9", "tempé".encode(), "tempe\u0301".encode(), b"zarr.json", b".zattrs",
         b".zarray", b".zgroup", b".zmetadata", b".codecfs", b"a\\b", b"a b", b" lead", b"trail ", b"..", b"..x", b".hidden", b"%~", b"%2E",
         b"0", b"0.0", b"c", b"_Filter", b"a:b", b"a\nb", b"a?b*", b"x" * 255]


def write_named(group, name, values):
    dataset = h5py.h5d.create(group, name, h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((2,)))
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(values, "i8"))


def read_named(group, name):
    values = np.zeros(2, "i8")
    h5py.h5d.open(group, name).read(h5py.h5s.ALL, h5py.h5s.ALL, values)
    return values.tolist()


def make_named(path, names=NAMES):
    with h5py.File(path, "w") as f:
        groups = {name: f.create_group(name).id for name in ("vars", "groups", "soft", "hard", "links")}
        for i, name in enumerate(names):
            write_named(groups["vars"], name, [i, 1])
            write_named(h5py.h5g.create(groups["groups"], name), name, [i, 2])
            for link, target in (b"v", b"/vars/" + name), (b"g", b"/groups/" + name + b"/" + name):
                groups["links"].links.create_soft(b"%s%d" % (link, i), target)
            groups["links"].links.create_hard(b"h%d" % i, groups["groups"], name + b"/" + name)
            groups["groups"].links.create_soft(b"beside %d" % i, name)
            groups["soft"].links.create_soft(name, b"/vars/" + name)
            groups["hard"].links.create_hard(name, groups["vars"], name)


def check_named(path, names=NAMES):
    with h5py.File(path) as f:
        for group in ("vars", "soft", "hard"):
            assert sorted(f[group].id) == sorted(names), group
            assert all(read_named(f[group].id, name) == [i, 1] for i, name in enumerate(names)), group
        assert not any(list(group.attrs) for group in (f, *f.values()))
        for i, name in enumerate(names):
            links = f["links"].id
            assert [read_named(links, b"%s%d" % (link, i)) for link in (b"v", b"g", b"h")] == [[i, 1], [i, 2], [i, 2]], name
            assert links.links.get_val(b"v%d" % i) == b"/vars/" + name and f["groups"].id.links.get_val(b"beside %d" % i) == name
            assert links.links.get_info(b"h%d" % i).type == h5py.h5l.TYPE_HARD
            assert read_named(h5py.h5g.open(f["groups"].id, b"beside %d" % i), name) == [i, 2]


@pytest.mark.parametrize("target", ["b.zarr", "b.zip", "v3"])
def test_names_that_zarr_cannot_have_come_back(target, tmp_path):
    """So that each link leads where it led."""
    make_named(tmp_path / "a.h5")
    check_named(tmp_path / "a.h5")
    codecfs("convert", *(["--format", "zarr3"] if target == "v3" else []), tmp_path / "a.h5", tmp_path / target)
    codecfs("convert", tmp_path / target, tmp_path / "c.h5")
    check_named(tmp_path / "c.h5")
    codecfs("compare", tmp_path / "a.h5", tmp_path / "c.h5")
    if target != "b.zip":
        for folder, folders, files in os.walk(tmp_path / target):
            for name in folders + files:
                if os.path.islink(os.path.join(folder, name)):
                    os.unlink(os.path.join(folder, name))
    codecfs("convert", *(["--format", "zarr3"] if target == "v3" else []), tmp_path / target, tmp_path / "d.zarr")
    codecfs("convert", tmp_path / "d.zarr", tmp_path / "e.h5")
    check_named(tmp_path / "e.h5")


def test_names_that_others_have_meanwhile_stay_theirs(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["a%2Fb"], f["zarr.json"], f["to"] = [1, 1], [2, 2], h5py.SoftLink("/a%2Fb")
        f["zzz"] = f["zarr.json"]
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    group = zarr.open_group(str(tmp_path / "b.zarr"), "r+")
    assert sorted(group) == ["%7Aarr.json", "a%252Fb", "to", "zzz"]
    (tmp_path / "b.zarr/a%2Fb").mkdir()
    zarr.save_array(str(tmp_path / "b.zarr/a%2Fb"), np.array([3, 3]))
    zarr.save_array(str(tmp_path / "b.zarr/%2Ezattrs"), np.array([4, 4]))  # which was never in HDF5
    (tmp_path / "b.zarr/made").symlink_to("%7Aarr.json")
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as f:
        found = {name: int(f[name][0]) for name in f}
    assert found == {"a%252Fb": 1, "a%2Fb": 3, "zarr.json": 2, "%2Ezattrs": 4, "to": 3, "zzz": 2, "made": 2}


def test_links_of_a_store_without_notes_of_names(tmp_path):
    """Where names do not come back, paths of links are of the names that there are."""
    names = [name for name in NAMES if not name.startswith((b"a%", b"temp%", "tempé".encode()))]
    make_named(tmp_path / "a.h5", names)
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    for folder, folders, files in os.walk(tmp_path / "b.zarr"):
        if ".zattrs" in files:
            attributes = json.loads(open(os.path.join(folder, ".zattrs")).read())
            noted = json.loads(attributes.get("_nc_hdf5_links", "{}"))
            for note in noted.values():
                note.pop("escaped", None)
            attributes["_nc_hdf5_links"] = json.dumps(noted)
            with open(os.path.join(folder, ".zattrs"), "w") as file:
                json.dump(attributes, file)
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as f:
        assert {b"temp%E9", b"%7Aarr.json"} < set(f["vars"].id) and not {b"temp\xe9", b"zarr.json"} & set(f["vars"].id)
        for i, name in enumerate(names):
            found = [read_named(f["links"].id, b"%s%d" % (link, i)) for link in (b"v", b"g", b"h")]
            assert found == [[i, 1], [i, 2], [i, 2]], name


def test_names_that_netcdf_cannot_have_stay_escaped(tmp_path):
    """netCDF4 cannot open a file with names that are not UTF-8."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f[b"temp\xe9"], f["zarr.json"], f["x"] = [1, 2], [3, 4], [5, 6]
        f["x"].make_scale("x")
        f[b"temp\xe9"].dims[0].attach_scale(f["x"])
    with pytest.raises(UnicodeDecodeError):
        netCDF4.Dataset(tmp_path / "a.h5")
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.nc")
    with netCDF4.Dataset(tmp_path / "c.nc") as f:
        assert {name: f[name][...].tolist() for name in f.variables} == {"temp%E9": [1, 2], "zarr.json": [3, 4], "x": [5, 6]}


def test_links_of_user_defined_classes_stop_the_conversion_back(tmp_path):
    from conftest import DATA
    shutil.copy(DATA / "hdf5/c_odd_links.h5", tmp_path / "a.h5")
    codecfs("convert", "--skip-unsupported", tmp_path / "a.h5", tmp_path / "b.zarr")
    told = codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5", code=32).output
    assert "/user_defined: it is a link of the class 187" in told and not (tmp_path / "c.h5").exists()
    told = codecfs("convert", "--skip-unsupported", tmp_path / "b.zarr", tmp_path / "c.h5").output
    assert "/user_defined: it is a link of the class 187" in told


def make_store(path, format):
    if format == 2:
        g = zarr.open_group(str(path), "w")
        g["v"], g["g/h/w"] = np.arange(5), np.arange(6)
        return
    with h5py.File(f"{path}.h5", "w") as f:
        f["v"], f["g/h/w"] = np.arange(5), np.arange(6)
    codecfs("convert", "--format", "zarr3", f"{path}.h5", path)


@pytest.mark.parametrize("format", [2, 3])
def test_symbolic_links_of_others(format, tmp_path):
    """In a store that HDF5 was never part of: what leads into the store is a soft link, also if that closes a cycle or dangles."""
    store = tmp_path / "a.zarr"
    make_store(store, format)
    for place, text in {"to_v": "v", "g/up": "../v", "g/h/cycle": "..", "g/h/root": "../..", "dangling": "no/where", "itself": "itself",
                        "whole": str(store / "g/h/w"), "g/absolute": str(store / "nothing"), "ext": "external-link:o.h5:/v"}.items():
        (store / place).symlink_to(text)
    (store / "readme.txt").write_text("text")
    (store / "notes").symlink_to("readme.txt")
    (store / "folder").mkdir()
    (store / "to_folder").symlink_to("folder")
    codecfs("convert", store, tmp_path / "b.h5")
    assert links_of(tmp_path / "b.h5")[0] == {
        "/to_v": ("soft", "v"), "/g/up": ("soft", "/v"), "/g/h/cycle": ("soft", "/g"), "/g/h/root": ("soft", "/"),
        "/dangling": ("soft", "no/where"), "/itself": ("soft", "itself"), "/whole": ("soft", "/g/h/w"), "/g/absolute": ("soft", "/nothing"),
        "/ext": ("external", "o.h5", "/v")}
    with h5py.File(tmp_path / "b.h5") as f:
        assert set(f) == {"v", "g", "to_v", "dangling", "itself", "whole", "ext"} and f["whole"][:].tolist() == list(range(6))


def test_symbolic_links_out_of_a_store(tmp_path):
    """Arrays elsewhere are read as ever. What no reader of the store finds is listed; nothing else outside is opened."""
    make_store(tmp_path / "other.zarr", 2)
    store = tmp_path / "a.zarr"
    make_store(store, 2)
    (tmp_path / "secret").write_bytes(b"the secret of others" * 10)
    with h5py.File(tmp_path / "secret.h5", "w") as f:
        f["v"] = np.frombuffer(b"the secret of others" * 10, "u1")
    (store / "elsewhere").symlink_to("../other.zarr/v")
    (store / "g/file").symlink_to(tmp_path / "secret")
    (store / "external").symlink_to(f"external-link:{tmp_path}/secret.h5:/v")
    codecfs("convert", store, tmp_path / "b.h5")
    assert links_of(tmp_path / "b.h5")[0] == {"/external": ("external", f"{tmp_path}/secret.h5", "/v")}
    assert b"the secret" not in (tmp_path / "b.h5").read_bytes()
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["elsewhere"][:].tolist() == list(range(5)) and list(f["g"]) == ["h"]
    (store / "out").symlink_to("../nowhere")
    (store / "g/out").symlink_to("/nowhere/at/all")
    told = codecfs("convert", store, tmp_path / "c.h5", code=32).output
    assert "/out: " in told and "/g/out: " in told and "--skip-unsupported" in told and not (tmp_path / "c.h5").exists()
    told = codecfs("convert", "--skip-unsupported", store, tmp_path / "c.h5").output
    assert '/out: it is a symbolic link that leads out of the store, to "../nowhere"' in told and "/g/out: " in told
    assert links_of(tmp_path / "c.h5") == links_of(tmp_path / "b.h5")
    codecfs("convert", "--skip", "out", "--skip", "g/out", store, tmp_path / "d.h5")


def test_what_has_changed_since_a_conversion_counts(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"], f["w"] = np.arange(5), np.arange(6)
        f["one"], f["two"], f["three"] = h5py.SoftLink("/v"), h5py.SoftLink("/v"), f["v"]
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    (tmp_path / "b.zarr/one").unlink()
    (tmp_path / "b.zarr/one").symlink_to("w")
    (tmp_path / "b.zarr/two").unlink()
    shutil.copytree(tmp_path / "b.zarr/w", tmp_path / "b.zarr/two")
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5")
    links, names = links_of(tmp_path / "c.h5")
    assert links == {"/one": ("soft", "w")} and ["/three", "/v"] in names and ["/two"] in names


def test_a_hard_link_to_what_is_skipped_is_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"], f["g/w"] = np.arange(5), np.arange(6)
        f["g/again"] = f["v"]
    codecfs("convert", tmp_path / "a.h5", tmp_path / "b.zarr")
    told = codecfs("convert", "--skip", "v", tmp_path / "b.zarr", tmp_path / "c.h5", code=32).output
    assert "/g/again: it is another name of ../v, which is not there" in told
    codecfs("convert", "--skip", "v", "--skip-unsupported", tmp_path / "b.zarr", tmp_path / "c.h5")
    assert links_of(tmp_path / "c.h5") == ({}, [[""], ["/g"], ["/g/w"]])
    assert "damaged" not in codecfs("verify", tmp_path / "c.h5").output


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip", "hdf5", "back"])
def test_soft_links_to_what_is_skipped_are_told(form, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"], f["g/v"] = np.arange(5), np.arange(6)
        for name, target in {"to_x": "/x", "g/to_x": "/x", "chain": "to_x", "to_v": "g/v", "nowhere": "/no", "g/here": "/g/v"}.items():
            f[name] = h5py.SoftLink(target)
    source = tmp_path / "a.h5"
    if form == "back":
        codecfs("convert", source, tmp_path / "a.zarr")
        source, form = tmp_path / "a.zarr", "hdf5"
    lines = codecfs("convert", "--format", form, "--skip", "x", source, tmp_path / "b").output.splitlines()
    told = [line for line in lines if "what is left out" in line]
    assert len(told) == 1 and all(f"{name} -> " in told[0] for name in ("/to_x", "/g/to_x", "/chain")), told
    assert not any(name in told[0] for name in ("/to_v", "/nowhere", "/g/here"))
    if form == "hdf5":
        with h5py.File(tmp_path / "b") as f:
            assert f.get("to_x", getlink=True).path == "/x" and f.get("to_x") is None and f["to_v"][:].tolist() == list(range(6))


@pytest.mark.parametrize("words", [[], ["--format", "zarr3"]])
def test_a_link_that_is_left_out_is_not_noted(words, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["g/v"] = np.arange(5)
        f["g/one"], f["g/two"], f["out/three"], f["four"] = (h5py.SoftLink("/g/v") for _ in range(4))
    codecfs("convert", *words, "--skip", "g/one", "--skip", "four", "--skip", "out", tmp_path / "a.h5", tmp_path / "b.zarr")
    for folder, _, files in os.walk(tmp_path / "b.zarr"):
        for name in files:
            text = (b"" if name[0].isdigit() else open(os.path.join(folder, name), "rb").read())
            assert b"one" not in text and b"three" not in text and b"four" not in text, (folder, name, text)
    codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.h5")
    assert links_of(tmp_path / "c.h5") == ({"/g/two": ("soft", "/g/v")}, [[""], ["/g"], ["/g/v"]])


def test_symbolic_links_in_netcdf(tmp_path):
    """netCDF-C cannot open a file with a link that dangles, or leads to a group above it, and does not find the dimensions of a
    variable that a link shows in another group: such a file has copies."""
    store = tmp_path / "a.zarr"
    g = zarr.open_group(str(store), "w")
    g["v"], g["g/h/w"] = np.arange(5), np.arange(6)
    g["v"].attrs["_ARRAY_DIMENSIONS"], g["g/h/w"].attrs["_ARRAY_DIMENSIONS"] = ["x"], ["y"]
    (store / "a").symlink_to("b")  # a link to a link, which comes behind it
    (store / "b").symlink_to("g/h")
    (store / "c").symlink_to("g/h/w")
    codecfs("convert", store, tmp_path / "b.nc")
    assert links_of(tmp_path / "b.nc")[0] == {}

    def check(path):
        with netCDF4.Dataset(path) as f:
            f.set_auto_mask(False)
            for values in f["a/w"], f["b/w"], f["c"], f["g/h/w"]:
                assert values.dimensions == ("y",) and values[...].tolist() == list(range(6))
            assert set(f.groups) - {"k"} == {"a", "b", "g"} and set(f.variables) == {"v", "c"}

    check(tmp_path / "b.nc")
    (store / "nowhere").symlink_to("no/where")
    g.create_group("k")
    (store / "k/up").symlink_to("..")
    told = codecfs("convert", store, tmp_path / "c.nc", code=32).output
    assert "/nowhere: a link to" in told and "/k/up: a link to" in told and "/a:" not in told and not (tmp_path / "c.nc").exists()
    told = codecfs("convert", "--skip-unsupported", store, tmp_path / "c.nc").output
    assert "/nowhere: a link to" in told and links_of(tmp_path / "c.nc")[0] == {}
    check(tmp_path / "c.nc")


def test_a_cycle_by_way_of_another_link_in_netcdf(tmp_path):
    store = tmp_path / "a.zarr"
    zarr.open_group(str(store), "w")["g/h/w"] = np.arange(3)
    (store / "a").symlink_to("g/h")
    (store / "g/h/up").symlink_to("..")
    told = codecfs("convert", store, tmp_path / "b.nc", code=32).output
    assert "/g/h/up: a link to" in told and "/a/up/h: a group that a link shows in itself" in told and not (tmp_path / "b.nc").exists()
    told = codecfs("convert", "--skip-unsupported", store, tmp_path / "b.nc").output
    assert "left out: /g/h/up: " in told and "left out: /a/up/h: " in told
    assert links_of(tmp_path / "b.nc")[0] == {}
    with netCDF4.Dataset(tmp_path / "b.nc") as f:
        f.set_auto_mask(False)
        assert f["a/w"][...].tolist() == f["g/h/w"][...].tolist() == [0, 1, 2]


@pytest.mark.parametrize("form", ["zarr", "zip"])
def test_links_of_hdf5_in_netcdf(tmp_path, form):
    """What HDF5 had as links that netCDF-C cannot follow is listed, never put into a file that it cannot open."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["g/v"] = np.arange(3)
        f["g/v"].make_scale("v")
        f["dangling"], f["loop"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("loop")
        f["other"], f["g/up"] = h5py.ExternalLink("no such file.h5", "/v"), f["g"]
    codecfs("convert", "--format", form, tmp_path / "a.h5", tmp_path / "b")
    told = codecfs("convert", tmp_path / "b", tmp_path / "c.nc", code=32).output
    lost = ["dangling", "loop", "other", "g/up"]
    assert all(f"/{name}: a link to" in told for name in lost), told
    told = codecfs("convert", "--skip-unsupported", tmp_path / "b", tmp_path / "c.nc").output
    assert all(f"left out: /{name}: " in told for name in lost), told
    run("ncdump", tmp_path / "c.nc")
    codecfs("convert", tmp_path / "b", tmp_path / "c.h5", "--format", "hdf5", code=32)


def test_a_link_whose_path_passes_another_link(tmp_path):
    """The system follows the first link before it goes up."""
    store = tmp_path / "a.zarr"
    zarr.open_group(str(store), "w")["x"] = np.arange(3)
    (tmp_path / "out/sub").mkdir(parents=True)
    zarr.save_array(str(tmp_path / "out/x"), np.array([99, 98]))
    (store / "o").symlink_to("../out/sub")
    (store / "ox").symlink_to("o/../x")
    assert zarr.open_group(str(store), "r")["ox"][...].tolist() == [99, 98]
    codecfs("convert", store, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["ox"][...].tolist() == [99, 98] and f["x"][...].tolist() == [0, 1, 2]


def test_many_links_of_a_group(tmp_path):
    """Each link is looked at a bounded number of times."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = np.arange(3)
        for i in range(3000):
            f[f"s{i}"] = h5py.SoftLink("/v")
    codecfs("convert", tmp_path / "a.h5", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert len(f) == 3001 and all(f.get(f"s{i}", getlink=True).path == "/v" for i in range(3000))


def test_paths_that_no_link_can_have(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    group["x"] = np.arange(3)
    group.attrs["_nc_hdf5_links"] = json.dumps({"m": {"soft": "/x\0y"}, "n": {"external": ["\0", "y"]}, ".zattrs": {"soft": "/x"}})
    told = codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5", code=32).output
    assert "/m: " in told and "/n: " in told and ".zattrs" not in told
    codecfs("convert", "--skip-unsupported", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert sorted(f) == ["x"]
