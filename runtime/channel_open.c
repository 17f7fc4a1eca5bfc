/* SPDX-License-Identifier: BSD-3-Clause */
/* channel_open.c: making and closing a channel: its devices, endpoints and descriptors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/channel.h"
#include "runtime/comm.h"
#include "runtime/log.h"
#include "runtime/recovery.h"

static const char *name_of(const struct stretto_device *device)
{
	return device->transport->name;
}

static stretto_status watch(void *context, int fd)
{
	struct stretto_channel *channel = context;
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};

	if (epoll_ctl(channel->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return STRETTO_OK;
	stretto_error("channel %d: watching a descriptor: %s; see fs.epoll.max_user_watches",
		      channel->index, strerror(errno));
	return STRETTO_SYSTEM;
}

static void unwatch(void *context, int fd)
{
	struct stretto_channel *channel = context;

	epoll_ctl(channel->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Whether a name is in a comma list; all are where that is empty. */
static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (*list == '\0')
		return true;
	for (;; list++) {
		size_t word = strcspn(list, ",");

		if (word == length && strncmp(list, name, length) == 0)
			return true;
		list += word;
		if (*list == '\0')
			return false;
	}
}

static stretto_status open_device(struct stretto_channel *channel,
				  const struct stretto_transport *transport)
{
	const struct stretto_config *config = &channel->world->config;
	bool pace = config->pace.bytes_per_second > 0 || config->pace.latency_seconds > 0;
	struct stretto_device *device;
	stretto_status status = transport->open(&channel->env, &device);

	if (status != STRETTO_OK)
		return status;
	if (pace && transport != &stretto_transport_self) {
		struct stretto_device *paced;

		status = stretto_paced_open(&config->pace, device, &paced);
		if (status != STRETTO_OK) {
			transport->close(device);
			return status;
		}
		device = paced;
	}
	channel->devices[channel->device_count++] = device;
	return STRETTO_OK;
}

/* Every name in STRETTO_TRANSPORTS must be one. */
static stretto_status check_list(const char *list)
{
	while (*list) {
		size_t word = strcspn(list, ",");
		bool known = false;

		for (size_t i = 0; stretto_transports[i]; i++)
			known |= strlen(stretto_transports[i]->name) == word &&
				 strncmp(list, stretto_transports[i]->name, word) == 0;
		if (!known) {
			stretto_error(
				"STRETTO_TRANSPORTS: there is no transport '%.*s' in this build; "
				"stretto-info lists them",
				(int)word, list);
			return STRETTO_INVALID;
		}
		list += word + (list[word] == ',');
	}
	return STRETTO_OK;
}

static stretto_status open_devices(struct stretto_channel *channel)
{
	const struct stretto_config *config = &channel->world->config;
	char why[200];

	if (check_list(config->transports) != STRETTO_OK)
		return STRETTO_INVALID;
	for (size_t i = 0; stretto_transports[i]; i++) {
		const struct stretto_transport *transport = stretto_transports[i];
		stretto_status status;

		if (!listed(config->transports, transport->name))
			continue;
		if (channel->world->size == 1 && !transport->limits.same_node &&
		    config->transports[0] == '\0') {
			stretto_info("transport %s is not used: this rank is alone",
				     transport->name);
			continue;
		}
		if (!transport->probe(config, why, sizeof why)) {
			stretto_info("transport %s is not used: %s", transport->name, why);
			continue;
		}
		status = open_device(channel, transport);
		if (status != STRETTO_OK &&
		    (config->transports[0] != '\0' || transport->limits.same_node))
			return status;
		/* It was not asked for, and a job on one node may do without. */
		if (status != STRETTO_OK)
			stretto_warn("transport %s is not used: it cannot be opened (see above)",
				     transport->name);
	}
	if (channel->device_count > 0)
		return STRETTO_OK;
	stretto_error("STRETTO_TRANSPORTS='%s' leaves no usable transport; stretto-info lists them",
		      config->transports);
	return STRETTO_INVALID;
}

static void set_env(struct stretto_channel *channel)
{
	channel->env = (struct stretto_device_env){
		.config = &channel->world->config,
		.rank = channel->world->rank,
		.size = channel->world->size,
		.channel = channel->index,
		.wake_fd = channel->env.wake_fd,
		.context = channel,
		.check = stretto_channel_check,
		.notice = stretto_channel_notice,
		.wanted = stretto_channel_wanted,
		.hold = stretto_channel_hold,
		.failed = stretto_channel_failed,
		.epoch = channel->world->recovery ? &channel->world->recovery->epoch : NULL,
		.lost = stretto_channel_lost,
		.renewed = stretto_channel_renewed,
		.watch = watch,
		.unwatch = unwatch,
	};
}

