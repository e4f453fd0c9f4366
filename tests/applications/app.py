"""What the tests of uwsgi_pass ask uwsgi for, as a WSGI application."""

import hashlib
import json
from urllib.parse import parse_qs


def block(count):
    """The same bytes wherever they are made: position n holds n * 7 + n / 256."""
    base = bytes((n * 7 + n // 256) & 255 for n in range(65536))
    return (base * (count // 65536 + 1))[:count]


def application(environ, start_response):
    query = parse_qs(environ.get("QUERY_STRING", ""))

    def arg(name, default=""):
        return query.get(name, [default])[0]

    action = arg("do")
    status, headers, body = "200 OK", [("Content-Type", "text/plain")], b""
    if action == "parameters":
        names = sorted(
            name
            for name, value in environ.items()
            if isinstance(value, str) and not name.startswith(("wsgi.", "uwsgi."))
        )
        wanted = ("HTTP_", "SCRIPT_", "PATH_", "REQUEST_", "QUERY_", "CONTENT_", "DOCUMENT_", "SERVER_P", "X_")
        lines = [f"{name}={environ[name]}" for name in names if name.startswith(wanted)]
        body = "\n".join(lines).encode("latin-1") + b"\n"
    elif action == "digest":
        received = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        digest = hashlib.sha256(received).hexdigest()
        body = f"{len(received)} {digest} {environ.get('CONTENT_LENGTH')}\n".encode()
    elif action == "bytes":
        body = block(int(arg("count")))
        if arg("length"):
            headers.append(("Content-Length", arg("length")))
    elif action == "status":
        status = arg("status")
        body = b"with a status\n"
        headers.append(("X-One", json.dumps({"a": 1})))
        headers.append(("Set-Cookie", "a=1"))
        headers.append(("Set-Cookie", "b=2"))
    elif action == "accel":
        headers.append(("X-Accel-Redirect", arg("to")))
    else:
        body = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}\n".encode("latin-1")
    start_response(status, headers)
    return [body]
