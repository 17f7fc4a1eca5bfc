#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tests under real launchers: see docs/slurm.md.
exec tests/cluster/run "${1:?usage: cluster.sh BUILD}"
