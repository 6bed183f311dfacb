"""Replays what recorder.c recorded: the states that a kill or a power cut can leave.

A File has its contents as programs see them and as they are certain to be on the disk, with the changes between both; a
Directory the same of its names. fsync makes a file's contents certain, that of a directory its names. A power cut keeps of
each file any part of the uncertain changes, also torn at 512 bytes, and of each directory the first of them.
"""
import os
import random
import struct

from support import Fault

HEAD = struct.Struct("<IIIIQQQQq")
MAGIC = 0x43455253
(CREATE, WRITE, TRUNCATE, ALLOCATE, SYNC, DATA_SYNC, RENAME, EXCHANGE, LINK, UNLINK, MKDIR, RMDIR, SYMLINK, SET_XATTR, REMOVE_XATTR,
 TIMES, SYNC_FILESYSTEM) = range(1, 18)
NAMES = dict(zip(range(1, 18), ["create", "write", "truncate", "allocate", "fsync", "fdatasync", "rename", "exchange", "link", "unlink",
                                "mkdir", "rmdir", "symlink", "setxattr", "removexattr", "times", "syncfs"]))
SECTOR = 512
KEEP_SIZE, PUNCH_HOLE = 1, 2


class Record:
    __slots__ = ("operation", "path", "other", "inode", "offset", "length", "payload", "mtime", "end")

    def __init__(self, data, at):
        magic, self.operation, path, other, self.inode, self.offset, self.length, payload, self.mtime = HEAD.unpack_from(data, at)
        if magic != MAGIC:
            raise Fault(f"the trace is damaged at {at}")
        at += HEAD.size
        self.path = os.fsdecode(data[at:at + path])
        self.other = os.fsdecode(data[at + path:at + path + other])
        at += path + other
        self.payload = data[at:at + payload]
        self.end = at + payload

    def __str__(self):
        return f"{NAMES[self.operation]} {self.path} {self.other} {self.offset} +{self.length}"


def read_trace(path):
    with open(path, "rb") as file:
        data = file.read()
    records, at = [], 0
    while at < len(data):
        records.append(Record(data, at))
        at = records[-1].end
    return records


class File:
    def __init__(self, data=b"", mtime=0, xattrs=()):
        self.data, self.xattrs, self.mtime = bytearray(data), dict(xattrs), mtime
        self.certain, self.certain_xattrs, self.certain_mtime = bytes(data), dict(xattrs), mtime
        self.pending = []

    def note(self, change, mtime):
        apply_to(self.data, self.xattrs, change)
        self.pending.append(change)
        self.mtime = mtime or self.mtime

    def sync(self, with_times):
        if self.pending:
            self.certain, self.certain_xattrs = bytes(self.data), dict(self.xattrs)
            self.pending = []
        if with_times:
            self.certain_mtime = self.mtime

    def after_power_cut(self, rng, how):
        """(bytes, xattrs, mtime)"""
        data, xattrs = bytearray(self.certain), dict(self.certain_xattrs)
        if how == "none":
            kept = []
        elif how == "prefix":
            kept = self.pending[:rng.randrange(len(self.pending) + 1)]
        else:
            chance = rng.choice([0.1, 0.5, 0.9])
            kept = [change for change in self.pending if rng.random() < chance]
        for i, change in enumerate(kept):
            is_torn = change[0] == WRITE and (i == len(kept) - 1 or how == "any") and rng.random() < 0.3
            if not is_torn:
                apply_to(data, xattrs, change)
                continue
            _, offset, payload = change
            ends = sorted({0, len(payload), *range(-offset % SECTOR, len(payload), SECTOR)})
            for begin, end in zip(ends, ends[1:]):
                if rng.random() < 0.5:
                    apply_to(data, xattrs, (WRITE, offset + begin, payload[begin:end]))
        return data, xattrs, self.mtime if rng.random() < 0.5 else self.certain_mtime


def apply_to(data, xattrs, change):
    kind = change[0]
    if kind == WRITE:
        _, offset, payload = change
        if len(data) < offset:
            data.extend(bytes(offset - len(data)))
        data[offset:offset + len(payload)] = payload
    elif kind == TRUNCATE:
        size = change[1]
        if size <= len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))
    elif kind == ALLOCATE:
        _, mode, offset, length = change
        if mode & PUNCH_HOLE:
            end = min(offset + length, len(data))
            if end > offset:
                data[offset:end] = bytes(end - offset)
        elif not mode & KEEP_SIZE and len(data) < offset + length:
            data.extend(bytes(offset + length - len(data)))
    elif kind == SET_XATTR:
        xattrs[change[1]] = change[2]
    elif kind == REMOVE_XATTR:
        xattrs.pop(change[1], None)


class Directory:
    def __init__(self, names=()):
        self.names, self.certain, self.pending = dict(names), dict(names), []
        self.mtime = 0

    def note(self, *changes):
        """Together: names that become nodes, or None."""
        put_names(self.names, changes)
        self.pending.append(changes)

    def sync(self, _=None):
        self.certain, self.pending = dict(self.names), []

    def after_power_cut(self, rng, how):
        names = dict(self.certain)
        count = 0 if how == "none" else rng.randrange(len(self.pending) + 1)
        for changes in self.pending[:count]:
            put_names(names, changes)
        return names


