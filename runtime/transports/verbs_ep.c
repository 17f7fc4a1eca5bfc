/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_ep.c: endpoints and their queue pairs, from the first attributes to their end. See verbs.h. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

enum {
	RETRIES = 6,     /* of a packet that is not acknowledged; 7 is for ever on some devices */
	RNR_RETRIES = 6, /* of a message that finds no slot */
	RNR_TIMER = 12,  /* 0.64 ms between those */
	TIMEOUT_LEAST = 12, /* 17 ms: less fails links that are only busy */
	TIMEOUT_MOST = 31,
};

uint8_t verbs_timeout_code(double seconds)
{
	double code = round(log2(seconds / (RETRIES + 1) / 4.096e-6));

	if (code < TIMEOUT_LEAST)
		return TIMEOUT_LEAST;
	return code > TIMEOUT_MOST ? TIMEOUT_MOST : (uint8_t)code;
}

struct verbs_endpoint *verbs_find(const struct verbs_device *device, uint32_t qp_number)
{
	struct verbs_endpoint *endpoint = device->by_number[qp_number % VERBS_BUCKETS];

	while (endpoint && endpoint->qp->qp_num != qp_number)
		endpoint = endpoint->next_by_number;
	return endpoint;
}

struct verbs_endpoint *verbs_to(const struct verbs_device *device, int rank)
{
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		if (endpoint->base.peer == rank)
			return endpoint;
	}
	return NULL;
}

void verbs_make_hello(const struct verbs_device *device, const struct verbs_address *to,
		      enum verbs_purpose purpose, struct verbs_hello *hello)
{
	const struct stretto_device_env *env = device->base.env;

	*hello = (struct verbs_hello){
		.magic = VERBS_MAGIC,
		.version = VERBS_VERSION,
		.purpose = (uint16_t)purpose,
		.rank = env->rank,
		.channel = env->channel,
		.credits = VERBS_CREDITS,
		.epoch = device->epoch,
	};
	memcpy(hello->secret, to->secret, sizeof hello->secret);
}

int verbs_hello_fault(const struct verbs_device *device, const struct verbs_hello *hello)
{
	const struct stretto_device_env *env = device->base.env;
	unsigned difference = 0;

	/* without an early end, so that the time tells nothing of the secret */
	for (size_t i = 0; i < sizeof hello->secret; i++)
		difference |= (unsigned)(hello->secret[i] ^ device->address.secret[i]);
	if (hello->magic != VERBS_MAGIC || difference)
		return VERBS_STRANGER;
	if (hello->version != VERBS_VERSION || hello->credits != VERBS_CREDITS)
		return VERBS_OTHER_VERSION;
	if (hello->rank < 0 || hello->rank >= env->size || hello->rank == env->rank ||
	    hello->channel != env->channel)
		return VERBS_NO_SUCH_RANK;
	return 0;
}

static void number_queue(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_endpoint **bucket = &device->by_number[endpoint->qp->qp_num % VERBS_BUCKETS];

	endpoint->next_by_number = *bucket;
	*bucket = endpoint;
}

static void forget_number(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_endpoint **it = &device->by_number[endpoint->qp->qp_num % VERBS_BUCKETS];

	while (*it != endpoint)
		it = &(*it)->next_by_number;
	*it = endpoint->next_by_number;
}

void verbs_unmake_queue(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);

	if (!endpoint->qp)
		return;
	verbs_poll_completions(device); /* what is left of it finds its slots */
	forget_number(endpoint);
	ibv_destroy_qp(endpoint->qp);
	endpoint->qp = NULL;
	device->cq_wanted -= VERBS_SEND_DEPTH;
	device->slots_wanted -= VERBS_PER_ENDPOINT;
	if (endpoint->staged_mr)
		ibv_dereg_mr(endpoint->staged_mr);
	endpoint->staged_mr = NULL;
	free(endpoint->staged);
	endpoint->staged = NULL;
}

static bool make_staging(struct verbs_endpoint *endpoint)
{
	size_t stride = (sizeof(struct verbs_header) + endpoint->eager + 63) / 64 * 64;
	size_t bytes = (stride * VERBS_STAGED + 4095) / 4096 * 4096;

	endpoint->staged = aligned_alloc(4096, bytes);
	if (!endpoint->staged) {
		verbs_fail(endpoint, "no memory for messages");
		return false;
	}
	endpoint->staged_mr = verbs_reg_mr(verbs_device_at(endpoint), endpoint->staged, bytes, 0);
	if (!endpoint->staged_mr)
		verbs_fail(endpoint, "the memory for messages cannot be registered");
	return endpoint->staged_mr != NULL;
}

