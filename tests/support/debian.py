"""A Debian system of nothing but its essential packages, in a folder, for tests that install things. Needs root and debootstrap."""
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent


def mirror():
    """Where this machine gets its packages from, and which release it has."""
    rows = subprocess.run(['apt-get', 'indextargets', '--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)'], check=True,
                          capture_output=True, text=True).stdout.split('\n')
    for uri, release, component in (row.split() for row in rows if row.startswith('http')):
        if component == 'main' and '-' not in release:
            return uri, release
    sys.exit('debian: apt has no repository with the component main')


class Debian:
    """A copy of a fresh system; the fresh one is made once and kept beside the build, because it takes long."""

    def __init__(self, cache, root):
        uri, release = mirror()
        packed = Path(cache) / f'debian-{release}.tar'
        self.root = Path(root)
        if not packed.exists():
            fresh = self.root.with_name('fresh')
            subprocess.run(['debootstrap', '--variant=minbase', release, fresh, uri], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(['tar', '--numeric-owner', '-C', fresh, '-cf', f'{packed}.new', '.'], check=True)
            Path(f'{packed}.new').rename(packed)
            shutil.rmtree(fresh)
        self.root.mkdir()
        subprocess.run(['tar', '-C', self.root, '-xpf', packed], check=True)

    def run(self, *command, apart=False):
        """What it printed. env is that of a login, so that nothing of this machine is seen."""
        apart = ['--apart'] if apart else []
        env = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'LANG': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive'}
        done = subprocess.run([SUPPORT / 'enter-root', *apart, self.root, *command], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f'{" ".join(map(str, command))}: status {done.returncode}:\n{done.stdout}')
        return done.stdout

    def install(self, *packages):
        return self.run('apt-get', 'install', '-y', '-qq', '--no-install-recommends', *packages)

    def copy(self, file, to):
        shutil.copy(file, self.root / to)
