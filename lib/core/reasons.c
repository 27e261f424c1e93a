// SPDX-License-Identifier: BSD-2-Clause
#include "core/reasons.h"
#include "mroce/drop_reasons.h"

const struct reason reasons[] = {
#define X(name, number, text) { #name, number, "drop", text },
	MROCE_DROP_LIST(X)
#undef X
#define X(name, number, text) { #name, number, "count", text },
		MROCE_COUNT_LIST(X)
#undef X
};

#define X(name, number, text) +1
const size_t ndrops = 0 MROCE_DROP_LIST(X);
const size_t nreasons = 0 MROCE_DROP_LIST(X) MROCE_COUNT_LIST(X);
#undef X

const char *reason_text(int number)
{
	for (size_t i = 0; i < nreasons; i++)
		if (reasons[i].number == number)
			return reasons[i].text;
	return "unknown reason";
}
