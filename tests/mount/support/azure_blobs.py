"""What the tests of Azure Blob Storage share: mounts of what is in our own server as blobs, and clients of an account elsewhere."""
import os

from fake import azure

CONTAINER = "test-bucket"
CLEARED = ("AWS_", "AZURE_", "IDENTITY_")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}


def endpoint_of(server):
    return server.endpoint + azure.PREFIX


def connection_string(server, key=azure.KEY):
    return f"DefaultEndpointsProtocol=http;AccountName={azure.ACCOUNT};AccountKey={key};BlobEndpoint={endpoint_of(server)};"


def environment(server, **more):
    """With the key of the account; `more`: other variables instead, if there are any."""
    own = more or {"AZURE_STORAGE_CONNECTION_STRING": connection_string(server)}
    # No test may ask the machine that it runs on for an identity.
    return clean_environment() | {"AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://127.0.0.1:1"} | own
