"""Normalises the responses of a server, so that those of two servers can be compared.

Values that differ between two runs (uids, resource versions, times) are replaced
by labels. A label names the request whose response contained the value first, so
that equal values have equal labels: a list with the resource version of the last
write has its label. The order of resource versions is recorded separately.
Everything else is compared byte by byte, including the order of members.
"""
import base64
import datetime
import gzip
import json
import re

import protobuf

HEADERS = ['Content-Type', 'Cache-Control', 'Warning', 'Audit-Id', 'X-Content-Type-Options', 'Retry-After', 'Allow',
           'Vary', 'ETag', 'Location', 'Www-Authenticate', 'Content-Encoding', 'Accept-Patch', 'Upgrade',
           'Sec-WebSocket-Accept', 'Sec-WebSocket-Protocol', 'Sec-WebSocket-Version',
           'Access-Control-Allow-Origin', 'Access-Control-Allow-Methods', 'Access-Control-Allow-Headers',
           'Access-Control-Expose-Headers', 'Access-Control-Allow-Credentials']

# A time this close to the current time was set by the server, not by a scenario.
NOW_SECONDS = 900

_UUID = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')
_TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z')
_AGE = re.compile(r'(\d+[ydhms])+')
# Long runs of one character are shortened in recordings.
_RUN = re.compile(r'(.)\1{199,}')
# Error messages that quote a resource version of the server.
_QUOTED_VERSION = re.compile(r'(current: |object meta: |in precondition: |in record \()(\d+)\b')


class Number(str):
    """A JSON number with its original spelling."""


def parse_json(text):
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number)


