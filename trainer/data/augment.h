/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * augment.h: training images moved and mirrored at random, the same way wherever they are trained on.
 *
 * crop:P takes an image from a random place of itself within a border of P black pixels: one of
 * (2P + 1)^2 places, each as likely. flip mirrors every second image from left to right. Source: He,
 * Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2016, section 4.2; before them Lee
 * et al., "Deeply-Supervised Nets", 2015.
 *
 * What is drawn follows from seed, epoch and sample alone: not from the rank, the batch or the thread
 * that has the sample, nor from what was drawn before. So a training that is resumed goes on with the
 * same images, and ranks that deal the samples out in another way see each as the others would.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_DATA_AUGMENT_H
#define STRETTO_TRAINER_DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pixels of crop's border: if none are given, and at most. */
enum { STRETTO_AUGMENT_BORDER = 4, STRETTO_AUGMENT_BORDER_MOST = 64 };

/* What is done to images; all zero: nothing. */
struct stretto_augment {
	size_t border; /* pixels on each side; 0: images stay in place */
	bool flip;
};

/* Of an image of bytes [height, width, channels], as data sets have them. */
struct stretto_image_shape {
	size_t height;
	size_t width;
	size_t channels;
};

/* What was drawn for a sample. */
struct stretto_augment_draw {
	int down;  /* rows that the image is cut lower in itself, -border to border */
	int right; /* columns, likewise */
	bool flip; /* after that */
};

/*
 * Reads "crop[:PIXELS],flip" or one of the two, and sets the rest to nothing. NULL if it is well, else
 * what was expected; then *augment is as before.
 */
const char *stretto_augment_parse(const char *text, struct stretto_augment *augment);

/* Whether it does anything. */
static inline bool stretto_augment_any(const struct stretto_augment *augment)
{
	return augment->border > 0 || augment->flip;
}

/* Draws for a sample (< 2^32, its place in the training data) in an epoch (from 0, < 2^31). */
struct stretto_augment_draw stretto_augment_draw(const struct stretto_augment *augment,
						 uint64_t seed, size_t epoch, uint32_t sample);

/*
 * Writes to out what `draw` makes of an image: the pixel at [row, column] is that of the image at
 * [row + down, column + right], or black (0 in all channels) beyond its sides; then mirrored. Both have
 * the shape, and do not overlap.
 */
void stretto_augment_image(const struct stretto_image_shape *shape,
			   const struct stretto_augment_draw *draw, const uint8_t *image,
			   uint8_t *out);

#endif
