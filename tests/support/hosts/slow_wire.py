#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A switch that delays packets, for kernels without a delaying queue (netem).

Usage: slow_wire.py MILLISECONDS PORT… Forwards each packet from one port to all other ports after the delay. Prints
"ready", and runs until it is killed.
"""

import collections
import contextlib
import select
import socket
import sys
import time

# The constants are from linux/if_packet.h and linux/if_ether.h.
SOL_PACKET = 263
# With this option, a socket receives packets in the kernel's form: with several segments in one packet, and without
# computed checksums.
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


def main():
    delay = float(sys.argv[1]) / 1000
    ports = [open_port(name) for name in sys.argv[2:]]
    late = collections.deque()  # the waiting packets, as (time of sending, port of arrival, packet)
    print("ready", flush=True)
    while True:
        wait = max(0, late[0][0] - time.monotonic()) if late else None
        for port in select.select(ports, [], [], wait)[0]:
            # recv() fails if there is no more packet, or if a cable was pulled
            with contextlib.suppress(BlockingIOError, OSError):
                while True:
                    late.append((time.monotonic() + delay, port, port.recv(LONGEST)))
        while late and late[0][0] <= time.monotonic():
            _, whence, packet = late.popleft()
            for port in ports:
                if port is not whence:
                    # A full queue loses the packet, as on a real wire.
                    with contextlib.suppress(BlockingIOError, OSError):
                        port.send(packet)


if __name__ == "__main__":
    main()
