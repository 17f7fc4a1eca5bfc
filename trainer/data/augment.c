/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/augment.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/rng.h"

static const char expected[] = "expected crop[:PIXELS] (1 to 64) or flip, or both with a comma";

/* Reads the word at *text, and moves on to its end; false if it is none, or was there before. */
static bool parse_word(const char **text, struct stretto_augment *augment)
{
	if (strncmp(*text, "flip", 4) == 0 && !augment->flip) {
		augment->flip = true;
		*text += 4;
		return true;
	}
	if (strncmp(*text, "crop", 4) != 0 || augment->border > 0)
		return false;
	augment->border = STRETTO_AUGMENT_BORDER;
	*text += 4;
	if (**text == ':') {
		const char *digits = *text + 1;
		char *end;

		augment->border = strtoul(digits, &end, 10);
		*text = end;
		return *digits >= '0' && *digits <= '9' && augment->border >= 1 &&
		       augment->border <= STRETTO_AUGMENT_BORDER_MOST;
	}
	return true;
}

const char *stretto_augment_parse(const char *text, struct stretto_augment *augment)
{
	struct stretto_augment found = {.border = 0};

	while (parse_word(&text, &found)) {
		if (*text == '\0') {
			*augment = found;
			return NULL;
		}
		if (*text++ != ',')
			break;
	}
	return expected;
}

struct stretto_augment_draw stretto_augment_draw(const struct stretto_augment *augment,
						 uint64_t seed, size_t epoch, uint32_t sample)
{
	struct stretto_augment_draw draw = {.down = 0};
	struct stretto_rng rng;

	/* Streams below 2^32 are those of the weights and the shuffles. */
	stretto_rng_init(&rng, seed, ((uint64_t)epoch + 1) << 32 | sample);
	if (augment->border > 0) {
		uint32_t places = 2 * (uint32_t)augment->border + 1;

		draw.down = (int)stretto_rng_below(&rng, places) - (int)augment->border;
		draw.right = (int)stretto_rng_below(&rng, places) - (int)augment->border;
	}
	if (augment->flip)
		draw.flip = stretto_rng_below(&rng, 2) == 1;
	return draw;
}

/* A row of `width` pixels from left to right in place. */
static void mirror(uint8_t *row, size_t width, size_t channels)
{
	for (size_t i = 0, j = width - 1; i < j; i++, j--)
		for (size_t c = 0; c < channels; c++) {
			uint8_t other = row[i * channels + c];

			row[i * channels + c] = row[j * channels + c];
			row[j * channels + c] = other;
		}
}

void stretto_augment_image(const struct stretto_image_shape *shape,
			   const struct stretto_augment_draw *draw, const uint8_t *image,
			   uint8_t *out)
{
	size_t bytes = shape->width * shape->channels;
	size_t moved = (size_t)abs(draw->right) * shape->channels;
	size_t gap = moved < bytes ? moved : bytes;
	/* What is kept of a row begins at `from` in the image and at `to` in what is made of it. */
	size_t from = draw->right > 0 ? gap : 0, to = draw->right > 0 ? 0 : gap;

	for (size_t row = 0; row < shape->height; row++, out += bytes) {
		/* Wraps above the image, and is then beyond its last row too. */
		size_t source = row + (size_t)draw->down;

		if (source >= shape->height) {
			memset(out, 0, bytes);
			continue;
		}
		memset(out, 0, to);
		memcpy(out + to, image + source * bytes + from, bytes - gap);
		memset(out + to + bytes - gap, 0, gap - to);
		if (draw->flip)
			mirror(out, shape->width, shape->channels);
	}
}
