#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures a training step of stretto-train beside PyTorch's, in turns: compute alone, within a node, over a 4 Gbit/s link.

    tools/bench_train.py BUILD [--rounds N] [--steps N] [--places NAME,...] [--models NAME,...]

Writes BUILD/bench/train_step.csv and prints a table. The link is between virtual nodes, and needs root.
"""
import argparse
import collections
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib import peers  # noqa: E402 # beside this file

MODELS = {'mlp': 'mlp:784-1024-1024-10', 'cnn': 'cnn:28x28x1-8-16-128-10'}
BATCH, WINDOW = 64, 4           # a window is a round of tau steps: the steps of a round differ
SKIPPED = 5                     # windows at the beginning
LINK = '4gbit'
Kind = collections.namedtuple('Kind', 'title strategy')     # strategy: of stretto-train; '': PyTorch's own
NONE = [Kind('Stretto none', 'none'), Kind('PyTorch', '')]
AVERAGED = [Kind('Stretto sync', 'sync'), Kind('Stretto dasgd, d=2', 'dasgd'), Kind('PyTorch DDP, gloo', '')]
# name: (ranks, whether over the link, what takes turns)
PLACES = {'one': (1, False, NONE), 'two': (2, False, NONE), 'node': (2, False, AVERAGED), 'link': (2, True, AVERAGED)}
TITLES = {'one': 'one process', 'two': 'two processes, no communication',
          'node': 'two ranks within a node (Stretto: shared memory; gloo: loopback)', 'link': 'two nodes, 4 Gbit/s, TCP'}
Row = collections.namedtuple('Row', 'place model kind round best_ms median_ms')


def command_of(options, kind, model, ranks, folder):
    if kind.strategy:
        return list(map(str, (options.build + '/stretto-train', '--strategy', kind.strategy, '--tau', WINDOW, '--delay', 2,
                              '--model', MODELS[model], '--batch', BATCH, '--epochs', 100, '--steps', options.steps,
                              '--threads', 1, '--quiet', '--log', folder + '/log', '--log-every', WINDOW)))
    return ['/usr/bin/python3', peers.HERE + '/tests/peers/torch_step.py', model, str(ranks),
            'none' if options.place in ('one', 'two') else 'ddp', folder + '/store', str(options.steps)]


def step_times(path):
    """ms a step, of each step line of a log"""
    with open(path, encoding='utf-8') as file:
        return [entry['step_ms'] for entry in map(json.loads, file) if entry['event'] == 'step']


def windows_of(options, kind, model, nodes):
    """ms a step, of each window"""
    ranks, linked, _ = PLACES[options.place]
    with tempfile.TemporaryDirectory(prefix='train.') as folder:
        command = command_of(options, kind, model, ranks, folder)
        variables = {'GLOO_SOCKET_IFNAME': 'eth0' if linked else 'lo', 'OMP_NUM_THREADS': '1'}
        if linked:
            out = nodes.ranks(ranks, command, variables, options.seconds)
        else:
            out = peers.run_local(options.build, peers.BY_NAME['stretto'], ranks, command, options.seconds, variables)
        if kind.strategy:
            return step_times(folder + '/log')
        return [float(line) for line in out.split()]


def measure(options, nodes):
    rows = []
    for model in options.models:
        for turn in range(options.rounds):
            print('train: %s, %s, round %d of %d' % (options.place, model, turn + 1, options.rounds), file=sys.stderr)
            for kind in PLACES[options.place][2]:
                windows = windows_of(options, kind, model, nodes)[SKIPPED:]
                rows.append(Row(options.place, model, kind.title, turn + 1, min(windows), statistics.median(windows)))
    return rows


def ratios(rows, place, model, title):
    """PyTorch's median over this one's, of each round: above 1 this one is faster."""
    theirs = {row.round: row.median_ms for row in rows
              if (row.place, row.model) == (place, model) and row.kind.startswith('PyTorch')}
    return [theirs[row.round] / row.median_ms for row in rows
            if (row.place, row.model, row.kind) == (place, model, title) and row.round in theirs]


def table(rows):
    lines = []
    for place, model in dict.fromkeys((row.place, row.model) for row in rows):
        lines += ['', '%s, %s' % (model, TITLES[place]), '',
                  '| | best ms | median ms (least..most) | PyTorch / this (least..most) |', '|---|---|---|---|']
        here = [row for row in rows if (row.place, row.model) == (place, model)]
        for title in dict.fromkeys(row.kind for row in here):
            own = [row for row in here if row.kind == title]
            medians, ratio = [row.median_ms for row in own], ratios(rows, place, model, title)
            lines.append('| %s | %.2f | %.2f (%.2f..%.2f) | %.2f (%.2f..%.2f) |' % (
                title, min(row.best_ms for row in own), statistics.median(medians), min(medians), max(medians),
                statistics.median(ratio), min(ratio), max(ratio)))
    return '\n'.join(lines)


def names(known):
    def parse(text):
        unknown = set(text.split(',')) - set(known)
        if unknown:
            raise argparse.ArgumentTypeError('expected some of %s, not %s' % (','.join(known), ','.join(sorted(unknown))))
        return text.split(',')
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog='See docs/benchmarking.md.')
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5, help='turns of each (5)')
    parser.add_argument('--steps', type=int, default=160, help='of a training (160)')
    parser.add_argument('--places', type=names(PLACES), default=list(PLACES), help='some of ' + ','.join(PLACES))
    parser.add_argument('--models', type=names(MODELS), default=list(MODELS), help='some of ' + ','.join(MODELS))
    parser.add_argument('--seconds', type=float, default=300, help='limit of a training (300)')
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < (SKIPPED + 1) * WINDOW:
        parser.error('at least one round, and %d steps' % ((SKIPPED + 1) * WINDOW))
    options.build = os.path.realpath(options.build)
    return options


def main():
    options = parse_arguments()
    if subprocess.run(['/usr/bin/python3', '-c', 'import torch'], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise peers.Failure('PyTorch was not found: Debian\'s python3-torch')
    with open('/proc/loadavg', encoding='ascii') as file:
        print('load average before: ' + ' '.join(file.read().split()[:2]))
    rows = []
    for options.place in options.places:
        if not PLACES[options.place][1]:
            rows += measure(options, None)
        elif os.geteuid() != 0:
            print('train: no link: virtual nodes need root', file=sys.stderr)
        else:
            with peers.Nodes(2) as nodes:
                nodes.call('rate', LINK)
                rows += measure(options, nodes)
    os.makedirs(options.build + '/bench', exist_ok=True)
    with open(options.build + '/bench/train_step.csv', 'w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows([['%.4f' % cell if isinstance(cell, float) else cell for cell in row] for row in rows])
    print(table(rows))


if __name__ == '__main__':
    try:
        main()
    except (peers.Failure, ValueError, OSError, subprocess.TimeoutExpired) as failure:
        sys.exit('bench_train: %s' % failure)
