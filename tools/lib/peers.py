# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that are measured beside this one: what each is called, how its ranks are started, whether it is there.

Every rank is pinned to a core of its own where there are enough, by the same means for all libraries; else none is pinned.
"""
import os
import shutil
import signal
import subprocess
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CORES = sorted(os.sched_getaffinity(0))
# What mpirun starts has inherited a number of Slurm's too, so that is asked last.
RANK = '${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${STRETTO_RANK:-$SLURM_PROCID}}}'
PIN = 'shift $((RANK % CORES)); core=$1; while [ "$1" != -- ]; do shift; done; shift; exec taskset -c $core "$@"'


# For all: temporary memory of a library stays with the process. Else each operation on a large vector would pay for new
# pages of the kernel, which on virtual machines can take ten times as long as the operation.
EVERYWHERE = {'MALLOC_MMAP_THRESHOLD_': str(1 << 32), 'MALLOC_TRIM_THRESHOLD_': str(1 << 32)}


class Failure(Exception):
    """Something that one line on stderr tells."""


class Library:
    """One that is measured: `program` is the end of its programs' names, the rest is how it likes to be run."""

    def __init__(self, name, title, program, package, mca=(), environment=None, shared=None):
        self.name, self.title, self.program, self.package = name, title, program, package
        self.mca = list(mca)                    # Open MPI's components within a node
        self.environment = environment or {}
        self.shared = shared or {}              # environment where ranks share cores


LIBRARIES = (
    Library('stretto', 'Stretto', 'stretto', ''),
    Library('openmpi', 'Open MPI', 'openmpi', 'libopenmpi-dev', ('--mca', 'pml', 'ob1', '--mca', 'btl', 'vader,self')),
    Library('openmpi+ucx', 'Open MPI + UCX', 'openmpi', 'libopenmpi-dev',
            ('--mca', 'pml', 'ucx', '--mca', 'pml_ucx_tls', 'any', '--mca', 'pml_ucx_devices', 'any')),
    Library('mpich', 'MPICH', 'mpich', 'mpich libmpich-dev', shared={'MPIR_CVAR_POLLS_BEFORE_YIELD': '1'}),
    Library('mpich+async', 'MPICH, async thread', 'mpich', 'mpich libmpich-dev',
            environment={'MPIR_CVAR_ASYNC_PROGRESS': '1'}, shared={'MPIR_CVAR_POLLS_BEFORE_YIELD': '1'}),
    Library('gloo', 'Gloo', 'gloo', 'libgloo-dev'),
)
BY_NAME = {library.name: library for library in LIBRARIES}


def launcher(name):
    """A program of one MPI, whatever `mpirun` alone stands for."""
    return shutil.which(name) or 'mpirun'


def missing(build, library, loop):
    """'' or why a library cannot be measured."""
    if os.access('%s/tests/peers/%s_%s' % (build, loop, library.program), os.X_OK):
        return ''
    if library.program == 'stretto':
        raise Failure('no %s/tests/peers/%s_stretto: make tests' % (build, loop))
    return '%s was not built: Debian\'s %s was not found' % (library.title, library.package)


def pinned(ranks, command):
    """A command that takes the core of its rank; for 1 in any case: on virtual nodes the next ones begin again."""
    if ranks > len(CORES):
        return command
    script = PIN.replace('RANK', RANK).replace('CORES', str(len(CORES)))
    return ['sh', '-c', script, 'sh', *map(str, CORES), '--', *command]


def run(command, seconds, environment=None):
    """The output of a command; all that it has started ends with it."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **EVERYWHERE, **(environment or {})}, start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise
    if process.returncode != 0:
        raise Failure('%s: status %d: %s' % (' '.join(command[:9]), process.returncode, (err or out).strip()[-300:]))
    return out


def run_local(build, library, ranks, command, seconds, environment=None):
    """The output of so many ranks of a command on this machine, over shared memory."""
    variables = {**library.environment, **(environment or {})}
    if ranks > len(CORES):
        variables.update(library.shared)
    command = pinned(ranks, command)
    if library.program == 'openmpi':
        start = [launcher('mpirun.openmpi'), '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '--mca',
                 'mpi_yield_when_idle', str(int(ranks > len(CORES))), *library.mca, '-n', ranks]
    elif library.program == 'mpich':
        start = [launcher('mpirun.mpich'), '-bind-to', 'none', '-n', ranks]
    else:
        start = [build + '/stretto-run', '--bind', 'none', '-n', ranks]
    with tempfile.TemporaryDirectory(prefix='peers.') as meeting:
        if library.program == 'gloo':
            variables.update(PEER_STORE=meeting, PEER_IFACE='lo')
        return run([*map(str, start), *command], seconds, variables)


class Nodes:
    """Virtual nodes with cables whose rate can be limited: tests/cluster/nodes. Needs root."""

    def __init__(self, count):
        self.count = count
        self.state = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Failure('virtual nodes need root')
        self.state = tempfile.mkdtemp(prefix='sh.', dir='/tmp')
        os.environ['STRETTO_TEST_CLUSTER'] = self.state
        try:
            self.call('up', self.count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        subprocess.run([HERE + '/tests/cluster/nodes', 'down'], check=False)
        shutil.rmtree(self.state, ignore_errors=True)

    @staticmethod
    def call(*words, seconds=150, environment=None):
        return run([HERE + '/tests/cluster/nodes', *map(str, words)], seconds, environment)

    def ranks(self, count, command, environment=None, seconds=150):
        """The output of a command on so many nodes, a rank and a core each, started by srun."""
        return self.call('exec', 1, 'srun', '--mpi=pmi2', '-N', count, '-n', count, '--kill-on-bad-exit',
                         *pinned(1, command), seconds=seconds, environment=environment)

    def run(self, library, count, command, seconds=150):
        """The same by the launcher of a library, over TCP between the nodes."""
        salloc = ['exec', 1, 'salloc', '-Q', '-N', count, '--ntasks-per-node=1']
        environment = dict(library.environment)
        if library.program == 'openmpi':
            over = ['--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self']
            if 'ucx' in library.mca:
                over = library.mca
                environment['UCX_TLS'] = 'tcp,self'
            return self.call(*salloc, launcher('mpirun.openmpi'), '--allow-run-as-root', '--bind-to', 'none', *over, '-n', count,
                             *pinned(1, command), seconds=seconds, environment=environment)
        if library.program == 'mpich':
            environment['UCX_TLS'] = 'tcp,self'
            return self.call(*salloc, launcher('mpirun.mpich'), '-bind-to', 'none', '-n', count, *pinned(1, command),
                             seconds=seconds, environment=environment)
        with tempfile.TemporaryDirectory(prefix='peers.') as meeting:
            if library.program == 'gloo':
                environment.update(PEER_STORE=meeting, PEER_IFACE='eth0')
            return self.ranks(count, command, environment, seconds)


def parse_latency(text):
    """{(bytes, placement): [us of each window]}; lines of other form are a library's own talk."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[2].isdigit():
            found[int(words[0]), words[1]] = [float(word) for word in words[3:]]
    return found


def parse_overlap(text):
    """{bytes: (pure us, compute us, total us, percent)}"""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 5 and words[0].isdigit():
            found[int(words[0])] = tuple(float(word) for word in words[1:])
    return found
