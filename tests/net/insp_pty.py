#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a full-screen program on a terminal of its own and does to it what users and window managers do.

insp_pty.py SCRIPT COMMAND...: SCRIPT is steps joined by commas: wait:TEXT, absent:TEXT (in the last screen),
size:ROWSxCOLUMNS, key:CHARACTER, signal:NAME, stopped, ends:STATUS, hangup. Afterwards the terminal must be as
it was before: same settings, main screen, cursor on.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

DEADLINE = 20


class Terminal:
    def __init__(self, command):
        self.master, self.slave = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.reports, report = os.pipe()
        keeper = os.fork()
        if keeper == 0:
            self.keep(command, report)
        os.close(report)
        self.pid = int(self.report())

    def keep(self, command, report):
        """A shell's part: what it runs is a job, in a process group that is not orphaned."""
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(self.slave, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            for fd in range(3):
                os.dup2(self.slave, fd)
            os.closerange(3, 100)
            os.execvp(command[0], command)
        os.close(self.master)
        os.write(report, b"%d\n" % pid)
        while True:
            status = os.waitpid(pid, os.WUNTRACED)[1]
            os.write(report, b"%d\n" % status)
            if not os.WIFSTOPPED(status):
                os._exit(0)

    def report(self):
        """What the keeper says next. The terminal is read meanwhile."""
        deadline = time.monotonic() + DEADLINE
        line = b""
        while not line.endswith(b"\n"):
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                sys.exit(f"neither stopped nor ended\n{self.out[-2000:]!r}")
            if self.master is not None:
                self.read(0.02)
            if select.select([self.reports], [], [], 0.02)[0]:
                line += os.read(self.reports, 1)
        return line

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.out += os.read(self.master, 65536)
            except OSError:
                pass

    def until(self, condition, what):
        deadline = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                sys.exit(f"in vain: {what}\n{self.out[-2000:]!r}")
            self.read()

    def screens(self):
        """Whole screens drawn so far, as text."""
        parts = self.out.decode(errors="replace").split("\033[H")[1:]
        whole = [p for p in parts if "\033[J" in p]
        return [re.sub(r"\033\[\??[0-9]*[a-zA-Z]", "", p.split("\033[J")[0]) for p in whole]

    def last(self):
        return (self.screens() or [""])[-1]


def step(t, name, argument):
    if name == "wait":
        t.until(lambda: argument in t.last(), argument)
    elif name == "absent":
        n = len(t.screens())
        t.until(lambda: len(t.screens()) > n and argument not in t.last(), "absent " + argument)
    elif name == "size":
        rows, columns = map(int, argument.split("x"))
        n = len(t.screens())
        t.resize(rows, columns)
        t.until(lambda: len(t.screens()) > n, "drawn again")
        lines = t.last().split("\r\n")
        t.until(lambda: len(t.last().split("\r\n")) <= rows, "few enough rows")
        t.until(lambda: max(map(len, t.last().split("\r\n"))) <= columns, f"short enough lines {lines}")
    elif name == "key":
        os.write(t.master, argument.encode())
    elif name == "signal":
        os.kill(t.pid, getattr(signal, argument))
    elif name == "stopped":
        status = int(t.report())
        if not os.WIFSTOPPED(status):
            sys.exit(f"not stopped: {status}")
        check_restored(t)
    elif name == "hangup":
        os.close(t.slave)
        os.close(t.master)
        t.master = None
    elif name == "ends":
        ended(t, int(argument))
    else:
        sys.exit("no step " + name)


def ended(t, wanted):
    status = int(t.report())
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != wanted:
        sys.exit(f"ended with status {status:#x}")
    if t.master is not None:
        check_restored(t)


def check_restored(t):
    for _ in range(5):
        t.read()
    if termios.tcgetattr(t.slave) != t.before:
        sys.exit("the terminal's settings are not what they were")
    if t.out.rfind(b"\033[?1049l") < t.out.rfind(b"\033[?1049h"):
        sys.exit("the other screen is still shown")
    if t.out.rfind(b"\033[?25h") < t.out.rfind(b"\033[?25l"):
        sys.exit("the cursor is still hidden")


def main():
    terminal = Terminal(sys.argv[2:])
    for text in sys.argv[1].split(","):
        name, _, argument = text.partition(":")
        step(terminal, name, argument)


main()
