/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/config.h"
#include "runtime/log.h"

/* Words of a line, and one more to see that there are too many. */
enum { WORDS = 5 };

struct words {
	char word[WORDS][STRETTO_TUNING_WORD];
	int count;
};

static const char *const levels[] = {"node", "across"};
static const char *const transports[] = {"shm", "verbs", "ucx"};

/* A key's name and range. */
static const struct {
	const char *name;
	double low, high;
} keys[STRETTO_TUNING_KEYS] = {
	{"latency", 1e-9, 10},
	{"per_byte", 1e-14, 1e-3},
	{"per_reduce", 1e-14, 1e-3},
	{"message", 1, 1 << 30},
};

__attribute__((format(printf, 2, 3))) static stretto_status
refuse(struct stretto_tuning_problem *problem, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(problem->text, sizeof problem->text, format, args);
	va_end(args);
	return STRETTO_INVALID;
}

static int find(const char *const *names, int count, const char *word)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], word) == 0)
			return i;
	return -1;
}

/* Cuts a line at blanks, and at '#', where a comment begins. */
static stretto_status cut(const char *line, size_t bytes, struct words *words,
			  struct stretto_tuning_problem *problem)
{
	size_t length = 0; /* of the word that goes on */

	words->count = 0;
	if (bytes >= STRETTO_TUNING_LINE)
		return refuse(problem, "a line has at most %d bytes", STRETTO_TUNING_LINE - 1);
	for (size_t i = 0; i < bytes && line[i] != '#'; i++) {
		if (line[i] == ' ' || line[i] == '\t' || (line[i] == '\r' && i + 1 == bytes)) {
			length = 0;
			continue;
		}
		if (line[i] < '!' || line[i] > '~')
			return refuse(problem, "byte %zu is not printable", i + 1);
		if (length == 0 && words->count == WORDS)
			return refuse(problem, "more than %d words", WORDS);
		if (length == 0)
			words->count++;
		if (length == STRETTO_TUNING_WORD - 1)
			return refuse(problem, "a word has at most %d bytes",
				      STRETTO_TUNING_WORD - 1);
		words->word[words->count - 1][length++] = line[i];
		words->word[words->count - 1][length] = '\0';
	}
	return STRETTO_OK;
}

/* "LEVEL TRANSPORT KEY VALUE" */
static stretto_status read_link(struct stretto_tuning *tuning, int level, const struct words *words,
				struct stretto_tuning_problem *problem)
{
	int transport, key = 0;
	double *value, number = 0;
	size_t bytes = 0;
	bool read;

	if (words->count != 4)
		return refuse(problem, "not \"%s TRANSPORT KEY VALUE\"", levels[level]);
	transport = find(transports, STRETTO_TUNING_TRANSPORTS, words->word[1]);
	if (transport < 0)
		return refuse(problem, "unknown transport \"%s\"; there are: shm, verbs, ucx",
			      words->word[1]);
	while (key < STRETTO_TUNING_KEYS && strcmp(keys[key].name, words->word[2]) != 0)
		key++;
	if (key == STRETTO_TUNING_KEYS)
		return refuse(problem,
			      "unknown key \"%s\"; there are: latency, per_byte, per_reduce, "
			      "message",
			      words->word[2]);
	if (key == STRETTO_TUNING_MESSAGE) {
		read = stretto_parse_bytes(words->word[3], &bytes) == STRETTO_OK;
		number = (double)bytes;
	} else {
		read = stretto_parse_seconds(words->word[3], &number) == STRETTO_OK;
	}
	if (!read || !(number >= keys[key].low && number <= keys[key].high))
		return refuse(problem, "%s \"%s\" is not a value from %g to %g", keys[key].name,
			      words->word[3], keys[key].low, keys[key].high);
	value = &tuning->values[level][transport][key];
	if (*value > 0)
		return refuse(problem, "%s of %s %s is given twice", keys[key].name, levels[level],
			      transports[transport]);
	*value = number;
	return STRETTO_OK;
}

/* "LOW-HIGH"; HIGH may be left out. */
static bool read_range(const char *text, size_t *low, size_t *high)
{
	const char *dash = strchr(text, '-');
	char first[STRETTO_TUNING_WORD];

	if (!dash)
		return false;
	snprintf(first, sizeof first, "%.*s", (int)(dash - text), text);
	*high = SIZE_MAX;
	return stretto_parse_bytes(first, low) == STRETTO_OK &&
	       (!dash[1] || stretto_parse_bytes(dash + 1, high) == STRETTO_OK) && *low <= *high;
}

