#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures allreduce and its overlap with compute beside other libraries on this machine; docs/benchmarking.md.

    tools/bench.py BUILD                        all, about ten minutes; the shaped link needs root
    tools/bench.py BUILD --only latency --sizes 4,64K --ranks 2 --rounds 1

The libraries take turns in each round, and ratios are those of one round. Writes latency.csv, overlap.csv, a table (peers.md)
and pictures to BUILD/bench; --release copies them to docs/results/, of a run that nothing bounds.
"""
import argparse
import collections
import csv
import os
import resource
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from lib import peers, peers_report  # noqa: E402 # beside this file

SIZES = [4, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
PLACEMENTS = ('in_place', 'out_of_place', 'rotated')
OVERLAP_SIZES = {'shm': [64 << 10, 1 << 20, 16 << 20], 'link': [256 << 10, 1 << 20, 4 << 20, 16 << 20]}
RATE, LATENCY = '4gbit', '20us'     # of the paced and of the shaped link
REPEATS = 7                         # of each overlap in a run
WINDOWS_MS = 30                     # of each latency in a run
LIMIT = 180                         # seconds of a run


class Load:
    """How busy the machine was with what is not ours, from here to the call of `shares`."""

    def __init__(self):
        self.begin = self.read()

    @staticmethod
    def read():
        """Seconds of all cores: passed, busy, stolen; and of our own processes that have ended."""
        tick = os.sysconf('SC_CLK_TCK')
        with open('/proc/stat', encoding='ascii') as file:
            user, nice, system, idle, wait, hard, soft, stolen = (int(word) / tick for word in file.readline().split()[1:9])
        busy = user + nice + system + hard + soft
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return busy + idle + wait + stolen, busy, stolen, sum(one.ru_utime + one.ru_stime for one in used)

    def shares(self):
        """Of all CPU time: percent stolen by the host, percent that other processes and the kernel for them took."""
        passed, busy, stolen, ours = (end - begin for end, begin in zip(self.read(), self.begin))
        passed = max(passed, 1e-9)
        return 100 * stolen / passed, max(0, 100 * (busy - ours) / passed)


Contender = collections.namedtuple('Contender', 'library memory')      # memory: own or malloc


def contenders():
    """Who is measured for latency. The peers' memory is of their own allocators."""
    return [Contender(peers.BY_NAME[name], memory) for name, memory in (
        ('stretto', 'own'), ('stretto', 'malloc'), ('openmpi', 'own'), ('openmpi+ucx', 'own'), ('mpich', 'own'), ('gloo', 'own'))]


