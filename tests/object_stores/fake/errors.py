"""S3's errors and the XML that carries them."""
import re
from xml.sax.saxutils import escape

# XML 1.0 cannot carry these; S3 writes references all the same, which a strict parser refuses.
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0d\x0e-\x1f]")


class S3Error(Exception):
    def __init__(self, status, code, message, headers=(), **elements):
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message, self.headers, self.elements = status, code, message, list(headers), elements


def element(name, value):
    return f"<{name}>{CONTROLS.sub(lambda c: f'&#x{ord(c[0]):x};', escape(str(value)))}</{name}>"


def document(name, *parts, namespace="http://s3.amazonaws.com/doc/2006-03-01/"):
    attribute = f' xmlns="{namespace}"' if namespace else ""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}{attribute}>{"".join(parts)}</{name}>'.encode("utf-8", "surrogateescape")


def error_document(code, message, request_id, **elements):
    parts = [element("Code", code), element("Message", message)] + [element(name, value) for name, value in elements.items()]
    return document("Error", *parts, element("RequestId", request_id), element("HostId", f"host-{request_id}"), namespace=None)
