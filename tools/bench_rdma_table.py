#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes tables of what tests/rdma/bench.sh printed.

    tools/bench_rdma_table.py RAW TABLE.md TABLE.csv
"""
import collections
import datetime
import math
import statistics
import sys

HEAD = '''# Figures of the RDMA transport

Measured on {date} by `make bench-rdma`: an emulated machine (qemu, no hardware acceleration) of 2 processors on 2 shared cores,
with Soft-RoCE devices (rdma_rxe, MTU 4096), one for each rank, joined by virtual wires. Everything is measured in one
boot, library by library in turn, {rounds} rounds; what stands here are medians, and (least..most) of the rounds. Emulation
slows everything, device, kernel and library, and other work on the cores disturbs: only the ratios say something. A ratio above 1
means that Stretto is better.

* messages: `stretto-perf p2p --format perftest` with STRETTO_TRANSPORTS=self,verbs against `ib_write_bw` and `ib_write_lat`, from one
  device to another. perftest's receiver never learns that something came; Stretto's does, and finds the receive it is for.
* allreduce of floats: `tests/peers/bench.c` with Stretto and with Open MPI 4.1 over UCX (pml ucx, UCX_TLS=rc,self, mpi_yield_when_idle),
  the time of the slowest rank; packets are those that all devices sent in one operation, acknowledgements included.
* streams: as many `ib_write_bw` of 1 MiB at a time as an allreduce has ranks, each to the next around a ring.
'''


def read(path):
    """{(what, who, number): ([value], [packets])}"""
    found = collections.defaultdict(lambda: ([], []))
    for line in open(path):
        words = line.split()
        if len(words) in (4, 5):
            values, packets = found[words[0], words[1], int(words[2])]
            values.append(float(words[3]))
            packets += [float(word) for word in words[4:]]
    return found


def spread(values):
    show = lambda value: '%.*f' % (0 if value >= 1000 else 1 if value >= 10 else 2, value)
    return '%s (%s..%s)' % (show(statistics.median(values)), show(min(values)), show(max(values)))


def size(count):
    for unit, name in (1 << 20, 'MiB'), (1 << 10, 'KiB'):
        if count >= unit:
            return '%d %s' % (count // unit, name)
    return '%d B' % count


class Table:
    def __init__(self, found):
        self.found = found
        self.lines = []
        self.goals = []

    def add(self, *lines):
        self.lines += lines

    def goal(self, text, met, figure):
        self.goals.append('* %s: **%s** (%s)' % (text, 'met' if met else 'missed', figure))

    def median(self, *key):
        return statistics.median(self.found[key][0]) if key in self.found else math.nan

    def numbers(self, what):
        return sorted({key[2] for key in self.found if key[0] == what})

    def compare(self, what, other, less_is_better, packets=False):
        """A row for each size; returns the ratios by size."""
        ratios = {}
        for number in self.numbers(what):
            keys = (what, other, number), (what, 'stretto', number)
            if not all(key in self.found for key in keys):
                continue
            theirs, ours = (self.median(*key) for key in keys)
            ratios[number] = theirs / ours if less_is_better else ours / theirs
            row = [size(number)] + [spread(self.found[key][0]) for key in keys] + ['%.2f' % ratios[number]]
            if packets:
                row += ['%.0f' % statistics.median(self.found[key][1]) for key in keys]
            self.add('| ' + ' | '.join(row) + ' |')
        self.add('')
        return ratios

    def messages(self):
        self.add('## Messages', '', '| size | ib_write_bw, MB/s | Stretto, MB/s | ratio |', '|---|---|---|---|')
        ratios = self.compare('bandwidth', 'perftest', False)
        large = {number: ratio for number, ratio in ratios.items() if number >= 65536}
        if large:
            self.goal('bandwidth at least 0.95 of ib_write_bw from 64 KiB', min(large.values()) >= 0.95,
                      ', '.join('%s %.2f' % (size(number), ratio) for number, ratio in large.items()))
        self.add('| size | ib_write_lat, us | Stretto, us | ratio |', '|---|---|---|---|')
        ratios = self.compare('latency', 'perftest', True)
        if 8 in ratios:
            self.goal('latency of 8 B at most 1.15 of ib_write_lat', 1 / ratios[8] <= 1.15, '%.2f' % (1 / ratios[8]))

    def allreduce(self):
        every = {}
        for ranks in 2, 4:
            self.add('## Allreduce on %d ranks' % ranks, '',
                     '| size | Open MPI, us | Stretto, us | ratio | packets, Open MPI | packets, Stretto |', '|---|---|---|---|---|---|')
            ratios = self.compare('allreduce-%d' % ranks, 'openmpi', True, True)
            every.update({(ranks, number): ratio for number, ratio in ratios.items()})
        if not every:
            return
        slower = ['%s on %d ranks %.2f' % (size(number), ranks, ratio)
                  for (ranks, number), ratio in every.items() if ratio < 1]
        self.goal('allreduce never slower than Open MPI', not slower, ', '.join(slower) or 'everywhere at least as fast')
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in every.values()))
        self.goal('geometric mean of the allreduce ratios at least 1.3', mean >= 1.3, '%.2f' % mean)

    def streams(self):
        self.add('## Streams', '', '| ranks | each stream of ib_write_bw, MB/s | bus bandwidth of the allreduce of 4 MiB, MB/s | ratio |',
                 '|---|---|---|---|')
        for ranks in self.numbers('streams'):
            key = 'allreduce-%d' % ranks, 'stretto', 4 << 20
            if key not in self.found:
                continue
            rates = [2 * (ranks - 1) / ranks * (4 << 20) / time for time in self.found[key][0]]
            streams = self.found['streams', 'perftest', ranks][0]
            ratio = statistics.median(rates) / statistics.median(streams)
            self.add('| %d | %s | %s | %.2f |' % (ranks, spread(streams), spread(rates), ratio))
            self.goal('bus bandwidth at 4 MiB on %d ranks at least 0.9 of a stream' % ranks, ratio >= 0.9, '%.2f' % ratio)
        self.add('')

    def idle(self):
        shares = [value for key, (values, _) in self.found.items() if key[0] == 'idle' for value in values]
        if shares:
            self.goal('a rank that waits uses less than 2 % of a core', max(shares) < 2, spread(shares) + ' %')


def main():
    raw, markdown, csv = sys.argv[1:]
    found = read(raw)
    table = Table(found)
    table.messages()
    table.allreduce()
    table.streams()
    table.idle()
    rounds = max((len(values) for key, (values, _) in found.items() if key[0] == 'latency'), default=1)
    with open(markdown, 'w') as file:
        file.write(HEAD.format(date=datetime.date.today(), rounds=rounds) + '\n## Goals\n\n')
        file.write('\n'.join(table.goals + [''] + table.lines).rstrip() + '\n')
    with open(csv, 'w') as file:
        file.write('what,who,bytes_or_ranks,median,least,most,rounds,packets\n')
        for key, (values, packets) in sorted(found.items()):
            file.write('%s,%s,%d,%.6g,%.6g,%.6g,%d,%s\n' % (
                *key, statistics.median(values), min(values), max(values), len(values),
                '%.6g' % statistics.median(packets) if packets else ''))


if __name__ == '__main__':
    main()
