"""A gRPC service on 127.0.0.1 for tests/tests/grpc.rs: messages are bytes, so
nothing is generated. Prints its port, then a line for each call that was cancelled.

    origin.py PORT [CERTIFICATE KEY]
"""

import hashlib
import sys
import time
from concurrent import futures

import grpc


def pattern(count, seed):
    """`count` bytes that differ with `seed`, quickly."""
    block = bytes((at * 31 + seed) % 251 for at in range(251 * 4))
    return (block * (count // len(block) + 1))[:count]


def echo_metadata(context):
    """What the client sent of x- and -bin fields comes back, first and last."""
    told = [
        (key, value)
        for key, value in context.invocation_metadata()
        if key.startswith("x-") or key == "te"
    ]
    context.send_initial_metadata(tuple((f"first-{k}", v) for k, v in told))
    context.set_trailing_metadata(tuple((f"last-{k}", v) for k, v in told))


def unary(request, context):
    echo_metadata(context)
    return request


def count(request, context):
    """So many messages of so many bytes."""
    messages, size = map(int, request.split())
    for number in range(messages):
        yield pattern(size, number)


def summarise(requests, context):
    """Number, bytes and hash of all messages."""
    digest, messages, size = hashlib.sha256(), 0, 0
    for request in requests:
        digest.update(request)
        messages += 1
        size += len(request)
    return f"{messages} {size} {digest.hexdigest()}".encode()


def chat(requests, context):
    """Answers each message at once."""
    for request in requests:
        yield b"re: " + request


def greet_first(requests, context):
    """Speaks before the client does, and then after each of its messages."""
    yield b"welcome"
    for request in requests:
        yield request


def fail(request, context):
    code, _, text = request.decode().partition(" ")
    context.set_trailing_metadata((("x-why-bin", b"\x00\xff\x01"),))
    context.abort(grpc.StatusCode[code], text)


def fail_midway(request, context):
    yield b"one"
    yield b"two"
    context.abort(grpc.StatusCode.DATA_LOSS, "lost the rest: \u00e4\n")


def stop_early(requests, context):
    """Answers after the first message, whatever else comes."""
    next(requests)
    return b"enough"


def wait_until_gone(context):
    # A callback is not always called.
    for _ in range(6000):
        if not context.is_active():
            return True
        time.sleep(0.02)
    return False


def hang(requests, context):
    """Says nothing until the client goes."""
    result = "cancelled"
    try:
        yield b"hanging"
        if not wait_until_gone(context):
            result = "waited in vain"
    finally:
        # Also when the call ends before this goes on behind `yield`. In one piece: print()
        # writes the line's end apart, and threads come between.
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()


def mute(request, context):
    """Never answers."""
    wait_until_gone(context)
    return b"late"


def who(request, context):
    """The other end of the connection, and who it says this is."""
    metadata = dict(context.invocation_metadata())
    return f"{context.peer()} {metadata.get('x-set', '-')}".encode()


HANDLERS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Who": grpc.unary_unary_rpc_method_handler(who),
    "Mute": grpc.unary_unary_rpc_method_handler(mute),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "FailMidway": grpc.unary_stream_rpc_method_handler(fail_midway),
    "Sum": grpc.stream_unary_rpc_method_handler(summarise),
    "StopEarly": grpc.stream_unary_rpc_method_handler(stop_early),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "GreetFirst": grpc.stream_stream_rpc_method_handler(greet_first),
    "Hang": grpc.stream_stream_rpc_method_handler(hang),
}

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=400), options=OPTIONS)
    service = grpc.method_handlers_generic_handler("test.Service", HANDLERS)
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{sys.argv[1]}"
    if len(sys.argv) > 2:
        certificate, key = (open(path, "rb").read() for path in sys.argv[2:])
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    server.start()
    print(port, flush=True)
    # Ends with its standard input, that is with the test.
    sys.stdin.read()
    server.stop(None)


main()
