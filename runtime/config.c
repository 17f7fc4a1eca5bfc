/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/log.h"

extern char **environ;

#define FIELD(field) offsetof(struct stretto_config, field)
#define INT          STRETTO_SETTING_INT
#define BYTES        STRETTO_SETTING_BYTES
#define SECONDS      STRETTO_SETTING_SECONDS
#define TEXT         STRETTO_SETTING_TEXT
#define BOOL         STRETTO_SETTING_BOOL
#define PACE         STRETTO_SETTING_PACE
#define CONNECT      STRETTO_SETTING_CONNECT

/* clang-format off */
const struct stretto_setting stretto_settings[] = {
	{"STRETTO_RANK", "-1", "rank of this process; set by stretto-run", INT, FIELD(rank), -1, INT_MAX},
	{"STRETTO_SIZE", "-1", "number of ranks; set by stretto-run", INT, FIELD(size), -1, INT_MAX},
	{"STRETTO_LOCAL_RANK", "-1", "rank among those of this node; set by stretto-run", INT, FIELD(local_rank), -1, INT_MAX},
	{"STRETTO_LOCAL_SIZE", "-1", "number of ranks on this node; set by stretto-run", INT, FIELD(local_size), -1, INT_MAX},
	{"STRETTO_ROOT", "", "HOST:PORT where rank 0 listens for the others", TEXT, FIELD(root), 0, 0},
	{"STRETTO_TOKEN", "", "the job's secret: 32 hex digits, the same on all ranks", TEXT, FIELD(token), 0, 0},
	{"STRETTO_LISTEN_FD", "-1", "rank 0: descriptor of an inherited listening socket", INT, FIELD(listen_fd), -1, INT_MAX},
	{"STRETTO_TIMEOUT_SECONDS", "300", "deadline of each operation, 0 for none", SECONDS, FIELD(timeout_seconds), 0, 1e9},
	{"STRETTO_BOOTSTRAP_TIMEOUT_SECONDS", "60", "deadline for the ranks to meet and to part", SECONDS, FIELD(bootstrap_timeout_seconds), 0.001, 1e9},
	{"STRETTO_LOG", "warn", "what is logged: error, warn, info or debug", TEXT, FIELD(log_level), 0, 0},
	{"STRETTO_TRANSPORTS", "", "transports to use, the first that reaches a peer wins; empty for all", TEXT, FIELD(transports), 0, 0},
	{"STRETTO_NODE", "", "ranks of a host with another word here count as on another node; for tests", TEXT, FIELD(node), 0, 0},
	{"STRETTO_PACE", "0:0", "deliver as a link of RATE:LATENCY would, e.g. 10gbit:20us", PACE, FIELD(pace), 0, 0},
	{"STRETTO_CHANNELS", "1", "lanes (progress threads) that large operations are striped over", BYTES, FIELD(channels), 1, STRETTO_CHANNELS_MAX},
	{"STRETTO_SPIN_SECONDS", "-1", "how long a waiter polls before it sleeps; negative for auto", SECONDS, FIELD(spin_seconds), -1, 1},
	{"STRETTO_AFFINITY", "auto", "cores of the progress threads: auto, none, or a list such as 3,7", TEXT, FIELD(affinity), 0, 0},
	{"STRETTO_SHM_EAGER", "8K", "largest payload that shm copies through a slot", BYTES, FIELD(shm_eager_bytes), 0, 8192},
	{"STRETTO_SHM_CMA", "yes", "let shm read a peer's unregistered memory (process_vm_readv)", BOOL, FIELD(shm_cma), 0, 1},
	{"STRETTO_VERBS_DEVICES", "", "RDMA devices to use, or after '^' not to use, e.g. mlx5_0,mlx5_1; empty for all", TEXT, FIELD(verbs_devices), 0, 0},
	{"STRETTO_VERBS_CONNECT", "cm", "how RDMA connections are made: cm (librdmacm) or oob (without IP addresses)", CONNECT, FIELD(verbs_oob), 0, 1},
	{"STRETTO_VERBS_EAGER", "8K", "largest payload that verbs sends without announcement", BYTES, FIELD(verbs_eager_bytes), 64, 65536},
	{"STRETTO_VERBS_RETRY_SECONDS", "4", "how long an RDMA device repeats what the peer does not acknowledge", SECONDS, FIELD(verbs_retry_seconds), 0.01, 600},
	{"STRETTO_VERBS_CONNECT_SECONDS", "20", "how long a step of making an RDMA connection may take", SECONDS, FIELD(verbs_connect_seconds), 0.1, 3600},
	{"STRETTO_VERBS_RECONNECT_SECONDS", "0", "how long lost RDMA connections are tried anew; 0: their loss is final. The same on all ranks", SECONDS, FIELD(verbs_reconnect_seconds), 0, 3600},
	{"STRETTO_UCX_EAGER", "8K", "largest payload that ucx sends without announcement", BYTES, FIELD(ucx_eager_bytes), 64, 65536},
	{"STRETTO_ALGORITHM", "", "forced algorithms, e.g. allreduce=ring,broadcast=chain", TEXT, FIELD(algorithm), 0, 0},
	{"STRETTO_TUNING", "", "file of measured costs and algorithms (docs/tuning.md), the same on all ranks", TEXT, FIELD(tuning_file), 0, 0},
	{"STRETTO_REPRODUCIBLE", "no", "add in one order of the ranks, whatever the algorithm, size, windows, channels and nodes", BOOL, FIELD(reproducible), 0, 1},
	{"STRETTO_WINDOW", "0", "bytes of a long vector that one schedule covers, 0 for the algorithm's choice", BYTES, FIELD(window_bytes), 0, 1e12},
	{"STRETTO_WINDOWS", "3", "windows of one operation in flight", BYTES, FIELD(windows), 1, 64},
};
/* clang-format on */
const size_t stretto_settings_count = sizeof stretto_settings / sizeof *stretto_settings;

