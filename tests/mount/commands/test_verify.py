"""codecfs verify: finds exactly the chunks that were damaged, and nothing in good files."""
import json
import os
import random
import shutil
import struct

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from conftest import DATA
from running import codecfs
from zarr3_cases import LITTLE, sharding
from zarr3_stores import named, write_array, write_group, zip_store

SHAPE, CHUNKS = (23, 31), (5, 8)
CRC = named("crc32c")


def verified(source, *words, code=0):
    return codecfs("verify", *words, source, code=code).stdout


def verify(source, *words, code=0):
    return json.loads(verified(source, "--json", *words, code=code))


def noise(seed=1):
    return np.random.default_rng(seed).integers(0, 1 << 30, SHAPE).astype("i4")


def region(name):
    """The elements of a chunk, as they are named."""
    parts = [(int(i) * c, min((int(i) + 1) * c, n)) for i, c, n in zip(name.split("."), CHUNKS, SHAPE)]
    return "[" + ", ".join(f"{begin}:{end}" for begin, end in parts) + "]"


def elements(name):
    return int(np.prod([min((int(i) + 1) * c, n) - int(i) * c for i, c, n in zip(name.split("."), CHUNKS, SHAPE)]))


# ---- good ones

def sources():
    for folder in ("hdf5", "zarr"):
        for path in sorted((DATA / folder).iterdir()):
            if not path.name.startswith("damaged") and not path.name.endswith((".raw1", ".raw2")):
                yield f"{folder}/{path.name}"


INCOMPLETE = {"hdf5/filter_unknown.h5", "hdf5/netcdf_user_types.nc", "hdf5/types_without_zarr_form.h5"}


@pytest.mark.parametrize("name", sources())
def test_good_data_is_not_called_damaged(name):
    found = verify(DATA / name, code=3 if name in INCOMPLETE else 0)
    assert found["damages"] == found["lost_bytes"] == 0 and found["damaged"] == []
    assert bool(found["unchecked"]) == (name in INCOMPLETE)
    assert found["source"] == str(DATA / name)


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_everything_is_read(kind, tmp_path):
    path = tmp_path / "a"
    if kind == "hdf5":
        with h5py.File(path, "w") as f:
            f.create_dataset("g/v", data=noise(), chunks=CHUNKS, compression="gzip")
            stored, count = f["g/v"].id.get_storage_size(), f["g/v"].id.get_num_chunks()
    else:
        g = zarr.open_group(str(path), "w")
        v = g.create_dataset("g/v", data=noise(), chunks=CHUNKS, compressor=numcodecs.Zlib(1))
        count = v.nchunks
        stored = sum(file.stat().st_size for file in (path / "g/v").iterdir() if not file.name.startswith("."))
    found = verify(path)
    assert (found["chunks"], found["stored_bytes"]) == (count, stored)
    assert found["decoded_bytes"] == count * np.prod(CHUNKS) * 4
    assert (found["groups"], found["variables"]) == (2, 1)
    text = verified(path)
    assert "no damage" in text and f"{count} chunks of 1 variable" in text


# ---- flipped bits

def hdf5_with(path, **options):
    """The places of the chunks: name -> (offset, size)."""
    with h5py.File(path, "w") as f:
        d = f.create_dataset("g/v", data=noise(), chunks=CHUNKS, **options)
        f["other"] = np.arange(50)
        infos = [d.id.get_chunk_info(i) for i in range(d.id.get_num_chunks())]
        names = [".".join(str(o // c) for o, c in zip(info.chunk_offset, CHUNKS)) for info in infos]
        return {name: (path, info.byte_offset, info.size) for name, info in zip(names, infos)}


def zarr2_with(path, **options):
    g = zarr.open_group(str(path), "w")
    g.create_dataset("g/v", data=noise(), chunks=CHUNKS, **options)
    g["other"] = np.arange(50)
    return {file.name: (file, 0, file.stat().st_size) for file in (path / "g/v").iterdir()
            if not file.name.startswith(".")}


def zarr3_with(path, codecs):
    write_group(path)
    write_group(path / "g")
    write_array(path / "g/v", noise(), CHUNKS, codecs, "int32", 0, 0)
    files = [file for file in (path / "g/v/c").rglob("*") if file.is_file()]
    return {str(file.relative_to(path / "g/v/c")).replace("/", "."): (file, 0, file.stat().st_size) for file in files}


def flip(place, rng):
    """Changes one bit of a chunk."""
    path, offset, size = place
    with open(path, "r+b") as file:
        at = offset + rng.randrange(size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << rng.randrange(8))]))


