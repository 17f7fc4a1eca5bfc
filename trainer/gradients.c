/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/gradients.h"

stretto_status stretto_gradients_open(struct stretto_average *average,
				      struct stretto_gradients *gradients)
{
	size_t count = average->options.parameters;

	gradients->slicing.count = count;
	gradients->slicing.slice = stretto_average_slice(average, count, STRETTO_GRADIENTS_SLICE);
	gradients->route.log = &average->log;
	return stretto_route_open(average->comm, &gradients->slicing, average->gradients,
				  average->gradients, &gradients->route);
}

void stretto_gradients_close(struct stretto_gradients *gradients)
{
	stretto_route_close(&gradients->route);
}

stretto_status stretto_gradients_ready(struct stretto_average *average,
				       struct stretto_gradients *gradients)
{
	size_t slices = gradients->route.count;
	stretto_status status = STRETTO_OK;

	while (gradients->started < slices && status == STRETTO_OK) {
		size_t k = slices - 1 - gradients->started;

		if (k * gradients->slicing.slice < average->ready)
			break;
		status = stretto_route_start(&gradients->route, k);
		gradients->started++;
	}
	return status;
}

/* Waits for all slices: the norm to clip to is that of the mean. */
static stretto_status finish_all(struct stretto_gradients *gradients)
{
	stretto_status status = STRETTO_OK;

	for (size_t k = gradients->route.count; k-- > 0 && status == STRETTO_OK;)
		status = stretto_route_finish(&gradients->route, k);
	return status;
}

stretto_status stretto_gradients_step(struct stretto_average *average,
				      struct stretto_gradients *gradients)
{
	struct stretto_work work = {
		.weights = average->weights,
		.gradients = average->gradients,
		.next = average->weights,
	};
	bool together = average->options.clip > 0.0f;
	stretto_status status = together ? finish_all(gradients) : STRETTO_OK;

	if (status == STRETTO_OK)
		stretto_average_clip(average);
	for (size_t k = gradients->route.count; k-- > 0 && status == STRETTO_OK;) {
		if (!together)
			status = stretto_route_finish(&gradients->route, k);
		if (status == STRETTO_OK)
			stretto_average_pass(average, &work, k * gradients->slicing.slice,
					     stretto_slicing_length(&gradients->slicing, k));
	}
	average->updates++;
	gradients->started = 0;
	return status;
}
