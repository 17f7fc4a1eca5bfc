/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/config.h"
#include "runtime/stretto.h"

enum { HELP = 'h', VERSION = 'V' };

static const struct tool_option common[] = {
	{"help", HELP, NULL, "show this text"},
	{"version", VERSION, NULL, "show the version"},
	{NULL, 0, NULL, NULL},
};

static void complain(const char *format, va_list args, const char *tail)
{
	char text[1024];

	vsnprintf(text, sizeof text, format, args);
	fflush(stdout);
	if (tail)
		fprintf(stderr, "%s: %s; see %s %s\n", program_invocation_short_name, text,
			program_invocation_short_name, tail);
	else
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}

void tool_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args, "--help");
	va_end(args);
	exit(TOOL_USAGE);
}

void tool_die(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args, NULL);
	va_end(args);
	exit(code);
}

int tool_end(int code)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "%s: cannot write the output%s%s\n", program_invocation_short_name,
		errno ? ": " : "", errno ? strerror(errno) : "");
	return code ? code : EXIT_FAILURE;
}

static void print_options(const struct tool_option *option)
{
	for (; option->name; option++) {
		char left[64];
		const char *line = option->help;

		snprintf(left, sizeof left, "--%s%s%s", option->name, option->argument ? " " : "",
			 option->argument ? option->argument : "");
		if (option->id < TOOL_LONG_ONLY)
			printf("  -%c, %-26s", option->id, left);
		else
			printf("      %-26s", left);
		for (; strchr(line, '\n'); line = strchr(line, '\n') + 1)
			printf(" %.*s\n%32s", (int)strcspn(line, "\n"), line, "");
		printf(" %s\n", line);
	}
}

void tool_help(const struct tool *tool)
{
	printf("usage: %s %s\n%s\n\n", program_invocation_short_name, tool->usage, tool->summary);
	print_options(tool->options);
	print_options(common);
	if (tool->notes)
		printf("\n%s\n", tool->notes);
}

/* The tables in the form of getopt_long. */
struct getopt_form {
	struct option longs[TOOL_OPTIONS_MAX + 3]; /* with the common ones and an end mark */
	char letters[2 * TOOL_OPTIONS_MAX + 8];    /* modes, then each letter and its colon */
	size_t count;                              /* of longs */
	size_t used;                               /* of letters */
};

static void add_options(struct getopt_form *form, const struct tool_option *option)
{
	for (; option->name && form->count < TOOL_OPTIONS_MAX + 2; option++) {
		form->longs[form->count++] = (struct option){
			.name = option->name,
			.has_arg = option->argument ? required_argument : no_argument,
			.val = option->id,
		};
		if (option->id >= TOOL_LONG_ONLY)
			continue;
		form->letters[form->used++] = (char)option->id;
		if (option->argument)
			form->letters[form->used++] = ':';
	}
}

/* What getopt_long disliked: it leaves an id, an unknown letter, or (for a word) 0 in optopt. */
static _Noreturn void reject(const struct getopt_form *form, int answer, char **argv)
{
	for (size_t i = 0; i < form->count; i++) {
		if (optopt != 0 && form->longs[i].val == optopt)
			tool_fail("option --%s %s", form->longs[i].name,
				  answer == ':' ? "needs an argument" : "takes no argument");
	}
	if (optopt != 0)
		tool_fail("unknown option -%c", isprint(optopt) ? optopt : '?');
	tool_fail("unknown or ambiguous option %s", argv[optind - 1]);
}

int tool_next(const struct tool *tool, int argc, char **argv)
{
	struct getopt_form form = {.used = 0};
	int id;

	if (tool->stop_at_operand)
		form.letters[form.used++] = '+';
	form.letters[form.used++] = ':'; /* tells a missing argument from an unknown option */
	add_options(&form, tool->options);
	add_options(&form, common);
	opterr = 0;
	id = getopt_long(argc, argv, form.letters, form.longs, NULL);
	if (id == HELP) {
		tool_help(tool);
		exit(tool_end(EXIT_SUCCESS));
	}
	if (id == VERSION) {
		printf("%s %s\n", program_invocation_short_name, stretto_version());
		exit(tool_end(EXIT_SUCCESS));
	}
	if (id == '?' || id == ':')
		reject(&form, id, argv);
	return id;
}

long tool_int(const char *name, const char *text, long low, long high)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < low || value > high ||
	    isspace((unsigned char)*text))
		tool_fail("%s '%.80s' must be a whole number from %ld to %ld", name, text, low,
			  high);
	return value;
}

double tool_double(const char *name, const char *text, double low, double high)
{
	char *end;
	double value = strtod(text, &end);

	/* written so that NaN fails too */
	if (end == text || *end != '\0' || !(value >= low && value <= high))
		tool_fail("%s '%.80s' must be a number from %g to %g", name, text, low, high);
	return value;
}

size_t tool_bytes(const char *name, const char *text, size_t low, size_t high)
{
	size_t value;

	if (stretto_parse_bytes(text, &value) != STRETTO_OK || value < low || value > high)
		tool_fail("%s '%.80s' must be a size such as 4096, 64K or 1M, from %zu to %zu",
			  name, text, low, high);
	return value;
}

double tool_seconds(const char *name, const char *text, double low, double high)
{
	double value;

	if (stretto_parse_seconds(text, &value) != STRETTO_OK || !(value >= low && value <= high))
		tool_fail("%s '%.80s' must be a time such as 600, 0.5 or 20us, from %g to %g s",
			  name, text, low, high);
	return value;
}
