# SPDX-License-Identifier: BSD-3-Clause
# One Makefile for everything. `make help` lists the targets; objects, libraries and programs go to $(BUILD).

BUILD ?= build
SAN ?=
PREFIX ?= /usr/local
VERSION := 0.1.0
SOVERSION := 0

CC ?= gcc
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion -Werror
OPT ?= -O3 -g
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -I. -I$(BUILD) -MMD -MP -fPIC -fvisibility=hidden -pthread \
	$(WARN) $(OPT) $(CFLAGS)
LDFLAGS_ALL := -pthread $(LDFLAGS)
LDLIBS := -lm

ifeq ($(SAN),asan)
CFLAGS_ALL += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
LDFLAGS_ALL += -fsanitize=address,undefined
else ifeq ($(SAN),tsan)
CFLAGS_ALL += -fsanitize=thread -O1
LDFLAGS_ALL += -fsanitize=thread
endif

# Optional parts: used where their headers are, left out where not.
PKG := $(shell command -v pkg-config 2>/dev/null || echo false)
have = $(shell $(PKG) --exists $(1) && echo yes || echo no)
HAVE_HWLOC := $(call have,hwloc)
HAVE_OPENBLAS := $(call have,openblas)
HAVE_ZLIB := $(call have,zlib)
HAVE_PMIX := $(call have,pmix)
HAVE_VERBS := $(if $(filter yesyes,$(call have,libibverbs)$(call have,librdmacm)),yes,no)
HAVE_UCX := $(shell $(PKG) --atleast-version=1.13 ucx && echo yes || echo no)

ifeq ($(HAVE_HWLOC),yes)
CFLAGS_ALL += -DSTRETTO_HAVE_HWLOC $(shell $(PKG) --cflags hwloc)
LDLIBS += $(shell $(PKG) --libs hwloc)
endif

ifeq ($(HAVE_VERBS),yes)
CFLAGS_ALL += -DSTRETTO_HAVE_VERBS $(shell $(PKG) --cflags libibverbs librdmacm)
LDLIBS += $(shell $(PKG) --libs librdmacm libibverbs)
endif

ifeq ($(HAVE_PMIX),yes)
# its headers do not compile with our warnings
CFLAGS_ALL += -DSTRETTO_HAVE_PMIX $(patsubst -I%,-isystem %,$(shell $(PKG) --cflags pmix))
LDLIBS += $(shell $(PKG) --libs pmix)
endif

ifeq ($(HAVE_UCX),yes)
CFLAGS_ALL += -DSTRETTO_HAVE_UCX $(shell $(PKG) --cflags ucx)
LDLIBS += -lucp -lucs
endif

