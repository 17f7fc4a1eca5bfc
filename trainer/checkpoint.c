/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/log.h"

static const char magic[8] = {'S', 'T', 'R', 'E', 'T', 'T', 'O', 'C'};

enum { VERSION = 1, CRC = sizeof(uint32_t) };

/* What a file begins with. */
struct header {
	char magic[8];
	uint32_t version;
	uint32_t parts;
	uint64_t samples;
	uint32_t rank;
	uint32_t ranks;
};

/* What each part begins with. */
struct part_header {
	char name[STRETTO_CHECKPOINT_NAME];
	uint64_t bytes;
};

_Static_assert(sizeof(struct header) == 32, "the layout in checkpoint.h");
_Static_assert(sizeof(struct part_header) == 32, "the layout in checkpoint.h");

bool stretto_checkpoint_path(const char *folder, const struct stretto_checkpoint_id *id,
			     char path[STRETTO_CHECKPOINT_PATH])
{
	int length =
		snprintf(path, STRETTO_CHECKPOINT_PATH, "%s/samples-%012" PRIu64 ".rank-%u-of-%u",
			 folder, id->samples, id->rank, id->ranks);

	return length < STRETTO_CHECKPOINT_PATH;
}

/* Writes all, or notes the first failure. */
static void write_all(struct stretto_checkpoint_writer *writer, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	/* Without bytes there may be no address, which zlib takes for a wish to begin anew. */
	if (bytes == 0)
		return;
	writer->crc = (uint32_t)crc32_z(writer->crc, at, bytes);
	while (bytes > 0 && writer->error == 0) {
		ssize_t written = write(writer->file, at, bytes);

		if (written < 0 && errno != EINTR)
			writer->error = errno;
		if (written > 0) {
			at += written;
			bytes -= (size_t)written;
		}
	}
}

void stretto_checkpoint_create(struct stretto_checkpoint_writer *writer, const char *folder,
			       const struct stretto_checkpoint_id *id, size_t parts)
{
	struct header header = {.version = VERSION,
				.parts = (uint32_t)parts,
				.samples = id->samples,
				.rank = id->rank,
				.ranks = id->ranks};
	int length;

	*writer = (struct stretto_checkpoint_writer){.folder = folder, .file = -1};
	memcpy(header.magic, magic, sizeof(magic));
	if (!stretto_checkpoint_path(folder, id, writer->final))
		writer->error = ENAMETOOLONG;
	length = snprintf(writer->temporary, sizeof(writer->temporary), "%s/.rank-%u.partial",
			  folder, id->rank);
	if (length >= STRETTO_CHECKPOINT_PATH)
		writer->error = ENAMETOOLONG;
	if (writer->error == 0) {
		writer->file =
			open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		writer->error = writer->file < 0 ? errno : 0;
	}
	write_all(writer, &header, sizeof(header));
}

void stretto_checkpoint_put(struct stretto_checkpoint_writer *writer, const char *name,
			    const void *data, size_t bytes)
{
	struct part_header header = {.bytes = bytes};

	snprintf(header.name, sizeof(header.name), "%s", name);
	write_all(writer, &header, sizeof(header));
	if (bytes > 0)
		write_all(writer, data, bytes);
}

/* Makes the rename last. */
static int flush_folder(const char *folder)
{
	int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = file < 0 || fsync(file) != 0 ? errno : 0;

	if (file >= 0)
		close(file);
	return error;
}

stretto_status stretto_checkpoint_commit(struct stretto_checkpoint_writer *writer)
{
	uint32_t crc = writer->crc;

	write_all(writer, &crc, sizeof(crc));
	if (writer->error == 0 && fsync(writer->file) != 0)
		writer->error = errno;
	if (writer->file >= 0 && close(writer->file) != 0 && writer->error == 0)
		writer->error = errno;
	if (writer->error == 0 && rename(writer->temporary, writer->final) != 0)
		writer->error = errno;
	if (writer->error == 0)
		writer->error = flush_folder(writer->folder);
	if (writer->error == 0)
		return STRETTO_OK;
	if (writer->file >= 0)
		unlink(writer->temporary);
	stretto_error("checkpoint %s: cannot write it: %s", writer->final, strerror(writer->error));
	return STRETTO_SYSTEM;
}

