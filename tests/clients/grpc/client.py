"""A gRPC client for tests/tests/grpc.rs. Each case is checked here; what it returns
is printed, and the first failure ends it with status 1.

    client.py ADDRESS AUTHORITY.pem|- CASE...
"""

import hashlib
import queue
import sys
import threading
import time

import grpc

PATIENCE_S = 90


def pattern(count, seed):
    block = bytes((at * 31 + seed) % 251 for at in range(251 * 4))
    return (block * (count // len(block) + 1))[:count]


OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
]


class Service:
    def __init__(self, address, authority):
        if authority == "-":
            self.channel = grpc.insecure_channel(address, options=OPTIONS)
        else:
            with open(authority, "rb") as file:
                credentials = grpc.ssl_channel_credentials(file.read())
            self.channel = grpc.secure_channel(address, credentials, options=OPTIONS)

    def unary(self, name):
        return self.channel.unary_unary(f"/test.Service/{name}")

    def server_stream(self, name):
        return self.channel.unary_stream(f"/test.Service/{name}")

    def client_stream(self, name):
        return self.channel.stream_unary(f"/test.Service/{name}")

    def both(self, name):
        return self.channel.stream_stream(f"/test.Service/{name}")


def same(found, expected):
    if found != expected:
        found, expected = repr(found)[:300], repr(expected)[:300]
        raise AssertionError(f"{found} instead of {expected}")


def error_of(call):
    try:
        answer = call()
        if hasattr(answer, "__next__"):
            list(answer)
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call succeeded")


def unary(service):
    for size in [0, 1, 100, 16_384, 70_000]:
        message = pattern(size, size)
        same(service.unary("Unary")(message, timeout=PATIENCE_S), message)


def large(service):
    for size in [4 << 20, 20 << 20]:
        message = pattern(size, 3)
        same(service.unary("Unary")(message, timeout=PATIENCE_S) == message, True)


def metadata(service):
    sent = (
        ("x-text", "plain, with a comma"),
        ("x-many", "one"),
        ("x-many", "two"),
        ("x-data-bin", bytes(range(256))),
        ("x-empty-bin", b""),
    )
    call = service.unary("Unary").with_call
    _, call = call(b"m", metadata=sent, timeout=PATIENCE_S)
    first = [(k, v) for k, v in call.initial_metadata() if k.startswith("first-")]
    last = [(k, v) for k, v in call.trailing_metadata() if k.startswith("last-")]
    same(sorted(first), sorted((f"first-{k}", v) for k, v in sent))
    same(sorted(last), sorted((f"last-{k}", v) for k, v in sent))


def server_stream(service):
    for messages, size in [(0, 0), (1, 5), (1000, 100), (40, 300_000)]:
        request = f"{messages} {size}".encode()
        answers = service.server_stream("Count")(request, timeout=PATIENCE_S)
        seen = 0
        for number, answer in enumerate(answers):
            same(answer == pattern(size, number), True)
            seen += 1
        same(seen, messages)


def client_stream(service):
    for messages, size in [(0, 0), (1, 5), (1000, 100), (40, 300_000)]:
        digest = hashlib.sha256()

        def requests():
            for number in range(messages):
                message = pattern(size, number)
                digest.update(message)
                yield message

        answer = service.client_stream("Sum")(requests(), timeout=PATIENCE_S)
        same(answer.decode(), f"{messages} {messages * size} {digest.hexdigest()}")


class Outbox:
    """Messages that are sent when they are put in."""

    def __init__(self):
        self.queue = queue.Queue()

    def __iter__(self):
        return iter(self.queue.get, None)

    def put(self, message):
        self.queue.put(message)


def chat(service):
    """Each message is sent only after the answer to the one before has come."""
    outbox = Outbox()
    answers = service.both("Chat")(iter(outbox), timeout=PATIENCE_S)
    for number in range(100):
        message = pattern(number * 37, number)
        outbox.put(message)
        same(next(answers), b"re: " + message)
    outbox.put(None)
    same(list(answers), [])


def flood_both_ways(service):
    """Sends without waiting while answers come."""
    messages, size = 60, 200_000

    def requests():
        for number in range(messages):
            yield pattern(size, number)

    answers = service.both("Chat")(requests(), timeout=PATIENCE_S)
    seen = 0
    for number, answer in enumerate(answers):
        same(answer == b"re: " + pattern(size, number), True)
        seen += 1
    same(seen, messages)


def greet_first(service):
    """The server speaks before the client has sent a message."""
    outbox = Outbox()
    answers = service.both("GreetFirst")(iter(outbox), timeout=PATIENCE_S)
    same(next(answers), b"welcome")
    outbox.put(b"thanks")
    same(next(answers), b"thanks")
    outbox.put(None)
    same(list(answers), [])


def errors(service):
    for code in ["NOT_FOUND", "UNAUTHENTICATED", "INTERNAL", "RESOURCE_EXHAUSTED"]:
        text = "no such thing: \u00fc 100%"
        error = error_of(lambda: service.unary("Fail")(f"{code} {text}".encode()))
        same(error.code(), grpc.StatusCode[code])
        same(error.details(), text)
        same(dict(error.trailing_metadata()).get("x-why-bin"), b"\x00\xff\x01")
    answers = service.server_stream("FailMidway")(b"", timeout=PATIENCE_S)
    same([next(answers), next(answers)], [b"one", b"two"])
    error = error_of(lambda: answers)
    same(error.code(), grpc.StatusCode.DATA_LOSS)
    same(error.details(), "lost the rest: \u00e4\n")
    error = error_of(lambda: service.unary("Nothing")(b"", timeout=PATIENCE_S))
    same(error.code(), grpc.StatusCode.UNIMPLEMENTED)


def early(service):
    """The answer comes while the client would go on sending."""

    def requests():
        for number in range(100_000):
            yield pattern(1000, number)

    for _ in range(20):
        same(service.client_stream("StopEarly")(requests(), timeout=PATIENCE_S), b"enough")


def cancel(service):
    """Cancels one call by hand, and one by its deadline."""
    outbox = Outbox()
    answers = service.both("Hang")(iter(outbox), timeout=PATIENCE_S)
    same(next(answers), b"hanging")
    answers.cancel()
    outbox.put(None)
    outbox = Outbox()
    error = error_of(lambda: service.both("Hang")(iter(outbox), timeout=1))
    same(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
    outbox.put(None)


def many(service):
    """Calls of all kinds at the same time."""
    failures = []

    def calls(worker):
        try:
            for round in range(3):
                seed = worker * 3 + round
                message = pattern(worker * 101 % 50_000, seed)
                same(service.unary("Unary")(message, timeout=PATIENCE_S) == message, True)
                size = worker * 13 % 9000
                answers = service.server_stream("Count")(
                    f"5 {size}".encode(), timeout=PATIENCE_S
                )
                same([len(a) for a in answers], [size] * 5)
                messages = [pattern(100 * n, seed) for n in range(5)]
                answers = service.both("Chat")(iter(messages), timeout=PATIENCE_S)
                same(list(answers), [b"re: " + m for m in messages])
        except Exception as error:  # told to the main thread
            failures.append(repr(error)[:500])

    workers = [threading.Thread(target=calls, args=(n,)) for n in range(300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    same(failures, [])


def who(service):
    """The connections that ten calls, one after the other, come by."""
    answers = [service.unary("Who")(b"", timeout=PATIENCE_S).decode() for _ in range(10)]
    return "\n".join(answers)


def who_after_cancel(service):
    """The same, each after a call that was cancelled."""
    answers = []
    for _ in range(5):
        outbox = Outbox()
        hanging = service.both("Hang")(iter(outbox), timeout=PATIENCE_S)
        same(next(hanging), b"hanging")
        hanging.cancel()
        outbox.put(None)
        answers.append(service.unary("Who")(b"", timeout=PATIENCE_S).decode())
    return "\n".join(answers)


def ended(service, name, *arguments):
    error = error_of(lambda: service(name)(*arguments, timeout=PATIENCE_S))
    return f"{error.code().name}: {error.details()}"


def unary_fails(service):
    return ended(service.unary, "Unary", b"x")


def fail_fails(service):
    return ended(service.unary, "Fail", b"ABORTED not seen")


def mute_fails(service):
    return ended(service.unary, "Mute", b"x")


def hang_fails(service):
    """After its first message."""
    outbox = Outbox()
    result = ended(service.both, "Hang", iter(outbox))
    outbox.put(None)
    return result


def hang_fails_while_sending(service):
    """The client goes on speaking to a server that is silent."""

    def requests():
        for number in range(10 * PATIENCE_S):
            yield b"still here"
            time.sleep(0.1)

    return ended(service.both, "Hang", requests())


def main():
    address, authority, *cases = sys.argv[1:]
    service = Service(address, authority)
    for case in cases:
        try:
            result = globals()[case](service)
        except Exception as error:
            print(f"{case}: {error}", file=sys.stderr)
            sys.exit(1)
        print(result if result is not None else f"ok {case}", flush=True)


main()