# The averaging needs neither BLAS nor data sets, and is part of the library.
AVERAGING := $(addprefix trainer/,average.c gradients.c periodic.c route.c optimizer.c trace.c words.c) \
	$(wildcard trainer/strategies/*.c)
LIB_SRC := $(wildcard runtime/*.c runtime/*/*.c collectives/*.c collectives/*/*.c) $(AVERAGING)
LIB_SRC := $(filter-out $(if $(filter no,$(HAVE_VERBS)),runtime/transports/verbs%),$(LIB_SRC))
LIB_SRC := $(filter-out $(if $(filter no,$(HAVE_PMIX)),runtime/bootstrap/pmix.c),$(LIB_SRC))
LIB_SRC := $(filter-out $(if $(filter no,$(HAVE_UCX)),runtime/transports/ucx%),$(LIB_SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
TRAINER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(AVERAGING),$(wildcard trainer/*.c trainer/*/*.c)))
TOOL_LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/lib/*.c))
PUBLIC_HEADERS := runtime/stretto.h collectives/stretto_coll.h trainer/stretto_train.h

TOOLS := $(patsubst tools/%.c,%,$(wildcard tools/*.c))
UNIT := $(patsubst %.c,%,$(wildcard tests/unit/test_*.c))
UNIT := $(filter-out $(if $(filter no,$(HAVE_VERBS)),tests/unit/test_verbs%),$(UNIT))
MULTI := $(patsubst %.c,%,$(wildcard tests/multi/*.c))
RDMA := $(if $(filter yes,$(HAVE_VERBS)),$(patsubst %.c,%,$(wildcard tests/rdma/*.c)))
EXAMPLES := $(patsubst %.c,%,$(wildcard docs/examples/*.c))
CLUSTER := $(patsubst %.c,%,$(wildcard tests/cluster/*.c))
TRAINER_PROGRAMS := $(filter stretto-train,$(TOOLS)) $(filter tests/unit/test_train%,$(UNIT)) \
	$(filter tests/multi/train%,$(MULTI))

ifeq ($(HAVE_OPENBLAS)$(HAVE_ZLIB),yesyes)
TRAINER_CFLAGS := $(shell $(PKG) --cflags openblas zlib)
TRAINER_LIBS := $(shell $(PKG) --libs openblas zlib)
else
TOOLS := $(filter-out stretto-train,$(TOOLS))
UNIT := $(filter-out tests/unit/test_train%,$(UNIT))
MULTI := $(filter-out tests/multi/train%,$(MULTI))
TRAINER_OBJ :=
endif
PROGRAMS := $(TOOLS:%=$(BUILD)/%)
SCRIPTS := $(BUILD)/stretto-report
TESTS := $(UNIT:%=$(BUILD)/%) $(MULTI:%=$(BUILD)/%) $(RDMA:%=$(BUILD)/%) $(CLUSTER:%=$(BUILD)/%) \
	$(EXAMPLES:%=$(BUILD)/%)
LIB_SO := $(BUILD)/libstretto.so.$(VERSION)
LIB_A := $(BUILD)/libstretto.a

.PHONY: all programs tests deps demo test test-rdma test-cluster check lint asan tsan bench bench-rdma bench-hiding bench-train study peers install clean help parts FORCE
.DEFAULT_GOAL := all

all: parts $(LIB_A) $(LIB_SO) $(PROGRAMS) $(SCRIPTS) ## build the libraries and the programs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | sort

parts: ## say which optional parts this build has
	@$(if $(filter no,$(HAVE_HWLOC)),echo "parts: hwloc not found: built without it (core choice by the affinity mask alone, NUMA distance as the kernel tells it)";) \
	$(if $(filter no,$(HAVE_VERBS)),echo "parts: libibverbs or librdmacm not found: built without RDMA";) \
	$(if $(filter no,$(HAVE_PMIX)),echo "parts: pmix not found: built without it (srun --mpi=pmi2 and stretto-run start jobs)";) \
	$(if $(filter no,$(HAVE_UCX)),echo "parts: UCX (1.13 or newer) not found: built without it";) \
	$(if $(filter yesyes,$(HAVE_OPENBLAS)$(HAVE_ZLIB)),,echo "parts: openblas or zlib not found: the trainer is left out";) true

deps: ## install what the build, the demo and the tests need
	@tools/deps.sh

demo: deps ## train on Fashion-MNIST with four strategies and compare them
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(BUILD)

# Builds on all cores, unless -j says how many. The tests start without -j: what they make is theirs.
COMPILE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all tests

test: deps ## build everything and run all tests
	@$(COMPILE)
	@$(MAKE) --no-print-directory check

check: all tests
	@tests/run $(BUILD)

tests: $(TESTS)

test-rdma: deps ## run the RDMA tests, in an emulated machine where there is no RDMA device
	@$(COMPILE)
	@tests/run $(BUILD) multi/rdma

test-cluster: deps ## run jobs under Slurm and mpirun on virtual nodes (needs root)
	@$(COMPILE)
	@tests/run $(BUILD) multi/cluster

asan: deps ## run the tests with AddressSanitizer and UBSan
	@$(COMPILE) SAN=asan BUILD=build/asan
	@$(MAKE) --no-print-directory check SAN=asan BUILD=build/asan

tsan: deps ## run the tests with ThreadSanitizer
	@$(COMPILE) SAN=tsan BUILD=build/tsan
	@$(MAKE) --no-print-directory check SAN=tsan BUILD=build/tsan

lint: deps ## formatting, warnings of a second compiler, include direction, sizes, banned calls
	@tests/lint

bench: ## measure the collectives and the overlap on this machine, beside other libraries
	@STRETTO_DEPS_BENCH=1 tools/deps.sh
	@$(MAKE) --no-print-directory all tests peers
	@tools/bench.sh $(BUILD)
	@tools/bench.py $(BUILD)

bench-rdma: ## measure the RDMA transport beside perftest and Open MPI, in an emulated machine
	@STRETTO_DEPS_BENCH=1 tools/deps.sh
	@$(MAKE) --no-print-directory all tests peers
	@tools/bench_rdma.sh $(BUILD)

bench-hiding: ## measure what the trainer hides on shaped links between virtual nodes (needs root)
	@STRETTO_DEPS_BENCH=1 tools/deps.sh
	@$(MAKE) --no-print-directory all tests peers
	@tools/bench_hiding.py $(BUILD)

bench-train: ## measure a training step beside PyTorch's, in turns (root needed for the link)
	@STRETTO_DEPS_BENCH_TRAIN=1 tools/deps.sh
	@$(MAKE) --no-print-directory all
	@tools/bench_train.py $(BUILD)

study: ## train by every strategy on Fashion-MNIST and compare what they reach (40 minutes)
	@STRETTO_DEPS_STUDY=1 tools/deps.sh
	@$(MAKE) --no-print-directory all
	@tools/study.py $(BUILD)

# One program for each library that is compared: only here are the other libraries needed. By name, whichever of them
# mpicc stands for; mpicc itself where there is no other name.
ifneq ($(filter peers,$(MAKECMDGOALS)),)
with_mpi = $(shell cc=$$(command -v $(1)) && echo '\#include <mpi.h>' | $$cc -E - >/dev/null 2>&1 && echo $$cc)
OPENMPI := $(or $(call with_mpi,mpicc.openmpi),$(call with_mpi,mpicc))
MPICH := $(call with_mpi,mpicc.mpich)
GLOO := $(wildcard /usr/include/gloo/config.h)
endif
PEERS := $(if $(OPENMPI),openmpi) $(if $(MPICH),mpich) $(if $(GLOO),gloo)
PEER_LOOPS := bench latency $(if $(filter yes,$(HAVE_OPENBLAS)),overlap)
# for tests of the loops; part of `tests`
PEER_TESTS := $(foreach who,stretto alone,$(PEER_LOOPS:%=$(BUILD)/tests/peers/%_$(who)))
PEER_CFLAGS = $(CFLAGS_ALL) $(if $(filter %overlap.c,$^),$(shell $(PKG) --cflags openblas))
PEER_LIBS = $(LDFLAGS_ALL) $(LDLIBS) $(if $(filter %overlap.c,$^),$(shell $(PKG) --libs openblas))

tests: $(PEER_TESTS)

peers: $(PEER_TESTS) $(foreach who,$(PEERS),$(PEER_LOOPS:%=$(BUILD)/tests/peers/%_$(who)))
	@$(if $(OPENMPI),,echo "peers: libopenmpi-dev not found: without Open MPI";) \
	$(if $(MPICH),,echo "peers: mpich or libmpich-dev not found: without MPICH";) \
	$(if $(GLOO),,echo "peers: libgloo-dev not found: without Gloo";) \
	$(if $(filter yes,$(HAVE_OPENBLAS)),,echo "peers: openblas not found: overlap is left out";) true

$(BUILD)/tests/peers/%_stretto: tests/peers/%.c tests/peers/peer_stretto.c tests/peers/peer.h $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(PEER_CFLAGS) $(filter %.c,$^) $(LIB_A) $(PEER_LIBS) -o $@

$(BUILD)/tests/peers/%_alone: tests/peers/%.c tests/peers/peer_alone.c tests/peers/peer.h
	@mkdir -p $(@D)
	$(CC) $(PEER_CFLAGS) $(filter %.c,$^) $(PEER_LIBS) -o $@

$(BUILD)/tests/peers/%_openmpi: tests/peers/%.c tests/peers/peer_mpi.c tests/peers/peer.h
	@mkdir -p $(@D)
	OMPI_CC="$(CC)" $(OPENMPI) $(PEER_CFLAGS) $(filter %.c,$^) $(PEER_LIBS) -o $@

$(BUILD)/tests/peers/%_mpich: tests/peers/%.c tests/peers/peer_mpi.c tests/peers/peer.h
	@mkdir -p $(@D)
	MPICH_CC="$(CC)" $(MPICH) $(PEER_CFLAGS) $(filter %.c,$^) $(PEER_LIBS) -o $@

$(BUILD)/tests/peers/%_gloo: tests/peers/%.c tests/peers/peer_gloo.cc tests/peers/peer.h
	@mkdir -p $(@D)
	$(CC) $(PEER_CFLAGS) -c $(filter %.c,$^) -o $@.o
	$(CXX) -std=c++17 -I. $(OPT) -Wall -Wextra $(filter %.cc,$^) $@.o $(PEER_LIBS) -lgloo -o $@

install: all ## install to $(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(PROGRAMS) $(SCRIPTS) $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(LIB_SO) $(DESTDIR)$(PREFIX)/lib
	install -m 644 $(LIB_A) $(DESTDIR)$(PREFIX)/lib
	ln -sf libstretto.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libstretto.so.$(SOVERSION)
	ln -sf libstretto.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libstretto.so
	for h in $(PUBLIC_HEADERS); do \
		sed 's|#include "[a-z/]*/\(stretto[a-z_]*\.h\)"|#include "\1"|' $$h \
			> $(DESTDIR)$(PREFIX)/include/$$(basename $$h) || exit 1; \
	done
	printf 'prefix=%s\nName: stretto\nDescription: background collectives for HPC clusters\nVersion: %s\nLibs: -L$${prefix}/lib -lstretto\nLibs.private: %s -pthread\nCflags: -I$${prefix}/include\n' \
		'$(PREFIX)' '$(VERSION)' '$(LDLIBS)' > $(DESTDIR)$(PREFIX)/lib/pkgconfig/stretto.pc

