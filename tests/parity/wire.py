"""The Python end of tests/support/wire.c: values over a pipe."""
import numpy as np
import torch

TO_NAME = {torch.float32: 'f32', torch.float64: 'f64', torch.int64: 'i64', torch.int32: 'i32', torch.uint8: 'u8',
           torch.bool: 'bool'}
FROM_NAME = {name: dtype for dtype, name in TO_NAME.items()}


def write(out, v):
    if v is None:
        out.write(b'N\n')
    elif isinstance(v, bool):
        out.write(b'B %d\n' % v)
    elif isinstance(v, int):
        out.write(b'I %d\n' % v)
    elif isinstance(v, float):
        out.write(b'F ' + float(v).hex().encode() + b'\n')
    elif isinstance(v, str):
        out.write(b'S %d\n' % len(v.encode()) + v.encode() + b'\n')
    elif isinstance(v, torch.Tensor):
        header = ' '.join(['T', TO_NAME[v.dtype], str(v.dim()), *map(str, v.shape)])
        out.write(header.encode() + b'\n' + v.detach().contiguous().numpy().tobytes() + b'\n')
    elif isinstance(v, dict):
        out.write(b'D %d\n' % len(v))
        for key, item in v.items():
            write(out, key)
            write(out, item)
    elif isinstance(v, (list, tuple)):
        out.write((b'U' if isinstance(v, tuple) else b'L') + b' %d\n' % len(v))
        for item in v:
            write(out, item)
    else:
        raise TypeError(f'{type(v)} cannot be sent')


def read_tensor(stream, words):
    dtype, shape = FROM_NAME[words[1]], [int(w) for w in words[3:]]
    item = torch.empty(0, dtype=dtype).numpy().dtype
    raw = stream.read(int(np.prod(shape, dtype=np.int64)) * item.itemsize)
    stream.read(1)
    return torch.from_numpy(np.frombuffer(raw, item).reshape(shape).copy())


def read(stream):
    line = stream.readline()
    if not line:
        raise EOFError('the program ended')
    kind, words = chr(line[0]), line.decode().split()
    if kind == 'N':
        return None
    if kind == 'B':
        return words[1] == '1'
    if kind == 'I':
        return int(words[1])
    if kind == 'F':
        return float.fromhex(words[1])
    if kind == 'S':
        return stream.read(int(words[1]) + 1)[:-1].decode()
    if kind == 'T':
        return read_tensor(stream, words)
    if kind == 'D':
        pairs = [(read(stream), read(stream)) for _ in range(int(words[1]))]
        return dict(pairs)
    items = [read(stream) for _ in range(int(words[1]))]
    return tuple(items) if kind == 'U' else items
