#!/usr/bin/env python3
"""headers.py CC: compiles the examples in the comments of the public headers.

An example is comment lines that are indented by four spaces or more. Its paragraphs are functions, types and macros, or statements,
which become the body of a function. A line that begins with '...' is left out. Names that an example does not declare are in
tests/docs/headers.h. Figures and lists that are no code are indented by less.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FILE_SCOPE = re.compile(r'^\{|^struct \w+ \{|^static |^#define |^DET_TRIAL\(|^DET_ACCEL_PARTIAL\(', re.M)


def examples(header):
    """(line, text) of each."""
    block, start, is_other = [], 0, False
    for n, line in enumerate([*header.read_text().splitlines(), ''], 1):
        is_other |= bool(re.match(r' *//( +[-*] |  {1,2}\S)', line))
        is_other &= bool(re.match(r' *// ', line))  # a list or figure, up to an empty line
        if re.match(r' *//    +\S', line) and not is_other:
            start = start or n
            block.append(line[line.index('//') + 2:].removeprefix('     '))
        elif block and re.fullmatch(r' *//', line):
            block.append('')
        elif block:
            yield start, '\n'.join(block).rstrip()
            block, start = [], 0


def program(header):
    out = ['#include "det/det.h"', '#include "docs/headers.h"']
    for start, text in examples(header):
        body, line = [], start
        for paragraph in re.split(r'\n\n', text):
            code = re.sub(r'^ *\.\.\..*$', '', paragraph, flags=re.M)
            (out if FILE_SCOPE.search(code) else body).append(f'#line {line} "{header}"\n{code}')
            line += paragraph.count('\n') + 2
        if body:
            out += [f'int example_{start}(void);', f'int example_{start}(void)', '{', *body, 'return 0;', '}']
    return '\n'.join(out) + '\n'


def main(cc):
    bad = count = 0
    for header in sorted((ROOT / 'include/det').glob('*.h')):
        n = len(list(examples(header)))
        if not n:
            continue
        count += n
        with tempfile.NamedTemporaryFile('w', suffix='.c') as f:
            f.write(program(header))
            f.flush()
            ran = subprocess.run([cc, '-std=gnu11', '-fsyntax-only', '-Wall', '-Werror', '-Wno-unused', f'-I{ROOT}/include', f'-I{ROOT}/tests',
                                  f.name], capture_output=True, text=True)
        bad += ran.returncode != 0
        print(ran.stderr, end='')
    assert count > 15, f'only {count} examples were found'
    print(f'headers: {count} examples')
    return bad


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
