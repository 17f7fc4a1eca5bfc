/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_cm.c: connections by librdmacm.
 *
 * The lower rank of a pair calls: it resolves the address and the route of the higher one and
 * connects, with its hello as private data. The higher rank answers once it has an endpoint of its
 * own; until then the call waits as a visitor. If the higher rank comes first, it knocks: a call that
 * is only to be rejected, and that makes the lower rank call. So two ranks that come at the same time
 * get one connection.
 *
 *   lower                                  higher
 *   hello (CALL) ------------------------> visitor; queue pair INIT, RTR, RTS
 *   queue pair RTR, RTS <----------------- hello
 *   ready ------------------------- RTU -> ready
 *
 * The queue pairs are ours, librdmacm only carries the numbers and knows the attributes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

enum { BACKLOG = 256, EVENTS = 16 };
/* Statuses of a rejection, as the InfiniBand specification numbers them. */
enum { NO_LISTENER = 8, STALE_CONNECTION = 10 };
/* After so long without a call a knock is made again: the lower rank may have died meanwhile. */
#define KNOCK_SECONDS 2.0
/* Of connections that are made anew: when a call without answer is made again. */
#define CALL_SECONDS 2.0

/* What is kept of an event once it is acknowledged. */
struct heard {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	size_t bytes; /* of data */
	union {
		struct verbs_hello hello;
		struct verbs_refusal refusal;
	} data;
};

static stretto_status cannot(const struct verbs_device *device, const char *call)
{
	stretto_error("verbs: %s on %s: %s", call, device->port.device, strerror(errno));
	return STRETTO_SYSTEM;
}

/* Listens at one of our addresses, at a port number of its own. */
static stretto_status listen_at(struct verbs_device *device, size_t index)
{
	struct rdma_cm_id **id = &device->listeners[index];
	struct verbs_ip *ip = &device->address.ips.ip[index];
	struct sockaddr_storage address;

	verbs_sockaddr_of(ip, &address);
	if (rdma_create_id(device->cm, id, NULL, RDMA_PS_TCP) != 0)
		return cannot(device, "rdma_create_id");
	if (rdma_bind_addr(*id, (struct sockaddr *)(void *)&address) != 0)
		return cannot(device, "rdma_bind_addr");
	if (rdma_listen(*id, BACKLOG) != 0)
		return cannot(device, "rdma_listen");
	ip->cm_port = rdma_get_src_port(*id);
	return STRETTO_OK;
}

static stretto_status cm_open(struct verbs_device *device)
{
	const struct stretto_device_env *env = device->base.env;
	int flags;

	device->cm = rdma_create_event_channel();
	if (!device->cm)
		return cannot(device, "rdma_create_event_channel (is rdma_ucm loaded?)");
	flags = fcntl(device->cm->fd, F_GETFL);
	if (flags < 0 || fcntl(device->cm->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return cannot(device, "fcntl");
	for (size_t i = 0; i < device->address.ips.count; i++) {
		stretto_status status = listen_at(device, i);

		if (status != STRETTO_OK)
			return status;
	}
	return env->watch(env->context, device->cm->fd);
}

static void drop_visitor(struct verbs_visitor *visitor)
{
	stretto_list_remove(&visitor->link);
	if (visitor->id)
		rdma_destroy_id(visitor->id);
	free(visitor);
}

static void cm_close(struct verbs_device *device)
{
	STRETTO_LIST_FOR_SAFE (it, &device->visitors)
		drop_visitor(stretto_container_of(it, struct verbs_visitor, link));
	for (size_t i = 0; i < VERBS_IPS; i++)
		if (device->listeners[i])
			rdma_destroy_id(device->listeners[i]);
	if (!device->cm)
		return;
	device->base.env->unwatch(device->base.env->context, device->cm->fd);
	rdma_destroy_event_channel(device->cm);
}

static void end_id(struct rdma_cm_id **id)
{
	if (*id)
		rdma_destroy_id(*id);
	*id = NULL;
}

static void cm_part(struct verbs_endpoint *endpoint)
{
	if (endpoint->id && endpoint->up)
		rdma_disconnect(endpoint->id);
	end_id(&endpoint->id);
	end_id(&endpoint->knock);
	endpoint->step = VERBS_IDLE;
}

/* What librdmacm has to say of an end may not be sent while the port is down. */
static void cm_drop(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);

	verbs_keep_old(device, endpoint->id);
	verbs_keep_old(device, endpoint->knock);
	endpoint->id = endpoint->knock = NULL;
	endpoint->knocked = false;
	endpoint->step = VERBS_IDLE;
	endpoint->step_deadline = STRETTO_NEVER;
	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct verbs_visitor *visitor =
			stretto_container_of(it, struct verbs_visitor, link);

		if (visitor->hello.epoch == device->epoch)
			continue;
		verbs_keep_old(device, visitor->id);
		visitor->id = NULL;
		drop_visitor(visitor);
	}
}

