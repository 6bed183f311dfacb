"""Errors of metadata files reach programs that ignore what close() returns: they are errors of write()."""
import errno
import json
import mmap
import os
import threading

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from running import run

ARRAY = np.arange(600, dtype="<i4").reshape(20, 30)

# The file, a text that no change can be made from, and a part of the reason.
WRONG = [
    ("v/_Filter", "zstd,99\n", "to 22, not 99"), ("v/_Filter", "307,x\n", "a number"), ("v/_Filter", "shufle\n", "no filter of this name"),
    ("v/_Codecs", '[{"id": "zlib", "level": 77}]\n', "level"), ("v/_Codecs", "garbage\n", "JSON"),
    (".zattrs", "garbage", "JSON"), ("v/.zattrs", '{"a": 1,}', "JSON"), ("v/.zattrs", "[1, 2]", ""), (".zgroup", '{"zarr_format": 3}', ""),
    ("v/.zarray", '{"zarr_format": 2}', ""), ("v/.zarray", '{"shape": [20, 30}', "JSON"),
    (".codecfs/view/decoded3/v/zarr.json", "{}", ""), (".codecfs/view/decoded3/zarr.json", "nothing\n", "JSON"),
]


@pytest.fixture(params=["hdf5", "zarr"])
def m(request, mount, tmp_path):
    if request.param == "hdf5":
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("v", data=ARRAY, chunks=(10, 30), compression="gzip")
            file["v"].attrs["units"] = "m"
        return mount(tmp_path / "a.h5")
    group = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    group.create_dataset("v", data=ARRAY, chunks=(10, 30), compressor=numcodecs.Zlib(4)).attrs["units"] = "m"
    return mount(tmp_path / "a.zarr")


def error_of(path):
    return os.getxattr(path, "user._Error").decode()


@pytest.mark.parametrize("name, text, says", WRONG)
def test_write_fails(m, name, text, says):
    path = m.path / name
    before = path.read_text()
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(OSError) as failure:
        os.write(file, text.encode())
    assert failure.value.errno == errno.EINVAL
    with pytest.raises(OSError):
        os.fsync(file)
    os.close(file)
    for place in (path, path.parent):
        assert says in error_of(place)
        assert os.getxattr(place, "user._ErrorTime").decode()[:2] == "20"
    assert path.read_text() == before
    path.write_text(before)  # a success
    for place in (path, path.parent):
        assert "user._Error" not in os.listxattr(place), place
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)


@pytest.mark.parametrize("name, text, says", [WRONG[0], WRONG[4], WRONG[5], WRONG[9]])
def test_shells_see_it(m, name, text, says):
    done = run("sh", "-c", f"printf '%s' \"$1\" > {name}", "sh", text, cwd=m.path, code=None)
    assert done.returncode != 0 and done.stderr, done


def test_close_tells_what_write_cannot(m):
    for name, text in {"v/_Filter": "zstd,99", "v/.zattrs": '{"a": [1, 2', "v/.zarray": '{"shape": "'}.items():
        file = os.open(m.path / name, os.O_WRONLY | os.O_TRUNC)
        os.write(file, text.encode())
        with pytest.raises(OSError) as failure:
            os.close(file)
        assert failure.value.errno == errno.EINVAL and "user._Error" in os.listxattr(m.path / name)


def test_a_text_may_come_in_any_pieces(m):
    """Each beginning of a right text is taken, wherever it is cut."""
    text = json.dumps({"units": "K\u00e9\U0001f600\n", "list": [-1.5e-3, 2.0, float("nan"), float("-inf")]}, ensure_ascii=False)
    for encoded in (text.encode(), json.dumps(json.loads(text)).encode()):
        file = os.open(m.path / "v/.zattrs", os.O_WRONLY | os.O_TRUNC)
        for i in range(len(encoded)):
            os.write(file, encoded[i:i + 1])
        os.close(file)
        shown = json.loads((m.path / "v/.zattrs").read_text())
        assert shown["units"] == "K\u00e9\U0001f600\n" and shown["list"][1] == 2.0
    file = os.open(m.path / "v/_Filter", os.O_WRONLY | os.O_TRUNC)
    for piece in (b"shu", b"ffle|", b"zst", b"d,", b"3", b"\n"):
        os.write(file, piece)
    os.close(file)
    assert (m.path / "v/_Filter").read_text() == "2,4|32015,3\n"


def test_a_wrong_end_takes_back_the_right_beginning(m):
    before = (m.path / "v/_Filter").read_text()
    file = os.open(m.path / "v/_Filter", os.O_WRONLY | os.O_TRUNC)
    os.write(file, b"zstd,3\n")
    with pytest.raises(OSError):
        os.write(file, b"nonsense\n")
    with pytest.raises(OSError):
        os.close(file)
    assert (m.path / "v/_Filter").read_text() == before


