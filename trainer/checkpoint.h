/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint.h: the file in which a rank keeps its part of a checkpoint.
 *
 *	offset 0   "STRETTOC"   magic
 *	       8   uint32       version, 1
 *	      12   uint32       number of parts
 *	      16   uint64       samples that all ranks had trained on
 *	      24   uint32       rank
 *	      28   uint32       ranks
 *	      32   parts        each: name[24] (ended by 0), uint64 bytes, the bytes
 *	   end-4   uint32       CRC-32 (zlib's) of all before it
 *
 * Numbers are in the order of the machine, which is little-endian wherever Stretto runs.
 *
 * A file is written under another name, flushed to the disk, and renamed; then the folder is flushed.
 * So a name such as samples-000000001280.rank-0-of-2 is there with the whole contents or not at all. A
 * checkpoint is complete if all its ranks' files are.
 *
 * Threads: one at a time for each struct.
 */
#ifndef STRETTO_TRAINER_CHECKPOINT_H
#define STRETTO_TRAINER_CHECKPOINT_H

#include <stdint.h>

#include "runtime/stretto.h"

enum {
	STRETTO_CHECKPOINT_NAME = 24,     /* bytes of a part's name, its end included */
	STRETTO_CHECKPOINT_PARTS = 64,    /* at most */
	STRETTO_CHECKPOINT_RANKS = 65536, /* at most */
	STRETTO_CHECKPOINT_PROBLEM = 256, /* bytes of the longest problem text */
	STRETTO_CHECKPOINT_PATH = 4096    /* bytes of the longest path, its end included */
};

/* Which file. */
struct stretto_checkpoint_id {
	uint64_t samples; /* trained on by all ranks together */
	uint32_t rank;    /* < ranks */
	uint32_t ranks;   /* of the job that wrote it, 1 to STRETTO_CHECKPOINT_RANKS */
};

struct stretto_checkpoint_part {
	const char *name;    /* in the file's bytes */
	const uint8_t *data; /* likewise, at any alignment */
	size_t bytes;
};

/* A file's contents. */
struct stretto_checkpoint {
	struct stretto_checkpoint_id id;
	struct stretto_checkpoint_part parts[STRETTO_CHECKPOINT_PARTS];
	size_t count;   /* of parts */
	uint8_t *bytes; /* of the file, owned; NULL after stretto_checkpoint_parse() alone */
};

/* A file that is being written. */
struct stretto_checkpoint_writer {
	char final[STRETTO_CHECKPOINT_PATH];     /* path when it is complete */
	char temporary[STRETTO_CHECKPOINT_PATH]; /* path until then */
	const char *folder;                      /* borrowed */
	int file;                                /* descriptor; -1: closed */
	uint32_t crc;                            /* of what was written */
	int error;                               /* errno of the first failure; 0: none */
};

/*
 * Creates the file of `parts` parts, which follow by stretto_checkpoint_put(). Failures, such as a full
 * disk, are kept until stretto_checkpoint_commit(). folder must live as long as the writer.
 */
void stretto_checkpoint_create(struct stretto_checkpoint_writer *writer, const char *folder,
			       const struct stretto_checkpoint_id *id, size_t parts);
void stretto_checkpoint_put(struct stretto_checkpoint_writer *writer, const char *name,
			    const void *data, size_t bytes);

/*
 * Ends the file, flushes and renames it. STRETTO_SYSTEM: something failed (logged), and the unfinished
 * file is gone. Blocks until the disk has it.
 */
stretto_status stretto_checkpoint_commit(struct stretto_checkpoint_writer *writer);

/*
 * Parses a whole file, bytes[size]; parts point into it. STRETTO_INVALID: problem[] says what is wrong,
 * and where. Pure.
 */
stretto_status stretto_checkpoint_parse(const uint8_t *bytes, size_t size,
					struct stretto_checkpoint *checkpoint,
					char problem[STRETTO_CHECKPOINT_PROBLEM]);

/*
 * Reads a rank's file. On failure problem[] is a line without the path: STRETTO_INVALID for the
 * contents, STRETTO_SYSTEM for what the system said, STRETTO_NO_MEMORY.
 */
stretto_status stretto_checkpoint_read(const char *folder, const struct stretto_checkpoint_id *id,
				       struct stretto_checkpoint *checkpoint,
				       char problem[STRETTO_CHECKPOINT_PROBLEM]);
void stretto_checkpoint_fini(struct stretto_checkpoint *checkpoint);

/* The part of that name; NULL: there is none. */
const struct stretto_checkpoint_part *
stretto_checkpoint_find(const struct stretto_checkpoint *checkpoint, const char *name);

/* The path of a rank's file; false if it is too long. */
bool stretto_checkpoint_path(const char *folder, const struct stretto_checkpoint_id *id,
			     char path[STRETTO_CHECKPOINT_PATH]);

/* The latest checkpoint of a folder, by rank 0's file, of fewer samples than `before`; false: none. */
bool stretto_checkpoint_latest(const char *folder, uint64_t before,
			       struct stretto_checkpoint_id *id);

/* Removes this rank's files of fewer samples than `id`. */
void stretto_checkpoint_prune(const char *folder, const struct stretto_checkpoint_id *id);

#endif
