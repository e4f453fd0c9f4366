"""A WebSocket server that sends back what it gets, and clients that check it.

    websocket.py serve PORT
    websocket.py check URL CONNECTIONS
    websocket.py numbered URL CONNECTIONS NUMBERS

numbered sends numbers until standard input ends and expects each back, in order; after so many
of them a connection closes and is opened again. It prints "begun" when the first came back, and
in the end how many did and how many connections broke.
"""

import asyncio
import hashlib
import ssl
import sys

import websockets

SIZES = [0, 1, 125, 126, 65535, 65536, 1_000_000]


async def echo(socket, _path=None):
    async for message in socket:
        await socket.send(message)


async def serve(port):
    async with websockets.serve(echo, "127.0.0.1", port, max_size=None):
        await asyncio.Future()


def connect(url):
    tls = None
    if url.startswith("wss:"):
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return websockets.connect(url, ssl=tls, max_size=None, open_timeout=60, ping_interval=None)


async def check(url, number):
    async with connect(url) as socket:
        for size in SIZES:
            seed = hashlib.sha256(f"{number} {size}".encode()).digest()
            message = (seed * (size // 32 + 1))[:size]
            await socket.send(message)
            assert await socket.recv() == message, f"{size} bytes on connection {number}"
        await socket.send(f"text {number}")
        assert await socket.recv() == f"text {number}"
        pong = await socket.ping()
        await asyncio.wait_for(pong, 60)
    assert socket.close_code == 1000, socket.close_code


async def check_all(url, connections):
    await asyncio.gather(*(check(url, number) for number in range(connections)))
    print("good", connections)


class Numbers:
    def __init__(self, count):
        self.count = count
        self.stop = False
        self.good = 0
        self.broken = 0
        self.refused = 0
        self.wrong = 0

    async def send(self, url):
        while not self.stop:
            try:
                await self.send_on_one(url)
            except ConnectionRefusedError as error:
                self.refused += 1
                await self.after(error)
            except AssertionError as error:
                self.wrong += 1
                await self.after(error)
            except Exception as error:  # whatever ends a connection
                self.broken += 1
                await self.after(error)

    async def after(self, error):
        print(f"numbered: {error!r}", file=sys.stderr)
        await asyncio.sleep(0.01)

    async def send_on_one(self, url):
        async with connect(url) as socket:
            for number in range(self.count):
                if self.stop:
                    break
                await socket.send(str(number))
                answer = await asyncio.wait_for(socket.recv(), 60)
                assert answer == str(number), f"{answer} instead of {number}"
                self.good += 1
                if self.good == 1:
                    print("begun", flush=True)
                await asyncio.sleep(0.02)
        if socket.close_code != 1000:
            raise ConnectionError(f"closed with {socket.close_code}")


async def numbered(url, connections, count):
    numbers = Numbers(count)
    all_of_them = asyncio.gather(*(numbers.send(url) for _ in range(connections)))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    numbers.stop = True
    await all_of_them
    print(
        f"requests {numbers.good} connections {connections} refused {numbers.refused} "
        f"broken {numbers.broken} wrong {numbers.wrong}"
    )


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
elif sys.argv[1] == "numbered":
    asyncio.run(numbered(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
else:
    asyncio.run(check_all(sys.argv[2], int(sys.argv[3])))
