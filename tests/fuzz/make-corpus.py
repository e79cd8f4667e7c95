#!/usr/bin/python3
"""Writes the first inputs of the fuzzers, tests/fuzz/corpus/<target>/seed-*, from torch, NumPy and by hand."""
import collections
import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

CORPUS = Path(__file__).resolve().parent / 'corpus'


def write(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f'seed-{name}').write_bytes(data)


def trees():
    x = torch.arange(16.)
    yield 'none', None
    yield 'plain', {'a': [1, -2, 300, 70000, 2**40, -2**63], 'b': (True, False, None), 1: 1.5, 's': 'é€🔥'}
    yield 'tuples', ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {})
    yield 'views', {'x': x, 't': x.reshape(4, 4).t(), 's': x[3:9:2], 'e': x[:1].expand(3, 2)}
    yield 'types', [torch.zeros(2).to(d) for d in (torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)]
    yield 'edges', [torch.tensor(3.), torch.empty(0, 3), torch.Size([2, 3]), torch.nn.Parameter(torch.ones(2))]
    state = torch.nn.BatchNorm1d(1).state_dict()
    yield 'module', state
    yield 'ordered', collections.OrderedDict([('k', 1), (2, collections.OrderedDict())])
    shared = [1, 2]
    yield 'shared', [shared, shared, 'text', 'text']


def zipped(tree, protocol):
    out = io.BytesIO()
    torch.save(tree, out, pickle_protocol=protocol)
    return out.getvalue()


def repack(data, method, keep=lambda name: True):
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as a, zipfile.ZipFile(out, 'w', method) as b:
        for name in filter(keep, a.namelist()):
            b.writestr(name, a.read(name))
    return out.getvalue()


def torch_seeds():
    for name, tree in trees():
        for protocol in (2, 4):
            data = zipped(tree, protocol)
            write('pickle', f'{name}-{protocol}', zipfile.ZipFile(io.BytesIO(data)).read('archive/data.pkl'))
    for name, tree in trees():
        if name in ('plain', 'views', 'edges'):
            write('pth', name, zipped(tree, 2))
            write('pth', f'{name}-deflated', repack(zipped(tree, 2), zipfile.ZIP_DEFLATED))
    write('pth', 'no-pickle', repack(zipped(1, 2), zipfile.ZIP_STORED, lambda name: 'pkl' not in name))
    half = io.BytesIO()
    torch.save(torch.zeros(1).half(), half)
    write('pth', 'half', half.getvalue())


def safetensors_seeds():
    def pack(header, data):
        text = json.dumps(header).encode()
        return struct.pack('<Q', len(text)) + text + data
    one = {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}
    write('safetensors', 'empty', pack({}, b''))
    write('safetensors', 'one', pack({'a': one}, bytes(8)))
    write('safetensors', 'metadata', pack({'__metadata__': {'k': 'v'}, 'a': one}, bytes(8)))
    types = {'F64': 8, 'I64': 8, 'I32': 4, 'BF16': 2, 'U8': 1, 'BOOL': 1}
    header, at = {}, 0
    for dtype, size in types.items():
        header[dtype] = {'dtype': dtype, 'shape': [1, 3], 'data_offsets': [at, at + 3 * size]}
        at += 3 * size
    header['scalar'] = {'dtype': 'F32', 'shape': [], 'data_offsets': [at, at + 4]}
    header['none'] = {'dtype': 'F32', 'shape': [0, 5], 'data_offsets': [0, 0]}
    write('safetensors', 'types', pack(header, bytes(at + 4)))


def npy_seeds():
    for i, dtype in enumerate(['<f4', '<f8', '|b1', '<i8', '<i4', '|u1', '>f4']):
        for shape in ((), (3,), (2, 0), (2, 3)):
            out = io.BytesIO()
            array = np.zeros(shape, dtype, order='CF'[i % 2])
            np.lib.format.write_array(out, array, version=[(1, 0), (2, 0), (3, 0)][i % 3])
            write('npy', f'{i}-{len(shape)}d-{array.size}', out.getvalue())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def manifest_seeds():
    def pack(*names):
        files = [{'name': name, 'bytes': len(name), 'crc32c': crc32c(name.encode())} for name in names]
        m = {'version': 1, 'id': '11111111-2222-4333-8444-555555555555', 'trial_id': 7, 'steps_completed': 100,
             'saved_us': 1700000000000000, 'files': files, 'checksum': 0}
        m['checksum'] = crc32c((json.dumps(m, indent=1) + '\n').encode())
        return (json.dumps(m, indent=1) + '\n').encode()
    write('manifest', 'none', pack())
    write('manifest', 'some', pack('code/model_def.c', 'loop.json', 'state-dict.pth'))
    write('manifest', 'outside', pack('../x'))
    write('manifest', 'absolute', pack('/etc/passwd'))
    write('manifest', 'twice', pack('a', 'a'))


