"""Kubernetes' protobuf encoding of events.

Decoded messages are ordered dictionaries that also contain fields with empty values,
so that a missing field can be distinguished from an empty one.
"""

MAGIC = b'k8s\x00'

_TIME = {1: ('seconds', 'int'), 2: ('nanos', 'int')}
_SOURCE = {1: ('component', 'str'), 2: ('host', 'str')}
_SERIES = {1: ('count', 'int'), 2: ('lastObservedTime', _TIME)}
_REFERENCE = {1: ('kind', 'str'), 2: ('namespace', 'str'), 3: ('name', 'str'), 4: ('uid', 'str'),
              5: ('apiVersion', 'str'), 6: ('resourceVersion', 'str'), 7: ('fieldPath', 'str')}
_OWNER = {1: ('kind', 'str'), 3: ('name', 'str'), 4: ('uid', 'str'), 5: ('apiVersion', 'str'),
          6: ('controller', 'int'), 7: ('blockOwnerDeletion', 'int')}
_META = {1: ('name', 'str'), 2: ('generateName', 'str'), 3: ('namespace', 'str'), 4: ('selfLink', 'str'),
         5: ('uid', 'str'), 6: ('resourceVersion', 'str'), 7: ('generation', 'int'),
         8: ('creationTimestamp', _TIME), 9: ('deletionTimestamp', _TIME),
         10: ('deletionGracePeriodSeconds', 'int'), 11: ('labels', 'map'), 12: ('annotations', 'map'),
         13: ('ownerReferences', [_OWNER]), 14: ('finalizers', ['str']), 17: ('managedFields', ['bytes'])}
_LIST_META = {1: ('selfLink', 'str'), 2: ('resourceVersion', 'str'), 3: ('continue', 'str'),
              4: ('remainingItemCount', 'int')}
_CORE_EVENT = {1: ('metadata', _META), 2: ('involvedObject', _REFERENCE), 3: ('reason', 'str'),
               4: ('message', 'str'), 5: ('source', _SOURCE), 6: ('firstTimestamp', _TIME),
               7: ('lastTimestamp', _TIME), 8: ('count', 'int'), 9: ('type', 'str'), 10: ('eventTime', _TIME),
               11: ('series', _SERIES), 12: ('action', 'str'), 13: ('related', _REFERENCE),
               14: ('reportingComponent', 'str'), 15: ('reportingInstance', 'str')}
_NEW_EVENT = {1: ('metadata', _META), 2: ('eventTime', _TIME), 3: ('series', _SERIES),
              4: ('reportingController', 'str'), 5: ('reportingInstance', 'str'), 6: ('action', 'str'),
              7: ('reason', 'str'), 8: ('regarding', _REFERENCE), 9: ('related', _REFERENCE), 10: ('note', 'str'),
              11: ('type', 'str'), 12: ('deprecatedSource', _SOURCE), 13: ('deprecatedFirstTimestamp', _TIME),
              14: ('deprecatedLastTimestamp', _TIME), 15: ('deprecatedCount', 'int')}
_CAUSE = {1: ('reason', 'str'), 2: ('message', 'str'), 3: ('field', 'str')}
_DETAILS = {1: ('name', 'str'), 2: ('group', 'str'), 3: ('kind', 'str'), 4: ('causes', [_CAUSE]),
            5: ('retryAfterSeconds', 'int'), 6: ('uid', 'str')}
_STATUS = {1: ('metadata', _LIST_META), 2: ('status', 'str'), 3: ('message', 'str'), 4: ('reason', 'str'),
           5: ('details', _DETAILS), 6: ('code', 'int')}
_PRECONDITIONS = {1: ('uid', 'str'), 2: ('resourceVersion', 'str')}
_DELETE_OPTIONS = {1: ('gracePeriodSeconds', 'int'), 2: ('preconditions', _PRECONDITIONS),
                   3: ('orphanDependents', 'int'), 4: ('propagationPolicy', 'str'), 5: ('dryRun', ['str'])}
_PARTIAL = {1: ('metadata', _META)}
_UNKNOWN = {1: ('typeMeta', {1: ('apiVersion', 'str'), 2: ('kind', 'str')}), 2: ('raw', 'bytes'),
            3: ('contentEncoding', 'str'), 4: ('contentType', 'str')}
_WATCH_EVENT = {1: ('type', 'str'), 2: ('object', {1: ('raw', 'bytes')})}

