"""Stands between a process and the broker it started, so that the broker dies with it.

Run as a script: it owns the broker as its child and reads its own standard input, a pipe whose other end the
parent holds. The operating system closes that end however the parent ends, a kill -9 included; the broker is
then told to stop, and killed when it does not. It writes the process id on standard output, ends with the exit status,
and needs nothing but the standard library.

Usage: watchdog.py LOCK_DESCRIPTOR PROGRAM [ARGUMENT...]
"""

import os
import signal
import subprocess
import sys
import threading

STOP_TIMEOUT_S = 5.0
"""How long a broker may take to stop before it is killed."""


def main(arguments: list[str]) -> int:
    """Run the broker until it ends or the parent does; its exit status, negative for a signal as 128 + number."""
    lock_descriptor, command = int(arguments[0]), arguments[1:]
    # The parent decides when to stop: a signal meant for a whole group of processes is not for the broker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(lock_descriptor,)) as broker:
        os.close(lock_descriptor)
        os.write(1, f"{broker.pid}\n".encode())
        threading.Thread(target=_stop_with_parent, args=(broker,), daemon=True).start()
        status = broker.wait()
    return status if status >= 0 else 128 - status


def _stop_with_parent(broker: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 64):
        pass
    broker.terminate()
    try:
        broker.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        broker.kill()


if __name__ == "__main__":
    # Leaving at once: the thread may still be blocked in its read, and nothing here needs tidying up.
    os._exit(main(sys.argv[1:]))
