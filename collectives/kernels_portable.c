/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/kernels_loops.h"
