# SPDX-License-Identifier: BSD-3-Clause
"""Cases of tools/lib/study_plan.py and study_report.py, by made-up results; exact. Silent if all hold."""
import math

from lib import study_plan as plan, study_report as report

ALL = list(plan.ARMS)


def runs_of(scale=plan.WHOLE, seeds=3, arms=ALL, epochs=2):
    return plan.list_runs(scale, seeds, arms, 60000, epochs)


def case_same_samples():
    rows = [run for run in runs_of() if run.kind == 'accuracy']
    assert {run.samples for run in rows} == {2 * 59904}
    assert all(run.steps * run.ranks * plan.BY_NAME[run.arm].batch == run.samples for run in rows)
    assert len(rows) == 3 * 3 * 2 * len(ALL)


def case_order():
    runs = runs_of()
    first = runs[:3 * 2 * len(ALL)]
    assert all((run.kind, run.ranks) == ('accuracy', 2) for run in first)
    assert {(run.model, run.arm, run.seed) for run in first} == {
        (model, arm.name, seed) for model in ('mlp', 'cnn') for arm in ALL for seed in (1, 2, 3)}
    # A cut anywhere leaves whole seeds before it.
    assert [run.seed for run in first] == sorted(run.seed for run in first)
    last = [run.ranks for run in runs if run.kind == 'accuracy']
    assert last == sorted(last)
    assert len({plan.name_of(run) for run in runs}) == len(runs)


def case_commands():
    run = next(run for run in runs_of() if (run.arm, run.ranks, run.model) == ('dasgd d=4', 4, 'cnn'))
    assert ' '.join(plan.command_of(run, 'b', 'o', 'fashion-mnist')) == (
        'b/stretto-run -n 4 b/stretto-train --strategy dasgd --tau 4 --delay 4 --own-weight 0.25 --data fashion-mnist '
        '--model cnn:28x28x1-8-16-128-10 --batch 32 --epochs 2 --steps 936 --optimizer sgd:lr=0.05,momentum=0.9 '
        '--schedule onecycle --seed 1 --threads 1 --quiet --log-every 18 --probe-every 78 '
        '--log o/accuracy_cnn_4_dasgd_d4_1.jsonl')
    run = next(run for run in runs_of() if run.kind == 'rate' and run.steps == 256)
    assert plan.optimizer_of(run) == 'sgd:lr=0.050000,momentum=0'


def case_epochs():
    costs = dict({text: 1e-4 for text in plan.WHOLE.models.values()}, start=1)
    costs[plan.WHOLE.goal_model] = 1e-4

    def need(epochs):
        return sum(plan.work_of(run, costs) for run in runs_of(epochs=epochs))
    assert plan.choose_epochs(plan.WHOLE, 3, ALL, 60000, costs, need(4) / 0.9 + 1) == 4
    assert plan.choose_epochs(plan.WHOLE, 3, ALL, 60000, costs, need(4) / 0.9 - 1) == 3
    assert plan.choose_epochs(plan.WHOLE, 3, ALL, 60000, costs, 1) == 1


def case_clock():
    run = runs_of()[0]
    clock = plan.Clock(100, {'start': 2, run.text: 18 / (run.samples + 12 * 1024)})
    assert math.isclose(clock.expect(run), 20)
    clock.spend(run, 50)
    assert math.isclose(clock.expect(run), 50) and clock.left == 50
    clock.spend(run, 30)
    assert math.isclose(clock.expect(run), 40) and not clock.fits(run)


def result(run, accuracy=None, probes=(), diverged=False):
    return {'run': run, 'command': 'c', 'seconds': 1.0, 'diverged': diverged, 'accuracy': accuracy, 'probes': list(probes)}


def accuracies(table, kind='accuracy', ranks=2):
    """Results of {strategy: accuracies of seeds 1, 2, ...} on the MLP; None: diverged."""
    return [result(plan.make_run(kind, ('mlp', 'm'), ranks, plan.BY_NAME[arm], seed, (1, 59904)), value, (), value is None)
            for arm, values in table.items() for seed, value in enumerate(values, 1)]


