#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The step of PyTorch beside stretto-train's: same models, SGD with momentum, one thread; DDP over gloo with several ranks.

    torch_step.py MODEL RANKS AVERAGE STORE STEPS

MODEL: mlp or cnn; AVERAGE: none or ddp; STORE: a new file that all ranks see. Prints on rank 0 the mean milliseconds of a
step, for each window of 4 steps, a line each. Rank and network are in the environment (peers.py).
"""
import os
import sys
import time

import torch

BATCH, WINDOW, IMAGES = 64, 4, 8192


def model_of(name):
    layer = torch.nn
    if name == 'mlp':
        return layer.Sequential(layer.Linear(784, 1024), layer.ReLU(), layer.Linear(1024, 1024), layer.ReLU(),
                                layer.Linear(1024, 10))
    return layer.Sequential(layer.Unflatten(1, (1, 28, 28)),
                            layer.Conv2d(1, 8, 5), layer.ReLU(), layer.MaxPool2d(2),
                            layer.Conv2d(8, 16, 5), layer.ReLU(), layer.MaxPool2d(2),
                            layer.Flatten(), layer.Linear(256, 128), layer.ReLU(), layer.Linear(128, 10))


def main():
    name, ranks, average, store, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
    rank = int(os.environ.get('STRETTO_RANK') or os.environ.get('SLURM_PROCID') or 0)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = model_of(name)
    if average == 'ddp':
        torch.distributed.init_process_group('gloo', init_method='file://' + store, rank=rank, world_size=ranks)
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    lossy = torch.nn.CrossEntropyLoss()
    images, labels = torch.randn(IMAGES, 784), torch.randint(0, 10, (IMAGES,))
    windows = []
    for _ in range(steps // WINDOW):
        begin = time.perf_counter()
        for _ in range(WINDOW):
            index = torch.randint(0, IMAGES, (BATCH,))
            optimizer.zero_grad(set_to_none=average == 'none')
            loss = lossy(model(images[index]), labels[index])
            loss.backward()
            optimizer.step()
        windows.append((time.perf_counter() - begin) * 1e3 / WINDOW)
    if rank == 0:
        print('\n'.join('%.4f' % window for window in windows))


main()
