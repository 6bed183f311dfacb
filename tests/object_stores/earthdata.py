"""An archive behind NASA's Earthdata Login, for web_hosts.WebHosts: the server of the data, the login (URS), and a store of objects to which
signed URLs lead, as the Thin Egress App of the archives has them. Written from the documentation of Earthdata Login and of that program.

Without a session or a token, the data's server redirects to the login; that wants basic authentication (or a token), and redirects back with
a code, for which the data's server sets a cookie and redirects to what was asked for first. That redirects to a signed URL.
"""
import base64
import itertools
import json
import pathlib
import time
import urllib.parse

from fake.wire import Response

DATA, LOGIN, STORE = "https://data.lpdaac.earthdatacloud.nasa.gov", "https://urs.earthdata.nasa.gov", "https://d111.cloudfront.net"
PAGE = b"<!DOCTYPE html>\n<html><head><title>Earthdata Login</title></head><body>" + b"<p>Sign in</p>" * 20000 + b"</body></html>"


def page(status=200, body=PAGE, headers=()):
    return Response(status, [("Content-Type", "text/html; charset=utf-8"), *headers], body)


def redirect(location, status=302, headers=()):
    return Response(status, [("Location", location), ("Content-Type", "text/html"), *headers], b"<html>Moved</html>")


def file_answer(root, request):
    """A file below root, or a part of it."""
    path = pathlib.Path(root, urllib.parse.unquote(request.raw_path).lstrip("/"))
    if not path.is_file():
        return page(404, b"<html>Not Found</html>")
    content = path.read_bytes()
    headers = [("ETag", f'"{path.stat().st_mtime_ns}"'), ("Content-Type", "application/octet-stream")]
    if request.header("if-none-match") == headers[0][1]:
        return Response(304, headers)
    wanted = request.header("range")
    if not wanted:
        return Response(200, headers, content)
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    begin = int(first) if first else max(0, len(content) - int(last))
    end = min(int(last) + 1, len(content)) if first and last else len(content)
    if begin >= len(content):
        return Response(416, [*headers, ("Content-Range", f"bytes */{len(content)}")])
    return Response(206, [*headers, ("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")], content[begin:end])


class Earthdata:
    def __init__(self, root, user="reader", password="pass word#1"):
        self.root, self.user, self.password = root, user, password
        self.tokens, self.sessions, self.codes, self.numbers = {"token-1"}, set(), set(), itertools.count(1)
        self.shows_page = False  # the login answers with its page, as to those that send no login
        self.is_signed = True  # data comes from STORE
        self.issue = None  # of s3credentials: a function that gives (access key, secret, token, expires)
        self.services = {DATA: self.data, LOGIN: self.login, STORE: self.store}

    def knows(self, header):
        if header is None:
            return False
        if header.startswith("Bearer "):
            return header.removeprefix("Bearer ") in self.tokens
        return header == "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def login(self, request):
        if not request.path.startswith("/oauth/authorize"):
            return page(404)
        authorization = request.header("authorization")
        if authorization is None or self.shows_page:
            return page()
        if not self.knows(authorization):
            return page(401, headers=[("WWW-Authenticate", 'Basic realm="Please enter your Earthdata Login credentials."')])
        code = f"code-{next(self.numbers)}"
        self.codes.add(code)
        back = request.argument("redirect_uri")
        return redirect(back + "?" + urllib.parse.urlencode({"code": code, "state": request.argument("state")}),
                        headers=[("Set-Cookie", "_urs-gui_session=of-urs; path=/; secure; HttpOnly")])

    def session_of(self, request):
        cookies = dict(pair.strip().split("=", 1) for pair in request.header("cookie", "").split(";") if "=" in pair)
        return cookies.get("accessToken")

    def data(self, request):
        authorization = request.header("authorization")
        if request.path == "/login":
            if request.argument("code") not in self.codes:
                return page(400, b"<html>no such code</html>")
            self.codes.discard(request.argument("code"))
            session = f"session-{next(self.numbers)}"
            self.sessions.add(session)
            return redirect(urllib.parse.quote(request.argument("state")), 301, [
                ("Set-Cookie", f"accessToken={session}; Path=/; Domain=.earthdatacloud.nasa.gov; Max-Age=604800; Secure")])
        if authorization and not self.knows(authorization):
            return page(401, b"<html>Unauthorized</html>")
        if not authorization and self.session_of(request) not in self.sessions:
            return redirect(LOGIN + "/oauth/authorize?" + urllib.parse.urlencode({
                "response_type": "code", "client_id": "abc", "redirect_uri": DATA + "/login", "state": request.path}))
        if request.path == "/s3credentials":
            names = ("accessKeyId", "secretAccessKey", "sessionToken")
            *keys, expires = self.issue()
            text = time.strftime("%Y-%m-%d %H:%M:%S+00:00", time.gmtime(expires))
            return Response(200, [("Content-Type", "application/json")], json.dumps({**dict(zip(names, keys)), "expiration": text}).encode())
        if self.is_signed:
            return redirect(STORE + request.raw_path + "?A-userid=reader&X-Amz-Signature=5ec2e7", 303,
                            [("Cache-Control", "private, max-age=3540")])
        return file_answer(self.root, request)

    def store(self, request):
        # S3 and CloudFront refuse a signed URL with another way of authorization.
        if request.header("authorization") or request.argument("X-Amz-Signature") != "5ec2e7":
            return Response(400, [("Content-Type", "application/xml")], b"<Error><Code>InvalidArgument</Code></Error>")
        return file_answer(self.root, request)
