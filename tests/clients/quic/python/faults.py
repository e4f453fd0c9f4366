"""Breaks rules of QUIC and HTTP/3, and prints what the server says to it.

    faults.py ADDRESS:PORT AUTHORITY [TEXT]

One line of JSON for each rule whose name or section contains TEXT. The cases are in
faults_transport.py and faults_http3.py: those of h3spec (https://github.com/kazu-yamamoto/h3spec),
and some more. The server must be one for localhost that speaks h3. It should answer a POST of / once it has
read the body: then it can mind what comes after its beginning.
"""

import asyncio
import json
import logging
import ssl
import struct
import sys

import pylsqpack
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicPacketType, encode_long_header_first_byte
from aioquic.tls import Epoch

import faults_http3
import faults_transport
from faults_case import APPLICATION, ERRORS

# Connections at a time, and seconds that a server has to say something.
AT_A_TIME = 8
PATIENCE_S = 8
# A server that has not minded a broken rule by then, although it has answered, does not mind.
AFTER_RESPONSE_S = 1
# A reset may follow a response that tells of an error.
RESET_BEHIND_S = 0.3

EPOCHS = {"0rtt": Epoch.ZERO_RTT, "handshake": Epoch.HANDSHAKE, "1rtt": Epoch.ONE_RTT}
TYPES = {"0rtt": QuicPacketType.ZERO_RTT, "handshake": QuicPacketType.HANDSHAKE}


class FaultyConnection(QuicConnection):
    """A connection that can send any packet, and changes its ClientHello."""

    def __init__(self, case, **arguments):
        super().__init__(**arguments)
        self.case = case
        self.closed_by_server = False
        self.injected = False

    def _handle_connection_close_frame(self, context, frame_type, buf):
        self.closed_by_server = True
        super()._handle_connection_close_frame(context, frame_type, buf)

    def _serialize_transport_parameters(self):
        encoded = super()._serialize_transport_parameters()
        if self.case.parameters is None:
            return encoded
        buffer, parameters = Buffer(data=encoded), []
        while not buffer.eof():
            identifier = buffer.pull_uint_var()
            parameters.append((identifier, buffer.pull_bytes(buffer.pull_uint_var())))
        return b"".join(
            encode_uint_var(identifier) + encode_uint_var(len(value)) + value
            for identifier, value in self.case.parameters(parameters)
        )

    def _initialize(self, peer_cid):
        super()._initialize(peer_cid)
        if self.case.tls is not None:
            self.case.tls(self.tls)

    def packet(self, level, payload, reserved=0):
        """A packet with these frames, and these reserved bits."""
        pair = self._cryptos[EPOCHS[level]]
        number = self._packet_number
        self._packet_number += 1
        if level == "1rtt":
            # Four bytes of packet number: the shortest packet has enough for a sample.
            head = bytes([0x43 | pair.key_phase << 2 | reserved << 3]) + self._peer_cid.cid
        else:
            first = encode_long_header_first_byte(self._version, TYPES[level], 3) | reserved << 2
            length = 4 + len(payload) + pair.aead_tag_size
            head = struct.pack(">BL", first, self._version)
            for cid in (self._peer_cid.cid, self.host_cid):
                head += bytes([len(cid)]) + cid
            head += struct.pack(">H", length | 0x4000)
        return pair.encrypt_packet(head + struct.pack(">L", number), payload, number)

    def datagrams_to_send(self, now):
        case = self.case
        early = case.level in TYPES and not self.injected
        if early and self._cryptos[EPOCHS[case.level]].send.is_valid():
            self.injected = True
            address = self._network_paths[0].addr
            # A handshake that goes on might be done before the packet is looked at.
            usual = super().datagrams_to_send(now) if case.level == "0rtt" else []
            return usual + [(self.packet(case.level, case.frames, case.reserved), address)]
        return super().datagrams_to_send(now)


