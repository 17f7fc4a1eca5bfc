/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_gid.c: IP addresses of a port and the GIDs that RoCE makes of them. GIDs are found by type and
 * address, never by a fixed index: indexes move.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/transports/verbs.h"

enum { GIDS_MAX = 1024 };

static const void *bytes_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)address)->sin_addr;
	return &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static size_t length_of(int family)
{
	return family == AF_INET ? 4 : 16;
}

static uint8_t prefix_of(const struct sockaddr *netmask, int family)
{
	const uint8_t *bytes = netmask ? bytes_of(netmask) : NULL;
	uint8_t bits = 0;

	while (bytes && bits < 8 * length_of(family) && bytes[bits / 8] & 0x80 >> bits % 8)
		bits++;
	return bits;
}

union ibv_gid verbs_gid_of(const struct verbs_ip *ip)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	memcpy(ip->family == AF_INET ? gid.raw + 12 : gid.raw, ip->bytes, length_of(ip->family));
	return gid;
}

void verbs_sockaddr_of(const struct verbs_ip *ip, struct sockaddr_storage *address)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;

	memset(address, 0, sizeof *address);
	address->ss_family = ip->family;
	if (ip->family == AF_INET) {
		v4->sin_port = ip->cm_port;
		memcpy(&v4->sin_addr, ip->bytes, 4);
		return;
	}
	v6->sin6_port = ip->cm_port;
	memcpy(&v6->sin6_addr, ip->bytes, 16);
}

const char *verbs_ip_text(const struct verbs_ip *ip, char text[VERBS_IP_TEXT])
{
	if (ip->family == 0 || !inet_ntop(ip->family, ip->bytes, text, VERBS_IP_TEXT))
		memcpy(text, "no address", sizeof "no address");
	return text;
}

const char *verbs_gid_text(const struct verbs_endpoint *endpoint, char text[VERBS_IP_TEXT])
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	union ibv_gid gid = verbs_is_roce(device->context, &device->port)
				    ? verbs_gid_of(&endpoint->from)
				    : device->port.gid;

	inet_ntop(AF_INET6, gid.raw, text, VERBS_IP_TEXT);
	return text;
}

bool verbs_is_roce(const struct ibv_context *context, const struct verbs_port *port)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET &&
	       context->device->transport_type == IBV_TRANSPORT_IB;
}

/* The GID table of the device; the caller frees it. Its length is 0 where there is none. */
static size_t gid_table(struct ibv_context *context, struct ibv_gid_entry **entries)
{
	ssize_t count;

	*entries = calloc(GIDS_MAX, sizeof **entries);
	count = *entries ? ibv_query_gid_table(context, *entries, GIDS_MAX, 0) : 0;
	return count > 0 ? (size_t)count : 0;
}

/* Whether an entry is a GID that a connection of the port can use. */
static bool serves(const struct ibv_context *context, const struct verbs_port *port,
		   const struct ibv_gid_entry *entry)
{
	return entry->port_num == port->number &&
	       (!verbs_is_roce(context, port) || entry->gid_type == IBV_GID_TYPE_ROCE_V2);
}

bool verbs_find_gid(struct ibv_context *context, const struct verbs_port *port,
		    const union ibv_gid *gid, uint32_t *index)
{
	struct ibv_gid_entry *entries;
	size_t count = gid_table(context, &entries);
	bool found = false;

	for (size_t i = 0; i < count && !found; i++) {
		found = serves(context, port, &entries[i]) &&
			memcmp(&entries[i].gid, gid, sizeof *gid) == 0;
		if (found)
			*index = entries[i].gid_index;
	}
	free(entries);
	return found;
}

static bool has_ip(const struct verbs_ips *ips, const struct verbs_ip *ip)
{
	for (size_t i = 0; i < ips->count; i++)
		if (ips->ip[i].family == ip->family &&
		    memcmp(ips->ip[i].bytes, ip->bytes, sizeof ip->bytes) == 0)
			return true;
	return false;
}

void verbs_add_ip(struct ibv_context *context, struct verbs_port *port,
		  const struct sockaddr *address, const struct sockaddr *netmask)
{
	struct verbs_ips *ips = &port->ips;
	struct verbs_ip ip = {.family = (uint8_t)address->sa_family,
			      .prefix = prefix_of(netmask, address->sa_family)};
	char text[VERBS_IP_TEXT];
	union ibv_gid gid;
	uint32_t index;

	memcpy(ip.bytes, bytes_of(address), length_of(ip.family));
	gid = verbs_gid_of(&ip);
	if (has_ip(ips, &ip) ||
	    (verbs_is_roce(context, port) && !verbs_find_gid(context, port, &gid, &index)))
		return;
	if (ips->count == VERBS_IPS) {
		stretto_debug("verbs: %s port %u has more than %d addresses; %s is not told of",
			      port->device, port->number, VERBS_IPS, verbs_ip_text(&ip, text));
		return;
	}
	ips->ip[ips->count++] = ip;
}

enum verbs_ip_kind verbs_kind_of(const struct sockaddr *address)
{
	struct verbs_ip ip = {.family = (uint8_t)address->sa_family};

	memcpy(ip.bytes, bytes_of(address), length_of(ip.family));
	if (verbs_is_link_local(&ip))
		return VERBS_LINK_LOCAL;
	return ip.family == AF_INET ? VERBS_IPV4 : VERBS_IPV6;
}

/* The address that a RoCE GID is made of. */
static void address_of(const union ibv_gid *gid, struct sockaddr_storage *address)
{
	struct verbs_ip ip = {.family = AF_INET6};

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid)) {
		ip.family = AF_INET;
		memcpy(ip.bytes, gid->raw + 12, 4);
	} else {
		memcpy(ip.bytes, gid->raw, 16);
	}
	verbs_sockaddr_of(&ip, address);
}

/* The netmask of an address that an interface has; NULL if none has it. */
static const struct sockaddr *netmask_of(const struct ifaddrs *entries,
					 const struct sockaddr *address)
{
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next)
		if (entry->ifa_addr && entry->ifa_addr->sa_family == address->sa_family &&
		    memcmp(bytes_of(entry->ifa_addr), bytes_of(address),
			   length_of(address->sa_family)) == 0)
			return entry->ifa_netmask;
	return NULL;
}

void verbs_add_gids(struct ibv_context *context, struct verbs_port *port,
		    const struct ifaddrs *entries)
{
	struct ibv_gid_entry *gids;
	size_t count = gid_table(context, &gids);

	for (int kind = 0; kind < VERBS_IP_KINDS; kind++)
		for (size_t i = 0; i < count; i++) {
			struct sockaddr_storage storage;
			const struct sockaddr *address =
				(const struct sockaddr *)(const void *)&storage;

			if (!serves(context, port, &gids[i]))
				continue;
			address_of(&gids[i].gid, &storage);
			if (verbs_kind_of(address) == (enum verbs_ip_kind)kind)
				verbs_add_ip(context, port, address, netmask_of(entries, address));
		}
	free(gids);
}
