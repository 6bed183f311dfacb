"""The tree that notebooks show: HTML of one document without scripts, and nothing of which is loaded from elsewhere.

Names, types and attributes come from files of others: all text is escaped.
"""
from __future__ import annotations

import html
import math
from typing import Any, Iterable, Mapping

MOST = 1000  # variables, and groups: a notebook keeps the page

_STYLE = """<style>
.codecfs {font-size: 90%}
.codecfs details {margin-left: 1.2em}
.codecfs > details {margin-left: 0}
.codecfs summary {cursor: pointer; font-weight: bold}
.codecfs table {border-collapse: collapse; margin: 0.2em 0 0.4em 1.2em}
.codecfs th, .codecfs td {padding: 0.1em 0.8em; text-align: left; vertical-align: top; white-space: pre-wrap}
.codecfs th {font-weight: normal; opacity: 0.6}
.codecfs td.number {text-align: right}
.codecfs .quiet {font-weight: normal; opacity: 0.6}
</style>"""


def text(value: Any) -> str:
    """Escaped, and without the characters that change the direction of the text or do not print."""
    return html.escape("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(value)))


def size(count: int) -> str:
    """12345 as "12.1 KiB"."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    if unit == "B":
        return f"{count} B"
    return f"{number:.{max(0, 2 - int(math.log10(number)))}f} {unit}"


def lengths(shape: Iterable[int]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(map(str, shape)) or "scalar"


def ratio(entry: Mapping[str, Any]) -> str:
    return f"{entry['decoded_bytes'] / entry['stored_bytes']:.1f}x" if entry["stored_bytes"] else ""


def chunks(entry: Mapping[str, Any]) -> str:
    """Of a contiguous variable, for instance, nothing: it is one chunk."""
    return "" if list(entry["chunks"]) == list(entry["shape"]) else lengths(entry["chunks"])


def filters(entry: Mapping[str, Any]) -> str:
    """Of the codecs of a variable the names, and what tells how strong they are: "shuffle, zlib 4", "blosc lz4 5"."""
    shown = []
    for codec in entry.get("codecs") or []:
        name = str(codec.get("name") or codec.get("id") or "?")
        more = codec.get("configuration") if isinstance(codec.get("configuration"), dict) else codec
        shown.append(" ".join([name, *(str(more[key]) for key in ("cname", "clevel", "level") if key in more)]))
    return ", ".join(shown) or str(entry.get("filter", ""))


def page(body: str) -> str:
    return f'{_STYLE}<div class="codecfs">{body}</div>'


def variable_rows(variables: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    for entry in variables:
        cells = [f"<td><b>{text(entry['path'].rpartition('/')[2] or '/')}</b></td>", f"<td>{text(entry['type'])}</td>",
                 f"<td>{lengths(entry['shape'])}</td>", f"<td>{chunks(entry)}</td>",
                 f'<td class="number">{size(entry["stored_bytes"])}</td>', f'<td class="number">{ratio(entry)}</td>',
                 f"<td>{text(filters(entry))}{'<br>' + text(entry['error']) if entry.get('error') else ''}</td>"]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if not rows:
        return ""
    heads = "".join(f"<th>{head}</th>" for head in ("", "type", "shape", "chunks", "stored", "ratio", "filters"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def tree(document: Mapping[str, Any], top: str, title: str) -> str:
    """`document`: as codecfs.info() has it. `top`: the path of the group that is shown: "/", "/ocean"."""
    below = top.rstrip("/") + "/"
    groups = [entry["path"] for entry in document["groups"] if entry["path"] == top or entry["path"].startswith(below)]
    by_group: dict[str, list[Mapping[str, Any]]] = {path: [] for path in groups[:MOST]}
    by_group.setdefault(top, [])
    shown = [entry for entry in document["variables"] if entry["path"].startswith(below) or entry["path"] == top]
    for entry in shown[:MOST]:
        parent = top if entry["path"] == top else entry["path"].rpartition("/")[0] or "/"
        if parent in by_group:
            by_group[parent].append(entry)
    stored, decoded = sum(entry["stored_bytes"] for entry in shown), sum(entry["decoded_bytes"] for entry in shown)
    facts = [document["format"], f"{len(shown)} variable{'' if len(shown) == 1 else 's'}", f"{size(stored)} stored",
             f"{size(decoded)} decoded"]
    quiet = f'<span class="quiet">{text(", ".join(facts))}</span>'
    left_out = [f"{len(found) - MOST} more {what}" for found, what in ((groups, "groups"), (shown, "variables")) if len(found) > MOST]
    more = f'<div class="quiet">and {" and ".join(left_out)}</div>' if left_out else ""
    return page(f"<details open><summary>{text(title)} {quiet}</summary>{variable_rows(by_group[top])}"
                f"{_groups(by_group, top)}</details>{more}")


def _groups(by_group: Mapping[str, list[Mapping[str, Any]]], top: str) -> str:
    """Nested as the groups are, without recursion: a file may nest them very deep."""
    parts: list[str] = []
    opened: list[str] = []
    for path in sorted(by_group, key=lambda path: path.split("/")):
        if path == top:
            continue
        while opened and not path.startswith(opened[-1] + "/"):
            opened.pop()
            parts.append("</details>")
        is_open = "open" if len(by_group) <= 20 and len(opened) < 3 else ""
        name = path[len(opened[-1] if opened else top.rstrip("/")) + 1:]
        parts.append(f"<details {is_open}><summary>{text(name)}/</summary>{variable_rows(by_group[path])}")
        opened.append(path)
    return "".join(parts) + "</details>" * len(opened)


def variable(entry: Mapping[str, Any], facts: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in facts.items())
    found = "".join(f"<tr><th>{text(name)}</th><td>{text(_short(value))}</td></tr>" for name, value in attributes.items())
    more = f"<details open><summary>attributes</summary><table>{found}</table></details>" if found else ""
    head = f'{text(entry["path"])} <span class="quiet">{text(entry["type"])}, {lengths(entry["shape"])}</span>'
    return page(f"<details open><summary>{head}</summary><table>{rows}</table>{more}</details>")


def _short(value: Any) -> str:
    shown = str(value)
    return shown if len(shown) <= 1000 else shown[:1000] + "\N{HORIZONTAL ELLIPSIS}"