def code_seeds():
    def pack(mode, *entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as tar:
            for name, kind, content in entries:
                info = tarfile.TarInfo(name)
                info.type = kind
                info.size = len(content) if kind == tarfile.REGTYPE else 0
                info.linkname = '' if kind == tarfile.REGTYPE else content.decode()
                tar.addfile(info, io.BytesIO(content))
        return out.getvalue().rstrip(bytes(1)) + bytes(1024) if mode == 'w' else out.getvalue()
    file, folder = ('a/b.py', tarfile.REGTYPE, b'x'), ('a', tarfile.DIRTYPE, b'')
    write('code', 'plain', pack('w', folder, file))
    write('code', 'gzip', pack('w:gz', folder, file))
    write('code', 'outside', pack('w', ('../x', tarfile.REGTYPE, b'x')))
    write('code', 'link', pack('w', ('l', tarfile.SYMTYPE, b'/etc/passwd'), ('l/x', tarfile.REGTYPE, b'x')))
    write('code', 'hard-link', pack('w', file, ('h', tarfile.LNKTYPE, b'a/b.py')))
    write('code', 'device', pack('w', ('d', tarfile.CHRTYPE, b'')))
    write('code', 'long-name', pack('w', ('n' * 200, tarfile.REGTYPE, b'x')))


def http_seeds():
    def request(line, body=b'', *headers):
        head = [line, 'Host: localhost', *headers]
        if body:
            head += ['Content-Type: application/json', f'Content-Length: {len(body)}']
        return '\r\n'.join(head + ['', '']).encode() + body
    get = request('GET /items/7/a%20b?x=3&flag=true&ids=1,2&ids=3 HTTP/1.1')
    post = request('POST /items HTTP/1.1', b'{"x": 3, "long_name": "n", "ids": ["1", 2], "more": {"x": 1}}')
    write('http', 'get', get)
    write('http', 'post', post)
    write('http', 'pipelined', post + get + post)
    write('http', 'token', request('DELETE /items/7/x HTTP/1.1', b'', 'Authorization: Bearer ann'))
    write('http', 'events', request('GET /events HTTP/1.1', b'', 'Cookie: a=b; auth=c', 'Last-Event-ID: 7'))
    write('http', 'rest', request('GET /rest/a/b%2Fc/../%c3%a4 HTTP/1.0'))
    write('http', 'head', request('HEAD /events HTTP/1.1', b'', 'Connection: close'))
    write('http', 'chunked', request('POST /items HTTP/1.1', b'', 'Transfer-Encoding: chunked',
                                     'Content-Type: application/json') + b'3\r\n{"x\r\n4\r\n":1}\r\n0\r\n\r\n')
    write('http', 'both', request('POST /items HTTP/1.1', b'{}', 'Transfer-Encoding: chunked'))
    write('http', 'expect', request('POST /items HTTP/1.1', b'{}', 'Expect: 100-continue'))


def events_seeds():
    write('events', 'one', b'id: 1\nevent: metrics\ndata: {"a":1}\n\n')
    write('events', 'many', b': hello\r\n\r\ndata\rdata:x\ndata: y\n\nretry: 5\nid\n\nid: \x00\n')


def journal_seeds():
    def lines(*texts):
        return b''.join(b'%08x %s\n' % (crc32c(t), t) for t in texts)
    head, one, two = b'0 journal 11111111-2222-4333-8444-555555555555', b'1 /x {"a":1}', b'2 /y {"b":[]}'
    write('journal', 'empty', lines(head))
    write('journal', 'two', lines(head, one, two))
    write('journal', 'acked', lines(head, one, b'1 acked', two))
    write('journal', 'torn', lines(head, one, two)[:-3])
    write('journal', 'backwards', lines(head, two, one, b'9 acked'))


def pattern_seeds():
    text = b'a' * 200
    for name, pattern in (('words', b'error: [0-9]+'), ('nested', b'(a+)+b'), ('lookahead', b'(?:(?=.*)(?=.*)a)*[qr]'),
                          ('back', rb'(.*)\1[qr]'), ('names', rb'(?P<x>[[:alpha:]]+)(?i:B)\k<x>'), ('recursive', b'(a(?R)?a)b'),
                          ('repeats', b'((((a{1,200}){1,200}){1,200}){1,200})'), ('verbs', rb'(*NO_START_OPT)(*COMMIT)a(*SKIP)\Qb.*\E'),
                          ('ends', b'.*x\\.*'), ('open', b'a(b[')):
        write('pattern', name, pattern + b'\n' + text)
    write('pattern', 'bytes', b'^.$\n\xff\xc3\xa9\x00')


def idx_seeds():
    def idx(*shape):
        return struct.pack(f'>BBBB{len(shape)}I', 0, 0, 8, len(shape), *shape) + bytes(np.arange(np.prod(shape), dtype=np.uint8))
    for name, data in (('labels', idx(5)), ('images', idx(2, 3, 4)), ('none', idx(0)), ('empty', idx(0, 9, 9))):
        write('idx', name, data)
        write('idx', f'{name}-packed', gzip.compress(data, mtime=0))


def csv_seeds():
    texts = {'plain': 'a,y\n1,2\n3,4\n', 'windows': 'a,y\r\n1,2.5\r\n', 'quoted': '"a ""x""","y"\n"1","-2e3"\n',
             'semicolons': 'a;y\n1;2\n', 'short': 'a,y\n1\n', 'lines': '"a\nb",y\n\n\n1,2'}
    for options in range(8):
        for name, text in texts.items():
            if options in (0, 4) or name in ('plain', 'semicolons'):
                write('csv', f'{name}-{options}', bytes([options]) + text.encode())


def cifar_seeds():
    write('cifar', 'good', bytes([0, 9, 3, 0]))
    write('cifar', 'label', bytes([0, 10, 0]))
    write('cifar', 'cut', bytes([1, 1]))
    write('cifar', 'none', bytes([0]))


def chunk(name, content):
    return struct.pack('>I', len(content)) + name + content + struct.pack('>I', zlib.crc32(name + content))


def png(width, height, depth, colour, data, chunks=b'', interlace=0):
    header = struct.pack('>IIBBBBB', width, height, depth, colour, 0, 0, interlace)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunks + chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b'')


