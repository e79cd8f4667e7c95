#!/usr/bin/env python3
"""run.py BUILD DOCUMENT: does what a document says, in a new home with det installed, and checks that it is true.
run.py --root ROOT DOCUMENT: the same in the root file system of another machine, where a package has installed det.

Blocks are followed from the first to the last:
    ```c model_def.c      is added to the end of that file; so is any other language with a name
    ```sh                 is run; what it changes (folder, variables) holds for those behind it
    ```sh fails           is run, and must fail
    ```text               behind a ```sh block: lines that its output has, in this order; '...' stands for anything
Other blocks and indented ones are for people only, but C must belong to a file, so that it is compiled.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MARK = '=== end of block'


class Block:
    def __init__(self, line, words, text):
        self.line, self.language, self.words, self.text = line, words[0] if words else '', words[1:], text
        self.fails = self.language == 'sh' and self.words == ['fails']
        self.file = self.words[0] if self.words and self.language != 'sh' else None


def read_blocks(document):
    lines, blocks, start = document.read_text().splitlines(), [], None
    for n, line in enumerate(lines, 1):
        if line.startswith('```') and start is None:
            start, words = n, line[3:].split()
        elif line.startswith('```'):
            blocks.append(Block(start + 1, words, '\n'.join(lines[start:n - 1]) + '\n'))
            start = None
    for block in blocks:
        assert block.language != 'c' or block.file, f'{document}:{block.line}: C without the name of a file'
    return blocks


def write_script(folder, document, blocks, seen):
    """One shell runs everything; after each block it says what it has done. seen: the name of the folder where it runs."""
    script = ['exec 2>&1', 'set -eu']
    for n, block in enumerate(blocks):
        if block.file:
            piece = folder / f'piece-{n}'
            line = f'#line {block.line} "{document}"\n' if block.language == 'c' else ''
            piece.write_text(line + block.text)
            script.append(f"mkdir -p '{seen}/work/{Path(block.file).parent}'; cat '{seen}/{piece.name}' >>'{seen}/work/{block.file}'")
        elif block.fails:
            script.append(f'if ( {block.text} ) then echo "this should have failed"; exit 1; fi')
        elif block.language == 'sh':
            script.append(block.text)
        script.append(f"echo; echo '{MARK} {n}'")
    (folder / 'script').write_text('\n'.join(script))


def fetch_digits():
    return subprocess.run([ROOT / 'scripts/fetch-mnist'], check=True, capture_output=True, text=True).stdout.strip()


def install(build, folder):
    """det in folder/prefix, the digits where examples look for them, and an environment that has nothing else of det."""
    subprocess.run(['cmake', '--install', build, '--prefix', folder / 'prefix'], check=True, stdout=subprocess.DEVNULL)
    home, programs = folder / 'home', folder / 'programs'
    (home / '.cache/det').mkdir(parents=True)
    programs.mkdir()
    (home / '.cache/det/mnist').symlink_to(fetch_digits())
    # Several documents are tested at once, so that none can have the usual port.
    wrapper = programs / 'det'
    wrapper.write_text(f'#!/bin/sh\n[ "$*" != up ] || set -- up --port 0\nexec "{folder}/prefix/bin/det" "$@"\n')
    wrapper.chmod(0o755)
    library = next((folder / 'prefix').rglob('libdet.so')).parent
    env = {k: v for k, v in os.environ.items() if not k.startswith(('DET_', 'XDG_'))}
    return {**env, 'HOME': str(home), 'PATH': f'{programs}:{folder}/prefix/bin:{env["PATH"]}', 'LD_LIBRARY_PATH': str(library),
            'LIBRARY_PATH': str(library), 'CPATH': f'{folder}/prefix/include', 'PKG_CONFIG_PATH': f'{library}/pkgconfig',
            'DET_SOURCES': str(ROOT), 'OMP_NUM_THREADS': '1'}


def missing_line(wanted, output):
    """The first line that is not there, behind those before it."""
    lines = iter(output)
    for line in wanted.splitlines():
        pattern = re.compile('.*'.join(re.escape(part) for part in line.strip().split('...')))
        if not any(pattern.fullmatch(have.strip()) for have in lines):
            return line
    return None


def split_output(text, n_blocks):
    outputs, rest = [], text
    for n in range(n_blocks):
        have, found, rest = rest.partition(f'{MARK} {n}\n')
        outputs.append(have)
        if not found:
            break
    return outputs


def check(document, blocks, outputs):
    last = len(outputs) - 1
    assert len(outputs) == len(blocks) and MARK not in outputs[last], 'unreachable'
    command = None
    for n, block in enumerate(blocks):
        if block.language == 'sh':
            command = n
        elif block.language == 'text' and command is not None:
            line = missing_line(block.text, outputs[command].splitlines())
            if line is not None:
                sys.exit(f'{document}:{block.line}: the output of line {blocks[command].line} has no such line here: {line}\n'
                         f'{outputs[command]}')
            command = None
        else:
            command = None


def run_here(build, document, blocks):
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        env = install(build, folder)
        write_script(folder, document, blocks, folder)
        (folder / 'work').mkdir(exist_ok=True)
        try:
            return subprocess.run(['sh', folder / 'script'], cwd=folder / 'work', env=env, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
        finally:
            subprocess.run([folder / 'programs/det', 'down'], env=env, capture_output=True)


def run_in_root(root, document, blocks):
    """The home is /root; of the sources there is the script that finds the digits, and nothing else."""
    with tempfile.TemporaryDirectory(dir=root / 'tmp') as tmp:
        folder = Path(tmp)
        seen = Path('/') / folder.relative_to(root)
        shutil.copytree(fetch_digits(), root / 'root/.cache/det/mnist', dirs_exist_ok=True)
        (folder / 'scripts').mkdir()
        shutil.copy(ROOT / 'scripts/fetch-mnist', folder / 'scripts')
        write_script(folder, document, blocks, seen)
        (folder / 'work').mkdir(exist_ok=True)
        env = f'export HOME=/root DET_SOURCES={seen} OMP_NUM_THREADS=1'
        return subprocess.run([ROOT / 'tests/support/enter-root', '--apart', root, 'sh', '-c', f'{env}; cd {seen}/work; trap "det down" EXIT; . {seen}/script'],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)


def main():
    in_root = sys.argv[1] == '--root'
    where, document = (Path(name).resolve() for name in sys.argv[-2:])
    blocks = read_blocks(document)
    done = (run_in_root if in_root else run_here)(where, document, blocks)
    outputs = split_output(done.stdout, len(blocks))
    if done.returncode:
        block = blocks[len(outputs) - 1]
        sys.exit(f'{document}:{block.line}: ended with status {done.returncode}:\n{outputs[-1]}{done.stderr}')
    check(document, blocks, outputs)
    print(f'{document.name}: {len(blocks)} blocks')


main()