clean: ## remove all that was built
	rm -rf build

# With what all is made: when that changes (a package has come or gone, other CFLAGS), objects are made anew.
FLAGS := $(CC) $(CFLAGS_ALL) $(TRAINER_CFLAGS) $(LDFLAGS_ALL) $(LDLIBS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || echo '$(subst ','\'',$(FLAGS))' > $@
FORCE:

$(SCRIPTS): $(BUILD)/%: tools/%
	@install -D -m 755 $< $@

# Nobody reads errno after a square root; with it, the compiler would not vectorise one.
$(BUILD)/trainer/optimizer.o: CFLAGS_ALL += -fno-math-errno

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(if $(filter trainer/% tools/stretto-train.c tests/unit/test_train% tests/multi/train%,$<),$(TRAINER_CFLAGS)) $(if $(filter docs/%,$<),-Icollectives -Itrainer) -c $< -o $@

$(LIB_A): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(LIB_SO): $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libstretto.so.$(SOVERSION) $(LDFLAGS_ALL) $^ $(LDLIBS) -o $@
	@ln -sf $(@F) $(BUILD)/libstretto.so.$(SOVERSION)
	@ln -sf libstretto.so.$(SOVERSION) $(BUILD)/libstretto.so

trainer_objects = $(if $(filter $(1),$(TRAINER_PROGRAMS:%=$(BUILD)/%)),$(TRAINER_OBJ))
trainer_libs = $(if $(filter $(1),$(TRAINER_PROGRAMS:%=$(BUILD)/%)),$(TRAINER_LIBS))

.SECONDEXPANSION:
$(PROGRAMS): $(BUILD)/%: $(BUILD)/tools/%.o $(TOOL_LIB_OBJ) $$(call trainer_objects,$$@) $(LIB_A)
	$(CC) $(LDFLAGS_ALL) $^ $(call trainer_libs,$@) $(LDLIBS) -o $@

# A test may replace the functions that a file beside it lists, a name a line: NAME becomes __wrap_NAME.
wraps = $(addprefix -Wl$(comma)--wrap=,$(shell cat $(1:$(BUILD)/%=%.wrap) 2>/dev/null))
comma := ,

$(TESTS): $(BUILD)/%: $(BUILD)/%.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/lib/*.c)) $(TOOL_LIB_OBJ) \
		$$(call trainer_objects,$$@) $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) $(call wraps,$@) $^ $(call trainer_libs,$@) $(shell $(PKG) --libs cmocka) $(LDLIBS) -o $@

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