/* As much room for inline data as a header and a short payload need, or what the device has. */
static struct ibv_qp *create_queue(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct ibv_qp *qp = NULL;

	for (uint32_t inlined = 256; !qp; inlined /= 2) {
		struct ibv_qp_init_attr attributes = {
			.send_cq = device->cq,
			.recv_cq = device->cq,
			.srq = device->srq,
			.cap = {.max_send_wr = VERBS_SEND_DEPTH,
				.max_send_sge = 2,
				.max_inline_data = inlined >= 64 ? inlined : 0},
			.qp_type = IBV_QPT_RC,
		};

		qp = ibv_create_qp(device->pd, &attributes);
		endpoint->max_inline = attributes.cap.max_inline_data;
		if (inlined < 64)
			break;
	}
	return qp;
}

bool verbs_make_queue(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);

	if (!verbs_grow_queue(device)) {
		verbs_fail(endpoint, "the device has no longer completion queue");
		return false;
	}
	endpoint->qp = create_queue(endpoint);
	if (!endpoint->qp) {
		verbs_fail(endpoint, "ibv_create_qp: %s", strerror(errno));
		return false;
	}
	number_queue(endpoint);
	device->cq_wanted += VERBS_SEND_DEPTH;
	device->slots_wanted += VERBS_PER_ENDPOINT;
	verbs_refill(device);
	if (device->slots_posted < device->slots_wanted + device->announced) {
		verbs_fail(endpoint, "its messages find no slots: the shared receive queue of the "
				     "device is too short, or there is no memory for them");
		return false;
	}
	if (device->epoch == 0)
		verbs_spare_transfers(device); /* those of connections made anew are there */
	return make_staging(endpoint);
}

/* What the connection's maker does not know or shall not decide. */
static int our_attributes(const struct verbs_endpoint *endpoint, struct ibv_qp_attr *attributes)
{
	const struct stretto_config *config = endpoint->base.device->env->config;

	switch (attributes->qp_state) {
	case IBV_QPS_INIT:
		attributes->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
		return IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		attributes->min_rnr_timer = RNR_TIMER;
		attributes->max_dest_rd_atomic = 1;
		return IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC;
	default:
		attributes->timeout = verbs_timeout_code(config->verbs_retry_seconds);
		attributes->retry_cnt = RETRIES;
		attributes->rnr_retry = RNR_RETRIES;
		attributes->max_rd_atomic = 1;
		return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
}

bool verbs_move_queue(struct verbs_endpoint *endpoint, struct ibv_qp_attr *attributes, int mask)
{
	static const char *const names[] = {
		[IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS"};
	int error;

	mask |= our_attributes(endpoint, attributes);
	error = ibv_modify_qp(endpoint->qp, attributes, mask);
	if (error == 0)
		return true;
	verbs_fail(endpoint, "the queue pair cannot be moved to %s: %s",
		   names[attributes->qp_state], strerror(error));
	return false;
}

void verbs_established(struct verbs_endpoint *endpoint)
{
	if (endpoint->state != VERBS_CONNECTING)
		return;
	endpoint->state = VERBS_READY;
	endpoint->credits = VERBS_CREDITS;
	endpoint->received_since = endpoint->completed_since = stretto_now();
	verbs_device_at(endpoint)->connecting--;
	stretto_debug("verbs: queue pair %u is connected to rank %d on %s by %s port %u",
		      endpoint->qp->qp_num, endpoint->base.peer, endpoint->peer.host,
		      endpoint->peer.device, endpoint->peer.port);
	verbs_push(endpoint);
}

void verbs_hold(struct verbs_endpoint *endpoint, bool hold)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	if (endpoint->holds != hold)
		env->hold(env->context, hold ? 1 : -1);
	endpoint->holds = hold;
}

/* Shuts the peer out. */
static void stop_queue(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};

	if (endpoint->qp)
		ibv_modify_qp(endpoint->qp, &attributes, IBV_QP_STATE); /* flushes all of it */
}

/* What was seen, where, and what it may be. */
static void explain(const struct verbs_endpoint *endpoint, const char *what, char *why, size_t size)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	char gid[VERBS_IP_TEXT], to[VERBS_IP_TEXT];

	snprintf(why, size,
		 "%s (here %s port %u, GID %s, queue pair %u; there %s, %s port %u, %s). Usual "
		 "causes: "
		 "its process or node has ended, the link between is down, or an address of either "
		 "device has changed",
		 what, device->port.device, device->port.number, verbs_gid_text(endpoint, gid),
		 endpoint->qp ? endpoint->qp->qp_num : 0, endpoint->peer.host,
		 endpoint->peer.device, endpoint->peer.port, verbs_ip_text(&endpoint->to, to));
}

void verbs_lose(struct verbs_endpoint *endpoint, const char *format, ...)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	char what[160], why[700];
	va_list arguments;

	if (endpoint->state == VERBS_FAILED || endpoint->state == VERBS_LOST)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	explain(endpoint, what, why, sizeof why);
	if (endpoint->state != VERBS_READY || !env->epoch ||
	    !env->lost(env->context, endpoint->base.peer, verbs_device_at(endpoint)->epoch, why)) {
		verbs_fail(endpoint, "%s", what);
		return;
	}
	endpoint->state = VERBS_LOST;
	stop_queue(endpoint);
}

