"""Datasets in Azure Blob Storage: against our own server, which checks signatures by the documented algorithm, counts every request and
fails on demand; and against Azurite, which is skipped with the reason where it is not installed (scripts/object-store-servers).

What is read is compared with a mount of the same files in a directory.
"""
import datetime
import errno
import os
import pathlib
import shlex
import sys
import time

import h5py
import numpy as np
import pytest

from azure_blobs import CONTAINER, connection_string, endpoint_of, environment
from buckets import (FAR_DATA, STORES, WRITTEN_AT_ONCE, FakeS3, files_of, make_far, make_small_folder, make_v2, make_v3, write_from_four_mounts, check_a_lost_answer_counts_once,
                     check_faults_end_right, check_lists_of_several_pages, check_replaced_between_parts)
from fake import azure
from running import codecfs, run
import servers


class Azurite:
    """The emulator of Microsoft in the place of our own server, for tests that need nothing of ours but put_tree()."""

    def __init__(self, server):
        account, key = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        self.connection = f"AccountName={account};AccountKey={key};BlobEndpoint={server.endpoint}/{account};"
        service = servers.azure_blob_module().BlobServiceClient.from_connection_string(self.connection, api_version="2023-11-03")
        self.client = service.get_container_client(CONTAINER)
        self.client.create_container()

    def put(self, _, key, data):
        self.client.upload_blob(key, data, overwrite=True)

    def put_tree(self, bucket, folder, prefix=""):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + str(path.relative_to(folder)), path.read_bytes())


@pytest.fixture(scope="module")
def azurite():
    reason = servers.unavailable("azurite")
    if reason is None:
        try:
            servers.azure_blob_module()
        except servers.NotHere as error:
            reason = str(error)
    if reason is not None:
        pytest.skip(reason)
    with servers.running("azurite") as running:
        yield Azurite(running)


@pytest.fixture
def server():
    with FakeS3() as running:
        running.bucket(CONTAINER)
        yield running


@pytest.fixture(params=["fake", "azurite"])
def either(request):
    """(our own server or Azurite, the environment with its key)."""
    there = request.getfixturevalue("server" if request.param == "fake" else "azurite")
    text = connection_string(there) if request.param == "fake" else there.connection
    return there, environment(there, AZURE_STORAGE_CONNECTION_STRING=text)


@pytest.fixture
def remote(server, mount):
    """A function remote(name, *options, **variables) that mounts az://test-bucket/name of our own server."""
    return lambda name, *options, **more: mount(f"az://{CONTAINER}/{name}", *options, env=environment(server, **more))


def info(server, name, *options, env=None, code=None):
    words = [word for option in options for word in ("-O", option)]
    return codecfs("info", "-O", "retry=1", *words, name if "://" in name else f"az://{CONTAINER}/{name}", environment=env or environment(server), code=code)


# --- reading


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_shows_what_a_mount_of_the_directory_shows(make, either, mount, tmp_path, request):
    there, env = either
    make(tmp_path / "local.zarr")
    prefix = f"some where/{request.node.callspec.id}+é.zarr"
    there.put_tree(CONTAINER, tmp_path / "local.zarr", prefix + "/")
    expected = files_of(mount(tmp_path / "local.zarr", "ro").path)
    assert len(expected) > 3
    assert files_of(mount(f"az://{CONTAINER}/{prefix}", "ro", env=env).path) == expected


def test_an_hdf5_file_and_a_zip_archive(either, mount, tmp_path):
    there, env = either
    make_far(tmp_path / "far.h5")
    make_v2(tmp_path / "zipped")
    run("zip", "-0qr", "../store.zip", ".", cwd=tmp_path / "zipped")
    for name in ("far.h5", "store.zip"):
        there.put(CONTAINER, name, (tmp_path / name).read_bytes())
        assert files_of(mount(f"az://{CONTAINER}/{name}", env=env).path) == files_of(mount(tmp_path / name, "ro").path)
    with h5py.File(tmp_path / "far.h5") as file:
        np.testing.assert_array_equal(file["v"][:], FAR_DATA)


