#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The RDMA tests: see docs/rdma-testbed.md.
exec tests/rdma/run "${1:?usage: rdma.sh BUILD}"
