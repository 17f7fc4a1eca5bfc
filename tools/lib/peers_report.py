# SPDX-License-Identifier: BSD-3-Clause
"""What tools/bench.py found, as rows, tables and pictures.

latency: {(library, ranks, bytes, placement): [[us of each window] of each round]}; overlap: {(library, ranks, bytes, link,
compute): [(pure, compute, total us, percent) of each round]}. A placement of memory from malloc is called malloc_...
"""
import datetime
import math
import os
import platform
import statistics

from lib import peers

PLACEMENTS = ('in_place', 'out_of_place', 'rotated')
# What is asked for on two ranks, in place: best peer's time over ours, with registered memory and with malloc's.
GOALS = {4: (1.5, 1.5), 1 << 10: (2, 1.5), 4 << 10: (3, 1.5), 16 << 10: (3, 1.3), 64 << 10: (3, 1.3), 1 << 20: (3, 1.3),
         4 << 20: (3, 1.1), 16 << 20: (2, 1.1), 64 << 20: (3, 1.5)}
COLOURS = {'stretto': '#15803d', 'openmpi': '#2563eb', 'openmpi+ucx': '#0891b2', 'mpich': '#b03a2e', 'mpich+async': '#ca8a04',
           'gloo': '#7c3aed'}


def quantile(values, part):
    """The least value that so large a part of all is not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def p50(rounds):
    """The median round's median: one disturbed round does not move it."""
    return statistics.median(map(statistics.median, rounds))


def p99(rounds):
    return quantile([time for times in rounds for time in times], 0.99)


def size_text(size):
    for unit, shift in ('Mi', 20), ('Ki', 10):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return '%d %s' % (size >> shift, unit)
    return str(size)


def latency_rows(latency):
    return [(*key, '%.3f' % p50(rounds), '%.3f' % p99(rounds)) for key, rounds in latency.items()]


def middles(rounds):
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rounds)]


def overlap_rows(overlap):
    return [(library, ranks, size, link, *('%.1f' % value for value in middles(rounds)), compute)
            for (library, ranks, size, link, compute), rounds in overlap.items()]


def best_peer(latency, ranks, size, placement):
    """The library, not ours, whose p50 is least; None without peers."""
    times = {key[0]: p50(rounds) for key, rounds in latency.items() if key[0] != 'stretto' and key[1:] == (ranks, size, placement)}
    return min(times, key=times.get) if times else None


def ratios(latency, ranks, size, placement, memory=''):
    """The best peer's time over ours in each round; [] if one of them is missing."""
    best = best_peer(latency, ranks, size, placement)
    ours = latency.get(('stretto', ranks, size, memory + placement), [])
    theirs = latency.get((best, ranks, size, placement), [])
    return [statistics.median(peer) / statistics.median(own) for peer, own in zip(theirs, ours)]


def spread(values):
    if not values:
        return ''
    return '%.2f (%.2f..%.2f)' % (statistics.median(values), min(values), max(values))


def time_text(value):
    return '%.*f' % (2 if value < 100 else 0, value)


def latency_table(latency, ranks, placement):
    """Lines of one table; none if nothing of it was measured."""
    sizes = sorted({key[2] for key in latency if key[1] == ranks and key[3].endswith(placement) and (
        placement != 'in_place' or key[3] in ('in_place', 'malloc_in_place'))})
    columns = [(library.name, memory) for library in peers.LIBRARIES for memory in ('', 'malloc_')
               if any(key[0] == library.name and key[1] == ranks and key[3] == memory + placement for key in latency)]
    if not sizes:
        return []
    titles = [peers.BY_NAME[name].title + (', malloc' if memory else '') for name, memory in columns]
    lines = ['\n### %d ranks, %s\n' % (ranks, placement.replace('_', ' ')),
             '| bytes | %s | best peer / Stretto | best peer / Stretto, malloc |' % ' | '.join(titles),
             '|---' * (len(columns) + 3) + '|']
    for size in sizes:
        cells = []
        for name, memory in columns:
            rounds = latency.get((name, ranks, size, memory + placement))
            cells.append('%s (%s)' % (time_text(p50(rounds)), time_text(p99(rounds))) if rounds else '')
        cells += [spread(ratios(latency, ranks, size, placement, memory)) for memory in ('', 'malloc_')]
        lines.append('| %s | %s |' % (size_text(size), ' | '.join(cells)))
    return lines