CHECKED = {
    "fletcher32": lambda path: hdf5_with(path, fletcher32=True),
    "deflate-fletcher32": lambda path: hdf5_with(path, compression="gzip", shuffle=True, fletcher32=True),
    "v108": lambda path: hdf5_with(path, fletcher32=True, maxshape=(None, None)),
    "crc32": lambda path: zarr2_with(path, compressor=numcodecs.CRC32()),
    "adler32-zlib": lambda path: zarr2_with(path, filters=[], compressor=numcodecs.Adler32()),
    "zstd-crc32": lambda path: zarr2_with(path, filters=[numcodecs.CRC32()], compressor=numcodecs.Zstd(3, checksum=True))
    if "checksum" in numcodecs.Zstd().get_config() else zarr2_with(path, compressor=numcodecs.CRC32()),
    "crc32c": lambda path: zarr3_with(path, [LITTLE, CRC]),
}


@pytest.mark.parametrize("kind", CHECKED)
@pytest.mark.parametrize("seed", range(3))
def test_exactly_the_damaged_chunks_are_named(kind, seed, tmp_path):
    rng = random.Random(f"{kind}/{seed}")
    path = tmp_path / "a"
    places = CHECKED[kind](path)
    assert len(places) == 20
    assert verify(path)["damages"] == 0
    chosen = sorted(rng.sample(sorted(places), rng.randint(1, 5)))
    for name in chosen:
        flip(places[name], rng)
    found = verify(path, code=2)
    assert {(d["path"], d["chunk"], d["region"], d["bytes"]) for d in found["damaged"]} == \
        {("/g/v", name, region(name), 4 * elements(name)) for name in chosen}
    assert found["damages"] == len(chosen) and found["lost_bytes"] == 4 * sum(map(elements, chosen))
    text = verified(path, code=2)
    assert text.count("DAMAGED") == 1
    for name in chosen:
        assert f"  /g/v, chunk {name} {region(name)}: " in text
    for damage in found["damaged"]:
        assert not damage["reason"].startswith(("g/v", "/g/v", "chunk")) and "damaged" in damage["reason"]


