#!/usr/bin/env python3
"""check_outputs.py METRICS TENSORBOARD TRACE: whether the files of a run of two epochs of 20 batches agree."""
import json
import struct
import sys
from pathlib import Path


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xFFFFFFFF


def records(data):
    while data:
        length, check = struct.unpack('<QI', data[:12])
        assert check == masked(data[:8]), 'checksum of the length'
        record = data[12:12 + length]
        assert struct.unpack('<I', data[12 + length:16 + length])[0] == masked(record), 'checksum of the record'
        yield record
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Of a protocol buffer: {number: value}."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        found[key >> 3] = value
    return found


def scalars(folder):
    (path,) = Path(folder).glob('events.out.tfevents.*')
    first, *events = [fields(record) for record in records(path.read_bytes())]
    assert first[3] == b'brain.Event:2', first
    for event in events:
        assert 1.6e9 < struct.unpack('<d', event[1])[0] < 5e9
        value = fields(fields(event[5])[1])
        yield value[1].decode(), event.get(2, 0), struct.unpack('<f', value[2])[0]


def main():
    metrics, tensorboard, trace = sys.argv[1:]
    lines = [json.loads(line) for line in open(metrics)]
    assert [(m['kind'], m['batches']) for m in lines] == [('training', 20), ('validation', 20), ('training', 40),
                                                          ('validation', 40)], lines
    wanted = [('Determined/' + 'val_' * (m['kind'] == 'validation') + 'loss', m['batches'], m['metrics']['loss'])
              for m in lines]
    got = list(scalars(tensorboard))
    assert [g[:2] for g in got] == [w[:2] for w in wanted], got
    assert all(abs(g[2] - w[2]) <= 1e-6 * abs(w[2]) for g, w in zip(got, wanted)), (got, wanted)
    events = json.load(open(trace))['traceEvents']
    names = [e['name'] for e in events]
    assert names.count('batch') == 40 and names.count('validation') == 2, names
    assert all(e['dur'] >= 0 and e['ts'] >= 0 for e in events)


main()
