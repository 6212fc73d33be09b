# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The handshake between ruedarun and a supervisor, written a second time from docs/design/0021-handshake.md. The tests
use it to speak with ruedarun, as a supervisor or as an attacker.

Usage as a program, on a test host:
- `handshake.py connect ADDRESS PORT SECRET` proves this secret, says that it is rank 0, and prints how ruedarun treats
  this peer.
- `handshake.py send ADDRESS PORT HEX` sends bytes.
- `handshake.py listen MODE ADDRESS FIRST LAST FILE` listens at the ports FIRST to LAST as an attacker does, and appends
  what it receives to the file.
"""

import contextlib
import functools
import hashlib
import hmac
import os
import selectors
import socket
import sys

MARK = b"rueda-proof\n"
CONNECTING, ACCEPTING = b"\1", b"\2"
PURPOSE = b"ruedarun and supervisor"
OPENING_BYTES = 48
ANSWER_BYTES = 80


def header(side):
    return (MARK + b"\1" + side).ljust(16, b"\0")


def code(secret, label, side, connecting_nonce, accepting_nonce):
    text = label + header(side) + connecting_nonce + accepting_nonce + PURPOSE
    return hmac.new(secret, text, hashlib.sha256).digest()


def frame(key, number, kind, value, payload):
    """Returns a frame with its authentication code."""
    head = b"".join(n.to_bytes(4, "little") for n in (0x72756502, kind, value, len(payload)))
    text = number.to_bytes(8, "little") + head + payload
    return head + payload + hmac.new(key, text, hashlib.sha256).digest()[:16]


def read_all(link, size):
    text = b""
    while len(text) < size:
        part = link.recv(size - len(text))
        if not part:
            break
        text += part
    return text


def prove(link, secret):
    """Proves the secret to ruedarun. Returns the key for frames to ruedarun, and whether ruedarun has proved that it
    also knows the secret."""
    nonce = os.urandom(32)
    link.sendall(header(CONNECTING) + nonce)
    answer = read_all(link, ANSWER_BYTES)
    other, proof = answer[16:48], answer[48:]
    link.sendall(code(secret, b"rueda proof 1\n", CONNECTING, nonce, other))
    key = code(secret, b"rueda key   1\n", CONNECTING, nonce, other)
    return key, hmac.compare_digest(proof, code(secret, b"rueda proof 1\n", ACCEPTING, nonce, other))


def is_closed(link):
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


def greet(link, secret):
    """Speaks as a supervisor of rank 0. Returns what happened."""
    key, is_proven = prove(link, secret)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # ruedarun may have closed the connection already
        link.sendall(frame(key, 0, 1, 0, b"host\n0\nkey\n"))
    return f"{'proven' if is_proven else 'not proven'}, {'closed' if is_closed(link) else 'open'}"


class Attacker:
    """Listens at many ports. `mode` says what the attacker does with each connection: stay silent, close it, reflect
    the bytes, or answer like a web server."""

    def __init__(self, mode, address, ports, file):
        self.mode = mode
        self.file = file
        self.received = []  # the bytes of each connection; several may be open at the same time
        self.selector = selectors.DefaultSelector()
        for port in ports:
            listener = socket.create_server((address, port))
            self.selector.register(listener, selectors.EVENT_READ, self.accept)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)

    def record(self):
        with open(self.file, "wb") as file:
            file.write(b"".join(b"[connection]" + text for text in self.received))

    def accept(self, listener):
        link, _ = listener.accept()
        received = bytearray()
        self.received.append(received)
        self.record()
        if self.mode == "close":
            link.close()
        else:
            self.selector.register(link, selectors.EVENT_READ, functools.partial(self.read, received))

    def read(self, received, link):
        try:
            text = link.recv(4096)
        except ConnectionResetError:
            text = b""
        received += text
        self.record()
        if not text:
            self.selector.unregister(link)
            link.close()
        elif self.mode == "reflect":
            link.sendall(text + bytes(32))
        elif self.mode == "web":
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100))


def main():
    what, *words = sys.argv[1:]
    if what == "listen":
        mode, address, first, last, file = words
        attacker = Attacker(mode, address, range(int(first), int(last) + 1), file)
        print("ready", flush=True)
        attacker.run()
    with socket.create_connection((words[0], int(words[1])), 20) as link:
        if what == "connect":
            print(greet(link, words[2].encode()))
        else:
            link.sendall(bytes.fromhex(words[2]))
            print("closed" if is_closed(link) else "open")


if __name__ == "__main__":
    main()
