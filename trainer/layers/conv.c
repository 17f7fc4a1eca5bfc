/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/conv.h"

#include <cblas.h>
#include <stdbool.h>
#include <string.h>

#include "trainer/layers/direct.h"
#include "trainer/loop.h"

/* Floats of patches gathered at a time, if an image has no more: half of a usual second cache. */
enum { BLOCK = 1 << 16 };

size_t stretto_conv_extent(const struct stretto_conv *conv, size_t extent)
{
	return (extent + 2 * conv->pad - conv->kernel) / conv->stride + 1;
}

static size_t positions(const struct stretto_conv *conv)
{
	return stretto_conv_extent(conv, conv->height) * stretto_conv_extent(conv, conv->width);
}

static size_t patch(const struct stretto_conv *conv)
{
	return conv->kernel * conv->kernel * conv->channels;
}

/* Images gathered at a time. */
static size_t block(const struct stretto_conv *conv)
{
	size_t images = BLOCK / (positions(conv) * patch(conv));

	return images > 0 ? images : 1;
}

/* How to go straight from X to Y, or from the gradient of Y to that of X; NULL: by GEMM. */
static const struct stretto_direct *direct_forward(const struct stretto_conv *conv)
{
	return conv->stride == 1 ? stretto_direct_for(conv->out) : NULL;
}

/* Zeros around the gradient are multiplied too: where they are too many, GEMM is faster after all. */
static const struct stretto_direct *direct_input(const struct stretto_conv *conv)
{
	bool few = 2 * conv->height * conv->width <= 3 * positions(conv);

	return conv->stride == 1 && few ? stretto_direct_for(conv->channels) : NULL;
}

/* X with zeros around it. */
static struct stretto_direct_shape padded_x(const struct stretto_conv *conv)
{
	return (struct stretto_direct_shape){
		.height = conv->height + 2 * conv->pad,
		.width = conv->width + 2 * conv->pad,
		.channels = conv->channels,
		.out = conv->out,
		.kernel = conv->kernel,
	};
}

/* The gradient of Y with as many zeros around it that a convolution of it is as large as X. */
static struct stretto_direct_shape padded_dy(const struct stretto_conv *conv)
{
	return (struct stretto_direct_shape){
		.height = conv->height + conv->kernel - 1,
		.width = conv->width + conv->kernel - 1,
		.channels = conv->out,
		.out = conv->channels,
		.kernel = conv->kernel,
	};
}

static size_t shape_size(const struct stretto_direct_shape *shape)
{
	return shape->height * shape->width * shape->channels;
}

/* Floats of the weights as direct_input() wants them, and of a bias of zeros. */
static size_t turned_size(const struct stretto_conv *conv)
{
	return (patch(conv) * conv->out) + conv->channels;
}

size_t stretto_conv_scratch(const struct stretto_conv *conv)
{
	const struct stretto_direct_shape x = padded_x(conv), dy = padded_dy(conv);
	size_t gathered = block(conv) * positions(conv) * patch(conv);
	size_t forward = shape_size(&x), backward = shape_size(&dy) + turned_size(conv);
	size_t most = forward > backward ? forward : backward;

	return gathered > most ? gathered : most;
}

/* Copies [high, wide, depth] into the middle of a larger image, whose edges are zero before. */
static void copy_inside(const struct stretto_direct_shape *to, size_t high, size_t wide,
			const float *from, float *image)
{
	size_t row = wide * to->channels, top = (to->height - high) / 2;
	float *at = image + (top * to->width + (to->width - wide) / 2) * to->channels;

	for (size_t y = 0; y < high; y++, from += row, at += to->width * to->channels)
		memcpy(at, from, row * sizeof(*at));
}

/* One row of a patch: which of its floats lie inside the image, and where. */
struct span {
	size_t image; /* floats before it in the image */
	size_t skip;  /* floats of the row that lie left of the image */
	size_t count; /* floats inside; 0: the row is outside */
};

/* The row `ky` of the patch at (oy, ox) of Y. */
static struct span row_of(const struct stretto_conv *conv, size_t oy, size_t ox, size_t ky)
{
	size_t top = oy * conv->stride + ky, left = ox * conv->stride;
	size_t first = left < conv->pad ? conv->pad - left : 0;
	size_t end = conv->width + conv->pad - left;