/* Says what is wrong; returns STRETTO_INVALID. */
static stretto_status refuse(char *problem, const char *what, size_t offset)
{
	snprintf(problem, STRETTO_CHECKPOINT_PROBLEM, "damaged: %s, at offset %zu", what, offset);
	return STRETTO_INVALID;
}

static stretto_status parse_header(const uint8_t *bytes, size_t size,
				   struct stretto_checkpoint *checkpoint, char *problem)
{
	struct header header;

	if (size < sizeof(header) + CRC)
		return refuse(problem, "it ends too early", size);
	memcpy(&header, bytes, sizeof(header));
	if (memcmp(header.magic, magic, sizeof(magic)) != 0)
		return refuse(problem, "not a checkpoint", 0);
	if (header.version != VERSION) {
		snprintf(problem, STRETTO_CHECKPOINT_PROBLEM,
			 "version %u, but this program reads version %d", header.version, VERSION);
		return STRETTO_INVALID;
	}
	if (header.parts > STRETTO_CHECKPOINT_PARTS)
		return refuse(problem, "too many parts", offsetof(struct header, parts));
	if (header.ranks < 1 || header.ranks > STRETTO_CHECKPOINT_RANKS ||
	    header.rank >= header.ranks)
		return refuse(problem, "no such rank", offsetof(struct header, rank));
	*checkpoint = (struct stretto_checkpoint){.id = {header.samples, header.rank, header.ranks},
						  .count = header.parts};
	return STRETTO_OK;
}

static stretto_status parse_parts(const uint8_t *bytes, size_t end,
				  struct stretto_checkpoint *checkpoint, char *problem)
{
	size_t at = sizeof(struct header);

	for (size_t i = 0; i < checkpoint->count; i++) {
		struct part_header header;

		if (end - at < sizeof(header))
			return refuse(problem, "a part is missing", at);
		memcpy(&header, bytes + at, sizeof(header));
		if (!memchr(header.name, 0, sizeof(header.name)))
			return refuse(problem, "a name without an end", at);
		if (header.bytes > end - at - sizeof(header))
			return refuse(problem, "a part is longer than the file", at);
		checkpoint->parts[i] = (struct stretto_checkpoint_part){
			.name = (const char *)bytes + at,
			.data = bytes + at + sizeof(header),
			.bytes = (size_t)header.bytes,
		};
		at += sizeof(header) + (size_t)header.bytes;
	}
	return at == end ? STRETTO_OK : refuse(problem, "bytes after the last part", at);
}

stretto_status stretto_checkpoint_parse(const uint8_t *bytes, size_t size,
					struct stretto_checkpoint *checkpoint,
					char problem[STRETTO_CHECKPOINT_PROBLEM])
{
	struct stretto_checkpoint found;
	stretto_status status = parse_header(bytes, size, &found, problem);
	uint32_t crc;

	if (status != STRETTO_OK)
		return status;
	memcpy(&crc, bytes + size - CRC, sizeof(crc));
	if ((uint32_t)crc32_z(0, bytes, size - CRC) != crc)
		return refuse(problem, "the checksum is wrong", size - CRC);
	status = parse_parts(bytes, size - CRC, &found, problem);
	if (status == STRETTO_OK)
		*checkpoint = found;
	return status;
}

