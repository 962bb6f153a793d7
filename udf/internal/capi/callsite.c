// Which update calls carry one state for the whole chunk.
//
// DuckDB hands update a plain array of state pointers, but two of its callers
// (ordered aggregates and constant window frames) pass an array in which only
// the first entry is valid. The entries behind it are not random: they are
// often live states of other threads, so looking at them cannot decide. The
// code that called DuckDB's C-API wrapper can: each caller is of one kind.
#define _GNU_SOURCE
#include "callsite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unwind.h>

#if defined(__linux__)
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <mach/mach.h>
#include <mach/mach_vm.h>
#endif

enum { UNKNOWN = 0, FLAT = 1, CONSTANT = 2, CONFLICT = 3 };

#define NSITE 256u
static _Atomic uintptr_t site_ip[NSITE];
static _Atomic int site_kind[NSITE];
static pthread_mutex_t site_mu = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t n_fast, n_unwound, n_inspected;

static unsigned slot_of(uintptr_t ip) { return (unsigned)((ip * 0x9E3779B97F4A7C15ull) >> 56) % NSITE; }

static int site_get(uintptr_t ip) {
	for (unsigned k = 0, i = slot_of(ip); k < NSITE; k++, i = (i + 1) % NSITE) {
		uintptr_t have = atomic_load_explicit(&site_ip[i], memory_order_acquire);
		if (have == ip)
			return atomic_load_explicit(&site_kind[i], memory_order_acquire);
		if (have == 0)
			return UNKNOWN;
	}
	return UNKNOWN;
}

static void site_learn(uintptr_t ip, int kind) {
	pthread_mutex_lock(&site_mu);
	for (unsigned k = 0, i = slot_of(ip); k < NSITE; k++, i = (i + 1) % NSITE) {
		uintptr_t have = atomic_load(&site_ip[i]);
		if (have == ip) {
			if (atomic_load(&site_kind[i]) != kind)
				atomic_store(&site_kind[i], CONFLICT);
			break;
		}
		if (have == 0) {
			atomic_store(&site_kind[i], kind);
			atomic_store_explicit(&site_ip[i], ip, memory_order_release);
			break;
		}
	}
	pthread_mutex_unlock(&site_mu);
}

// ---- reading memory that may not be there ----------------------------------

static bool safe_read(const void *from, void *to, size_t n) {
#if defined(__linux__)
	struct iovec l = {to, n}, r = {(void *)from, n};
	if (process_vm_readv(getpid(), &l, 1, &r, 1, 0) == (ssize_t)n)
		return true;
	if (errno != EPERM && errno != ENOSYS)
		return false;
	// A sandbox forbids the call. An invalid sigprocmask reads its argument
	// first, so EFAULT tells unreadable memory apart.
	for (int end = 0; end < 2; end++) {
		const char *p = (const char *)from + (end ? n - 8 : 0);
		if (syscall(SYS_rt_sigprocmask, -1, p, NULL, 8) != 0 && errno == EFAULT)
			return false;
	}
	memcpy(to, from, n);
	return true;
#elif defined(__APPLE__)
	mach_vm_size_t got = 0;
	return mach_vm_read_overwrite(mach_task_self(), (mach_vm_address_t)from, n, (mach_vm_address_t)to, &got) ==
	           KERN_SUCCESS && got == n;
#else
	(void)from; (void)to; (void)n;
	return false;
#endif
}

// state_at reports whether word k of states is a live state, and its thread.
static bool state_at(void **states, idx_t k, uint32_t *tid) {
	void *p;
	if (((uintptr_t)&states[k] >> 12) == ((uintptr_t)&states[0] >> 12))
		p = states[k];
	else if (!safe_read(&states[k], &p, sizeof p))
		return false;
	if (p == states[0]) { // known to be good
		*tid = ((bglm_state *)p)->tid;
		return true;
	}
	if (p == NULL || ((uintptr_t)p & 7))
		return false;
	bglm_state s;
	if (!safe_read(p, &s, sizeof s) || s.magic != BGLM_MAGIC || s.self != p)
		return false;
	*tid = s.tid;
	return true;
}

