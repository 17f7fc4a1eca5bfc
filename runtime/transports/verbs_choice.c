/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_choice.c: which port a channel uses.
 *
 * With librdmacm a port is usable if it is active and an interface of this host has an IP address that
 * librdmacm binds to it; out of band any active port will do. With RoCE there must be a version 2 GID
 * of an address. Those that are not much slower than the fastest are the rails: fast ones come first,
 * then near ones; channel i takes rail i mod rails. A channel's share of a vector follows its speed.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "runtime/transports/verbs.h"

enum { PORTS_MAX = 32 };
/*
 * A port so many times slower than the fastest is no rail: it is more likely there for other things,
 * and costs a channel more than it gives.
 */
enum { MUCH_SLOWER = 5 };

/* A port that was found. */
struct found {
	struct verbs_port port;
	int distance;      /* see verbs_distance() */
	const char *fault; /* why it is not taken; NULL: it is a rail */
};

/* What was found. */
struct survey {
	const struct stretto_config *config;
	struct found ports[PORTS_MAX];
	size_t count;
};

/* Whether STRETTO_VERBS_DEVICES lets a device in: a list of names, or of others after a '^'. */
static bool wished(const char *list, const char *device)
{
	bool exclude = *list == '^';
	size_t length = strlen(device);

	if (*list == '\0')
		return true;
	for (list += exclude; *list;) {
		size_t word = strcspn(list, ",");

		if (word == length && strncmp(list, device, length) == 0)
			return !exclude;
		list += word + (list[word] == ',');
	}
	return exclude;
}