@pytest.mark.parametrize("codec", ["deflate", "zstd", "lzma"])
def test_chunks_that_were_cut_are_found(codec, tmp_path):
    compressor = {"deflate": numcodecs.Zlib(5), "zstd": numcodecs.Zstd(5), "lzma": numcodecs.LZMA()}[codec]
    places = zarr2_with(tmp_path / "a", compressor=compressor)
    for name in ("0.0", "4.3", "2.1"):
        os.truncate(places[name][0], places[name][2] // 2)
    found = verify(tmp_path / "a", code=2)
    assert sorted(d["chunk"] for d in found["damaged"]) == ["0.0", "2.1", "4.3"]


def test_chunks_in_damaged_shards(tmp_path):
    """A chunk within a shard, and the index of another shard."""
    write_group(tmp_path / "a")
    write_array(tmp_path / "a/v", noise(), (10, 16), [sharding([5, 8], [LITTLE, CRC])], "int32", 0, 0)
    zip_store(tmp_path / "a", tmp_path / "good.zip")
    assert verify(tmp_path / "a")["chunks"] == verify(tmp_path / "good.zip")["chunks"] == 20
    shard = tmp_path / "a/v/c/0/0"
    data = bytearray(shard.read_bytes())
    index = np.frombuffer(bytes(data[-68:-4]), "<u8").reshape(2, 2, 2)  # offset and size of each chunk, then a checksum
    [[row, column]] = np.argwhere(index[:, :, 0] == 0)
    data[5] ^= 1
    shard.write_bytes(data)
    found = verify(tmp_path / "a", code=2)
    assert [(d["chunk"], d["region"]) for d in found["damaged"]] == [(f"{row}.{column}", region(f"{row}.{column}"))]
    other = tmp_path / "a/v/c/1/1"
    data = bytearray(other.read_bytes())
    data[-1] ^= 1  # the checksum of the index
    other.write_bytes(data)
    found = verify(tmp_path / "a", code=2)
    assert found["damages"] >= 2 and found["lost_bytes"] >= 4 * 4 * 40


# ---- the file

def test_a_truncated_file(tmp_path):
    path = tmp_path / "a.h5"
    places = hdf5_with(path)
    end = max(offset + size for _, offset, size in places.values())
    os.truncate(path, end - 10)
    lost = [name for name, (_, offset, size) in places.items() if offset + size > end - 10]
    result = codecfs("verify", "--json", path, code=None)
    assert result.returncode in (2, 32), result
    if result.returncode == 2:
        assert set(lost) <= {d.get("chunk") for d in json.loads(result.stdout)["damaged"]}
    os.truncate(path, 100)
    assert verified(path, code=32) == ""


def test_chunks_that_overlap(tmp_path):
    """An entry of the B-tree leads to another chunk's bytes: each can be read, but one of them is not what was stored."""
    path = tmp_path / "a.h5"
    places = hdf5_with(path)
    data = path.read_bytes()
    address, other = (struct.pack("<Q", places[name][1]) for name in ("1.2", "3.1"))
    assert data.count(other) == 1
    path.write_bytes(data.replace(other, address))
    found = verify(path, code=2)
    assert [d["chunk"] for d in found["damaged"]] in (["1.2"], ["3.1"])
    assert "overlaps" in found["damaged"][0]["reason"] and found["damaged"][0]["path"] == "/g/v"


def test_chunks_in_a_file_with_a_user_block_do_not_overlap_anything(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=1024) as f:
        for i in range(5):
            f.create_dataset(f"v{i}", data=noise(i), chunks=CHUNKS, fletcher32=True)
    assert verify(path)["chunks"] == 100


def test_the_index_of_chunks_is_damaged(tmp_path):
    """The B-tree of one variable: what it says of other variables stays."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=noise(), chunks=CHUNKS)
        f.create_dataset("w", data=noise(), chunks=CHUNKS, fletcher32=True)
        place = f["w"].id.get_chunk_info(3)
    data = bytearray(path.read_bytes())
    tree = data.find(b"TREE\x01")
    assert tree > 0
    data[tree:tree + 4] = b"XXXX"
    data[place.byte_offset] ^= 1
    path.write_bytes(data)
    found = verify(path, code=2)
    broken = {d["path"] for d in found["damaged"]}
    assert broken == {"/v", "/w"}
    [whole] = [d for d in found["damaged"] if d["path"] == "/v"]
    assert "chunk" not in whole and whole["bytes"] == noise().nbytes
    assert found["lost_bytes"] == noise().nbytes + 4 * elements("0.3")


def test_metadata_is_damaged(tmp_path):
    store = tmp_path / "s"
    shutil.copytree(DATA / "zarr/groups", store)
    arrays = sorted(store.rglob(".zarray"))
    arrays[0].write_text("{")
    group = next(path for path in sorted(store.rglob(".zgroup")))
    (group.parent / ".zattrs").write_text("[1")
    found = verify(store, code=2)
    name = "/" + str(arrays[0].parent.relative_to(store))
    paths = [d["path"] for d in found["damaged"]]
    assert name in paths and len(paths) == 2
    assert all("chunk" not in d for d in found["damaged"])


def test_what_no_filter_decodes_is_not_called_good():
    found = verify(DATA / "hdf5/filter_unknown.h5", code=3)
    [unchecked] = found["unchecked"]
    assert unchecked["path"] == "/unknown" and "32999" in unchecked["reason"]
    assert "not checked" in verified(DATA / "hdf5/filter_unknown.h5", code=3)


def test_a_folder(tmp_path):
    shutil.copy(DATA / "hdf5/damaged_byte_under_fletcher32.h5", tmp_path / "bad.h5")
    shutil.copy(DATA / "hdf5/layouts.h5", tmp_path / "good.h5")
    (tmp_path / "other.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\xff" * 500)
    found = verify(tmp_path, code=2)
    paths = {d["path"] for d in found["damaged"]}
    assert len(paths) == 2 and any(path.endswith("/v") for path in paths) and any("other" in path for path in paths)


def test_exit_codes(tmp_path):
    verified("/nonexistent", code=32)
    codecfs("verify", seconds=30, code=1)
    help_text = codecfs("verify", "--help", seconds=30, code=None).stdout
    assert "Exit codes" in help_text and "Examples:" in help_text
    with open("/dev/full", "w") as full:
        codecfs("verify", DATA / "hdf5/layouts.h5", stdout=full, seconds=30, code=32)


def test_the_source_is_not_written(tmp_path):
    path = tmp_path / "a.h5"
    hdf5_with(path, fletcher32=True)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    verify(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before and os.listdir(tmp_path) == ["a.h5"]


# ---- what is gone, and what is elsewhere

@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_lost_metadata_of_listed_arrays(tmp_path, version, archive):
    """Consolidated metadata still lists an array or group whose own metadata is gone. The group is shown all the same, as
    there is an array below it."""
    path = tmp_path / "a.zarr"
    if version == 2:
        group = zarr.open_group(str(path), "w")
        for name in ("v", "g/w", "gone/x"):
            group[name] = np.arange(9)
        zarr.consolidate_metadata(str(path))
        lost = [path / "v/.zarray", path / "gone/.zgroup"]
    else:
        for name in ("", "g", "gone"):
            write_group(path / name)
        for name in ("v", "g/w", "gone/x"):
            write_array(path / name, noise(), CHUNKS, [LITTLE], "int32", 0, 0)
        root = json.loads((path / "zarr.json").read_text())
        nodes = {name: json.loads((path / name / "zarr.json").read_text()) for name in ("g", "gone", "v", "g/w", "gone/x")}
        root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": nodes}
        (path / "zarr.json").write_text(json.dumps(root))
        lost = [path / "v/zarr.json", path / "gone/zarr.json"]
    def packed():
        if not archive:
            return path
        (tmp_path / "a.zip").unlink(missing_ok=True)
        shutil.make_archive(str(tmp_path / "a"), "zip", path)
        return tmp_path / "a.zip"
    assert verify(packed())["damages"] == 0
    for file in lost:
        file.unlink()
    (path / "no_member").mkdir()
    source = packed()
    found = verify(source, code=2)
    assert [d["path"] for d in found["damaged"]] == ["/v"] and found["variables"] == 2
    assert all("lists it" in d["reason"] for d in found["damaged"])
    # Nothing leaves it out silently.
    for words in (["convert", source, tmp_path / "b.h5"], ["recode", "-F", "*,deflate,1", source]):
        done = codecfs(*words, code=32)
        assert "lists it" in done.stderr
    done = codecfs("convert", "--skip", "v", "--skip", "gone", source, tmp_path / "b.h5")
    assert list(h5py.File(tmp_path / "b.h5")) == ["g"]


def test_damaged_metadata_of_a_member(tmp_path):
    write_group(tmp_path / "a.zarr")
    write_array(tmp_path / "a.zarr/v", noise(), CHUNKS, [LITTLE], "int32", 0, 0)
    write_array(tmp_path / "a.zarr/w", noise(), CHUNKS, [LITTLE], "int32", 0, 0)
    (tmp_path / "a.zarr/loop").symlink_to("loop")
    assert verify(tmp_path / "a.zarr")["damages"] == 0
    file = tmp_path / "a.zarr/v/zarr.json"
    file.write_text(file.read_text()[:-5])
    found = verify(tmp_path / "a.zarr", code=2)
    assert [d["path"] for d in found["damaged"]] == ["/v"] and found["variables"] == 1


def test_missing_sources_of_virtual_datasets(tmp_path):
    """Reading gives no error, but the fill value."""
    (tmp_path / "data").mkdir()
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"data/{name}.h5", "w") as f:
            f["v"] = np.arange(10)
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as f:
        f["here"] = np.arange(10)
        layout = h5py.VirtualLayout((4, 10), "i8")
        layout[0] = h5py.VirtualSource("data/a.h5", "v", (10,))
        layout[1] = h5py.VirtualSource("data/b.h5", "v", (10,))
        layout[2] = h5py.VirtualSource(".", "here", (10,))
        layout[3] = h5py.VirtualSource(str(tmp_path / "data/b.h5"), "v", (10,))
        f.create_virtual_dataset("virtual", layout, fillvalue=-1)
        f.create_dataset("w", data=noise(), chunks=CHUNKS, compression="gzip")
    assert verify(tmp_path / "x.h5")["unchecked"] == []
    with h5py.File(tmp_path / "data/a.h5", "r+") as f:
        f.move("v", "u")
    found = verify(tmp_path / "x.h5", code=3)
    assert found["damages"] == 0 and [u["path"] for u in found["unchecked"]] == ["/virtual"]
    assert "v in data/a.h5 cannot be found" in found["unchecked"][0]["reason"]
    os.unlink(tmp_path / "data/b.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as f:
        del f["here"]
    text = verified(tmp_path / "x.h5", code=3)
    assert "and 3 more cannot be found: readers find the fill value" in text and "no damage in the rest" in text
    assert verify(tmp_path / "x.h5", "-O", "isolate=off", code=3)["unchecked"] != []


def test_chunks_over_the_limit_are_no_damage(tmp_path):
    """Of those that are not stored there is nothing to check."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("never", (3_000_000,), "i8", chunks=(1_000_000,), compression="gzip", maxshape=(None,))
        file.create_dataset("empty", (0,), "i8", chunks=(1_000_000,), maxshape=(None,))
        file["read"] = np.arange(5)
    zarr.open_group(str(tmp_path / "a.zarr"), mode="w").zeros("never", shape=(3_000_000,), chunks=(1_000_000,), dtype="i8")
    for source in (path, tmp_path / "a.zarr"):
        found = verify(source, "-O", "max_chunk=1M")
        assert found["damages"] == 0 and found["unchecked"] == [], source
    with h5py.File(path, "a") as file:
        file["never"][0] = 1
    found = verify(path, "-O", "max_chunk=1M", code=3)
    assert found["damages"] == 0 and [u["path"] for u in found["unchecked"]] == ["/never"] and "max_chunk" in found["unchecked"][0]["reason"]
