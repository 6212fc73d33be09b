# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes the data with which ranks on several hosts connect to each other without a launcher: a list of addresses of
rank 0's host, and a secret (docs/design/0026-rendezvous-without-mpi.md).
"""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import socket
import struct
from collections.abc import Iterator

# The largest number of addresses in RUEDA_RENDEZVOUS.
_MOST_ADDRESSES = 16
_SIOCGIFADDR = 0x8915


class TcpOffer:
    """A reserved port of this host, with the addresses of the host.

    A socket that is bound and does not listen reserves the port. While this socket is open, Linux does not give the
    port to a program that asks for any free port. Rueda itself can listen at the port.
    """

    def __init__(self) -> None:
        self._socket = _bound_socket()
        port = self._socket.getsockname()[1]
        self.rendezvous = "tcp:" + ",".join(f"{address}:{port}" for address in _addresses())
        self.secret = secrets.token_hex(16)

    def close(self) -> None:
        """Gives the port back."""
        self._socket.close()


def _bound_socket() -> socket.socket:
    for family in (socket.AF_INET6, socket.AF_INET):
        with contextlib.suppress(OSError):  # this host has no IPv6
            bound = socket.socket(family, socket.SOCK_STREAM)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind(("", 0))
            return bound
    raise RuntimeError("its host has no free TCP port")


def _addresses() -> list[str]:
    """Returns the numeric addresses of this host, as they stand in RUEDA_RENDEZVOUS. Loopback addresses come
    last, because another host that uses a loopback address connects to itself.
    """
    found = [*_addresses_of_version_4(), *(f"[{address}]" for address in _addresses_of_version_6())]
    return sorted(found, key=_is_loopback)[:_MOST_ADDRESSES]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "[::1]"


def _addresses_of_version_4() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # the interface has no address
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                yield socket.inet_ntoa(answer[20:24])


def _addresses_of_version_6() -> Iterator[str]:
    """Yields the addresses except the link-local ones, which are valid only together with the name of an interface."""
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as lines:
        for line in lines:
            digits = line.split()[0]
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            if not address.startswith("fe8"):
                yield address