	if (end > conv->kernel)
		end = conv->kernel;
	if (top < conv->pad || top - conv->pad >= conv->height || first >= end)
		return (struct span){0};
	return (struct span){
		.image = ((top - conv->pad) * conv->width + left + first - conv->pad) *
			 conv->channels,
		.skip = first * conv->channels,
		.count = (end - first) * conv->channels,
	};
}

/* A loop and not memcpy(), because most rows are shorter than the call of it. */
static void copy(size_t count, const float *from, float *to)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		to[i] = from[i];
}

/* columns[positions, patch] of one image. */
static void gather(const struct stretto_conv *conv, const float *image, float *columns)
{
	const size_t high = stretto_conv_extent(conv, conv->height);
	const size_t wide = stretto_conv_extent(conv, conv->width);
	const size_t row = conv->kernel * conv->channels;

	for (size_t at = 0; at < high * wide; at++)
		for (size_t ky = 0; ky < conv->kernel; ky++, columns += row) {
			struct span span = row_of(conv, at / wide, at % wide, ky);

			if (span.count < row)
				memset(columns, 0, row * sizeof(*columns));
			copy(span.count, image + span.image, columns + span.skip);
		}
}

/* The transpose of gather(): adds each float of the columns where it came from. */
static void scatter(const struct stretto_conv *conv, const float *columns, float *image)
{
	const size_t high = stretto_conv_extent(conv, conv->height);
	const size_t wide = stretto_conv_extent(conv, conv->width);
	const size_t row = conv->kernel * conv->channels;

	for (size_t at = 0; at < high * wide; at++)
		for (size_t ky = 0; ky < conv->kernel; ky++, columns += row) {
			struct span span = row_of(conv, at / wide, at % wide, ky);
			const float *from = columns + span.skip;
			float *to = image + span.image;

			LOOP_INDEPENDENT
			for (size_t i = 0; i < span.count; i++)
				to[i] += from[i];
		}
}

/* The images [first, first + images) of a pass. */
struct part {
	size_t images;
	size_t rows; /* positions of all of them */
	size_t x;    /* floats of X before them */
	size_t y;    /* floats of Y before them */
};

static struct part part_of(const struct stretto_conv *conv, size_t rows, size_t first)
{
	size_t images = rows - first < block(conv) ? rows - first : block(conv);

	return (struct part){
		.images = images,
		.rows = images * positions(conv),
		.x = first * conv->height * conv->width * conv->channels,
		.y = first * positions(conv) * conv->out,
	};
}

static void gather_part(const struct stretto_conv *conv, const struct part *part, const float *x)
{
	size_t image = conv->height * conv->width * conv->channels;

	for (size_t i = 0; i < part->images; i++)
		gather(conv, x + part->x + i * image,
		       conv->columns + i * positions(conv) * patch(conv));
}

/* Image `i` of X with its padding, in the scratch if there is any; its edges were zeroed before. */
static const float *with_padding(const struct stretto_conv *conv,
				 const struct stretto_direct_shape *shape, const float *x, size_t i)
{
	const float *image = x + i * conv->height * conv->width * conv->channels;

	if (conv->pad == 0)
		return image;
	copy_inside(shape, conv->height, conv->width, image, conv->columns);
	return conv->columns;
}

static void zero_padding(const struct stretto_conv *conv, const struct stretto_direct_shape *shape)
{
	if (conv->pad > 0)
		memset(conv->columns, 0, shape_size(shape) * sizeof(*conv->columns));
}

void stretto_conv_forward(const struct stretto_conv *conv, size_t rows, const float *x,
			  const float *w, const float *b, float *y)
{
	const struct stretto_direct *direct = direct_forward(conv);
	const struct stretto_direct_shape shape = padded_x(conv);
	const blasint n = (blasint)conv->out, k = (blasint)patch(conv);

	if (direct) {
		zero_padding(conv, &shape);
		for (size_t i = 0; i < rows; i++)
			direct->forward(&shape, with_padding(conv, &shape, x, i), w, b,
					y + i * positions(conv) * conv->out);
		return;
	}

	for (size_t first = 0; first < rows; first += block(conv)) {
		struct part part = part_of(conv, rows, first);
		float *to = y + part.y;

		gather_part(conv, &part, x);
		for (size_t r = 0; r < part.rows; r++)
			copy(conv->out, b, to + r * conv->out);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)part.rows, n, k,
			    1.0f, conv->columns, k, w, n, 1.0f, to, n);
	}
}

