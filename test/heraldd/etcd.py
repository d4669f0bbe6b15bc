#!/usr/bin/env python3
"""Runs an etcd cluster of one or more members on free loopback ports, for tests.

    etcd.py compact URL     compacts all revisions but the latest
"""
import contextlib
import json
import os
import pathlib
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Generous, because the machine may be busy.
READY_SECONDS = 60


def binary():
    """$HERALD_ETCD, or the etcd that tools/fetch-etcd finds."""
    if 'HERALD_ETCD' in os.environ:
        return os.environ['HERALD_ETCD']
    return subprocess.run([ROOT / 'tools' / 'fetch-etcd'], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def free_port():
    """A free port below Linux's ephemeral range, so that no other process gets it by chance before
    the server starts or while it is down."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('127.0.0.1', 10_000 + secrets.randbelow(22_768)))
            return probe.getsockname()[1]


def gateway(endpoint, path, arguments):
    """Calls etcd's JSON gateway."""
    request = urllib.request.Request(f'{endpoint}/v3/{path}', data=json.dumps(arguments).encode())
    with urllib.request.urlopen(request, timeout=READY_SECONDS) as answer:
        return json.loads(answer.read())


def call(endpoint, name, arguments):
    return gateway(endpoint, f'kv/{name}', arguments)


def compact(endpoint):
    revision = call(endpoint, 'range', {'key': 'AA==', 'count_only': True})['header']['revision']
    call(endpoint, 'compaction', {'revision': revision, 'physical': True})


class Etcd:
    """One member; a cluster of one unless cluster() created it.

    `flags` are additional flags of etcd, `within` is a command prefix to run it with, and `tls` are
    the files of a CA, a certificate and its key: clients then need a certificate of that CA.
    """
    def __init__(self, folder, name='m', host='127.0.0.1', flags=(), within=(), tls=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name, self.flags, self.within, self.tls = name, list(flags), list(within), tls
        self.endpoint = f'{"https" if tls else "http"}://{host}:{free_port()}'
        self.peer = f'http://{host}:{free_port()}'
        self.members = [self]
        self.process = None

    def launch(self):
        """Starts it with the same data and ports as before. Does not wait until it is ready."""
        # The test does not simulate power failures, and syncing is slow on test machines.
        command = [*self.within, binary(), f'--name={self.name}', f'--data-dir={self.folder}/data', '--unsafe-no-fsync',
                   f'--listen-client-urls={self.endpoint}', f'--advertise-client-urls={self.endpoint}',
                   f'--listen-peer-urls={self.peer}', f'--initial-advertise-peer-urls={self.peer}',
                   '--initial-cluster=' + ','.join(f'{member.name}={member.peer}' for member in self.members),
                   '--logger=zap', *self.flags]
        if self.tls:
            authority, certificate, key = self.tls
            command += [f'--cert-file={certificate}', f'--key-file={key}', '--client-cert-auth',
                        f'--trusted-ca-file={authority}']
        with (self.folder / 'log').open('ab') as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self):
        give_up = time.monotonic() + READY_SECONDS
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f'etcd did not start; see {self.folder}/log')
            time.sleep(0.05)

    def start(self):
        self.launch()
        self.wait()

    def healthy(self, context=None):
        if self.tls and not context:
            context = ssl.create_default_context(cafile=self.tls[0])
            context.load_cert_chain(*self.tls[1:])
        try:
            with urllib.request.urlopen(f'{self.endpoint}/health', timeout=5, context=context) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        # Threads stop one after the other, and may respond until the last one has stopped.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

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


def cluster(folder, places):
    """Creates the members of one cluster without starting them. `places` has keyword arguments of Etcd for each."""
    members = [Etcd(pathlib.Path(folder) / f'm{i}', f'm{i}', **place) for i, place in enumerate(places)]
    for member in members:
        member.members = members
    return members


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] != 'compact':
        sys.exit(__doc__)
    compact(sys.argv[2])
