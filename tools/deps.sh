#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks with pkg-config what the build, the demo and the tests need; installs what is missing with
# apt-get where it may (root or sudo), elsewhere prints what to install. Prints the command first.
set -eu

missing=
need() { # need PACKAGE TEST...: PACKAGE is missing if TEST fails
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}
have() { command -v "$1"; }
lib() { pkg-config --exists "$1"; }

need gcc have cc
need pkg-config have pkg-config
need libopenblas-dev lib openblas
need zlib1g-dev lib zlib
need libcmocka-dev lib cmocka
need libhwloc-dev lib hwloc
need dataset-fashion-mnist test -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
need python3 have python3
need valgrind have valgrind
need chromium have chromium
# verbs, and the machine that the RDMA tests run in where there is no device
need libibverbs-dev lib libibverbs
need librdmacm-dev lib librdmacm
# UCX, for clusters without RDMA
need libucx-dev lib ucx
need ibverbs-providers test -e /etc/libibverbs.d/rxe.driver
need ibverbs-utils have ibv_devinfo
need qemu-system-x86 have qemu-system-x86_64
# shellcheck disable=SC2016 # that shell expands it
need busybox-static sh -c 'busybox true && ! ldd "$(command -v busybox)"'
need iproute2 sh -c 'command -v rdma || test -x /sbin/rdma || test -x /usr/sbin/rdma'
# launchers, and the nodes with a Slurm of their own that their tests run on
need libpmix-dev lib pmix
need libpmi2-0 sh -c 'ls /usr/lib/*/libpmi2.so.0'
need slurmctld sh -c 'command -v slurmctld || test -x /usr/sbin/slurmctld'
need slurmd sh -c 'command -v slurmd || test -x /usr/sbin/slurmd'
need slurm-client have srun
need munge sh -c 'command -v munged || test -x /usr/sbin/munged'
need openmpi-bin have mpirun
if [ "${STRETTO_DEPS_LINT:-}" = 1 ]; then
	need clang have clang
	need libclang-rt-14-dev sh -c 'ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'
	need clang-format have clang-format
	need cppcheck have cppcheck
	need shellcheck have shellcheck
	need universal-ctags have ctags
fi
if [ "${STRETTO_DEPS_BENCH:-}" = 1 ]; then
	need perftest have ib_write_bw
	# openmpi-bin alone has mpicc, but no headers
	need libopenmpi-dev sh -c 'echo "#include <mpi.h>" | mpicc -E -'
	# the others that are measured; both MPIs stand side by side, and mpicc stays as it is
	need mpich have mpirun.mpich
	need libmpich-dev sh -c 'echo "#include <mpi.h>" | mpicc.mpich -E -'
	need g++ have g++
	need libgloo-dev test -e /usr/include/gloo/config.h
	need python3-matplotlib python3 -c "import matplotlib"
fi
if [ "${STRETTO_DEPS_BENCH_TRAIN:-}" = 1 ]; then
	need python3-torch /usr/bin/python3 -c "import torch"
fi
if [ "${STRETTO_DEPS_STUDY:-}" = 1 ]; then
	need python3-matplotlib /usr/bin/python3 -c "import matplotlib"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	sudo=
elif have sudo >/dev/null && sudo -n true 2>/dev/null; then
	sudo="sudo -n"
else
	echo "deps: missing packages; install them with: apt-get install$missing" >&2
	exit 1
fi
if ! have apt-get >/dev/null; then
	echo "deps: missing (by their Debian names):$missing" >&2
	exit 1
fi
echo "deps: $sudo apt-get update && $sudo apt-get install -y --no-install-recommends$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # words on purpose
if ! { $sudo apt-get update && DEBIAN_FRONTEND=noninteractive \
	$sudo apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "deps: the command above failed" >&2
	exit 1
fi