def case_table():
    cells = report.cells_of(accuracies({'co2': [0.5, None, 0.75], 'sync': [0.875, 0.75, 0.625], 'dga': [None]}))
    assert [cell['strategy'] for cell in cells] == ['sync', 'dga', 'co2']
    sync, dga, co2 = cells
    assert (sync['mean'], sync['least'], sync['most'], sync['difference']) == (75, 62.5, 87.5, 0)
    assert (co2['mean'], co2['difference'], co2['diverged'], co2['accuracies']) == (62.5, -12.5, 1, [50, 75])
    assert (dga['mean'], dga['difference'], dga['diverged']) == (None, None, 1)
    assert '| co2 | 62.50 | 50.00..75.00 | 2 (1 diverged) | -12.50 |' in report.table_of(cells)
    assert '| dga |  |  | 0 (1 diverged) |  |' in report.table_of(cells)


def case_goal_of_accuracy():
    def verdict(table):
        return report.judge_accuracy(report.cells_of(accuracies(table)))['verdict']
    sync = {'sync': [0.875, 0.875, 0.875]}
    assert verdict(dict(sync, dga=[0.8701] * 3, co2=[0.5] * 3)) == 'met'
    assert verdict(dict(sync, dga=[0.8699] * 3)) == 'missed'
    # Two seeds are not enough; acco and local are not delayed.
    assert verdict(dict(sync, dga=[0.875] * 2)) == 'not measured'
    assert verdict(dict(sync, acco=[0.875] * 3, local=[0.875] * 3)) == 'not measured'
    # Met on two ranks, missed on four.
    cells = report.cells_of(accuracies(dict(sync, dga=[0.875] * 3)) + accuracies(dict(sync, dga=[0.5] * 3), ranks=4))
    assert report.judge_accuracy(cells)['verdict'] == 'missed'


def case_goal_of_long():
    assert report.judge_long([])['verdict'] == 'not measured'
    assert report.judge_long(accuracies({'sync': [0.9101]}, 'goal'))['verdict'] == 'met'
    assert report.judge_long(accuracies({'sync': [0.9099]}, 'goal'))['verdict'] == 'missed'
    assert report.judge_long(accuracies({'sync': [None]}, 'goal'))['verdict'] == 'missed'


def case_effective_steps():
    def falling(share):
        return [(step, 1.0, 4 - 0.01 * share * step) for step in range(4, 257, 4)]
    assert report.theory(plan.BY_NAME['dasgd d=2']) == 2.5 and report.theory(plan.BY_NAME['dasgd-delta d=2']) == 4
    assert math.isclose(report.effective_steps(falling(1), falling(0.625)), 2.5)
    # A constant loss of steps at the beginning does not count.
    late = [(step, 1.0, 4 - 0.01 * (step - 3)) for step in range(8, 257, 4)]
    assert math.isclose(report.effective_steps(falling(1), late), 4)
    assert report.effective_steps(falling(1), falling(1.5)) is None
    arms = ['local', 'dasgd d=2']

    def verdict(share):
        results = [result(plan.make_run('progress', ('mlp', 'm'), 2, plan.BY_NAME[arm], 1, (1, 16384)), 0.5, falling(speed))
                   for arm, speed in zip(arms, (1, share))]
        return report.judge_progress(report.progress_of(results))
    assert verdict(0.625 * 1.09)['verdict'] == 'met' and verdict(0.625 * 1.11)['verdict'] == 'missed'
    assert verdict(0.625)['evidence'] == ['dasgd d=2: 2.50, by the theory 2.50']
    assert report.judge_progress([])['verdict'] == 'not measured'


def case_rates():
    def results(power):
        return [result(plan.make_run('rate', ('mlp', 'm'), 2, plan.BY_NAME['dasgd d=1'], 1, (1, steps * 64)), 0.5,
                       [(1, steps ** (power / 2), 1.0)]) for steps in (64, 1024, 256)]
    rates = report.rates_of(results(-0.75))
    assert math.isclose(rates[0]['slope'], -0.75) and [k for k, _ in rates[0]['points']] == [64, 256, 1024]
    assert report.judge_rates(rates)['verdict'] == 'met'
    assert report.judge_rates(report.rates_of(results(-0.45)))['verdict'] == 'missed'
    assert report.running_means([(1, 3.0, 0), (2, 1.0, 0)]) == [(1, 9.0), (2, 5.0)]


def case_summary():
    results = accuracies({'sync': [0.875] * 3, 'dga': [0.875] * 3})
    summary = report.summarise(results, {'head': 'How.', 'left_out': 0})
    text = report.markdown(summary, [('plot', 'A plot')])
    assert '| dga | 87.50 | 87.50..87.50 | 3 | +0.00 |' in text and '![A plot](plot.svg)' in text
    assert text.count('**not measured**') == 3 and text.count('**met**') == 1


for name, case in list(globals().items()):
    if name.startswith('case_'):
        case()
