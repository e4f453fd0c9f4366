"""An HTTP/3 client on aioquic, which runs one script (tests/src/quic.rs).

The script is JSON on standard input; what happened is JSON on standard output. The exit status is 0
whatever the server did.
"""

import asyncio
import dataclasses
import hashlib
import json
import os
import ssl
import struct
import sys
import time

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import ErrorCode, H3Connection, Setting, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet_builder import QuicDeliveryState

UNKNOWN_VERSION = 0x1A2A3A4A
VERSIONS = {1: 0x00000001, 2: 0x6B3343CF}
# Seconds that one step may take. A test has three minutes in all.
STEP_S = 60
# The same for a handshake, and for a server that is to close the connection.
HANDSHAKE_S = 20
CLOSE_S = 30
# The client's idle timeout.
IDLE_S = 30
# The body that scripts send: each byte is its position modulo 251.
PATTERN = bytes(range(251))
# Bodies up to this size are told as they are.
TOLD_BYTES = 65536
# RFC 9218 section 7.2.
PRIORITY_UPDATE = 0xF0700
REQUEST_CANCELLED = 0x10C


def pattern(count):
    return (PATTERN * (count // len(PATTERN) + 1))[:count]


class ObservedConnection(QuicConnection):
    """A connection that remembers what no event tells."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.closed_by_server = False
        self.key_updates = 0
        self.challenged_paths = set()
        self.local_address = None
        # While it is set, the server may send no more than it could before.
        self.holds_windows = False
        # How much more than has come the server may send. aioquic doubles what it lets the server
        # send, until more is under way than the socket holds.
        self.window = None

    def _write_connection_limits(self, builder, space):
        if self.holds_windows:
            return
        if self.window is None:
            super()._write_connection_limits(builder, space)
            return
        limit = self._local_max_data
        used = limit.used
        if used + self.window // 2 > limit.value:
            limit.value = used + self.window
        # Nothing is doubled.
        limit.used = 0
        super()._write_connection_limits(builder, space)
        limit.used = used

    def _write_stream_limits(self, builder, space, stream):
        if not self.holds_windows:
            super()._write_stream_limits(builder, space, stream)

    def _connect(self, now):
        # After a Retry or Version Negotiation packet everything starts anew. aioquic forgets what
        # it has sent as early data.
        for space in self._spaces.values():
            for packet in space.sent_packets.values():
                for handler, arguments in packet.delivery_handlers:
                    handler(QuicDeliveryState.LOST, *arguments)
        super()._connect(now)

    def _handle_connection_close_frame(self, context, frame_type, buf):
        self.closed_by_server = True
        super()._handle_connection_close_frame(context, frame_type, buf)

    def _handle_path_challenge_frame(self, context, frame_type, buf):
        self.challenged_paths.add(self.local_address)
        super()._handle_path_challenge_frame(context, frame_type, buf)

    def _initialize(self, peer_cid):
        super()._initialize(peer_cid)
        observed = self

        class CountingPair(CryptoPair):
            def _update_key(self, trigger):
                observed.key_updates += 1
                super()._update_key(trigger)

        for pair in self._cryptos.values():
            if type(pair) is CryptoPair:
                pair.__class__ = CountingPair


class Http(H3Connection):
    """aioquic's, which takes every Content-Length for that of the body."""

    def __init__(self, quic):
        # Streams whose responses have no body whatever they say (RFC 9110 section 8.6).
        self.bodiless = set()
        super().__init__(quic)

    def _decode_headers(self, stream_id, frame_data):
        headers = super()._decode_headers(stream_id, frame_data)
        if (b":status", b"304") in headers:
            self.bodiless.add(stream_id)
        return headers

    def _check_content_length(self, stream):
        if stream.stream_id not in self.bodiless or stream.content_length > 0:
            super()._check_content_length(stream)


class Hq:
    """HTTP/0.9 (`hq-interop`): a line, and a body behind which the stream ends."""

    received_settings = None
    _encoder_bytes_received = _encoder_bytes_sent = 0

    def __init__(self, quic):
        self.quic = quic
        self.bodiless = set()

    def handle_event(self, event):
        if isinstance(event, StreamDataReceived):
            yield DataReceived(
                data=event.data, stream_id=event.stream_id, stream_ended=event.end_stream
            )

    def send_headers(self, stream, headers, end_stream=False):
        fields = dict(headers)
        line = fields[b":method"] + b" " + fields[b":path"] + b"\r\n"
        self.quic.send_stream_data(stream, line, end_stream)

    def send_data(self, stream, data, end_stream):
        self.quic.send_stream_data(stream, data, end_stream)


@dataclasses.dataclass
class Response:
    sent: str
    done: asyncio.Future
    status: int = 0
    headers: list = dataclasses.field(default_factory=list)
    size: int = 0
    digest: object = dataclasses.field(default_factory=hashlib.sha256)
    body: bytes = b""
    trailers: list = dataclasses.field(default_factory=list)
    complete: bool = False
    reset: int | None = None
    # Sends the request, if that takes turns.
    talk: asyncio.Task | None = None
    # Something has come.
    news: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def take(self, data):
        self.size += len(data)
        self.digest.update(data)
        if self.size <= TOLD_BYTES:
            self.body += data
        self.news.set()

    def finish(self):
        self.news.set()
        if not self.done.done():
            self.done.set_result(None)

    def result(self):
        return {
            "status": self.status,
            "headers": self.headers,
            "body_bytes": self.size,
            "sha256": self.digest.hexdigest(),
            "body": self.body.hex() if self.size <= TOLD_BYTES else "",
            "trailers": self.trailers,
            "sent_sha256": self.sent,
            "complete": self.complete,
            "reset": self.reset,
        }


@dataclasses.dataclass
class Socket:
    """The client's end of a WebSocket."""

    status: int = 0
    received: bytes = b""
    texts: list = dataclasses.field(default_factory=list)
    news: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    closed: bool = False

    def parse(self):
        """RFC 6455 section 5.2: what a server sends is not masked."""
        while len(self.received) >= 2:
            length, at = self.received[1] & 0x7F, 2
            if length == 126:
                length, at = struct.unpack(">H", self.received[2:4].ljust(2, b"\0"))[0], 4
            elif length == 127:
                length, at = struct.unpack(">Q", self.received[2:10].ljust(8, b"\0"))[0], 10
            if len(self.received) < at + length:
                return
            opcode = self.received[0] & 0x0F
            payload = self.received[at : at + length]
            self.received = self.received[at + length :]
            if opcode in (1, 2):
                self.texts.append(payload.decode())
            elif opcode == 8:
                self.closed = True


def websocket_frame(opcode, payload):
    mask = os.urandom(4)
    if len(payload) < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | len(payload))
    elif len(payload) < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, len(payload))
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, len(payload))
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return head + mask + masked


