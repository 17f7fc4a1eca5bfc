#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what the trainer hides on links of limited rate, between virtual nodes (root needed).

    tools/bench_hiding.py BUILD [--rounds N] [--steps N]     3 rounds, about eight minutes

For link rates such that one average takes 0.5, 1, 1.8 and 3 compute steps, all strategies train side by side in one job,
a rank a node. Prints a table and writes it to BUILD/bench/hiding.md, with hiding.csv and pictures; a run with no
options is copied to docs/results/.
"""
import argparse
import collections
import csv
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from lib import peers  # noqa: E402 # beside this file

SHARES = (0.5, 1.0, 1.8, 3.0)       # of a compute step that one average takes
NODES = (2, 4)
MODEL, BATCH, TAU = 'mlp:784-512-256-10', 512, 4
PARAMETERS = 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
OVERLAP_RATE = 200                  # Mbit/s: so slow that the kernel's own work for TCP is little of the time
OVERLAP_SIZES = [64 << 10 << 2 * i for i in range(5)]
HERE, CORES = peers.HERE, len(peers.CORES)
Failure = peers.Failure
OVERLAPPING = [peers.BY_NAME[name] for name in ('stretto', 'openmpi', 'mpich')]


def train(nodes, build, count, strategies, delay, steps):
    """{strategy: its summary}"""
    out = nodes.ranks(count, list(map(str, (
        build + '/stretto-train', '--strategy', ','.join(strategies), '--model', MODEL, '--batch', BATCH,
        '--tau', TAU, '--delay', delay, '--steps', steps, '--threads', 1, '--json', '--quiet'))))
    found = json.loads(out[min(at for at in (out.find('['), out.find('{')) if at >= 0):])
    found = found if isinstance(found, list) else [found]
    return {one['strategy']: one for one in found}


Row = collections.namedtuple('Row', 'nodes share rate strategy delay step compute exposed by_difference average hidden')


def measure_training(nodes, build, rounds, steps):
    rows = []
    for count in NODES:
        nodes.call('rate', 'off')
        alone = train(nodes, build, count, ['none'], 1, steps)['none']['step_ms']
        volume = PARAMETERS * 4 * 8 * 2 * (count - 1) / count    # bits that a rank sends for an average
        for turn in range(rounds):
            for share in SHARES:
                rate = volume / (share * alone * 1e-3) / 1e6
                print('hiding: %d nodes, round %d of %d, %.0f Mbit/s' % (count, turn + 1, rounds, rate), file=sys.stderr)
                nodes.call('rate', '%dkbit' % (rate * 1000))
                both = [(2, train(nodes, build, count, ['none', 'sync', 'local', 'dasgd', 'dasgd-delta'], 2, steps)),
                        (1, train(nodes, build, count, ['none', 'dasgd'], 1, steps))]
                average = both[0][1]['local']['average_ms']
                for delay, found in both:
                    base = found['none']['step_ms']
                    for name, one in found.items():
                        if name == 'none' and delay == 1:
                            continue
                        rows.append(Row(count, share, rate, name, delay if name.startswith('dasgd') else 0, one['step_ms'],
                                        base, one['exposed_ms'], one['step_ms'] - base, average,
                                        one['hidden_percent']))
        nodes.call('rate', 'off')
    return rows


def measure_alone(nodes, build, rounds, steps):
    """[(compute only, {strategy: step})] of one node by itself, ms, a pair a round"""
    nodes.call('rate', 'off')
    turns = []
    for turn in range(rounds):
        print('hiding: 1 node, round %d of %d' % (turn + 1, rounds), file=sys.stderr)
        found = train(nodes, build, 1, ['none', 'sync', 'dasgd'], 2, steps)
        turns.append((found['none']['step_ms'], {name: one['step_ms'] for name, one in found.items()}))
    return turns


def measure_overlap(nodes, build, rounds):
    """{(library, bytes): [(pure, compute, total, percent)]}, us"""
    found = collections.defaultdict(list)
    sizes = ','.join(map(str, OVERLAP_SIZES))
    nodes.call('rate', '%dmbit' % OVERLAP_RATE)
    for turn in range(rounds):
        print('hiding: overlap, round %d of %d' % (turn + 1, rounds), file=sys.stderr)
        for library in OVERLAPPING:
            if peers.missing(build, library, 'overlap'):
                continue
            command = ['%s/tests/peers/overlap_%s' % (build, library.program), sizes, '7', 'sgemm']
            for size, row in peers.parse_overlap(nodes.run(library, 2, command)).items():
                found[library.name, size].append(row)
    nodes.call('rate', 'off')
    return found


def middle(values):
    return statistics.median(values)


def spread(values, digits=2):
    return '%.*f (%.*f..%.*f)' % (digits, middle(values), digits, min(values), digits, max(values))


def grouped(rows):
    """[((nodes, share, strategy, delay), rows)], as measured"""
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault((row.nodes, row.share, row.strategy, row.delay), []).append(row)
    return groups.items()


def expected(row, averaged):
    """ms of exposed time a step by the rule max(0, Ta - d Tc) / tau"""
    return max(0, averaged - row.delay * row.compute) / TAU


def judge(rows, overlap):
    """Lines of what was asked for: met or missed, with the numbers that missed."""
    missed = collections.defaultdict(list)
    for (count, share, strategy, delay), group in grouped(rows):
        place = '%d nodes, average of %g steps, %s' % (count, share, strategy + (' d=%d' % delay if delay else ''))
        compute = middle([row.compute for row in group])
        slow = middle([row.step for row in group]) / compute
        differ = middle([abs(row.by_difference - row.exposed) for row in group]) / compute
        if differ > 0.05:
            missed['agree'].append('%s %.1f %%' % (place, 100 * differ))
        if not delay:
            continue
        average = middle([row.average for row in group])
        exposed = middle([row.exposed for row in group])
        rule = middle([expected(row, row.average) for row in group])
        if average <= delay * compute:
            if middle([row.hidden for row in group]) < 99:
                missed['hidden'].append('%s %.1f %%' % (place, middle([row.hidden for row in group])))
            if slow > 1.03:
                missed['step'].append('%s %.3f' % (place, slow))
        elif abs(exposed - rule) > 0.15 * rule:
            missed['rule'].append('%s %.2f ms, by the rule %.2f' % (place, exposed, rule))
    for size in OVERLAP_SIZES:
        percent = middle([one[3] for one in overlap['stretto', size]])
        if percent < 97:
            missed['overlap'].append('%d KiB %.1f %%' % (size >> 10, percent))
    goals = (('hidden', 'hidden at least 99 % wherever an average fits under d steps'),
             ('step', 'there, a step at most 1.03 of compute only on as many nodes (weak scaling of at least 0.97)'),
             ('rule', 'where it does not fit, the exposed time within 15 % of max(0, Ta - d Tc) / tau'),
             ('agree', 'exposed time by the trainer and by the difference to compute only, within 5 % of a step'),
             ('overlap', 'overlap of at least 97 % with no call into the library, 64 KiB to 16 MiB'))
    return ['* %s: **%s**%s' % (text, 'missed' if missed[name] else 'met',
                                ' (%s)' % '; '.join(missed[name]) if missed[name] else '') for name, text in goals]


HEAD = '''# What is hidden on a real link

Measured on {date} by `make bench-hiding`: virtual nodes (network namespaces and cables whose rate tbf limits, both ways) on one
machine with {cores} cores, UCX over TCP between them, a rank on each node, pinned to a core with its progress thread and all its
TCP. Up to {cores} nodes each rank has a core for itself; with more, ranks share cores, and *compute only* is that of so many.
Load average before: {load}. {rounds} rounds; medians, and (least..most). Times are ms a local step.

The network is {model} ({mib:.2f} MiB of parameters), batch {batch} a rank, tau {tau}. *Compute only* is strategy `none`. All strategies of
a row train side by side in one job, in turns. Ta, the time of one average, is what `local` waits for; d is the delay
in steps. *By the trainer* is the exposed time that it reports, *by difference* is its step less that of compute only.

## Goals

'''


def report(rows, alone, overlap, rounds, load):
    lines = [HEAD.format(date=datetime.date.today(), cores=CORES, load=load, rounds=rounds, model=MODEL, batch=BATCH, tau=TAU,
                         mib=PARAMETERS * 4 / 2 ** 20)]
    lines[0] += '\n'.join(judge(rows, overlap)) + '\n'
    last = None
    for (count, share, strategy, delay), group in grouped(rows):
        if (count, share) != last:
            last = (count, share)
            lines.append('\n## %d nodes, an average of %g compute steps (%.0f Mbit/s, Ta %s ms)\n' % (
                count, share, group[0].rate, spread([row.average for row in group], 1)))
            lines.append('| strategy | step | of compute only | exposed, by the trainer | by difference | by the rule | hidden % |')
            lines.append('|---|---|---|---|---|---|---|')
        base = middle([row.compute for row in group])
        step = [row.step for row in group]
        rule = '%.2f' % middle([expected(row, row.average) for row in group]) if delay else ''
        lines.append('| %s | %s | %.3f | %s | %s | %s | %s |' % (
            strategy + (', d = %d' % delay if delay else ''), spread(step), middle(step) / base,
            spread([row.exposed for row in group]), spread([row.by_difference for row in group]), rule,
            '' if strategy == 'none' else '%.1f' % middle([row.hidden for row in group])))
    lines.append('\n## Weak scaling: compute only / step\n\n*Of one node* is the same '
                 'against the compute-only step of one node by itself; on more nodes than cores it is that of a shared core.\n\n'
                 '| nodes | Ta / Tc | sync | dasgd, d = 2 | of one node: compute only | sync | dasgd, d = 2 |\n'
                 '|---|---|---|---|---|---|---|')
    one = middle([compute for compute, steps in alone])
    cells = ['%.3f' % middle([compute / steps[name] for compute, steps in alone]) for name in ('sync', 'dasgd')]
    lines.append('| 1 | | %s | 1 | %s |' % (' | '.join(cells), ' | '.join(cells)))
    for count in NODES:
        for share in SHARES:
            cells = ['%.3f' % middle([row.compute / row.step for row in rows
                                      if (row.nodes, row.share, row.strategy) == (count, share, name) and row.delay in (0, 2)])
                     for name in ('sync', 'dasgd')]
            chosen = [row for row in rows if (row.nodes, row.share) == (count, share) and row.delay in (0, 2)]
            cells.append('%.3f' % middle([one / row.compute for row in chosen]))
            cells += ['%.3f' % middle([one / row.step for row in chosen if row.strategy == name])
                      for name in ('sync', 'dasgd')]
            lines.append('| %d | %g | %s |' % (count, share, ' | '.join(cells)))
    lines.append('\n## Overlap of one allreduce with compute, 2 nodes, %d Mbit/s\n\n`tests/peers/overlap.c`: no call into the '
                 'library between start and wait, sgemm as compute; us.\n' % OVERLAP_RATE)
    lines.append('| size | library | alone | compute | together | overlap % |\n|---|---|---|---|---|---|')
    for size in OVERLAP_SIZES:
        for library in OVERLAPPING:
            got = overlap[library.name, size]
            if not got:
                lines.append('| %d KiB | %s | absent | | | |' % (size >> 10, library.title))
                continue
            lines.append('| %d KiB | %s | %s | %s |' % (size >> 10, library.title, ' | '.join(
                '%.0f' % middle([one[i] for one in got]) for i in range(3)), spread([one[3] for one in got], 1)))
    return '\n'.join(lines) + '\n'


def draw(rows, path):
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, len(NODES), figsize=(10, 4), sharey=True)
    kinds = (('sync', 0, '#b03a2e', 's'), ('local', 0, '#ca8a04', '^'), ('dasgd', 1, '#2563eb', 'o'), ('dasgd', 2, '#15803d', 'o'),
             ('dasgd-delta', 2, '#7c3aed', 'x'))
    for axis, count in zip(axes, NODES):
        for strategy, delay, colour, mark in kinds:
            chosen = [[row for row in rows if (row.nodes, row.share, row.strategy, row.delay) == (count, share, strategy, delay)]
                      for share in SHARES]
            axis.plot([middle([row.average / row.compute for row in group]) for group in chosen],
                      [middle([row.step / row.compute for row in group]) for group in chosen],
                      color=colour, marker=mark, markersize=5, label=strategy + (', d = %d' % delay if delay else ''))
        axis.axhline(1, color='#888888', linewidth=0.8, linestyle=':')
        axis.set_title('%d nodes' % count)
        axis.set_xlabel('time of one average, in compute steps')
        axis.grid(alpha=0.25)
    axes[0].set_ylabel('step time, of compute only')
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path + '.svg')
    figure.savefig(path + '.png', dpi=130)


def main():
    parser = argparse.ArgumentParser(description='Measures what the trainer hides on links of limited rate.')
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=32, help='of each strategy')
    options = parser.parse_args()
    build = os.path.realpath(options.build)
    os.makedirs(build + '/bench', exist_ok=True)
    load = ' '.join(open('/proc/loadavg').read().split()[:2])
    for library in OVERLAPPING:
        why = peers.missing(build, library, 'overlap')
        if why:
            print('hiding: absent: ' + why, file=sys.stderr)
    with peers.Nodes(max(NODES)) as nodes:
        alone = measure_alone(nodes, build, options.rounds, options.steps)
        rows = measure_training(nodes, build, options.rounds, options.steps)
        overlap = measure_overlap(nodes, build, options.rounds)
    path = build + '/bench/hiding'
    with open(path + '.csv', 'w', newline='') as file:
        table = csv.writer(file)
        table.writerow(Row._fields)
        table.writerows([['%.6g' % cell if isinstance(cell, float) else cell for cell in row] for row in rows])
    text = report(rows, alone, overlap, options.rounds, load) + '\n![Step time over the time of one average](hiding.svg)\n'
    with open(path + '.md', 'w') as file:
        file.write(text)
    draw(rows, path)
    print(text)
    if len(sys.argv) == 2:
        os.makedirs(HERE + '/docs/results', exist_ok=True)
        for suffix in '.md', '.csv', '.svg', '.png':
            shutil.copy(path + suffix, HERE + '/docs/results/')


try:
    main()
except (Failure, OSError, subprocess.TimeoutExpired) as failure:
    sys.exit('bench_hiding: %s' % failure)