static uint64_t port_speed(const struct ibv_port_attr *attributes)
{
	static const struct {
		unsigned code;
		unsigned mbit; /* of a lane */
	} speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
		      {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
	static const struct {
		unsigned code;
		unsigned lanes;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	uint64_t mbit = 2500, lanes = 1;

	for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
		if (speeds[i].code == attributes->active_speed)
			mbit = speeds[i].mbit;
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		if (widths[i].code == attributes->active_width)
			lanes = widths[i].lanes;
	return mbit * 1000000 * lanes;
}

/* What is to be known of a port but its addresses. Returns why it cannot be used, NULL if it can. */
static const char *look_at(struct ibv_context *context, const struct stretto_config *config,
			   struct verbs_port *port)
{
	struct ibv_port_attr attributes;

	if (!wished(config->verbs_devices, port->device))
		return "STRETTO_VERBS_DEVICES leaves it out";
	if (ibv_query_port(context, port->number, &attributes) != 0)
		return "its port cannot be queried";
	if (attributes.state != IBV_PORT_ACTIVE)
		return ibv_port_state_str(attributes.state);
	port->link_layer = attributes.link_layer;
	port->lid = attributes.lid;
	port->max_message = attributes.max_msg_sz;
	port->mtu = (uint8_t)attributes.active_mtu;
	port->speed = port_speed(&attributes);
	if (!verbs_is_roce(context, port) &&
	    ibv_query_gid(context, port->number, 0, &port->gid) != 0)
		return "its GID cannot be queried";
	return NULL;
}

/* The entry of a port, made when it is first met; NULL: there are too many. */
static struct found *port_at(struct survey *survey, struct ibv_context *context, uint8_t number)
{
	const char *name = ibv_get_device_name(context->device);
	struct found *found = survey->ports;

	for (; found < survey->ports + survey->count; found++)
		if (found->port.number == number && strcmp(found->port.device, name) == 0)
			return found;
	if (survey->count == PORTS_MAX)
		return NULL;
	survey->count++;
	found->port.number = number;
	snprintf(found->port.device, sizeof found->port.device, "%s", name);
	found->fault = look_at(context, survey->config, &found->port);
	return found;
}

static bool candidate(const struct ifaddrs *entry, enum verbs_ip_kind kind)
{
	return entry->ifa_addr &&
	       (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6) &&
	       entry->ifa_flags & IFF_UP && !(entry->ifa_flags & IFF_LOOPBACK) &&
	       verbs_kind_of(entry->ifa_addr) == kind;
}

/* Binds an id to each address of a kind, to learn which port it belongs to. */
static void survey_kind(struct survey *survey, const struct ifaddrs *entries,
			enum verbs_ip_kind kind)
{
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
		struct found *found = NULL;
		struct rdma_cm_id *id;

		if (!candidate(entry, kind) || rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
			continue;
		if (rdma_bind_addr(id, entry->ifa_addr) == 0 && id->verbs)
			found = port_at(survey, id->verbs, id->port_num);
		if (found && !found->fault)
			verbs_add_ip(id->verbs, &found->port, entry->ifa_addr, entry->ifa_netmask);
		rdma_destroy_id(id);
	}
}

static void no_ips(struct found *found)
{
	if (!found->fault && found->port.ips.count == 0)
		found->fault = "it has no RoCE v2 GID, or none for its addresses";
}

/*
 * By the interfaces' addresses. Link-local ones do not count: every interface has one, and it does
 * not say which others are on its link.
 */
static void survey_addresses(struct survey *survey, const struct ifaddrs *entries)
{
	survey_kind(survey, entries, VERBS_IPV4);
	survey_kind(survey, entries, VERBS_IPV6);
	for (size_t i = 0; i < survey->count; i++)
		no_ips(&survey->ports[i]);
}

/* By the devices; with RoCE the GIDs tell the addresses. */
static void survey_device(struct survey *survey, struct ibv_context *context,
			  const struct ifaddrs *entries)
{
	struct ibv_device_attr attributes;

	if (ibv_query_device(context, &attributes) != 0)
		return;
	for (uint8_t number = 1; number <= attributes.phys_port_cnt; number++) {
		struct found *found = port_at(survey, context, number);

		if (!found || found->fault || !verbs_is_roce(context, &found->port))
			continue;
		verbs_add_gids(context, &found->port, entries);
		no_ips(found);
	}
}

static void survey_devices(struct survey *survey, struct ibv_device **devices,
			   const struct ifaddrs *entries)
{
	for (; *devices; devices++) {
		struct ibv_context *context = ibv_open_device(*devices);

		if (!context)
			continue;
		survey_device(survey, context, entries);
		ibv_close_device(context);
	}
}

/* Best first: usable, fast, near, by name. */
static bool better(const struct found *a, const struct found *b)
{
	int order = strcmp(a->port.device, b->port.device);

	if (!a->fault != !b->fault)
		return !a->fault;
	if (a->port.speed != b->port.speed)
		return a->port.speed > b->port.speed;
	if (a->distance != b->distance)
		return a->distance < b->distance;
	return order != 0 ? order < 0 : a->port.number < b->port.number;
}

/* Brings the ports into their order: by insertion, they are few. */
static void rank_ports(struct survey *survey)
{
	for (size_t i = 1; i < survey->count; i++)
		for (size_t j = i; j > 0 && better(&survey->ports[j], &survey->ports[j - 1]); j--) {
			struct found worse = survey->ports[j - 1];

			survey->ports[j - 1] = survey->ports[j];
			survey->ports[j] = worse;
		}
}

/* Ranks the ports and returns how many are rails. */
static size_t find_rails(struct survey *survey)
{
	struct found *ports = survey->ports;
	size_t usable = 0, rails = 0;

	for (size_t i = 0; i < survey->count; i++)
		usable += !ports[i].fault;
	for (size_t i = 0; i < survey->count && usable > 1; i++)
		ports[i].distance = verbs_distance(ports[i].port.device);
	rank_ports(survey);
	while (rails < usable && ports[rails].port.speed > ports[0].port.speed / MUCH_SLOWER)
		rails++;
	for (size_t i = rails; i < usable; i++)
		ports[i].fault = "much slower than the fastest";
	return rails;
}

/* Writes further text behind what is there. */
static void add(char *text, size_t size, const char *separator, const char *first,
		const char *second)
{
	size_t length = strlen(text);

	snprintf(text + length, size - length, "%s%s%s", separator, first, second);
}

static bool met(const struct survey *survey, const char *device)
{
	for (size_t i = 0; i < survey->count; i++)
		if (strcmp(survey->ports[i].port.device, device) == 0)
			return true;
	return false;
}

/* Says of each device that is not taken why. */
static void explain_rest(const struct survey *survey, struct ibv_device **devices, char *why,
			 size_t size)
{
	const char *unmet = survey->config->verbs_oob
				    ? ": it cannot be opened"
				    : ": no interface that is up has an IP address for it";
	const char *separator = "; not taken: ";

	for (size_t i = 0; i < survey->count; i++) {
		const struct found *found = &survey->ports[i];

		if (!found->fault)
			continue;
		add(why, size, separator, found->port.device, ": ");
		add(why, size, found->fault, "", "");
		separator = "; ";
	}
	for (; *devices; devices++) {
		const char *name = ibv_get_device_name(*devices);

		if (met(survey, name))
			continue;
		add(why, size, separator, name, unmet);
		separator = "; ";
	}
}

static void explain(const struct verbs_port *port, size_t rail, size_t rails, char *why,
		    size_t size)
{
	char text[VERBS_IP_TEXT];

	snprintf(why, size, "%s port %u, %.1f Gb/s, is rail %zu of %zu", port->device, port->number,
		 (double)port->speed / 1e9, rail + 1, rails);
	for (size_t i = 0; i < port->ips.count; i++)
		add(why, size, i ? ", " : ", at ", verbs_ip_text(&port->ips.ip[i], text), "");
}

/* The port of a channel, from what was found. */
static bool pick(struct survey *survey, int channel, struct verbs_port *port, char *why,
		 size_t size)
{
	size_t rails = find_rails(survey), rail;

	if (rails == 0) {
		snprintf(why, size, "no usable port%s",
			 survey->config->verbs_oob ? "" : " (is rdma_ucm loaded?)");
		return false;
	}
	rail = (size_t)channel % rails;
	*port = survey->ports[rail].port;
	port->sharers = (uint32_t)((survey->config->channels - 1 - rail) / rails + 1);
	explain(port, rail, rails, why, size);
	return true;
}

bool verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
		  char *why, size_t size)
{
	struct survey survey = {.config = config};
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ifaddrs *entries = NULL;
	bool chosen = false;

	/* librdmacm complains on stderr where there is no device */
	if (!devices || !*devices) {
		snprintf(why, size,
			 "no RDMA device: /sys/class/infiniband is empty (are the "
			 "driver and ib_uverbs loaded?)");
	} else if (getifaddrs(&entries) != 0) {
		snprintf(why, size, "getifaddrs: %s", strerror(errno));
	} else {
		if (config->verbs_oob)
			survey_devices(&survey, devices, entries);
		else
			survey_addresses(&survey, entries);
		freeifaddrs(entries);
		chosen = pick(&survey, channel, port, why, size);
		explain_rest(&survey, devices, why, size);
	}
	if (devices)
		ibv_free_device_list(devices);
	return chosen;
}