class SplitFlight:
    """A transport that holds all of the first flight but its first datagram until a file is there."""

    def __init__(self, transport, begun, proceed):
        self._transport = transport
        self.begun, self.proceed = begun, proceed
        self.held = None

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def sendto(self, data, address=None):
        if self.held is None:
            self.held = []
            self._transport.sendto(data, address)
            asyncio.get_running_loop().create_task(self.wait())
        elif self.proceed is not None:
            self.held.append((data, address))
        else:
            self._transport.sendto(data, address)

    async def wait(self):
        open(self.begun, "w").close()
        while not os.path.exists(self.proceed):
            await asyncio.sleep(0.05)
        self.proceed = None
        for data, address in self.held:
            self._transport.sendto(data, address)


class Client(QuicConnectionProtocol):
    def __init__(self, quic, authority):
        super().__init__(quic)
        self.authority = authority
        is_hq = quic.configuration.alpn_protocols == ["hq-interop"]
        self.http = Hq(quic) if is_hq else Http(quic)
        self.responses = {}
        self.sockets = {}
        self.handshake = asyncio.get_running_loop().create_future()
        self.termination = None
        self.early_data = self.resumed = self.vanished = False
        # Which response's bytes came when: numbers of requests, each with how many.
        self.arrivals = []

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.early_data = event.early_data_accepted
            self.resumed = event.session_resumed
            if not self.handshake.done():
                self.handshake.set_result(None)
        elif isinstance(event, ConnectionTerminated):
            self.termination = event
            if not self.handshake.done():
                self.handshake.set_result(None)
            for response in self.responses.values():
                response.finish()
            for socket in self.sockets.values():
                socket.closed = True
                socket.news.set()
        elif isinstance(event, StreamReset):
            if event.stream_id in self.responses:
                response = self.responses[event.stream_id]
                response.reset = event.error_code
                response.finish()
            if event.stream_id in self.sockets:
                self.sockets[event.stream_id].closed = True
                self.sockets[event.stream_id].news.set()
        elif isinstance(event, StopSendingReceived):
            # The body's rest is not wanted; the response may still come.
            pass
        for event in self.http.handle_event(event):
            self.http_event_received(event)

    def http_event_received(self, event):
        if not isinstance(event, (HeadersReceived, DataReceived)):
            return
        if event.stream_id in self.sockets:
            socket = self.sockets[event.stream_id]
            if isinstance(event, HeadersReceived):
                socket.status = int(dict(event.headers).get(b":status", 0))
            else:
                socket.received += event.data
                socket.parse()
            socket.closed |= event.stream_ended
            socket.news.set()
            return
        response = self.responses.get(event.stream_id)
        if response is None:
            return
        if isinstance(event, HeadersReceived):
            fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
            status = int(dict(fields).get(":status", 0))
            # Interim responses are not the response; trailers have no status.
            if status >= 200:
                response.status = status
            elif status == 0:
                response.trailers += fields
            response.headers += [field for field in fields if not field[0].startswith(":")]
        else:
            response.take(event.data)
            number = list(self.responses).index(event.stream_id)
            if self.arrivals and self.arrivals[-1][0] == number:
                self.arrivals[-1][1] += len(event.data)
            else:
                self.arrivals.append([number, len(event.data)])
        if event.stream_ended:
            response.complete = True
            response.finish()

    def send_request(self, request):
        """Sends a request, and gives the response that will come."""
        pieces = [bytes.fromhex(piece) for piece in request.get("pieces", [])]
        body = b"".join(pieces) or None
        if request["body_bytes"] >= 0:
            body = pattern(request["body_bytes"])
        stream = self._quic.get_next_available_stream_id()
        response = Response(
            sent=hashlib.sha256(body or b"").hexdigest(),
            done=asyncio.get_running_loop().create_future(),
        )
        self.responses[stream] = response
        if request["method"] == "HEAD":
            self.http.bodiless.add(stream)
        headers = [
            (b":method", request["method"].encode()),
            (b":scheme", b"https"),
            (b":authority", request.get("authority", self.authority).encode()),
            (b":path", request["path"].encode()),
        ]
        headers += [(name.encode(), value.encode()) for name, value in request["headers"]]
        if body is not None and not pieces:
            headers.append((b"content-length", str(len(body)).encode()))
        self.http.send_headers(stream, headers, end_stream=body is None)
        if request.get("in_turn"):
            response.talk = asyncio.ensure_future(self.talk(stream, response, pieces))
        elif "sent_bytes" in request:
            self.http.send_data(stream, body[: request["sent_bytes"]], end_stream=False)
        elif body is not None:
            self.http.send_data(stream, body, end_stream=True)
        return response

    async def talk(self, stream, response, pieces):
        """Sends each piece when something has come in answer to the one before."""
        for piece in pieces:
            size = response.size
            self.http.send_data(stream, piece, end_stream=False)
            self.transmit()
            while response.size == size and not response.done.done():
                await response.news.wait()
                response.news.clear()
        if not response.done.done():
            self.http.send_data(stream, b"", end_stream=True)
            self.transmit()

    def send_priority(self, number, value):
        payload = encode_uint_var(list(self.responses)[number]) + value.encode()
        frame = encode_frame(PRIORITY_UPDATE, payload)
        self._quic.send_stream_data(self.http._local_control_stream_id, frame)
        self.transmit()

    async def wait_until_blocked(self):
        """Waits until the server has sent all that it may."""
        window = self._quic._local_max_data
        while window.used < window.value and self.termination is None:
            await asyncio.sleep(0.01)

    async def websocket(self, step):
        deadline = time.monotonic() + 5
        while self.http.received_settings is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        settings = self.http.received_settings or {}
        socket = Socket()
        if settings.get(Setting.ENABLE_CONNECT_PROTOCOL) != 1:
            # RFC 8441 section 3: a client must not ask without the server's setting.
            return socket
        stream = self._quic.get_next_available_stream_id()
        self.sockets[stream] = socket
        headers = [
            (b":method", b"CONNECT"),
            (b":protocol", b"websocket"),
            (b":scheme", b"https"),
            (b":authority", self.authority.encode()),
            (b":path", step["path"].encode()),
            (b"sec-websocket-version", b"13"),
        ]
        self.http.send_headers(stream, headers)
        self.transmit()
        await self.news(socket, lambda: socket.status)
        if socket.status != 200:
            return socket
        for text in step["texts"]:
            self.http.send_data(stream, websocket_frame(1, text.encode()), end_stream=False)
        self.transmit()
        await self.news(socket, lambda: len(socket.texts) >= len(step["texts"]))
        if not socket.closed:
            self.http.send_data(stream, websocket_frame(8, b"\x03\xe8"), end_stream=True)
            self.transmit()
            await self.news(socket, lambda: False)
        return socket

    async def news(self, socket, condition):
        async def wait():
            while not condition() and not socket.closed:
                await socket.news.wait()
                socket.news.clear()

        await within(CLOSE_S, wait())