class Client(QuicConnectionProtocol):
    def __init__(self, quic):
        super().__init__(quic)
        self.ready = asyncio.get_running_loop().create_future()
        self.answer = asyncio.get_running_loop().create_future()
        self.response = b""

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted) and not self.ready.done():
            self.ready.set_result(None)
        elif isinstance(event, ConnectionTerminated):
            if not self.ready.done():
                self.ready.set_result(None)
            if self._quic.closed_by_server:
                self.answered(event.error_code, event.frame_type is None)
            else:
                self.say("no close: " + event.reason_phrase)
        elif isinstance(event, (StreamReset, StopSendingReceived)):
            # Servers also stop streams that they do not know or need no more.
            if event.stream_id == 0 and event.error_code != 0x100:
                self.answered(event.error_code, True)
        elif isinstance(event, StreamDataReceived) and event.stream_id == 0:
            self.response += event.data
            status = status_of(self.response)
            if status == 400 or (status and status >= 500):
                loop = asyncio.get_running_loop()
                loop.call_later(RESET_BEHIND_S, self.say, "status %d" % status)

    def answered(self, code, application):
        names = APPLICATION if application else ERRORS
        name = names.get(code)
        if name is None and not application and 0x100 <= code < 0x200:
            name = "alert %d" % (code - 0x100)
        self.say(name or hex(code))

    def say(self, text):
        if not self.answer.done():
            self.answer.set_result(text)


def status_of(stream):
    """The status of a response whose first frame is there."""
    try:
        buffer = Buffer(data=stream)
        if buffer.pull_uint_var() != 1:
            return None
        block = buffer.pull_bytes(buffer.pull_uint_var())
        _, headers = pylsqpack.Decoder(0, 0).feed_header(0, block)
        return int(dict(headers)[b":status"])
    except (ValueError, KeyError, pylsqpack.DecompressionFailed):
        return None


class Runner:
    def __init__(self, address, authority):
        host, port = address.rsplit(":", 1)
        self.server = (host.strip("[]"), int(port))
        self.authority = authority

    async def connect(self, case, ticket=None, tickets=None):
        configuration = QuicConfiguration(
            alpn_protocols=[case.alpn],
            server_name="localhost",
            cafile=self.authority,
            verify_mode=ssl.CERT_REQUIRED,
            session_ticket=ticket,
        )
        quic = FaultyConnection(
            case,
            configuration=configuration,
            session_ticket_handler=tickets.append if tickets is not None else None,
        )
        client = Client(quic)
        local = "::" if ":" in self.server[0] else "0.0.0.0"
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: client, local_addr=(local, 0))
        client.connect(self.server)
        return client

    async def ticket(self, case):
        """A session ticket with early data, if the server gives any."""
        tickets = []
        client = await self.connect(case.without_fault(), tickets=tickets)
        await asyncio.wait_for(client.ready, PATIENCE_S)
        for _ in range(50):
            if tickets:
                break
            await asyncio.sleep(0.02)
        await self.end(client)
        usable = [ticket for ticket in tickets if ticket.max_early_data_size]
        return usable[-1] if usable else None

    async def end(self, client):
        client.close()
        client._transport.close()

    async def received(self, case):
        ticket = None
        if case.level == "0rtt":
            ticket = await self.ticket(case)
            if ticket is None:
                return "the server offers no early data", None
        client = await self.connect(case, ticket)
        quic = client._quic
        try:
            await asyncio.wait_for(asyncio.shield(client.ready), PATIENCE_S)
        except asyncio.TimeoutError:
            return "no handshake", None
        if case.level == "1rtt" and client._quic._close_event is None:
            for _ in range(100):
                # Keys of the handshake are gone then, and nothing else is on its way.
                if quic._handshake_confirmed:
                    break
                await asyncio.sleep(0.01)
            for stream, data, end in case.streams:
                quic.send_stream_data(stream, data, end)
            if case.resets:
                # A reset takes the place of what is not sent yet.
                client.transmit()
            for stream in case.resets:
                quic.reset_stream(stream, 0x10C)
            client.transmit()
            if case.frames is not None:
                packet = quic.packet("1rtt", case.frames, case.reserved)
                client._transport.sendto(packet, self.server)
        answer = await self.answer(client)
        await self.end(client)
        return answer, status_of(client.response)

    async def answer(self, client):
        for _ in range(PATIENCE_S):
            done, _ = await asyncio.wait([client.answer], timeout=AFTER_RESPONSE_S)
            if done:
                return client.answer.result()
            status = status_of(client.response)
            if status:
                return "status %d" % status
        return "nothing"

    async def run(self, case, turn):
        async with turn:
            received, status = await self.received(case)
        return json.dumps(
            {
                "name": case.name,
                "section": case.section,
                "passed": received in case.allowed(),
                "expected": case.expected,
                "received": received,
                "status": status,
            }
        )


async def main(address, authority, text=""):
    cases = faults_transport.CASES + faults_http3.CASES
    chosen = [case for case in cases if text in case.name or text in case.section]
    runner, turn = Runner(address, authority), asyncio.Semaphore(AT_A_TIME)
    for line in await asyncio.gather(*(runner.run(case, turn) for case in chosen)):
        print(line)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(*sys.argv[1:]))