static bool is_caller(const struct verbs_endpoint *endpoint)
{
	return endpoint->base.device->env->rank < endpoint->base.peer;
}

/* The id that a call or a knock is made with. */
static struct rdma_cm_id **line_of(struct verbs_endpoint *endpoint)
{
	return is_caller(endpoint) ? &endpoint->id : &endpoint->knock;
}

static void set_step(struct verbs_endpoint *endpoint, enum verbs_step step)
{
	double seconds = endpoint->base.device->env->config->verbs_connect_seconds;

	endpoint->step = step;
	endpoint->step_deadline = stretto_after(stretto_now(), seconds);
}

static int step_ms(const struct verbs_endpoint *endpoint)
{
	return (int)(endpoint->base.device->env->config->verbs_connect_seconds * 1e3);
}

/* Starts to resolve the peer's address. */
static void start(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct rdma_cm_id **id = line_of(endpoint);
	struct verbs_ip own = endpoint->from;
	struct sockaddr_storage from, to;

	own.cm_port = 0; /* any but the listener's */
	verbs_sockaddr_of(&own, &from);
	verbs_sockaddr_of(&endpoint->to, &to);
	if (endpoint->step == VERBS_RETRY)
		endpoint->step = VERBS_ADDRESS; /* the deadline stays */
	else
		set_step(endpoint, VERBS_ADDRESS);
	if (rdma_create_id(device->cm, id, NULL, RDMA_PS_TCP) != 0) {
		verbs_fail(endpoint, "rdma_create_id: %s", strerror(errno));
		return;
	}
	if (rdma_resolve_addr(*id, (struct sockaddr *)(void *)&from, (struct sockaddr *)(void *)&to,
			      step_ms(endpoint)) != 0)
		verbs_fail(endpoint, "rdma_resolve_addr: %s", strerror(errno));
}

/*
 * The other side takes a call with the queue pair's number of an earlier one for that one's leftover.
 * So knocks have random ones, of the upper numbers, which devices give last.
 */
static uint32_t knock_number(const struct verbs_endpoint *endpoint)
{
	uint32_t number = (uint32_t)endpoint->base.peer;

	if (getrandom(&number, sizeof number, 0) < 0)
		number ^= (uint32_t)stretto_now();
	return 0xc00000 | (number & 0x3fffff);
}

static struct rdma_conn_param parameters(const struct verbs_endpoint *endpoint, const void *data,
					 size_t bytes)
{
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = (uint8_t)bytes,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.rnr_retry_count = 6,
		.srq = 1,
		.qp_num = endpoint->qp ? endpoint->qp->qp_num : knock_number(endpoint),
	};
}

/* Moves the queue pair on by what librdmacm knows of the connection. */
static bool move(struct verbs_endpoint *endpoint, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = {.qp_state = state};
	int mask = 0;

	if (rdma_init_qp_attr(endpoint->id, &attributes, &mask) == 0)
		return verbs_move_queue(endpoint, &attributes, mask);
	verbs_fail(endpoint, "rdma_init_qp_attr: %s", strerror(errno));
	return false;
}

static bool bring_up(struct verbs_endpoint *endpoint)
{
	if (!move(endpoint, IBV_QPS_RTR) || !move(endpoint, IBV_QPS_RTS))
		return false;
	endpoint->up = true;
	return true;
}

