"""Rules of RFC 9000 and RFC 9001."""

import os

from aioquic.buffer import encode_uint_var as v

from faults_case import Case

MOST = (1 << 62) - 1


def stream(identifier, offset, data):
    """A STREAM frame with offset and length."""
    return b"\x0e" + v(identifier) + v(offset) + v(len(data)) + data


def new_connection_id(number, retire, cid):
    return b"\x18" + v(number) + v(retire) + bytes([len(cid)]) + cid + os.urandom(16)


def crypto(offset, data):
    return b"\x06" + v(offset) + v(len(data)) + data


def with_parameter(identifier, value):
    """Puts a parameter in place of the one that is there."""

    def change(parameters):
        return [one for one in parameters if one[0] != identifier] + [(identifier, value)]

    return change


def doubled(parameters):
    return parameters + parameters[:1]


def without_source(parameters):
    return [one for one in parameters if one[0] != 0x0F]


def without_extension(context):
    context.handshake_extensions = []


def with_legacy_session(context):
    context.legacy_session_id = os.urandom(32)


def parameter(section, name, identifier, value, expected=()):
    errors = ["TRANSPORT_PARAMETER_ERROR", *expected]
    return Case(section, name, errors, parameters=with_parameter(identifier, value))


PREFERRED_ADDRESS = b"\x7f\0\0\1\1\xbb" + bytes(18) + b"\x08" + bytes(8) + bytes(16)

PARAMETERS = [
    Case("RFC 9000 7.3", "initial_source_connection_id is missing", ["TRANSPORT_PARAMETER_ERROR"], parameters=without_source),
    parameter("RFC 9000 7.3", "initial_source_connection_id is another one", 0x0F, b"DUMMY"),
    parameter("RFC 9000 18.2", "original_destination_connection_id of a client", 0x00, b"DUMMY"),
    parameter("RFC 9000 18.2", "stateless_reset_token of a client", 0x02, bytes(16)),
    parameter("RFC 9000 18.2", "preferred_address of a client", 0x0D, PREFERRED_ADDRESS),
    parameter("RFC 9000 18.2", "retry_source_connection_id of a client", 0x10, b"DUMMY"),
    parameter("RFC 9000 18.2", "max_udp_payload_size is 1199", 0x03, v(1199)),
    parameter("RFC 9000 18.2", "ack_delay_exponent is 21", 0x0A, v(21)),
    parameter("RFC 9000 18.2", "max_ack_delay is 2^14", 0x0B, v(1 << 14)),
    parameter("RFC 9000 18.2", "active_connection_id_limit is 1", 0x0E, v(1)),
    parameter("RFC 9000 4.6", "initial_max_streams_bidi is 2^60 + 1", 0x08, v((1 << 60) + 1), ["FRAME_ENCODING_ERROR"]),
    parameter("RFC 9000 7.4", "a value with a byte too many", 0x01, v(30_000) + b"\0"),
    Case("RFC 9000 7.4", "a parameter comes twice", ["TRANSPORT_PARAMETER_ERROR"], parameters=doubled),
]

HANDSHAKE = [
    Case("RFC 9000 12.4", "PATH_CHALLENGE in a Handshake packet", ["PROTOCOL_VIOLATION"], level="handshake", frames=b"\x1a01234567"),
    Case("RFC 9000 12.4", "STREAM in a Handshake packet", ["PROTOCOL_VIOLATION"], level="handshake", frames=stream(0, 0, b"x")),
    Case("RFC 9000 12.4", "an application's CONNECTION_CLOSE in a Handshake packet", ["PROTOCOL_VIOLATION"], level="handshake", frames=b"\x1d\x40\x64\x00"),
    Case("RFC 9000 17.2", "reserved bits of a Handshake packet", ["PROTOCOL_VIOLATION"], level="handshake", frames=b"\x01", reserved=3),
    Case("RFC 9001 6", "KeyUpdate in a Handshake packet", ["alert 10"], level="handshake", frames=crypto(0, b"\x18\0\0\1\1")),
    Case("RFC 9001 6", "KeyUpdate in a 1-RTT packet", ["alert 10"], frames=crypto(0, b"\x18\0\0\1\1")),
    Case("RFC 9001 8.1", "no protocol in common", ["alert 120"], alpn="dummy"),
    Case("RFC 9001 8.2", "no quic_transport_parameters", ["alert 109"], tls=without_extension),
    Case("RFC 9001 8.3", "EndOfEarlyData", ["alert 10"], level="handshake", frames=crypto(0, b"\x05\0\0\0")),
    Case("RFC 9000 12.4", "CRYPTO in a 0-RTT packet", ["PROTOCOL_VIOLATION"], level="0rtt", frames=crypto(0, b"\x08\0\0\2\0\0")),
    Case("RFC 9000 12.4", "ACK in a 0-RTT packet", ["PROTOCOL_VIOLATION"], level="0rtt", frames=b"\x02\0\0\0\0"),
    Case("RFC 9001 8.4", "a legacy_session_id", ["PROTOCOL_VIOLATION", "alert 47"], tls=with_legacy_session),
]


def frames(section, name, expected, *all):
    return Case(section, name, expected.split(" or "), frames=b"".join(all))


