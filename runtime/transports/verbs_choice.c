/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_choice.c: which port a channel uses.
 *
 * With librdmacm a port is usable if it is active and an interface of this host has an IP address that
 * librdmacm binds to it; with RoCE that address must have a version 2 GID. Out of band any active port
 * will do. Those that are not much slower than the fastest are the rails: fast ones come first, then near
 * ones; channel i takes rail i mod rails. What a channel's share of a vector is follows its speed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/transports/verbs.h"

enum { PORTS_MAX = 32, GIDS_MAX = 256, NEAR = 10 };
/*
 * A port so many times slower than the fastest is no rail: it is more likely there for other things,
 * and costs a channel more than it gives.
 */
enum { MUCH_SLOWER = 5 };

/* What was found. */
struct survey {
	const struct stretto_config *config;
	struct verbs_port ports[PORTS_MAX];
	int distance[PORTS_MAX]; /* see distance_to() */
	size_t count;
	char refused[512]; /* what was not taken, and why */
};

static void refuse(struct survey *survey, const char *device, const char *why)
{
	size_t length = strlen(survey->refused);

	if (length + 1 < sizeof survey->refused)
		snprintf(survey->refused + length, sizeof survey->refused - length, "%s%s: %s",
			 length ? "; " : "", device, why);
}

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

/* The node-th number of a line of numbers in a file; `otherwise` if there is none. */
static int number_in(const char *path, int node, int otherwise)
{
	FILE *file = fopen(path, "re");
	int value = otherwise;

	if (!file)
		return otherwise;
	for (int i = 0; i <= node; i++)
		if (fscanf(file, "%d", &value) != 1) {
			value = otherwise;
			break;
		}
	fclose(file);
	return value;
}

/* From the core that we run on to the device, as the firmware says it: 10 is the same NUMA node. */
static int distance_to(const char *device)
{
	char path[128];
	unsigned ours = 0;
	int theirs;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
	theirs = number_in(path, 0, -1);
	if (theirs < 0 || getcpu(NULL, &ours) != 0)
		return NEAR;
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", ours);
	return number_in(path, theirs, NEAR);
}

static const void *ip_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)address)->sin_addr;
	return &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

/* The GID that RoCE makes of an IP address. */
static union ibv_gid gid_of(const struct sockaddr *address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (address->sa_family == AF_INET)
		memcpy(&gid.raw[12], ip_of(address), 4);
	else
		memcpy(gid.raw, ip_of(address), 16);
	return gid;
}

static bool is_roce(const struct ibv_context *context, const struct verbs_port *port)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET &&
	       context->device->transport_type == IBV_TRANSPORT_IB;
}

/* How well a GID serves where no address says which: 0 not at all. */
static int worth(const struct ibv_gid_entry *entry, bool roce)
{
	const struct in6_addr *ip = (const struct in6_addr *)(const void *)&entry->gid;

	if (!roce)
		return GIDS_MAX - (int)entry->gid_index; /* the first */
	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(ip))
		return 3;
	return IN6_IS_ADDR_LINKLOCAL(ip) ? 1 : 2;
}

/*
 * Finds the port's GID: by type and address with RoCE, since indexes move, or, without an address, the
 * best of them; else its first.
 */
static bool find_gid(struct ibv_context *context, const struct sockaddr *address,
		     struct verbs_port *port)
{
	struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof *entries);
	union ibv_gid wanted = address ? gid_of(address) : port->gid;
	bool roce = is_roce(context, port);
	int best = 0;
	ssize_t count = entries ? ibv_query_gid_table(context, entries, GIDS_MAX, 0) : 0;

	for (ssize_t i = 0; i < count; i++) {
		int value = worth(&entries[i], roce);

		if (entries[i].port_num != port->number || value <= best)
			continue;
		if (roce && address && memcmp(&entries[i].gid, &wanted, sizeof wanted) != 0)
			continue;
		port->gid = entries[i].gid;
		port->gid_index = entries[i].gid_index;
		best = value;
	}
	free(entries);
	return best > 0 || !roce;
}

