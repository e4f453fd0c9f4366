"""A WebSocket server that sends back what it gets, and clients that check it.

    websocket.py serve PORT
    websocket.py check URL CONNECTIONS
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


async def check(url, number):
    tls = None
    if url.startswith("wss:"):
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    async with websockets.connect(url, ssl=tls, max_size=None, open_timeout=60) as socket:
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


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(check_all(sys.argv[2], int(sys.argv[3])))