void verbs_fail(struct verbs_endpoint *endpoint, const char *format, ...)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct verbs_device *device = verbs_device_at(endpoint);
	char what[160], why[700];
	va_list arguments;

	if (endpoint->state == VERBS_FAILED)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	if (endpoint->state == VERBS_CONNECTING)
		device->connecting--;
	endpoint->state = VERBS_FAILED;
	endpoint->ended = stretto_now();
	stop_queue(endpoint);
	verbs_way_of(device)->part(endpoint);
	verbs_forget(endpoint, false);
	verbs_hold(endpoint, false);
	explain(endpoint, what, why, sizeof why);
	env->failed(env->context, endpoint->base.peer, why);
}

bool verbs_needs_ips(const struct verbs_device *device)
{
	return !device->address.oob || verbs_is_roce(device->context, &device->port);
}

bool verbs_pair_with(const struct verbs_device *device, int peer,
		     const struct verbs_address *address, struct verbs_pair *pair)
{
	const struct verbs_ips *ours = &device->address.ips, *theirs = &address->ips;
	bool lower = device->base.env->rank < peer;

	return verbs_choose_pair(lower ? ours : theirs, lower ? theirs : ours, pair);
}

/* Chooses the addresses of the connection. false: none go together. */
static bool take_pair(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	char from[VERBS_IP_TEXT], to[VERBS_IP_TEXT];
	bool lower = device->base.env->rank < endpoint->base.peer;
	struct verbs_pair pair;
	size_t own, other;

	if (!verbs_pair_with(device, endpoint->base.peer, &endpoint->peer, &pair))
		return false;
	own = lower ? pair.lower : pair.higher;
	other = lower ? pair.higher : pair.lower;
	endpoint->from = device->address.ips.ip[own];
	endpoint->to = endpoint->peer.ips.ip[other];
	stretto_debug("verbs: to rank %d from %s to %s of %s: %s", endpoint->base.peer,
		      verbs_ip_text(&endpoint->from, from), verbs_ip_text(&endpoint->to, to),
		      endpoint->peer.host, pair.why);
	return true;
}

/* The blob has been checked by reaches(), but its texts may lack their ends. */
static bool take_address(struct verbs_endpoint *endpoint, const void *blob)
{
	const struct verbs_device *device = verbs_device_at(endpoint);

	memcpy(&endpoint->peer, blob, sizeof endpoint->peer);
	endpoint->peer.device[sizeof endpoint->peer.device - 1] = '\0';
	endpoint->peer.host[sizeof endpoint->peer.host - 1] = '\0';
	endpoint->eager = device->address.eager < endpoint->peer.eager ? device->address.eager
								       : endpoint->peer.eager;
	return !verbs_needs_ips(device) || take_pair(endpoint);
}

stretto_status verbs_connect(struct stretto_device *base, int peer, const void *blob, size_t bytes,
			     struct stretto_endpoint **out)
{
	struct verbs_device *device = verbs_device_of(base);
	struct verbs_endpoint *endpoint;

	if (bytes != sizeof endpoint->peer)
		return STRETTO_INTERNAL;
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return STRETTO_NO_MEMORY;
	endpoint->base.transport = &stretto_transport_verbs;
	endpoint->base.device = base;
	endpoint->base.peer = peer;
	if (!take_address(endpoint, blob)) {
		free(endpoint);
		return STRETTO_INTERNAL;
	}
	endpoint->started = stretto_now();
	endpoint->step_deadline = STRETTO_NEVER;
	stretto_match_init(&endpoint->match);
	struct stretto_list *lists[] = {&endpoint->unannounced, &endpoint->announced,
					&endpoint->cleared,     &endpoint->waiting,
					&endpoint->ready,       &endpoint->writing,
					&endpoint->queued};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		stretto_list_init(lists[i]);
	stretto_list_append(&device->endpoints, &endpoint->link);
	device->connecting++;
	*out = &endpoint->base;
	/* soon: not now, since a failure would be told before the caller has the endpoint */
	device->next_tick = 0;
	return STRETTO_OK;
}

void verbs_disconnect(struct stretto_endpoint *base)
{
	struct verbs_endpoint *endpoint = verbs_endpoint_of(base);
	struct verbs_device *device = verbs_device_at(endpoint);

	if (endpoint->state == VERBS_CONNECTING)
		device->connecting--;
	if (endpoint->state != VERBS_FAILED)
		verbs_way_of(device)->part(endpoint);
	verbs_unmake_queue(endpoint);
	verbs_forget(endpoint, true);
	verbs_hold(endpoint, false);
	stretto_match_fini(&endpoint->match);
	stretto_list_remove(&endpoint->link);
	free(endpoint);
}
