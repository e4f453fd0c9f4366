"""A Dubbo provider, written from the protocol's description: frames, Hessian 2, heartbeats.

    dubbo.py PORT

The entry "do" of the map that a method is called with says what it does; see `DEEDS`.
"""

import asyncio
import json
import struct
import sys

HEADER = struct.Struct(">HBBQI")
MAGIC = 0xDABB
REQUEST, TWO_WAY, EVENT, HESSIAN2 = 0x80, 0x40, 0x20, 2
OK = 20

connections = 0
heartbeats = 0
gathered = []


class Reader:
    """Values of Hessian 2, as far as consumers of maps send them."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        piece = self.data[self.at:self.at + count]
        if len(piece) < count:
            raise ValueError("a value ends too early")
        self.at += count
        return piece

    def length(self, tag, short, medium, chunk, last):
        """The length that follows this tag, and whether it is that of the last chunk."""
        if short <= tag < short + (0x20 if short == 0 else 0x10):
            return tag - short, True
        if medium <= tag < medium + 4:
            return (tag - medium) << 8 | self.take(1)[0], True
        if tag in (chunk, last):
            return struct.unpack(">H", self.take(2))[0], tag == last
        raise ValueError(f"unexpected tag {tag:#x} at {self.at}")

    def string(self):
        units, is_last = [], False
        while not is_last:
            count, is_last = self.length(self.take(1)[0], 0, 0x30, ord("R"), ord("S"))
            for _ in range(count):
                first = self.take(1)
                more = 0 if first[0] < 0x80 else 1 if first[0] < 0xE0 else 2
                unit = (first + self.take(more)).decode("utf-8", "surrogatepass")
                units.append(ord(unit))
        return struct.pack(f">{len(units)}H", *units).decode("utf-16-be")

    def binary(self):
        pieces, is_last = [], False
        while not is_last:
            count, is_last = self.length(self.take(1)[0], 0x20, 0x34, ord("A"), ord("B"))
            pieces.append(self.take(count))
        return b"".join(pieces)

    def value(self):
        tag = self.data[self.at]
        if tag == ord("N"):
            self.at += 1
            return None
        if tag < 0x20 or 0x30 <= tag < 0x34 or tag in b"RS":
            return self.string()
        if 0x20 <= tag < 0x30 or 0x34 <= tag < 0x38 or tag in b"AB":
            return self.binary()
        if tag == ord("H"):
            self.at += 1
            entries = {}
            while self.data[self.at] != ord("Z"):
                key = self.value()
                if key in entries:
                    raise ValueError(f"{key!r} is there twice")
                entries[key] = self.value()
            self.at += 1
            return entries
        raise ValueError(f"unexpected tag {tag:#x} at {self.at}")


def string(text):
    units = text.encode("utf-16-be")
    count = len(units) // 2
    out = b"".join(
        chr(unit).encode("utf-8", "surrogatepass") for (unit,) in struct.iter_unpack(">H", units)
    )
    assert count < 0x10000
    return (bytes([count]) if count < 0x20 else b"S" + struct.pack(">H", count)) + out


def binary(data, chunk=8189):
    out, at = [], 0
    while len(data) - at > chunk:
        out.append(b"A" + struct.pack(">H", chunk) + data[at:at + chunk])
        at += chunk
    return b"".join(out) + b"B" + struct.pack(">H", len(data) - at) + data[at:]


def value(of):
    if of is None:
        return b"N"
    if isinstance(of, bool):
        return b"T" if of else b"F"
    if isinstance(of, int):
        return b"I" + struct.pack(">i", of)
    if isinstance(of, str):
        return string(of)
    if isinstance(of, bytes):
        return binary(of)
    if isinstance(of, list):
        return b"\x58" + value(len(of)) + b"".join(map(value, of))
    return b"H" + b"".join(value(k) + value(v) for k, v in of.items()) + b"Z"


def frame(number, payload, status=OK, flags=0):
    return HEADER.pack(MAGIC, flags | HESSIAN2, status, number, len(payload)) + payload


def result(answer):
    return b"\x91" + value(answer)


def exception(name, message):
    """An object of a class with two fields, the first of which is the exception itself."""
    fields = string("cause") + string("detailMessage")
    definition = b"C" + string(name) + b"\x92" + fields
    return b"\x90" + definition + b"\x60" + b"Q\x90" + value(message)


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.answered_heartbeats = 0
        self.calls = 0

    def send(self, data):
        self.writer.write(data)

    async def run(self):
        try:
            while True:
                head = await self.reader.readexactly(HEADER.size)
                magic, flags, status, number, length = HEADER.unpack(head)
                if magic != MAGIC:
                    raise ValueError(f"magic number {magic:#x}")
                payload = await self.reader.readexactly(length)
                await self.frame(flags, number, payload)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as error:
            print("refused:", repr(error), flush=True)
        self.writer.close()

    async def frame(self, flags, number, payload):
        global connections, heartbeats
        if flags & 0x1F != HESSIAN2:
            raise ValueError(f"flags {flags:#x}")
        if flags & EVENT:
            if payload != b"N":
                raise ValueError(f"an event with {payload!r}")
            if flags & REQUEST:
                heartbeats += 1
                if self.calls == 0 or not self.is_mute:
                    self.send(frame(number, b"N", flags=EVENT))
            else:
                self.answered_heartbeats += 1
            return
        if flags & (REQUEST | TWO_WAY) != REQUEST | TWO_WAY:
            raise ValueError(f"flags {flags:#x}")
        connections += self.calls == 0
        self.calls += 1
        reader = Reader(payload)
        call = [reader.value() for _ in range(7)]
        if reader.at != len(payload):
            raise ValueError("something follows the attachments")
        deed, _, argument = (call[5].get("do") or "describe").partition(" ")
        asyncio.ensure_future(DEEDS[deed](self, number, call, argument))

    is_mute = False


async def describe(connection, number, call, _):
    """Tells what arrived."""
    seen = dict(call[5])
    if "body" in seen and isinstance(seen["body"], bytes):
        seen["body"] = {"bytes": len(seen["body"]), "text": seen["body"][:40].decode("latin-1")}
    said = {
        "protocol": call[0], "service": call[1], "version": call[2], "method": call[3],
        "types": call[4], "map": seen, "attachments": call[6], "connections": connections,
        "heartbeats": heartbeats, "answered": connection.answered_heartbeats, "id": number,
    }
    body = json.dumps(said).encode()
    answer = {"status": "200", "Content-Type": "application/json", "body": body}
    connection.send(frame(number, result(answer)))


async def echo(connection, number, call, _):
    body = call[5].get("body") or b""
    connection.send(frame(number, result({"body": body, "status": "200"})))


async def slow(connection, number, call, seconds):
    await asyncio.sleep(float(seconds))
    connection.send(frame(number, result({"status": "200", "body": f"{number}".encode()})))


async def never(connection, number, call, _):
    pass


async def mute(connection, number, call, _):
    """Neither answers this nor heartbeats."""
    connection.is_mute = True


async def die(connection, number, call, _):
    connection.writer.close()


async def garbage(connection, number, call, _):
    connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def wrong(connection, number, call, _):
    connection.send(frame(number + 1000000, result({"status": "200"})))


async def twice(connection, number, call, _):
    answer = frame(number, result({"status": "200", "body": b"once"}))
    connection.send(answer + answer)


async def half(connection, number, call, _):
    answer = frame(number, result({"status": "200", "body": b"x" * 1000}))
    connection.send(answer[:-500])


async def drip(connection, number, call, seconds):
    """Some of the answer in each interval."""
    answer = frame(number, result({"status": "200", "body": b"dripped"}))
    for at in range(0, len(answer), 8):
        connection.send(answer[at:at + 8])
        await asyncio.sleep(float(seconds))


async def throw(connection, number, call, message):
    name = "java.lang.IllegalStateException"
    connection.send(frame(number, exception(name, message + "\n\tat a.b.C")))


async def null(connection, number, call, _):
    connection.send(frame(number, b"\x92"))


async def status(connection, number, call, code):
    connection.send(frame(number, string("it is said\n\tat a.b.C"), status=int(code)))


async def size(connection, number, call, count):
    connection.send(frame(number, result({"body": b"s" * int(count), "status": 200})))


async def answer(connection, number, call, text):
    """Answers with the map that the JSON text is; a null key stands for no map."""
    connection.send(frame(number, result(json.loads(text))))


async def raw(connection, number, call, text):
    connection.send(frame(number, bytes.fromhex(text)))


async def gather(connection, number, call, count):
    """Answers when so many wait on this connection, the last first."""
    gathered.append((connection, number))
    if len(gathered) < int(count):
        return
    waiting, gathered[:] = list(gathered), []
    same = all(other is connection for other, _ in waiting)
    for _, number in reversed(waiting):
        body = json.dumps({"id": number, "same": same}).encode()
        connection.send(frame(number, result({"status": "200", "body": body})))


async def beat(connection, number, call, count):
    """Sends heartbeats, and answers when all of them have been."""
    before = connection.answered_heartbeats
    for at in range(int(count)):
        connection.send(frame(7000 + at, b"N", status=0, flags=REQUEST | TWO_WAY | EVENT))
        await asyncio.sleep(0)
    while connection.answered_heartbeats < before + int(count):
        await asyncio.sleep(0.01)
    connection.send(frame(number, result({"status": "200", "body": b"beaten"})))


async def readonly(connection, number, call, seconds):
    """Asks for no more requests, and answers this one later."""
    connection.send(frame(0, string("R"), status=0, flags=REQUEST | EVENT))
    await asyncio.sleep(float(seconds))
    connection.send(frame(number, result({"status": "200", "body": b"the last"})))


async def call_back(connection, number, call, _):
    connection.send(frame(number, b"N", status=0, flags=REQUEST | TWO_WAY))


DEEDS = {
    deed.__name__: deed
    for deed in (
        describe, echo, slow, never, mute, die, garbage, wrong, twice, half, drip, throw, null,
        status, size, answer, raw, gather, beat, readonly, call_back,
    )
}


async def main():
    accept = lambda reader, writer: Connection(reader, writer).run()
    server = await asyncio.start_server(accept, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    async with server:
        await server.serve_forever()


asyncio.run(main())
