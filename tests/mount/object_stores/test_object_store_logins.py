"""Web servers behind a login: what is sent to whom, what is data, and what is an error. The servers have the names of those of the internet,
by a proxy (tests/object_stores/web_hosts.py)."""
import concurrent.futures
import contextlib
import errno
import os
import time

import numpy as np
import pytest

import mounts
from buckets import FAR_DATA, FakeS3, files_of, make_far, make_v2
from earthdata import DATA, LOGIN, PAGE, STORE, Earthdata, file_answer, page, redirect
from fake.wire import Response
from running import codecfs, run
from web_hosts import WebHosts

SECRETS = ("token-1", "pass word#1", "cGFzcyB3b3JkIzE", "cmVhZGVyOnBhc3Mgd29yZCMx", "header-secret", "session-", "code-", "5ec2e7", "cookie-secret")
NETRC = 'machine urs.earthdata.nasa.gov login reader password "pass word#1"\n'
OTHER = "https://other.example.org"


@pytest.fixture
def archive(tmp_path):
    make_v2(tmp_path / "data/s.zarr", consolidated=True)
    return Earthdata(tmp_path / "data")


@pytest.fixture
def hosts(archive, tmp_path):
    with WebHosts(tmp_path, {**archive.services, OTHER: archive.store, DATA + ":8443": archive.store,
                             "http://plain.example.org": archive.store}) as running:
        yield running


@pytest.fixture
def variables(hosts, tmp_path):
    """Of a user without any login."""
    (tmp_path / "home").mkdir()
    clean = {name: None for name in os.environ if name.startswith(("AWS_", "EARTHDATA_"))}
    return clean | hosts.environment() | {"HOME": str(tmp_path / "home"), "NETRC": None}


@pytest.fixture
def login(variables, tmp_path):
    """A function login(kind) that gives the user a login: (variables, options)."""
    def make(kind):
        more, options = {}, []
        if kind == "netrc":
            (tmp_path / "home/.netrc").write_text(NETRC)
        elif kind == "NETRC":
            (tmp_path / "logins").write_text(NETRC)
            more["NETRC"] = str(tmp_path / "logins")
        elif kind == "password":
            more |= {"EARTHDATA_USERNAME": "reader", "EARTHDATA_PASSWORD": "pass word#1"}
        elif kind == "token":
            more["EARTHDATA_TOKEN"] = "token-1"
        elif kind == "token_file":
            (tmp_path / "token").write_text("token-1\n")
            options.append(f"token_file={tmp_path / 'token'}")
        else:
            (tmp_path / "headers").write_text("# of the archive\nAuthorization: Bearer token-1\nX-Key: header-secret\n")
            options.append(f"header_file={tmp_path / 'headers'}")
        return variables | more, options

    return make


KINDS = ["netrc", "NETRC", "password", "token", "token_file", "header_file"]


def mounted(mount, url, *options, env):
    """With the environment alone: a variable that is None is not there."""
    program = ["env", *(word for name, value in env.items() if value is None for word in ("-u", name)), os.environ["CODECFS"]]
    return mount(url, *options, env={name: value for name, value in env.items() if value is not None}, program=program)


@pytest.fixture
def mount_at(tmp_path):
    with contextlib.ExitStack() as stack:
        numbers = iter(range(1, 100))

        def make(source, *options, env, program):
            return stack.enter_context(mounts.mounted(source, tmp_path / f"mnt{next(numbers)}", *options, env=env, program=program))

        yield make


def private_parts(seen):
    """What a request has beside what every reader sends."""
    usual = {"host", "user-agent", "accept", "range", "if-match", "if-none-match", "cache-control", "proxy-connection"}
    return {name: value for name, value in seen.headers.items() if name not in usual}


# --- who gets what