void stretto_conv_backward_weights(const struct stretto_conv *conv, size_t rows, const float *x,
				   const float *dy, float *dw, float *db)
{
	const struct stretto_direct *direct = direct_forward(conv);
	const struct stretto_direct_shape shape = padded_x(conv);
	const blasint m = (blasint)patch(conv), n = (blasint)conv->out;

	memset(db, 0, conv->out * sizeof(*db));
	if (direct) {
		memset(dw, 0, patch(conv) * conv->out * sizeof(*dw));
		zero_padding(conv, &shape);
		for (size_t i = 0; i < rows; i++)
			direct->weights(&shape, with_padding(conv, &shape, x, i),
					dy + i * positions(conv) * conv->out, dw, db);
		return;
	}
	for (size_t first = 0; first < rows; first += block(conv)) {
		struct part part = part_of(conv, rows, first);
		const float *from = dy + part.y;

		gather_part(conv, &part, x);
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, (blasint)part.rows, 1.0f,
			    conv->columns, m, from, n, first == 0 ? 0.0f : 1.0f, dw, n);
		for (size_t r = 0; r < part.rows; r++)
			for (size_t j = 0; j < conv->out; j++)
				db[j] += from[r * conv->out + j];
	}
}

/* turned[ky, kx, j, c] = w[kernel - 1 - ky, kernel - 1 - kx, c, j] */
static void turn(const struct stretto_conv *conv, const float *w, float *turned)
{
	const size_t places = conv->kernel * conv->kernel;

	for (size_t at = 0; at < places; at++) {
		const float *from = w + (places - 1 - at) * conv->channels * conv->out;

		for (size_t j = 0; j < conv->out; j++)
			for (size_t c = 0; c < conv->channels; c++)
				*turned++ = from[c * conv->out + j];
	}
}

/* The gradient of X is the gradient of Y convolved with the turned weights. */
static void backward_direct(const struct stretto_conv *conv, const struct stretto_direct *direct,
			    size_t rows, const float *dy, const float *w, float *dx)
{
	const struct stretto_direct_shape shape = padded_dy(conv);
	const size_t high = stretto_conv_extent(conv, conv->height);
	const size_t wide = stretto_conv_extent(conv, conv->width);
	float *image = conv->columns, *turned = image + shape_size(&shape);
	float *zeros = turned + patch(conv) * conv->out;

	memset(image, 0, shape_size(&shape) * sizeof(*image));
	memset(zeros, 0, conv->channels * sizeof(*zeros));
	turn(conv, w, turned);
	for (size_t i = 0; i < rows; i++) {
		copy_inside(&shape, high, wide, dy + i * positions(conv) * conv->out, image);
		direct->forward(&shape, image, turned, zeros,
				dx + i * conv->height * conv->width * conv->channels);
	}
}

void stretto_conv_backward_input(const struct stretto_conv *conv, size_t rows, const float *dy,
				 const float *w, float *dx)
{
	const struct stretto_direct *direct = direct_input(conv);
	const size_t image = conv->height * conv->width * conv->channels;
	const blasint n = (blasint)patch(conv), k = (blasint)conv->out;

	if (direct) {
		backward_direct(conv, direct, rows, dy, w, dx);
		return;
	}

	memset(dx, 0, rows * image * sizeof(*dx));
	for (size_t first = 0; first < rows; first += block(conv)) {
		struct part part = part_of(conv, rows, first);

		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)part.rows, n, k, 1.0f,
			    dy + part.y, k, w, k, 0.0f, conv->columns, n);
		for (size_t i = 0; i < part.images; i++)
			scatter(conv, conv->columns + i * positions(conv) * patch(conv),
				dx + part.x + i * image);
	}
}
