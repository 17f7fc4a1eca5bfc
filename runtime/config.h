/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h: everything that can be set, in one table.
 *
 * A setting has a name (the environment variable), a type, a default, a help line and a field of
 * struct stretto_config. Values come from, in this order: the settings given to stretto_init(), the
 * environment, the default. stretto-info prints the table with the values in force and their
 * source.
 *
 * Threads: a struct stretto_config is filled once and only read afterwards.
 */
#ifndef STRETTO_RUNTIME_CONFIG_H
#define STRETTO_RUNTIME_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/stretto.h"

struct stretto_tuning;

/* Bytes of a text setting, its end included; a longer value is refused. */
enum { STRETTO_CONFIG_TEXT = 256 };
/* Most channels of a process. */
enum { STRETTO_CHANNELS_MAX = 16 };

/* A link for the paced transport; bytes_per_second 0 means that nothing is paced. */
struct stretto_pace {
	double bytes_per_second;
	double latency_seconds;
};

struct stretto_config {
	/* Who we are; set by stretto-run. -1 / "" where not given. */
	int rank;
	int size;
	int local_rank;
	int local_size;
	char root[STRETTO_CONFIG_TEXT];  /* HOST:PORT where rank 0 listens */
	char token[STRETTO_CONFIG_TEXT]; /* the job's secret, hex digits */
	int listen_fd;                   /* rank 0: inherited listening socket; -1 for none */
	/* Deadlines. */
	double timeout_seconds;           /* of each operation; 0 = none */
	double bootstrap_timeout_seconds; /* of init and finalize */
	/* Runtime. */
	char log_level[STRETTO_CONFIG_TEXT];
	char node[STRETTO_CONFIG_TEXT];       /* splits the ranks of a host into nodes */
	char transports[STRETTO_CONFIG_TEXT]; /* comma list, first that reaches wins; "" = all */
	struct stretto_pace pace;
	size_t channels;
	double spin_seconds;                /* before a waiter sleeps; < 0 = auto */
	char affinity[STRETTO_CONFIG_TEXT]; /* of progress threads: auto, none or a core list */
	/* Shared memory transport. */
	size_t shm_eager_bytes;
	bool shm_cma; /* process_vm_readv allowed */
	/* Verbs transport. */
	char verbs_devices
		[STRETTO_CONFIG_TEXT]; /* comma list, after '^' of those left out; "" = all */
	bool verbs_oob;                /* connections without librdmacm */
	size_t verbs_eager_bytes;
	double verbs_retry_seconds;     /* a device repeats what is not acknowledged */
	double verbs_connect_seconds;   /* each step of making a connection */
	double verbs_reconnect_seconds; /* a lost connection may be made anew; 0 = is final */
	/* UCX transport. */
	size_t ucx_eager_bytes;
	/* Collectives. */
	char algorithm[STRETTO_CONFIG_TEXT];   /* "allreduce=ring,broadcast=chain"; "" = by cost */
	char tuning_file[STRETTO_CONFIG_TEXT]; /* see tuning.h; "" = none */
	const struct stretto_tuning *tuning;   /* read from it; NULL: none; the world owns it */
	bool reproducible;   /* reductions in the canonical order only; the same on all ranks */
	size_t window_bytes; /* of a long vector in one schedule; 0 = by algorithm */
	size_t windows;      /* in flight */
};

enum stretto_setting_kind {
	STRETTO_SETTING_INT,
	STRETTO_SETTING_BYTES,   /* 4096, 64K, 1M, 2G */
	STRETTO_SETTING_SECONDS, /* 600, 0.5, 20us, 5ms */
	STRETTO_SETTING_TEXT,
	STRETTO_SETTING_BOOL,    /* 0/1, no/yes, off/on, false/true */
	STRETTO_SETTING_CONNECT, /* cm or oob */
	STRETTO_SETTING_PACE,    /* RATE:LATENCY, such as 10gbit:20us or 1.25GB:5us */
};

/* One row of the table. */
struct stretto_setting {
	const char *name;          /* the environment variable */
	const char *default_value; /* as text, parsed like any other */
	const char *help;          /* one line */
	enum stretto_setting_kind kind;
	size_t offset; /* of the field in struct stretto_config */
	double low;    /* least value of a number */
	double high;   /* greatest value of a number */
};

/* Where a value came from. */
enum stretto_setting_source {
	STRETTO_FROM_DEFAULT,
	STRETTO_FROM_ENVIRONMENT,
	STRETTO_FROM_CALL,
};

/* The table and its number of rows. */
extern const struct stretto_setting stretto_settings[];
extern const size_t stretto_settings_count;

/*
 * Fills *config from `settings` ("NAME=value" strings ended by NULL; may be NULL), the environment
 * and the defaults. STRETTO_INVALID for a malformed value or an unknown name in `settings`; the log
 * says which and what it may be; an unknown STRETTO_ name in the environment is only warned of.
 */
stretto_status stretto_config_load(struct stretto_config *config, const char *const *settings);

/*
 * Finds the text of one setting and where it is from. Borrowed from settings, the environment or
 * the table.
 */
const char *stretto_config_text(const struct stretto_setting *setting, const char *const *settings,
				enum stretto_setting_source *source);

/* Parsers of single values, also used by the tools. All of the text must be used. */
stretto_status stretto_parse_bytes(const char *text, size_t *bytes);
stretto_status stretto_parse_seconds(const char *text, double *seconds);
stretto_status stretto_parse_pace(const char *text, struct stretto_pace *pace);

#endif
