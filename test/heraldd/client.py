"""Clients of an event server for tests: requests and watches, each on its own connection."""
import importlib.machinery
import importlib.util
import json
import pathlib
import queue
import ssl
import threading
import types
import urllib.error
import urllib.request

# Timeout of a request.
SECONDS = 60
MERGE_PATCH = 'application/merge-patch+json'


def load(script):
    """Imports a script of this directory as a module."""
    loader = importlib.machinery.SourceFileLoader(script, str(pathlib.Path(__file__).resolve().parent / script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(script, loader))
    loader.exec_module(module)
    return module


server = load('server')


class Client:
    def __init__(self, url, ca, token):
        self.url, self.token = url, token
        self.context = ssl.create_default_context(cafile=str(ca))

    def open(self, method, path, body=None, content_type='application/json', accept=None):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=body)
        request.add_header('Authorization', f'Bearer {self.token}')
        request.add_header('Content-Type', content_type)
        if accept:
            request.add_header('Accept', accept)
        return urllib.request.urlopen(request, timeout=SECONDS, context=self.context)

    def ask(self, method, path, body=None, content_type='application/json', accept=None):
        """Returns the status code, the body and the headers."""
        try:
            answer = self.open(method, path, body, content_type, accept)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b'{') else text, answer.headers

    def names(self, path):
        code, answer, _ = self.ask('GET', path)
        assert code == 200, answer
        return [item['metadata']['name'] for item in answer['items']]


class Replica(Client):
    """Starts a heraldd and is a client of it."""
    def __init__(self, folder, program, flags):
        self.heraldd = server.Heraldd(types.SimpleNamespace(dir=folder, heraldd=program))
        self.heraldd.start(flags)
        super().__init__(self.heraldd.url, pathlib.Path(folder) / 'certs' / 'ca.crt', server.ADMIN_TOKEN)

    def ready(self):
        return self.ask('GET', '/readyz/store')[0] == 200


class Watch:
    """A watch. Puts its changes into a queue."""
    def __init__(self, client, path):
        self.answer = client.open('GET', path)
        self.changes = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for line in self.answer:
                self.changes.put(json.loads(line))
        except (OSError, ValueError, AttributeError):
            pass

    def change(self):
        return self.changes.get(timeout=SECONDS)

    def next(self):
        change = self.change()
        return change['type'], change['object']['metadata'].get('name', change['object'].get('message'))
