"""Prints the measurements as text, JSON and a plot."""
import json
import os
import platform
import statistics
import subprocess
import time


def rate(result, name):
    seconds = statistics.median(result["seconds"][name])
    if not result.get("bytes"):
        return f"{seconds * 1e3:.1f} ms"
    gigabytes = result["bytes"] / seconds / 1e9
    return f"{gigabytes:.2f} GB/s" if gigabytes >= 0.1 else f"{gigabytes * 1e3:.1f} MB/s"


def verdict(result):
    if result["holds"] is None:
        return ""
    return "holds" if result["holds"] else "MISSES"


def line(result):
    """One row of the table."""
    value, unit = result["value"], result["unit"]
    low, high = min(result["values"]), max(result["values"])
    if result["kind"] == "growth":
        detail = f"{result['small']:.1f} -> {result['large']:.1f} {result['of']}"
    elif result["kind"] == "value":
        detail = f"{low:.2f} to {high:.2f}" if len(result["values"]) > 1 else ""
    else:
        rivals = ", ".join(f"{name} {rate(result, name)}" for name in result["seconds"] if name != "codecfs")
        detail = f"{rate(result, 'codecfs')} | {rivals} | {low:.2f} to {high:.2f}"
        if result["cpu_seconds"]:
            spent = {name: statistics.median(seconds) for name, seconds in result["cpu_seconds"].items()}
            detail += f" | CPU s: {', '.join(f'{name} {seconds:.2f}' for name, seconds in spent.items())}"
    bar = "" if result["bar"] is None else f"{'>=' if result['sense'] == 'at least' else '<='} {result['bar']:g}"
    return f"{result['title']:<60} {value:9.2f} {unit:<5} {bar:>8} {verdict(result):<7} {detail}"


HEADER = f"{'':<60} {'median':>9} {'':<5} {'bar':>8} {'':<7} codecfs | rivals | lowest to highest ratio"


def machine():
    def first(path, key):
        with open(path) as file:
            return next((text.split(":", 1)[1].strip() for text in file if text.startswith(key)), "unknown")

    return {"cores": len(os.sched_getaffinity(0)), "processor": first("/proc/cpuinfo", "model name"),
            "memory": first("/proc/meminfo", "MemTotal"), "kernel": platform.release(),
            "load": [round(load, 2) for load in os.getloadavg()]}


def document(bench, started):
    version = subprocess.run([bench.program, "--version"], capture_output=True, text=True).stdout.splitlines()
    return {"machine": machine(), "codecfs": version, "quick": bench.quick, "mebibytes": bench.data.mebibytes,
            "rounds": bench.rounds, "seconds": round(time.time() - started),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)), "rivals": bench.rivals.versions,
            "missing": bench.rivals.missing, "results": bench.results, "failures": bench.failures}


def write_json(bench, started, path):
    path.write_text(json.dumps(document(bench, started), indent=1) + "\n")


def summary(bench):
    judged = [result for result in bench.results if result["holds"] is not None]
    missed = [result for result in judged if not result["holds"]]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} bars hold"]
    lines += [f"  misses: {result['title']}: {result['value']:.2f} {result['unit']}, "
              f"{result['sense']} {result['bar']:g}" for result in missed]
    lines += [f"  FAILED: {failure['row']}: {failure['reason']}" for failure in bench.failures]
    return "\n".join(lines)


def plot(bench, path):
    """All ratios, with their bars. Returns why there is none, or nothing."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: there is no matplotlib (python3-matplotlib)"
    matplotlib.use("Agg")
    from matplotlib import pyplot
    ratios = [result for result in bench.results if result["kind"] == "ratio"][::-1]
    if not ratios:
        return "no plot: no row with a ratio ran"
    figure, axes = pyplot.subplots(figsize=(11, 1.6 + 0.32 * len(ratios)), layout="constrained")
    places = range(len(ratios))
    colours = {True: "tab:green", False: "tab:red", None: "tab:blue"}
    values = [result["value"] for result in ratios]
    spread = [[result["value"] - min(result["values"]) for result in ratios],
              [max(result["values"]) - result["value"] for result in ratios]]
    axes.barh(places, values, xerr=spread, color=[colours[result["holds"]] for result in ratios], ecolor="0.4",
              height=0.65)
    barred = [(place, result["bar"]) for place, result in zip(places, ratios) if result["bar"] is not None]
    axes.plot([bar for _, bar in barred], [place for place, _ in barred], "k|", markersize=16, markeredgewidth=2)
    axes.axvline(1, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks(ticks := [t for t in (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100)
                              if min(0.25, *values) <= t <= max(values) * 1.5])
    axes.set_xticklabels([f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    against = [", ".join(result["against"]) if len(result["against"]) == 1 else "best of " + str(len(result["against"]))
               for result in ratios]
    axes.set_yticks(places, [f"{result['title']}  [{rival}]" for result, rival in zip(ratios, against)], fontsize=8)
    axes.set_ylim(-0.6, len(ratios) - 0.4)
    axes.margins(x=0.1)
    axes.grid(axis="x", color="0.85")
    axes.set_axisbelow(True)
    axes.set_xlabel("rival's time / codecfs's time: median of the rounds, with the lowest and the highest")
    axes.set_title(f"codecfs, {machine()['cores']} cores, {bench.data.mebibytes} MiB, {bench.rounds} rounds; "
                   "black: the bar, at least; green holds, red misses", fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return None
