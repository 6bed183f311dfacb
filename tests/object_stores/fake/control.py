"""/_control: what tests change and ask while the server runs. README.md describes the messages."""
import json
import urllib.parse

from . import conditions
from .credentials import Credential, as_json, text
from .faults import bytes_of

KEYS = {"set", "seed", "buckets", "put", "delete", "faults", "clear_faults", "clear_log", "expire_credentials", "credentials", "reset"}


def listed(value):
    return value if isinstance(value, list) else [value]


class Control:
    def __init__(self, server):
        self.server = server

    def answer(self, request):
        where = request.raw_path.removeprefix("/_control").strip("/")
        try:
            if where.startswith("object/") and request.method in ("PUT", "DELETE"):
                bucket, _, key = urllib.parse.unquote(where.removeprefix("object/")).partition("/")
                storage = self.server.s3.make_bucket(bucket).storage
                made = storage.put(key, request.body) if request.method == "PUT" else storage.delete(key)
                return as_json({"etag": made.etag if made else None})
            if request.method == "POST" and not where:
                self.apply(json.loads(request.body or b"{}"))
                return as_json(self.state())
            if request.method == "GET":
                return self.told(where, request.argument("reset") is not None)
        except (ValueError, KeyError, TypeError) as error:
            return text(f"{type(error).__name__}: {error}\n", 400)
        return text("no such control\n", 404)

    def told(self, where, is_reset):
        answers = {"": self.state, "summary": self.server.log.summary,
                   "log": lambda: {"summary": self.server.log.summary(), "requests": self.server.log.listed()}}
        if where not in answers:
            return text("no such control\n", 404)
        answer = answers[where]()
        if is_reset:
            self.server.log.reset()
        return as_json(answer)

    def state(self):
        buckets = {name: {"public": bucket.public, "listable": bucket.listable, "requester_pays": bucket.requester_pays, "region": bucket.region}
                   for name, bucket in self.server.s3.buckets.items()}
        return {"settings": self.server.settings, "buckets": buckets, "faults": self.server.faults.listed(), "now": self.server.now()}

    def apply(self, message):
        server, unknown = self.server, set(message) - KEYS
        if unknown:
            raise ValueError(f"no such control: {sorted(unknown)}")
        if message.get("reset"):
            server.settings.update(server.defaults)
            server.faults.clear()
            server.log.reset()
        self.set(message.get("set", {}))
        if "seed" in message:
            server.faults.seed(message["seed"])
        for name, options in message.get("buckets", {}).items():
            server.s3.make_bucket(name, **options)
        for each in listed(message.get("put", [])):
            server.s3.make_bucket(each["bucket"]).storage.put(each["key"], bytes_of(each), each.get("headers", {}).items(), each.get("etag"),
                                                              modified=each.get("modified"))
        for each in listed(message.get("delete", [])):
            server.s3.make_bucket(each["bucket"]).storage.delete(each["key"])
        for each in listed(message.get("credentials", [])):
            server.credentials.add(Credential(**each))
        if message.get("expire_credentials"):
            which = message["expire_credentials"]
            server.credentials.expire(server.now(), None if which is True else which)
        if message.get("clear_faults"):
            server.faults.clear(None if message["clear_faults"] is True else message["clear_faults"])
        for rule in listed(message.get("faults", [])):
            server.faults.add(rule)
        if message.get("clear_log"):
            server.log.reset()

    def set(self, values):
        settings = self.server.settings
        for name, value in values.items():
            if name not in settings:
                raise ValueError(f"no such setting: {name}")
            if name == "conditions" and value not in conditions.MODES:
                raise ValueError(f"conditions is one of {conditions.MODES}")
            if value is not None and type(settings[name]) in (int, float, bool) and not isinstance(value, (int, float)):
                raise ValueError(f"{name} is a number")
        settings.update(values)
