#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes hosts for tests on one machine: network namespaces that a switch connects, each with its own host name and its
own /etc/hosts.

    with Hosts(2) as hosts:
        hosts.run(0, ["mpirun", "--host", "rueda-h0:1,rueda-h1:1", "hostname"])

A holder process keeps each host's namespaces alive. Holders end when the process of this module ends, for whatever
reason, so no interface and no file under /run/netns is left behind. Hosts have separate networks and names, but share
the machine's processes, files and memory. The module needs root (or its capabilities) and the tools ip, nsenter and
unshare.

Usage as a program: hosts.py [--hosts N] [--rate 1gbit] -- command … runs the command on host 0 and returns its exit
status, or 77 if this machine cannot create such hosts.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # CTest reports this exit status as "skipped"
PREFIX = "rueda-h"
SUBNET = "10.77.0"
LOOK = 0.1  # seconds between two checks whether Ctrl-C was pressed
PATIENCE = 15  # the number of seconds that a command has to end after Ctrl-C

# This script keeps a host's namespaces alive until the script's standard input ends. This happens at the latest when
# the process that started the script ends. Then the script ends all processes on the host and removes the folder $2.
# $3 is the machine's own network namespace, whose processes must not be ended.
HOLDER = """
network=$(readlink /proc/$$/ns/net)
[ -n "$network" ] && [ -n "$3" ] && [ "$network" != "$3" ] || exit 1
hostname "$1" && mount --bind "$2/hosts" /etc/hosts && echo ready || exit 1
read -r _
for process in /proc/[0-9]*; do
    if [ "${process#/proc/}" != $$ ] && [ "$(readlink "$process/ns/net")" = "$network" ]; then
        kill -9 "${process#/proc/}"
    fi
done
rm -rf "$2"
"""

# Replaces ssh: ignores ssh's options, takes the name of the host, and runs the rest of the command line on this host in
# the small environment of a login.
AGENT = """#!/bin/sh
while :; do
    case "$1" in
        -[bcDeFiIJLlmOopQRSWw]) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=$1
shift
pid=$(cat "{folder}/$host.pid") || {{ echo "no such test host: $host" >&2; exit 255; }}
exec nsenter --target "$pid" --net --uts --mount -- \\
    env -i HOME="$HOME" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$*"
"""


def why_not():
    """Returns the reason why this machine cannot create such hosts, or None."""
    for tool in ("ip", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "ip", "link", "add", "s", "type", "bridge"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return None if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()}"


