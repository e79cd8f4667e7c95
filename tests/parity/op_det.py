"""The det side of a case: its statements (tests/parity/op_calls.h), and the program that runs them."""
import re
import subprocess

import numpy as np
import torch

from op_draw import NAME, bf16_bytes, list_text

BYTES = {'f32': 4, 'f64': 8, 'bf16': 2, 'i64': 8, 'i32': 4, 'u8': 1, 'bool': 1, 'f16': 2, 'i16': 2, 'i8': 1}
NUMPY = {'f32': np.float32, 'f64': np.float64, 'bf16': np.uint16, 'i64': np.int64, 'i32': np.int32, 'u8': np.uint8,
         'bool': np.uint8, 'f16': np.float16, 'i16': np.int16, 'i8': np.int8}


class Program:
    """Answers cases. It is started when it is needed, and again after a crash."""

    def __init__(self, path):
        self.path, self.process = path, None

    def functions(self):
        return subprocess.run([self.path, '--list'], capture_output=True, text=True, check=True).stdout.split()

    def ask(self, statements):
        """({name: (tensor, requires_grad), or None}, None), or (None, what went wrong)."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.process.stdin.write(script(statements))
            self.process.stdin.flush()
            return self.read()
        except (BrokenPipeError, EOFError):
            status = self.process.wait()
            self.process = None
            return None, f'crash: the program ended with status {status}'

    def read(self):
        shown = {}
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise EOFError
            words = line.decode().split()
            if words[0] == 'done':
                return shown, None
            if words[0] in ('error', 'unstable'):
                return None, line.decode().strip()
            shown[words[0]] = None if words[1] == 'none' else self.read_tensor(*words[1:])

    def read_tensor(self, dtype, shape, requires_grad):
        shape = [int(s) for s in shape[1:-1].split(',') if s]
        count = int(np.prod(shape, dtype=np.int64))
        a = np.frombuffer(self.process.stdout.read(count * BYTES[dtype]), NUMPY[dtype])
        if dtype == 'bf16':
            a = (a.astype(np.uint32) << 16).view(np.float32)
        t = torch.from_numpy(a.copy()).reshape(shape)
        t = t.bfloat16() if dtype == 'bf16' else t.bool() if dtype == 'bool' else t
        return t, requires_grad == '1'

    def close(self):
        """Ends the program; returns its status."""
        if self.process is None:
            return 0
        self.process.stdin.close()
        return self.process.wait()


class Statement:
    def __init__(self, text, data=None, offset=0):
        self.text, self.data, self.offset = text, data, offset


def script(statements):
    parts = []
    for s in statements:
        parts.append(s.text.encode() + b'\n')
        if s.data is not None:
            parts.append(b'data %d %d\n' % (s.offset, len(s.data)) + s.data)
    return b''.join(parts) + b'end\n'


def view_text(target, source, view):
    name, *args = view
    words = [list_text(a) if isinstance(a, tuple) else str(a) for a in args]
    return f'{target} = {name} {source} ' + ' '.join(words)


def input_statements(given):
    function, offset = ('from', 0) if given.offset is None else ('borrow', given.offset * BYTES[given.dtype])
    stages = given.stages
    out = [Statement(f'{stages[0]} = {function} {given.dtype} {list_text(given.base.shape)}', given.raw(), offset)]
    views = [Statement(view_text(t, s, v)) for s, t, v in zip(stages, stages[1:], given.views)]
    if given.leaf == 'base':
        return out + [Statement(f'requires_grad {stages[0]} 1')] + views
    if given.leaf == 'view':  # made without a history
        views = [Statement('set_grad_enabled 0'), *views, Statement('set_grad_enabled 1'),
                 Statement(f'requires_grad {given.name} 1')]
    return out + views


def raw(t):
    if t.dtype == torch.bfloat16:
        return bf16_bytes(t.float().numpy())
    return t.contiguous().numpy().tobytes()


def backward_statements(grad_outs):
    """One result: its gradient is given. Several: the sum of their products with their gradients is a number."""
    out = [Statement(f'w_{name} = from {NAME[g.dtype]} {list_text(g.shape)}', raw(g)) for name, g in grad_outs.items()]
    names = list(grad_outs)
    if len(names) == 1:
        return out + [Statement(f'backward {names[0]} w_{names[0]}')]
    total = None
    for name in names:
        out += [Statement(f'p_{name} = mul {name} w_{name}'), Statement(f's_{name} = sum p_{name}')]
        if total:
            out.append(Statement(f'sum_{name} = add {total} s_{name}'))
        total = f'sum_{name}' if total else f's_{name}'
    return out + [Statement(f'backward {total} -')]


def statements_of(case, grad_outs):
    """All of a case: inputs, calls, backward, what to answer with."""
    out = [s for given in case.inputs for s in input_statements(given)]
    data = {given.name: given.raw() for given in case.inputs}
    for text in case.det:
        memory = re.search(r' <(\w+)>', text)  # an argument that is memory, not a tensor
        out.append(Statement(text.replace(memory.group(0), ''), data[memory.group(1)]) if memory else Statement(text))
    if grad_outs:
        out += backward_statements(grad_outs)
    out += [Statement(f'show {name}') for name in case.results]
    leaves = [given.leaf_name for given in case.inputs if given.leaf_name] if grad_outs else []
    for leaf in leaves:
        out += [Statement(f'g_{leaf} = grad {leaf}'), Statement(f'show g_{leaf}')]
    return out


def c_text(statement):
    """A statement as a call in C."""
    left, equals, right = statement.rpartition(' = ')
    function, *words = right.split()
    args = []
    for word in words:
        name, option, value = word.partition('=')
        if option:
            args.append(f".{name} = {'{' + value + '}' if ',' in value else value}")
        else:
            args.append(f'DET_DIMS({word[1:-1]})' if word.startswith('[') else 'NULL' if word == '-' else word)
    return f"{left + ' = ' if equals else ''}det_{function}({', '.join(args)})"
