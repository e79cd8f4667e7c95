"""Mounts of tests, and of programs that tests run, stay in namespaces of their own: the machine's mounts are never touched."""
import ctypes
import os
import signal
import subprocess
import sys

from master import Failure, expect

LIBC = ctypes.CDLL(None)
NEWNS, REC, PRIVATE, SHARED, PDEATHSIG = 0x20000, 1 << 14, 1 << 18, 1 << 20, 1
OUTSIDE = 'DET_TEST_MOUNTS_OUTSIDE'  # the mount namespace that must be left as it is


def mounts():
    """What is mounted where, in order."""
    with open('/proc/self/mountinfo') as f:
        lines = [x.split() for x in f]
    return [(x[4], x[3], x[x.index('-') + 1]) for x in lines]


def make_own_mounts():
    """From now on, mounts of this process and of its children are seen by nobody else, and end with them. False: needs root."""
    return not LIBC.unshare(NEWNS) and not LIBC.mount(None, b'/', None, REC | PRIVATE, None)


def run_apart(test, *more):
    """Runs test(), and with it this program once more, in namespaces for mounts and processes, and in more (options of
    unshare). Mounts are shared between the namespaces in there, as systemd has them: whatever a sandbox does not keep to itself
    shows. None may be left, neither in there nor outside."""
    here = os.readlink('/proc/self/ns/mnt')
    if OUTSIDE in os.environ:
        expect('a mount namespace of its own', here != os.environ[OUTSIDE], True)
        expect('shared mounts', LIBC.mount(None, b'/', None, REC | SHARED, None), 0)
        before = mounts()
        test()
        expect('mounts in the namespace of the test', mounts(), before)
        return
    before = mounts()
    command = ['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc', *more, '--']
    status = subprocess.run([*command, sys.executable, *sys.argv], env={**os.environ, OUTSIDE: here},
                            preexec_fn=lambda: LIBC.prctl(PDEATHSIG, signal.SIGKILL)).returncode
    new = [x for x in mounts() if x not in before]
    if new:
        raise Failure(f'mounts were left on this machine: {new}')
    if status:
        sys.exit(status)