def image_seeds():  # PNG; nothing here writes JPEG, so those seeds were made by libjpeg once
    write('images', 'grey', png(3, 2, 8, 0, bytes(2 * 4)))
    write('images', 'rgb', png(2, 2, 8, 2, bytes(2 * 7)))
    write('images', 'rgba', png(2, 2, 8, 6, bytes(2 * 9)))
    write('images', 'deep', png(2, 2, 16, 2, bytes(2 * 13)))
    write('images', 'bits', png(9, 2, 1, 0, bytes(2 * 3)))
    write('images', 'palette', png(2, 1, 8, 3, b'\0\0\1', chunk(b'PLTE', bytes(6)) + chunk(b'tRNS', b'\x80')))
    write('images', 'interlaced', png(1, 1, 8, 0, bytes(2), interlace=1))
    write('images', 'large', png(1 << 20, 1 << 20, 8, 0, b''))


def packed_lines(*texts):
    """Lines as src/db/chunk.c packs them: heads, then columns of numbers, times, heads, texts."""
    head = b'\3\1\0' + b'\0111.1.1\0'.replace(b'\011', b'\1') + b'\0\0' + b'\1task\0' + b'\1stdout\0'
    n = len(texts)
    columns = bytes([0] + [2] * (n - 1)) + b'\x80\x89\x7a' + bytes([8] * (n - 1)) + bytes(n)
    return b'\1' + head + bytes([n]) + columns + b''.join(t + b'\0' for t in texts)


def zstd_frame(data):
    """One block, as it is: of known size, without a checksum."""
    return b'\x28\xb5\x2f\xfd\x20' + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, 'little') + data


def chunk_seeds():
    lines = packed_lines(b'one\n', b'two\n', b'')
    write('chunk', 'plain', b'\0' + lines)
    write('chunk', 'zstd', b'\1' + zstd_frame(lines))
    write('chunk', 'cut', b'\0' + lines[:-3])
    write('chunk', 'many', b'\0\0\xff\xff\xff\xff\x0f')
    write('chunk', 'empty', b'')


def points_seeds():
    points = b'\1\2' + b'\x02\xc8\x01' + b'\x80\x89\x7a\x14' + struct.pack('<2d', 0.5, float('nan'))
    write('points', 'two', points)
    write('points', 'cut', points[:-1])
    write('points', 'many', b'\1\xff\xff\xff\xff\x0f')
    write('points', 'empty', b'')


torch_seeds()
chunk_seeds()
points_seeds()
idx_seeds()
csv_seeds()
cifar_seeds()
image_seeds()
safetensors_seeds()
npy_seeds()
manifest_seeds()
http_seeds()
events_seeds()
journal_seeds()
code_seeds()
pattern_seeds()
