/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.c: the list of transports. */
#include "runtime/transport.h"

const struct stretto_transport *const stretto_transports[] = {
	&stretto_transport_self,
	&stretto_transport_shm,
#ifdef STRETTO_HAVE_VERBS
	&stretto_transport_verbs,
#endif
#ifdef STRETTO_HAVE_UCX
	&stretto_transport_ucx,
#endif
	NULL,
};