static void call(struct verbs_endpoint *endpoint)
{
	struct verbs_hello hello;
	struct rdma_conn_param param;

	if (is_caller(endpoint) && !endpoint->qp &&
	    (!verbs_make_queue(endpoint) || !move(endpoint, IBV_QPS_INIT)))
		return;
	verbs_make_hello(verbs_device_at(endpoint), &endpoint->peer,
			 is_caller(endpoint) ? VERBS_CALL : VERBS_KNOCK, &hello);
	param = parameters(endpoint, &hello, sizeof hello);
	set_step(endpoint, VERBS_CALLED);
	endpoint->called = stretto_now();
	if (rdma_connect(*line_of(endpoint), &param) != 0)
		verbs_fail(endpoint, "rdma_connect: %s", strerror(errno));
}

static void refuse(const struct verbs_device *device, struct rdma_cm_id *id,
		   enum verbs_reason reason)
{
	struct verbs_refusal refusal = {VERBS_MAGIC, reason, device->epoch};

	rdma_reject(id, &refusal, sizeof refusal);
	rdma_destroy_id(id);
}

/* The higher rank's part: answers the lower one's call. */
static void answer(struct verbs_endpoint *endpoint, struct verbs_visitor *visitor)
{
	struct verbs_hello hello;
	struct rdma_conn_param param;

	end_id(&endpoint->knock);
	endpoint->id = visitor->id;
	visitor->id = NULL;
	if (!verbs_make_queue(endpoint) || !move(endpoint, IBV_QPS_INIT) || !bring_up(endpoint))
		return;
	verbs_make_hello(verbs_device_at(endpoint), &endpoint->peer, VERBS_CALL, &hello);
	param = parameters(endpoint, &hello, sizeof hello);
	set_step(endpoint, VERBS_ACCEPTED);
	if (rdma_accept(endpoint->id, &param) != 0)
		verbs_fail(endpoint, "rdma_accept: %s", strerror(errno));
}

/* Gives the endpoint its visitor, if it is there. */
static void meet(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);

	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct verbs_visitor *visitor =
			stretto_container_of(it, struct verbs_visitor, link);

		if (visitor->hello.rank != endpoint->base.peer)
			continue;
		answer(endpoint, visitor);
		drop_visitor(visitor);
		return;
	}
}

static void visit(struct verbs_device *device, const struct heard *heard)
{
	const struct stretto_device_env *env = device->base.env;
	const struct verbs_hello *hello = &heard->data.hello;
	struct verbs_visitor *visitor;
	struct verbs_endpoint *endpoint;
	int fault =
		heard->bytes < sizeof *hello ? VERBS_STRANGER : verbs_hello_fault(device, hello);

	if (fault) {
		stretto_warn("verbs: refused a connection: %s",
			     fault == VERBS_STRANGER ? "not of this job"
			     : fault == VERBS_OTHER_VERSION
				     ? "another version of the library"
				     : "a rank or channel that does not exist");
		refuse(device, heard->id, (enum verbs_reason)fault);
		return;
	}
	if (!verbs_same_epoch(device, hello)) {
		refuse(device, heard->id, VERBS_OTHER_EPOCH);
		return;
	}
	if (hello->purpose == VERBS_KNOCK) {
		refuse(device, heard->id, VERBS_KNOCK_HEARD);
		env->wanted(env->context, hello->rank);
		return;
	}
	endpoint = verbs_to(device, hello->rank);
	if (endpoint && endpoint->id && endpoint->state == VERBS_CONNECTING && device->epoch > 0)
		verbs_begin_again(endpoint); /* its first call was answered too late */
	if (endpoint && (endpoint->id || endpoint->state == VERBS_FAILED)) {
		refuse(device, heard->id, endpoint->id ? VERBS_CALLED_TWICE : VERBS_GIVEN_UP);
		return;
	}
	visitor = calloc(1, sizeof *visitor);
	if (!visitor) {
		refuse(device, heard->id, VERBS_NO_RESOURCES);
		return;
	}
	visitor->id = heard->id;
	visitor->hello = *hello;
	stretto_list_append(&device->visitors, &visitor->link);
	if (!endpoint)
		env->wanted(env->context, hello->rank);
	endpoint = verbs_to(device, hello->rank);
	if (endpoint && endpoint->state == VERBS_CONNECTING)
		meet(endpoint);
}