// inspect decides without a known site; *sure says whether it may be learned.
static int inspect(void **states, idx_t n, bool *sure) {
	atomic_fetch_add_explicit(&n_inspected, 1, memory_order_relaxed);
	uint32_t first = ((bglm_state *)states[0])->tid, tid;
	bool one_thread = true;
	idx_t m = n < 8 ? n : 8;
	for (idx_t k = 1; k < m; k++) {
		if (!state_at(states, k, &tid)) {
			*sure = true;
			return CONSTANT;
		}
		if (tid != first)
			one_thread = false;
	}
	*sure = n >= 8 && one_thread;
	if (n >= 8)
		return FLAT;
	return one_thread ? FLAT : CONSTANT;
}

// ---- the caller of the wrapper ---------------------------------------------

struct walk {
	uintptr_t wrapper; // return address into DuckDB's C-API wrapper
	bool seen;
	uintptr_t ip, cfa;
	int depth;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *ctx, void *arg) {
	struct walk *w = arg;
	uintptr_t ip = _Unwind_GetIP(ctx);
	if (w->seen) {
		w->ip = ip;
		w->cfa = _Unwind_GetCFA(ctx);
		return _URC_END_OF_STACK;
	}
	if (ip == w->wrapper)
		w->seen = true;
	return ++w->depth > 16 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// The wrapper's return address lies a fixed distance above the info object,
// which lives in the wrapper's frame: once that distance has been seen at three
// different sites, one load replaces the unwinding.
static _Atomic intptr_t ret_offset; // 0 = not known yet
static intptr_t cand_offset;        // under site_mu
static uintptr_t cand_site[3];
static int cand_n;

static void learn_offset(uintptr_t info, const struct walk *w) {
#if defined(__x86_64__)
	uintptr_t at = w->cfa - sizeof(void *);
	if (at <= info || at - info > 4096 || *(uintptr_t *)at != w->ip)
		return;
	intptr_t off = (intptr_t)(at - info);
	pthread_mutex_lock(&site_mu);
	if (off != cand_offset) {
		cand_offset = off;
		cand_n = 0;
	}
	bool known = false;
	for (int i = 0; i < cand_n; i++)
		known |= cand_site[i] == w->ip;
	if (!known && cand_n < 3) {
		cand_site[cand_n++] = w->ip;
		if (cand_n == 3)
			atomic_store(&ret_offset, off);
	}
	pthread_mutex_unlock(&site_mu);
#else
	(void)info; (void)w;
#endif
}

bool bglm_is_constant(duckdb_ptr info, uintptr_t wrapper, void **states, idx_t n) {
	if (n < 2)
		return false;
	intptr_t off = atomic_load_explicit(&ret_offset, memory_order_relaxed);
	if (off) {
		int kind = site_get(*(uintptr_t *)((char *)info + off));
		if (kind == FLAT || kind == CONSTANT) {
			atomic_fetch_add_explicit(&n_fast, 1, memory_order_relaxed);
			return kind == CONSTANT;
		}
	}
	struct walk w = {.wrapper = wrapper};
	_Unwind_Backtrace(step, &w);
	atomic_fetch_add_explicit(&n_unwound, 1, memory_order_relaxed);
	int kind = UNKNOWN;
	if (w.ip) {
		kind = site_get(w.ip);
		learn_offset((uintptr_t)info, &w);
	}
	if (kind == FLAT || kind == CONSTANT)
		return kind == CONSTANT;
	bool sure = false;
	int got = inspect(states, n, &sure);
	if (w.ip && sure && kind == UNKNOWN)
		site_learn(w.ip, got);
	return got == CONSTANT;
}

void bglm_site_counts(bglm_sites *out) {
	memset(out, 0, sizeof *out);
	for (unsigned i = 0; i < NSITE; i++)
		if (atomic_load(&site_ip[i]))
			switch (atomic_load(&site_kind[i])) {
			case FLAT: out->flat++; break;
			case CONSTANT: out->constant++; break;
			case CONFLICT: out->conflict++; break;
			}
	out->fast = atomic_load(&n_fast);
	out->unwound = atomic_load(&n_unwound);
	out->inspected = atomic_load(&n_inspected);
}