def judge(latency):
    """Lines: what was asked for, and whether it was found."""
    lines = []
    for memory, title, which in ('', 'registered memory', 0), ('malloc_', 'memory of malloc', 1):
        found = {size: ratios(latency, 2, size, 'in_place', memory) for size in GOALS}
        missed = ['%s %.2f of %g' % (size_text(size), statistics.median(values), GOALS[size][which])
                  for size, values in found.items() if values and statistics.median(values) < GOALS[size][which]]
        lines += verdict('2 ranks, in place, %s: best peer / Stretto' % title, any(found.values()), missed)
    sizes = sorted({key[2] for key in latency if key[1] == 4})
    missed, seen = [], False
    for size in sizes:
        ours, theirs = (latency.get((name, 4, size, 'in_place')) for name in ('stretto', 'openmpi'))
        wanted = 2 if size >= 64 << 10 else 1
        if not ours or not theirs:
            continue
        seen = True
        ratio = statistics.median(statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs))
        if ratio < wanted:
            missed.append('%s %.2f of %g' % (size_text(size), ratio, wanted))
    return lines + verdict('4 ranks, in place, registered memory: Open MPI / Stretto', seen, missed)


def worst_inversion(latency):
    """(ratios of the rounds, size, more bytes that took less, ranks, placement) of the worst such pair; None without any."""
    worst = None
    ours = {key[1:]: [statistics.median(times) for times in rounds] for key, rounds in latency.items() if key[0] == 'stretto'}
    for (ranks, size, placement), less in ours.items():
        for (other_ranks, more_size, other_placement), more in ours.items():
            if (other_ranks, other_placement) != (ranks, placement) or more_size <= size:
                continue
            found = [a / b for a, b in zip(less, more)]
            if statistics.median(found) > 1 and (not worst or statistics.median(found) > statistics.median(worst[0])):
                worst = (found, size, more_size, ranks, placement)
    return worst


def monotone(latency):
    """A line: whether more bytes ever took less time, as they do where an algorithm is taken too late."""
    worst = worst_inversion(latency)
    if not worst:
        return '* Stretto, time versus size: more bytes never took less time'
    found, size, more, ranks, placement = worst
    noise = 'within noise: not so in every round' if min(found) <= 1 else '**in every round**'
    return '* Stretto, time versus size: worst inversion: %s took %s times as long as %s (%d ranks, %s), %s' % (
        size_text(size), spread(found), size_text(more), ranks, placement, noise)


def verdict(title, seen, missed):
    if not seen:
        return []
    return ['* %s: **%s**%s' % (title, 'missed' if missed else 'met', ' (%s)' % '; '.join(missed) if missed else '')]


def overlap_table(overlap):
    lines = []
    for link, compute in sorted({key[3:] for key in overlap}):
        lines += ['\n### %s, compute: %s\n' % (link, compute), '| bytes | library | pure us | compute us | total us | overlap % |',
                  '|---|---|---|---|---|---|']
        keys = [key for key in overlap if key[3:] == (link, compute)]
        for key in sorted(keys, key=lambda key: (key[2], list(peers.BY_NAME).index(key[0]))):
            pure, busy, total, _ = middles(overlap[key])
            percent = [row[3] for row in overlap[key]]
            lines.append('| %s | %s | %.0f | %.0f | %.0f | %.1f (%.1f..%.1f) |' % (
                size_text(key[2]), peers.BY_NAME[key[0]].title, pure, busy, total, statistics.median(percent), min(percent),
                max(percent)))
    return lines


def processor():
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as file:
        names = [line.split(':', 1)[1].strip() for line in file if line.startswith('model name')]
    return names[0] if names else platform.machine()


HEAD = '''# Beside other libraries

Measured on {date} by `make bench`: {processor}, {cores} cores, Linux {kernel}. Allreduce of floats (sum); {rounds} rounds in which the
libraries took turns. `docs/benchmarking.md` says how to read it.

'''


def report(run, pictures):
    lines = [HEAD.format(date=datetime.date.today(), processor=processor(), cores=len(peers.CORES),
                         kernel=os.uname().release.split('-')[0], rounds=run.options.rounds)]
    lines += ['* ' + note for note in run.notes]
    lines += ['* absent: ' + why for why in dict.fromkeys(run.absent.values())]
    lines += ['* **failed**: ' + failure for failure in run.failures]
    if run.latency:
        lines += ['\n## Latency\n', 'Microseconds: p50 (p99). Ratios: the median round (least..most); above 1 Stretto is faster.\n']
        lines += judge(run.latency) + [monotone(run.latency)]
        for ranks in sorted({key[1] for key in run.latency}):
            for placement in PLACEMENTS:
                lines += latency_table(run.latency, ranks, placement)
    if run.overlap:
        lines += ['\n## Overlap, 2 ranks\n', 'No call into the library between start and wait; 100 (1 - (total - compute) / pure).']
        lines += overlap_table(run.overlap)
    lines += ['\n![%s](%s)' % (name[:-4], name) for name in pictures if name.endswith('.svg')]
    return '\n'.join(lines) + '\n'


