# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests jobs on several hosts that ruedarun starts without MPI (`ruedarun --no-mpi -H a:2,b:2`): all operations, the
end of ranks and of hosts, and the messages of ruedarun if UCX or ssh does not work. In these tests, ssh is a script
that runs its command on the test host.

The environment variables are those of hosts_job.py and test_notifications.py; CONFORMANCE names mpi_conformance.
"""

import os
import pathlib
import pty
import re
import signal
import sys
import threading
import unittest

import test_notifications
from hosts_job import ENVIRONMENT, HAS_UCX, HOSTS_RANK, test_hosts
from test_conformance import lines_of

RUEDARUN = test_notifications.RUEDARUN
CONFORMANCE = os.environ["CONFORMANCE"]
TWO_HOSTS = ["--no-mpi", "-H", "rueda-h0:2,rueda-h1:2"]
NO_PLUGIN = "/nowhere/librueda_ucx.so"


class WithoutMpi(test_notifications.NotificationTest):
    """A job on hosts of its own."""

    count = 2

    def setUp(self):
        super().setUp()
        self.hosts = test_hosts.Hosts(self.count)
        self.addCleanup(self.hosts.close)

    def popen(self, command, env, **options):
        return self.hosts.popen(0, command, env={**env, "PATH": self.hosts.path_with_ssh()}, **options)

    def output_of(self, words, program, status=0, **settings):
        job = self.start(words, program, **settings)
        output, _ = job.communicate(timeout=400)
        self.assertEqual(job.returncode, status, output)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")
        return output


class Operations(WithoutMpi):
    count = 3

    def layout(self, *layout, **settings):
        hosts = ",".join(f"rueda-h{host}:{ranks}" for host, ranks in enumerate(layout))
        output = self.output_of(["--no-mpi", "-H", hosts], [HOSTS_RANK, "layout"], **settings)
        self.assertEqual(sorted(re.sub(r"^\[\d+\] ", "", line) for line in output.splitlines()), lines_of(layout))

    def test_the_ranks_of_several_hosts_meet(self):
        self.layout(1, 1)
        self.layout(2, 1, 2)
        # With RUEDA_LEADER_SOCKETS=0, the leaders have no connections of their own, so all messages go over UCX.
        self.layout(2, 2, RUEDA_LEADER_SOCKETS="0")

    def test_all_ranks_may_be_on_other_hosts(self):
        output = self.output_of(["--no-mpi", "-H", "rueda-h1:1,rueda-h2:1"], [HOSTS_RANK, "layout"])
        self.assertEqual(sorted(re.sub(r"^\[\d+\] ", "", line) for line in output.splitlines()), lines_of((1, 1)))

    def test_all_operations(self):
        self.output_of(TWO_HOSTS, [CONFORMANCE])

    def test_no_rank_loads_mpi(self):
        job = self.start(TWO_HOSTS, [HOSTS_RANK, "leave", self.folder])
        self.wait_until(lambda: self.is_running(4), job)
        for rank in range(4):
            maps = pathlib.Path(f"/proc/{self.lines(rank)[0].split()[1]}/maps").read_text()
            names = {line.rpartition("/")[2] for line in maps.splitlines() if "/" in line}
            self.assertEqual([name for name in names if re.match("lib.*(mpi|rte|pal)[._]", name)], [])
            self.assertTrue(any(name.startswith("libucp.so") for name in names), names)
        (self.folder / "go").write_text("")
        self.assertEqual(self.finish(job), [])
        self.assertEqual(job.returncode, 0)

    def test_ranks_get_their_variables(self):
        # The environment of the ranks may contain only one secret of the job: RUEDA_RENDEZVOUS_SECRET, with which the
        # ranks recognise each other. RUEDARUN_CONTROL contains another secret, so the ranks must not have it.
        script = (
            'echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $RUEDA_RANK/$RUEDA_SIZE $MODE $(hostname) $PWD '
            '${RUEDARUN_CONTROL-none} ${RUEDARUN_RANK-none} ${#RUEDA_RENDEZVOUS_SECRET} ${MASTER_PORT:+port}"'
        )
        output = self.output_of([*TWO_HOSTS, "-x", "MODE=a b"], ["sh", "-c", script])
        expected = [
            f"[{rank}] {rank} {rank % 2} 2 {rank // 2} {rank}/4 a b rueda-h{rank // 2} {self.folder} none none 32 port"
            for rank in range(4)
        ]
        self.assertEqual(sorted(output.splitlines()), expected)

    def test_the_folder_of_the_ranks_is_in_their_environment(self):
        output = self.output_of(TWO_HOSTS, ["printenv", "PWD"])
        self.assertEqual(sorted(output.splitlines()), [f"[{rank}] {self.folder}" for rank in range(4)])

    def test_rank_0_does_not_read_the_terminal(self):
        # The ranks are in the background of the terminal, so the kernel would stop rank 0 when it reads the terminal.
        script = '[ "$RANK" != 0 ] || { cat; echo "the input has ended"; }'
        command = [RUEDARUN, *TWO_HOSTS, "sh", "-c", script]
        environment = {**ENVIRONMENT, **self.hosts.environment(), "PATH": self.hosts.path_with_ssh()}
        words = self.hosts.on_host(0, command, self.folder)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(words[0], words, environment)
        killer = threading.Timer(test_notifications.TIMEOUT, os.kill, (pid, signal.SIGKILL))
        killer.start()
        shown = b""
        try:
            while piece := os.read(terminal, 65536):
                shown += piece
        except OSError:  # on Linux, read() fails with this error when the other end of a terminal is closed
            pass
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killer.cancel()
        self.assertEqual(status, 0, shown.decode())
        self.assertIn("the input has ended", shown.decode())
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")


class Ends(WithoutMpi):
    KILLED = r"rank {rank} on rueda-h1 \(pid {pid}\) was killed by signal 9 \(Killed\)"

    def test_a_rank_is_killed(self):
        self.end_of_a_rank(TWO_HOSTS, 4, signal.SIGKILL, self.KILLED, mode="steps")
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    def test_a_rank_does_not_join_again(self):
        self.rank_that_does_not_come(["--no-mpi", "-H", "rueda-h0:1,rueda-h1:1"], 2, "again", where=" on rueda-h1")
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    expect_end = test_notifications.EndsOfJobs.expect_end

    def test_a_host_is_cut_off(self):
        job = self.start(TWO_HOSTS, [HOSTS_RANK, "steps", self.folder])
        self.wait_until(lambda: self.is_running(4), job)
        (self.folder / "done").write_text("")
        self.hosts.unplug(1)
        cause = r"host rueda-h1 \(ranks 2, 3\) has not answered for \d+\.\d s: it was cut off"
        self.expect_end(job, (0, 1), cause, test_notifications.EndsOfJobs.LIMIT_AFTER_CUT)
        self.check_seconds_of_silence("\n".join(self.lines(0)), test_notifications.HOST_TIMEOUT)

    def test_ruedarun_is_killed(self):
        job = self.start(TWO_HOSTS, [HOSTS_RANK, "steps", self.folder])
        self.wait_until(lambda: self.is_running(4), job)
        job.kill()
        job.communicate(timeout=test_notifications.TIMEOUT)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")


class Refusals(WithoutMpi):
    def test_there_is_no_plugin_for_ucx(self):
        output = self.output_of(TWO_HOSTS, [HOSTS_RANK, "layout"], status=2, RUEDA_UCX_PLUGIN=NO_PLUGIN)
        self.assertIn(
            "the ranks run on several hosts and meet without MPI, so their data goes over UCX, and UCX cannot be used: "
            f"rank 0: the UCX plugin '{NO_PLUGIN}' cannot be loaded: ",
            output,
        )
        self.assertIn("install UCX and the plugin librueda_ucx.so on every host", output)

    def test_one_host_has_no_plugin_for_ucx(self):
        script = f'[ "$GROUP_RANK" = 0 ] || export RUEDA_UCX_PLUGIN={NO_PLUGIN}; exec "$@"'
        output = self.output_of(TWO_HOSTS, ["sh", "-c", script, "sh", HOSTS_RANK, "layout"], status=2)
        self.assertIn(f"UCX cannot be used: rank 2: the UCX plugin '{NO_PLUGIN}' cannot be loaded: ", output)

    def test_ssh_does_not_work(self):
        (self.hosts.programs / "ssh").unlink()
        (self.hosts.programs / "ssh").write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
        (self.hosts.programs / "ssh").chmod(0o755)
        output = self.output_of(TWO_HOSTS, [HOSTS_RANK, "layout"], status=127)
        self.assertIn("Permission denied (publickey).", output)
        self.assertRegex(
            output.splitlines()[-1],
            "rank 2 on rueda-h1 could not be started: ssh to 'rueda-h1' ended with exit status 255 before the rank's "
            "supervisor had reported; check that ssh reaches the host without a question",
        )

    def test_there_is_no_ssh(self):
        job = self.start_command(["env", "PATH=/nowhere", RUEDARUN, *TWO_HOSTS, HOSTS_RANK, "layout"])
        output, _ = job.communicate(timeout=test_notifications.TIMEOUT)
        self.assertEqual(job.returncode, 1, output)
        self.assertRegex(
            output,
            r"\Aruedarun: the ranks of 'rueda-h1' are started through ssh, and ssh cannot be run: .*; install ssh; "
            r"ending the job\n\Z",
        )
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")


if __name__ == "__main__":
    if not HAS_UCX:
        print("skipped: Rueda was built without UCX (Debian: libucx-dev)")
        sys.exit(test_hosts.SKIPPED)
    if reason := test_hosts.why_not():
        print(f"skipped: {reason}")
        sys.exit(test_hosts.SKIPPED)
    unittest.main(verbosity=2)