def dump(value, indent=None, level=0):
    """Encodes JSON like Go's encoder."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        for char in '<>&\u2028\u2029':
            text = text.replace(char, f'\\u{ord(char):04x}')
        return text
    if isinstance(value, (dict, list)):
        pair = '{}' if isinstance(value, dict) else '[]'
        if not value:
            return pair
        if isinstance(value, dict):
            colon = ': ' if indent else ':'
            inside = [dump(k) + colon + dump(v, indent, level + 1) for k, v in value.items()]
        else:
            inside = [dump(v, indent, level + 1) for v in value]
        if not indent:
            return pair[0] + ','.join(inside) + pair[1]
        margin = '\n' + ' ' * indent * (level + 1)
        return pair[0] + margin + (',' + margin).join(inside) + '\n' + ' ' * indent * level + pair[1]
    return json.dumps(value)


class Labels:
    """Labels for values that a server chose, named after the first request whose response has the value."""

    def __init__(self):
        self.known = {}

    def label(self, category, value, request):
        key = (category, value)
        if key not in self.known:
            name, taken, count = request, {v for (c, _), v in self.known.items() if c == category}, 1
            while f'<{category} {name}>' in taken:
                count += 1
                name = f'{request}#{count}'
            self.known[key] = f'<{category} {name}>'
        return self.known[key]

    def versions_in_order(self):
        versions = [(int(value), label) for (category, value), label in self.known.items() if category == 'rv']
        return [label for _, label in sorted(versions)]


class Normaliser:
    """Normalises the responses of one scenario, which must be passed in their order."""

    def __init__(self, generated):
        self.labels = Labels()
        self.generated = [re.compile(re.escape(prefix) + '[bcdfghjklmnpqrstvwxz2456789]{5}') for prefix in generated]

    def answer(self, name, status, headers, body, end, audit_id, select):
        result = {'name': name, 'status': status, 'headers': self._headers(name, headers, audit_id)}
        content_type = (headers.get('Content-Type') or '').split(';')[0].strip()
        if headers.get('Content-Encoding') == 'gzip':
            body = gzip.decompress(body)
        if end:
            result['end'] = end
        if not body:
            return result
        try:
            if content_type == 'application/vnd.kubernetes.protobuf':
                if 'stream=watch' in headers['Content-Type']:
                    result['frames'] = [self.value(name, frame, ()) for frame in protobuf.decode_watch(body)]
                else:
                    result['protobuf'] = self.value(name, protobuf.decode_envelope(body), ())
                return result
            text = body.decode('utf-8')
            # The root of OpenAPI v3 is JSON with Content-Type text/plain.
            if content_type == 'application/json' or content_type == 'text/plain' and text.startswith('{'):
                if end is not None:
                    result['frames'] = [self._frame(name, line) for line in text.splitlines(keepends=True)]
                else:
                    value = parse_json(text)
                    result['form'] = self._form(value, text)
                    result['body'] = self.value(name, self._select(select, status, value), ())
                return result
        except (ValueError, KeyError, IndexError) as problem:
            result['unreadable'] = f'{content_type}: {problem}: {body[:200]!r}'
            return result
        result['text'] = self.text(name, self._select(select, status, text))
        return result

    def websocket(self, name, headers, messages, end):
        """Normalises the messages of a WebSocket, which are pairs of kind and bytes."""
        result = {'name': name, 'status': 101, 'headers': self._headers(name, headers, None), 'end': end, 'messages': []}
        for kind, payload in messages:
            try:
                if kind == 'text':
                    frame = self._frame(name, payload.decode('utf-8'))
                else:
                    # Frames of a stream have a length prefix, messages of a WebSocket do not.
                    stream = len(payload).to_bytes(4, 'big') + payload
                    frame = self.value(name, protobuf.decode_watch(stream)[0], ())
            except (ValueError, KeyError, IndexError) as problem:
                frame = {'unreadable': f'{problem}: {payload[:200]!r}'}
            result['messages'].append({'kind': kind, **frame})
        return result

    def _headers(self, name, headers, audit_id):
        result = {}
        for header in HEADERS:
            values = headers.get_all(header)
            if not values:
                continue
            if header == 'Audit-Id' and values != [audit_id]:
                values = ['<uuid>' if _UUID.fullmatch(value) else value for value in values]
            elif header == 'ETag':
                values = [re.sub('[0-9A-F]{128}', lambda m: self.labels.label('etag', m[0], name), v) for v in values]
            elif header == 'Location':
                values = [re.sub('hash=[0-9A-F]{128}', 'hash=<hash>', v) for v in values]
            result[header] = values[0] if len(values) == 1 else values
        return result

    @staticmethod
    def _form(value, text):
        """The layout of the document: one line, or indented without a final newline."""
        if text == dump(value) + '\n':
            return 'line'
        if text == dump(value, indent=2):
            return 'indented'
        if text == dump(value):
            return 'line without end'
        return 'other'

    def _frame(self, name, line):
        value = parse_json(line)
        frame = self.value(name, value, ())
        if line != dump(value) + '\n':
            frame['form'] = self._form(value, line)
        return frame

    def value(self, name, value, path):
        if isinstance(value, dict):
            if value.get('kind') == 'Table':
                value = self._table(value)
            if set(value) == {'seconds', 'nanos'}:
                near = abs(value['seconds'] - datetime.datetime.now().timestamp()) < NOW_SECONDS
                return '<now>' if near else value
            if 'retryAfterSeconds' in value and value.get('causes', [{}])[0].get('reason') == 'ResourceVersionTooLarge':
                value = {**value, 'retryAfterSeconds': '<seconds>'}  # Random.
            return {key: self.value(name, member, (*path, key)) for key, member in value.items()
                    if key != 'managedFields'}
        if isinstance(value, list):
            return [self.value(name, member, path) for member in value]
        if isinstance(value, bytes):
            return 'base64 ' + base64.b64encode(value).decode()
        if isinstance(value, str) and not isinstance(value, Number):
            if path[-2:] == ('metadata', 'resourceVersion') and value.isdigit():
                return self.labels.label('rv', value, name)
            if path[-2:] == ('metadata', 'continue') and value:
                return '<continue>'  # Opaque; only its presence is compared.
            if path[-1:] == ('serverAddress',):
                return '<address>'
            return self.text(name, value)
        return value

    def text(self, name, text):
        text = _UUID.sub(lambda match: self.labels.label('uid', match[0], name), text)
        text = _TIME.sub(self._time, text)
        text = _QUOTED_VERSION.sub(
            lambda match: match[1] + self.labels.label('rv', match[2], name), text)
        text = self._quoted_object(text)
        text = _RUN.sub(lambda match: f'<{len(match[0])} times {match[1]}>', text)
        for pattern in self.generated:
            text = pattern.sub(lambda match: self.labels.label('generated', match[0], name), text)
        if '\n' in text:
            text = self._yaml(name, text)
        return text

    def _quoted_object(self, text):
        """Normalises the error of a rejected patch, which quotes the whole object."""
        start = text.find('\\"managedFields\\":[')
        if start >= 0:
            depth, end = 0, text.index('[', start)
            while True:
                depth += {'[': 1, ']': -1}.get(text[end], 0)
                end += 1
                if depth == 0:
                    break
            if text[start - 1] == ',':
                start -= 1
            else:
                end += text[end] == ','
            text = text[:start] + text[end:]
        return re.sub(r'(\\"resourceVersion\\":\\")(\d+)',
                      lambda match: match[1] + self.labels.known.get(('rv', match[2]), match[2]), text)

    @staticmethod
    def _time(match):
        try:
            time = datetime.datetime.fromisoformat(match[0].replace('Z', '+00:00'))
        except ValueError:
            return match[0]  # An invalid date, quoted in an error.
        near = abs(time.timestamp() - datetime.datetime.now().timestamp()) < NOW_SECONDS
        return '<now>' if near else match[0]

    def _yaml(self, name, text):
        """Normalises a YAML document and removes managedFields."""
        lines, skip = [], None
        for line in text.splitlines(keepends=True):
            indent = len(line) - len(line.lstrip(' '))
            if skip is not None and (indent > skip or indent == skip and line[skip:skip + 2] == '- '):
                continue
            skip = None
            if line.strip() == 'managedFields:':
                skip = indent
                continue
            line = re.sub(r'^(\s+resourceVersion: ")(\d+)(")$',
                          lambda match: match[1] + self.labels.label('rv', match[2], name) + match[3], line)
            line = re.sub(r'^(\s+serverAddress: )\S+$', r'\1<address>', line)
            line = re.sub(r'^(\s+continue: )\S+$', r'\1<continue>', line)
            if text.startswith('apiVersion: meta.k8s.io/v1') and '\nkind: Table\n' in text:
                line = re.sub(r'^(\s*-( -)? )' + _AGE.pattern + '$', r'\1<age>', line)
            lines.append(line)
        return ''.join(lines)

    @staticmethod
    def _table(table):
        columns = [column['name'] for column in table.get('columnDefinitions') or []]
        # Only the first frame of a watch has column definitions; they apply to all frames.
        ages = [i for i, column in enumerate(columns) if column in ('Last Seen', 'First Seen')] or [0, 7]
        rows = []
        for row in table.get('rows') or []:
            cells = ['<age>' if i in ages and isinstance(cell, str) and _AGE.fullmatch(cell) else cell
                     for i, cell in enumerate(row['cells'])]
            rows.append({**row, 'cells': cells})
        return {**table, 'rows': rows} if table.get('rows') else table

    @staticmethod
    def _select(select, status, value):
        if select is None or status not in (200, 201):
            return value
        try:
            return SELECTIONS[select](value)
        except (KeyError, TypeError, AttributeError):
            return value  # Not the expected document.


def _events_of_discovery(value):
    """The part of a discovery document about events."""
    def resources(items, key):
        return [item for item in items if item[key] == 'events']
    if 'groups' in value:
        value['groups'] = [group for group in value['groups'] if group['name'] == 'events.k8s.io']
    if 'resources' in value:
        value['resources'] = resources(value['resources'], 'name')
    if value.get('kind') == 'APIGroupDiscoveryList':
        value['items'] = [item for item in value['items'] if item['metadata'].get('name') in (None, 'events.k8s.io')]
        for item in value['items']:
            for version in item['versions']:
                version['resources'] = resources(version['resources'], 'resource')
    return value


def _health(text):
    """Removes the lines of all health checks but ping, because servers have different checks."""
    lines = text.splitlines(keepends=True)
    return ''.join(line for line in lines if not line.startswith('[+]') or line.startswith('[+]ping '))


def _keys(value):
    return {key: '<text>' for key in value}


def _paths(value):
    if 'paths' not in value:
        return value
    wanted = [path for path in value['paths'] if path in ('api/v1', 'apis/events.k8s.io/v1')]
    return {'paths': {path: re.sub('hash=[0-9A-F]{128}', 'hash=<hash>', value['paths'][path]['serverRelativeURL'])
                      for path in wanted}}


def _openapi(value):
    """The operations on events with their parameters, and the schemas that they use."""
    paths = {}
    for path, item in value['paths'].items():
        if '/events' not in path:
            continue
        shape = {'parameters': sorted(p.get('name', '') for p in item.get('parameters', []))}
        for method, operation in item.items():
            if method in ('get', 'put', 'post', 'delete', 'patch'):
                content = operation.get('requestBody', {}).get('content', {})
                shape[method] = {
                    'action': operation.get('x-kubernetes-action'),
                    'kind': operation.get('x-kubernetes-group-version-kind'),
                    'parameters': sorted(p.get('name', '') for p in operation.get('parameters', [])),
                    'takes': sorted(content),
                    'answers': sorted(operation['responses']),
                }
        paths[path] = shape
    schemas = {}
    for name, schema in value.get('components', {}).get('schemas', {}).items():
        if re.search(r'\.(Event|EventList|EventSeries|EventSource|ObjectReference)$', name):
            schemas[name] = {
                'properties': {key: p.get('type') or p.get('$ref') or [r.get('$ref') for r in p.get('allOf', [])]
                               for key, p in sorted(schema['properties'].items())},
                'required': schema.get('required', []),
                'kind': schema.get('x-kubernetes-group-version-kind'),
            }
    return {'openapi': value.get('openapi'), 'paths': paths, 'schemas': schemas}


def _sorted_rules(value):
    """A SelfSubjectRulesReview with sorted rules: their order in kube-apiserver changes from call to call."""
    for name in ('resourceRules', 'nonResourceRules'):
        value['status'][name].sort(key=dump)
    return value


def _reviews_of_discovery(value):
    """The part of a discovery document about SelfSubject reviews."""
    value['resources'] = [item for item in value['resources'] if item['name'].startswith('selfsubject')]
    return value


SELECTIONS = {'events': _events_of_discovery, 'reviews': _reviews_of_discovery, 'rules': _sorted_rules,
              'health': _health, 'keys': _keys, 'openapi-root': _paths,
              'openapi': _openapi}
