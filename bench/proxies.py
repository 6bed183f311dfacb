"""The proxy of lag_proxy/, built with go: it delays the requests to a server, and tells of each one."""
import json
import pathlib
import shutil
import subprocess
import urllib.parse
import urllib.request

from harness import Wrong, run

SOURCE = pathlib.Path(__file__).resolve().parent / "lag_proxy"


def build(folder):
    """The program. Raises Wrong where it cannot be built."""
    if shutil.which("go") is None:
        raise Wrong("the proxy needs go (not in PATH)")
    run("go", "build", "-o", folder / "lag_proxy", ".", cwd=SOURCE)
    return folder / "lag_proxy"


class Proxy:
    def __init__(self, program, endpoint):
        self.process = subprocess.Popen([str(program), urllib.parse.urlsplit(endpoint).netloc], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.endpoint = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def _get(self, what):
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.endpoint}/_lag/{what}") as answer:
            return answer.read()

    def delay(self, milliseconds):
        self._get(f"wait?us={round(milliseconds * 1000)}")

    def log(self):
        """The requests since the last call, as dictionaries with the fields of `entry` in main.go."""
        return [json.loads(line) for line in self._get("log").splitlines()]


def summary(requests):
    methods = {}
    for each in requests:
        methods[each["method"]] = methods.get(each["method"], 0) + 1
    return {"requests": len(requests), "bytes": sum(each["sent"] + each["received"] for each in requests), "methods": methods,
            "peak": max((each["in_flight"] for each in requests), default=0),
            "connections": sum(each["connected"] for each in requests),
            "failed": sum(each["status"] == 0 or each["status"] >= 500 for each in requests)}
