"""Datasets in Google Cloud Storage: against our own server, which has its XML API, checks tokens, counts every request and fails on demand.

What is read is compared with a mount of the same files in a directory. fake-gcs-server, which has little of the XML API, is an extra.
"""
import errno
import http.client
import json
import os
import pathlib
import shlex
import sys
import time
import urllib.parse

import pytest

from buckets import (BUCKET, STORES, WRITTEN_AT_ONCE, FakeS3, files_of, make_far, make_small_folder, make_v2, make_v3, write_from_four_mounts, check_a_lost_answer_counts_once,
                     check_faults_end_right, check_lists_of_several_pages, check_replaced_between_parts)
from fake import gcs
from running import codecfs, run
import servers

CLEARED = ("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "GCE_", "STORAGE_")


def environment(server, **more):
    """With the account of a machine; `more`: other variables instead, if there are any."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
    own = more or {"GCE_METADATA_HOST": server.endpoint.removeprefix("http://")}
    # No test may use the credentials of its user, or ask the machine that it runs on.
    return clean | {"HOME": "/nonexistent", "GCE_METADATA_HOST": "127.0.0.1:1", "STORAGE_EMULATOR_HOST": server.endpoint + gcs.PREFIX} | own


@pytest.fixture
def server():
    with FakeS3() as running:
        running.bucket(BUCKET)
        yield running


@pytest.fixture
def remote(server, mount):
    """A function remote(name, *options, **variables) that mounts gs://test-bucket/name."""
    return lambda name, *options, **more: mount(f"gs://{BUCKET}/{name}", *options, env=environment(server, **more))


@pytest.fixture
def stored(server, tmp_path):
    """A store in a directory, which is also in the bucket as v2.zarr."""
    make_v2(tmp_path / "v2.zarr", consolidated=True)
    server.put_tree(BUCKET, tmp_path / "v2.zarr", "v2.zarr/")
    server.control(clear_log=True)
    return tmp_path / "v2.zarr"


def info(server, name, *options, env=None, code=None):
    words = [word for option in options for word in ("-O", option)]
    return codecfs("info", "-O", "retry=1", *words, name if "://" in name else f"gs://{BUCKET}/{name}", environment=env or environment(server), code=code)


# --- reading


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_shows_what_a_mount_of_the_directory_shows(make, server, remote, mount, tmp_path):
    make(tmp_path / "local.zarr")
    server.put_tree(BUCKET, tmp_path / "local.zarr", "some where/é+.zarr/")
    expected = files_of(mount(tmp_path / "local.zarr", "ro").path)
    assert len(expected) > 3
    assert files_of(remote("some where/é+.zarr", "ro").path) == expected


def test_an_hdf5_file_and_a_zip_archive(server, remote, mount, tmp_path):
    make_far(tmp_path / "far.h5")
    make_v2(tmp_path / "zipped")
    run("zip", "-0qr", "../store.zip", ".", cwd=tmp_path / "zipped")
    for name in ("far.h5", "store.zip"):
        server.put(BUCKET, name, (tmp_path / name).read_bytes())
        assert files_of(remote(name).path) == files_of(mount(tmp_path / name, "ro").path)


def test_a_folder_of_a_bucket(server, remote, mount, tmp_path):
    root = tmp_path / "data"
    make_small_folder(root)
    server.put_tree(BUCKET, root, "some/data/")
    expected = files_of(mount(root, "ro").path)
    assert files_of(remote("some/data").path) == expected
    assert files_of(mount(f"gcs://{BUCKET}", env=environment(server)).path / "some/data") == expected


def test_lists_have_several_pages(server, remote, tmp_path):
    check_lists_of_several_pages(server, remote, tmp_path, "GcsList")


def test_an_object_that_is_replaced_between_its_parts_is_an_error(server, remote, tmp_path):
    check_replaced_between_parts(server, remote, tmp_path)


def test_faults_end_right(server, remote, mount, tmp_path):
    faults = [("error", {"status": 503}), ("reset", {}), ("short_body", {}), ("error", {"status": 429})]
    check_faults_end_right(server, remote, mount, tmp_path, faults, operation="Gcs*")


@pytest.fixture(scope="module")
def fake_gcs_server():
    if (reason := servers.unavailable("fake-gcs-server")) is not None:
        pytest.skip(reason)
    with servers.running("fake-gcs-server") as running:
        def ask(method, path, body):
            connection = http.client.HTTPConnection(running.endpoint.removeprefix("http://"), timeout=60)
            connection.request(method, path, body)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            connection.close()

        ask("POST", "/storage/v1/b", json.dumps({"name": BUCKET}))
        yield running.endpoint, lambda key, data: ask("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={urllib.parse.quote(key, safe='')}", data)


def test_files_in_a_server_that_others_made(fake_gcs_server, mount, tmp_path):
    """It answers 404 without NoSuchKey, which is an error and not an absent object, so only what is read without a question is there."""
    endpoint, put = fake_gcs_server
    env = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
    make_far(tmp_path / "far.h5")
    make_v2(tmp_path / "zipped")
    run("zip", "-0qr", "../store.zip", ".", cwd=tmp_path / "zipped")
    for name in ("far.h5", "store.zip"):
        put(f"some where/é+{name}", (tmp_path / name).read_bytes())
        there = mount(f"gs://{BUCKET}/some where/é+{name}", "anon", f"endpoint={endpoint}", env=env)
        assert files_of(there.path) == files_of(mount(tmp_path / name, "ro").path)
    missing = codecfs("info", "-O", f"anon,retry=1,endpoint={endpoint}", f"gs://{BUCKET}/missing.h5", environment=env, code=32)
    assert "only NoSuchKey" in missing.stderr and "no such object" not in missing.stderr


# --- what is absent

ANSWERS = [  # status, code, body, error of a read, the same with -o absent=403
    (404, "NoSuchKey", None, errno.ENOENT, errno.ENOENT),
    (404, "NoSuchBucket", None, errno.EIO, errno.EIO),
    (404, None, "", errno.EIO, errno.EIO),
    (404, None, "No such object: test-bucket/v2.zarr/a/0.0", errno.EIO, errno.EIO),
    (404, None, '{"error": {"code": 404, "errors": [{"reason": "notFound"}]}}', errno.EIO, errno.EIO),
    (404, None, "<html>404. That's an error.</html>", errno.EIO, errno.EIO),
    (404, "BlobNotFound", None, errno.EIO, errno.EIO),
    (410, "NoSuchKey", None, errno.EIO, errno.EIO),
    (400, "UserProjectMissing", None, errno.EIO, errno.EIO),
    (401, "AuthenticationRequired", None, errno.EACCES, errno.EACCES),
    (403, "AccessDenied", None, errno.EACCES, errno.ENOENT),
    (403, "NoSuchKey", None, errno.EACCES, errno.EACCES),
    (403, None, "<html>Forbidden</html>", errno.EACCES, errno.EACCES),
    (500, "InternalError", None, errno.EIO, errno.EIO),
]


@pytest.mark.parametrize("option", [None, "absent=403"])
@pytest.mark.parametrize("answer", ANSWERS, ids=[f"{status}-{code or body[:12]}" for status, code, body, *_ in ANSWERS])
def test_only_no_such_key_is_absent(answer, option, server, remote, stored):
    status, code, body, *errors = answer
    expected = errors[option is not None]
    there = remote("v2.zarr", "retry=1", *([option] if option else []))
    server.fault("error", status=status, key="*/a/0.0", method="GET", **({"code": code} if code else {"body": body}))
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").read_bytes()
    assert caught.value.errno == expected, there.messages()
    server.clear_faults()
    assert expected == errno.ENOENT or len((there.path / "a/0.0").read_bytes()) == 9600, "failures are not kept"


def test_a_missing_store_and_a_missing_bucket_say_so(server):
    missing = info(server, "none.zarr", code=32)
    assert f"gs://{BUCKET}/none.zarr: there is no such object, and no Zarr store" in missing.stderr
    assert "no such bucket" in info(server, "gs://no-such-bucket/x.zarr", code=32).stderr


# --- what authenticates

WAYS = ["metadata server", "service account", "file of gcloud", "GOOGLE_APPLICATION_CREDENTIALS of a user", "credential_process with a token",
        "credential_process with JSON"]


@pytest.fixture
def ways(server, tmp_path):
    """(variables, options) for each way to authenticate."""
    private, public = gcs.make_private_key(tmp_path)
    server.set(google_key=str(public))
    account, user = tmp_path / "account.json", tmp_path / "gcloud/application_default_credentials.json"
    account.write_text(json.dumps({"type": "service_account", "client_email": gcs.EMAIL, "private_key_id": gcs.KEY_ID, "private_key": private,
                                   "token_uri": server.endpoint + gcs.TOKENS}))
    user.parent.mkdir()
    user.write_text(json.dumps({"type": "authorized_user", "token_uri": server.endpoint + gcs.TOKENS, **gcs.USER}))
    program = tmp_path / "program"
    program.write_text("import json, sys, urllib.request\n"
                       f"request = urllib.request.Request('{server.endpoint}{gcs.MACHINE}', headers={{'Metadata-Flavor': 'Google'}})\n"
                       "answer = urllib.request.urlopen(request).read().decode()\n"
                       "print(answer if sys.argv[1:] else json.loads(answer)['access_token'])\n")
    command = f"credential_process={sys.executable} {shlex.quote(str(program))}"
    none = {"GCE_METADATA_HOST": "127.0.0.1:1"}
    return {
        "metadata server": ({}, []),
        "service account": ({"GOOGLE_APPLICATION_CREDENTIALS": str(account)}, []),
        "file of gcloud": ({"CLOUDSDK_CONFIG": str(user.parent)}, []),
        "GOOGLE_APPLICATION_CREDENTIALS of a user": ({"GOOGLE_APPLICATION_CREDENTIALS": str(user), "CLOUDSDK_CONFIG": "/nonexistent"}, []),
        "credential_process with a token": (none, [command]),
        "credential_process with JSON": (none, [command + " json"]),
    }


@pytest.mark.parametrize("way", WAYS)
def test_credentials(way, server, mount, remote, stored, ways):
    assert sorted(ways) == sorted(WAYS)
    variables, options = ways[way]
    there = remote("v2.zarr", *options, **variables)
    assert files_of(there.path / "a") == files_of(mount(stored, "ro").path / "a")
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.pwrite(fd, bytes(9600), 0)
    os.fsync(fd)
    os.close(fd)
    operations = server.summary()["operations"]
    assert operations["GcsPut"] >= 1
    is_machine = way == "metadata server" or way.startswith("credential_process")
    assert (operations.get("MachineToken", 0), operations.get("GoogleToken", 0)) == ((1, 0) if is_machine else (0, 1))


def test_googles_own_library_accepts_what_a_service_account_signs(server, stored, ways, tmp_path):
    try:
        jwt = servers.google_auth_module()
    except servers.NotHere as reason:
        pytest.skip(str(reason))
    info(server, "v2.zarr", env=environment(server, **ways["service account"][0]), code=0)
    assertion = server.server.gcs.assertion
    public = (tmp_path / "google-public.pem").read_text()
    claims = jwt.decode(assertion, certs=public, audience=server.endpoint + gcs.TOKENS)
    assert claims["iss"] == gcs.EMAIL and claims["scope"] == gcs.SCOPE and claims["exp"] - claims["iat"] == 3600
    with pytest.raises(ValueError, match="signature"):
        jwt.decode(assertion[:-8] + "AAAAAAAA", certs=public, audience=server.endpoint + gcs.TOKENS)


def test_a_wrong_key_is_refused(server, stored, ways, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    private, _ = gcs.make_private_key(other)
    file = tmp_path / "account.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"private_key": private}))
    refused = info(server, "v2.zarr", env=environment(server, GOOGLE_APPLICATION_CREDENTIALS=str(file)), code=32).stderr
    assert "Invalid JWT Signature" in refused and "PRIVATE" not in refused


def test_public_buckets_need_no_credentials(server, stored):
    server.bucket("public-bucket", public=True)
    server.put_tree("public-bucket", stored, "v2.zarr/")
    env = environment(server, GCE_METADATA_HOST="127.0.0.1:1")
    assert "float64" in info(server, "gs://public-bucket/v2.zarr", "anon", env=env, code=0).stdout
    refused = info(server, "v2.zarr", "anon", env=env, code=32).stderr
    assert "AccessDenied" in refused and "-o anon" in refused
    refused = info(server, "gs://public-bucket/v2.zarr", env=env, code=32).stderr
    assert "no credentials found" in refused and "-o anon" in refused


def test_a_machine_of_another_cloud_is_not_asked_for_a_token(server, stored):
    """Its metadata service has the same address, and answers anything."""
    server.set(metadata_flavor="Other")
    assert "no credentials found" in info(server, "v2.zarr", code=32).stderr
    assert not any(name.startswith("Gcs") for name in server.summary()["operations"])


def test_buckets_whose_readers_pay(server, stored):
    server.bucket(BUCKET, requester_pays=True)
    assert "UserProjectMissing" in info(server, "v2.zarr", code=32).stderr
    machine = {"GCE_METADATA_HOST": server.endpoint.removeprefix("http://")}
    assert "GOOGLE_CLOUD_PROJECT" in info(server, "v2.zarr", "requester_pays", env=environment(server, **machine), code=32).stderr
    paying = environment(server, **machine, GOOGLE_CLOUD_PROJECT="project")
    assert "float64" in info(server, "v2.zarr", "requester_pays", env=paying, code=0).stdout


def test_settings_that_cannot_be_right_say_so(server, ways, tmp_path):
    account = json.loads((tmp_path / "account.json").read_text())
    for text, said in [("no JSON of secret", "neither of a service account"), ("{}", "neither of a service account"),
                       (json.dumps(account | {"type": "external_account"}), "credential_process"),
                       (json.dumps(account | {"private_key": "secret"}), "no RSA key"),
                       (json.dumps({"type": "service_account", "private_key": "secret"}), '"client_email"'),
                       (json.dumps({"type": "authorized_user", "client_secret": "secret"}), '"refresh_token"'),
                       (json.dumps(account | {"token_uri": "file:///secret"}), "is no URL")]:
        (tmp_path / "wrong.json").write_text(text)
        refused = info(server, "v2.zarr", env=environment(server, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "wrong.json")), code=32).stderr
        assert said in refused and "secret" not in refused.replace('"client_secret"', ""), refused
    missing = info(server, "v2.zarr", env=environment(server, GOOGLE_APPLICATION_CREDENTIALS="/nonexistent/file.json"), code=32).stderr
    assert "/nonexistent/file.json" in missing
    assert "is not of the form" in info(server, "v2.zarr", "endpoint=https://user@host", code=32).stderr
    assert not any(name.startswith("Gcs") for name in server.summary()["operations"])


def test_tokens_that_expire_are_renewed(server, remote, stored):
    there = remote("v2.zarr")
    assert len((there.path / "a/2.1").read_bytes()) == 9600  # in no order, so that nothing is read ahead
    assert server.summary()["operations"]["MachineToken"] == 1
    server.expire_credentials()
    assert len((there.path / "a/0.2").read_bytes()) == 9600, "the server refuses the token before it ends"
    assert server.summary()["operations"]["MachineToken"] == 2
    server.set(lifetime=3)
    server.expire_credentials()
    assert len((there.path / "a/3.0").read_bytes()) == 9600
    server.control(clear_log=True)
    time.sleep(3.5)
    assert len((there.path / "a/1.2").read_bytes()) == 9600
    seen = server.summary()
    assert seen["operations"]["MachineToken"] >= 1 and "401" not in seen["statuses"], "it is renewed before it ends"


def test_tokens_without_an_end_are_used_until_they_are_refused(server, remote, stored, ways):
    variables, options = ways["credential_process with a token"]
    there = remote("v2.zarr", *options, **variables)
    assert len((there.path / "a/2.1").read_bytes()) == 9600
    server.expire_credentials()
    assert len((there.path / "a/0.2").read_bytes()) == 9600
    seen = server.summary()
    assert seen["operations"]["MachineToken"] == 2 and seen["statuses"]["401"] >= 1


def test_a_daemon_finds_a_relative_file_again(server, stored, ways, tmp_path):
    """It has changed its directory when it needs the next token."""
    server.set(lifetime=3)
    there = tmp_path / "there"
    there.mkdir()
    codecfs(f"gs://{BUCKET}/v2.zarr", there, environment=environment(server, GOOGLE_APPLICATION_CREDENTIALS="account.json"), cwd=tmp_path)
    try:
        assert len((there / "a/2.1").read_bytes()) == 9600
        server.control(clear_log=True)
        time.sleep(3.5)
        assert len((there / "a/0.2").read_bytes()) == 9600
        assert server.summary()["operations"]["GoogleToken"] >= 1
    finally:
        run("fusermount3", "-u", there)


def test_secrets_are_not_shown(server, remote, stored, ways, tmp_path):
    shown = []
    for way in ("service account", "file of gcloud"):
        variables, _ = ways[way]
        there = remote("v2.zarr", "loglevel=debug", "retry=1", **variables)
        server.fault("error", status=403, code="AccessDenied", key="*/0.0")
        with pytest.raises(PermissionError):
            (there.path / "a/0.0").read_bytes()
        server.clear_faults()
        shown += [there.log.read_text(), pathlib.Path("/proc/mounts").read_text(), (there.path / ".codecfs/stats").read_text(),
                  run("ps", "-ewwo", "args", code=None).stdout, codecfs("status", "--json", code=None).output]
    tokens = [each.token for each in server.server.credentials.known.values() if each.token]
    assert tokens and any("GET gs://" in text for text in shown)
    secrets = [*tokens, *gcs.USER.values(), server.server.gcs.assertion.rpartition(".")[2]]
    assert not [secret for secret in secrets for text in shown if secret in text and secret != "client"]


# --- writing


@pytest.mark.parametrize("make", [make_v2, make_v3, lambda path: make_v2(path, consolidated=True)], ids=["v2", "v3", "v2-consolidated"])
def test_what_is_written_is_read_back(make, server, mount, remote, tmp_path):
    make(tmp_path / "written.zarr")
    server.put_tree(BUCKET, tmp_path / "written.zarr", "written.zarr/")
    mounts = [remote("written.zarr"), mount(tmp_path / "written.zarr")]
    chunk, removed, size = ("a/1.1", "a/0.0", 9600) if make is not make_v3 else ("plain/c/0/0", "plain/c/1/0", 100)
    for each in mounts:
        path = each.path
        (path / chunk).write_bytes(bytes(range(size % 256)) * (size // (size % 256)))
        fd = os.open(path / chunk, os.O_WRONLY)
        os.pwrite(fd, b"part", 40)
        os.fsync(fd)
        os.close(fd)
        os.unlink(path / removed)
        (path / "g").mkdir()
        os.setxattr(path / "g", "user.title", b"new")
    for each in mounts:
        run("fusermount3", "-u", each.path)
        assert each.process.wait(60) == 0, each.log.read_text()
    assert files_of(remote("written.zarr", "ro").path) == files_of(mount(tmp_path / "written.zarr", "ro").path)


@pytest.mark.parametrize("make,name,size", WRITTEN_AT_ONCE.values(), ids=WRITTEN_AT_ONCE)
def test_four_mounts_write_parts_of_the_same_chunk(make, name, size, server, remote, tmp_path):
    make(tmp_path / "shared.zarr")
    server.put_tree(BUCKET, tmp_path / "shared.zarr", "shared.zarr/")
    write_from_four_mounts(lambda *options: remote("shared.zarr", *options), name, size)
    assert server.summary()["statuses"]["412"] > 0, "nothing was written at the same time"


def test_a_write_whose_answer_is_lost_counts_once(server, remote, stored):
    check_a_lost_answer_counts_once(server, remote, "GcsPut")


@pytest.mark.parametrize("status,code,expected", [(403, "AccessDenied", errno.EACCES), (404, "NoSuchBucket", errno.EIO), (403, "RetentionPolicyNotMet", errno.EACCES)])
def test_what_cannot_be_stored_is_an_error(status, code, expected, server, remote, stored):
    there = remote("v2.zarr", "retry=1")
    server.fault("error", status=status, code=code, method=["PUT", "DELETE"])
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.pwrite(fd, bytes(9600), 0)
    with pytest.raises(OSError) as caught:
        os.fsync(fd)
    assert caught.value.errno == expected
    server.clear_faults()
    os.fsync(fd)
    os.close(fd)


def test_a_store_is_made_and_converted(server, remote, tmp_path):
    make_v2(tmp_path / "v2.zarr")
    codecfs("convert", tmp_path / "v2.zarr", f"gs://{BUCKET}/converted.zarr", environment=environment(server))
    assert "same content" in codecfs("compare", f"gs://{BUCKET}/converted.zarr", tmp_path / "v2.zarr", environment=environment(server)).stdout
    made = remote("new.zarr", "create=zarr3,view=decoded3")
    (made.path / "g").mkdir()
    run("fusermount3", "-u", made.path)
    assert made.process.wait(60) == 0, made.log.read_text()
    assert (remote("new.zarr", "ro").path / "g").is_dir()
