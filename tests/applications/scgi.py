"""An SCGI server of the standard library: `scgi.py ADDRESS`, a port or a socket's path.

It hands requests to the application of app.py and answers with `Status:`.
"""

import io
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from app import application  # noqa: E402


def read_netstring(stream):
    digits = b""
    while (byte := stream.read(1)) != b":":
        if not byte.isdigit():
            raise ValueError(f"no netstring: {digits + byte!r}")
        digits += byte
    content = stream.read(int(digits))
    if stream.read(1) != b",":
        raise ValueError("a netstring ends with a comma")
    return content


def serve(connection):
    with connection, connection.makefile("rb") as stream:
        parts = read_netstring(stream).split(b"\0")
        if parts[0] != b"CONTENT_LENGTH" or parts.pop() != b"":
            raise ValueError("CONTENT_LENGTH comes first, NUL last")
        text = [part.decode("latin-1") for part in parts]
        environ = dict(zip(text[::2], text[1::2], strict=True))
        if environ.get("SCGI") != "1":
            raise ValueError("SCGI is 1")
        environ["CONTENT_LENGTH"] = text[1]
        environ.setdefault("PATH_INFO", environ.get("DOCUMENT_URI", ""))
        environ["wsgi.input"] = io.BytesIO(stream.read(int(text[1])))

        def start_response(status, headers):
            head = [f"Status: {status}"] + [f"{name}: {value}" for name, value in headers]
            connection.sendall("\r\n".join(head + ["", ""]).encode("latin-1"))

        for piece in application(environ, start_response):
            connection.sendall(piece)


def main():
    address = sys.argv[1]
    if address.isdigit():
        listener = socket.create_server(("127.0.0.1", int(address)))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        os.chmod(address, 0o666)
        listener.listen()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