def put_names(names, changes):
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class World:
    """The files below one directory. A string is a symbolic link."""

    def __init__(self):
        self.root = Directory()
        self.inodes = {}
        self.serial = 0

    @classmethod
    def load(cls, folder):
        """As it is on the disk, all of it certain."""
        world = cls()

        def fill(directory, path):
            for entry in os.scandir(path):
                if entry.is_symlink():
                    node = os.readlink(entry.path)
                elif entry.is_dir():
                    node = Directory()
                    fill(node, entry.path)
                else:
                    status = entry.stat()
                    with open(entry.path, "rb") as file:
                        node = File(file.read(), status.st_mtime_ns, xattrs_of(entry.path))
                    world.inodes[status.st_ino] = node
                directory.names[entry.name] = node
            directory.sync()

        fill(world.root, folder)
        return world

    def directory(self, path):
        node = self.root
        for part in filter(None, path.split("/")):
            node = node.names[part]
        return node

    def node_at(self, path):
        try:
            return self.directory(path)
        except (KeyError, AttributeError):
            return None

    def parent(self, path):
        folder, _, name = path.rpartition("/")
        return self.directory(folder), name

    def apply(self, record):
        kind = record.operation
        if kind == CREATE:
            node = File(b"", record.mtime)
            self.inodes[record.inode] = node
            if record.path:
                directory, name = self.parent(record.path)
                directory.note((name, node))
        elif kind in (WRITE, TRUNCATE, ALLOCATE, SET_XATTR, REMOVE_XATTR, TIMES):
            node = self.inodes.get(record.inode)
            if node is None:
                if kind in (SET_XATTR, REMOVE_XATTR, TIMES):
                    return  # of a directory
                raise Fault(f"a file that is not known was changed: {record}")
            change = {WRITE: lambda: (WRITE, record.offset, record.payload), TRUNCATE: lambda: (TRUNCATE, record.length),
                      ALLOCATE: lambda: (ALLOCATE, int(record.other or 0), record.offset, record.length),
                      SET_XATTR: lambda: (SET_XATTR, record.other, record.payload), REMOVE_XATTR: lambda: (REMOVE_XATTR, record.other),
                      TIMES: lambda: (TIMES,)}[kind]()
            node.note(change, record.mtime)
        elif kind == SYNC_FILESYSTEM:
            self.sync_all()
        elif kind in (SYNC, DATA_SYNC):
            node = self.node_at(record.path)
            if not isinstance(node, Directory):
                node = self.inodes[record.inode]
            node.sync(kind == SYNC)
        elif kind == RENAME:
            (one, name), (two, other) = self.parent(record.path), self.parent(record.other)
            node = one.names[name]
            if one is two:
                one.note((name, None), (other, node))
            else:
                two.note((other, node))
                one.note((name, None))
        elif kind == EXCHANGE:
            (one, name), (two, other) = self.parent(record.path), self.parent(record.other)
            a, b = one.names[name], two.names[other]
            if one is two:
                one.note((name, b), (other, a))
            else:
                one.note((name, b))
                two.note((other, a))
        elif kind == LINK:
            directory, name = self.parent(record.other)
            directory.note((name, self.inodes[record.inode]))
        elif kind in (UNLINK, RMDIR):
            directory, name = self.parent(record.path)
            directory.note((name, None))
        elif kind == MKDIR:
            directory, name = self.parent(record.path)
            directory.note((name, Directory()))
        elif kind == SYMLINK:
            directory, name = self.parent(record.path)
            directory.note((name, record.other))

    def sync_all(self):
        def sync(node):
            if not isinstance(node, str):
                node.sync(True)
            if isinstance(node, Directory):
                for child in node.names.values():
                    sync(child)
        sync(self.root)

    # --- states

    def tree_now(self):
        """As after a kill: nested dictionaries, and (bytes, xattrs, mtime) of files."""
        def of(node):
            if isinstance(node, Directory):
                return {name: of(child) for name, child in node.names.items()}
            return node if isinstance(node, str) else (bytes(node.data), dict(node.xattrs), node.mtime)
        return of(self.root)

    def tree_after_power_cut(self, rng):
        how = rng.choice(["none", "prefix", "prefix", "any", "any"])
        chosen = {}

        def of(node):
            if isinstance(node, Directory):
                names = node.after_power_cut(rng, rng.choice([how, "prefix"]))
                return {name: of(child) for name, child in names.items()}
            if isinstance(node, str):
                return node
            if id(node) not in chosen:  # a file with two names is one file
                data, xattrs, mtime = node.after_power_cut(rng, rng.choice([how, how, "prefix"]))
                chosen[id(node)] = (bytes(data), xattrs, mtime)
            return chosen[id(node)]
        return of(self.root)


def xattrs_of(path):
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")}
    except OSError:
        return {}


def write_tree(tree, folder):
    os.mkdir(folder)
    for name, node in tree.items():
        path = os.path.join(folder, name)
        if isinstance(node, dict):
            write_tree(node, path)
        elif isinstance(node, str):
            os.symlink(node, path)
        else:
            data, xattrs, mtime = node
            with open(path, "wb") as file:
                file.write(data)
            for key, value in xattrs.items():
                os.setxattr(path, key, value)
            os.utime(path, ns=(mtime, mtime))


def read_tree(folder):
    """What write_tree made of it, without times."""
    made = {}
    for entry in os.scandir(folder):
        if entry.is_symlink():
            made[entry.name] = os.readlink(entry.path)
        elif entry.is_dir():
            made[entry.name] = read_tree(entry.path)
        else:
            with open(entry.path, "rb") as file:
                made[entry.name] = (file.read(), xattrs_of(entry.path))
    return made


def without_times(tree):
    return {name: without_times(node) if isinstance(node, dict) else node if isinstance(node, str) else node[:2]
            for name, node in tree.items()}


def random_of(*parts):
    return random.Random("/".join(map(str, parts)))
