# SPDX-License-Identifier: BSD-3-Clause
"""What the runs of the convergence study came to: summary, goals, Markdown, plots. Every statement is computed.

A result is {'run': Run, 'command': text, 'seconds': wall time, 'diverged': bool, 'accuracy': 0 to 1 or None,
'probes': [(step, gradient norm, training loss)]}.
"""
import math
import statistics

from . import study_plan as plan

POINTS = 0.5            # of a percent: the goal for the best delayed strategy
GOAL_ACCURACY = 91.0    # percent, of the long training
PROGRESS_ERROR = 0.1    # of the effective steps that the theory gives
SEEDS = 3               # that a comparison of means needs


def read_log(lines):
    """(accuracy or None, probes, why it ended or None) of the objects of a log"""
    accuracy, probes, why = None, [], None
    for entry in lines:
        if entry['event'] == 'test':
            accuracy = entry['test_accuracy']
        elif entry['event'] == 'probe' and entry['gradient_norm'] is not None and entry['train_loss'] is not None:
            probes.append((entry['step'], entry['gradient_norm'], entry['train_loss']))
        elif entry['event'] == 'end':
            why = entry['why']
    return accuracy, probes, why


def theory(arm):
    """Effective steps of a round."""
    lost = arm.delay * (1 - plan.OWN_WEIGHT) if arm.strategy == 'dasgd' else 0
    return plan.TAU - lost


def cells_of(results):
    """The rows of the table: a dict for each model, number of ranks and strategy, in the order of the plan."""
    groups = {}
    for result in results:
        run = result['run']
        if run.kind == 'accuracy':
            groups.setdefault((run.model, run.ranks, run.arm), []).append(result)
    cells = []
    for (model, ranks, arm), group in groups.items():
        found = [100 * one['accuracy'] for one in group if not one['diverged']]
        cells.append({'model': model, 'ranks': ranks, 'strategy': arm, 'accuracies': found,
                      'diverged': sum(one['diverged'] for one in group),
                      'mean': statistics.mean(found) if found else None,
                      'least': min(found, default=None), 'most': max(found, default=None)})
    base = {(cell['model'], cell['ranks']): cell['mean'] for cell in cells if cell['strategy'] == 'sync'}
    for cell in cells:
        sync = base.get((cell['model'], cell['ranks']))
        cell['difference'] = None if None in (sync, cell['mean']) else cell['mean'] - sync
    return sorted(cells, key=lambda cell: (list(plan.WHOLE.models).index(cell['model']), cell['ranks'],
                                           [arm.name for arm in plan.ARMS].index(cell['strategy'])))


def step_of_loss(probes, loss):
    """Where a falling loss first came to `loss`, between two probes in proportion; None: never, or before the first."""
    for (before, _, high), (after, _, low) in zip(probes, probes[1:]):
        if high >= loss > low:
            return before + (after - before) * (high - loss) / (high - low)
    return None