@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "direct"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_behind_earthdata_login(kind, is_signed, archive, hosts, login, mount_at, tmp_path):
    archive.is_signed = is_signed
    env, options = login(kind)
    expected = files_of(tmp_path / "data/s.zarr")
    there = mounted(mount_at, DATA + "/s.zarr", "loglevel=debug", "retry=1", *options, env=env)
    for name in ("a/0.0", "a/3.2", "inner/b c+d/2"):
        assert (there.path / name).stat().st_size > 0
    array = np.frombuffer((there.path / "a/0.0").read_bytes())
    assert array.reshape(30, 40)[1, 1] == 91 and len(expected) > 3
    assert not (there.path / "a/3.9").exists()
    assert hosts.tunnels and all(set(headers) <= {"host", "user-agent", "proxy-connection"} for headers in hosts.tunnels)
    needs_login = kind in ("netrc", "NETRC", "password")
    assert len([each for each in hosts.seen if each.origin == LOGIN]) == (1 if needs_login else 0)
    for each in hosts.seen:
        parts = private_parts(each)
        if each.origin == STORE:
            assert parts == {}
        elif each.origin == LOGIN:
            assert set(parts) == {"authorization"} and parts["authorization"].startswith("Basic ")
        elif needs_login:
            assert each.origin == DATA and set(parts) <= {"cookie"} and parts.get("cookie", "session-").count("session-") == 1
        else:
            assert parts == {"authorization": "Bearer token-1"} | ({"x-key": "header-secret"} if kind == "header_file" else {})
    shown = there.log.read_text() + (there.path / ".codecfs/log").read_text() + "".join(
        (line for line in open("/proc/self/mountinfo") if str(there.path) in line)) + run("ps", "axww", "-o", "args").stdout
    assert [secret for secret in SECRETS if secret in shown] == []


@pytest.mark.parametrize("url", [OTHER, "https://data.lpdaac.earthdatacloud.nasa.gov.example.org", "https://evilearthdata.nasa.gov", DATA + ":8443"])
def test_earthdata_logins_are_for_its_hosts(url, archive, login, tmp_path):
    env, _ = login("token")
    env |= {"EARTHDATA_USERNAME": "reader", "EARTHDATA_PASSWORD": "pass word#1"}
    with WebHosts(tmp_path, {url: lambda request: file_answer(archive.root, request)}) as there:
        codecfs("info", "-O", "retry=1", url + "/s.zarr", env=env | there.environment())
        assert there.seen and all(private_parts(each) == {} for each in there.seen)


TARGETS = ["https://other.example.org", DATA + ":8443", "https://sub.data.lpdaac.earthdatacloud.nasa.gov.example.org"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["token", "token_file", "header_file", "cookie"])
def test_a_redirect_to_another_server_takes_nothing_along(kind, target, status, archive, login, tmp_path):
    env, options = login("netrc" if kind == "cookie" else kind)
    if kind == "cookie":
        (tmp_path / "headers").write_text("Cookie: cookie-secret=1\n")
        options = [f"header_file={tmp_path / 'headers'}"]

    def elsewhere(request):
        return redirect(target.replace("https://", "https://user:password@") + request.raw_path, status,
                        [("Set-Cookie", "set=cookie-secret; Path=/; Domain=nasa.gov")])

    with WebHosts(tmp_path, {DATA: elsewhere, target: lambda request: file_answer(archive.root, request)}) as hosts:
        codecfs("info", "-O", ",".join(["retry=1", *options]), DATA + "/s.zarr", env=env | hosts.environment())
        assert [private_parts(each) for each in hosts.seen if each.origin == target and private_parts(each)] == []
        home = [private_parts(each) for each in hosts.seen if each.origin == DATA]
        assert len(home) > 1 and all(set(parts) & {"authorization", "cookie"} for parts in home)
        assert "cookie-secret" in home[1]["cookie"], "which it set"


@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_to_plain_http_is_refused(kind, archive, login, hosts, mount_at):
    env, options = login(kind)
    hosts.services[DATA] = lambda request: redirect("http://plain.example.org" + request.raw_path)
    said = codecfs("info", "-O", ",".join(["retry=1", *options]), DATA + "/s.zarr", env=env, code=32).stderr
    assert "which is not encrypted" in said
    assert {each.origin for each in hosts.seen} == {DATA}


def test_a_login_is_not_sent_to_another_port_of_its_host(hosts, login, tmp_path):
    env, _ = login("netrc")
    hosts.services[LOGIN + ":8443"] = lambda request: page()
    hosts.services[DATA] = lambda request: redirect(LOGIN + ":8443/oauth/authorize")
    said = codecfs("info", "-O", "retry=1", DATA + "/s.zarr", env=env, code=32).stderr
    assert "on its usual port" in said
    assert all(private_parts(each) == {} for each in hosts.seen)


@pytest.mark.parametrize("kind", ["token_file", "header_file"])
def test_secrets_are_not_sent_without_encryption(kind, hosts, login):
    env, options = login(kind)
    said = codecfs("info", "-O", ",".join(options), "http://plain.example.org/s.zarr", env=env, code=32).stderr
    assert "only sent over https" in said and hosts.seen == []


