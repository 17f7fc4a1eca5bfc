#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# limit: 2000 s
# The RDMA tests: see docs/rdma-testbed.md.
exec tests/rdma/run "${1:?usage: rdma.sh BUILD}"