_KINDS = {
    ('v1', 'Event'): _CORE_EVENT,
    ('v1', 'EventList'): {1: ('metadata', _LIST_META), 2: ('items', [_CORE_EVENT])},
    ('events.k8s.io/v1', 'Event'): _NEW_EVENT,
    ('events.k8s.io/v1', 'EventList'): {1: ('metadata', _LIST_META), 2: ('items', [_NEW_EVENT])},
    ('v1', 'Status'): _STATUS,
    ('v1', 'DeleteOptions'): _DELETE_OPTIONS,
    ('meta.k8s.io/v1', 'DeleteOptions'): _DELETE_OPTIONS,
    ('meta.k8s.io/v1', 'PartialObjectMetadata'): _PARTIAL,
    ('meta.k8s.io/v1', 'PartialObjectMetadataList'): {1: ('metadata', _LIST_META), 2: ('items', [_PARTIAL])},
    ('meta.k8s.io/v1beta1', 'PartialObjectMetadata'): _PARTIAL,
    # v1beta1 numbers these two fields in the opposite order.
    ('meta.k8s.io/v1beta1', 'PartialObjectMetadataList'): {1: ('items', [_PARTIAL]), 2: ('metadata', _LIST_META)},
}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return (value - (1 << 64) if value >= 1 << 63 else value), at


def _decode(data, schema):
    message, at = {}, 0
    while at < len(data):
        tag, at = _varint(data, at)
        name, kind = schema.get(tag >> 3, (f'field {tag >> 3}', 'bytes'))
        if tag & 7 == 0:
            value, at = _varint(data, at)
            if kind != 'int':
                value = f'varint {value}'
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError(f'{name} is cut short')
            value, at = data[at:at + length], at + length
            element = kind[0] if isinstance(kind, list) else kind
            if element == 'str':
                value = value.decode('utf-8', 'replace')
            elif element == 'map':
                entry = _decode(value, {1: ('key', 'str'), 2: ('value', 'str')})
                value = {entry.get('key', ''): entry.get('value', '')}
            elif isinstance(element, dict):
                value = _decode(value, element)
        else:
            raise ValueError(f'{name} has wire type {tag & 7}')
        if kind == 'map':
            message.setdefault(name, {}).update(value)
        elif isinstance(kind, list):
            message.setdefault(name, []).append(value)
        elif name in message:
            raise ValueError(f'{name} is written twice')
        else:
            message[name] = value
    return message


def decode_envelope(data):
    if not data.startswith(MAGIC):
        raise ValueError('no k8s envelope')
    unknown = _decode(data[len(MAGIC):], _UNKNOWN)
    kind = (unknown['typeMeta'].get('apiVersion'), unknown['typeMeta'].get('kind'))
    if kind not in _KINDS:
        raise ValueError(f'unknown kind {kind}')
    unknown['raw'] = _decode(unknown['raw'], _KINDS[kind])
    return unknown


def decode_watch(data):
    """Splits a watch stream into frames: a big-endian length followed by a WatchEvent without envelope."""
    frames, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], 'big')
        frame = _decode(data[at + 4:at + 4 + length], _WATCH_EVENT)
        frame['object'] = decode_envelope(frame['object']['raw'])
        frames.append(frame)
        at += 4 + length
    return frames


def _write_varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _seconds(text):
    import datetime
    time = datetime.datetime.fromisoformat(text.replace('Z', '+00:00'))
    return {'seconds': int(time.timestamp() // 1), 'nanos': time.microsecond * 1000}


def _encode(message, schema):
    out = bytearray()
    for number, (name, kind) in sorted(schema.items()):
        if name not in message or message[name] is None:
            continue
        value = message[name]
        if kind == 'int':
            out += _write_varint(number << 3) + _write_varint(int(value))
            continue
        if kind == 'map':
            values = [_encode({'key': k, 'value': v}, {1: ('key', 'str'), 2: ('value', 'str')})
                      for k, v in sorted(value.items())]
        else:
            element = kind[0] if isinstance(kind, list) else kind
            values = []
            for each in value if isinstance(kind, list) else [value]:
                if element is _TIME and isinstance(each, str):
                    each = _seconds(each)
                values.append(_encode(each, element) if isinstance(element, dict) else
                              each.encode() if isinstance(each, str) else each)
        for each in values:
            out += _write_varint(number << 3 | 2) + _write_varint(len(each)) + each
    return bytes(out)


def encode_envelope(value):
    """Encodes a JSON object with kind and apiVersion as a protobuf body."""
    type_meta = {'apiVersion': value.get('apiVersion', ''), 'kind': value.get('kind', '')}
    raw = _encode(value, _KINDS[type_meta['apiVersion'], type_meta['kind']])
    return MAGIC + _encode({'typeMeta': type_meta, 'raw': raw, 'contentEncoding': '', 'contentType': ''}, _UNKNOWN)