void verbs_find_gid_again(struct ibv_context *context, struct verbs_port *port)
{
	struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof *entries);
	ssize_t count = entries ? ibv_query_gid_table(context, entries, GIDS_MAX, 0) : 0;

	for (ssize_t i = 0; i < count; i++)
		if (entries[i].port_num == port->number &&
		    memcmp(&entries[i].gid, &port->gid, sizeof port->gid) == 0 &&
		    (!is_roce(context, port) || entries[i].gid_type == IBV_GID_TYPE_ROCE_V2))
			port->gid_index = entries[i].gid_index;
	free(entries);
}

static bool known(const struct survey *survey, const char *device, uint8_t number)
{
	for (size_t i = 0; i < survey->count; i++)
		if (survey->ports[i].number == number &&
		    strcmp(survey->ports[i].device, device) == 0)
			return true;
	return false;
}

/* Takes a port if it is usable. `address` is what librdmacm bound to it; NULL: out of band. */
static void take_port(struct survey *survey, struct ibv_context *context, uint8_t number,
		      const struct sockaddr *address)
{
	const char *name = ibv_get_device_name(context->device);
	struct verbs_port port = {.number = number};
	struct ibv_port_attr attributes;

	if (survey->count == PORTS_MAX || known(survey, name, number))
		return;
	snprintf(port.device, sizeof port.device, "%s", name);
	if (!wished(survey->config->verbs_devices, name)) {
		refuse(survey, name, "STRETTO_VERBS_DEVICES leaves it out");
		return;
	}
	if (ibv_query_port(context, number, &attributes) != 0) {
		refuse(survey, name, "its port cannot be queried");
		return;
	}
	if (attributes.state != IBV_PORT_ACTIVE) {
		refuse(survey, name, ibv_port_state_str(attributes.state));
		return;
	}
	port.link_layer = attributes.link_layer;
	port.lid = attributes.lid;
	port.max_message = attributes.max_msg_sz;
	port.mtu = (uint8_t)attributes.active_mtu;
	port.speed = port_speed(&attributes);
	if (!find_gid(context, address, &port)) {
		refuse(survey, name, "it has no RoCE v2 GID, or none for its address");
		return;
	}
	inet_ntop(AF_INET6, port.gid.raw, port.gid_text, sizeof port.gid_text);
	snprintf(port.address_text, sizeof port.address_text, "%s", "no address");
	if (address) {
		inet_ntop(address->sa_family, ip_of(address), port.address_text,
			  sizeof port.address_text);
		memcpy(&port.address, address,
		       address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						     : sizeof(struct sockaddr_in6));
	}
	survey->distance[survey->count] = distance_to(name);
	survey->ports[survey->count++] = port;
}

static bool candidate(const struct ifaddrs *entry, sa_family_t family)
{
	if (!entry->ifa_addr || entry->ifa_addr->sa_family != family ||
	    !(entry->ifa_flags & IFF_UP) || entry->ifa_flags & IFF_LOOPBACK)
		return false;
	return family == AF_INET ||
	       !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)ip_of(entry->ifa_addr));
}

/* Binds an id to each address of the family, to learn which port it belongs to. */
static void survey_family(struct survey *survey, const struct ifaddrs *entries, sa_family_t family)
{
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
		struct rdma_cm_id *id;

		if (!candidate(entry, family) || rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
			continue;
		if (rdma_bind_addr(id, entry->ifa_addr) == 0 && id->verbs)
			take_port(survey, id->verbs, id->port_num, entry->ifa_addr);
		rdma_destroy_id(id);
	}
}

/* Without addresses: all ports. */
static void survey_ports(struct survey *survey, struct ibv_device **devices)
{
	for (; *devices; devices++) {
		struct ibv_context *context = ibv_open_device(*devices);
		struct ibv_device_attr attributes;

		if (!context || ibv_query_device(context, &attributes) != 0)
			refuse(survey, ibv_get_device_name(*devices), "it cannot be opened");
		else
			for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
				take_port(survey, context, port, NULL);
		if (context)
			ibv_close_device(context);
	}
}

