#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A switch that delays and loses packets. It is for kernels that do not have netem, a queue for this purpose.

Usage: slow_wire.py MILLISECONDS PORT… Forwards each packet from one port to all other ports after the delay. Prints
"ready", and runs until it is killed. Each line of its standard input changes the wire:

    delay MILLISECONDS   of the packets that arrive from now on
    loss PERCENT         of the packets, chosen at random, are lost
    cut FROM TO          packets from one port to another one are lost, but not those in the other direction
    mend                 no packet is lost any more
"""

import collections
import contextlib
import os
import random
import select
import socket
import sys
import time

# The constants are from linux/if_packet.h and linux/if_ether.h.
SOL_PACKET = 263
# With this option, a socket receives packets as the kernel handles them: several segments may be in one packet, and
# checksums may not be computed yet.
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
LONGEST = 1 << 17


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    port.bind((name, ETH_P_ALL))
    port.setblocking(False)
    return port


class Wire:
    """The state of the wire: its delay in seconds, and which packets it loses."""

    def __init__(self, delay):
        self.delay = delay
        self.loss = 0.0  # the part of all packets that is lost
        self.cuts = set()  # pairs of the ports (from, to) between which all packets are lost

    def obey(self, line):
        match line.split():
            case ["delay", milliseconds]:
                self.delay = float(milliseconds) / 1000
            case ["loss", percent]:
                self.loss = float(percent) / 100
            case ["cut", whence, whither]:
                self.cuts.add((whence, whither))
            case ["mend"]:
                self.loss = 0.0
                self.cuts.clear()
            case _:
                raise ValueError(f"slow_wire.py: unknown command {line!r}")

    def loses(self, whence, whither):
        return (whence, whither) in self.cuts or random.random() < self.loss


def main():
    wire = Wire(float(sys.argv[1]) / 1000)
    ports = {open_port(name): name for name in sys.argv[2:]}
    late = collections.deque()  # the waiting packets, as (time of sending, port of arrival, packet)
    commands = [sys.stdin]
    print("ready", flush=True)
    while True:
        wait = max(0, late[0][0] - time.monotonic()) if late else None
        for ready in select.select([*ports, *commands], [], [], wait)[0]:
            if ready is sys.stdin:
                # os.read() does not buffer, so no line is left in a buffer that select() cannot see.
                text = os.read(ready.fileno(), 4096).decode()
                for line in text.splitlines():
                    wire.obey(line)
                commands = commands if text else []
                continue
            # recv() fails if there is no more packet, or if a cable was pulled
            with contextlib.suppress(BlockingIOError, OSError):
                while True:
                    late.append((time.monotonic() + wire.delay, ready, ready.recv(LONGEST)))
        while late and late[0][0] <= time.monotonic():
            _, whence, packet = late.popleft()
            for port, name in ports.items():
                if port is not whence and not wire.loses(ports[whence], name):
                    # A full queue loses the packet, as on a real wire.
                    with contextlib.suppress(BlockingIOError, OSError):
                        port.send(packet)


if __name__ == "__main__":
    main()
