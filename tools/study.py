#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The convergence study: every strategy on Fashion-MNIST, in trainings of the same samples, optimiser and schedule.

    tools/study.py build                    as many of the runs as fit into 40 minutes, the most important first
    tools/study.py build --quick            a tiny one, in two minutes

Writes OUT/summary.json, study.md and plots; OUT/runs/ has a log for each run, and beside it its exact command. A run that is
there is not run again, so the study can be interrupted, and goes on when it is started again.
"""
import argparse
import datetime
import json
import os
import shlex
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from lib import study_plan as plan, study_report as report  # noqa: E402 # beside this file

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
RUN_LIMIT = 1200        # seconds: a run that hangs ends the study
MEASURE_STEPS = 64      # of the training that a step's time is taken from


class Failure(Exception):
    """What went wrong, as a line."""


def say(form, *values):
    print('study: ' + form % values, file=sys.stderr, flush=True)


def call(command):
    """(exit status, stderr, seconds)"""
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=RUN_LIMIT,
                          check=False, encoding='utf-8', errors='replace')
    return done.returncode, done.stderr, time.monotonic() - begin


def read_lines(path):
    try:
        with open(path, encoding='utf-8') as file:
            return [json.loads(line) for line in file]
    except ValueError as problem:
        raise Failure('%s: not a log: %s' % (path, problem)) from None


def write_json(path, value):
    with open(path + '.new', 'w', encoding='utf-8') as file:
        json.dump(value, file, indent=1)
        file.write('\n')
    os.replace(path + '.new', path)


def measure(options, scale):
    """What a start and a sample of each model take, see study_plan.work_of()."""
    costs = {}
    texts = set(scale.models.values()) | ({scale.goal_model} - {None})
    for text in sorted(texts):
        log = options.out + '/measure.jsonl'
        status, said, took = call(list(map(str, (
            options.build + '/stretto-run', '-n', 2, options.build + '/stretto-train', '--strategy', 'sync', '--data', options.data,
            '--model', text, '--batch', plan.BATCH, '--epochs', 1000, '--steps', MEASURE_STEPS, '--threads', 1, '--quiet',
            '--log', log))))
        if status != 0:
            raise Failure('cannot train %s: %s' % (text, said.strip() or 'status %d' % status))
        last = read_lines(log)[-1]
        costs[text] = last['time'] / (MEASURE_STEPS * 2 * plan.BATCH)
        costs['start'] = max(costs.get('start', 0), took - last['time'])
        say('%s: %.2f ms a step of %d samples', text, last['step_ms'], 2 * plan.BATCH)
    return costs


def settle_plan(options, scale, arms, images):
    """The plan of before, if there is one: epochs that changed would make other runs. Else a new one."""
    path = options.out + '/plan.json'
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            kept = json.load(file)
        if options.epochs and options.epochs != kept['epochs']:
            raise Failure('%s is a study of %d epochs: give another --out' % (options.out, kept['epochs']))
        return kept
    costs = measure(options, scale)
    epochs = options.epochs or scale.epochs or plan.choose_epochs(scale, options.seeds, arms, images, costs,
                                                                  60 * options.minutes)
    kept = {'epochs': epochs, 'costs': costs}
    write_json(path, kept)
    return kept


def finished(run, command, folder):
    """The result of a run that was made by the same command; None: there is none."""
    path = '%s/%s.json' % (folder, plan.name_of(run))
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as file:
        kept = json.load(file)
    if kept['command'] != shlex.join(command):
        return None
    return result_of(run, kept, folder)


def result_of(run, kept, folder):
    accuracy, probes, why = report.read_log(read_lines('%s/%s.jsonl' % (folder, plan.name_of(run))))
    if kept['diverged'] != (why == 'loss') or not kept['diverged'] and accuracy is None:
        raise Failure('%s/%s.jsonl: not the log of a training that ended as it did' % (folder, plan.name_of(run)))
    return {'run': run, 'command': kept['command'], 'seconds': kept['seconds'], 'diverged': kept['diverged'],
            'accuracy': accuracy, 'probes': probes}


def make(run, command, folder):
    """Runs it; a loss that is not a number is a result, everything else that fails ends the study."""
    status, said, took = call(command)
    diverged = status == 1 and 'the loss is not a number' in said
    if status != 0 and not diverged:
        raise Failure('%s: status %d: %s' % (shlex.join(command), status, said.strip()))
    kept = {'command': shlex.join(command), 'seconds': took, 'diverged': diverged}
    write_json('%s/%s.json' % (folder, plan.name_of(run)), kept)
    return result_of(run, kept, folder)


def run_all(runs, options, costs):
    """Results of the runs that were there or fitted, and how many did not."""
    folder, clock, results, left_out = options.out + '/runs', plan.Clock(60 * options.minutes, costs), [], 0
    for count, run in enumerate(runs, 1):
        command = plan.command_of(run, options.build, folder, options.data)
        result = finished(run, command, folder)
        if not result and clock.fits(run):
            say('%d of %d, %.0f s left, this one about %.0f s: %s', count, len(runs), clock.left, clock.expect(run),
                plan.name_of(run))
            result = make(run, command, folder)
            clock.spend(run, result['seconds'])
        if result:
            results.append(result)
        else:
            left_out += 1
    return results, left_out


def head_of(options, kept, results, left_out, load):
    return ('Written on %s by `tools/study.py`: Fashion-MNIST, %d epochs, batch %d a rank (acco: half of that, with as many updates '
            'as the others), tau %d, own weight %g, %s, %s; %d cores, a BLAS thread a rank, load average before: %s. %d runs were '
            'made, %d were left out for lack of time. Beyond as many ranks as cores, ranks share cores: this changes times, not '
            'weights. Means over seeds; least..most is their spread.' % (
                datetime.date.today(), kept['epochs'], plan.BATCH, plan.TAU, plan.OWN_WEIGHT, plan.OPTIMIZER['accuracy'],
                plan.SCHEDULE['accuracy'], len(os.sched_getaffinity(0)), load, len(results), left_out))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog='See docs/training.md, "The study".')
    parser.add_argument('build', help='folder with stretto-run and stretto-train')
    parser.add_argument('--out', help='where results go (BUILD/study, or BUILD/study-quick)')
    parser.add_argument('--minutes', type=float, default=40, help='time for the runs of this call (40)')
    parser.add_argument('--seeds', type=int, help='seeds of each training (3)')
    parser.add_argument('--epochs', type=int, help='of each training (as many of 10 as fit into the time)')
    parser.add_argument('--only', metavar='ARM,...', help='some strategies: ' + ', '.join(arm.name for arm in plan.ARMS))
    parser.add_argument('--data', default='fashion-mnist', help='as for stretto-train: fashion-mnist, or a folder of such files')
    parser.add_argument('--quick', action='store_true', help='a tiny model, one seed, two ranks')
    parser.add_argument('--no-plots', action='store_true', help='numbers alone')
    parser.add_argument('--release', action='store_true', help='copy the results to docs/results/ as well')
    options = parser.parse_args()
    for name, value in ('--minutes', options.minutes), ('--seeds', options.seeds), ('--epochs', options.epochs):
        if value is not None and not value > 0:
            parser.error('%s must be more than 0' % name)
    unknown = set((options.only or 'sync').split(',')) - set(plan.BY_NAME)
    if unknown:
        parser.error('--only: no strategy is called %s' % ', '.join(sorted(unknown)))
    options.out = options.out or options.build + ('/study-quick' if options.quick else '/study')
    return options


def write(options, summary):
    plots = []
    try:
        if not options.no_plots:
            plots = report.draw(summary, options.out)
    except ImportError:
        say('no plots: python3-matplotlib is not installed')
    write_json(options.out + '/summary.json', summary)
    with open(options.out + '/study.md', 'w', encoding='utf-8') as file:
        file.write(report.markdown(summary, plots))
    if not options.release:
        return
    results = HERE + '/docs/results/'
    shutil.copy(options.out + '/summary.json', results + 'study.json')
    for name in ['study.md'] + [name + suffix for name, _ in plots for suffix in ('.svg', '.png')]:
        shutil.copy(options.out + '/' + name, results)


def main():
    options = parse()
    scale = plan.QUICK if options.quick else plan.WHOLE
    options.seeds = options.seeds or scale.seeds
    arms = [arm for arm in plan.ARMS if not options.only or arm.name in options.only.split(',')]
    with open('/proc/loadavg', encoding='ascii') as file:
        load = ' '.join(file.read().split()[:2])
    os.makedirs(options.out + '/runs', exist_ok=True)
    images = plan.training_images(options.data)
    kept = settle_plan(options, scale, arms, images)
    runs = plan.list_runs(scale, options.seeds, arms, images, kept['epochs'])
    say('%d runs of %d epochs, expected to take %.0f s in all', len(runs), kept['epochs'],
        sum(plan.work_of(run, kept['costs']) for run in runs))
    results, left_out = run_all(runs, options, kept['costs'])
    summary = report.summarise(results, {'head': head_of(options, kept, results, left_out, load), 'plan': kept,
                                         'left_out': left_out})
    write(options, summary)
    for one in summary['goals']:
        say('%s: %s%s', one['goal'], one['verdict'], ' (%s)' % '; '.join(one['evidence']) if one['evidence'] else '')
    say('%d runs were made, %d were left out; results are in %s', len(results), left_out, options.out)


if __name__ == '__main__':
    try:
        main()
    except (Failure, ValueError, OSError, subprocess.TimeoutExpired) as failure:
        sys.exit('study: %s' % failure)