def test_a_write_right_after_a_close_fails(m):
    """The kernel may release a file after the next open of it."""
    path = m.path / "v/_Filter"
    before = path.read_text()
    for text in ("zstd,3\n", before):
        with open(os.open(path, os.O_WRONLY), "w") as held:  # as a file that is not released
            for _ in range(3):
                path.write_text(text)
                file = os.open(path, os.O_WRONLY | os.O_TRUNC)
                with pytest.raises(OSError):
                    os.write(file, b"nonsense\n")
                with pytest.raises(OSError):
                    os.close(file)
                assert not held.closed


def test_a_descriptor_leaves_what_others_write_to_them(m):
    """Its close would otherwise store the first part of their text, and be told of its errors."""
    path = m.path / "v/_Filter"
    other = os.open(path, os.O_WRONLY)
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(file, b"shuffle|zs")
    os.close(other)
    os.write(file, b"td,3")
    os.close(file)
    assert path.read_text() == "2,4|32015,3\n"
    other = os.open(path, os.O_WRONLY)
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(file, b"zstd,99")
    os.close(other)
    with pytest.raises(OSError) as failure:
        os.close(file)
    assert failure.value.errno == errno.EINVAL and path.read_text() == "2,4|32015,3\n"


def test_fsync_leaves_what_others_write_to_them(m):
    path = m.path / "v/_Filter"
    before = path.read_text()
    file, other = os.open(path, os.O_WRONLY | os.O_TRUNC), os.open(path, os.O_WRONLY)
    os.write(file, b"shuffle|zs")
    os.fsync(other)
    os.write(file, b"td,7")
    os.fsync(file)
    assert path.read_text() == "2,4|32015,7\n" != before
    os.close(other)
    os.close(file)
    assert path.read_text() == "2,4|32015,7\n"


def test_closes_beside_a_write_lose_nothing(m):
    """Of a duplicate, while another thread writes: the change is stored by one of the closes."""
    path = m.path / "v/_Filter"
    for number in range(300):
        file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        copies = [os.dup(file) for _ in range(2)]
        closing = threading.Thread(target=lambda: [os.close(copy) for copy in copies])  # noqa: B023 (it ends in this turn)
        closing.start()
        os.write(file, f"zstd,{number % 9 + 1}\n".encode())
        closing.join()
        os.close(file)
        assert path.read_text() == f"32015,{number % 9 + 1}\n", number


def test_a_mapping_is_stored_by_any_close(m):
    path = m.path / "v/_Filter"
    path.write_text("shuffle|zstd,3\n")
    with open(os.open(path, os.O_RDWR), "r+b") as other, open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[-2:-1] = b"7"
            mapped.flush()
        assert not other.closed
    assert path.read_text() == "2,4|32015,7\n"


def test_a_part_is_written_into_what_is_shown(m):
    """Not into the text of an earlier change, which the source shows in another form."""
    path = m.path / "v/_Filter"
    with open(os.open(path, os.O_WRONLY), "w"):  # as a file that is not released
        path.write_text("shuffle|zstd,3\n")
        assert path.read_text() == "2,4|32015,3\n"
        file = os.open(path, os.O_RDWR)
        os.pwrite(file, b"7", len("2,4|32015,"))
        os.close(file)
        assert path.read_text() == "2,4|32015,7\n"


def test_large_attributes(m):
    text = json.dumps({**{f"long{i}": "x" * 10000 for i in range(60)}, "list": [1]})
    (m.path / ".zattrs").write_text(text)
    assert json.loads((m.path / ".zattrs").read_text()) == json.loads(text)
    file = os.open(m.path / ".zattrs", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(OSError):
        for at in range(0, len(text), 65536):
            os.write(file, (text[:-2] + ",]}")[at:at + 65536].encode())
    with pytest.raises(OSError):
        os.close(file)
    assert json.loads((m.path / ".zattrs").read_text()) == json.loads(text)


def test_a_large_text_written_at_once(m):
    """The kernel divides such a write: a wrong end is a short write, and an error where the rest is written."""
    text = json.dumps({f"long{i}": "x" * 10000 for i in range(300)}).encode()
    path = m.path / ".zattrs"
    path.write_bytes(text)
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    wrong = text[:-1] + b",]}"
    done = os.write(file, wrong)
    assert done < len(wrong)
    with pytest.raises(OSError):
        os.write(file, wrong[done:])
    with pytest.raises(OSError):
        os.close(file)
    assert json.loads(path.read_text()) == json.loads(text)