/* Scales a number by a suffix of the table; false when text is not exactly a number and a suffix.
 */
struct suffix {
	const char *text;
	double factor;
};

static bool parse_scaled(const char *text, const struct suffix *suffixes, double *value)
{
	char *end;
	double number;

	if (strpbrk(text, "xX")) /* strtod would take hex floats; inf and nan are not finite */
		return false;
	errno = 0;
	number = strtod(text, &end);
	if (end == text || errno != 0 || !isfinite(number) || isspace((unsigned char)*text))
		return false;
	for (; suffixes->text; suffixes++) {
		if (strcasecmp(end, suffixes->text) == 0) {
			*value = number * suffixes->factor;
			return isfinite(*value);
		}
	}
	return false;
}

stretto_status stretto_parse_bytes(const char *text, size_t *bytes)
{
	static const struct suffix suffixes[] = {
		{"", 1},
		{"B", 1},
		{"K", 1024},
		{"KiB", 1024},
		{"M", 1 << 20},
		{"MiB", 1 << 20},
		{"G", 1 << 30},
		{"GiB", 1 << 30},
		{"T", 1099511627776.0},
		{"TiB", 1099511627776.0},
		{NULL, 0},
	};
	double value;

	if (!parse_scaled(text, suffixes, &value) || value < 0 || value > 9e15 ||
	    value != floor(value))
		return STRETTO_INVALID;
	*bytes = (size_t)value;
	return STRETTO_OK;
}

stretto_status stretto_parse_seconds(const char *text, double *seconds)
{
	static const struct suffix suffixes[] = {
		{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {NULL, 0},
	};
	double value;

	if (!parse_scaled(text, suffixes, &value))
		return STRETTO_INVALID;
	*seconds = value;
	return STRETTO_OK;
}

stretto_status stretto_parse_pace(const char *text, struct stretto_pace *pace)
{
	static const struct suffix suffixes[] = {
		{"", 1},        {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
		{"bit", 0.125}, {"kbit", 125.0}, {"mbit", 125e3}, {"gbit", 125e6}, {NULL, 0},
	};
	const char *colon = strchr(text, ':');
	char rate[64];
	struct stretto_pace value;

	if (!colon || (size_t)(colon - text) >= sizeof rate)
		return STRETTO_INVALID;
	memcpy(rate, text, (size_t)(colon - text));
	rate[colon - text] = '\0';
	if (!parse_scaled(rate, suffixes, &value.bytes_per_second) ||
	    stretto_parse_seconds(colon + 1, &value.latency_seconds) != STRETTO_OK)
		return STRETTO_INVALID;
	if (value.bytes_per_second < 0 || value.latency_seconds < 0 || value.latency_seconds > 60)
		return STRETTO_INVALID;
	*pace = value;
	return STRETTO_OK;
}

static bool parse_bool(const char *text, bool *value)
{
	static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*value = i % 2 == 1;
			return true;
		}
	}
	return false;
}

static bool in_range(const struct stretto_setting *setting, double value)
{
	return value >= setting->low && value <= setting->high;
}

static bool parse_number(const struct stretto_setting *setting, const char *text, void *field)
{
	static const struct suffix none[] = {{"", 1}, {NULL, 0}};
	double value;
	size_t bytes;

	switch (setting->kind) {
	case STRETTO_SETTING_INT:
		if (!parse_scaled(text, none, &value) || value != floor(value) ||
		    !in_range(setting, value))
			return false;
		*(int *)field = (int)value;
		return true;
	case STRETTO_SETTING_BYTES:
		if (stretto_parse_bytes(text, &bytes) != STRETTO_OK ||
		    !in_range(setting, (double)bytes))
			return false;
		*(size_t *)field = bytes;
		return true;
	default:
		if (stretto_parse_seconds(text, &value) != STRETTO_OK || !in_range(setting, value))
			return false;
		*(double *)field = value;
		return true;
	}
}