# Stream 2 has a reserved type (RFC 9114 section 6.2.3), which no server reads; stream 3 is the server's.
FRAMES = [
    frames("RFC 9000 4.1", "STREAM far beyond the limit", "FLOW_CONTROL_ERROR", stream(0, 100_000_000, b"x")),
    frames("RFC 9000 4.6", "a stream beyond the limit", "STREAM_LIMIT_ERROR", stream(4_000_000_000, 0, b"x")),
    frames("RFC 9000 4.6", "a one-way stream beyond the limit", "STREAM_LIMIT_ERROR", stream(4_000_000_002, 0, b"x")),
    frames("RFC 9000 4.5", "two final sizes", "FINAL_SIZE_ERROR", b"\x04\x02\0\x0a", b"\x04\x02\0\x0b"),
    frames("RFC 9000 4.5", "a final size below what was sent", "FINAL_SIZE_ERROR", stream(2, 0, b"\x40\x21xyz"), b"\x04\x02\0\x02"),
    frames("RFC 9000 5.1.1", "more connection ids than the limit", "CONNECTION_ID_LIMIT_ERROR", *(new_connection_id(number, 0, os.urandom(8)) for number in range(8, 40))),
    frames("RFC 9000 7.5", "CRYPTO far ahead", "CRYPTO_BUFFER_EXCEEDED", crypto(10_000_000, b"x")),
    frames("RFC 9000 12.4", "a frame of unknown type", "FRAME_ENCODING_ERROR", b"\x20"),
    frames("RFC 9000 12.4", "a frame that is cut off", "FRAME_ENCODING_ERROR", b"\x0e\0\0\x40\x64x"),
    frames("RFC 9000 12.4", "no frames", "PROTOCOL_VIOLATION"),
    frames("RFC 9000 13.1", "ACK of a packet that was not sent", "PROTOCOL_VIOLATION", b"\x02" + v(1_000_000) + b"\0\0\0"),
    Case("RFC 9000 17.3.1", "reserved bits of a 1-RTT packet", ["PROTOCOL_VIOLATION"], frames=b"\x01", reserved=3),
    frames("RFC 9000 19.3.1", "ACK of negative packet numbers", "FRAME_ENCODING_ERROR", b"\x02\0\0\0\1"),
    frames("RFC 9000 19.4", "RESET_STREAM for a send-only stream", "STREAM_STATE_ERROR", b"\x04\x03\0\0"),
    frames("RFC 9000 19.5", "STOP_SENDING for a stream that does not exist", "STREAM_STATE_ERROR", b"\x05" + v(101) + b"\0"),
    frames("RFC 9000 19.5", "STOP_SENDING for a receive-only stream", "STREAM_STATE_ERROR", b"\x05\x02\0"),
    frames("RFC 9000 19.6", "CRYPTO beyond 2^62 - 1", "FRAME_ENCODING_ERROR or CRYPTO_BUFFER_EXCEEDED", crypto(MOST, b"xyz")),
    frames("RFC 9000 19.7", "NEW_TOKEN of a client", "PROTOCOL_VIOLATION", b"\x07\x05DUMMY"),
    frames("RFC 9000 19.8", "STREAM for a server's stream that does not exist", "STREAM_STATE_ERROR", stream(1, 0, b"x")),
    frames("RFC 9000 19.8", "STREAM for a send-only stream", "STREAM_STATE_ERROR", stream(3, 0, b"x")),
    frames("RFC 9000 19.8", "STREAM beyond 2^62 - 1", "FRAME_ENCODING_ERROR or FLOW_CONTROL_ERROR", stream(0, MOST, b"xyz")),
    frames("RFC 9000 19.10", "MAX_STREAM_DATA for a stream that does not exist", "STREAM_STATE_ERROR", b"\x11" + v(101) + v(1_000_000)),
    frames("RFC 9000 19.10", "MAX_STREAM_DATA for a receive-only stream", "STREAM_STATE_ERROR", b"\x11\x02" + v(1_000_000)),
    frames("RFC 9000 19.11", "MAX_STREAMS of 2^60 + 1", "FRAME_ENCODING_ERROR", b"\x12" + v((1 << 60) + 1)),
    frames("RFC 9000 19.13", "STREAM_DATA_BLOCKED for a send-only stream", "STREAM_STATE_ERROR", b"\x15\x03\0"),
    frames("RFC 9000 19.14", "STREAMS_BLOCKED of 2^60 + 1", "FRAME_ENCODING_ERROR or STREAM_LIMIT_ERROR", b"\x16" + v((1 << 60) + 1)),
    frames("RFC 9000 19.15", "NEW_CONNECTION_ID retires what comes later", "FRAME_ENCODING_ERROR", new_connection_id(9, 10, bytes(8))),
    frames("RFC 9000 19.15", "NEW_CONNECTION_ID without bytes", "FRAME_ENCODING_ERROR", new_connection_id(9, 0, b"")),
    frames("RFC 9000 19.15", "NEW_CONNECTION_ID of 21 bytes", "FRAME_ENCODING_ERROR", new_connection_id(9, 0, bytes(21))),
    # aioquic has sent one of this number.
    frames("RFC 9000 19.15", "two connection ids of one number", "PROTOCOL_VIOLATION", new_connection_id(1, 0, b"b" * 8)),
    frames("RFC 9000 19.16", "RETIRE_CONNECTION_ID of one that was not sent", "PROTOCOL_VIOLATION", b"\x19" + v(1000)),
    frames("RFC 9000 19.20", "HANDSHAKE_DONE of a client", "PROTOCOL_VIOLATION", b"\x1e"),
    # Without RFC 9221 the type is unknown.
    frames("RFC 9221 3", "DATAGRAM larger than the server takes", "PROTOCOL_VIOLATION or FRAME_ENCODING_ERROR", b"\x31\x44\x80" + bytes(1152)),
]

CASES = PARAMETERS + HANDSHAKE + FRAMES
