"""Reads the Parquet files that codecfs writes: flat columns of INT64 and BYTE_ARRAY, one row group, data pages of version 1
with zstd. Written from the specification, for tests without pyarrow."""
import struct

import numcodecs


class Thrift:
    """Structs of the compact protocol, as dicts by field numbers."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def value(self, kind):
        if kind in (5, 6):
            value = self.varint()
            return value >> 1 ^ -(value & 1)
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size:self.at]
        if kind == 9:
            head = self.byte()
            return [self.value(head & 15) for _ in range(self.varint() if head >> 4 == 15 else head >> 4)]
        assert kind == 12, kind
        return self.struct()

    def struct(self):
        fields, number = {}, 0
        while head := self.byte():
            number += head >> 4
            fields[number] = self.value(head & 15)
        return fields


def runs(data, bits, count):
    """Values of the hybrid of RLE and bit packing."""
    values, reader = [], Thrift(data)
    while len(values) < count:
        head = reader.varint()
        assert head & 1 == 0, "codecfs writes no bit-packed runs"
        assert bits == 1
        values += [reader.byte()] * (head >> 1)
    assert len(values) == count and reader.at == len(data)
    return values


def byte_arrays(data, count):
    values, at = [], 0
    for _ in range(count):
        size = struct.unpack_from("<I", data, at)[0]
        values.append(data[at + 4:at + 4 + size])
        at += 4 + size
    assert at == len(data)
    return values


def page(data, at):
    reader = Thrift(data, at)
    header = reader.struct()
    content = numcodecs.zstd.decompress(data[reader.at:reader.at + header[3]])
    assert len(content) == header[2]
    return header, bytes(content)


def read(path):
    """{name: list of values, None for nulls}"""
    data = path.read_bytes()
    assert data[:4] == data[-4:] == b"PAR1"
    length = struct.unpack("<I", data[-8:-4])[0]
    reader = Thrift(data, len(data) - 8 - length)
    footer = reader.struct()
    assert reader.at == len(data) - 8
    rows = footer[3]
    columns = {}
    assert len(footer[4]) == 1
    for element, chunk in zip(footer[2][1:], footer[4][0][1]):
        about = chunk[3]
        name = about[3][0].decode()
        assert about[4] == 6 and element[4].decode() == name
        header, content = page(data, about[9])
        assert header[1] == 0 and header[5][1] == rows == about[5]
        levels = [1] * rows
        if element[3] == 1:
            size = struct.unpack("<I", content[:4])[0]
            levels = runs(content[4:4 + size], 1, rows)
            content = content[4 + size:]
        if 11 in about:
            kind, words = page(data, about[11])
            assert kind[1] == 2 and header[5][2] == 8
            words = byte_arrays(words, kind[7][1])
            stored = [words[i] for i in runs(content[1:], content[0], sum(levels))]
        elif element[1] == 2:
            stored = list(struct.unpack(f"<{rows}q", content))
        else:
            stored = byte_arrays(content, sum(levels))
        if element.get(6) == 0:
            stored = [value.decode() for value in stored]
        assert about[12][3] == rows - sum(levels)
        values = iter(stored)
        columns[name] = [next(values) if level else None for level in levels]
    return columns
