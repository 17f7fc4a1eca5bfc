/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/conv.h"

#include <cblas.h>
#include <string.h>

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

size_t stretto_conv_scratch(const struct stretto_conv *conv)
{
	return block(conv) * positions(conv) * patch(conv);
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

void stretto_conv_forward(const struct stretto_conv *conv, size_t rows, const float *x,
			  const float *w, const float *b, float *y)
{
	const blasint n = (blasint)conv->out, k = (blasint)patch(conv);

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
	const blasint m = (blasint)patch(conv), n = (blasint)conv->out;

	memset(db, 0, conv->out * sizeof(*db));
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

void stretto_conv_backward_input(const struct stretto_conv *conv, size_t rows, const float *dy,
				 const float *w, float *dx)
{
	const size_t image = conv->height * conv->width * conv->channels;
	const blasint n = (blasint)patch(conv), k = (blasint)conv->out;

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
