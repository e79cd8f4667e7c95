#!/usr/bin/env python3
"""package.py DET: the package is installed, upgraded and purged in a Debian system that has nothing else, and what the README says
comes true there. Needs root, debootstrap and Debian's packages."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS / 'support'))
from debian import Debian  # noqa: E402
from master import expect  # noqa: E402

BUILD = Path(sys.argv[1]).resolve().parent
RECOMMENDED = ['gcc', 'libc6-dev']  # what --no-install-recommends leaves out; the README compiles a trial


def make_package(folder, version=None):
    other = ['-D', f'CPACK_PACKAGE_VERSION={version}', '-D', f'CPACK_DEBIAN_PACKAGE_VERSION={version}'] if version else []
    command = ['cpack', '--config', BUILD / 'CPackConfig.cmake', '-B', folder, '-G', 'DEB', *other]
    subprocess.run(command, check=True, cwd=BUILD, stdout=subprocess.DEVNULL)
    return next(folder.glob('*.deb'))


def installed_version(debian):
    return debian.run('dpkg-query', '--show', '--showformat', '${Version}', 'det')


def files_of_system(debian):
    """Everything but what programs note down for themselves."""
    skipped = ('proc', 'sys', 'dev', 'tmp', 'run', 'root', 'var', 'etc/ld.so.cache', 'etc/resolv.conf', '.outside')
    found = subprocess.run(['find', debian.root, '-not', '-type', 'd', '-printf', '%P\n'], check=True, capture_output=True, text=True)
    return {name for name in found.stdout.split('\n') if not name.startswith(skipped)}


def test_it_is_a_good_package(package):
    fields = subprocess.run(['dpkg-deb', '--field', package], check=True, capture_output=True, text=True).stdout
    for library in ('libc6', 'libsqlite3-0', 'libcurl3-gnutls', 'libarchive13', 'libpcre2-8-0'):
        expect(f'{library} in the dependencies', library in fields, True)
    for library in ('libcmocka', 'python', 'node'):
        expect(f'{library} in the dependencies', library in fields, False)


def test_readme_comes_true(debian):
    subprocess.run([TESTS / 'docs/run.py', '--root', debian.root, TESTS.parent / 'README.md'], check=True)


def test_upgrade_keeps_everything(debian, package):
    debian.run('sh', '-c', 'det up --port 0 && det job list >/dev/null && det down', apart=True)
    before = debian.run('sh', '-c', 'det up --port 0 >/dev/null; det experiment list --json; det down >/dev/null', apart=True)
    debian.copy(package, 'root/newer.deb')
    debian.install('/root/newer.deb')
    expect('the version', installed_version(debian), '0.1.99')
    after = debian.run('sh', '-c', 'det up --port 0 >/dev/null; det experiment list --json; det down >/dev/null', apart=True)
    expect('experiments after the upgrade', after, before)
    expect('experiments', '"digits"' in after, True)


def test_purge_leaves_nothing(debian, before):
    debian.run('apt-get', 'purge', '-y', '-qq', 'det')
    expect('files that are left', sorted(files_of_system(debian) - before), [])
    expect('data of users', (debian.root / 'root/.local/share/det').is_dir(), True)


def main():
    if os.getuid():
        sys.exit('package.py: needs root, to be root in another system')
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        package, newer = make_package(folder / 'package'), make_package(folder / 'newer', '0.1.99')
        test_it_is_a_good_package(package)
        debian = Debian(BUILD, folder / 'root')
        debian.run('apt-get', 'update', '-qq')
        debian.copy(package, 'root/det.deb')
        depends = subprocess.run(['dpkg-deb', '--field', package, 'Depends'], check=True, capture_output=True, text=True).stdout
        debian.install(*RECOMMENDED, *(word.split()[0] for word in depends.split(', ')))
        before = files_of_system(debian)
        debian.install('/root/det.deb')
        expect('the program', debian.run('det', 'version').startswith('det 0.'), True)
        test_readme_comes_true(debian)
        test_upgrade_keeps_everything(debian, newer)
        test_purge_leaves_nothing(debian, before)
    print('package: ok')


main()