def why_no_limits():
    """Returns the reason why this machine cannot limit the speed of the links, or None. Delays need no tc, because
    slow_wire.py makes them."""
    if shutil.which("tc") is None:
        return "there is no tc"
    shape = "tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 50ms"
    tried = subprocess.run(
        ["unshare", "--net", *shape.split()], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return None if tried.returncode == 0 else f"tc cannot limit a link here: {tried.stderr.strip()}"


class Hosts:
    """A group of hosts. Only one thread may use it. A closed group must not be used any more."""

    def __init__(self, count=2, rate=None, names=None, delay_ms=0, wire=False, burst="256kb"):
        self.names = names or [f"{PREFIX}{number}" for number in range(count)]
        self.addresses = [f"{SUBNET}.{number + 1}" for number in range(len(self.names))]
        self.rate = rate
        self.burst = burst  # how many bytes of a link that was idle pass without a limit
        self.delay_ms = delay_ms  # delay of each packet in each direction
        self.has_wire = wire or delay_ms > 0  # whether slow_wire.py forwards the packets, and not the kernel's bridge
        self.holders = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-hosts-"))
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _build(self):
        (self.folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(self.addresses, self.names))
        )
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.format(folder=self.folder))
        self.agent.chmod(0o755)
        # This folder contains the replacement of ssh under the name `ssh`. The folder is put into PATH.
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        (self.programs / "ssh").symlink_to(self.agent)
        switch = self._hold("rueda-switch")
        self._ip(switch, "link add s type bridge")
        self._ip(switch, "link set s up")
        for number, name in enumerate(self.names):
            pid = self._hold(name)
            for known in (name, self.addresses[number]):
                (self.folder / f"{known}.pid").write_text(f"{pid}\n")
            self._connect(number, pid, switch)
        if self.has_wire:
            self._start_wire(switch)

    def _start_wire(self, switch):
        ports = [f"p{number}" for number in range(len(self.names))]
        wire = [sys.executable, str(pathlib.Path(__file__).parent / "slow_wire.py"), str(self.delay_ms), *ports]
        process = subprocess.Popen(
            ["nsenter", "--target", str(switch), "--net", *wire],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.holders.append(process)
        self.wire = process
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the wire between the test hosts could not be made")

    def _hold(self, name):
        """Starts the holder process of a host. The holder ends when it is killed or when its standard input ends."""
        own_network = os.readlink("/proc/self/ns/net")
        holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", HOLDER, "sh", name, str(self.folder), own_network],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C must reach the command, but not the holders, because the command needs the hosts until the command
            # has ended.
            start_new_session=True,
        )
        self.holders.append(holder)
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"the test host {name} could not be made")
        self._ip(holder.pid, "link set lo up")
        return holder.pid

    @staticmethod
    def _ip(pid, words):
        subprocess.run(["nsenter", "--target", str(pid), "--net", "ip", *words.split()], check=True)

    def _connect(self, number, pid, switch):
        port = f"p{number}"
        self._ip(switch, f"link add {port} type veth peer name eth0 netns {pid}")
        self._ip(switch, f"link set {port} up" if self.has_wire else f"link set {port} master s up")
        self._ip(pid, f"address add {self.addresses[number]}/24 dev eth0")
        self._ip(pid, "link set eth0 up")
        if self.rate:
            shape = f"qdisc add dev eth0 root tbf rate {self.rate} burst {self.burst} latency 50ms"
            subprocess.run(["nsenter", "--target", str(pid), "--net", "tc", *shape.split()], check=True)

    def on_host(self, number, command, folder=None):
        """Returns the command line that runs `command` on a host, in `folder` (default: the current folder)."""
        # nsenter enters another mount namespace, so the script starts in the root folder. It then changes to `folder`.
        script = 'cd "$1" && shift && exec "$@"'
        enter = ["nsenter", "--target", str(self.holders[number + 1].pid), "--net", "--uts", "--mount", "--"]
        return [*enter, "sh", "-c", script, "sh", str(folder or os.getcwd()), *command]

    def environment(self):
        """Returns the environment variables with which launchers reach the hosts: the replacement of ssh, and the
        network."""
        network = f"{SUBNET}.0/24"
        return {
            "OMPI_MCA_plm_rsh_agent": str(self.agent),
            "OMPI_MCA_oob_tcp_if_include": network,
            "OMPI_MCA_btl_tcp_if_include": network,
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": str(self.agent),
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(self.agent),
            "TEST_HOSTS": ",".join(self.names),
        }

    def path_with_ssh(self):
        """Returns a PATH in which the program `ssh` is the replacement of ssh, for programs that call ssh
        themselves."""
        return f"{self.programs}:{os.environ['PATH']}"

    def popen(self, number, command, env=None, **options):
        env = {**(os.environ if env is None else env), **self.environment()}
        return subprocess.Popen(self.on_host(number, command, options.pop("cwd", None)), env=env, **options)

    def run(self, number, command, env=None, **options):
        env = {**(os.environ if env is None else env), **self.environment()}
        return subprocess.run(self.on_host(number, command, options.pop("cwd", None)), env=env, **options)

    def unplug(self, number):
        """Pulls the host's cable: from now on packets are lost, and no process is notified."""
        self._ip(self.holders[0].pid, f"link set p{number} nomaster down")

    def change_wire(self, command):
        """Sends slow_wire.py a command. The port of host number n is called "pn". The hosts must have been made
        with `wire` or with a delay."""
        self.wire.stdin.write(command + "\n")
        self.wire.stdin.flush()

    def processes(self):
        """Returns the processes on the hosts without the holders: {pid: command line}."""
        spaces = set()
        for holder in self.holders:
            with contextlib.suppress(OSError):
                spaces.add(os.readlink(f"/proc/{holder.pid}/ns/net"))
        spaces.discard(os.readlink("/proc/self/ns/net"))
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or any(int(entry.name) == holder.pid for holder in self.holders):
                continue
            try:
                if os.readlink(entry / "ns/net") in spaces:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass
        return found

    def wait_until_empty(self, seconds=10):
        """Waits until all processes on the hosts have ended. Returns those that still run after `seconds`."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def close(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
        self.holders = []
        shutil.rmtree(self.folder, ignore_errors=True)


def run_to_its_end(hosts, command):
    """Runs the command and returns its exit status as a shell would. After Ctrl-C, the command has some time to end."""
    ends = []  # for each Ctrl-C, the time at which the command will be killed

    # The signal handler must not raise an exception. Between waitpid() and the assignment of its result, an exception
    # would lose the exit status.
    before = signal.signal(signal.SIGINT, lambda *_: ends.append(time.monotonic() + (0 if ends else PATIENCE)))
    try:
        process = hosts.popen(0, command)
        while True:
            try:
                status = process.wait(LOOK)
                return status if status >= 0 else 128 - status
            except subprocess.TimeoutExpired:
                if ends and time.monotonic() >= ends[-1]:
                    process.kill()
    finally:
        signal.signal(signal.SIGINT, before)


def main():
    parser = argparse.ArgumentParser(description="Runs a command on the first of some test hosts.")
    parser.add_argument("--hosts", type=int, default=2, help="how many; they are called rueda-h0, rueda-h1, ...")
    parser.add_argument("--rate", help="of each host's link, as tc writes it: 1gbit")
    parser.add_argument("--burst", default="256kb", help="bytes that an idle link lets pass at once, as tc writes it")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    try:
        with Hosts(options.hosts, options.rate, burst=options.burst) as hosts:
            return run_to_its_end(hosts, options.command)
    except KeyboardInterrupt:  # Ctrl-C was pressed before the command started or after it ended
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