def test_a_folder_of_a_container(either, mount, tmp_path):
    there, env = either
    root = tmp_path / "data"
    make_small_folder(root)
    there.put_tree(CONTAINER, root, "some/data/")
    expected = files_of(mount(root, "ro").path)
    assert files_of(mount(f"az://{CONTAINER}/some/data", env=env).path) == expected
    whole = mount(f"az://{CONTAINER}", env=env)
    assert files_of(whole.path / "some/data") == expected


def test_lists_have_several_pages(server, remote, tmp_path):
    check_lists_of_several_pages(server, remote, tmp_path, "ListBlobs")


def test_an_object_that_is_replaced_between_its_parts_is_an_error(server, remote, tmp_path):
    check_replaced_between_parts(server, remote, tmp_path)


def test_faults_end_right(server, remote, mount, tmp_path):
    busy = {"status": 503, "headers": {"x-ms-error-code": "ServerBusy"}}
    check_faults_end_right(server, remote, mount, tmp_path, [("error", busy), ("reset", {}), ("short_body", {}), ("error", {"status": 500})])


# --- what is absent

ANSWERS = [  # status, x-ms-error-code, body, error of a read
    (404, "BlobNotFound", "", errno.ENOENT),
    (404, None, "<Error><Code>BlobNotFound</Code></Error>", errno.EIO),
    (404, None, "", errno.EIO),
    (404, None, "<html>404 Not Found</html>", errno.EIO),
    (404, None, "<Error><Code>NoSuchKey</Code></Error>", errno.EIO),
    (404, "ResourceNotFound", "", errno.EIO),
    (404, "ContainerNotFound", "", errno.EIO),
    (404, "BlobNotFoundXyz", "", errno.EIO),
    (410, "BlobNotFound", "", errno.EIO),
    (409, "BlobArchived", "", errno.EIO),
    (409, "BlobNotFound", "", errno.EIO),
    (409, "PublicAccessNotPermitted", "", errno.EACCES),
    (412, "LeaseIdMissing", "", errno.EIO),
    (400, "InvalidHeaderValue", "", errno.EIO),
    (401, "InvalidAuthenticationInfo", "", errno.EACCES),
    (403, "AuthenticationFailed", "", errno.EACCES),
    (403, "AuthorizationFailure", "", errno.EACCES),
    (403, "BlobNotFound", "", errno.EACCES),
    (403, None, "<html>Forbidden</html>", errno.EACCES),
    (500, "InternalError", "", errno.EIO),
]


@pytest.mark.parametrize("status,code,body,expected", ANSWERS, ids=[f"{status}-{code or body[:12]}" for status, code, body, _ in ANSWERS])
def test_only_blob_not_found_is_absent(status, code, body, expected, server, remote, tmp_path):
    make_v2(tmp_path / "v2.zarr", consolidated=True)
    server.put_tree(CONTAINER, tmp_path / "v2.zarr", "v2.zarr/")
    there = remote("v2.zarr", "retry=1", "absent=403")
    headers = {"x-ms-error-code": code} if code else {}
    server.fault("error", status=status, headers=headers, body=body, key="*/a/0.0", method="GET")
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").read_bytes()
    assert caught.value.errno == expected, there.messages()
    server.clear_faults()
    assert expected == errno.ENOENT or len((there.path / "a/0.0").read_bytes()) == 9600, "failures are not kept"


def test_a_missing_store_and_a_missing_container_say_so(either, server):
    _, env = either
    missing = info(server, "none.zarr", env=env, code=32)
    assert f"az://{CONTAINER}/none.zarr: there is no such object, and no Zarr store" in missing.stderr
    assert "no such bucket" in info(server, "az://no-such-container/x.zarr", env=env, code=32).stderr


def test_directories_of_hierarchical_namespaces_are_no_objects(server, mount, remote, tmp_path):
    """A blob for each directory, marked by a header."""
    make_v2(tmp_path / "v2.zarr", "/")
    server.put_tree(CONTAINER, tmp_path / "v2.zarr", "data/v2.zarr/")
    marks = ["data", "data/v2.zarr", *(f"data/v2.zarr/{path.relative_to(tmp_path / 'v2.zarr')}" for path in (tmp_path / "v2.zarr").rglob("*") if path.is_dir())]
    server.control(put=[{"bucket": CONTAINER, "key": key, "text": "", "headers": {"x-ms-meta-hdi_isfolder": "true"}} for key in marks])
    expected = files_of(mount(tmp_path / "v2.zarr", "ro").path)
    assert files_of(remote("data/v2.zarr").path) == expected
    assert files_of(remote("data").path / "v2.zarr") == expected


