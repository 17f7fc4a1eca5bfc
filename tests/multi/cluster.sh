#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# not under TSan: launchers start processes; a rank's own threads are those of test_ucx and test_tcp
# The tests under real launchers: see docs/slurm.md.
exec tests/cluster/run "${1:?usage: cluster.sh BUILD}"