def test_a_login_of_netrc_is_not_sent_without_encryption(hosts, variables, tmp_path):
    (tmp_path / "home/.netrc").write_text("machine plain.example.org login u password header-secret\n")
    hosts.services["http://plain.example.org"] = lambda request: page(401)
    said = codecfs("info", "-O", "retry=1", "http://plain.example.org/s.zarr", env=variables, code=32).stderr
    assert "only sent over https" in said and "header-secret" not in said
    assert hosts.seen and all(private_parts(each) == {} for each in hosts.seen)


def test_basic_authentication_of_any_server(hosts, variables, archive, tmp_path):
    (tmp_path / "home/.netrc").write_text("machine other.example.org login reader password \"pass word#1\"\ndefault login x password y\n")
    hosts.services[OTHER] = lambda request: file_answer(archive.root, request) if archive.knows(request.header("authorization")) else page(401)
    assert "a" in codecfs("info", "-O", "retry=1", OTHER + "/s.zarr", env=variables).stdout
    hosts.seen.clear()
    codecfs("info", "-O", "retry=1", STORE + "/s.zarr", env=variables, code=32)
    assert hosts.seen and all(private_parts(each) == {} for each in hosts.seen), "there is no login for all hosts"


NETRC_FILES = {
    "plain": "machine other.example.org login a password b",
    "lines": "machine x login y password z\nmachine other.example.org\n\tlogin a\n\taccount c\n\tpassword b\n",
    "quotes": 'machine other.example.org login "a b" password "c\\"d\\\\e"',
    "comment": "# machine other.example.org login x password y\nmachine other.example.org login a password b\n",
    "hash": "machine other.example.org login a#b password c#\n",
    "macro": "macdef init\nmachine other.example.org login x password y\n\nmachine other.example.org login a password b\n",
    "others": "machine other.example.org.net login x password y\nmachine example.org login x password y\n",
    "order": "machine other.example.org password b login a",
    "capitals": "machine OTHER.example.org login a password b",
    "unknown": "machine other.example.org port 443 login a password b",
    "crlf": "machine other.example.org\r\nlogin a\r\npassword b\r\n",
}


@pytest.mark.parametrize("name", NETRC_FILES)
def test_netrc_files_are_read_as_by_curl(name, hosts, variables, tmp_path):
    (tmp_path / "logins").write_text(NETRC_FILES[name])
    run("curl", "-sS", "--netrc-file", tmp_path / "logins", OTHER + "/s.zarr/zarr.json", env=variables)
    expected = hosts.seen.pop().header("authorization")
    assert (expected is None) == (name == "others")
    codecfs("info", "-O", "retry=1", OTHER + "/s.zarr", env=variables | {"NETRC": str(tmp_path / "logins")}, code=32)
    assert {each.header("authorization") for each in hosts.seen} == {expected}


# --- what is no data


def test_without_a_login_there_is_an_error_that_says_so(hosts, variables):
    said = codecfs("info", "-O", "retry=1", DATA + "/s.zarr", env=variables, code=32).stderr
    assert "a page of HTML" in said and "https://urs.earthdata.nasa.gov wants a login" in said and "~/.netrc" in said, said
    assert "EARTHDATA_TOKEN" in said


@pytest.mark.parametrize("kind, what", [("netrc", "the login for urs.earthdata.nasa.gov in '"), ("password", "EARTHDATA_USERNAME"),
                                        ("token", "EARTHDATA_TOKEN"), ("token_file", "the token in '"), ("header_file", "the headers in '")])
def test_a_login_that_is_wrong_is_named(kind, what, hosts, archive, login):
    archive.password, archive.tokens = "another", set()
    env, options = login(kind)
    said = codecfs("info", "-O", ",".join(["retry=1", *options]), DATA + "/s.zarr", env=env, code=32).stderr
    assert "status 401" in said and "does not accept" in said and what in said, said
    assert [secret for secret in SECRETS if secret in said] == []


@pytest.mark.parametrize("status", [401, 403])
def test_what_is_refused_is_an_error_of_permissions(status, hosts, archive, login, mount_at):
    env, options = login("token")
    there = mounted(mount_at, DATA + "/s.zarr", "retry=1", *options, env=env)
    hosts.services[DATA] = lambda request: page(status)
    for read in (lambda: (there.path / "a/0.0").read_bytes(), lambda: os.stat(there.path / "a/2.2").st_size and (there.path / "a/2.2").read_bytes()):
        with pytest.raises(OSError) as caught:
            read()
        assert caught.value.errno == errno.EACCES
    assert f"status {status}" in there.log.read_text() and "does not accept EARTHDATA_TOKEN" in there.log.read_text()