def effective_steps(plain, other):
    """
    Effective steps of a round, measured: how far `local` had to go for the losses that `other` came to, from a quarter of
    its steps to its end. None if one of them is out of the reach of `local`.
    """
    if len(other) < 4:
        return None
    first, last = other[len(other) // 4], other[-1]
    begin, end = step_of_loss(plain, first[2]), step_of_loss(plain, last[2])
    if begin is None or end is None:
        return None
    return plan.TAU * (end - begin) / (last[0] - first[0])


def progress_of(results):
    found = {result['run'].arm: result['probes'] for result in results
             if result['run'].kind == 'progress' and not result['diverged']}
    if 'local' not in found:
        return []
    return [{'strategy': arm.name, 'theory': theory(arm), 'measured': effective_steps(found['local'], found[arm.name])}
            for arm in plan.RULES if arm.name in found]


def running_means(probes):
    """[(K, mean of the squared gradient norms of the probes up to step K)]"""
    points, total = [], 0.0
    for count, (step, norm, _) in enumerate(probes, 1):
        total += norm * norm
        points.append((step, total / count))
    return points


def slope_of(points):
    """The exponent a of a power law K^a, by least squares of the logarithms."""
    x, y = [math.log(k) for k, _ in points], [math.log(value) for _, value in points]
    middle_x, middle_y = statistics.mean(x), statistics.mean(y)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / sum((a - middle_x) ** 2 for a in x)


def rates_of(results):
    """For each strategy, [(K, mean squared gradient norm over the training of K steps)] and the exponent of K."""
    curves = {}
    for result in results:
        run = result['run']
        if run.kind == 'rate' and result['probes']:
            curves.setdefault(run.arm, []).append((run.steps, running_means(result['probes'])[-1][1]))
    return [{'strategy': arm, 'points': sorted(points), 'slope': slope_of(points)}
            for arm, points in curves.items() if len(points) >= 2]


def gradients_of(results):
    """For each model and strategy at the fewest ranks, the means over the seeds of the running means."""
    groups = {}
    for result in results:
        run = result['run']
        if run.kind == 'accuracy' and not result['diverged'] and len(result['probes']) >= 2:
            groups.setdefault((run.model, run.ranks, run.arm), []).append(running_means(result['probes']))
    fewest = min((ranks for _, ranks, _ in groups), default=0)
    rows = []
    for (model, ranks, arm), curves in groups.items():
        if ranks == fewest:
            points = [(at[0][0], statistics.mean(value for _, value in at)) for at in zip(*curves)]
            rows.append({'model': model, 'ranks': ranks, 'strategy': arm, 'points': points, 'slope': slope_of(points)})
    return rows


def goal(text, evidence, missed):
    """A goal with its verdict: met, missed, or not measured where there is no evidence."""
    verdict = 'not measured' if not evidence else 'missed' if missed else 'met'
    return {'goal': text, 'verdict': verdict, 'evidence': evidence}


def judge_accuracy(cells):
    places, evidence, missed = {}, [], False
    for cell in cells:
        if len(cell['accuracies']) >= SEEDS:
            places.setdefault((cell['model'], cell['ranks']), {})[cell['strategy']] = cell
    for (model, ranks), found in places.items():
        delayed = [cell for name, cell in found.items() if plan.BY_NAME[name].delayed]
        if 'sync' in found and delayed:
            best = max(delayed, key=lambda cell: cell['mean'])
            missed |= best['difference'] < -POINTS
            evidence.append('%s on %d ranks: %s %+.2f points' % (model, ranks, best['strategy'], best['difference']))
    return goal('the mean of the best delayed strategy within %g points of that of sync, of %d seeds or more' %
                (POINTS, SEEDS), evidence, missed)


def judge_long(results):
    found = [100 * (result['accuracy'] or 0) for result in results if result['run'].kind == 'goal']
    return goal('%s at %d epochs with %s: at least %g %% test accuracy' % (
        plan.WHOLE.goal_model, plan.WHOLE.goal_epochs, 'dasgd-delta d=1', GOAL_ACCURACY),
        ['%.2f %%' % one for one in found], min(found, default=0) < GOAL_ACCURACY)


def judge_progress(progress):
    evidence, missed = [], False
    for row in progress:
        measured = row['measured']
        missed |= measured is None or abs(measured - row['theory']) > PROGRESS_ERROR * row['theory']
        evidence.append('%s: %s, by the theory %.2f' % (
            row['strategy'], 'nothing to compare with' if measured is None else '%.2f' % measured, row['theory']))
    return goal('effective steps of a round within %g %% of the theory' % (100 * PROGRESS_ERROR), evidence, missed)


def judge_rates(rates):
    """The theorem bounds the mean by c / sqrt(K), so an exponent of -0.5 or less is in accordance with it."""
    return goal('the mean squared gradient norm of trainings of K steps, learning rate %g / sqrt(K), falls at least as K^-0.5' %
                plan.RATE, ['%s: K^%.2f' % (row['strategy'], row['slope']) for row in rates],
                any(row['slope'] > -0.5 for row in rates))


def summarise(results, about):
    """The whole study as one object; about: what the driver knows (date, machine, plan)."""
    cells, progress, rates = cells_of(results), progress_of(results), rates_of(results)
    return dict(about, goals=[judge_accuracy(cells), judge_long(results), judge_progress(progress), judge_rates(rates)],
                table=cells, progress=progress, rates=rates, gradients=gradients_of(results),
                runs=[{'name': plan.name_of(result['run']), 'command': result['command'],
                       'seconds': round(result['seconds'], 2), 'diverged': result['diverged'],
                       'accuracy': result['accuracy']} for result in results])


def number(value, form):
    return '' if value is None else form % value


def table_of(cells):
    lines, last = [], None
    for cell in cells:
        place = cell['model'], cell['ranks']
        if place != last:
            last = place
            lines += ['', '### %s on %d ranks' % place, '', '| strategy | test accuracy, % | least..most | seeds | to sync, points |',
                      '|---|---|---|---|---|']
        diverged = ' (%d diverged)' % cell['diverged'] if cell['diverged'] else ''
        spread = '' if cell['mean'] is None else '%.2f..%.2f' % (cell['least'], cell['most'])
        lines.append('| %s | %s | %s | %d%s | %s |' % (cell['strategy'], number(cell['mean'], '%.2f'), spread,
                                                       len(cell['accuracies']), diverged, number(cell['difference'], '%+.2f')))
    return lines


def markdown(summary, plots):
    lines = ['# The convergence study', '', summary['head'], '', '## Goals', '']
    for one in summary['goals']:
        lines.append('* %s: **%s**%s' % (one['goal'], one['verdict'],
                                         ' (%s)' % '; '.join(one['evidence']) if one['evidence'] else ''))
    lines += ['', '## Test accuracy'] + table_of(summary['table'])
    lines += ['', '## Effective steps of a round', '',
              'How far `local` goes in the steps that it needs for the loss that the strategy came to, of tau = %d.' % plan.TAU,
              '', '| strategy | measured | by the theory |', '|---|---|---|']
    lines += ['| %s | %s | %.2f |' % (row['strategy'], number(row['measured'], '%.2f'), row['theory'])
              for row in summary['progress']]
    lines += ['', '## Gradient', '', 'The mean of the squared norms up to step K, as a power of K (least squares of the '
              'logarithms): of trainings of K steps each with a learning rate in proportion to 1 / sqrt(K), which the theorem '
              'bounds by c / sqrt(K), and of the first K steps of the trainings of the table, to which no theorem applies.',
              '', '| trainings | strategy | exponent |', '|---|---|---|']
    lines += ['| of K steps | %s | %.2f |' % (row['strategy'], row['slope']) for row in summary['rates']]
    lines += ['| first K steps, %s | %s | %.2f |' % (row['model'], row['strategy'], row['slope'])
              for row in summary['gradients']]
    lines += [''] + ['![%s](%s.svg)' % (text, name) for name, text in plots]
    lines += ['', '## Commands', '', '```'] + [run['command'] for run in summary['runs']] + ['```', '']
    return '\n'.join(lines)


def draw_accuracy(pyplot, summary):
    places = list(dict.fromkeys((cell['model'], cell['ranks']) for cell in summary['table']))
    figure, axes = pyplot.subplots(1, max(1, len(places)), figsize=(3 + 2.6 * len(places), 4), sharey=True, squeeze=False)
    names = [arm.name for arm in plan.ARMS]
    for axis, place in zip(axes[0], places):
        for cell in summary['table']:
            if (cell['model'], cell['ranks']) == place and cell['mean'] is not None:
                colour = '#15803d' if plan.BY_NAME[cell['strategy']].delayed else '#b03a2e'
                at = -names.index(cell['strategy'])
                axis.plot([cell['least'], cell['most']], [at, at], color=colour, linewidth=1)
                axis.plot([cell['mean']], [at], 'o', color=colour, markersize=5)
        axis.set_title('%s, %d ranks' % place)
        axis.set_xlabel('test accuracy, %')
        axis.grid(alpha=0.25)
    axes[0][0].set_yticks([-i for i in range(len(names))], names)
    return figure


def draw_progress(pyplot, summary):
    figure, axis = pyplot.subplots(figsize=(6, 3.5))
    rows = [row for row in summary['progress'] if row['measured'] is not None]
    axis.bar(range(len(rows)), [row['measured'] for row in rows], color='#2563eb', width=0.6, label='measured')
    axis.plot(range(len(rows)), [row['theory'] for row in rows], '_', color='black', markersize=24, label='theory')
    axis.set_xticks(range(len(rows)), [row['strategy'].replace(' ', '\n') for row in rows], fontsize=8)
    axis.set_ylabel('effective steps of %d' % plan.TAU)
    axis.legend(frameon=False)
    return figure


def draw_gradient(pyplot, summary):
    models = list(dict.fromkeys(row['model'] for row in summary['gradients']))
    panels = [('trainings of K steps', summary['rates'])] if summary['rates'] else []
    panels += [('first K steps, ' + model, [row for row in summary['gradients'] if row['model'] == model]) for model in models]
    figure, axes = pyplot.subplots(1, max(1, len(panels)), figsize=(5 * max(1, len(panels)), 4), squeeze=False)
    for axis, (title, rows) in zip(axes[0], panels):
        for row, colour in zip(rows, pyplot.colormaps['tab20'].colors):
            axis.loglog(*zip(*row['points']), marker='.', linewidth=1, color=colour, label=row['strategy'])
        steps = [k for k, _ in rows[0]['points']]
        c = max(value * math.sqrt(k) for row in rows for k, value in row['points'])
        axis.loglog(steps, [c / math.sqrt(k) for k in steps], 'k--', label='c / sqrt(K)')
        axis.set_title(title)
        axis.set_xlabel('K, steps')
        axis.grid(alpha=0.25, which='both')
        axis.legend(frameon=False, fontsize=7, loc='upper center', bbox_to_anchor=(0.5, -0.15), ncol=4)
    axes[0][0].set_ylabel('mean squared gradient norm')
    return figure


PLOTS = (('study_accuracy', 'Test accuracy by strategy', draw_accuracy), ('study_progress', 'Effective steps', draw_progress),
         ('study_gradient', 'Gradient norm against steps', draw_gradient))


def draw(summary, folder):
    """Writes the plots as SVG and PNG; [(name, text)] of them. Raises ImportError without matplotlib."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    for name, _, make in PLOTS:
        figure = make(pyplot, summary)
        figure.tight_layout()
        for suffix in '.svg', '.png':
            figure.savefig('%s/%s%s' % (folder, name, suffix), dpi=130)
        pyplot.close(figure)
    return [(name, text) for name, text, _ in PLOTS]
