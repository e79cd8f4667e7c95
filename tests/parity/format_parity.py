#!/usr/bin/python3
"""Files of torch and NumPy against ours: format_parity.py PROGRAM [ROUNDS].

What torch (NumPy) writes is read and written again by PROGRAM and must come back bit for bit; what PROGRAM
makes must be what torch reads. safetensors is not packaged, so a reader and a writer of its few rules are here.
"""
import collections
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import torch

PROGRAM, ROUNDS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
TYPES = {'f32': torch.float32, 'f64': torch.float64, 'bf16': torch.bfloat16, 'i64': torch.int64,
         'i32': torch.int32, 'u8': torch.uint8, 'bool': torch.bool, 'f16': torch.float16, 'i16': torch.int16,
         'i8': torch.int8}
SAFE = {'F32': torch.float32, 'F64': torch.float64, 'BF16': torch.bfloat16, 'I64': torch.int64, 'I32': torch.int32,
        'U8': torch.uint8, 'BOOL': torch.bool, 'F16': torch.float16, 'I16': torch.int16, 'I8': torch.int8}
complaints = []
counts = collections.Counter()


def complain(what):
    complaints.append(what)
    print(what)


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True)


def copy(src, dst):
    done = run('copy', src, dst)
    if done.returncode:
        complain(f'{src}: {done.stderr.decode().strip()}')
    return not done.returncode


# --- comparing

def raw(t):
    """The elements of a tensor, row-major, as bytes."""
    t = t.detach().contiguous().reshape(-1)
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()


def from_raw(dtype, shape, data):
    words = torch.int16 if dtype == torch.bfloat16 else dtype
    t = torch.frombuffer(bytearray(data), dtype=words) if data else torch.empty(0, dtype=words)
    return t.view(dtype).reshape(shape)


def same(a, b, where=''):
    """None, or what differs."""
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
            return f'{where}: {type(b)} {getattr(b, "dtype", "")} {getattr(b, "shape", "")}, not {a.dtype} {a.shape}'
        return None if raw(a) == raw(b) else f'{where}: elements differ'
    plain = {collections.OrderedDict: dict, torch.Size: tuple}
    kind_a, kind_b = plain.get(type(a), type(a)), plain.get(type(b), type(b))
    if kind_a is not kind_b:
        return f'{where}: {kind_b}, not {kind_a}'
    if isinstance(a, dict):
        if list(a) != list(b):
            return f'{where}: keys {list(b)}, not {list(a)}'
        return next((d for k in a if (d := same(a[k], b[k], f'{where}.{k}'))), None)
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f'{where}: {len(b)} items, not {len(a)}'
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := same(x, y, f'{where}[{i}]'))), None)
    if isinstance(a, float):
        return None if struct.pack('d', a) == struct.pack('d', b) else f'{where}: {b}, not {a}'
    return None if a == b else f'{where}: {b!r}, not {a!r}'


def tensors_of(tree):
    if isinstance(tree, torch.Tensor):
        yield tree.detach()
    elif isinstance(tree, dict):
        for v in tree.values():
            yield from tensors_of(v)
    elif isinstance(tree, (list, tuple)):
        for v in tree:
            yield from tensors_of(v)


