/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_train_conv.c: convolutions by every way there is, bit for bit against sums by their definition.
 * All numbers are small integers, so that every order of additions gives the same float.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/conv.h"
#include "trainer/layers/direct.h"
#include "trainer/rng.h"

enum { SEED = 11, GUARD = 16 };

static float *floats(size_t count)
{
	float *memory = malloc((count + GUARD) * sizeof(*memory));

	assert_non_null(memory);
	for (size_t i = 0; i < count + GUARD; i++)
		memory[i] =
			NAN; /* who reads what was not written, or leaves something out, is seen */
	return memory;
}

static float *integers(struct stretto_rng *rng, size_t count)
{
	float *memory = floats(count);

	for (size_t i = 0; i < count; i++)
		memory[i] = roundf(stretto_rng_uniform(rng, -3.4f, 3.4f));
	return memory;
}

static void check_guard(const float *memory, size_t count)
{
	for (size_t i = count; i < count + GUARD; i++)
		assert_true(isnan(memory[i]));
}

/* A convolution of `rows` images with all its arrays. */
struct conv_case {
	struct stretto_conv conv;
	size_t rows, high, wide;
	size_t x_count, w_count, y_count, scratch;
	float *x, *w, *b, *y, *dy, *dx, *dw, *db;
};

static struct conv_case case_new(struct stretto_conv conv, size_t rows, struct stretto_rng *rng)
{
	struct conv_case all = {
		.conv = conv,
		.rows = rows,
		.high = stretto_conv_extent(&conv, conv.height),
		.wide = stretto_conv_extent(&conv, conv.width),
		.scratch = stretto_conv_scratch(&conv),
	};

	all.x_count = rows * conv.height * conv.width * conv.channels;
	all.w_count = conv.kernel * conv.kernel * conv.channels * conv.out;
	all.y_count = rows * all.high * all.wide * conv.out;
	all.x = integers(rng, all.x_count);
	all.w = integers(rng, all.w_count);
	all.b = integers(rng, conv.out);
	all.dy = integers(rng, all.y_count);
	all.y = floats(all.y_count);
	all.dx = floats(all.x_count);
	all.dw = floats(all.w_count);
	all.db = floats(conv.out);
	all.conv.columns = floats(all.scratch);
	return all;
}

static void case_free(struct conv_case *all)
{
	check_guard(all->y, all->y_count);
	check_guard(all->dx, all->x_count);
	check_guard(all->dw, all->w_count);
	check_guard(all->db, all->conv.out);
	check_guard(all->conv.columns, all->scratch);
	free(all->x);
	free(all->w);
	free(all->b);
	free(all->dy);
	free(all->y);
	free(all->dx);
	free(all->dw);
	free(all->db);
	free(all->conv.columns);
}

/* One product of the definition: elements of X, W and Y that belong together. */
typedef void (*visitor)(void *context, size_t x, size_t w, size_t y);

/* Visits the products of one position of Y that lie inside the image. */
static void visit_position(const struct conv_case *all, size_t image, size_t oy, size_t ox,
			   visitor visit, void *context)
{
	const struct stretto_conv *conv = &all->conv;

	for (size_t at = 0; at < conv->kernel * conv->kernel * conv->channels; at++) {
		size_t c = at % conv->channels, kx = at / conv->channels % conv->kernel;
		size_t ky = at / conv->channels / conv->kernel;
		size_t iy = oy * conv->stride + ky - conv->pad; /* wraps where it is outside */
		size_t ix = ox * conv->stride + kx - conv->pad;

		if (iy >= conv->height || ix >= conv->width)
			continue;
		for (size_t j = 0; j < conv->out; j++)
			visit(context,
			      ((image * conv->height + iy) * conv->width + ix) * conv->channels + c,
			      at * conv->out + j,
			      ((image * all->high + oy) * all->wide + ox) * conv->out + j);
	}
}

static void visit_all(const struct conv_case *all, visitor visit, void *context)
{
	for (size_t image = 0; image < all->rows; image++)
		for (size_t oy = 0; oy < all->high; oy++)
			for (size_t ox = 0; ox < all->wide; ox++)
				visit_position(all, image, oy, ox, visit, context);
}

/* What must come out, by definition. */
struct wanted {
	const struct conv_case *all;
	float *y, *dx, *dw;
};

static void add_product(void *context, size_t x, size_t w, size_t y)
{
	struct wanted *wanted = context;

	wanted->y[y] += wanted->all->x[x] * wanted->all->w[w];
	wanted->dx[x] += wanted->all->dy[y] * wanted->all->w[w];
	wanted->dw[w] += wanted->all->dy[y] * wanted->all->x[x];
}

static void assert_same(const char *what, const struct stretto_conv *conv, const float *found,
			const float *wanted, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!(found[i] == wanted[i]))
			fail_msg(
				"%s[%zu] of %zux%zux%zu to %zu, kernel %zu, stride %zu, pad %zu is "
				"%g, not %g",
				what, i, conv->height, conv->width, conv->channels, conv->out,
				conv->kernel, conv->stride, conv->pad, (double)found[i],
				(double)wanted[i]);
}