/* The higher rank has answered our call. */
static void hear_answer(struct verbs_endpoint *endpoint, const struct heard *heard)
{
	if (heard->bytes < sizeof heard->data.hello ||
	    verbs_hello_fault(verbs_device_at(endpoint), &heard->data.hello) ||
	    heard->data.hello.rank != endpoint->base.peer) {
		verbs_fail(endpoint, "its answer is not of this job or version");
		return;
	}
	if (!bring_up(endpoint))
		return;
	if (rdma_establish(endpoint->id) != 0)
		verbs_fail(endpoint, "rdma_establish: %s", strerror(errno));
	else
		verbs_established(endpoint);
}

static void hear_refusal(struct verbs_endpoint *endpoint, const struct heard *heard)
{
	static const char *const reasons[] = {
		[VERBS_STRANGER] = "it says that we are of another job",
		[VERBS_OTHER_VERSION] = "it has another version of the library",
		[VERBS_NO_SUCH_RANK] = "it has no such rank or channel",
		[VERBS_CALLED_TWICE] = "it is connected to already",
		[VERBS_GIVEN_UP] = "it has given up this connection: see its log",
		[VERBS_NO_RESOURCES] = "it is out of resources: see its log",
	};
	const struct stretto_device_env *env = endpoint->base.device->env;
	const struct verbs_refusal *refusal = &heard->data.refusal;
	uint32_t reason = heard->bytes >= sizeof *refusal && refusal->magic == VERBS_MAGIC
				  ? refusal->reason
				  : 0;

	/* the higher rank's, which was called again meanwhile */
	if (heard->id == endpoint->id && !is_caller(endpoint)) {
		verbs_begin_again(endpoint);
		return;
	}
	end_id(line_of(endpoint));
	if (heard->status == STALE_CONNECTION) {
		verbs_unmake_queue(endpoint); /* another try with another number */
		endpoint->step = VERBS_IDLE;
		endpoint->knocked = false;
	} else if (reason == VERBS_KNOCK_HEARD && !is_caller(endpoint)) {
		endpoint->knocked = true;
		endpoint->step = VERBS_IDLE;
		endpoint->step_deadline = stretto_after(stretto_now(), KNOCK_SECONDS);
	} else if (reason == VERBS_OTHER_EPOCH) {
		if (env->epoch && refusal->epoch > verbs_device_at(endpoint)->epoch)
			env->renewed(env->context, endpoint->base.peer, refusal->epoch);
		verbs_begin_again(endpoint);
	} else if (reason > VERBS_KNOCK_HEARD && reason <= VERBS_NO_RESOURCES) {
		verbs_fail(endpoint, "connection refused: %s", reasons[reason]);
	} else {
		verbs_fail(endpoint, "connection refused (status %d%s)", heard->status,
			   heard->status == NO_LISTENER ? ", nobody listens there" : "");
	}
}

/*
 * The kernel gave up. What does not resolve may do so until the deadline; a peer that does not answer
 * may not be in a call of the library, and the operation's deadline is the one that counts.
 */
static void try_again(struct verbs_endpoint *endpoint, const struct heard *heard)
{
	bool resolved = heard->type == RDMA_CM_EVENT_UNREACHABLE ||
			heard->type == RDMA_CM_EVENT_CONNECT_ERROR;

	end_id(line_of(endpoint));
	endpoint->step = resolved ? VERBS_IDLE : VERBS_RETRY;
	endpoint->knocked = false;
	if (!endpoint->warned)
		stretto_info("verbs: connecting to rank %d: %s (status %d); trying again",
			     endpoint->base.peer, rdma_event_str(heard->type), heard->status);
	endpoint->warned = true;
}

static void resolve_route(struct verbs_endpoint *endpoint)
{
	set_step(endpoint, VERBS_ROUTE);
	if (rdma_resolve_route(*line_of(endpoint), step_ms(endpoint)) != 0)
		verbs_fail(endpoint, "rdma_resolve_route: %s", strerror(errno));
}

