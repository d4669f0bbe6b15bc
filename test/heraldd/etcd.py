#!/usr/bin/env python3
"""An etcd of one member on free ports of loopback, for tests.

    etcd.py compact URL     forget all history: older versions are gone now
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# A machine that builds beside us is slow; then we give up.
READY_SECONDS = 60


def binary():
    """$HERALD_ETCD, or Debian's, unpacked."""
    if 'HERALD_ETCD' in os.environ:
        return os.environ['HERALD_ETCD']
    return subprocess.run([ROOT / 'tools' / 'fetch-etcd'], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def call(endpoint, name, arguments):
    """One call through etcd's JSON gateway."""
    request = urllib.request.Request(f'{endpoint}/v3/kv/{name}', data=json.dumps(arguments).encode())
    with urllib.request.urlopen(request, timeout=READY_SECONDS) as answer:
        return json.loads(answer.read())


def compact(endpoint):
    revision = call(endpoint, 'range', {'key': 'AA==', 'count_only': True})['header']['revision']
    call(endpoint, 'compaction', {'revision': revision, 'physical': True})


class Etcd:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.endpoint = f'http://127.0.0.1:{free_port()}'
        self.peer = f'http://127.0.0.1:{free_port()}'
        self.process = None

    def start(self):
        # No power is lost here, and the disks of test machines are slow.
        command = [binary(), '--name=m', f'--data-dir={self.folder}/data', '--unsafe-no-fsync',
                   f'--listen-client-urls={self.endpoint}', f'--advertise-client-urls={self.endpoint}',
                   f'--listen-peer-urls={self.peer}', f'--initial-advertise-peer-urls={self.peer}',
                   f'--initial-cluster=m={self.peer}', '--logger=zap']
        with (self.folder / 'log').open('ab') as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + READY_SECONDS
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f'etcd does not start; see {self.folder}/log')
            time.sleep(0.05)

    def healthy(self):
        try:
            with urllib.request.urlopen(f'{self.endpoint}/health', timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] != 'compact':
        sys.exit(__doc__)
    compact(sys.argv[2])