def sharing(tree):
    """For each pair of tensors that overlap: how far apart they start, in elements."""
    spans = []
    for i, t in enumerate(tensors_of(tree)):
        if t.numel():
            end = t.data_ptr() + t.element_size() * (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())))
            spans.append((t.data_ptr(), end, i, t.element_size()))
    spans.sort()
    found = set()
    for k, (start, end, i, size) in enumerate(spans):
        for start2, _, j, _ in spans[k + 1:]:
            if start2 >= end:
                break
            found.add((i, j, (start2 - start) // size) if i < j or start != start2 else (j, i, 0))
    return found


def check_tree(what, ours, theirs):
    counts['trees'] += 1
    difference = same(theirs, ours)
    if difference:
        complain(f'{what}: {difference}')
    elif sharing(ours) != sharing(theirs):
        complain(f'{what}: tensors do not share memory as before')


# --- random trees of torch

def random_tensor(rng, bases):
    if not bases or rng.random() < 0.5:
        shape = [rng.choice([0, 1, 2, 3, 5, 8]) for _ in range(rng.randrange(5))]
        dtype = rng.choice(list(TYPES.values()))
        t = torch.empty(shape, dtype=torch.float64).normal_() * 100
        t = t > 0 if dtype == torch.bool else t.abs().to(dtype) if dtype == torch.uint8 else t.to(dtype)
        if dtype.is_floating_point and t.numel():
            t.view(-1)[0] = rng.choice([float('nan'), float('inf'), -0.0, 1.0])
        bases.append(t)
    t = rng.choice(bases)
    for _ in range(rng.randrange(3)):
        if t.dim():
            d = rng.randrange(t.dim())
            t = rng.choice([lambda: t.transpose(0, d), lambda: t.narrow(d, 0, t.shape[d] // 2),
                            lambda: t.narrow(d, t.shape[d] // 2, t.shape[d] - t.shape[d] // 2),
                            lambda: t.unsqueeze(d), lambda: t[(slice(None),) * d + (slice(None, None, 2),)]])()
    if rng.random() < 0.1 and t.dim() < 4:
        t = t.expand(3, *t.shape)
    if rng.random() < 0.2 and t.dtype.is_floating_point:
        t = torch.nn.Parameter(t.detach(), requires_grad=rng.random() < 0.5)
    return t


def random_leaf(rng, bases):
    return rng.choice([
        lambda: None, lambda: rng.random() < 0.5, lambda: rng.randrange(-2**63, 2**63) >> rng.randrange(64),
        lambda: rng.choice([rng.gauss(0, 1), float('inf'), float('nan'), -0.0, 5e-324]),
        lambda: rng.choice(['', 'text', 'naïve €🔥', 'x' * 300, 'a\nb']), lambda: torch.Size([2, 3]),
        lambda: random_tensor(rng, bases), lambda: random_tensor(rng, bases), lambda: random_tensor(rng, bases)])()


def random_tree(rng, depth, bases):
    if depth == 4 or depth and rng.random() < 0.6:
        return random_leaf(rng, bases)
    items = [random_tree(rng, depth + 1, bases) for _ in range(rng.randrange(6))]
    keys = [rng.choice([f'k{i}', i, -i, 10**12 + i, 'ключ%d' % i]) for i in range(len(items))]
    return rng.choice([lambda: items, lambda: tuple(items), lambda: dict(zip(keys, items)),
                       lambda: collections.OrderedDict(zip(keys, items))])()


def torch_round_trips(folder):
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        src, dst = f'{folder}/t{seed}.pth', f'{folder}/d{seed}.pth'
        tree = random_tree(rng, 0, [])
        torch.save(tree, src, pickle_protocol=2 + seed % 4)
        if copy(src, dst):
            check_tree(f'torch tree {seed}', torch.load(dst), torch.load(src))


def training_round_trip(folder):
    """A real checkpoint: the attributes of state dicts, floats, integer keys, optimizer state."""
    def fresh():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                                    torch.nn.Linear(16, 3))
        optimizer = torch.optim.Adam([{'params': model[0].parameters(), 'lr': 0.1},
                                      {'params': list(model[1:].parameters())}], amsgrad=True)
        return model, optimizer
    model, optimizer = fresh()
    model(torch.randn(5, 1, 4, 4)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    state = {'models_state_dict': [model.state_dict()], 'optimizers_state_dict': [optimizer.state_dict()],
             'lr_schedulers_state_dict': [scheduler.state_dict()], 'rng': torch.get_rng_state()}
    torch.save(state, f'{folder}/train.pth')
    if not copy(f'{folder}/train.pth', f'{folder}/train2.pth'):
        return
    loaded = torch.load(f'{folder}/train2.pth')
    check_tree('checkpoint', loaded, state)
    model2, optimizer2 = fresh()
    model2.load_state_dict(loaded['models_state_dict'][0])
    optimizer2.load_state_dict(loaded['optimizers_state_dict'][0])
    check_tree('restored model', model2.state_dict(), model.state_dict())
    check_tree('restored optimizer', optimizer2.state_dict(), optimizer.state_dict())


def deflated_file(folder):
    tree = {'zeros': torch.zeros(5000), 'x': torch.randn(100)}
    torch.save(tree, f'{folder}/plain.pth')
    with zipfile.ZipFile(f'{folder}/plain.pth') as a, zipfile.ZipFile(f'{folder}/packed.pth', 'w', zipfile.ZIP_DEFLATED) as b:
        for name in a.namelist():
            b.writestr(name, a.read(name))
    if copy(f'{folder}/packed.pth', f'{folder}/unpacked.pth'):
        check_tree('deflated', torch.load(f'{folder}/unpacked.pth'), tree)


# --- trees made by PROGRAM

def has_float(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return any(map(has_float, tree)) if isinstance(tree, (list, tuple)) else isinstance(tree, float)


def made_trees(folder):
    env = {'T': lambda dtype, shape, data: from_raw(TYPES[dtype], shape, bytes.fromhex(data)),
           'F': lambda text: float.fromhex(text)}
    for seed in range(ROUNDS):
        path = f'{folder}/m{seed}.pth'
        done = run('make', seed, path)
        if done.returncode:
            complain(f'make {seed}: {done.stderr.decode().strip()}')
            continue
        expected = eval(done.stdout.decode(), env)
        ours = torch.load(path)
        counts['trees'] += 1
        difference = same(expected, ours)
        if difference:
            complain(f'made tree {seed}: {difference}')
        if not has_float(expected):  # torch 1.13 reads no floats with weights_only, its own neither
            counts['weights_only'] += 1
            difference = same(expected, torch.load(path, weights_only=True))
            if difference:
                complain(f'made tree {seed}, weights_only: {difference}')
        with zipfile.ZipFile(path) as z:
            if z.testzip():
                complain(f'{path}: bad checksum')
            for info in z.infolist():
                if info.file_size and z.read(info) != open(path, 'rb').read()[(at := data_offset(path, info)):at + info.file_size]:
                    complain(f'{path}: {info.filename} is not stored')
                if at % 64 and info.file_size:
                    complain(f'{path}: {info.filename} is not aligned')


def data_offset(path, info):
    with open(path, 'rb') as f:
        f.seek(info.header_offset + 26)
        name, extra = struct.unpack('<HH', f.read(4))
    return info.header_offset + 30 + name + extra


# --- safetensors

def safe_write(path, tensors, metadata):
    header, data = {'__metadata__': metadata} if metadata is not None else {}, b''
    names = {v: k for k, v in SAFE.items()}
    for name, t in tensors.items():
        header[name] = {'dtype': names[t.dtype], 'shape': list(t.shape), 'data_offsets': [len(data), len(data) + len(raw(t))]}
        data += raw(t)
    text = json.dumps(header).encode()
    open(path, 'wb').write(struct.pack('<Q', len(text)) + text + data)


def safe_read(path):
    blob = open(path, 'rb').read()
    n = struct.unpack('<Q', blob[:8])[0]
    header, data = json.loads(blob[8:8 + n]), blob[8 + n:]
    metadata = header.pop('__metadata__', None)
    at, tensors = 0, {}
    for name, info in sorted(header.items(), key=lambda item: item[1]['data_offsets']):
        begin, end = info['data_offsets']
        assert begin == at and (begin + n + 8) % max(1, SAFE_BYTES[info['dtype']]) == 0
        at = end
    assert at == len(data) and (n + 8) % 64 == 0 and blob[8:9] == b'{'
    for name, info in header.items():
        begin, end = info['data_offsets']
        tensors[name] = from_raw(SAFE[info['dtype']], info['shape'], data[begin:end])
    return tensors, metadata


SAFE_BYTES = {'F32': 4, 'F64': 8, 'BF16': 2, 'I64': 8, 'I32': 4, 'U8': 1, 'BOOL': 1, 'F16': 2, 'I16': 2, 'I8': 1}


def safetensors_round_trips(folder):
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        tensors = {f'layer {i} "é" \\ /{i}': random_tensor(rng, []).detach() for i in range(rng.randrange(8))}
        metadata = rng.choice([{}, {'format': 'pt', 'ü': 'naïve €🔥\n'}])
        safe_write(f'{folder}/a.safetensors', tensors, metadata)
        if copy(f'{folder}/a.safetensors', f'{folder}/b.safetensors'):
            ours, our_metadata = safe_read(f'{folder}/b.safetensors')
            check_tree(f'safetensors {seed}', ours, {k: v.clone() for k, v in tensors.items()})
            if our_metadata != metadata:
                complain(f'safetensors {seed}: metadata {our_metadata}, not {metadata}')


# --- NumPy

def npy_round_trips(folder):
    for seed in range(ROUNDS):
        rng = np.random.RandomState(seed)
        shape = [int(rng.choice([0, 1, 2, 3, 7])) for _ in range(rng.randint(6))]
        dtype = rng.choice(['<f4', '<f8', '|b1', '<i8', '<i4', '|u1', '<f2', '<i2', '|i1'])
        a = np.asarray(rng.standard_normal(shape) * 100).astype(dtype, order='CF'[rng.randint(2)])
        with open(f'{folder}/a.npy', 'wb') as f:
            np.lib.format.write_array(f, a, version=[(1, 0), (2, 0), (3, 0)][seed % 3])
        if copy(f'{folder}/a.npy', f'{folder}/b.npy'):
            b = np.load(f'{folder}/b.npy')
            counts['arrays'] += 1
            if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                complain(f'npy {seed}: {b.dtype} {b.shape}, not {a.dtype} {a.shape}')
            with open(f'{folder}/c.npy', 'wb') as f:
                np.save(f, np.ascontiguousarray(a).reshape(a.shape))
            if open(f'{folder}/b.npy', 'rb').read() != open(f'{folder}/c.npy', 'rb').read():
                complain(f'npy {seed}: the file is not the one that NumPy writes')


# --- what must be refused

class Evil:
    def __reduce__(self):
        return os.system, ('touch executed',)


def refusals(folder):
    def refuse(name, write, *words):
        path = f'{folder}/{name}'
        write(path)
        done = run('copy', path, f'{folder}/out-{name}')
        message = done.stderr.decode()
        counts['refusals'] += 1
        if done.returncode != 1 or not all(w in message for w in words):
            complain(f'{name}: {done.returncode} {message!r}, expected {words}')
    refuse('complex.pth', lambda p: torch.save(torch.zeros(2).cfloat(), p), 'EUNSUPPORTED', 'ComplexFloatStorage', 'complex/data.pkl')
    refuse('complex.pth', lambda p: torch.save(torch.zeros(2, dtype=torch.complex64), p), 'ComplexFloatStorage')
    refuse('old.pth', lambda p: torch.save({}, p, _use_new_zipfile_serialization=False), 'EUNSUPPORTED', '1.6')
    refuse('bare.pth', lambda p: pickle.dump({}, open(p, 'wb')), 'EUNSUPPORTED', 'pickle')
    refuse('evil.pth', lambda p: torch.save(Evil(), p), 'EUNSUPPORTED', 'system', 'byte')
    refuse('class.pth', lambda p: torch.save(torch.nn.Linear(1, 1), p), 'EUNSUPPORTED', 'Linear')
    refuse('dtype.pth', lambda p: torch.save(torch.float32, p), 'EUNSUPPORTED', 'torch.float32')
    refuse('bytes.pth', lambda p: torch.save(b'x', p, pickle_protocol=3), 'EUNSUPPORTED', 'SHORT_BINBYTES')
    refuse('set.pth', lambda p: torch.save({1}, p, pickle_protocol=4), 'EUNSUPPORTED', 'EMPTY_SET')
    refuse('big.pth', lambda p: torch.save(2**64, p), 'EUNSUPPORTED', '64 bits')
    refuse('key.pth', lambda p: torch.save({1.5: 0}, p), 'EUNSUPPORTED', 'key')
    refuse('nul.pth', lambda p: torch.save('a\0b', p), 'EUNSUPPORTED', 'NUL')
    refuse('surrogate.pth', lambda p: torch.save('\ud800', p), 'EUNSUPPORTED', 'UTF-8')
    refuse('sparse.pth', lambda p: torch.save(torch.eye(2).to_sparse(), p), 'EUNSUPPORTED', 'sparse')
    refuse('script.pth', lambda p: torch.jit.script(torch.nn.ReLU()).save(p), 'EUNSUPPORTED', 'TorchScript')
    refuse('dims.pth', lambda p: torch.save(torch.zeros([1] * 9), p), 'EUNSUPPORTED', '9 dims')
    cyclic = []
    cyclic.append(cyclic)
    refuse('cycle.pth', lambda p: torch.save(cyclic, p), 'ELIMIT', 'nested')
    refuse('c8.npy', lambda p: np.save(p, np.zeros(2, '<c8')), 'EUNSUPPORTED', '<c8')
    refuse('big-endian.npy', lambda p: np.save(p, np.zeros(2, '>f4')), 'EUNSUPPORTED', '>f4')
    refuse('record.npy', lambda p: np.save(p, np.zeros(2, [('a', '<f4')])), 'EUNSUPPORTED', 'structures')
    refuse('object.npy', lambda p: np.save(p, np.array([None])), 'EUNSUPPORTED', '|O')
    if os.path.exists('executed'):
        complain('code from a file was executed')


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (torch_round_trips, training_round_trip, deflated_file, made_trees, safetensors_round_trips,
                     npy_round_trips, refusals):
            part(folder)
    print(', '.join(f'{n} {what}' for what, n in counts.items()), f'{len(complaints)} complaints', sep='; ')
    sys.exit(bool(complaints))


main()
