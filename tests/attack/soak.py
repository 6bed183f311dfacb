#!/usr/bin/python3
"""Soak: many processes at work on one mount for a long time, with the daemon's resources measured.

The workers and their model are those of scripts/concurrency-test: chunks, parts, mappings, all views, attributes, filter
chains, shapes, groups, each answer checked. Each second the memory, descriptors and threads of all processes of the daemon are
counted, and the bytes of the source and its log. After a first quarter none of these may go on growing, and the source must
stay in proportion to what it holds. At the end h5py or zarr-python compare it with the model.
"""
import os
import pathlib
import shutil
import sys
import time

import support  # adds the folder of mounts to the path
from mounts import processes_of

# What the last quarter may have more than the second one: a factor, and a number on top of it.
GROWTH = {"memory": (1.25, 48 << 20), "descriptors": (1.25, 16), "threads": (1.25, 8), "log": (1.5, 32 << 20)}
SPACE = (3.0, 8 << 20)  # the source: times what it holds uncompressed, and bytes on top of it
TRIALS = [("hdf5", []), ("zarr", []), ("zarr", ["coherent"])]


def import_libraries():
    global concurrency, concurrency_model, concurrency_work
    import concurrency
    import concurrency_model
    import concurrency_work


def leave_out_of_coherent():
    """With -o coherent a new shape makes open chunk files stale, and SIGBUS of their mappings: the model does not have that."""
    def skip(_):
        raise concurrency_model.Skip

    skip.__name__ = "skip"
    concurrency_work.Worker.resize = skip


def field(text, name):
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


def resources(session):
    found = {"memory": 0, "descriptors": 0, "threads": 0}
    for pid in processes_of(session):
        try:
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            found["memory"] += 1024 * field(text, "VmRSS:")
            found["threads"] += field(text, "Threads:")
            found["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, StopIteration):
            pass  # it has just ended
    return found


def allocated(path):
    """Bytes on the disk of a file or all files below a directory."""
    if not path.is_dir():
        try:
            return 512 * path.stat().st_blocks
        except FileNotFoundError:
            return 0
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += 512 * os.lstat(os.path.join(folder, name)).st_blocks
            except FileNotFoundError:
                pass
    return total


def make_round(told, folder, kind, options, seconds):
    class Round(concurrency.Round):
        samples = []
        last = -1.0

        def check_progress(self):
            super().check_progress()
            if self.clock.now - self.last >= 1:
                self.last = self.clock.now
                log = self.source.with_name(f".{self.source.name}.codecfs-wal")
                self.samples.append({"seconds": self.clock.now, **resources(self.daemon.pid), "source": allocated(self.source),
                                     "log": allocated(log)})

    Round.samples = []
    return Round(told.codecfs, folder, kind, told.seed, seconds, told.workers, options, "orderly")


def held(model):
    """Bytes of all arrays, uncompressed."""
    return sum(8 * int(concurrency_model.np.prod(variable.shape)) for variable in model.variables)


def judge(trial, left_out):
    """What is wrong with the resources."""
    samples = trial.samples
    if len(samples) < 4:
        return ["there was no time to measure anything: too few seconds"]
    end = samples[-1]["seconds"]
    second = [s for s in samples if end / 4 <= s["seconds"] < end / 2] or samples[:1]
    last = [s for s in samples if s["seconds"] >= end * 3 / 4]
    complaints = []
    print(f"  {'':12} {'second quarter':>16} {'last quarter':>16}")
    for name in [*GROWTH, "source"]:
        before, after = max(s[name] for s in second), max(s[name] for s in last)
        print(f"  {name:12} {before:16,} {after:16,}")
        if name in GROWTH and after > before * GROWTH[name][0] + GROWTH[name][1]:
            complaints.append(f"{name} grew from {before:,} in the second quarter to {after:,} in the last")
    live, size = held(trial.model), max(s["source"] for s in samples)
    print(f"  {live:,} bytes of arrays are held in a source of at most {size:,} bytes")
    if "13" not in left_out and size > live * SPACE[0] + SPACE[1]:
        complaints.append(f"the source has grown to {size:,} bytes, and holds {live:,} uncompressed")
    return complaints


def soak(told, folder, kind, options, seconds):
    trial = make_round(told, folder, kind, options, seconds)
    try:
        trial.run()
    except Exception as error:  # noqa: B902: all that is wrong
        return trial, [f"{error}\n--- log of the daemon\n{trial.log.read_text()[-3000:]}"]
    return trial, judge(trial, told.left_out)


def main():
    made = support.parser("soak-test", __doc__, 600, "seconds, of all trials together")
    made.add_argument("--kind", choices=["hdf5", "zarr"], help="only this kind of source")
    made.add_argument("--coherent", action="store_true", help="only the trial with -o coherent")
    made.add_argument("--workers", type=int, default=8, help="processes at work (default 8)")
    told = support.parse(made)
    import_libraries()
    trials = [trial for trial in TRIALS if told.kind in (None, trial[0]) and (not told.coherent or trial[1])]
    directory = support.scratch("codecfs-soak-")
    print(f"soak-test: {told.count} s, {told.workers} processes, seed {told.seed}; left out: {sorted(told.left_out)}", flush=True)
    begun, bad = time.monotonic(), 0
    for number, (kind, options) in enumerate(trials):
        folder = directory / str(number)
        folder.mkdir()
        if "coherent" in options:
            leave_out_of_coherent()
        trial, complaints = soak(told, folder, kind, options, told.count / len(trials))
        print(trial.summary(), flush=True)
        for complaint in complaints:
            print(f"--- FAILED: {complaint}", flush=True)
        bad += bool(complaints)
        if complaints and told.keep:
            shutil.copytree(folder, told.keep / f"soak-{number}", dirs_exist_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    print(f"soak-test: {bad} of {len(trials)} trials bad in {time.monotonic() - begun:.0f} s; seed {told.seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