static void check_bias(const struct conv_case *all)
{
	for (size_t j = 0; j < all->conv.out; j++) {
		float sum = 0;

		for (size_t p = j; p < all->y_count; p += all->conv.out)
			sum += all->dy[p];
		assert_true(all->db[j] == sum);
	}
}

static void check_case(struct stretto_conv conv, size_t rows, struct stretto_rng *rng)
{
	struct conv_case all = case_new(conv, rows, rng);
	struct wanted wanted = {&all, calloc(all.y_count, sizeof(float)),
				calloc(all.x_count, sizeof(float)),
				calloc(all.w_count, sizeof(float))};

	assert_true(wanted.y && wanted.dx && wanted.dw);
	for (size_t i = 0; i < all.y_count; i++)
		wanted.y[i] = all.b[i % conv.out];
	visit_all(&all, add_product, &wanted);
	stretto_conv_forward(&all.conv, rows, all.x, all.w, all.b, all.y);
	stretto_conv_backward_weights(&all.conv, rows, all.x, all.dy, all.dw, all.db);
	stretto_conv_backward_input(&all.conv, rows, all.dy, all.w, all.dx);
	assert_same("y", &conv, all.y, wanted.y, all.y_count);
	assert_same("dx", &conv, all.dx, wanted.dx, all.x_count);
	assert_same("dw", &conv, all.dw, wanted.dw, all.w_count);
	check_bias(&all);
	free(wanted.y);
	free(wanted.dx);
	free(wanted.dw);
	case_free(&all);
}

/* Kernels, strides and paddings with channels that fill vectors of one length, of both, of none. */
static void convolutions_are_their_definition(void **state)
{
	static const size_t channels[] = {1, 3, 8, 16}, outs[] = {1, 8, 10, 16, 24};
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 0);
	for (size_t at = 0; at < 4 * 5 * 3 * 2 * 3; at++) {
		struct stretto_conv conv = {
			.channels = channels[at % 4],
			.out = outs[at / 4 % 5],
			.kernel = 1 + 2 * (at / 20 % 3),
			.stride = 1 + at / 60 % 2,
			.pad = at / 120,
		};

		if (conv.pad >= conv.kernel)
			continue;
		conv.height = conv.kernel + at % 7;
		conv.width = conv.kernel + at % 17;
		check_case(conv, 1 + at % 3, &rng);
	}
}

/* More images than one block of gathered patches holds, and rows of Y that end with each remainder. */
static void many_images_and_every_width(void **state)
{
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 1);
	check_case((struct stretto_conv){28, 28, 1, 3, 5, 1, 0, NULL}, 9, &rng);
	check_case((struct stretto_conv){28, 28, 1, 8, 5, 1, 0, NULL}, 3, &rng);
	for (size_t width = 3; width <= 20; width++)
		check_case((struct stretto_conv){4, width, 16, 16, 3, 1, 1, NULL}, 2, &rng);
}

/* The functions of each number of lanes, also those that this processor would not choose. */
static void every_instruction_set_is_the_definition(void **state)
{
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 2);
	for (size_t lanes = 4; lanes <= 16; lanes *= 2) {
		const struct stretto_direct *direct = stretto_direct_of(lanes);
		const struct stretto_direct_shape shape = {9, 16, 3, 2 * lanes, 5};
		struct stretto_conv conv = {9, 16, 3, 2 * lanes, 5, 1, 0, NULL};
		struct conv_case all = case_new(conv, 1, &rng), same = case_new(conv, 1, &rng);

		if (direct) {
			stretto_conv_forward(&all.conv, 1, all.x, all.w, all.b, all.y);
			direct->forward(&shape, all.x, all.w, all.b, same.y);
			assert_same("y", &conv, same.y, all.y, all.y_count);
			stretto_conv_backward_weights(&all.conv, 1, all.x, all.dy, all.dw, all.db);
			memset(same.dw, 0, all.w_count * sizeof(float));
			memset(same.db, 0, conv.out * sizeof(float));
			direct->weights(&shape, all.x, all.dy, same.dw, same.db);
			assert_same("dw", &conv, same.dw, all.dw, all.w_count);
			assert_same("db", &conv, same.db, all.db, conv.out);
		}
		case_free(&all);
		case_free(&same);
	}
}

/* Channels that fill the vectors of the processor go by them, others do not. */
static void the_widest_full_vectors_are_taken(void **state)
{
	size_t most = stretto_direct_of(16) ? 16 : stretto_direct_of(8) ? 8 : 4;

	(void)state;
	assert_int_equal(stretto_direct_of(4)->lanes, 4);
	assert_null(stretto_direct_of(2));
	assert_int_equal(stretto_direct_for(48)->lanes, most);
	assert_int_equal(stretto_direct_for(24)->lanes, most < 8 ? most : 8);
	assert_null(stretto_direct_for(10));
	assert_int_equal(stretto_direct_for(12) == NULL, most > 4);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(convolutions_are_their_definition),
		cmocka_unit_test(many_images_and_every_width),
		cmocka_unit_test(every_instruction_set_is_the_definition),
		cmocka_unit_test(the_widest_full_vectors_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
