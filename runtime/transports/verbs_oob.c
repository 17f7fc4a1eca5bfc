/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_oob.c: connections without librdmacm, and without IP addresses.
 *
 * Each device has a datagram queue pair, its mailbox, whose number, GID and LID the bootstrap told
 * everybody. Both ranks of a pair make their queue pair and write letters with its number until they
 * are answered; whoever has the other's number brings its queue pair up. Letters may be lost, come
 * twice, and cross:
 *
 *   CALL    here is my number; is yours up?
 *   ANSWER  mine is up; here is its number
 *   PART    mine is no more
 *
 * An endpoint is ready when its queue pair is up and an ANSWER, or a message, has come: then so is
 * the other's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

enum {
	LETTERS = 64,      /* that can wait to be read */
	GRH = 40,          /* bytes before each */
	QKEY = 0x53740001, /* of all mailboxes; the secret is in the letter */
	HOPS = 64,
};

struct slip {
	char grh[GRH];
	struct verbs_letter letter;
};

struct verbs_mailbox {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct slip in[LETTERS];
	struct verbs_letter out[LETTERS];
	unsigned sent, known; /* letters posted, and of them over */
	unsigned events;
};
_Static_assert(sizeof(struct slip) == GRH + sizeof(struct verbs_letter), "no padding between them");

static stretto_status cannot(const struct verbs_device *device, const char *call)
{
	stretto_error("verbs: the mailbox on %s: %s: %s", device->port.device, call,
		      strerror(errno));
	return errno == ENOMEM ? STRETTO_NO_MEMORY : STRETTO_SYSTEM;
}

static int wait_for_letter(struct verbs_mailbox *mailbox, size_t index)
{
	struct ibv_sge piece = {(uintptr_t)&mailbox->in[index], sizeof(struct slip),
				mailbox->mr->lkey};
	struct ibv_recv_wr request = {.wr_id = index, .sg_list = &piece, .num_sge = 1}, *bad;

	return ibv_post_recv(mailbox->qp, &request, &bad);
}

static int bring_up_mailbox(struct verbs_device *device)
{
	struct verbs_mailbox *mailbox = device->mailbox;
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = device->port.number, .qkey = QKEY};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	int error = ibv_modify_qp(mailbox->qp, &init,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (!error)
		error = ibv_modify_qp(mailbox->qp, &rtr, IBV_QP_STATE);
	if (!error)
		error = ibv_modify_qp(mailbox->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
	for (size_t i = 0; i < LETTERS && !error; i++)
		error = wait_for_letter(mailbox, i);
	return error;
}

static stretto_status oob_open(struct verbs_device *device)
{
	struct verbs_mailbox *mailbox = calloc(1, sizeof *mailbox);
	struct ibv_qp_init_attr attributes = {
		.cap = {.max_send_wr = LETTERS,
			.max_recv_wr = LETTERS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	if (!mailbox)
		return STRETTO_NO_MEMORY;
	device->mailbox = mailbox;
	mailbox->mr = verbs_reg_mr(device, mailbox, sizeof *mailbox, IBV_ACCESS_LOCAL_WRITE);
	if (!mailbox->mr)
		return STRETTO_NO_MEMORY;
	mailbox->cq = ibv_create_cq(device->context, 4 * LETTERS, mailbox, device->completions, 0);
	if (!mailbox->cq)
		return cannot(device, "ibv_create_cq");
	attributes.send_cq = attributes.recv_cq = mailbox->cq;
	mailbox->qp = ibv_create_qp(device->pd, &attributes);
	if (!mailbox->qp)
		return cannot(device, "ibv_create_qp");
	errno = bring_up_mailbox(device);
	if (errno)
		return cannot(device, "ibv_modify_qp");
	device->address.mailbox = mailbox->qp->qp_num;
	return STRETTO_OK;
}

static void oob_close(struct verbs_device *device)
{
	struct verbs_mailbox *mailbox = device->mailbox;

	if (!mailbox)
		return;
	if (mailbox->qp)
		ibv_destroy_qp(mailbox->qp);
	if (mailbox->cq) {
		ibv_ack_cq_events(mailbox->cq, mailbox->events);
		ibv_destroy_cq(mailbox->cq);
	}
	if (mailbox->mr)
		ibv_dereg_mr(mailbox->mr);
	free(mailbox);
}

void verbs_oob_event(struct verbs_device *device)
{
	device->mailbox->events++;
}

void verbs_oob_arm(struct verbs_device *device)
{
	ibv_req_notify_cq(device->mailbox->cq, 0);
}

/* How packets get to the peer. false: our address is gone, and the endpoint has failed. */
static bool way_to(struct verbs_endpoint *endpoint, struct ibv_ah_attr *way)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	union ibv_gid own = verbs_gid_of(&endpoint->from), peer = verbs_gid_of(&endpoint->to);
	char text[VERBS_IP_TEXT];
	uint32_t index;

	*way = (struct ibv_ah_attr){.dlid = endpoint->peer.lid, .port_num = device->port.number};
	if (!verbs_needs_ips(device))
		return true;
	if (!verbs_find_gid(device->context, &device->port, &own, &index)) {
		verbs_fail(endpoint, "%s is no longer an address of the port",
			   verbs_ip_text(&endpoint->from, text));
		return false;
	}
	way->is_global = 1;
	way->grh.dgid = peer;
	way->grh.sgid_index = (uint8_t)index;
	way->grh.hop_limit = HOPS;
	return true;
}

/* Writes to the peer, if there is room; a letter that is lost is written again. */
static void write_letter(struct verbs_endpoint *endpoint, enum verbs_purpose purpose)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_mailbox *mailbox = device->mailbox;
	struct verbs_letter *letter = &mailbox->out[mailbox->sent % LETTERS];
	struct ibv_ah_attr way;
	struct ibv_sge piece = {(uintptr_t)letter, sizeof *letter, mailbox->mr->lkey};
	struct ibv_send_wr request = {.wr_id = LETTERS,
				      .sg_list = &piece,
				      .num_sge = 1,
				      .opcode = IBV_WR_SEND},
			   *bad;

	if (!endpoint->ah && way_to(endpoint, &way))
		endpoint->ah = ibv_create_ah(device->pd, &way);
	if (!endpoint->ah || mailbox->sent - mailbox->known == LETTERS)
		return;
	verbs_make_hello(device, &endpoint->peer, purpose, &letter->hello);
	letter->number = endpoint->qp->qp_num;
	letter->psn = endpoint->psn;
	request.wr.ud.ah = endpoint->ah;
	request.wr.ud.remote_qpn = endpoint->peer.mailbox;
	request.wr.ud.remote_qkey = QKEY;
	if (ibv_post_send(mailbox->qp, &request, &bad) == 0)
		mailbox->sent++;
}

static bool begin(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = device->port.number};

	if (getrandom(&endpoint->psn, sizeof endpoint->psn, 0) < 0)
		endpoint->psn = 1;
	endpoint->psn &= 0xffffff;
	return verbs_make_queue(endpoint) &&
	       verbs_move_queue(endpoint, &attributes,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
}

static bool bring_up(struct verbs_endpoint *endpoint, const struct verbs_letter *letter)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	uint8_t mtu = device->port.mtu < endpoint->peer.mtu ? device->port.mtu : endpoint->peer.mtu;
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = (enum ibv_mtu)mtu,
				  .dest_qp_num = letter->number,
				  .rq_psn = letter->psn};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = endpoint->psn};

	endpoint->peer_number = letter->number;
	if (!way_to(endpoint, &rtr.ah_attr))
		return false;
	endpoint->up = verbs_move_queue(endpoint, &rtr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) &&
		       verbs_move_queue(endpoint, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return endpoint->up;
}

