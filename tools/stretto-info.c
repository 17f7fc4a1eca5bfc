/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-info: what this build can do on this machine, the limits that matter to it, and every
 * setting with its value and where that is from; or, in a job, where its ranks are.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/kernels_internal.h"
#include "runtime/config.h"
#include "runtime/transport.h"
#include "tools/lib/job.h"
#include "tools/lib/machine.h"
#include "tools/lib/options.h"

enum { JSON = TOOL_LONG_ONLY, JOB };

static const struct tool_option options_table[] = {
	{"job", JOB, NULL, "under a launcher: where each rank of the job is, on rank 0"},
	{"json", JSON, NULL, "print JSON"},
	{NULL, 0, NULL, NULL},
};

static const struct tool tool = {
	"[OPTIONS]",
	"Shows the build, the transports and why each is usable or not, the limits, the settings.",
	options_table,
	"Exit: 0, 2 for a wrong command line or a malformed setting, 3 if the job does not meet.",
	false,
};

/* One line of a section. */
struct fact {
	char name[48];
	char value[1024];
};

static void set_fact(struct fact *fact, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void set_fact(struct fact *fact, const char *name, const char *format, ...)
{
	va_list args;

	snprintf(fact->name, sizeof fact->name, "%s", name);
	va_start(args, format);
	vsnprintf(fact->value, sizeof fact->value, format, args);
	va_end(args);
}

/* The first line of a file of /proc or /sys, or why it cannot be had. */
static void set_fact_of_file(struct fact *fact, const char *name, const char *path)
{
	char line[sizeof fact->value];
	FILE *file = fopen(path, "r");

	if (!file) {
		set_fact(fact, name, "unknown (%s: %s)", path, strerror(errno));
		return;
	}
	if (!fgets(line, sizeof line, file))
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	set_fact(fact, name, "%s", line);
}

static void set_fact_of_limit(struct fact *fact, const char *name, __rlimit_resource_t resource)
{
	struct rlimit limit;
	char soft[32] = "unlimited", hard[32] = "unlimited";

	if (getrlimit(resource, &limit) != 0) {
		set_fact(fact, name, "unknown (getrlimit: %s)", strerror(errno));
		return;
	}
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(soft, sizeof soft, "%llu", (unsigned long long)limit.rlim_cur);
	if (limit.rlim_max != RLIM_INFINITY)
		snprintf(hard, sizeof hard, "%llu", (unsigned long long)limit.rlim_max);
	set_fact(fact, name, "%s (hard limit %s)", soft, hard);
}

/* A process that only waits to be read from and killed. */
static pid_t fork_target(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	return child;
}

/* Reads a byte of the target from a sibling of it, as ranks are to each other; 0 or errno. */
static int read_as_sibling(pid_t target)
{
	static char byte = 1;
	char copy = 0;
	struct iovec local = {&copy, 1}, remote = {&byte, 1};
	int status;
	pid_t reader = fork();

	if (reader == 0)
		_exit(process_vm_readv(target, &local, 1, &remote, 1, 0) == 1 ? 0 : errno);
	if (reader < 0)
		return errno;
	if (waitpid(reader, &status, 0) != reader || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

static void set_fact_of_vm_readv(struct fact *fact)
{
	const char *name = "process_vm_readv";
	pid_t target;
	int error;

	fflush(stdout); /* or the children might print it again */
	target = fork_target();
	if (target < 0) {
		set_fact(fact, name, "unknown (fork: %s)", strerror(errno));
		return;
	}
	error = read_as_sibling(target);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	if (error == 0)
		set_fact(fact, name, "permitted between processes of this user");
	else
		set_fact(fact, name,
			 "refused between siblings: %s (kernel.yama.ptrace_scope, seccomp)",
			 strerror(error));
}

static size_t build_facts(struct fact *facts)
{
	struct utsname system;
	size_t n = 0;

	set_fact(&facts[n++], "version", "%s", stretto_version());
#if defined(__clang__)
	set_fact(&facts[n++], "compiler", "clang %s", __clang_version__);
#else
	set_fact(&facts[n++], "compiler", "gcc %s", __VERSION__);
#endif
#ifdef STRETTO_HAVE_HWLOC
	set_fact(&facts[n++], "hwloc", "yes");
#else
	set_fact(&facts[n++], "hwloc", "no (cores are chosen by the affinity mask alone)");
#endif
#ifdef STRETTO_HAVE_PMIX
	set_fact(&facts[n++], "pmix", "yes");
#else
	set_fact(&facts[n++], "pmix", "no (srun --mpi=pmi2 and stretto-run start jobs)");
#endif
	set_fact(&facts[n++], "kernels", "%s", stretto_kernels_chosen()->name);
	if (uname(&system) == 0)
		set_fact(&facts[n++], "system", "%s %s %s", system.sysname, system.release,
			 system.machine);
	return n;
}

static size_t transport_facts(struct fact *facts, const struct stretto_config *config)
{
	size_t n = 0;

	for (size_t i = 0; stretto_transports[i]; i++) {
		char why[1024] = "";
		bool usable = stretto_transports[i]->probe(config, why, sizeof why);

		/* a usable one says so itself, and for what */
		set_fact(&facts[n++], stretto_transports[i]->name, "%s%s",
			 usable ? "" : "not usable: ", why);
	}
#ifndef STRETTO_HAVE_VERBS
	set_fact(&facts[n++], "verbs", "not usable: built without libibverbs or librdmacm");
#endif
#ifndef STRETTO_HAVE_UCX
	set_fact(&facts[n++], "ucx", "not usable: built without UCX (libucp 1.13 or newer)");
#endif
	return n;
}

static size_t limit_facts(struct fact *facts)
{
	char cores[128];
	size_t n = 0;

	machine_cores(cores, sizeof cores);
	set_fact(&facts[n++], "cores online", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	set_fact(&facts[n++], "cores in the mask", "%s", cores);
	set_fact_of_limit(&facts[n++], "memlock", RLIMIT_MEMLOCK);
	set_fact_of_limit(&facts[n++], "open files", RLIMIT_NOFILE);
	set_fact_of_limit(&facts[n++], "address space", RLIMIT_AS);
	set_fact_of_file(&facts[n++], "vm.max_map_count", "/proc/sys/vm/max_map_count");
	set_fact_of_file(&facts[n++], "huge pages", "/sys/kernel/mm/transparent_hugepage/enabled");
	set_fact_of_file(&facts[n++], "huge pages, shmem",
			 "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
	set_fact_of_vm_readv(&facts[n++]);
	return n;
}

static void print_text(const char *title, const struct fact *facts, size_t count)
{
	printf("%s\n", title);
	for (size_t i = 0; i < count; i++)
		printf("  %-18s %s\n", facts[i].name, facts[i].value);
}

static void print_json(const char *title, const struct fact *facts, size_t count)
{
	printf(" \"%s\": {", title);
	for (size_t i = 0; i < count; i++) {
		printf("%s\n  ", i ? "," : "");
		machine_json_text(stdout, facts[i].name);
		printf(": ");
		machine_json_text(stdout, facts[i].value);
	}
	printf("\n },\n");
}

static const char *source_name(enum stretto_setting_source source)
{
	return source == STRETTO_FROM_DEFAULT ? "default" : "environment";
}

/* The token lets anyone join the job: it is not for logs. */
static const char *shown(const struct stretto_setting *setting, const char *text)
{
	return strcmp(setting->name, "STRETTO_TOKEN") == 0 && *text ? "(set)" : text;
}

static void print_settings_text(void)
{
	printf("settings (value, default, source: help)\n");
	for (size_t i = 0; i < stretto_settings_count; i++) {
		const struct stretto_setting *setting = &stretto_settings[i];
		enum stretto_setting_source source;
		const char *text = stretto_config_text(setting, NULL, &source);

		printf("  %s = '%s' (default '%s', %s): %s\n", setting->name, shown(setting, text),
		       setting->default_value, source_name(source), setting->help);
	}
}

static void print_settings_json(void)
{
	printf(" \"settings\": [");
	for (size_t i = 0; i < stretto_settings_count; i++) {
		const struct stretto_setting *setting = &stretto_settings[i];
		enum stretto_setting_source source;
		const char *text = stretto_config_text(setting, NULL, &source);

		printf("%s\n  {\"name\": \"%s\", \"value\": ", i ? "," : "", setting->name);
		machine_json_text(stdout, shown(setting, text));
		printf(", \"default\": ");
		machine_json_text(stdout, setting->default_value);
		printf(", \"source\": \"%s\", \"help\": ", source_name(source));
		machine_json_text(stdout, setting->help);
		printf("}");
	}
	printf("\n ]\n");
}

int main(int argc, char **argv)
{
	void (*print)(const char *title, const struct fact *facts, size_t count) = print_text;
	struct stretto_config config;
	struct fact facts[24];
	bool json = false, job = false;

	for (int id = tool_next(&tool, argc, argv); id >= 0; id = tool_next(&tool, argc, argv))
		*(id == JOB ? &job : &json) = true;
	if (optind < argc)
		tool_fail("'%s' is too much", argv[optind]);
	if (stretto_config_load(&config, NULL) != STRETTO_OK)
		return TOOL_USAGE; /* the log has said which setting */
	if (job)
		return tool_end(job_show(json));
	if (json)
		print = print_json;
	printf(json ? "{\n" : "");
	print("build", facts, build_facts(facts));
	print("transports", facts, transport_facts(facts, &config));
	print("limits", facts, limit_facts(facts));
	if (json)
		print_settings_json();
	else
		print_settings_text();
	printf(json ? "}\n" : "");
	return tool_end(0);
}
