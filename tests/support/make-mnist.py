#!/usr/bin/env python3
"""make-mnist FOLDER N_TRAIN N_TEST: idx files as those of MNIST, with striped digits that are easy to tell apart."""
import random
import struct
import sys
from pathlib import Path

SIZE = 28


def image(digit, rng):
    shift = rng.randrange(3)
    rows = []
    for r in range(SIZE):
        lit = (r + shift) // 3 % 10 == digit
        rows += [min(255, (200 if lit else 0) + rng.randrange(40)) for _ in range(SIZE)]
    return bytes(rows)


def write(folder, name, n, rng):
    labels = bytes(i % 10 for i in range(n))
    images = b''.join(image(d, rng) for d in labels)
    (folder / f'{name}-labels-idx1-ubyte').write_bytes(struct.pack('>II', 2049, n) + labels)
    (folder / f'{name}-images-idx3-ubyte').write_bytes(struct.pack('>IIII', 2051, n, SIZE, SIZE) + images)


folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
rng = random.Random(1)
write(folder, 'train', int(sys.argv[2]), rng)
write(folder, 't10k', int(sys.argv[3]), rng)
