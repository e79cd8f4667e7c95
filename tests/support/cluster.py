"""A Slurm cluster on this machine: every node has a network, process numbers and shared memory of its own.

    cluster.enter()                       # at the beginning of a program: goes on inside namespaces, where nothing is left behind
    with Cluster(4) as c:
        c.run('srun', '-N4', 'hostname')
        c.cut(2); c.mend(2)               # the cable of node n2
        c.power_off(3)                    # everything on n3 dies at once
        c.kill_controller()

The machine itself is 10.77.0.254 ("ctl"), node number i is 10.77.0.i ("n<i>"). Files are the same everywhere, except /dev/shm and
the nodes' own directories, node_dir(i)."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NET = '10.77.0'
ADDRESS = NET + '.254'
PROGRAMS = ('unshare', 'nsenter', 'ip', 'munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'squeue')
INSIDE = 'DET_TEST_CLUSTER'
CONFIG = """
ClusterName=det
SlurmctldHost=ctl({address})
AuthType=auth/munge
AuthInfo=socket={dir}/munge/sock
SlurmUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/ctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/log/ctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
TmpFS={dir}/node.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait={kill_wait}
SlurmdTimeout=10
InactiveLimit=0
MinJobAge=300
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000
SlurmdParameters=config_overrides
NodeName=n[1-{n}] NodeAddr={net}.[1-{n}] CPUs={cpus} RealMemory=4000
PartitionName=main Nodes=n[1-{n}] Default=YES PriorityTier=1 MaxTime=UNLIMITED OverTimeLimit=0
PartitionName=high Nodes=n[1-{n}] PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Why there can be no cluster here; None: there can."""
    for program in PROGRAMS:
        if not shutil.which(program):
            return f'there is no {program}: install slurm-wlm, munge and iproute2'
    if os.geteuid() != 0:
        return 'namespaces of nodes need root'
    done = subprocess.run(['unshare', '-n', '-m', '-u', '-i', '-p', '-f', '--mount-proc', 'mount', '-t', 'tmpfs', 't', '/mnt'],
                          capture_output=True, text=True)
    return f'no namespaces here: {done.stderr.strip()}' if done.returncode else None


def enter():
    """Goes on in namespaces of its own: when this program ends, everything that it has started does, too."""
    if os.environ.get(INSIDE):
        return
    why = missing()
    if why:
        print('SKIPPED:', why)
        sys.exit(77)
    # bash is the process that inherits orphans, and takes their exit codes
    sys.stdout.flush()
    os.execvpe('unshare', ['unshare', '-n', '-m', '-u', '-i', '-p', '-f', '--kill-child', '--mount-proc', '--propagation', 'private',
                           'bash', '-c', '"$@" & wait $!', 'bash', sys.executable, '-u', *sys.argv], {**os.environ, INSIDE: '1'})


def sh(*argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f'{" ".join(argv)}: {done.stderr.strip() or done.stdout.strip()}')
    return done.stdout


class Cluster:
    def __init__(self, n_nodes, cpus=2, kill_wait=5):
        self.n, self.cpus, self.kill_wait = n_nodes, cpus, kill_wait
        self.dir = tempfile.mkdtemp(prefix='det-slurm-')
        os.chmod(self.dir, 0o755)
        self.nodes, self.daemons = {}, {}

    # --- the machine

    def __enter__(self):
        try:
            self.make_network()
            self.start_munge()
            config = CONFIG.format(dir=self.dir, address=ADDRESS, net=NET, n=self.n, cpus=self.cpus, kill_wait=self.kill_wait)
            with open(os.path.join(self.dir, 'slurm.conf'), 'w') as f:
                f.write(config)
            os.environ['SLURM_CONF'] = f.name
            self.start_controller()
            for i in range(1, self.n + 1):
                self.power_on(i)
            self.wait_idle()
        except BaseException:
            self.show_logs()
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for i in list(self.nodes):
            self.power_off(i)
        for name in list(self.daemons):
            self.end(name, signal.SIGKILL)
        for i in range(1, self.n + 1):
            subprocess.run(['ip', 'netns', 'del', f'n{i}'], capture_output=True)
        subprocess.run(['ip', 'link', 'del', 'br0'], capture_output=True)
        subprocess.run(['umount', '/etc/hosts'], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def show_logs(self):
        log = os.path.join(self.dir, 'log')
        for name in sorted(os.listdir(log)) if os.path.isdir(log) else []:
            with open(os.path.join(log, name), errors='replace') as f:
                print(f'--- {name}:', f.read()[-1500:], sep='\n', file=sys.stderr)

    def make_network(self):
        os.makedirs(os.path.join(self.dir, 'log'))
        os.makedirs(os.path.join(self.dir, 'state'))
        os.makedirs('/run/netns', exist_ok=True)
        sh('mount', '-t', 'tmpfs', 't', '/run/netns')
        sh('ip', 'link', 'set', 'lo', 'up')
        sh('ip', 'link', 'add', 'br0', 'type', 'bridge')
        sh('ip', 'link', 'set', 'br0', 'up')
        sh('ip', 'addr', 'add', ADDRESS + '/24', 'dev', 'br0')
        for i in range(1, self.n + 1):
            sh('ip', 'netns', 'add', f'n{i}')
            sh('ip', 'link', 'add', f'v{i}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', f'n{i}')
            sh('ip', 'link', 'set', f'v{i}', 'master', 'br0', 'up')
            sh('ip', '-n', f'n{i}', 'addr', 'add', f'{NET}.{i}/24', 'dev', 'eth0')
            sh('ip', '-n', f'n{i}', 'link', 'set', 'eth0', 'up')
            sh('ip', '-n', f'n{i}', 'link', 'set', 'lo', 'up')
            os.makedirs(self.node_dir(i))
            os.chmod(self.node_dir(i), 0o1777)
        hosts = os.path.join(self.dir, 'hosts')
        with open(hosts, 'w') as f:
            f.write('127.0.0.1 localhost\n' + ''.join(f'{NET}.{i} n{i}\n' for i in range(1, self.n + 1)) + f'{ADDRESS} ctl\n')
        sh('mount', '--bind', hosts, '/etc/hosts')
        sh('hostname', 'ctl')

    def node_dir(self, i):
        """What is on the disk of a node."""
        return os.path.join(self.dir, f'node.n{i}')

    # --- daemons

    def begin(self, name, *argv):
        with open(os.path.join(self.dir, 'log', name + '.out'), 'ab') as out:
            self.daemons[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def end(self, name, how=signal.SIGKILL):
        process = self.daemons.pop(name, None)
        if process:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(how)
            process.wait(30)

    def start_munge(self):
        folder = os.path.join(self.dir, 'munge')
        os.mkdir(folder, 0o711)
        with open(os.path.join(folder, 'key'), 'wb') as f:
            f.write(os.urandom(1024))
        os.chmod(f.name, 0o400)
        self.begin('munged', 'munged', '--force', '-F', f'--key-file={folder}/key', f'--socket={folder}/sock', f'--pid-file={folder}/pid',
                   f'--log-file={self.dir}/log/munged.log', f'--seed-file={folder}/seed', '--num-threads=2')
        wait(lambda: os.path.exists(folder + '/sock'), 'munged')

    def start_controller(self):
        self.begin('ctld', 'slurmctld', '-D', '-i')

    def kill_controller(self):
        self.end('ctld')

    def start_slurmd(self, i):
        self.begin(f'slurmd{i}', 'nsenter', '-t', str(self.nodes[i]), '-a', '--', 'slurmd', '-D', '-N', f'n{i}')

    def kill_slurmd(self, i):
        """Its jobs go on."""
        process = self.daemons.pop(f'slurmd{i}', None)
        if process:
            for pid in children(process.pid) or [process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait(30)

    # --- nodes

    def power_on(self, i):
        """The first process of a node only waits; what ends below it is taken by it."""
        script = f'hostname n{i}; mount -t tmpfs t /dev/shm; echo up; while :; do sleep 1000 & wait $!; done'
        init = subprocess.Popen(['nsenter', f'--net=/run/netns/n{i}', 'unshare', '-m', '-u', '-i', '-p', '-f', '--kill-child', '--mount-proc',
                                 'bash', '-c', script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        init.stdout.readline()
        self.daemons[f'node{i}'] = init
        self.nodes[i] = children(init.pid)[0]
        self.start_slurmd(i)

    def power_off(self, i):
        """At once, with everything on it."""
        pid = self.nodes.pop(i, None)
        if pid:
            os.kill(pid, signal.SIGKILL)
        self.end(f'node{i}')
        self.kill_slurmd(i)

    def cut(self, i):
        sh('ip', 'link', 'set', f'v{i}', 'down')

    def mend(self, i):
        sh('ip', 'link', 'set', f'v{i}', 'up')

    def on(self, i, *argv):
        """Runs a program on a node."""
        return sh('nsenter', '-t', str(self.nodes[i]), '-a', '--', *argv)

    def processes(self, i, word):
        """Numbers, as this machine counts, of the processes on a node whose command line has the word."""
        space = os.stat(f'/proc/{self.nodes[i]}/ns/net').st_ino
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            with contextlib.suppress(OSError):
                if os.stat(f'/proc/{pid}/ns/net').st_ino == space and word in read(f'/proc/{pid}/cmdline').replace('\0', ' '):
                    found.append(int(pid))
        return found

    # --- Slurm

    def run(self, *argv, **more):
        return sh(*argv, **more)

    def idle(self):
        done = subprocess.run(['sinfo', '-h', '-o', '%D', '-t', 'idle', '-p', 'main'], capture_output=True, text=True)
        return sum(map(int, done.stdout.split())) if not done.returncode else 0

    def wait_idle(self, n=None):
        wait(lambda: self.idle() == (n or self.n), 'idle nodes', 30)

    def heal(self):
        """Nodes that Slurm does not trust any more are trusted again."""
        subprocess.run(['scontrol', 'update', f'NodeName=n[1-{self.n}]', 'State=RESUME'], capture_output=True)

    def jobs(self):
        return json.loads(sh('squeue', '--json'))['jobs']


def children(pid):
    return [int(x) for x in read(f'/proc/{pid}/task/{pid}/children').split()]


def read(path):
    with open(path, errors='replace') as f:
        return f.read()


def wait(what, name, seconds=60):
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > end:
            raise RuntimeError(f'waited in vain for {name}')
        time.sleep(0.02)
