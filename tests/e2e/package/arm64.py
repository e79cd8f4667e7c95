#!/usr/bin/env python3
"""arm64.py DET: everything is cross-built for 64-bit ARM in a Debian system of its own, and the tests of the layers that compute and
decide run there under QEMU. Needs root, debootstrap and Debian's packages. Processes, namespaces and the like are the kernel's, which
QEMU's user mode does not imitate well enough, so their tests are left out."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / 'tests/support'))
from debian import Debian  # noqa: E402

BUILD = Path(sys.argv[1]).resolve().parent
LAYERS = 'base value tensor nn optim data format doc entity config search sched storage args'.split()


def packages():
    """Libraries are those of the other machine, programs those of this one."""
    rows = [row.split() for row in (ROOT / 'scripts/packages.txt').read_text().split('\n') if row and not row.startswith('#')]
    libraries = [f'{name}:arm64' for group, name, *sign in rows if group in ('build', 'test') and sign and sign[0].startswith('pc:')]
    return ['crossbuild-essential-arm64', 'qemu-user-static', 'cmake', 'ninja-build', 'pkg-config', 'python3', *libraries]


def main():
    if os.getuid():
        sys.exit('arm64.py: needs root, to be root in another system')
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        debian = Debian(BUILD, Path(tmp) / 'root')
        debian.run('dpkg', '--add-architecture', 'arm64')
        debian.run('apt-get', 'update', '-qq')
        debian.install(*packages())
        sources = debian.root / 'det'
        sources.mkdir()
        files = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z'], check=True, capture_output=True).stdout
        subprocess.run(['xargs', '-0', 'cp', '--parents', '-t', sources], input=files, cwd=ROOT, check=True)
        debian.run('cmake', '-S', '/det', '-B', '/build', '-G', 'Ninja', '--toolchain', '/det/cmake/arm64.cmake', '-DDET_WEBUI=OFF')
        debian.run('ninja', '-C', '/build')
        tests = f'^test_({"|".join(LAYERS)})(_|$)'
        print(debian.run('ctest', '--test-dir', '/build', '--output-on-failure', '-j2', '-R', tests, '-LE', 'long', '--timeout', '3000'))
    print('arm64: ok')


main()