def draw_latency(axis, latency, ranks):
    for library in peers.LIBRARIES:
        for memory, style in ('', '-'), ('malloc_', '--'):
            points = sorted((key[2], p50(rounds)) for key, rounds in latency.items()
                            if key[0] == library.name and key[1] == ranks and key[3] == memory + 'in_place')
            if points:
                axis.plot(*zip(*points), style, color=COLOURS[library.name], marker='o', markersize=3,
                          label=library.title + (', malloc' if memory else ''))
    axis.set_xscale('log', base=2)
    axis.set_yscale('log')
    axis.set_title('%d ranks, in place: p50 in us' % ranks, fontsize=10)


def draw_ratios(axis, latency, ranks):
    for placement, colour in zip(PLACEMENTS, ('#15803d', '#2563eb', '#ca8a04')):
        for memory, style in ('', '-'), ('malloc_', '--'):
            points = [(size, ratios(latency, ranks, size, placement, memory)) for size in sorted({key[2] for key in latency})]
            points = [(size, statistics.median(values), min(values), max(values)) for size, values in points if values]
            if not points:
                continue
            sizes, middle, least, most = zip(*points)
            axis.plot(sizes, middle, style, color=colour, marker='o', markersize=3,
                      label=placement.replace('_', ' ') + (', malloc' if memory else ''))
            axis.fill_between(sizes, least, most, color=colour, alpha=0.08, linewidth=0)
    axis.axhline(1, color='#888888', linewidth=0.8, linestyle=':')
    axis.set_xscale('log', base=2)
    axis.set_yscale('log', base=2)
    axis.yaxis.set_major_formatter('{x:g}')
    axis.set_title('%d ranks: best peer / Stretto (above 1: Stretto is faster)' % ranks, fontsize=10)


def label_sizes(axis, sizes):
    chosen = sorted(sizes)
    axis.set_xticks(chosen)
    axis.set_xticklabels([size_text(size) for size in chosen], fontsize=8, rotation=30)
    axis.minorticks_off()
    axis.grid(alpha=0.25)


def draw_overlap(above, below, overlap, link, compute):
    """The overlap, and below it the time alone: hiding much of what takes long is no merit."""
    for library in peers.LIBRARIES:
        points = sorted((key[2], *middles(rounds)) for key, rounds in overlap.items()
                        if key[0] == library.name and key[3:] == (link, compute))
        if points:
            sizes, pure, _, _, percent = zip(*points)
            above.plot(sizes, percent, color=COLOURS[library.name], marker='o', markersize=3, label=library.title)
            below.plot(sizes, pure, color=COLOURS[library.name], marker='o', markersize=3)
    above.set_ylim(-25, 110)
    above.axhline(0, color='#888888', linewidth=0.8, linestyle=':')
    above.set_title('%s, %s: overlap %%' % (link, compute), fontsize=10)
    below.set_yscale('log')
    below.set_title('the operation alone, us', fontsize=10)
    for axis in above, below:
        axis.set_xscale('log', base=2)
        label_sizes(axis, {key[2] for key in overlap if key[3:] == (link, compute)})
    below.set_xlabel('bytes', fontsize=9)


def save(figure, out, name):
    figure.tight_layout()
    figure.savefig(out + name + '.svg')
    figure.savefig(out + name + '.png', dpi=130)
    return [name + '.svg', name + '.png']


def draw(latency, overlap, out):
    """Draws what there is into the folder `out`; returns the names of the files. ImportError without matplotlib."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    names = []
    if latency:
        counts = sorted({key[1] for key in latency})
        figure, axes = pyplot.subplots(len(counts), 2, figsize=(12, 4.2 * len(counts)), squeeze=False)
        for (left, right), ranks in zip(axes, counts):
            draw_latency(left, latency, ranks)
            draw_ratios(right, latency, ranks)
            for axis in left, right:
                label_sizes(axis, {key[2] for key in latency if key[1] == ranks})
                axis.set_xlabel('bytes', fontsize=9)
                axis.legend(frameon=False, fontsize=7, handlelength=3.5)
        names += save(figure, out, 'latency')
    if overlap:
        kinds = sorted({key[3:] for key in overlap})
        figure, axes = pyplot.subplots(2, len(kinds), figsize=(3.6 * len(kinds), 6.8), squeeze=False)
        for above, below, (link, compute) in zip(*axes, kinds):
            draw_overlap(above, below, overlap, link, compute)
        widest = max(axes[0], key=lambda axis: len(axis.get_lines()))
        widest.legend(frameon=False, fontsize=7)
        names += save(figure, out, 'overlap')
    return names