/* The whole of an open file. */
static stretto_status read_all(int file, uint8_t **out, size_t *size)
{
	struct stat found;
	uint8_t *bytes;
	size_t at = 0;
	ssize_t got = 1;

	if (fstat(file, &found) != 0)
		return STRETTO_SYSTEM;
	bytes = malloc((size_t)found.st_size + 1);
	if (!bytes)
		return STRETTO_NO_MEMORY;
	while (at < (size_t)found.st_size && got > 0) {
		got = read(file, bytes + at, (size_t)found.st_size - at);
		at += got > 0 ? (size_t)got : 0;
	}
	if (got < 0) {
		free(bytes);
		return STRETTO_SYSTEM;
	}
	*out = bytes;
	*size = at;
	return STRETTO_OK;
}

stretto_status stretto_checkpoint_read(const char *folder, const struct stretto_checkpoint_id *id,
				       struct stretto_checkpoint *checkpoint,
				       char problem[STRETTO_CHECKPOINT_PROBLEM])
{
	char path[STRETTO_CHECKPOINT_PATH];
	uint8_t *bytes = NULL;
	size_t size = 0;
	stretto_status status = STRETTO_SYSTEM;
	int file;

	errno = ENAMETOOLONG;
	file = stretto_checkpoint_path(folder, id, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file >= 0)
		status = read_all(file, &bytes, &size);
	if (status != STRETTO_OK)
		snprintf(problem, STRETTO_CHECKPOINT_PROBLEM, "cannot read it: %s",
			 strerror(errno));
	if (file >= 0)
		close(file);
	if (status != STRETTO_OK)
		return status;
	status = stretto_checkpoint_parse(bytes, size, checkpoint, problem);
	if (status == STRETTO_OK && memcmp(&checkpoint->id, id, sizeof(*id)) != 0)
		status = refuse(problem, "another file's contents",
				offsetof(struct header, samples));
	if (status == STRETTO_OK)
		checkpoint->bytes = bytes;
	else
		free(bytes);
	return status;
}

void stretto_checkpoint_fini(struct stretto_checkpoint *checkpoint)
{
	free(checkpoint->bytes);
	checkpoint->bytes = NULL;
	checkpoint->count = 0;
}

const struct stretto_checkpoint_part *
stretto_checkpoint_find(const struct stretto_checkpoint *checkpoint, const char *name)
{
	for (size_t i = 0; i < checkpoint->count; i++)
		if (strcmp(checkpoint->parts[i].name, name) == 0)
			return &checkpoint->parts[i];
	return NULL;
}

/* Whether a name in a folder is that of a checkpoint's file: made again from its numbers, it is the same. */
static bool parse_name(const char *name, struct stretto_checkpoint_id *id)
{
	char path[STRETTO_CHECKPOINT_PATH];

	return sscanf(name, "samples-%" SCNu64 ".rank-%u-of-%u", &id->samples, &id->rank,
		      &id->ranks) == 3 &&
	       id->ranks >= 1 && id->ranks <= STRETTO_CHECKPOINT_RANKS && id->rank < id->ranks &&
	       stretto_checkpoint_path("", id, path) && strcmp(path + 1, name) == 0;
}

bool stretto_checkpoint_latest(const char *folder, uint64_t before,
			       struct stretto_checkpoint_id *id)
{
	DIR *listing = opendir(folder);
	const struct dirent *entry;
	bool found = false;

	while (listing && (entry = readdir(listing))) {
		struct stretto_checkpoint_id it;

		if (!parse_name(entry->d_name, &it) || it.rank != 0 || it.samples >= before)
			continue;
		if (!found || it.samples > id->samples)
			*id = it;
		found = true;
	}
	if (listing)
		closedir(listing);
	return found;
}

void stretto_checkpoint_prune(const char *folder, const struct stretto_checkpoint_id *id)
{
	DIR *listing = opendir(folder);
	const struct dirent *entry;

	while (listing && (entry = readdir(listing))) {
		struct stretto_checkpoint_id it;

		/* A job of other ranks may have left files that no rank of now has the number of. */
		if (parse_name(entry->d_name, &it) && it.samples < id->samples &&
		    it.rank % id->ranks == id->rank)
			unlinkat(dirfd(listing), entry->d_name, 0);
	}
	if (listing)
		closedir(listing);
}