/* Names the devices that no address led to. */
static void survey_rest(struct survey *survey, struct ibv_device **devices)
{
	for (; *devices; devices++) {
		const char *name = ibv_get_device_name(*devices);
		bool seen = strstr(survey->refused, name) != NULL;

		for (size_t i = 0; i < survey->count && !seen; i++)
			seen = strcmp(survey->ports[i].device, name) == 0;
		if (!seen)
			refuse(survey, name, "no interface that is up has an IP address for it");
	}
}

/* Best first: fast, near, by name. */
static bool better(const struct survey *survey, size_t a, size_t b)
{
	const struct verbs_port *left = &survey->ports[a], *right = &survey->ports[b];
	int order = strcmp(left->device, right->device);

	if (left->speed != right->speed)
		return left->speed > right->speed;
	if (survey->distance[a] != survey->distance[b])
		return survey->distance[a] < survey->distance[b];
	return order != 0 ? order < 0 : left->number < right->number;
}

/* Index of the port with `rank` better ones; PORTS_MAX if there are not so many. */
static size_t ranked(const struct survey *survey, size_t rank)
{
	for (size_t i = 0; i < survey->count; i++) {
		size_t before = 0;

		for (size_t other = 0; other < survey->count; other++)
			before += other != i && better(survey, other, i);
		if (before == rank)
			return i;
	}
	return PORTS_MAX;
}

/* Ports that are fast enough; the others are refused. They are the last ones by rank. */
static size_t count_rails(struct survey *survey)
{
	uint64_t best = survey->ports[ranked(survey, 0)].speed;
	size_t rails = 0;

	for (size_t i = 0; i < survey->count; i++) {
		if (survey->ports[i].speed > best / MUCH_SLOWER)
			rails++;
		else
			refuse(survey, survey->ports[i].device, "much slower than the one taken");
	}
	return rails;
}

static void pick(struct survey *survey, int channel, struct verbs_port *port, char *why,
		 size_t size)
{
	size_t rails = count_rails(survey), rail = (size_t)channel % rails;
	size_t channels = survey->config->channels;

	*port = survey->ports[ranked(survey, rail)];
	port->sharers = (uint32_t)((channels - 1 - rail) / rails + 1);
	snprintf(why, size, "%s port %u at %s, %s %s, %.1f Gb/s, is rail %zu of %zu%s%s",
		 port->device, port->number, port->address_text,
		 port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE v2 GID" : "GID",
		 port->gid_text, (double)port->speed / 1e9, rail + 1, rails,
		 survey->refused[0] ? "; not taken: " : "", survey->refused);
}

bool verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
		  char *why, size_t size)
{
	struct survey survey = {.config = config};
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ifaddrs *entries = NULL;

	/* librdmacm complains on stderr where there is no device */
	if (!devices || !*devices) {
		snprintf(why, size,
			 "no RDMA device: /sys/class/infiniband is empty (are the "
			 "driver and ib_uverbs loaded?)");
	} else if (config->verbs_oob) {
		survey_ports(&survey, devices);
	} else if (getifaddrs(&entries) != 0) {
		snprintf(why, size, "getifaddrs: %s", strerror(errno));
	} else {
		survey_family(&survey, entries, AF_INET);
		survey_family(&survey, entries, AF_INET6);
		freeifaddrs(entries);
		survey_rest(&survey, devices);
	}
	if (survey.count > 0)
		pick(&survey, channel, port, why, size);
	else if (survey.refused[0])
		snprintf(why, size, "no usable port: %s%s", survey.refused,
			 config->verbs_oob ? "" : " (is rdma_ucm loaded?)");
	if (devices)
		ibv_free_device_list(devices);
	return survey.count > 0;
}