@pytest.mark.parametrize("status, body", [(200, PAGE), (206, PAGE), (200, b"\xef\xbb\xbf\n <!-- --><html>"), (200, b"<!DOCTYPE html>")],
                         ids=["long", "long in parts", "comment first", "short"])
@pytest.mark.parametrize("name", ["s.zarr", "weather.nc"])
def test_a_page_is_never_data_and_never_absent(name, status, body, hosts, archive, login, mount_at, tmp_path):
    """Also one that is longer or shorter than what was asked for, in an open mount, and one that is sent in parts."""
    if name == "weather.nc":
        make_far(tmp_path / "data" / name)
    env, _ = login("token")
    archive.is_signed = False
    there = mounted(mount_at, f"{DATA}/{name}", "retry=1", env=env)

    def shows_page(request):
        headers = [("Content-Type", "text/html; charset=utf-8"), ("ETag", '"p"')]
        if status == 206 and request.header("range"):
            return Response(206, [*headers, ("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")], body)
        return Response(200, headers, body)

    before = hosts.services[DATA]
    hosts.services[DATA] = shows_page
    chunk = "a/0.0" if name == "s.zarr" else "v/17.0"
    with pytest.raises(OSError) as caught:
        (there.path / chunk).read_bytes()
    assert caught.value.errno == errno.EACCES
    said = codecfs("info", "-O", "retry=1", f"{DATA}/{name}", env=env, code=32).stderr
    assert "page of HTML" in said, said
    hosts.services[DATA] = before
    assert len((there.path / chunk).read_bytes()) in (9600, 200_000), "an error is not kept"


def test_a_refusal_after_a_redirect_names_its_server(hosts, login):
    env, _ = login("token")
    hosts.services[STORE] = lambda request: page(403)
    said = codecfs("info", "-O", "retry=1", DATA + "/s.zarr", env=env, code=32).stderr
    assert f"the answer of {STORE}, after a redirect" in said and "wants a login" not in said and "5ec2e7" not in said


@pytest.mark.parametrize("redirected,expected", [("chunks", errno.EIO), ("all", errno.ENOENT)])
def test_absence_is_told_by_the_server_that_has_the_store(redirected, expected, hosts, archive, variables, mount_at):
    """One that serves metadata itself and redirects to another for chunks may be well while the other is not."""
    def data(request):
        is_chunk = request.raw_path.split("/")[-1][0] != "."
        return redirect(OTHER + request.raw_path) if is_chunk or redirected == "all" else file_answer(archive.root, request)

    hosts.services[DATA] = data
    hosts.services[OTHER] = lambda request: page(404) if request.raw_path.endswith("/a/0.0") else file_answer(archive.root, request)
    there = mounted(mount_at, DATA + "/s.zarr", "retry=1", env=variables)
    assert len((there.path / "a/0.1").read_bytes()) == 9600
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").read_bytes()
    assert caught.value.errno == expected, there.messages()
    assert expected == errno.ENOENT or f"{OTHER} answers that after a redirect" in there.log.read_text()


# --- sessions


def test_a_session_that_ends_is_begun_again_once(hosts, archive, login, mount_at):
    env, _ = login("netrc")
    there = mounted(mount_at, DATA + "/s.zarr", "retry=1", env=env)
    logins = lambda: len([each for each in hosts.seen if each.origin == LOGIN])  # noqa: E731
    assert logins() == 1
    archive.sessions.clear()
    names = [f"a/{i}.{j}" for i in range(4) for j in range(3)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda name: len((there.path / name).read_bytes()), names))
    assert found == [9600] * 12 and logins() == 2


def test_a_session_that_cannot_be_begun_again_is_an_error(hosts, archive, login, mount_at, tmp_path):
    env, _ = login("netrc")
    there = mounted(mount_at, DATA + "/s.zarr", "retry=1", env=env)
    archive.sessions.clear()
    archive.shows_page = True
    for name in ("a/0.0", "a/1.1"):
        with pytest.raises(OSError) as caught:
            (there.path / name).read_bytes()
        assert caught.value.errno == errno.EACCES
    archive.shows_page = False
    assert len((there.path / "a/0.0").read_bytes()) == 9600