/* "COLLECTIVE LOW-HIGH ALGORITHM" */
static stretto_status read_rule(struct stretto_tuning *tuning, const struct words *words,
				struct stretto_tuning_problem *problem)
{
	struct stretto_tuning_rule rule = {.line = problem->line};

	if (words->count != 3)
		return refuse(problem,
			      "unknown key \"%s\": a line is \"node|across TRANSPORT KEY VALUE\" "
			      "or \"COLLECTIVE LOW-HIGH ALGORITHM\"",
			      words->word[0]);
	if (!read_range(words->word[1], &rule.low, &rule.high))
		return refuse(problem, "\"%s\" is not a range of bytes such as 0-4096 or 64K-",
			      words->word[1]);
	if (tuning->rule_count == STRETTO_TUNING_RULES)
		return refuse(problem, "more than %d algorithms", STRETTO_TUNING_RULES);
	memcpy(rule.collective, words->word[0], sizeof rule.collective);
	memcpy(rule.algorithm, words->word[2], sizeof rule.algorithm);
	for (size_t i = 0; i < tuning->rule_count; i++) {
		const struct stretto_tuning_rule *other = &tuning->rules[i];

		if (strcmp(other->collective, rule.collective) == 0 && rule.low <= other->high &&
		    other->low <= rule.high)
			return refuse(problem, "the range overlaps that of line %u", other->line);
	}
	tuning->rules[tuning->rule_count++] = rule;
	return STRETTO_OK;
}

static stretto_status read_line(struct stretto_tuning *tuning, const struct words *words,
				bool *versioned, struct stretto_tuning_problem *problem)
{
	int level;

	if (!*versioned) {
		if (words->count != 2 || strcmp(words->word[0], "stretto-tuning") != 0)
			return refuse(problem, "a tuning file begins with \"stretto-tuning 1\"");
		if (strcmp(words->word[1], "1") != 0)
			return refuse(problem, "version \"%s\"; this library reads version 1",
				      words->word[1]);
		*versioned = true;
		return STRETTO_OK;
	}
	level = find(levels, STRETTO_TUNING_LEVELS, words->word[0]);
	return level >= 0 ? read_link(tuning, level, words, problem)
			  : read_rule(tuning, words, problem);
}

/* FNV-1a: tells files apart that differ by accident; never 0. */
static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	return hash ? hash : 1;
}

stretto_status stretto_tuning_parse(const char *text, size_t bytes, struct stretto_tuning *tuning,
				    struct stretto_tuning_problem *problem)
{
	bool versioned = false;
	stretto_status status = STRETTO_OK;

	memset(tuning, 0, sizeof *tuning);
	*problem = (struct stretto_tuning_problem){.line = 1};
	if (bytes > STRETTO_TUNING_BYTES)
		return refuse(problem, "a tuning file has at most %d bytes", STRETTO_TUNING_BYTES);
	for (size_t at = 0; at < bytes; problem->line++) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t length = end ? (size_t)(end - text) - at : bytes - at;
		/* zeroed: rules copy whole words */
		struct words words = {.count = 0};

		status = cut(text + at, length, &words, problem);
		if (status == STRETTO_OK && words.count > 0)
			status = read_line(tuning, &words, &versioned, problem);
		if (status != STRETTO_OK)
			return status;
		at += length + 1;
	}
	if (!versioned)
		return refuse(problem, "a tuning file begins with \"stretto-tuning 1\"");
	tuning->hash = hash_of(text, bytes);
	return STRETTO_OK;
}

stretto_status stretto_tuning_set(struct stretto_tuning *tuning, enum stretto_tuning_level level,
				  const char *transport, enum stretto_tuning_key key, double value,
				  struct stretto_tuning_problem *problem)
{
	int at = find(transports, STRETTO_TUNING_TRANSPORTS, transport);