static void read_letter(struct verbs_device *device, const struct verbs_letter *letter)
{
	const struct stretto_device_env *env = device->base.env;
	struct verbs_endpoint *endpoint;

	if (verbs_hello_fault(device, &letter->hello)) {
		stretto_warn("verbs: ignored a letter that is not of this job");
		return;
	}
	endpoint = verbs_to(device, letter->hello.rank);
	if (!endpoint && letter->hello.purpose == VERBS_CALL) {
		env->wanted(env->context, letter->hello.rank);
		endpoint = verbs_to(device, letter->hello.rank);
	}
	if (!verbs_same_epoch(device, &letter->hello))
		return; /* it is written again */
	if (!endpoint || endpoint->state >= VERBS_LOST)
		return;
	if (letter->hello.purpose == VERBS_PART) {
		verbs_poll_completions(device); /* what it sent before counts */
		if (letter->number == endpoint->peer_number)
			verbs_lose(endpoint, "it disconnected");
		return;
	}
	if (!endpoint->qp && !begin(endpoint))
		return;
	if (!endpoint->up && !bring_up(endpoint, letter))
		return;
	if (letter->number != endpoint->peer_number)
		return; /* an old one */
	if (letter->hello.purpose == VERBS_CALL)
		write_letter(endpoint, VERBS_ANSWER);
	else
		verbs_established(endpoint);
}

static size_t oob_events(struct verbs_device *device)
{
	struct verbs_mailbox *mailbox = device->mailbox;
	struct ibv_wc completion;
	size_t count = 0;

	for (; count < LETTERS && ibv_poll_cq(mailbox->cq, 1, &completion) == 1; count++) {
		size_t index = (size_t)completion.wr_id;

		if (index >= LETTERS) {
			mailbox->known++;
			continue;
		}
		if (completion.status == IBV_WC_SUCCESS &&
		    completion.byte_len == sizeof(struct slip))
			read_letter(device, &mailbox->in[index].letter);
		if (completion.status != IBV_WC_WR_FLUSH_ERR)
			wait_for_letter(mailbox, index);
	}
	return count;
}

static void oob_go_on(struct verbs_endpoint *endpoint, uint64_t now)
{
	double seconds = endpoint->base.device->env->config->verbs_connect_seconds;

	if (!endpoint->qp && !begin(endpoint))
		return;
	write_letter(endpoint, VERBS_CALL);
	if (endpoint->warned || now < stretto_after(endpoint->started, seconds))
		return;
	stretto_warn("verbs: rank %d on %s does not answer; is it in a call of the library?",
		     endpoint->base.peer, endpoint->peer.host);
	endpoint->warned = true;
}

static void oob_part(struct verbs_endpoint *endpoint)
{
	if (endpoint->up)
		write_letter(endpoint, VERBS_PART);
	if (endpoint->ah)
		ibv_destroy_ah(endpoint->ah);
	endpoint->ah = NULL;
}

static void oob_drop(struct verbs_endpoint *endpoint)
{
	if (endpoint->ah)
		ibv_destroy_ah(endpoint->ah);
	endpoint->ah = NULL;
}

const struct verbs_way verbs_oob = {
	.open = oob_open,
	.close = oob_close,
	.go_on = oob_go_on,
	.events = oob_events,
	.part = oob_part,
	.drop = oob_drop,
};
