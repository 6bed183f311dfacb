"""What was asked, exactly. A request is complete here before its client has the last byte, so a client may count at once."""
import threading
import time


class Log:
    def __init__(self):
        self.lock = threading.Lock()
        self.in_flight = 0
        self.reset()

    def reset(self):
        with self.lock:
            self.entries, self.began, self.max_in_flight = [], time.monotonic(), self.in_flight

    def begin(self, request, operation, bucket, key):
        entry = {"connection": request.connection, "method": request.method, "path": request.raw_path, "query": dict(request.query),
                 "operation": operation, "bucket": bucket, "key": key, "range": request.header("range"),
                 "if_match": request.header("if-match"), "if_none_match": request.header("if-none-match"),
                 "signed": request.header("authorization") is not None, "received": len(request.body),
                 "status": None, "bytes": 0, "faults": [], "seconds": None}
        with self.lock:
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
            entry["number"], entry["at"], entry["in_flight"] = len(self.entries) + 1, time.monotonic() - self.began, self.in_flight
            self.entries.append(entry)
        return entry

    def end(self, entry):
        with self.lock:
            if entry["seconds"] is None:
                entry["seconds"] = max(0.0, time.monotonic() - self.began - entry["at"])
                self.in_flight -= 1

    def listed(self):
        with self.lock:
            return [dict(entry) for entry in self.entries]

    def summary(self):
        with self.lock:
            operations, statuses = {}, {}
            for entry in self.entries:
                operations[entry["operation"]] = operations.get(entry["operation"], 0) + 1
                statuses[str(entry["status"])] = statuses.get(str(entry["status"]), 0) + 1
            return {"requests": len(self.entries), "bytes": sum(entry["bytes"] for entry in self.entries),
                    "received": sum(entry["received"] for entry in self.entries), "operations": operations, "statuses": statuses,
                    "connections": len({entry["connection"] for entry in self.entries}), "in_flight": self.in_flight,
                    "max_in_flight": self.max_in_flight}
