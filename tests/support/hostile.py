"""A task that tries to get at what is not its own. Where it succeeds it does no more than show that it could, and undoes
it; even so, a test must run it in namespaces of its own (tests/e2e/isolation.py). Prints one line for each way: "OPEN name: what it got", or
"closed name: why". What it looks for comes in variables: DATA (the master's directory), PIDS (processes outside, each with the time of its start),
MINE (what was put where the task must not reach), SECRET (what is written there), DISK (a block device).
"""
import contextlib
import ctypes
import glob
import os
import signal
import socket
import stat
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
DATA, SECRET, MINE = os.environ['DATA'], os.environ['SECRET'], os.environ['MINE']
STARTS = dict(map(int, x.split(':')) for x in os.environ['PIDS'].split())  # when they started: inside, a number may be another's
PIDS = list(STARTS)
NEWNS, NEWUSER, NEWPID = 0x20000, 0x10000000, 0x20000000
ways = {}


def way(f):
    ways[f.__name__] = f
    return f


def call(name, *args):
    """A function of the C library that must not succeed."""
    ctypes.set_errno(0)
    got = getattr(LIBC, name)(*args)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def read(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(fd, 'rb') as f:
        return f.read(1 << 20)


SEIZE = 0x4206


def first(paths, wanted=None):
    """The first that can be read, and has the wanted text in it."""
    why = 'there is nothing'
    for path in paths:
        try:
            text = read(path)
            if wanted is None or wanted.encode() in text:
                return path
            why = 'nothing of interest'
        except OSError as e:
            why = e
    raise OSError(why)


def is_outside(pid):
    """Whether the number means here what it means outside."""
    with contextlib.suppress(OSError, ValueError):
        return int(read(f'/proc/{pid}/stat').rpartition(b')')[2].split()[19]) == STARTS[pid]
    return False


def in_child(f):
    """What a process of its own finds: its namespaces end with it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = 'OPEN ' + str(f())
        except BaseException as e:
            text = str(e)
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    with open(r, 'rb') as f:
        text = f.read().decode()
    if not text.startswith('OPEN '):
        raise OSError(text)
    return text[5:]


@way
def use_descriptors_left_open():
    mine = {0, 1, 2}
    extra = [f'{fd} {os.readlink("/proc/self/fd/" + fd)}' for fd in os.listdir('/proc/self/fd')
             if int(fd) not in mine and os.path.exists('/proc/self/fd/' + fd) and 'proc' not in os.readlink('/proc/self/fd/' + fd)]
    if not extra:
        raise OSError('none')
    return extra


@way
def find_secrets_in_its_environment():
    return os.environ['SECRET_OF_THE_MASTER']


# --- the master's files

@way
def read_the_admin_token():
    return first([f'{DATA}/master.json'])


@way
def read_the_database():
    return first(glob.glob(f'{DATA}/det.db*') + [f'{DATA}/det.db'])


@way
def read_what_others_left_in_the_data_directory():
    return first([f'{DATA}/{x}' for x in ('lock', 'master.log', 'stderr.txt', 'tls-key.pem')] + glob.glob(f'{DATA}/code/*'))


@way
def see_runs_of_others():
    mine = os.environ['DET_RUN_DIR'].split('/')[-2]
    others = [x for d in ('run', 'work') for x in os.listdir(f'{DATA}/{d}') if x not in (mine, os.path.basename(os.getcwd()))]
    if not others:
        raise OSError('only its own')
    return others


@way
def read_logins_of_the_command_line():
    return first([os.path.expanduser('~/.config/det/login.json'), os.environ.get('XDG_CONFIG_HOME', '/x') + '/det/login.json'])


@way
def write_its_own_records():
    run = os.path.dirname(os.environ['DET_RUN_DIR'])
    names = ('shim.json', 'spec.json', 'exit.json', 'log.000000000000000')
    for name in names:
        with contextlib.suppress(OSError), open(f'{run}/{name}', 'r+b'):
            return name
    with open(f'{run}/exit.json', 'w') as f:
        f.write('{"token":1,"end":"succeeded","code":0,"signal":0,"rank":-1,"asked":false,"started_us":0,"ended_us":0}')
    raise OSError('what it wrote there is its own')


@way
def lock_its_own_directory():
    import fcntl
    fd = os.open(os.path.dirname(os.environ['DET_RUN_DIR']), os.O_RDONLY)
    if os.path.exists(f'/proc/self/fd/{fd}/spec.json'):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return 'the lock'
    raise OSError('another directory of that name')


@way
def find_the_files_by_another_name():
    names = ['/proc/self/root', '/proc/1/root', '/proc/1/cwd', '/proc/self/cwd/..']
    for pid in PIDS:
        names.append(f'/proc/{pid}/root')
    for line in read('/proc/self/mountinfo').decode().splitlines():
        names.append(line.split()[4])
    return first([f'{n}{DATA}/master.json' for n in names])


@way
def reach_it_by_dots_and_links():
    os.symlink(DATA, 'link')
    return first(['link/master.json', f'{os.getcwd()}/../../master.json',
                  os.environ['DET_CHECKPOINT_STORAGE'] + '/../master.json', f'/proc/self/fd/../../..{DATA}/master.json'])


@way
def open_by_handle():
    """A file by its number, past all directories: needs a capability."""
    class Handle(ctypes.Structure):
        _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('handle', ctypes.c_char * 128)]
    h, mount = Handle(128, 0, b''), ctypes.c_int()
    call('name_to_handle_at', -100, b'.', ctypes.byref(h), ctypes.byref(mount), 0)
    fd = os.open('.', os.O_RDONLY)
    return call('open_by_handle_at', fd, ctypes.byref(h), os.O_RDONLY)


# --- other processes

@way
def read_tokens_of_others():
    own = os.environ['DET_SESSION_TOKEN'].encode()
    found = []
    for path in glob.glob('/proc/[0-9]*/environ') + [f'/proc/{p}/environ' for p in PIDS]:
        with contextlib.suppress(OSError):
            text = read(path)
            if b'DET_SESSION_TOKEN' in text and own not in text:
                found.append(path)
    if not found:
        raise OSError('none is in sight')
    return found


@way
def see_other_processes():
    seen = list(filter(is_outside, PIDS))
    if not seen:
        raise OSError('none is in sight')
    return seen


@way
def look_into_process_1():
    return first(['/proc/1/environ', '/proc/1/maps', '/proc/1/mem', '/proc/1/auxv'])


@way
def trace_process_1():
    return call('ptrace', SEIZE, 1, 0, 0)


@way
def trace_others():
    for pid in filter(is_outside, PIDS):
        with contextlib.suppress(OSError):
            call('ptrace', SEIZE, pid, 0, 0)
            return pid
    raise OSError('none can be named')


@way
def read_memory_of_process_1():
    buf = ctypes.create_string_buffer(8)
    vec = (ctypes.c_void_p * 2)(ctypes.addressof(buf), 8)
    there = (ctypes.c_void_p * 2)(0x400000, 8)
    return call('process_vm_readv', 1, vec, 1, there, 1, 0)


@way
def kill_others():
    """By signal 0, which asks whether one could."""
    hit = []
    for pid in PIDS:
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            if is_outside(pid):
                hit.append(pid)
    if not hit:
        raise OSError('none can be named')
    return hit


@way
def kill_everything():
    """Of what it may signal, only itself is left out; whoever is outside must not notice."""
    def try_it():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        os.kill(-1, signal.SIGCONT)
        raise OSError('whoever it reached is its own')
    return in_child(try_it)


@way
def stop_its_shim():
    for pid in {os.getppid(), 1} | set(PIDS):
        with contextlib.suppress(OSError):
            if pid > 0 and b'shim' in read(f'/proc/{pid}/cmdline'):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.2)
                stopped = b'T (stopped)' in read(f'/proc/{pid}/status')
                os.kill(pid, signal.SIGCONT)
                if stopped:
                    return pid
    raise OSError('it is not in sight, or does not mind')


@way
def kill_process_1():
    os.kill(1, signal.SIGKILL)
    if not os.path.exists('/proc/1/status'):
        return 'gone'
    raise OSError('it does not mind')


# --- mounts

@way
def unmount_the_cover():
    call('umount2', DATA.encode(), 2)
    return first([f'{DATA}/master.json'])


@way
def mount_something():
    os.makedirs('mounted', exist_ok=True)
    call('mount', b'none', b'mounted', b'tmpfs', 0, None)
    return call('umount2', b'mounted', 2)


@way
def remount_for_writing():
    return call('mount', b'none', b'/', None, 32 | 4096, None)


@way
def bind_the_root_once_more():
    os.makedirs('again', exist_ok=True)
    call('mount', b'/', b'again', None, 4096, None)
    try:
        return first([f'again{DATA}/master.json'])
    finally:
        call('umount2', b'again', 2)


@way
def undo_mounts_in_a_namespace_of_its_own():
    def try_it():
        uid, gid = os.getuid(), os.getgid()
        call('unshare', NEWUSER | NEWNS)
        for name, text in (('setgroups', 'deny'), ('uid_map', f'0 {uid} 1'), ('gid_map', f'0 {gid} 1')):
            with open(f'/proc/self/{name}', 'w') as f:
                f.write(text)
        for flags in (0, 2):
            with contextlib.suppress(OSError):
                call('umount2', DATA.encode(), flags)
        with contextlib.suppress(OSError):
            call('mount', b'/', b'/mnt', None, 4096, None)  # without what is mounted below
        return first([f'{DATA}/master.json', f'/mnt{DATA}/master.json'])
    return in_child(try_it)


@way
def see_more_in_a_process_namespace_of_its_own():
    def try_it():
        uid, gid = os.getuid(), os.getgid()
        call('unshare', NEWUSER | NEWNS | NEWPID)
        for name, text in (('setgroups', 'deny'), ('uid_map', f'0 {uid} 1'), ('gid_map', f'0 {gid} 1')):
            with open(f'/proc/self/{name}', 'w') as f:
                f.write(text)
        call('mount', b'proc', b'/proc', b'proc', 0, None)
        return see_other_processes()
    return in_child(try_it)


@way
def join_other_namespaces():
    for pid in [1] + PIDS:
        for kind in ('mnt', 'pid', 'user'):
            with contextlib.suppress(OSError):
                fd = os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY)
                if os.fstat(fd).st_ino != os.stat(f'/proc/self/ns/{kind}').st_ino:
                    call('setns', fd, 0)
                    return kind
    raise OSError('there is none, or they are closed')


@way
def change_the_root():
    def try_it():
        os.makedirs('jail', exist_ok=True)
        out = os.open('/', os.O_RDONLY)
        os.chroot('jail')
        os.fchdir(out)
        for _ in range(20):
            os.chdir('..')
        os.chroot('.')
        return first([f'{DATA}/master.json'])
    return in_child(try_it)


@way
def pivot_the_root():
    os.makedirs('old', exist_ok=True)
    return call('syscall', 155, b'.', b'old')


# --- devices and the kernel

@way
def read_a_disk():
    disks = [os.environ.get('DISK', '')] + glob.glob('/dev/vd*') + glob.glob('/dev/sd*') + glob.glob('/dev/nvme*') + glob.glob('/dev/loop*')
    return first([d for d in disks if d])


@way
def make_a_disk():
    disk = int(os.environ.get('DISK_NUMBER', '0'))
    for folder in ('.', '/tmp', '/dev/shm'):
        with contextlib.suppress(OSError):
            os.mknod(f'{folder}/disk', stat.S_IFBLK | 0o600, disk)
            os.unlink(f'{folder}/disk')
            return folder
    raise OSError('it cannot be made')


@way
def read_memory_of_the_machine():
    return first(['/dev/mem', '/dev/kmem', '/dev/port', '/proc/kcore', '/dev/kmsg'])


@way
def set_the_program_for_core_dumps():
    before = read('/proc/sys/kernel/core_pattern')
    with open('/proc/sys/kernel/core_pattern', 'wb') as f:
        f.write(before)
    return 'written'


@way
def ask_the_kernel_for_a_reboot():
    fd = os.open('/proc/sysrq-trigger', os.O_WRONLY)
    return f'descriptor {fd}'


@way
def set_helpers_of_the_kernel():
    names = ['/sys/kernel/uevent_helper'] + glob.glob('/sys/fs/cgroup/*/release_agent') + ['/proc/sys/kernel/modprobe']
    for name in names:
        with contextlib.suppress(OSError):
            os.close(os.open(name, os.O_WRONLY))
            return name
    raise OSError('none can be written')


@way
def make_a_cgroup():
    for folder in ['/sys/fs/cgroup'] + glob.glob('/sys/fs/cgroup/*'):
        with contextlib.suppress(OSError):
            os.mkdir(folder + '/hostile')
            os.rmdir(folder + '/hostile')
            return folder
    raise OSError('nowhere')


@way
def load_a_module():
    return call('syscall', 175, None, 0, b'')


@way
def set_the_clock_or_the_name():
    with contextlib.suppress(OSError):
        return call('sethostname', b'hostile', 7)
    return call('syscall', 164, None, None)


# --- privileges

@way
def have_capabilities():
    text = subprocess.run(['grep', '^Cap[PEB]', '/proc/self/status'], stdout=subprocess.PIPE, text=True).stdout
    left = [x for x in text.split() if x.strip('0') and not x.startswith('Cap')]
    if not left:
        raise OSError('none, not even after exec')
    return left


@way
def get_privileges_by_setuid():
    """A copy of a program that takes its user from its file."""
    path = os.path.join('/tmp' if os.access('/tmp', os.W_OK) else '.', 'setuid-id')
    with open('/usr/bin/id', 'rb') as f, open(path, 'wb') as to:
        to.write(f.read())
    os.chmod(path, 0o6755)
    if b'NoNewPrivs:\t1' not in read('/proc/self/status'):
        return 'setuid programs work'
    for name in ('su', 'sudo', 'mount', 'newgrp', 'passwd', 'chsh'):
        out = subprocess.run(['sh', '-c', f'command -v {name} >/dev/null && {name} --version >/dev/null 2>&1; id -u; grep Eff /proc/self/status'],
                             stdout=subprocess.PIPE, text=True).stdout.split()
        if out[0] != str(os.getuid()) or out[-1].strip('0'):
            return out
    raise OSError('no new privileges')


@way
def become_another_user():
    def try_it():
        for uid in (0, 1, 1000, 65534):
            with contextlib.suppress(OSError):
                if uid != os.getuid():
                    os.setuid(uid)
                    return uid
        os.setgroups([0])
        return 'groups'
    return in_child(try_it)


# --- between tasks

@way
def read_shared_memory_of_others():
    return first(glob.glob('/dev/shm/*'), SECRET)


@way
def attach_shared_memory_of_others():
    shm = call('shmget', 4711, 0, 0o666)
    return f'segment {shm}'


@way
def join_the_ranks_of_others():
    """The socket of another trial's ranks is seen by everybody; whoever is not of the trial gets nothing there."""
    for line in read('/proc/net/unix').decode().splitlines():
        if '@det-ranks-' not in line:
            continue
        name = '\0' + line.split('@')[1].strip()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(5)
            s.connect(name)
            s.send((1).to_bytes(4, 'little') + (2).to_bytes(4, 'little'))
            text, fds, _, _ = socket.recv_fds(s, 4096, 4)
            if fds:
                return f'memory of {name!r}'
    raise OSError('there is none, or it gives nothing')


@way
def read_files_of_others():
    """Checkpoints and caches of other users of the same master."""
    return first(glob.glob(f'{DATA}/checkpoints/*') + glob.glob(f'{DATA}/users/*/*/*') + glob.glob(f'{DATA}/checkpoints/*/*'), SECRET)


@way
def talk_to_those_who_start_programs():
    for path in ('/run/systemd/private', '/run/dbus/system_bus_socket', '/run/docker.sock', f'{MINE}/run.sock'):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            return path
    raise OSError('nobody is there')


# --- the rest of the file system

@way
def read_the_home_directory():
    return first([os.path.expanduser('~/secret')], SECRET)


@way
def write_in_the_home_directory():
    home = os.environ['REAL_HOME']
    with open(f'{home}/.hostile', 'w') as f:
        f.write('x')
    return 'written'  # where: the test looks


@way
def write_in_the_system():
    for folder in ('/etc', '/usr/local/bin', '/var/spool', '/opt', '/'):
        with contextlib.suppress(OSError):
            path = f'{folder}/det-hostile-test'
            with open(path, 'w'):
                pass
            os.unlink(path)
            return folder
    raise OSError('nowhere')


@way
def write_in_tmp_of_others():
    with open('/tmp/det-hostile-tmp', 'w') as f:
        f.write('x')
    return 'written'  # where: the test looks


@way
def leave_traps_in_its_directory():
    """Names that whoever cleans up would follow, wait for, or choke on."""
    run = os.environ['DET_RUN_DIR']
    os.symlink(f'{DATA}/master.json', f'{run}/a.journal')
    os.mkfifo(f'{run}/b.journal')
    os.mkdir(f'{run}/c.journal')
    with open(f'{run}/d.journal', 'wb') as f:
        f.truncate(1 << 40)
    with open(f'{run}/e.journal', 'wb') as f:
        f.write(b'\xff' * 70000)
    os.chdir(run)
    for _ in range(3000):
        os.mkdir('d')
        os.chdir('d')
    os.chmod('.', 0)
    os.chdir('/')
    raise OSError('they are left')


def main():
    for name, f in ways.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        cwd = os.getcwd()
        try:
            print(f'OPEN {name}: {f()}', flush=True)
        except BaseException as e:
            print(f'closed {name}: {e}'.replace('\n', ' '), flush=True)
        with contextlib.suppress(OSError):
            os.chdir(cwd)


main()