class Run:
    """What is measured, where the results go, and what went wrong."""

    def __init__(self, options):
        self.options = options
        self.build = os.path.realpath(options.build)
        self.absent = {}        # library: why
        self.failures = []      # of any library: a table with a hole is a bad one
        self.latency = {}       # (library, ranks, bytes, placement): [[us of each window] of each round]
        self.overlap = {}       # (library, ranks, bytes, link, compute): [(pure, compute, total, percent) of each round]
        self.notes = []         # of what was left out, and how loaded the machine was

    def is_there(self, library, loop):
        why = peers.missing(self.build, library, loop)
        if why and library.name not in self.absent:
            self.absent[library.name] = why
            say('absent: ' + why)
        return not why

    def attempt(self, what, call):
        """What a call returns; None, noted, if it fails."""
        try:
            return call()
        except peers.Failure as failure:
            self.failures.append('%s: %s' % (what, failure))
        except subprocess.TimeoutExpired as failure:
            self.failures.append('%s: not finished after %d s' % (what, failure.timeout))
        say(self.failures[-1])
        return None

    def measure_latency(self):
        sizes = ','.join(map(str, self.options.sizes))
        for turn in range(self.options.rounds):
            load = Load()
            for ranks in self.options.ranks:
                say('latency, %d ranks, round %d of %d' % (ranks, turn + 1, self.options.rounds))
                for library, memory in contenders():
                    if self.is_there(library, 'latency'):
                        self.add_latency(library, memory, ranks, sizes)
            self.notes.append('latency, round %d: stolen %.1f %%, others %.1f %%' % (turn + 1, *load.shares()))

    def add_latency(self, library, memory, ranks, sizes):
        command = ['%s/tests/peers/latency_%s' % (self.build, library.program), memory, sizes, ','.join(PLACEMENTS),
                   str(self.options.ms)]
        out = self.attempt('%s, %d ranks' % (library.title, ranks),
                           lambda: peers.run_local(self.build, library, ranks, command, LIMIT))
        prefix = 'malloc_' if memory == 'malloc' else ''
        for (size, placement), times in peers.parse_latency(out or '').items():
            self.latency.setdefault((library.name, ranks, size, prefix + placement), []).append(times)

    def measure_overlap(self):
        for turn in range(self.options.rounds):
            load = Load()
            for compute in 'sgemm', 'sleep':
                say('overlap with %s, round %d of %d' % (compute, turn + 1, self.options.rounds))
                for library in peers.LIBRARIES:
                    if self.is_there(library, 'overlap'):
                        self.add_overlap(library, 'shm', compute)
                self.add_overlap(peers.BY_NAME['stretto'], 'paced-' + RATE, compute)
            self.notes.append('overlap, round %d: stolen %.1f %%, others %.1f %%' % (turn + 1, *load.shares()))

    def add_overlap(self, library, link, compute, nodes=None):
        sizes = self.options.overlap_sizes or OVERLAP_SIZES['shm' if link == 'shm' else 'link']
        command = ['%s/tests/peers/overlap_%s' % (self.build, library.program), ','.join(map(str, sizes)), str(REPEATS), compute]
        pace = {'STRETTO_PACE': '%s:%s' % (RATE, LATENCY)} if link.startswith('paced') else {}
        out = self.attempt('%s, overlap, %s' % (library.title, link), lambda: (
            nodes.run(library, 2, command, LIMIT // 4) if nodes else peers.run_local(self.build, library, 2, command, LIMIT, pace)))
        for size, row in peers.parse_overlap(out or '').items():
            self.overlap.setdefault((library.name, 2, size, link, compute), []).append(row)

    def measure_shaped(self):
        if os.geteuid() != 0:
            self.notes.append('the shaped link was left out: virtual nodes need root')
            return
        with peers.Nodes(2) as nodes:
            nodes.call('rate', RATE)
            for turn in range(self.options.rounds):
                say('overlap over a shaped link, round %d of %d' % (turn + 1, self.options.rounds))
                for library in peers.LIBRARIES:
                    if self.is_there(library, 'overlap'):
                        self.add_overlap(library, 'shaped-' + RATE, 'sgemm', nodes)

    def measure(self):
        with open('/proc/loadavg', encoding='ascii') as file:
            self.notes.append('load average before: %s' % ' '.join(file.read().split()[:3]))
        if 'latency' in self.options.only:
            self.measure_latency()
        if 'overlap' in self.options.only:
            self.measure_overlap()
        if 'shaped' in self.options.only:
            self.attempt('virtual nodes', self.measure_shaped)

    def write(self):
        """The names of the files written."""
        out = self.build + '/bench/'
        os.makedirs(out, exist_ok=True)
        written = []
        if self.latency:
            written.append('latency.csv')
            write_csv(out + written[-1], 'library,ranks,bytes,placement,p50_us,p99_us', peers_report.latency_rows(self.latency))
        if self.overlap:
            written.append('overlap.csv')
            write_csv(out + written[-1], 'library,ranks,bytes,link,pure_us,compute_us,total_us,overlap_percent,compute',
                      peers_report.overlap_rows(self.overlap))
        try:
            pictures = peers_report.draw(self.latency, self.overlap, out)
        except ImportError:
            pictures = []
            self.notes.append('no pictures: Debian\'s python3-matplotlib was not found')
            say(self.notes[-1])
        text = peers_report.report(self, pictures)
        with open(out + 'peers.md', 'w', encoding='utf-8') as file:
            file.write(text)
        print(text)
        return [out + name for name in written + pictures + ['peers.md']]


def say(text):
    print('bench: ' + text, file=sys.stderr)


def write_csv(path, head, rows):
    with open(path, 'w', newline='', encoding='ascii') as file:
        table = csv.writer(file, lineterminator='\n')
        table.writerow(head.split(','))
        table.writerows(rows)


def size_list(text):
    units = {'K': 10, 'M': 20}
    try:
        sizes = [int(word[:-1]) << units[word[-1]] if word[-1:] in units else int(word) for word in text.upper().split(',')]
    except ValueError:
        sizes = [0]
    if min(sizes) < 4:
        raise argparse.ArgumentTypeError('%r is no list of sizes of at least 4 bytes, such as 4,64K,1M' % text)
    return sizes


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError('%r must be a whole number of at least 1' % text)
    return int(text)


def parse():
    parser = argparse.ArgumentParser(description='Measures allreduce and overlap beside other libraries.')
    parser.add_argument('build')
    parser.add_argument('--rounds', type=positive, default=5)
    parser.add_argument('--sizes', type=size_list, default=SIZES, help='of latency, such as 4,64K,1M')
    parser.add_argument('--overlap-sizes', type=size_list, default=None)
    parser.add_argument('--ranks', type=lambda text: [positive(word) for word in text.split(',')], default=[2, 4])
    parser.add_argument('--ms', type=positive, default=WINDOWS_MS, help='of windows, for each size and placement in a round')
    parser.add_argument('--only', action='append', choices=('latency', 'overlap', 'shaped'), default=None)
    parser.add_argument('--release', action='store_true', help='copy the results to docs/results/')
    options = parser.parse_args()
    if options.release and len(sys.argv) > 3:
        parser.error('--release is for a run with no other option')
    options.only = options.only or ['latency', 'overlap', 'shaped']
    return options


def main():
    options = parse()
    run = Run(options)
    run.measure()
    files = run.write()
    if run.failures:
        raise peers.Failure('not all was measured: %d runs failed; they are named in %s' % (len(run.failures), files[-1]))
    if options.release:
        os.makedirs(peers.HERE + '/docs/results', exist_ok=True)
        for path in files:
            shutil.copy(path, peers.HERE + '/docs/results/')


if __name__ == '__main__':
    try:
        main()
    except (peers.Failure, OSError) as failure:
        sys.exit('bench: %s' % failure)