static bool parse_value(const struct stretto_setting *setting, const char *text, void *field)
{
	switch (setting->kind) {
	case STRETTO_SETTING_TEXT:
		if (strlen(text) >= STRETTO_CONFIG_TEXT)
			return false;
		memcpy(field, text, strlen(text) + 1);
		return true;
	case STRETTO_SETTING_BOOL:
		return parse_bool(text, field);
	case STRETTO_SETTING_CONNECT:
		*(bool *)field = strcmp(text, "oob") == 0;
		return *(bool *)field || strcmp(text, "cm") == 0;
	case STRETTO_SETTING_PACE:
		return stretto_parse_pace(text, field) == STRETTO_OK;
	default:
		return parse_number(setting, text, field);
	}
}

static const char *form_of(const struct stretto_setting *setting)
{
	switch (setting->kind) {
	case STRETTO_SETTING_INT:
		return "a whole number";
	case STRETTO_SETTING_BYTES:
		return "a count or size such as 4096, 64K or 1M";
	case STRETTO_SETTING_SECONDS:
		return "a time such as 600, 0.5 or 20us";
	case STRETTO_SETTING_TEXT:
		return "a text of at most 255 bytes";
	case STRETTO_SETTING_BOOL:
		return "yes or no";
	case STRETTO_SETTING_CONNECT:
		return "cm or oob";
	case STRETTO_SETTING_PACE:
		return "RATE:LATENCY such as 10gbit:20us";
	}
	return "";
}

static const char *value_in(const char *const *settings, const char *name)
{
	size_t length = strlen(name);

	for (; settings && *settings; settings++)
		if (strncmp(*settings, name, length) == 0 && (*settings)[length] == '=')
			return *settings + length + 1;
	return NULL;
}

const char *stretto_config_text(const struct stretto_setting *setting, const char *const *settings,
				enum stretto_setting_source *source)
{
	const char *text = value_in(settings, setting->name);

	*source = STRETTO_FROM_CALL;
	if (text)
		return text;
	*source = STRETTO_FROM_ENVIRONMENT;
	text = getenv(setting->name);
	if (text)
		return text;
	*source = STRETTO_FROM_DEFAULT;
	return setting->default_value;
}

static bool known(const char *assignment)
{
	size_t length = strcspn(assignment, "=");

	for (size_t i = 0; i < stretto_settings_count; i++)
		if (strlen(stretto_settings[i].name) == length &&
		    strncmp(stretto_settings[i].name, assignment, length) == 0)
			return true;
	return false;
}

/* An unknown name is an error in a call, and only worth a warning in an inherited environment. */
static stretto_status check_names(const char *const *settings)
{
	for (; settings && *settings; settings++) {
		if (!strchr(*settings, '=') || !known(*settings)) {
			stretto_error("setting '%s' is not known; stretto-info lists the settings",
				      *settings);
			return STRETTO_INVALID;
		}
	}
	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, "STRETTO_", 8) == 0 &&
		    strncmp(*entry, "STRETTO_TEST_", 13) != 0 && !known(*entry))
			stretto_warn("environment variable %.*s is not a setting and is ignored; "
				     "stretto-info lists the settings",
				     (int)strcspn(*entry, "="), *entry);
	return STRETTO_OK;
}

static stretto_status apply_log_level(const struct stretto_config *config)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	for (int i = 0; i < 4; i++) {
		if (strcmp(config->log_level, names[i]) == 0) {
			stretto_log_set_level((enum stretto_log_level)i);
			return STRETTO_OK;
		}
	}
	stretto_error("STRETTO_LOG='%s' must be error, warn, info or debug", config->log_level);
	return STRETTO_INVALID;
}

stretto_status stretto_config_load(struct stretto_config *config, const char *const *settings)
{
	struct stretto_config loaded;
	stretto_status status;

	memset(&loaded, 0, sizeof loaded);
	for (size_t i = 0; i < stretto_settings_count; i++) {
		const struct stretto_setting *setting = &stretto_settings[i];
		enum stretto_setting_source source;
		const char *text = stretto_config_text(setting, settings, &source);

		if (!parse_value(setting, text, (char *)&loaded + setting->offset)) {
			stretto_error("%s='%.80s' must be %s%s", setting->name, text,
				      form_of(setting),
				      setting->high > setting->low ? " within its limits" : "");
			return STRETTO_INVALID;
		}
	}
	status = apply_log_level(&loaded);
	if (status == STRETTO_OK)
		status = check_names(settings);
	if (status == STRETTO_OK)
		*config = loaded;
	return status;
}
