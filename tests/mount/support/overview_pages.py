"""Pages of `codecfs info --html`, read as a browser reads them: the tree of elements, checked for what a page must not have."""
import base64
import html.parser
import re
import struct
import zlib

import numpy as np
from running import codecfs

VOID = {"meta", "img", "br"}
KNOWN = {"html", "head", "meta", "title", "style", "body", "header", "h1", "p", "main", "details", "summary", "div", "span", "b", "i",
         "dl", "dt", "dd", "table", "tr", "th", "td", "section", "ul", "li", "a", "small", "img", "svg", "path", "code", "footer", "tbody"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.children = []  # elements and texts

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def find_all(self, tag=None, kind=None):
        for child in self.children:
            if isinstance(child, str):
                continue
            if (tag is None or child.tag == tag) and (kind is None or kind in child.attributes.get("class", "").split()):
                yield child
            yield from child.find_all(tag, kind)


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("", {}, None)

    def handle_starttag(self, tag, attributes):
        assert tag in KNOWN, tag
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names) and not any(name.startswith("on") for name in names), (tag, attributes)
        element = Element(tag, attributes, self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag, attributes):
        assert tag == "path", tag  # of SVG
        self.at.children.append(Element(tag, attributes, self.at))

    def handle_endtag(self, tag):
        assert tag == self.at.tag, f"</{tag}> where <{self.at.tag}> is open"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


def parsed(text):
    """The elements of a page, which is well-formed and refers to nothing but itself."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is not closed"
    ids = set()
    for element in reader.root.find_all():
        for name, value in element.attributes.items():
            if name == "src":
                assert value.startswith("data:image/png;base64,"), value[:80]
            elif name == "href":
                assert re.fullmatch("#n[0-9]+", value), value
            elif name == "id":
                assert value not in ids
                ids.add(value)
            assert name in ("class", "id", "src", "href", "width", "height", "alt", "open", "lang", "charset", "content", "name",
                            "http-equiv", "viewbox", "preserveaspectratio", "role", "aria-label", "d", "style"), name
    for link in reader.root.find_all("a"):
        assert link.attributes["href"][1:] in ids
    [style] = reader.root.find_all("style")
    assert "url(" not in style.text and "@import" not in style.text and "http" not in style.text
    return reader.root


def page_of(source, *words, **more):
    return parsed(codecfs("info", "--html", "-", *words, source, **more).stdout)


def variables_of(page):
    """The variables with pictures by their paths."""
    found = {}
    for element in page.find_all("details", "var"):
        facts = facts_of(element)
        found[facts["path"]] = element
    return found


def facts_of(variable):
    [facts] = variable.find_all("dl")
    names = [child.text for child in facts.find_all("dt")]
    return dict(zip(names, (child.text for child in facts.find_all("dd")), strict=True))


def statistics_of(variable):
    """{"least": "1", ...}; a fill value in brackets is a part of the name."""
    found = {}
    for row in variable.find_all("div", "stats"):
        for item in row.find_all("span"):
            if item.parent is row:
                name = item.children[0].text
                found["fill" if name.startswith("fill") else name] = item.text[len(name):].strip()
    return found


def share(text):
    return {"none": 0, "all": 1}.get(text) if text in ("none", "all") else float(text.removesuffix(" %")) / 100


def pixels_of(variable):
    """An array of rows, columns, red-green-blue-alpha of the picture."""
    [image] = variable.find_all("img")
    data = base64.b64decode(image.attributes["src"].split(",", 1)[1], validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        size, = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + size)[0]
        assert kind not in chunks
        chunks[kind] = body
        at += 12 + size
    assert list(chunks)[0] == b"IHDR" and list(chunks)[-1] == b"IEND"
    width, height, bits, colours, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert bits == 8 and rest == [0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), "u1").reshape(height, -1)
    assert not rows[:, 0].any()
    if colours == 2:
        image = rows[:, 1:].reshape(height, width, 3)
        return np.concatenate([image, np.full((height, width, 1), 255, "u1")], axis=2)
    assert colours == 3
    palette = np.frombuffer(chunks[b"PLTE"], "u1").reshape(-1, 3)
    alpha = np.frombuffer(chunks[b"tRNS"], "u1")[:, None]
    return np.concatenate([palette, alpha], axis=1)[rows[:, 1:]]
