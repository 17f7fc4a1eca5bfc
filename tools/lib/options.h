/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.h: the command line of a tool, from one table.
 *
 * A tool describes itself in a struct tool and loops:
 *
 *	while ((id = tool_next(&tool, argc, argv)) >= 0)
 *		switch (id) {
 *		case 'n':
 *			ranks = tool_int("-n", optarg, 1, 4096);
 *			...
 *
 * and finds its operands from argv[optind] on. -h/--help and -V/--version are added to every table
 * and answered here, on stdout, with exit 0. Whatever is wrong with the command line ends the
 * program with status 2 after one line on stderr: "PROGRAM: what is wrong; see PROGRAM --help".
 *
 * Threads: the main thread only (it is getopt_long underneath).
 */
#ifndef STRETTO_TOOLS_OPTIONS_H
#define STRETTO_TOOLS_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

/* Exit status after a wrong command line. */
enum { TOOL_USAGE = 2 };
/* Most rows of a table. */
enum { TOOL_OPTIONS_MAX = 48 };
/* Options without a letter are numbered from here. */
enum { TOOL_LONG_ONLY = 256 };

/* One option: "-ID, --NAME ARGUMENT   HELP". */
struct tool_option {
	const char *name;     /* long name, without dashes */
	int id;               /* what tool_next() returns: a letter, or >= TOOL_LONG_ONLY */
	const char *argument; /* placeholder shown by --help, NULL for a flag */
	const char *help;     /* what it does; may hold newlines */
};

struct tool {
	const char *usage;                 /* what follows the program's name in the usage line */
	const char *summary;               /* what the program does, one sentence */
	const struct tool_option *options; /* ended by a row without name */
	const char *notes;                 /* printed after the options; NULL for none */
	bool stop_at_operand;              /* options end at the first operand, as for a launcher */
};

/* The id of the next option, its value in optarg; -1 at the end of the options. */
int tool_next(const struct tool *tool, int argc, char **argv);

/*
 * Ends the output: `code` if stdout took everything, else 1 (or `code`, if it is not 0) after one
 * line on stderr. What main() returns.
 */
int tool_end(int code);

/* Prints the help text to stdout. */
void tool_help(const struct tool *tool);

/* "PROGRAM: text; see PROGRAM --help" on stderr, and exit with TOOL_USAGE. */
_Noreturn void tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "PROGRAM: text" on stderr, and exit with `code`: for failures that are not the command line's. */
_Noreturn void tool_die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The value of option `name` (as the user writes it: "-n", "--ranks"), or tool_fail(). */
long tool_int(const char *name, const char *text, long low, long high);
double tool_double(const char *name, const char *text, double low, double high);
size_t tool_bytes(const char *name, const char *text, size_t low, size_t high);   /* 64K, 1M */
double tool_seconds(const char *name, const char *text, double low, double high); /* 5, 20us */

#endif
