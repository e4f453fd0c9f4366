"""Rules of RFC 9114, RFC 9204, RFC 9218, RFC 9220 and RFC 9297."""

from aioquic.buffer import encode_uint_var as v

from faults_case import Case

# A server has to allow three one-way streams, and may allow no more (RFC 9114 section 6.2).
REQUEST, CONTROL, ENCODER, DECODER, OTHER = 0, 2, 6, 6, 10
# Types of frames.
DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH = 0xF0700, 0xF0701
# What every connection begins with.
FIRST = [(CONTROL, b"\0\x04\0", False)]


def frame(kind, payload=b""):
    return v(kind) + v(len(payload)) + payload


def prefixed(bits, first, value):
    """An integer with a prefix (RFC 7541 section 5.1)."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out, value = [first | limit], value - limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def block(*fields):
    """A field section of literals alone (RFC 9204 section 4.5.6)."""
    out = b"\0\0"
    for name, value in fields:
        out += prefixed(3, 0x20, len(name)) + name.encode() + prefixed(7, 0, len(value)) + value.encode()
    return out


GET = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")]
POST = [(":method", "POST"), *GET[1:]]
CONNECT = [(":method", "CONNECT"), (":protocol", "websocket"), *GET[1:]]
HEAD = frame(HEADERS, block(*GET))


def on_request(section, name, expected, data, end=True):
    return Case(section, name, expected.split(" or "), streams=[*FIRST, (REQUEST, data, end)])


def malformed(section, name, *fields, body=b""):
    """RFC 9114 section 4.1.2 allows a response too."""
    data = frame(HEADERS, block(*fields)) + body
    return on_request(section, name, "H3_MESSAGE_ERROR or status 400", data)


def on_control(section, name, expected, data, end=False):
    return Case(section, name, expected.split(" or "), streams=[(CONTROL, b"\0" + data, end)])


def one_way(section, name, expected, *streams, resets=()):
    return Case(section, name, expected.split(" or "), streams=[*FIRST, *streams], resets=list(resets))


UNEXPECTED, FRAME_ERROR = "H3_FRAME_UNEXPECTED", "H3_FRAME_ERROR"
SECOND, CLOSED = "H3_STREAM_CREATION_ERROR", "H3_CLOSED_CRITICAL_STREAM"
NO_SETTINGS = frame(SETTINGS)
HTTP2_FRAMES = {"PRIORITY": 2, "PING": 6, "WINDOW_UPDATE": 8, "CONTINUATION": 9}

REQUESTS = [
    on_request("RFC 9114 4.1", "DATA before HEADERS", UNEXPECTED, frame(DATA, b"x") + HEAD),
    on_request("RFC 9114 4.1", "HEADERS after trailers", UNEXPECTED, frame(HEADERS, block(*POST)) + 2 * frame(HEADERS, block(("a", "b")))),
    on_request("RFC 9114 4.1", "DATA after trailers", UNEXPECTED, frame(HEADERS, block(*POST)) + frame(HEADERS, block(("a", "b"))) + frame(DATA, b"x")),
    Case("RFC 9114 4.1", "DATA after trailers that had to wait", [UNEXPECTED], streams=[
        *FIRST,
        (REQUEST, frame(HEADERS, block(*POST)) + frame(HEADERS, b"\x02\0\x80") + frame(DATA, b"x"), True),
        (ENCODER, b"\x02\x3f\xe1\x1f\x41a\x01b", False),
    ]),
    on_request("RFC 9114 4.1", "a request stream without a request", "H3_REQUEST_INCOMPLETE or status 400", b""),
    on_request("RFC 9114 7.1", "a frame that is cut off by the end of the stream", FRAME_ERROR, HEAD[:-2]),
    on_request("RFC 9114 7.2.3", "CANCEL_PUSH on a request stream", UNEXPECTED, frame(CANCEL_PUSH, b"\0") + HEAD),
    on_request("RFC 9114 7.2.4", "SETTINGS on a request stream", UNEXPECTED, NO_SETTINGS + HEAD),
    on_request("RFC 9114 7.2.5", "PUSH_PROMISE of a client", UNEXPECTED, frame(PUSH_PROMISE, b"\0" + block(*GET)) + HEAD),
    on_request("RFC 9114 7.2.6", "GOAWAY on a request stream", UNEXPECTED, frame(GOAWAY, b"\0") + HEAD),
    on_request("RFC 9114 7.2.7", "MAX_PUSH_ID on a request stream", UNEXPECTED, frame(MAX_PUSH_ID, b"\0") + HEAD),
    *(on_request("RFC 9114 7.2.8", f"{name} of HTTP/2 on a request stream", UNEXPECTED, frame(kind, bytes(5)) + HEAD) for name, kind in HTTP2_FRAMES.items()),
    on_request("RFC 9218 7.2", "PRIORITY_UPDATE on a request stream", UNEXPECTED, frame(PRIORITY_UPDATE, b"\0u=1") + HEAD),
]

MALFORMED = [
    malformed("RFC 9114 4.3", "a pseudo-header field comes twice", *GET, (":method", "GET")),
    malformed("RFC 9114 4.3", "an unknown pseudo-header field", *GET, (":foo", "bar")),
    malformed("RFC 9114 4.3", "a pseudo-header field after a field", *GET[:3], ("foo", "bar"), GET[3]),
    malformed("RFC 9114 4.3", "a pseudo-header field of responses", *GET, (":status", "200")),
    malformed("RFC 9114 4.3.1", "no :method", *GET[1:]),
    malformed("RFC 9114 4.3.1", "no :scheme", GET[0], *GET[2:]),
    malformed("RFC 9114 4.3.1", "no :path", *GET[:3]),
    malformed("RFC 9114 4.3.1", "neither :authority nor Host", *GET[:2], GET[3]),
    malformed("RFC 9114 4.3.1", "an empty :path", *GET[:3], (":path", "")),
    malformed("RFC 9114 4.3.1", "Host differs from :authority", *GET, ("host", "elsewhere.example")),
    malformed("RFC 9114 4.3", "a pseudo-header field in trailers", *POST, body=frame(HEADERS, block((":path", "/")))),
    malformed("RFC 9114 4.2", "a name in upper case", *GET, ("Foo", "bar")),
    malformed("RFC 9114 4.2", "Connection", *GET, ("connection", "close")),
    malformed("RFC 9114 4.2", "Transfer-Encoding", *GET, ("transfer-encoding", "chunked")),
    malformed("RFC 9114 4.2", "TE other than trailers", *GET, ("te", "gzip")),
    malformed("RFC 9114 4.1.2", "Content-Length is more than there is", *POST, ("content-length", "5"), body=frame(DATA, b"abc")),
    malformed("RFC 9114 4.1.2", "Content-Length is less than there is", *POST, ("content-length", "2"), body=frame(DATA, b"abc")),
    malformed("RFC 9114 4.4", "CONNECT with :path", (":method", "CONNECT"), *GET[1:]),
    malformed("RFC 9220 3", ":protocol without :path", *CONNECT[:4]),
    malformed("RFC 9220 3", ":protocol with GET", GET[0], (":protocol", "websocket"), *GET[1:]),
]

CONTROL_STREAM = [
    on_control("RFC 9114 6.2.1", "a control stream begins with another frame", "H3_MISSING_SETTINGS", frame(MAX_PUSH_ID, b"\1")),
    on_control("RFC 9114 7.2.1", "DATA on a control stream", UNEXPECTED, NO_SETTINGS + frame(DATA)),
    on_control("RFC 9114 7.2.2", "HEADERS on a control stream", UNEXPECTED, NO_SETTINGS + frame(HEADERS)),
    on_control("RFC 9114 7.2.5", "PUSH_PROMISE on a control stream", UNEXPECTED, NO_SETTINGS + frame(PUSH_PROMISE, b"\0\0\0")),
    on_control("RFC 9114 7.2.4", "SETTINGS come twice", UNEXPECTED, NO_SETTINGS + NO_SETTINGS),
    *(on_control("RFC 9114 7.2.8", f"{name} of HTTP/2 on a control stream", UNEXPECTED, NO_SETTINGS + frame(kind, bytes(5))) for name, kind in HTTP2_FRAMES.items()),
    *(on_control("RFC 9114 7.2.4.1", f"setting {number} of HTTP/2", "H3_SETTINGS_ERROR", frame(SETTINGS, bytes([number, 1]))) for number in range(2, 6)),
    on_control("RFC 9220 3", "SETTINGS_ENABLE_CONNECT_PROTOCOL is 2", "H3_SETTINGS_ERROR", frame(SETTINGS, b"\x08\x02")),
    on_control("RFC 9297 2.1.1", "SETTINGS_H3_DATAGRAM is 2", "H3_SETTINGS_ERROR", frame(SETTINGS, b"\x33\x02")),
    on_control("RFC 9114 7.1", "SETTINGS with half a setting", FRAME_ERROR, frame(SETTINGS, b"\x06")),
    on_control("RFC 9114 7.1", "MAX_PUSH_ID with a byte too many", FRAME_ERROR, NO_SETTINGS + frame(MAX_PUSH_ID, b"\1\1")),
    on_control("RFC 9114 7.2.7", "MAX_PUSH_ID gets smaller", "H3_ID_ERROR", NO_SETTINGS + frame(MAX_PUSH_ID, b"\x05") + frame(MAX_PUSH_ID, b"\x04")),
    on_control("RFC 9114 7.2.3", "CANCEL_PUSH beyond the limit", "H3_ID_ERROR", NO_SETTINGS + frame(CANCEL_PUSH, b"\x05")),
    on_control("RFC 9114 5.2", "GOAWAY gets larger", "H3_ID_ERROR", NO_SETTINGS + frame(GOAWAY, b"\x04") + frame(GOAWAY, b"\x08")),
    on_control("RFC 9218 7.2", "PRIORITY_UPDATE of a stream that no request has", "H3_ID_ERROR", NO_SETTINGS + frame(PRIORITY_UPDATE, b"\x02u=1")),
    on_control("RFC 9218 7.2", "PRIORITY_UPDATE of a push that was not promised", "H3_ID_ERROR", NO_SETTINGS + frame(PRIORITY_UPDATE_PUSH, b"\x05u=1")),
    on_control("RFC 9114 6.2.1", "the control stream is closed", CLOSED, NO_SETTINGS, end=True),
    one_way("RFC 9114 6.2.1", "the control stream is reset", CLOSED, resets=[CONTROL]),
    one_way("RFC 9114 6.2.1", "a second control stream", SECOND, (OTHER, b"\0\x04\0", False)),
    one_way("RFC 9114 6.2.2", "a push stream of a client", SECOND, (OTHER, b"\1\0", False)),
]

DECOMPRESSION, ENCODING, DECODING = "QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"
# Method, scheme and path, by indices of the static table.
INDEXED = b"\xd1\xd7\xc1"


def section(name, expected, data, part="RFC 9204 2.2.3"):
    return on_request(part, name, expected, frame(HEADERS, data))


QPACK = [
    section("static index 99", DECOMPRESSION, b"\0\0" + INDEXED + b"\xff\x24", "RFC 9204 3.1"),
    section("a dynamic index without an insert count", DECOMPRESSION, b"\0\0" + INDEXED + b"\x80"),
    section("an insert count that no table can have", DECOMPRESSION, b"\xff\xff\xff\x7f\0" + INDEXED, "RFC 9204 4.5.1.1"),
    section("a base below zero", DECOMPRESSION, b"\0\x85" + INDEXED, "RFC 9204 4.5.1.2"),
    section("a field section that is cut off", DECOMPRESSION, b"\0\0" + INDEXED + b"\x50\x09loc"),
    section("an integer too large", DECOMPRESSION, b"\0\0" + INDEXED + b"\xff" + 20 * b"\xff" + b"\x01", "RFC 9204 4.1.1"),
    section("a Huffman code with wrong padding", DECOMPRESSION, b"\0\0" + INDEXED + b"\x50\x81\x00", "RFC 9204 4.1.2"),
    one_way("RFC 9204 4.3.1", "a table capacity beyond the limit", ENCODING, (ENCODER, b"\x02\x3f\xe1\xc7\xaf\xa0\x25", False)),
    one_way("RFC 9204 2.2.3", "an entry that refers to none", ENCODING, (ENCODER, b"\x02\x00", False)),
    one_way("RFC 9204 3.1", "an entry named by static index 99", ENCODING, (ENCODER, b"\x02\xff\x24\x00", False)),
    one_way("RFC 9204 4.4.3", "an increment of zero", DECODING, (DECODER, b"\x03\0", False)),
    one_way("RFC 9204 4.4.3", "an increment beyond what was inserted", DECODING, (DECODER, b"\x03\x3e", False)),
    one_way("RFC 9204 4.4.1", "a section is acknowledged that was not sent", DECODING, (DECODER, b"\x03\x84", False)),
    one_way("RFC 9204 4.2", "the encoder stream is closed", CLOSED, (ENCODER, b"\x02", True)),
    one_way("RFC 9204 4.2", "the decoder stream is closed", CLOSED, (DECODER, b"\x03", True)),
    one_way("RFC 9204 4.2", "a second encoder stream", SECOND, (ENCODER, b"\x02", False), (OTHER, b"\x02", False)),
    one_way("RFC 9204 4.2", "a second decoder stream", SECOND, (DECODER, b"\x03", False), (OTHER, b"\x03", False)),
]

CASES = REQUESTS + MALFORMED + CONTROL_STREAM + QPACK