@pytest.mark.parametrize("kind", ["token_file", "header_file", "netrc"])
def test_files_are_read_again(kind, hosts, archive, login, mount_at, tmp_path):
    env, options = login(kind)
    there = mounted(mount_at, DATA + "/s.zarr", "retry=1", *options, env=env)
    archive.tokens, archive.password = {"token-2"}, "second"
    archive.sessions.clear()
    with pytest.raises(PermissionError):
        (there.path / "a/0.0").read_bytes()
    path = tmp_path / {"token_file": "token", "header_file": "headers", "netrc": "home/.netrc"}[kind]
    path.write_text(path.read_text().replace("token-1", "token-2").replace('"pass word#1"', "second"))
    assert len((there.path / "a/0.0").read_bytes()) == 9600
    path.unlink()
    archive.sessions.clear()
    with pytest.raises(PermissionError):
        (there.path / "a/0.1").read_bytes()


def test_curl_gets_the_same_from_these_servers(hosts, archive, login, tmp_path):
    """With its own logins, cookies and redirects."""
    env, _ = login("netrc")
    words = ["curl", "-sSf", "-n", "-L", "-c", tmp_path / "jar", "-b", tmp_path / "jar", DATA + "/s.zarr/a/0.0"]
    assert run(*words, env=env, text=False).stdout == (tmp_path / "data/s.zarr/a/0.0").read_bytes()
    assert [each.origin for each in hosts.seen] == [DATA, LOGIN, DATA, DATA, STORE]


def test_signed_urls_are_used_again(hosts, archive, login, mount_at, tmp_path):
    """The chunks of a file need no redirect of their own, and connections to both servers stay open."""
    make_far(tmp_path / "data/far.h5")
    env, _ = login("netrc")
    there = mounted(mount_at, DATA + "/far.h5", "retry=1", "connections=1", env=env)
    for i in range(40):
        assert (there.path / f"v/{i}.0").read_bytes() == FAR_DATA[i].tobytes()
    origins = [each.origin for each in hosts.seen]
    assert origins.count(DATA) == 3 and origins.count(LOGIN) == 1 and origins.count(STORE) > 3
    assert there.stats()["object_gets"] == len(origins)

    connections = hosts.connections
    chunks = mounted(mount_at, DATA + "/s.zarr", "retry=1", "connections=1", env=env)
    for i in range(4):
        (chunks.path / f"a/{i}.0").read_bytes()
    assert hosts.connections - connections <= 5, "two of the login, two of the data, one of the first look-ups"


# --- files that cannot be used


@pytest.mark.parametrize("text, reason", [
    ("", "is no token"), ("two words", "is no token"), ("a\nb", "is no token"), ("é", "is no token")])
def test_what_is_no_token(text, reason, tmp_path):
    (tmp_path / "token").write_text(text)
    assert reason in codecfs("info", "-O", f"token_file={tmp_path / 'token'}", OTHER + "/s.zarr", code=32).stderr
    assert "cannot open" in codecfs("info", "-O", f"token_file={tmp_path / 'none'}", OTHER + "/s.zarr", code=32).stderr


@pytest.mark.parametrize("text, reason", [
    ("header-secret", "line 1: is no header"), ("\n# x\nX-Key:\n", "line 3: is no header"), ("X Key: header-secret", "line 1"),
    ("X-Key: header-secret\u00e9", "line 1"), ("Range: bytes=0-header-secret", "sets the header Range itself"), ("HOST: header-secret", "itself")])
def test_what_is_no_header(text, reason, tmp_path):
    (tmp_path / "headers").write_text(text)
    said = codecfs("info", "-O", f"header_file={tmp_path / 'headers'}", OTHER + "/s.zarr", code=32).stderr
    assert reason in said and "header-secret" not in said


def test_two_tokens_are_refused(tmp_path):
    (tmp_path / "headers").write_text("authorization: Bearer a\n")
    (tmp_path / "token").write_text("b")
    words = f"header_file={tmp_path / 'headers'},token_file={tmp_path / 'token'}"
    assert "Authorization, too" in codecfs("info", "-O", words, OTHER + "/s.zarr", code=32).stderr


# --- keys of s3:// from a server behind a login


@pytest.fixture
def bucket(archive, tmp_path):
    with FakeS3(region="us-west-2") as s3:
        s3.put_tree("lp-prod-protected", tmp_path / "data/s.zarr", "s.zarr/")
        count = 0

        def issue():
            nonlocal count
            count += 1
            keys = {"access_key": f"ASIA{count}", "secret": f"secret-{count}", "token": f"of-s3-{count}", "expires": time.time() + s3.lifetime}
            s3.control(credentials=keys)
            return tuple(keys.values())

        s3.lifetime = 3600
        archive.issue = issue
        yield s3