# --- what authenticates


def ways(server, tmp_path):
    """(variables, options) for each way to authenticate."""
    token = tmp_path / "token"
    token.write_text("web-identity-token\n")
    at_fake = {"AZURE_STORAGE_ACCOUNT": azure.ACCOUNT, "AZURE_AUTHORITY_HOST": server.endpoint}
    endpoint = f"endpoint={endpoint_of(server)}"
    application = {"AZURE_CLIENT_ID": azure.CLIENT, "AZURE_TENANT_ID": azure.TENANT}
    sas = azure.make_sas(CONTAINER, 3600)
    program = tmp_path / "program"
    program.write_text(f"import json, sys\nsas = {sas!r}\nprint(json.dumps({{'token': sas, 'msft:expiry': '2099-01-01T00:00:00Z'}}) if sys.argv[1:] else sas)\n")
    command = f"credential_process={sys.executable} {shlex.quote(str(program))}"
    identity = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": server.endpoint}
    az = tmp_path / "az"
    az.write_text("import json, urllib.request\n"
                  f"url = '{server.endpoint}/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F'\n"
                  "answer = json.load(urllib.request.urlopen(urllib.request.Request(url, headers={'Metadata': 'true'})))\n"
                  "print(json.dumps({'accessToken': answer['access_token'], 'expires_on': int(answer['expires_on']), 'tokenType': 'Bearer'}))\n")
    return {
        "key in a connection string": ({"AZURE_STORAGE_CONNECTION_STRING": connection_string(server)}, []),
        "AZURE_STORAGE_KEY": (at_fake | {"AZURE_STORAGE_KEY": azure.KEY}, [endpoint]),
        "-o account=": ({"AZURE_STORAGE_KEY": azure.KEY}, [endpoint, f"account={azure.ACCOUNT}"]),
        "AZURE_STORAGE_SAS_TOKEN": (at_fake | {"AZURE_STORAGE_SAS_TOKEN": "?" + sas}, [endpoint]),
        "signature in a connection string": ({"AZURE_STORAGE_CONNECTION_STRING": f"AccountName={azure.ACCOUNT};BlobEndpoint={endpoint_of(server)};"
                                              f"SharedAccessSignature={sas}"}, []),
        "credential_process with text": (at_fake, [endpoint, command]),
        "credential_process with JSON": (at_fake, [endpoint, command + " json"]),
        "credential_process as az prints it": (at_fake, [endpoint, f"credential_process={sys.executable} {shlex.quote(str(az))}"]),
        "workload identity": (at_fake | application | {"AZURE_FEDERATED_TOKEN_FILE": str(token)}, [endpoint]),
        "client secret": (at_fake | application | {"AZURE_CLIENT_SECRET": azure.CLIENT_SECRET}, [endpoint]),
        "managed identity": (at_fake | identity, [endpoint]),
        "one of several managed identities": (at_fake | identity | {"AZURE_CLIENT_ID": azure.CLIENT}, [endpoint]),
    }


WAYS = ["key in a connection string", "AZURE_STORAGE_KEY", "-o account=", "AZURE_STORAGE_SAS_TOKEN", "signature in a connection string",
        "credential_process with text", "credential_process with JSON", "credential_process as az prints it", "workload identity", "client secret", "managed identity",
        "one of several managed identities"]


@pytest.fixture
def stored(server, tmp_path):
    """The contents of a store, which is also in the container as v2.zarr."""
    make_v2(tmp_path / "v2.zarr", consolidated=True)
    server.put_tree(CONTAINER, tmp_path / "v2.zarr", "v2.zarr/")
    server.control(clear_log=True)
    return tmp_path / "v2.zarr"


@pytest.mark.parametrize("way", WAYS)
def test_credentials(way, server, mount, stored, tmp_path):
    all_ways = ways(server, tmp_path)
    assert sorted(all_ways) == sorted(WAYS)
    variables, options = all_ways[way]
    there = mount(f"az://{CONTAINER}/v2.zarr", *options, env=environment(server, **variables))
    assert files_of(there.path / "a") == files_of(mount(stored, "ro").path / "a")
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.pwrite(fd, bytes(9600), 0)
    os.fsync(fd)
    os.close(fd)
    operations = server.summary()["operations"]
    assert operations["PutBlob"] >= 1
    assert operations.get("EntraToken", 0) == (1 if way in ("workload identity", "client secret") else 0)
    assert operations.get("IdentityToken", 0) == (1 if "managed" in way or "as az" in way else 0)