static void hear(struct verbs_endpoint *endpoint, const struct heard *heard)
{
	switch (heard->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		resolve_route(endpoint);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		call(endpoint);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		hear_answer(endpoint, heard);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		verbs_established(endpoint);
		break;
	case RDMA_CM_EVENT_REJECTED:
		hear_refusal(endpoint, heard);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (is_caller(endpoint) || heard->id == endpoint->knock)
			try_again(endpoint, heard);
		else if (verbs_device_at(endpoint)->epoch > 0)
			verbs_begin_again(endpoint);
		else
			verbs_fail(endpoint, "%s", rdma_event_str(heard->type));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* what it sent before counts, and why it left may be in what we sent */
		while (verbs_poll_completions(verbs_device_at(endpoint)) > 0)
			;
		verbs_lose(endpoint, "it disconnected");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_fail(endpoint, "the device was removed");
		break;
	default:
		break; /* TIMEWAIT_EXIT and others need nothing */
	}
}

static struct verbs_endpoint *whose(const struct verbs_device *device, const struct rdma_cm_id *id)
{
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		if (endpoint->id == id || endpoint->knock == id)
			return endpoint;
	}
	return NULL;
}

/* A visitor that gives up before we answered. */
static void hear_visitor(struct verbs_device *device, const struct heard *heard)
{
	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct verbs_visitor *visitor =
			stretto_container_of(it, struct verbs_visitor, link);

		if (visitor->id == heard->id)
			drop_visitor(visitor);
	}
}

static bool next(struct verbs_device *device, struct heard *heard)
{
	struct rdma_cm_event *event;

	if (!device->cm || rdma_get_cm_event(device->cm, &event) != 0)
		return false;
	*heard = (struct heard){
		.type = event->event,
		.id = event->id,
		.status = event->status,
		.bytes = event->param.conn.private_data ? event->param.conn.private_data_len : 0,
	};
	if (heard->bytes > sizeof heard->data)
		heard->bytes = sizeof heard->data;
	if (heard->bytes)
		memcpy(&heard->data, event->param.conn.private_data, heard->bytes);
	rdma_ack_cm_event(event); /* before an id is destroyed, which waits for that */
	return true;
}

static size_t cm_events(struct verbs_device *device)
{
	struct heard heard;
	size_t count = 0;

	for (; count < EVENTS && next(device, &heard); count++) {
		struct verbs_endpoint *endpoint = whose(device, heard.id);

		if (heard.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			visit(device, &heard);
		else if (!endpoint)
			hear_visitor(device, &heard);
		else if (endpoint->state < VERBS_LOST)
			hear(endpoint, &heard);
	}
	return count;
}

static void cm_go_on(struct verbs_endpoint *endpoint, uint64_t now)
{
	static const char *const steps[] = {[VERBS_ADDRESS] = "resolving its address",
					    [VERBS_ROUTE] = "resolving the route to it",
					    [VERBS_RETRY] = "reaching it"};

	if (!is_caller(endpoint) && !endpoint->id)
		meet(endpoint);
	if (endpoint->state != VERBS_CONNECTING)
		return;
	if (now >= endpoint->step_deadline && endpoint->step != VERBS_CALLED &&
	    endpoint->step != VERBS_ACCEPTED && endpoint->step != VERBS_IDLE) {
		verbs_fail(endpoint, "%s took longer than STRETTO_VERBS_CONNECT_SECONDS=%g",
			   steps[endpoint->step],
			   endpoint->base.device->env->config->verbs_connect_seconds);
		return;
	}
	/* the kernel repeats a call that is lost after six seconds only */
	if (endpoint->step == VERBS_CALLED && verbs_device_at(endpoint)->epoch > 0 &&
	    now >= stretto_after(endpoint->called, CALL_SECONDS)) {
		verbs_begin_again(endpoint);
		return;
	}
	if (endpoint->step == VERBS_IDLE && now >= endpoint->step_deadline)
		endpoint->knocked = false;
	else if (now >= endpoint->step_deadline && !endpoint->warned) {
		stretto_warn(
			"verbs: rank %d on %s does not answer; is it in a call of the library?",
			endpoint->base.peer, endpoint->peer.host);
		endpoint->warned = true;
	}
	if ((endpoint->step == VERBS_IDLE && (is_caller(endpoint) || !endpoint->knocked) &&
	     !endpoint->id && !endpoint->knock) ||
	    endpoint->step == VERBS_RETRY)
		start(endpoint);
}

const struct verbs_way verbs_cm = {
	.open = cm_open,
	.close = cm_close,
	.go_on = cm_go_on,
	.events = cm_events,
	.part = cm_part,
	.drop = cm_drop,
};