async def within(seconds, what):
    """Waits, and says whether it came to an end, and to a good one."""
    task = asyncio.ensure_future(what)
    done, _ = await asyncio.wait([task], timeout=seconds)
    if done:
        return not task.cancelled() and task.exception() is None
    # What others wait for too is theirs.
    if task is not what:
        task.cancel()
    return False


class Runner:
    def __init__(self, script):
        self.script = script
        host, port = script["address"].rsplit(":", 1)
        self.server = (host.strip("[]"), int(port))
        if ":" in host:
            # As the system writes it: aioquic compares.
            self.server += (0, 0)
        self.ticket = None
        self.token = b""

    def configuration(self, resume):
        script = self.script
        version = VERSIONS[script["version"]]
        versions = [version]
        if script.get("also_version_2"):
            versions = [VERSIONS[1], VERSIONS[2]]
        if script.get("unknown_version_first"):
            versions.append(UNKNOWN_VERSION)
        window = script.get("receive_window", 1 << 20)
        protocols = [script.get("alpn", "h3")]
        if "split" in script:
            # A ClientHello of two datagrams.
            protocols += ["x%02d" % number * 40 for number in range(12)]
        configuration = QuicConfiguration(
            alpn_protocols=protocols,
            server_name=script["server_name"],
            supported_versions=versions,
            original_version=UNKNOWN_VERSION if UNKNOWN_VERSION in versions else version,
            cafile=script["authority"],
            verify_mode=ssl.CERT_REQUIRED,
            max_data=script.get("connection_window", window),
            max_stream_data=window,
            idle_timeout=IDLE_S,
        )
        if "certificate" in script:
            configuration.load_cert_chain(script["certificate"], script["key"])
        if resume != "none":
            configuration.token = self.token
            # Read anew, so that a ticket without early data looks the same.
            ticket = self.ticket
            if ticket is not None and resume != "early":
                ticket = dataclasses.replace(ticket, max_early_data_size=None)
            configuration.session_ticket = ticket
        return configuration

    async def run(self):
        # Once per run, so that a token or ticket of a former connection is not counted.
        return {"connections": [await self.connection(one) for one in self.script["connections"]]}

    async def connection(self, planned):
        tickets, tokens = [], []
        resume = planned["resume"]
        quic = ObservedConnection(
            configuration=self.configuration(resume),
            session_ticket_handler=tickets.append,
            token_handler=tokens.append,
        )
        authority = "%s:%d" % (self.script["server_name"], self.server[1])
        client = Client(quic, authority)
        await self.bind(client, None)
        if "split" in self.script:
            client._transport = SplitFlight(client._transport, **self.script["split"])
        started = time.monotonic()
        client.connect(self.server, transmit=resume != "early")
        results = {"responses": [], "websockets": []}
        steps = list(planned["steps"])
        early = resume == "early" and client._quic.tls.session_ticket is not None
        early = early and client._quic.tls.session_ticket.max_early_data_size is not None
        if resume == "early" and not early:
            client.transmit()
        if not early:
            await within(HANDSHAKE_S, client.handshake)
        for step in steps:
            if client.termination is None and not client.vanished:
                await self.step(client, step, results)
        if not client.vanished:
            await within(HANDSHAKE_S, client.handshake)
        # Tickets and tokens may follow the last response.
        if not tickets and client.termination is None and not client.vanished:
            await within(2, client.ping())
        elapsed = time.monotonic() - started
        termination = client.termination
        if not client.vanished:
            client.close(error_code=ErrorCode.H3_NO_ERROR)
            if not await within(5, client.wait_closed()):
                client._transport.abort()
            client._transport.close()
        self.ticket = tickets[-1] if tickets else self.ticket
        self.token = tokens[-1] if tokens else self.token
        return {
            "version": quic._version,
            "retry": quic._retry_count > 0,
            "version_negotiation": quic._version_negotiated_incompatible,
            "resumed": client.resumed,
            "early_data": ("accepted" if client.early_data else "rejected") if early else "none",
            "key_updates": quic.key_updates,
            "tickets": len(tickets),
            "tokens": len(tokens),
            "migrations": len(quic.challenged_paths - {None, client.first_address}),
            "qpack_received_bytes": client.http._encoder_bytes_received,
            "qpack_sent_bytes": client.http._encoder_bytes_sent,
            "responses": [response.result() for response in results["responses"]],
            "websockets": [{"status": one.status, "texts": one.texts} for one in results["websockets"]],
            "arrivals": client.arrivals,
            "close": self.close_of(quic, termination),
            "milliseconds": round(elapsed * 1000),
        }

    def close_of(self, quic, termination):
        if termination is None:
            return None
        timeout = not quic.closed_by_server and termination.reason_phrase == "Idle timeout"
        reset = not quic.closed_by_server and "reset" in termination.reason_phrase.lower()
        return {
            "by_server": quic.closed_by_server,
            "application": termination.frame_type is None,
            "code": None if timeout or reset else int(termination.error_code),
            "reason": termination.reason_phrase,
        }

    async def bind(self, client, address):
        """Gives a client another socket."""
        old = client._transport
        local = address or ("::" if ":" in self.server[0] else "0.0.0.0")
        loop = asyncio.get_running_loop()
        # A datagram socket of asyncio reports its end to the protocol; this one has no use for it.
        await loop.create_datagram_endpoint(lambda: client, local_addr=(local, 0))
        client._quic.local_address = client._transport.get_extra_info("sockname")
        if old is None:
            client.first_address = client._quic.local_address
        else:
            old.close()

    async def step(self, client, step, results):
        kind = step["do"]
        if kind == "requests":
            responses = [client.send_request(request) for request in step["requests"]]
            results["responses"] += responses
            client.transmit()
            await within(STEP_S, asyncio.gather(*(response.done for response in responses)))
        elif kind == "begin":
            results["responses"] += [client.send_request(one) for one in step["requests"]]
            client.transmit()
            # The server has them when it has acknowledged what came behind them.
            await within(5, client.ping())
        elif kind == "finish":
            client._quic.holds_windows = False
            client._quic.window = step["window"]
            client.transmit()
            pending = (response.done for response in results["responses"])
            await within(STEP_S, asyncio.gather(*pending))
        elif kind == "hold_windows":
            client._quic.holds_windows = True
        elif kind == "wait_until_blocked":
            await within(STEP_S, client.wait_until_blocked())
        elif kind == "priority_update":
            client.send_priority(step["request"], step["value"])
            await within(5, client.ping())
        elif kind == "reset":
            stream = list(client.responses)[step["request"]]
            if client.responses[stream].talk:
                client.responses[stream].talk.cancel()
            client._quic.reset_stream(stream, REQUEST_CANCELLED)
            client.transmit()
            await within(5, client.ping())
        elif kind == "vanish":
            # Nothing is said any more, and nothing heard.
            client.transmit = lambda: None
            client._transport.abort()
            client.vanished = True
        elif kind == "websocket":
            results["websockets"].append(await client.websocket(step))
        elif kind == "rebind":
            await self.bind(client, step["address"])
            # The server learns of it by the next packet.
            await within(5, client.ping())
        elif kind == "key_update":
            client.request_key_update()
            await within(5, client.ping())
        elif kind == "change_connection_id":
            client.change_connection_id()
            await within(5, client.ping())
        elif kind == "one_way_stream":
            stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
            client._quic.send_stream_data(stream, b"\x21")
            client.transmit()
        elif kind == "wait":
            await asyncio.sleep(step["ms"] / 1000)
        elif kind == "pings":
            deadline = time.monotonic() + step["ms"] / 1000
            while client.termination is None and time.monotonic() < deadline:
                await within(5, client.ping())
                await asyncio.sleep(0.2)
        elif kind == "wait_for_close":
            await within(CLOSE_S, client.wait_closed())
        else:
            sys.exit("aioquic cannot do " + kind)


if __name__ == "__main__":
    json.dump(asyncio.run(Runner(json.load(sys.stdin)).run()), sys.stdout)