@pytest.mark.parametrize("url", ["abfss://{}@{}.dfs.core.windows.net/v2.zarr", "abfs://{}@{}.dfs.core.windows.net/v2.zarr",
                                 "abfs://{}@{}.blob.core.windows.net/v2.zarr", "az://{}/v2.zarr", "abfs://{}/v2.zarr"])
def test_urls(url, server, stored):
    env = environment(server, AZURE_STORAGE_KEY=azure.KEY, AZURE_STORAGE_ACCOUNT=azure.ACCOUNT if "@" not in url else "")
    assert "float64" in info(server, url.format(CONTAINER, azure.ACCOUNT), f"endpoint={endpoint_of(server)}", env=env, code=0).stdout


def test_keys_of_another_account_are_not_used(server, stored):
    url = f"abfss://{CONTAINER}@{azure.ACCOUNT}.dfs.core.windows.net/v2.zarr"
    for variables in ({"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": azure.KEY},
                      {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": azure.make_sas(CONTAINER, 3600)},
                      {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=other;AccountKey={azure.KEY}"}):
        refused = info(server, url, f"endpoint={endpoint_of(server)}", env=environment(server, **variables), code=32)
        assert "no credentials found" in refused.stderr
    assert server.summary()["requests"] == 0


def test_public_containers_need_no_credentials(server, stored):
    server.bucket("public-container", public=True)
    server.put_tree("public-container", stored, "v2.zarr/")
    env = environment(server, AZURE_STORAGE_ACCOUNT=azure.ACCOUNT)
    options = ["anon", f"endpoint={endpoint_of(server)}"]
    assert "float64" in info(server, "az://public-container/v2.zarr", *options, env=env, code=0).stdout
    refused = info(server, "v2.zarr", *options, env=env, code=32).stderr
    assert "ResourceNotFound" in refused and "only BlobNotFound" in refused and "no Zarr store" not in refused
    server.set(public_access=False)
    refused = info(server, "az://public-container/v2.zarr", *options, env=env, code=32).stderr
    assert "PublicAccessNotPermitted" in refused and "-o anon" in refused


def test_a_wrong_key_is_refused(either, tmp_path):
    there, env = either
    make_v2(tmp_path / "key.zarr")
    there.put_tree(CONTAINER, tmp_path / "key.zarr", "key.zarr/")
    text = env["AZURE_STORAGE_CONNECTION_STRING"]
    wrong = ";".join("AccountKey=d3Jvbmc=" if part.startswith("AccountKey=") else part for part in text.split(";"))
    refused = info(there, "key.zarr", env=env | {"AZURE_STORAGE_CONNECTION_STRING": wrong}, code=32)
    assert "403" in refused.stderr and "d3Jvbmc" not in refused.stderr


def test_a_signature_that_microsofts_client_makes(azurite, mount, tmp_path):
    make_v2(tmp_path / "signed.zarr", consolidated=True)
    azurite.put_tree(CONTAINER, tmp_path / "signed.zarr", "signed.zarr/")
    account = azurite.client.credential
    sas = servers.azure_blob_module().generate_container_sas(account.account_name, CONTAINER, account_key=account.account_key, permission="rwdl",
                                                            expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1))
    variables = {"AZURE_STORAGE_ACCOUNT": account.account_name, "AZURE_STORAGE_SAS_TOKEN": sas}
    env = environment(None, **variables)
    endpoint = azurite.client.primary_endpoint.rpartition("/")[0]
    there = mount(f"az://{CONTAINER}/signed.zarr", f"endpoint={endpoint}", env=env)
    assert files_of(there.path / "a") == files_of(mount(tmp_path / "signed.zarr", "ro").path / "a")
    wrong = environment(None, **variables | {"AZURE_STORAGE_SAS_TOKEN": sas.replace("sig=", "sig=A")})
    assert "status 403" in info(None, "signed.zarr", f"endpoint={endpoint}", env=wrong, code=32).stderr


def test_settings_that_cannot_be_right_say_so(server, tmp_path):
    for variables, options, said in [
            ({"AZURE_STORAGE_KEY": azure.KEY}, [], "AZURE_STORAGE_ACCOUNT"),
            ({"AZURE_STORAGE_ACCOUNT": "Not An Account"}, [], "no name of a storage account"),
            ({"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": "se cret"}, [], "not in base64"),
            ({"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_SAS_TOKEN": "se cret"}, [], "no shared access signature"),
            ({"AZURE_STORAGE_ACCOUNT": "account", "AZURE_CLIENT_SECRET": "secret"}, [], "AZURE_CLIENT_ID"),
            ({"AZURE_STORAGE_ACCOUNT": "account"}, ["endpoint=https://user:secret@host"], "is not of the form"),
            ({"AZURE_STORAGE_ACCOUNT": "account"}, ["credential_process=false"], "exit status 1"),
            ({"AZURE_STORAGE_ACCOUNT": "account"}, ["credential_process=echo secret"], "no shared access signature"),
            ({"AZURE_STORAGE_ACCOUNT": azure.ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": azure.make_sas(CONTAINER, -60)}, [], "has expired")]:
        refused = info(server, "v2.zarr", *options, env=environment(server, **variables), code=32)
        assert said in refused.stderr and "secret" not in refused.stderr, refused.stderr
    assert server.summary()["requests"] == 0


def test_tokens_that_expire_are_renewed(server, mount, stored):
    variables = {"AZURE_STORAGE_ACCOUNT": azure.ACCOUNT, "AZURE_POD_IDENTITY_AUTHORITY_HOST": server.endpoint}
    there = mount(f"az://{CONTAINER}/v2.zarr", f"endpoint={endpoint_of(server)}", env=environment(server, **variables))
    assert len((there.path / "a/2.1").read_bytes()) == 9600  # in no order, so that nothing is read ahead
    assert server.summary()["operations"]["IdentityToken"] == 1
    server.expire_credentials()
    assert len((there.path / "a/0.2").read_bytes()) == 9600, "the server refuses the token before it ends"
    assert server.summary()["operations"]["IdentityToken"] == 2
    server.set(lifetime=3)
    server.expire_credentials()
    assert len((there.path / "a/3.0").read_bytes()) == 9600
    server.control(clear_log=True)
    time.sleep(3.5)
    assert len((there.path / "a/1.2").read_bytes()) == 9600
    seen = server.summary()
    assert seen["operations"]["IdentityToken"] >= 1 and "401" not in seen["statuses"], "it is renewed before it ends"


def test_signatures_of_a_program_are_renewed(server, mount, stored, tmp_path):
    program, calls = tmp_path / "program", tmp_path / "calls"
    folder = pathlib.Path(azure.__file__).parents[1]
    program.write_text(f"import sys\nsys.path.append({str(folder)!r})\nfrom fake import azure\nopen({str(calls)!r}, 'a').write('x')\n"
                       f"print(azure.make_sas({CONTAINER!r}, 4))\n")
    there = mount(f"az://{CONTAINER}/v2.zarr", f"endpoint={endpoint_of(server)}", f"credential_process={sys.executable} -B {shlex.quote(str(program))}",
                  env=environment(server, AZURE_STORAGE_ACCOUNT=azure.ACCOUNT))
    assert len((there.path / "a/2.1").read_bytes()) == 9600
    server.control(clear_log=True)
    time.sleep(4.5)
    before = len(calls.read_text())
    assert len((there.path / "a/0.2").read_bytes()) == 9600
    assert len(calls.read_text()) > before and "403" not in server.summary()["statuses"]


def test_the_clock_of_this_machine_may_be_wrong(server, remote, stored):
    server.set(clock_offset=7200)
    there = remote("v2.zarr")
    assert len((there.path / "a/0.0").read_bytes()) == 9600
    assert "the clock of this machine differs by" in there.messages()


def test_secrets_are_not_shown(server, mount, stored, tmp_path):
    sas = azure.make_sas(CONTAINER, 3600)
    secrets = [sas, sas.rpartition("sig=")[2], azure.KEY]
    shown = []
    for variables in ({"AZURE_STORAGE_SAS_TOKEN": sas}, {"AZURE_STORAGE_KEY": azure.KEY}):
        there = mount(f"az://{CONTAINER}/v2.zarr", f"endpoint={endpoint_of(server)}", "loglevel=debug", "retry=1",
                      env=environment(server, AZURE_STORAGE_ACCOUNT=azure.ACCOUNT, **variables))
        server.fault("error", status=403, headers={"x-ms-error-code": "AuthenticationFailed"}, key="*/0.0")
        with pytest.raises(PermissionError):
            (there.path / "a/0.0").read_bytes()
        server.clear_faults()
        shown += [there.log.read_text(), pathlib.Path("/proc/mounts").read_text(), (there.path / ".codecfs/stats").read_text(),
                  os.getxattr(there.path / "a", "user._Error").decode() if "user._Error" in os.listxattr(there.path / "a") else "",
                  run("ps", "-ewwo", "args", code=None).stdout, codecfs("status", "--json", code=None).output]
    assert any("GET az://" in text for text in shown)
    assert not [secret for secret in secrets for text in shown if secret in text]


# --- writing


@pytest.mark.parametrize("make", [make_v2, make_v3, lambda path: make_v2(path, consolidated=True)], ids=["v2", "v3", "v2-consolidated"])
def test_what_is_written_is_read_back(make, either, mount, tmp_path, request):
    there, env = either
    name = f"written-{request.node.callspec.id}.zarr"
    make(tmp_path / name)
    there.put_tree(CONTAINER, tmp_path / name, name + "/")
    mounts = [mount(f"az://{CONTAINER}/{name}", env=env), mount(tmp_path / name)]
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
    assert files_of(mount(f"az://{CONTAINER}/{name}", "ro", env=env).path) == files_of(mount(tmp_path / name, "ro").path)


@pytest.mark.parametrize("make,name,size", WRITTEN_AT_ONCE.values(), ids=WRITTEN_AT_ONCE)
def test_four_mounts_write_parts_of_the_same_chunk(make, name, size, either, mount, tmp_path, request):
    there, env = either
    prefix = f"shared {request.node.callspec.id}.zarr"
    make(tmp_path / "local.zarr")
    there.put_tree(CONTAINER, tmp_path / "local.zarr", prefix + "/")
    write_from_four_mounts(lambda *options: mount(f"az://{CONTAINER}/{prefix}", *options, env=env), name, size)


def test_a_write_whose_answer_is_lost_counts_once(server, remote, stored):
    check_a_lost_answer_counts_once(server, remote, "PutBlob")


@pytest.mark.parametrize("status,code,expected", [(403, "AuthorizationPermissionMismatch", errno.EACCES), (412, "LeaseIdMissing", errno.EIO),
                                                  (409, "BlobImmutableDueToPolicy", errno.EIO), (404, "ContainerNotFound", errno.EIO),
                                                  (404, "ResourceNotFound", errno.EIO)])
def test_what_cannot_be_stored_is_an_error(status, code, expected, server, remote, stored):
    there = remote("v2.zarr", "retry=1")
    server.fault("error", status=status, headers={"x-ms-error-code": code}, body="", method=["PUT", "DELETE"], name="refused")
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.pwrite(fd, bytes(9600), 0)
    with pytest.raises(OSError) as caught:
        os.fsync(fd)
    assert caught.value.errno == expected
    server.clear_faults()
    os.fsync(fd)
    os.close(fd)


def test_a_store_is_made_and_converted(either, mount, tmp_path, request):
    there, env = either
    make_v2(tmp_path / "v2.zarr")
    name = request.node.callspec.id
    url = f"az://{CONTAINER}/converted-{name}.zarr"
    codecfs("convert", tmp_path / "v2.zarr", url, environment=env)
    assert "same content" in codecfs("compare", url, tmp_path / "v2.zarr", environment=env).stdout
    made = mount(f"az://{CONTAINER}/new-{name}.zarr", "create=zarr3,view=decoded3", env=env)
    (made.path / "g").mkdir()
    run("fusermount3", "-u", made.path)
    assert made.process.wait(60) == 0, made.log.read_text()
    assert (mount(f"az://{CONTAINER}/new-{name}.zarr", "ro", env=env).path / "g").is_dir()
