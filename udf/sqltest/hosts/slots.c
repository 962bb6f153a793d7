// An extension that writes the name of the function in each slot of the table that DuckDB
// hands over to the file that SLOTS names, one a line, as far as they are exported names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
	void (*set_error)(void *info, const char *msg);
	void *(*get_database)(void *info);
	void *const *(*get_api)(void *info, const char *version);
} access_table;

__attribute__((visibility("default"))) bool slots_init_c_api(void *info, access_table *access) {
	void *const *slots = access->get_api(info, "v1.2.0");
	FILE *out = fopen(getenv("SLOTS"), "w");
	if (!slots || !out)
		return false;
	Dl_info d;
	for (int i = 0; i < 2000 && slots[i] && dladdr(slots[i], &d) && d.dli_sname && d.dli_saddr == slots[i]; i++)
		fprintf(out, "%s\n", d.dli_sname);
	return fclose(out) == 0;
}
