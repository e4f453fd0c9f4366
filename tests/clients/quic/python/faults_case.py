"""What a case is, and names of errors."""

import dataclasses

# RFC 9000 section 20.1.
ERRORS = {
    0x00: "NO_ERROR",
    0x01: "INTERNAL_ERROR",
    0x02: "CONNECTION_REFUSED",
    0x03: "FLOW_CONTROL_ERROR",
    0x04: "STREAM_LIMIT_ERROR",
    0x05: "STREAM_STATE_ERROR",
    0x06: "FINAL_SIZE_ERROR",
    0x07: "FRAME_ENCODING_ERROR",
    0x08: "TRANSPORT_PARAMETER_ERROR",
    0x09: "CONNECTION_ID_LIMIT_ERROR",
    0x0A: "PROTOCOL_VIOLATION",
    0x0B: "INVALID_TOKEN",
    0x0C: "APPLICATION_ERROR",
    0x0D: "CRYPTO_BUFFER_EXCEEDED",
    0x0E: "KEY_UPDATE_ERROR",
    0x0F: "AEAD_LIMIT_REACHED",
    0x10: "NO_VIABLE_PATH",
    0x11: "VERSION_NEGOTIATION_ERROR",
}
# RFC 9114 section 8.1, RFC 9204 section 6.
APPLICATION = {
    0x100: "H3_NO_ERROR",
    0x101: "H3_GENERAL_PROTOCOL_ERROR",
    0x102: "H3_INTERNAL_ERROR",
    0x103: "H3_STREAM_CREATION_ERROR",
    0x104: "H3_CLOSED_CRITICAL_STREAM",
    0x105: "H3_FRAME_UNEXPECTED",
    0x106: "H3_FRAME_ERROR",
    0x107: "H3_EXCESSIVE_LOAD",
    0x108: "H3_ID_ERROR",
    0x109: "H3_SETTINGS_ERROR",
    0x10A: "H3_MISSING_SETTINGS",
    0x10B: "H3_REQUEST_REJECTED",
    0x10C: "H3_REQUEST_CANCELLED",
    0x10D: "H3_REQUEST_INCOMPLETE",
    0x10E: "H3_MESSAGE_ERROR",
    0x10F: "H3_CONNECT_ERROR",
    0x110: "H3_VERSION_FALLBACK",
    0x200: "QPACK_DECOMPRESSION_FAILED",
    0x201: "QPACK_ENCODER_STREAM_ERROR",
    0x202: "QPACK_DECODER_STREAM_ERROR",
}


@dataclasses.dataclass
class Case:
    section: str
    name: str
    # Names of errors; TLS alerts as "alert 10".
    expected: list
    # Where `frames` are sent: 1rtt, handshake (instead of Finished), 0rtt.
    level: str = "1rtt"
    frames: bytes | None = None
    # The reserved bits of the packet's header.
    reserved: int = 0
    # Stream, bytes, whether it ends: sent before `frames`.
    streams: list = dataclasses.field(default_factory=list)
    # Streams that are reset after that.
    resets: list = dataclasses.field(default_factory=list)
    # Changes the list of transport parameters: identifiers and values.
    parameters: object = None
    # Changes aioquic's TLS context.
    tls: object = None
    alpn: str = "h3"

    def allowed(self):
        """Generic codes can always be used (RFC 9000 section 11, RFC 9001 section 4.8, RFC 9114
        section 8)."""
        first = self.expected[0]
        if first.startswith("alert"):
            generic = ["alert 40", "alert 80", "PROTOCOL_VIOLATION", "INTERNAL_ERROR"]
        elif first.startswith(("H3_", "QPACK_")):
            generic = ["H3_GENERAL_PROTOCOL_ERROR", "H3_INTERNAL_ERROR"]
        else:
            generic = ["PROTOCOL_VIOLATION", "INTERNAL_ERROR"]
        return self.expected + generic

    def without_fault(self):
        return Case(self.section, self.name, self.expected)
