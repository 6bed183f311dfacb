"""The two plugin interfaces through ctypes, as HDF5 and netCDF would call them."""
import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p

REVERSE, OPTIONAL, SKIP_CHECKSUM = 0x100, 0x1, 0x200

libc = ctypes.CDLL(None)
libc.malloc.restype = c_void_p
libc.malloc.argtypes = [c_size_t]
libc.free.argtypes = [c_void_p]

FilterFunction = ctypes.CFUNCTYPE(c_size_t, c_uint, c_size_t, POINTER(c_uint), c_size_t, POINTER(c_size_t),
                                  POINTER(c_void_p))
ToHdf5 = ctypes.CFUNCTYPE(c_int, c_char_p, POINTER(c_size_t), POINTER(POINTER(c_uint)))
ToCodec = ctypes.CFUNCTYPE(c_int, c_size_t, POINTER(c_uint), POINTER(c_void_p))
Modify = ctypes.CFUNCTYPE(c_int, c_int, c_int, POINTER(c_size_t), POINTER(POINTER(c_uint)), POINTER(c_size_t),
                          POINTER(POINTER(c_uint)))


class FilterClass(ctypes.Structure):
    _fields_ = [("version", c_int), ("id", c_int), ("encoder", c_uint), ("decoder", c_uint), ("name", c_char_p),
                ("can_apply", c_void_p), ("set_local", c_void_p), ("filter", FilterFunction)]


class CodecClass(ctypes.Structure):
    _fields_ = [("version", c_int), ("sort", c_int), ("codecid", c_char_p), ("hdf5id", c_uint),
                ("initialize", c_void_p), ("finalize", c_void_p), ("to_hdf5", ToHdf5), ("to_codec", ToCodec),
                ("modify", c_void_p)]


def load(name):
    return ctypes.CDLL(os.path.join(os.environ["CODECFS_PLUGINS"], f"libcodecfs_{name}.so"))


class Filter:
    """The HDF5 half of a library. A failing call returns None, and is checked to leave the buffer as it was."""

    def __init__(self, name):
        self.library = load(name)
        self.library.H5PLget_plugin_info.restype = POINTER(FilterClass)
        assert self.library.H5PLget_plugin_type() == 0
        self.info = self.library.H5PLget_plugin_info().contents
        assert (self.info.version, self.info.encoder, self.info.decoder) == (1, 1, 1)

    def __call__(self, data, parameters=(), flags=0):
        start = libc.malloc(max(len(data), 1))
        ctypes.memmove(start, bytes(data), len(data))
        buffer, size = c_void_p(start), c_size_t(len(data))
        made = self.info.filter(flags, len(parameters), (c_uint * max(len(parameters), 1))(*parameters), len(data),
                                size, buffer)
        try:
            if made == 0:
                assert (buffer.value, size.value) == (start, len(data))
                assert ctypes.string_at(buffer, len(data)) == bytes(data)
                return None
            assert made <= size.value
            return ctypes.string_at(buffer, made)
        finally:
            libc.free(buffer)

    def encode(self, data, *parameters, flags=0):
        return self(data, parameters, flags)

    def decode(self, data, *parameters, flags=0):
        return self(data, parameters, flags | REVERSE)


class Codec:
    """A codec half. Refusals return None, and are checked to leave the caller's variables as they were."""

    def __init__(self, info):
        self.info = info
        self.id = info.codecid.decode()
        assert (info.version, info.sort) == (1, 1)

    def to_hdf5(self, text):
        count, values = c_size_t(77), POINTER(c_uint)()
        status = self.info.to_hdf5(text.encode() if isinstance(text, str) else text, count, values)
        if status != 0:
            assert status < 0 and count.value == 77 and not values
            return None
        result = values[:count.value] if count.value else []
        libc.free(ctypes.cast(values, c_void_p))
        return result

    def to_codec(self, *parameters):
        text = c_void_p()
        status = self.info.to_codec(len(parameters), (c_uint * max(len(parameters), 1))(*parameters), text)
        if status != 0:
            assert status < 0 and not text.value
            return None
        result = ctypes.string_at(text).decode()
        libc.free(text)
        return result

    def modify(self, visible, ncid=0, varid=0):
        """(status, visible, working) after NCZ_modify_parameters."""

        def allocated(values):
            memory = ctypes.cast(libc.malloc(4 * max(len(values), 1)), POINTER(c_uint))
            for i, value in enumerate(values):
                memory[i] = value
            return memory

        visible_count, visible_values = c_size_t(len(visible)), allocated(visible)
        working_count, working_values = c_size_t(1), allocated([99])  # replaced, not leaked
        status = Modify(self.info.modify)(ncid, varid, visible_count, visible_values, working_count, working_values)
        result = (status, visible_values[:visible_count.value], working_values[:working_count.value])
        libc.free(ctypes.cast(visible_values, c_void_p))
        libc.free(ctypes.cast(working_values, c_void_p))
        return result


def codecs():
    """All codecs of all our libraries, by numcodecs id."""
    found = {}
    for name in ("bzip2", "zstd", "blosc"):
        library = load(name)
        library.NCZ_get_codec_info.restype = POINTER(CodecClass)
        codec = Codec(library.NCZ_get_codec_info().contents)
        found[codec.id] = codec
    library = load("defaults")
    library.NCZ_codec_info_defaults.restype = POINTER(POINTER(CodecClass))
    listed = library.NCZ_codec_info_defaults()
    i = 0
    while listed[i]:
        codec = Codec(listed[i].contents)
        found[codec.id] = codec
        i += 1
    return found
