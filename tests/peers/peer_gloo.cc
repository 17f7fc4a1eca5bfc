/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_gloo.cc: Gloo over TCP, its only transport without RDMA. A nonblocking sum is a call on a
 * second thread, as PyTorch makes it.
 *
 * The environment says where the ranks meet: PEER_STORE, a new directory that all see; PEER_IFACE,
 * the network interface; STRETTO_RANK and _SIZE or SLURM_PROCID and _NTASKS, by the launcher.
 */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/peers/peer.h"

namespace
{

std::shared_ptr<gloo::rendezvous::Context> context;
std::future<int> started;

/* Gloo tells errors by exceptions. */
int guarded(const std::function<void()> &call)
{
	try {
		call();
		return 0;
	} catch (const std::exception &error) {
		std::fprintf(stderr, "gloo: %s\n", error.what());
		return 1;
	}
}

std::string from_environment(const char *name, const char *other)
{
	const char *value = std::getenv(name);

	value = value ? value : std::getenv(other);
	return value ? value : "";
}

int init(int *, char ***, int *rank, int *size)
{
	return guarded([=] {
		gloo::transport::tcp::attr attr;

		*rank = std::stoi(from_environment("STRETTO_RANK", "SLURM_PROCID"));
		*size = std::stoi(from_environment("STRETTO_SIZE", "SLURM_NTASKS"));
		attr.iface = from_environment("PEER_IFACE", "");
		auto device = gloo::transport::tcp::CreateDevice(attr);
		gloo::rendezvous::FileStore store(from_environment("PEER_STORE", ""));
		context = std::make_shared<gloo::rendezvous::Context>(*rank, *size);
		context->connectFullMesh(store, device);
	});
}

int barrier()
{
	return guarded([] {
		gloo::BarrierOptions options(context);
		gloo::barrier(options);
	});
}

template <typename T>
int allreduce(const T *in, T *out, size_t count, void (*reduce)(void *, const void *, const void *, size_t))
{
	return guarded([=] {
		gloo::AllreduceOptions options(context);

		if (in != out)
			options.setInput(const_cast<T *>(in), count);
		options.setOutput(out, count);
		options.setReduceFunction(reduce);
		gloo::allreduce(options);
	});
}

int sum(const float *in, float *out, size_t count)
{
	return allreduce(in, out, count, gloo::sum<float>);
}

int start(const float *in, float *out, size_t count)
{
	started = std::async(std::launch::async, sum, in, out, count);
	return 0;
}

int wait_for()
{
	return started.get();
}

int max(double *values, size_t count)
{
	return allreduce(values, values, count, gloo::max<double>);
}

int fini()
{
	int status = barrier();

	context.reset();
	return status;
}

} // namespace

const struct peer peer = {"gloo", init, std::malloc, barrier, sum, start, wait_for, max, fini};
