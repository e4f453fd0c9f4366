"""What the tests of proxy_pass ask gunicorn for: bodies that come in pieces, and errors."""

import hashlib
import time


def pieces(count, pause):
    for number in range(count):
        time.sleep(pause)
        yield f"piece {number}\n".encode()


def broken():
    yield b"a beginning\n" * 100
    raise RuntimeError("in the middle of a body")


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/pieces":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return pieces(20, 0.01)
    if path == "/broken":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return broken()
    if path == "/error":
        raise RuntimeError("before the head")
    if path == "/digest":
        digest = hashlib.sha256()
        while block := environ["wsgi.input"].read(65536):
            digest.update(block)
        body = digest.hexdigest().encode()
    elif path == "/short":
        start_response("200 OK", [("Content-Length", "1000")])
        return [b"short"]
    elif path == "/nothing":
        start_response("204 No Content", [])
        return []
    else:
        body = f"{environ['REQUEST_METHOD']} {environ['RAW_URI']}".encode("latin-1")
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
