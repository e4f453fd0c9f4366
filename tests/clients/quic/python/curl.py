"""libcurl with HTTP/3 on ngtcp2, which runs one script of requests (tests/src/quic.rs).

The script is JSON on standard input; what happened is JSON on standard output. The exit status is 0
whatever the server did. Debian's curl has no HTTP/3; this libcurl is the one of curl_cffi.
"""

import hashlib
import json
import sys
import time

from curl_cffi import Curl, CurlError, CurlHttpVersion, CurlInfo, CurlOpt

# Milliseconds that one request may take. A test has three minutes in all.
REQUEST_MS = 60_000
PATTERN = bytes(range(251))


def pattern(count):
    return (PATTERN * (count // len(PATTERN) + 1))[:count]


class Response:
    def __init__(self):
        self.status, self.headers, self.size = 0, [], 0
        self.digest = hashlib.sha256()

    def header(self, line):
        text = line.decode("latin-1").strip()
        if text.startswith("HTTP/"):
            # Another response: the one before was an interim one.
            self.status, self.headers = int(text.split()[1]), []
        elif ":" in text:
            name, value = text.split(":", 1)
            self.headers.append((name.lower(), value.strip()))
        return len(line)

    def body(self, data):
        self.size += len(data)
        self.digest.update(data)
        return len(data)


def perform(curl, script, request):
    host, port = script["address"].rsplit(":", 1)
    name, response = script["server_name"], Response()
    body = None if request["body_bytes"] < 0 else pattern(request["body_bytes"])
    curl.reset()
    curl.setopt(CurlOpt.URL, f"https://{name}:{port}{request['path']}".encode())
    curl.setopt(CurlOpt.RESOLVE, [f"{name}:{port}:{host}"])
    curl.setopt(CurlOpt.HTTP_VERSION, CurlHttpVersion.V3ONLY)
    curl.setopt(CurlOpt.CAINFO, script["authority"].encode())
    curl.setopt(CurlOpt.TIMEOUT_MS, REQUEST_MS)
    curl.setopt(CurlOpt.CUSTOMREQUEST, request["method"].encode())
    if request["method"] == "HEAD":
        curl.setopt(CurlOpt.NOBODY, 1)
    fields = [f"{field}: {value}".encode() for field, value in request["headers"]]
    if body is not None:
        curl.setopt(CurlOpt.POST, 1)
        curl.setopt(CurlOpt.POSTFIELDSIZE_LARGE, len(body))
        curl.setopt(CurlOpt.POSTFIELDS, body)
        # What curl adds for forms.
        fields += [b"Content-Type:", b"Expect:"]
    if fields:
        curl.setopt(CurlOpt.HTTPHEADER, fields)
    curl.setopt(CurlOpt.HEADERFUNCTION, response.header)
    curl.setopt(CurlOpt.WRITEFUNCTION, response.body)
    try:
        curl.perform()
        complete = curl.getinfo(CurlInfo.HTTP_VERSION) == CurlHttpVersion.V3
    except CurlError as error:
        print(f"{request['method']} {request['path']}: {error}", file=sys.stderr)
        complete = False
    return {
        "status": response.status,
        "headers": response.headers,
        "body_bytes": response.size,
        "sha256": response.digest.hexdigest(),
        "sent_sha256": hashlib.sha256(body or b"").hexdigest(),
        "complete": complete,
        "reset": None,
    }


def connection(script, planned):
    if planned["resume"] != "none":
        sys.exit("curl cannot resume sessions here")
    curl, responses, started = Curl(), [], time.monotonic()
    for step in planned["steps"]:
        if step["do"] != "requests":
            sys.exit("curl cannot do " + step["do"])
        responses += [perform(curl, script, request) for request in step["requests"]]
    curl.close()
    return {
        "version": 1,
        "early_data": "none",
        "responses": responses,
        "milliseconds": round((time.monotonic() - started) * 1000),
    }


if __name__ == "__main__":
    read = json.load(sys.stdin)
    if read["version"] != 1 or read.keys() & {"alpn", "receive_window", "unknown_version_first", "also_version_2"}:
        sys.exit("curl has no such options")
    json.dump({"connections": [connection(read, one) for one in read["connections"]]}, sys.stdout)
