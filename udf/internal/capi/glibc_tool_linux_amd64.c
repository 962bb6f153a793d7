//go:build bglm_release && !bglm_extension

// What DuckDB's library and libstdc++ call in the tool, see glibc_linux_amd64.c.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "glibc.h"

OLD(dladdr)
OLD(dlclose)
OLD(dlerror)
OLD(dlopen)
OLD(dlsym)
OLD(exp)
OLD(log)
OLD(log2)
OLD(pow)
OLD(pthread_detach)
OLD(pthread_getspecific)
OLD(pthread_join)
OLD(pthread_key_delete)
OLD(pthread_mutex_trylock)
OLD(pthread_mutexattr_destroy)
OLD(pthread_mutexattr_init)
OLD(pthread_mutexattr_settype)
OLD(pthread_rwlock_destroy)
OLD(pthread_rwlock_init)
OLD(pthread_rwlock_rdlock)
OLD(pthread_rwlock_unlock)
OLD(pthread_rwlock_wrlock)
OLD(sem_destroy)
OLD(sem_init)
OLD(sem_post)
OLD(sem_timedwait)
OLD(sem_trywait)
OLD(sem_wait)
OLDER(pthread_setaffinity_np, 2.3.4)

// Before 2.34 glibc left the constructors of a program to the program's own start code,
// which newer compilers do not link any more.
typedef void (*constructor)(int, char **, char **);
extern constructor __init_array_start[] __attribute__((weak, visibility("hidden")));
extern constructor __init_array_end[] __attribute__((weak, visibility("hidden")));
extern void _init(void);

static void construct(int argc, char **argv, char **env) {
	_init();
	for (constructor *f = __init_array_start; f < __init_array_end; f++)
		(*f)(argc, argv, env);
}

__asm__(".symver old_libc_start_main, __libc_start_main@GLIBC_2.2.5");
extern int old_libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void *init, void (*fini)(void),
                               void (*rtld_fini)(void), void *stack_end);

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                                                                   void *init, void (*fini)(void),
                                                                   void (*rtld_fini)(void), void *stack_end) {
	return old_libc_start_main(main, argc, argv, init ? init : (void *)construct, fini, rtld_fini, stack_end);
}

// What the newer libstdc++ asks for.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
	uint32_t x;
	if (getentropy(&x, sizeof x) != 0)
		abort();
	return x;
}
