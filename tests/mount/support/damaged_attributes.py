"""HDF5 files with attributes that libhdf5 cannot read."""
import h5py
import numpy as np

DATA = np.arange(12, dtype="<i4")


def damaged_message(path, damage):
    """A message of an attribute in the oldest format."""
    with h5py.File(path, "w") as f:
        v = f.create_dataset("v", data=DATA, chunks=(4,), fillvalue=-1)
        g = f.create_group("g")
        if damage == "second":  # libhdf5 1.10 crashes if it has read others before
            for i in range(5):
                v.attrs[f"sound{i}"] = g.attrs[f"sound{i}"] = i
        v.attrs["an_attribute"] = g.attrs["of_a_group"] = np.arange(3)
        f["w"] = DATA
    content = bytearray(path.read_bytes())
    for name in (b"an_attribute\0", b"of_a_group\0"):
        at = content.index(name)
        # Version 1 of the message: version, reserved, sizes of name, type and space (2 bytes each), then these.
        assert content[at - 8] == 1 and content[at - 6] == len(name)
        if damage in ("version", "second"):
            content[at - 8] = 99
        elif damage == "size":
            content[at - 6:at - 4] = b"\xff\xff"
        else:
            content[at + 16] = 0x1f
    path.write_bytes(content)
