//go:build bglm_release

// Binaries that are given away need no newer glibc than 2.28, which the servers of that age
// have. The linker binds each symbol in its newest version; those that got a newer one
// without a change for us are bound in their first one (--wrap in the Makefile sends every
// call here, those from Go's runtime and DuckDB's library too). The newer libgcc finds
// frames by a function of glibc 2.35; a loop over the loaded objects does the same.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include "glibc.h"

OLD(__pthread_key_create)
OLD(pthread_attr_getstack)
OLD(pthread_attr_getstacksize)
OLD(pthread_create)
OLD(pthread_getattr_np)
OLD(pthread_key_create)
OLD(pthread_once)
OLD(pthread_setspecific)
OLD(pthread_sigmask)

#ifdef DLFO_EH_SEGMENT_TYPE // of the headers of glibc 2.35 and later
static int holds(struct dl_phdr_info *info, size_t size, void *arg) {
	struct dl_find_object *out = arg;
	uintptr_t at = (uintptr_t)out->dlfo_map_start;
	const ElfW(Phdr) *in = NULL, *eh = NULL;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
			in = p;
		else if (p->p_type == DLFO_EH_SEGMENT_TYPE)
			eh = p;
	}
	if (!in)
		return 0;
	if (!eh)
		return -1;
	out->dlfo_map_start = (void *)(info->dlpi_addr + in->p_vaddr);
	out->dlfo_map_end = (char *)out->dlfo_map_start + in->p_memsz;
	out->dlfo_eh_frame = (void *)(info->dlpi_addr + eh->p_vaddr);
	return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void *pc, struct dl_find_object *out) {
	*out = (struct dl_find_object){.dlfo_map_start = pc};
	return dl_iterate_phdr(holds, out) == 1 ? 0 : -1;
}
#endif
