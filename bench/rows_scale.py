"""Cost as work grows: each figure against a tenth of the size. What must not grow may double (noise); what is in
proportion may become 13 times as much."""
import os
import random
import subprocess

import numpy as np

from harness import MIB, read_into_page_cache, row, timed

CONSTANT, LINEAR = 2, 13


def one_round(bench, source, actions):
    """Runs the actions, (name, action(directory)), in their order on a new mount: seconds by name, with "mount" and
    "memory" (bytes)."""
    with bench.mount(source) as mount:
        figures = {"mount": mount.seconds}
        for name, action in actions:
            figures[name] = timed(lambda: action(mount.path))  # noqa: B023 (called at once)
        figures["memory"] = mount.memory()
    return figures


def times(bench, source, actions):
    """The figures of all rounds: lists by name."""
    read_into_page_cache(source)
    rounds = [one_round(bench, source, actions) for _ in range(bench.rounds)]
    return {name: [figures[name] for figures in rounds] for name in rounds[0]}


def against_before(bench, what, source, actions, size):
    """The figures of the larger size, and those of the earlier codecfs, each round in a random order."""
    read_into_page_cache(source)
    ours, before = [], []
    for _ in range(bench.rounds):
        sides = [lambda: ours.append(one_round(bench, source, actions)),
                 lambda: before.append(bench.of_before(lambda: one_round(bench, source, actions)))]
        random.shuffle(sides)
        for side in sides:
            side()
    for name in ours[0]:
        sides = {"codecfs": [figures[name] for figures in ours], "before": [figures[name] for figures in before]}
        if name == "memory":
            bench.value(f"{what}: memory, {size:,}", [a / b for a, b in zip(*sides.values())], "of it", 1.05)
        else:
            bench.ratio(f"{what}: {name}, {size:,}", sides, bar=0.95)


def ls(directory, *names):
    """`ls -f`: the number of names that are shown."""
    listing = subprocess.run(["ls", "-f", *names], cwd=directory, stdout=subprocess.PIPE, check=True).stdout
    return listing.count(b"\n")


def compare(bench, what, sources, actions_for, growths, bars=()):
    """`sources`: {size: path}, the smaller first. `growths`: {figure: most that it may grow}; `bars`: {figure: most
    that it may be at the larger size}, in seconds."""
    if bench.before:
        size, source = list(sources.items())[-1]
        against_before(bench, what, source, actions_for(size), size)
        return
    figures = {size: times(bench, source, actions_for(size)) for size, source in sources.items()}
    (small_size, small), (large_size, large) = figures.items()
    for name, at_most in growths.items():
        unit, scale, floor = ("MiB", 1 / MIB, 8) if name == "memory" else ("ms", 1e3, 5)
        bench.value(f"{what}: {name}, {large_size:,}", [value * scale for value in large[name]], unit,
                    bars[name] * scale if name in bars else None)
        bench.growth(f"{what}: {name}, against {small_size:,}", [value * scale for value in small[name]],
                     [value * scale for value in large[name]], unit, at_most, floor)


@row("chunks", "1 million chunks: mount, ls -f, stat, first byte, memory")
def chunks(bench):
    full = 100_000 if bench.quick else 1_000_000
    for latest, index in ((False, "B-tree"), (True, "extensible array")):
        def actions(count):
            number = count // 2 // 997 * 997

            def first_byte(directory):
                values = np.frombuffer((directory / f"v/{number}").read_bytes(), "<i2")
                bench.check(values.size == 256 and (values == number % 32768).all(), f"chunk {number} differs")

            def listing(directory):
                shown = ls(directory, "v")
                bench.check(count < shown < count + 16, f"ls shows {shown} names of {count} chunks")

            return [("stat of a chunk", lambda directory: (directory / f"v/{number + 1}").stat()),
                    ("first byte", first_byte), ("ls -f", listing)]

        compare(bench, f"chunks ({index})",
                {count: bench.data.many_chunks(count, latest) for count in (full // 10, full)}, actions,
                {"mount": CONSTANT, "stat of a chunk": CONSTANT, "first byte": CONSTANT, "ls -f": LINEAR,
                 "memory": CONSTANT}, {"mount": 0.05, "ls -f": 5})


@row("variables", "100 thousand variables: mount, ls, first byte, memory")
def variables(bench):
    full = 10_000 if bench.quick else 100_000

    def actions(count):
        number = count // 2

        def first_byte(directory):
            bench.check((directory / f"v{number:06d}/0").read_bytes() == number.to_bytes(4, "little") * 4,
                        f"v{number} differs")

        def listing(directory):
            shown = ls(directory)
            bench.check(count <= shown < count + 16, f"ls shows {shown} names of {count} variables")

        return [("first byte", first_byte), ("ls -f", listing)]

    compare(bench, "variables", {count: bench.data.many_variables(count) for count in (full // 10, full)}, actions,
            {"mount": CONSTANT, "first byte": LINEAR, "ls -f": LINEAR, "memory": LINEAR}, {"mount": 0.05})


@row("attributes", "10 thousand attributes: mount, one attribute, .zattrs, first byte, memory")
def attributes(bench):
    full = 1_000 if bench.quick else 10_000

    def actions(count):
        def one(directory):
            value = os.getxattr(directory / "v", f"user.a{count // 2:05d}")
            bench.check(value == str(count // 2).encode(), f"an attribute is {value}")

        def all_of_them(directory):
            bench.check((directory / "v/.zattrs").read_text().count('"a0') == min(count, 10_000), "wrong .zattrs")

        return [("first byte", lambda directory: (directory / "v/0").read_bytes()), ("one attribute", one),
                (".zattrs", all_of_them)]

    compare(bench, "attributes", {count: bench.data.many_attributes(count) for count in (full // 10, full)}, actions,
            {"mount": CONSTANT, "first byte": LINEAR, "one attribute": LINEAR, ".zattrs": LINEAR, "memory": LINEAR},
            {"mount": 0.05})


@row("sparse", "a sparse variable of 1 TiB with 1000 stored chunks: mount, ls, stat, first byte, memory")
def sparse(bench):
    full = 1 << 20

    def actions(count):
        last = 999 * (count // 1000)

        def first_byte(directory):
            with open(directory / f"v/{last}.0.0", "rb") as file:
                bench.check(np.frombuffer(file.read(4), "<f4")[0] == 999, "the last chunk differs")

        def absent(directory):
            bench.check(not (directory / f"v/{last + 1}.0.0").exists(), "an absent chunk is shown")

        def listing(directory):
            shown = ls(directory, "v")
            bench.check(1000 <= shown < 1016, f"ls shows {shown} names of 1000 stored chunks")

        def element(directory):
            view = np.load(directory / ".codecfs/view/npy/v.npy", mmap_mode="r")
            bench.check(view[last, 0, 0] == 999 and view[last + 1, 5, 5] == -1, "the npy view differs")

        return [("stat of an absent chunk", absent), ("first byte", first_byte), ("ls -f", listing),
                ("an element of the npy view", element)]

    # An extensible array is an index with a place for every chunk of the grid: listing must look at all of them.
    for latest, index, listed in ((False, "B-tree", CONSTANT), (True, "extensible array", LINEAR)):
        compare(bench, f"sparse 1 MiB chunks ({index})",
                {count: bench.data.sparse(count, latest) for count in (full // 10, full)}, actions,
                {"mount": CONSTANT, "stat of an absent chunk": CONSTANT, "first byte": CONSTANT, "ls -f": listed,
                 "an element of the npy view": CONSTANT, "memory": CONSTANT}, {"mount": 0.05})