	problem->line = 0;
	if (at < 0)
		return refuse(problem, "a tuning file cannot name the transport \"%s\"", transport);
	if (!(value >= keys[key].low && value <= keys[key].high))
		return refuse(problem, "%s of %s %s came out as %g, which is not from %g to %g",
			      keys[key].name, levels[level], transports[at], value, keys[key].low,
			      keys[key].high);
	tuning->values[level][at][key] = value;
	return STRETTO_OK;
}

/* A text that is cut when it is too long, and knows it. */
struct page {
	char *text;
	size_t size, used; /* used >= size: it was cut */
};

__attribute__((format(printf, 2, 3))) static void add(struct page *page, const char *format, ...)
{
	va_list args;
	int length;

	if (page->used >= page->size)
		return;
	va_start(args, format);
	length = vsnprintf(page->text + page->used, page->size - page->used, format, args);
	va_end(args);
	page->used += length > 0 ? (size_t)length : 0;
}

/* The fewest digits that are read as the same number. */
static void add_number(struct page *page, double value)
{
	char text[32];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	add(page, "%s", text);
}

static void add_values(struct page *page, const struct stretto_tuning *tuning, int level,
		       int transport)
{
	for (int key = 0; key < STRETTO_TUNING_KEYS; key++) {
		double value = tuning->values[level][transport][key];

		if (!(value > 0))
			continue;
		add(page, "%s %s %s ", levels[level], transports[transport], keys[key].name);
		if (key == STRETTO_TUNING_MESSAGE)
			add(page, "%zu", (size_t)value);
		else
			add_number(page, value);
		add(page, "\n");
	}
}

size_t stretto_tuning_print(const struct stretto_tuning *tuning, char *text, size_t size)
{
	struct page page = {.text = text, .size = size};

	add(&page, "stretto-tuning 1\n");
	for (int level = 0; level < STRETTO_TUNING_LEVELS; level++)
		for (int transport = 0; transport < STRETTO_TUNING_TRANSPORTS; transport++)
			add_values(&page, tuning, level, transport);
	for (size_t i = 0; i < tuning->rule_count; i++) {
		const struct stretto_tuning_rule *rule = &tuning->rules[i];

		add(&page, "%s %zu-", rule->collective, rule->low);
		if (rule->high != SIZE_MAX)
			add(&page, "%zu", rule->high);
		add(&page, " %s\n", rule->algorithm);
	}
	return page.used < size ? page.used : 0;
}

/* Reads at most `limit` bytes; -1 and errno on failure. */
static ssize_t read_file(const char *path, char *text, size_t limit)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = 1, used = 0;
	int error;

	if (fd < 0)
		return -1;
	while (got > 0 && (size_t)used < limit) {
		got = read(fd, text + used, limit - (size_t)used);
		used += got > 0 ? got : 0;
	}
	error = errno;
	close(fd);
	errno = error;
	return got < 0 ? -1 : used;
}

stretto_status stretto_tuning_load(const char *path, const struct stretto_tuning **tuning)
{
	struct stretto_tuning_problem problem;
	struct stretto_tuning *made;
	stretto_status status = STRETTO_NO_MEMORY;
	ssize_t bytes;
	char *text;

	if (!*path) {
		*tuning = NULL;
		return STRETTO_OK;
	}
	made = malloc(sizeof *made);
	text = malloc(STRETTO_TUNING_BYTES + 1);
	if (!made || !text)
		goto free_both;
	status = STRETTO_INVALID;
	bytes = read_file(path, text, STRETTO_TUNING_BYTES + 1);
	if (bytes < 0) {
		stretto_error("STRETTO_TUNING: %s cannot be read: %s", path, strerror(errno));
		goto free_both;
	}
	status = stretto_tuning_parse(text, (size_t)bytes, made, &problem);
	if (status != STRETTO_OK) {
		stretto_error("STRETTO_TUNING: %s, line %u: %s", path, problem.line, problem.text);
		goto free_both;
	}
	free(text);
	*tuning = made;
	return STRETTO_OK;
free_both:
	free(text);
	free(made);
	return status;
}

double stretto_tuning_value(const struct stretto_tuning *tuning, enum stretto_tuning_level level,
			    const char *transport, enum stretto_tuning_key key, double otherwise)
{
	int at = find(transports, STRETTO_TUNING_TRANSPORTS, transport);
	double value = tuning && at >= 0 ? tuning->values[level][at][key] : 0;

	return value > 0 ? value : otherwise;
}
