/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.h: a circular doubly linked list whose links are embedded in the elements.
 *
 * The head is a link too. A link that is in no list points to itself, so that removing it again is
 * harmless. Threads: none; the owner of the list serialises.
 */
#ifndef STRETTO_RUNTIME_LIST_H
#define STRETTO_RUNTIME_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct stretto_list {
	struct stretto_list *next;
	struct stretto_list *prev;
};

/* The struct of `type` whose `member` is at `pointer`. */
#define stretto_container_of(pointer, type, member)                                                \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void stretto_list_init(struct stretto_list *link)
{
	link->next = link;
	link->prev = link;
}

static inline bool stretto_list_empty(const struct stretto_list *head)
{
	return head->next == head;
}

static inline void stretto_list_append(struct stretto_list *head, struct stretto_list *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void stretto_list_remove(struct stretto_list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	stretto_list_init(link);
}

#define STRETTO_LIST_FOR(it, head)                                                                 \
	for (struct stretto_list *it = (head)->next; it != (head); it = it->next)

/* The body may remove `it`. */
#define STRETTO_LIST_FOR_SAFE(it, head)                                                            \
	for (struct stretto_list *it = (head)->next, *it##_next = it->next; it != (head);          \
	     it = it##_next, it##_next = it->next)

#endif