def credential_options(s3, *more):
    return ["retry=1", f"endpoint={s3.endpoint}", "region=us-west-2", f"credential_url={DATA}/s3credentials", *more]


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_an_archive(kind, bucket, hosts, archive, login, mount_at):
    env, options = login(kind)
    # What comes before all else if there is no credential_url.
    env |= {"no_proxy": "127.0.0.1", "AWS_NO_SIGN_REQUEST": "YES", "AWS_ACCESS_KEY_ID": "wrong", "AWS_SECRET_ACCESS_KEY": "wrong"}
    there = mounted(mount_at, "s3://lp-prod-protected/s.zarr", "loglevel=debug", *credential_options(bucket, *options), env=env)
    assert len((there.path / "a/0.0").read_bytes()) == 9600
    asked = [each for each in hosts.seen if each.path == "/s3credentials"]
    assert 1 <= len(asked) <= 3 and all(entry["signed"] for entry in bucket.log())
    shown = there.log.read_text() + (there.path / ".codecfs/log").read_text()
    assert [secret for secret in (*SECRETS, "secret-1", "of-s3-1") if secret in shown] == []


def test_keys_of_an_archive_are_renewed(bucket, hosts, archive, login, mount_at):
    env, options = login("token")
    env |= {"no_proxy": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}
    asked = lambda: len([each for each in hosts.seen if each.path == "/s3credentials"])  # noqa: E731
    bucket.lifetime = 4  # they are renewed in the middle
    there = mounted(mount_at, "s3://lp-prod-protected/s.zarr", *credential_options(bucket, *options), env=env)
    (there.path / "a/0.0").read_bytes()
    first = asked()
    bucket.lifetime = 3600
    time.sleep(2.5)
    (there.path / "a/0.1").read_bytes()
    assert asked() == first + 1
    time.sleep(2)
    (there.path / "a/0.2").read_bytes()
    assert asked() == first + 1 and all(entry["status"] not in (400, 401, 403) for entry in bucket.log())
    bucket.expire_credentials()  # before their time
    (there.path / "inner/b c+d/3").read_bytes()  # which was not requested ahead
    assert asked() == first + 2


@pytest.mark.parametrize("answer, reason", [
    (lambda request: page(), "page of HTML"), (lambda request: page(403), "status 403"), (lambda request: page(404), "status 404"),
    (lambda request: Response(200, [], b'{"accessKeyId": "a", "secretAccessKey": "header-secret"}'), "no sessionToken"),
    (lambda request: Response(200, [], b'{"accessKeyId": "a", "secretAccessKey": "header-secret", "sessionToken": "t"}'), "no expiration"),
    (lambda request: Response(200, [], b"header-secret"), "not a JSON object"),
    (lambda request: Response(200, [], b'{"accessKeyId": "a", "secretAccessKey": "b", "sessionToken": "t", "expiration": "2020-01-01 00:00:00+00:00"}'),
     "have expired")])
def test_what_is_no_key_of_an_archive(answer, reason, bucket, hosts, login):
    env, _ = login("token")
    hosts.services[DATA] = answer
    words = ["info", "-O", ",".join(credential_options(bucket)), "s3://lp-prod-protected/s.zarr"]
    said = codecfs(*words, env=env | {"no_proxy": "127.0.0.1"}, code=32).stderr
    assert f"{DATA}/s3credentials" in said and reason in said and "header-secret" not in said
    assert bucket.log() == []


def test_keys_are_not_requested_without_encryption(bucket, hosts, login):
    env, _ = login("token")
    words = ["info", "-O", f"endpoint={bucket.endpoint},credential_url=http://plain.example.org/s3credentials", "s3://lp-prod-protected/s.zarr"]
    assert "not encrypted" in codecfs(*words, env=env | {"no_proxy": "127.0.0.1"}, code=32).stderr and hosts.seen == []
    assert "https://HOST/PATH" in codecfs("info", "-O", "credential_url=data.example.org", "s3://b/s.zarr", code=1).stderr
    for url in ("gs://bucket/s.zarr", "az://container/s.zarr"):
        refused = codecfs("info", "-O", f"credential_url={DATA}/s3credentials,account=name", url, code=None)
        assert refused.returncode != 0 and "credential_url= is for s3://" in refused.stderr
    both = codecfs("info", "-O", f"credential_url={DATA}/s3credentials,credential_process=false", "s3://bucket/s.zarr", code=None)
    assert both.returncode != 0 and "two places of the same keys" in both.stderr
