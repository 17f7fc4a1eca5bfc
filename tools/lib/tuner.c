/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/tuner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tuner_fit(const struct tuner_point *points, int count, struct tuner_line *line)
{
	double all = 0, x = 0, xx = 0, y = 0, xy = 0, determinant;

	for (int i = 0; i < count; i++) {
		double bytes = points[i].bytes, seconds = points[i].seconds;
		double weight = 1 / (seconds * seconds);

		if (!(seconds > 0) || !isfinite(weight))
			return false;
		all += weight;
		x += weight * bytes;
		xx += weight * bytes * bytes;
		y += weight * seconds;
		xy += weight * bytes * seconds;
	}
	determinant = all * xx - x * x;
	/* of one size it is 0 but for rounding */
	if (!(determinant > 1e-12 * all * xx))
		return false;
	line->latency = (xx * y - x * xy) / determinant;
	line->per_byte = (all * xy - x * y) / determinant;
	return true;
}

double tuner_message(const struct tuner_line *line)
{
	double bytes = 1;

	while (bytes * line->per_byte < 4 * line->latency && bytes < 1 << 30)
		bytes *= 2;
	return bytes;
}

double tuner_rounded(double value)
{
	char text[32];

	snprintf(text, sizeof text, "%.4g", value);
	return strtod(text, NULL);
}

/* Writes all and makes it last; 0, or an errno. Closes the file. */
static int fill(int file, const char *text, size_t bytes)
{
	int error = 0;

	for (size_t done = 0; done < bytes && error == 0;) {
		ssize_t put = write(file, text + done, bytes - done);

		if (put > 0)
			done += (size_t)put;
		else if (put == 0 || errno != EINTR)
			error = put == 0 ? ENOSPC : errno;
	}
	if (error == 0 && fsync(file) != 0)
		error = errno;
	if (close(file) != 0 && error == 0)
		error = errno;
	return error;
}

/* Makes the rename last. */
static int flush_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".";
	int file, error;

	if (slash)
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
	file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = file < 0 || fsync(file) != 0 ? errno : 0;
	if (file >= 0)
		close(file);
	return error;
}

int tuner_write(const char *path, const char *text, size_t bytes)
{
	char beside[PATH_MAX];
	int file, error, length;
	struct stat old;

	/* a rename would put a file where a device or a pipe was */
	if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
		return S_ISDIR(old.st_mode) ? EISDIR : ENOTSUP;
	length = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
	if (length < 0 || (size_t)length >= sizeof beside)
		return ENAMETOOLONG;
	file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (file < 0)
		return errno;
	error = fill(file, text, bytes);
	if (error == 0 && rename(beside, path) != 0)
		error = errno;
	if (error == 0)
		return flush_folder(path);
	unlink(beside);
	return error;
}
