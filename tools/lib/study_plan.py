# SPDX-License-Identifier: BSD-3-Clause
"""What the convergence study runs, in which order, and what of it fits into the time. Pure but for training_images().

A run is one training: one model, number of ranks, strategy and seed. All runs of one model and number of ranks see the
same number of samples, with the same optimiser and schedule. The list is in the order of importance: what the time
does not suffice for is left out from its end.
"""
import collections
import gzip
import os
import struct

TAU, OWN_WEIGHT, BATCH = 4, 0.25, 32
PROBES = 12                                     # of the gradient in a run
FASHION_MNIST = '/usr/share/datasets/fashion-mnist'

Arm = collections.namedtuple('Arm', 'name strategy delay batch delayed')
# acco steps twice a batch, so with half of it the number of updates is that of the others.
ARMS = (Arm('sync', 'sync', None, BATCH, False),
        Arm('local', 'local', None, BATCH, False),
        Arm('dasgd d=1', 'dasgd', 1, BATCH, True),
        Arm('dasgd d=2', 'dasgd', 2, BATCH, True),
        Arm('dasgd d=4', 'dasgd', 4, BATCH, True),
        Arm('dasgd-delta d=1', 'dasgd-delta', 1, BATCH, True),
        Arm('dasgd-delta d=2', 'dasgd-delta', 2, BATCH, True),
        Arm('dasgd-delta d=4', 'dasgd-delta', 4, BATCH, True),
        Arm('dga', 'dga', 1, BATCH, True),
        Arm('co2', 'co2', None, BATCH, True),
        Arm('acco', 'acco', None, BATCH // 2, False))
BY_NAME = {arm.name: arm for arm in ARMS}
RULES = [arm for arm in ARMS if arm.strategy.startswith('dasgd')]

# What differs between a whole study and a quick one.
Scale = collections.namedtuple('Scale', 'models ranks seeds epochs goal_model goal_epochs progress_steps rate_steps')
WHOLE = Scale({'mlp': 'mlp:784-512-256-10', 'cnn': 'cnn:28x28x1-8-16-128-10'}, (2, 4, 8), 3, 0,
              'cnn:28x28x1-32-64-128-10', 10, 256, (64, 128, 256, 512, 1024, 2048))
QUICK = Scale({'mlp': 'mlp:784-32-10'}, (2,), 1, 1, None, 0, 32, (16, 64))

# kind: accuracy (a row of the main table), goal (the one long training), progress (effective steps), rate (the gradient
# of trainings of K steps with a constant learning rate in proportion to 1 / sqrt(K), as the theorem has it).
Run = collections.namedtuple('Run', 'kind model text ranks arm seed epochs samples steps')
OPTIMIZER = {'accuracy': 'sgd:lr=0.05,momentum=0.9', 'goal': 'sgd:lr=0.05,momentum=0.9', 'progress': 'sgd:lr=0.01,momentum=0'}
RATE = 0.8           # K steps have the learning rate RATE / sqrt(K)
RATE_ARMS = ('sync', 'local', 'dasgd d=1', 'dasgd d=2', 'dasgd-delta d=1', 'dasgd-delta d=2')
SCHEDULE = {'accuracy': 'onecycle', 'goal': 'onecycle', 'progress': 'constant', 'rate': 'constant'}


def training_images(data):
    """How many there are, from the head of the IDX file."""
    path = (FASHION_MNIST if data == 'fashion-mnist' else data) + '/train-images-idx3-ubyte'
    opened = open(path, 'rb') if os.path.exists(path) else gzip.open(path + '.gz')
    with opened as file:
        head = file.read(8)
    if len(head) < 8 or head[:4] != b'\0\0\x08\x03':
        raise ValueError('%s: not a file of images in the IDX format' % path)
    return struct.unpack('>I', head[4:])[0]


def samples_of(images, ranks, epochs):
    """The samples of a run: whole steps for every number of ranks and every batch, so that all have the same."""
    step = max(ranks) * BATCH
    if images < step:
        raise ValueError('%d training images are too few for a step of %d ranks' % (images, max(ranks)))
    return images // step * step * epochs


def make_run(kind, model, ranks, arm, seed, amount):
    """model: (name, text); amount: (epochs that suffice, samples that end it)."""
    return Run(kind, model[0], model[1], ranks, arm.name, seed, amount[0], amount[1], amount[1] // (ranks * arm.batch))


def amount_of(steps, epoch):
    """The amount of so many steps of two ranks, with epochs of so many samples."""
    samples = steps * 2 * BATCH
    return -(-samples // epoch), samples


def list_runs(scale, seeds, arms, images, epochs):
    """All runs, the most important first."""
    samples = samples_of(images, scale.ranks, epochs)

    def table(ranks):
        return [make_run('accuracy', model, ranks, arm, seed, (epochs, samples))
                for seed in range(1, seeds + 1) for model in scale.models.items() for arm in arms]
    runs = table(scale.ranks[0])
    rules = [arm for arm in arms if arm in RULES]
    # Of equal steps on equal data: `local` is what the rules are compared with.
    for arm in ([BY_NAME['local']] + rules if rules else []):
        amount = amount_of(scale.progress_steps, samples // epochs)
        runs.append(make_run('progress', ('mlp', scale.models['mlp']), 2, arm, 1, amount))
    if scale.goal_model:
        arm = BY_NAME['dasgd-delta d=1']
        amount = (scale.goal_epochs, samples_of(images, (2,), scale.goal_epochs))
        runs.append(make_run('goal', ('cnn', scale.goal_model), 2, arm, 1, amount))
    for arm in arms:
        for steps in scale.rate_steps if arm.name in RATE_ARMS else ():
            runs.append(make_run('rate', ('mlp', scale.models['mlp']), 2, arm, 1, amount_of(steps, samples // epochs)))
    return runs + [run for ranks in scale.ranks[1:] for run in table(ranks)]


def name_of(run):
    kind = 'rate%d' % run.steps if run.kind == 'rate' else run.kind
    return '%s_%s_%d_%s_%d' % (kind, run.model, run.ranks, run.arm.replace(' d=', '_d'), run.seed)


def optimizer_of(run):
    return 'sgd:lr=%.6f,momentum=0' % (RATE / run.steps ** 0.5) if run.kind == 'rate' else OPTIMIZER[run.kind]


def command_of(run, build, folder, data):
    """The exact command of a run, as a list of words."""
    arm = BY_NAME[run.arm]
    words = ['%s/stretto-run' % build, '-n', run.ranks, '%s/stretto-train' % build, '--strategy', arm.strategy]
    if arm.strategy in ('local', 'dasgd', 'dasgd-delta', 'co2'):
        words += ['--tau', TAU]
    if arm.delay is not None:
        words += ['--delay', arm.delay]
    if arm.strategy in ('dasgd', 'dasgd-delta'):
        words += ['--own-weight', OWN_WEIGHT]
    every = TAU if run.kind == 'progress' else max(1, run.steps // PROBES)
    words += ['--data', data, '--model', run.text, '--batch', arm.batch, '--epochs', run.epochs, '--steps', run.steps,
              '--optimizer', optimizer_of(run), '--schedule', SCHEDULE[run.kind], '--seed', run.seed,
              '--threads', 1, '--quiet', '--log-every', max(1, run.steps // 50), '--probe-every', every,
              '--log', '%s/%s.jsonl' % (folder, name_of(run))]
    return list(map(str, words))


def work_of(run, costs):
    """Seconds that a run is expected to take: costs = {'start': s, model text: s a sample on all cores}."""
    probes = run.steps // TAU if run.kind == 'progress' else PROBES
    return costs['start'] + (run.samples + probes * 1024) * costs[run.text]


def choose_epochs(scale, seeds, arms, images, costs, seconds):
    """The most epochs, 1 to 10, with which all runs fit into nine tenths of the time; 1 if none do."""
    best = 1
    for epochs in range(1, 11):
        if sum(work_of(run, costs) for run in list_runs(scale, seeds, arms, images, epochs)) <= 0.9 * seconds:
            best = epochs
    return best


class Clock:
    """What is left of the time, and whether a run still fits: expectations are corrected by what runs took so far."""

    def __init__(self, seconds, costs):
        self.left, self.costs = seconds, costs
        self.expected, self.took = 0.0, 0.0

    def expect(self, run):
        factor = self.took / self.expected if self.expected > 0 else 1.0
        return work_of(run, self.costs) * factor

    def fits(self, run):
        return self.expect(run) <= self.left

    def spend(self, run, seconds):
        self.expected += work_of(run, self.costs)
        self.took += seconds
        self.left -= seconds