stretto_status stretto_channel_open(struct stretto_world *world, int index,
				    struct stretto_channel **out)
{
	struct stretto_channel *channel = aligned_alloc(64, (sizeof *channel + 63) / 64 * 64);
	stretto_status status = STRETTO_NO_MEMORY;

	if (!channel)
		return status;
	memset(channel, 0, sizeof *channel);
	channel->world = world;
	channel->index = index;
	stretto_list_init(&channel->active);
	stretto_list_init(&channel->submitted);
	pthread_mutex_init(&channel->baton, NULL);
	pthread_mutex_init(&channel->submit_lock, NULL);
	channel->epoll = epoll_create1(EPOLL_CLOEXEC);
	channel->env.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	set_env(channel);
	channel->endpoints = calloc((size_t)world->size, sizeof(struct stretto_endpoint *));
	if (channel->epoll < 0 || channel->env.wake_fd < 0)
		stretto_error("channel %d: %s; see RLIMIT_NOFILE (ulimit -n)", index,
			      strerror(errno));
	else if (channel->endpoints)
		status = watch(channel, channel->env.wake_fd);
	if (status == STRETTO_OK)
		status = open_devices(channel);
	if (status != STRETTO_OK) {
		stretto_channel_close(channel);
		return status;
	}
	*out = channel;
	return STRETTO_OK;
}

void stretto_channel_close(struct stretto_channel *channel)
{
	if (!channel)
		return;
	for (int peer = 0; channel->endpoints && peer < channel->world->size; peer++)
		if (channel->endpoints[peer])
			channel->endpoints[peer]->transport->disconnect(channel->endpoints[peer]);
	while (channel->device_count > 0) {
		struct stretto_device *device = channel->devices[--channel->device_count];

		device->transport->close(device);
	}
	free(channel->endpoints);
	if (channel->env.wake_fd >= 0)
		close(channel->env.wake_fd);
	if (channel->epoll >= 0)
		close(channel->epoll);
	pthread_mutex_destroy(&channel->submit_lock);
	pthread_mutex_destroy(&channel->baton);
	free(channel);
}

stretto_status stretto_channel_endpoint(struct stretto_channel *channel, int peer,
					struct stretto_endpoint **endpoint)
{
	*endpoint = channel->endpoints[peer];
	if (*endpoint)
		return STRETTO_OK;
	for (int i = 0; i < channel->device_count; i++) {
		struct stretto_device *device = channel->devices[i];
		struct stretto_peer_address address = stretto_world_address(
			channel->world, peer, channel->index, name_of(device));
		stretto_status status;

		if (!device->transport->reaches(device, peer, address.blob, address.bytes))
			continue;
		status = device->transport->connect(device, peer, address.blob, address.bytes,
						    endpoint);
		if (status != STRETTO_OK)
			return status;
		channel->endpoints[peer] = *endpoint;
		stretto_debug("channel %d: rank %d by %s", channel->index, peer, name_of(device));
		stretto_channel_tell_new(channel, *endpoint);
		stretto_recovery_tell(channel, *endpoint);
		return STRETTO_OK;
	}
	stretto_error("no transport reaches rank %d: it is on another node, or STRETTO_TRANSPORTS "
		      "leaves the one out that could",
		      peer);
	return STRETTO_UNSUPPORTED;
}

stretto_status stretto_channels_add_region(struct stretto_world *world,
					   struct stretto_region *region)
{
	stretto_status status = STRETTO_OK;

	for (size_t c = 0; c < world->config.channels; c++) {
		struct stretto_channel *channel = world->channels[c];

		stretto_channel_take_baton(channel);
		for (int i = 0; i < channel->device_count && status == STRETTO_OK; i++) {
			struct stretto_device *device = channel->devices[i];

			if (device->transport->add_region)
				status = device->transport->add_region(device, region);
		}
		stretto_channel_leave_baton(channel);
	}
	return status;
}

void stretto_channels_drop_region(struct stretto_world *world, struct stretto_region *region)
{
	for (size_t c = 0; c < world->config.channels; c++) {
		struct stretto_channel *channel = world->channels[c];

		stretto_channel_take_baton(channel);
		for (int i = 0; i < channel->device_count; i++) {
			struct stretto_device *device = channel->devices[i];

			if (device->transport->drop_region)
				device->transport->drop_region(device, region);
		}
		stretto_channel_leave_baton(channel);
	}
}
