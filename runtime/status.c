/* SPDX-License-Identifier: BSD-3-Clause */
/* status.c: the texts of the status codes, made from the one map in stretto.h. */
#include "runtime/stretto.h"

#define TEXT_OF(x)   #x
#define STRING_OF(x) TEXT_OF(x)

const char *stretto_status_text(stretto_status status)
{
	switch (status) {
#define X(name, value, text)                                                                       \
	case name:                                                                                 \
		return text;
		STRETTO_STATUS_MAP(X)
#undef X
	}
	return "unknown status";
}

const char *stretto_status_name(stretto_status status)
{
	switch (status) {
#define X(name, value, text)                                                                       \
	case name:                                                                                 \
		return #name;
		STRETTO_STATUS_MAP(X)
#undef X
	}
	return "STRETTO_?";
}

const char *stretto_version(void)
{
	return STRING_OF(STRETTO_VERSION_MAJOR) "." STRING_OF(STRETTO_VERSION_MINOR) "." STRING_OF(
		STRETTO_VERSION_PATCH);
}
