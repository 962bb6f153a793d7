// Which update calls carry one state for the whole chunk.
//
// DuckDB hands update a plain array of state pointers, but two of its callers
// (ordered aggregates and constant window frames) pass an array in which only
// the first entry is valid. The entries behind it are not random: they are
// often live states of other threads, so looking at them cannot decide. The
// code that called DuckDB's C-API wrapper can: each caller is of one kind. In DuckDB 2
// GROUP BY is of both kinds; lanes.go tells them apart.
//
// The same two callers matter once more. A window whose frame is the whole partition
// slices the chunk partition by partition; after the first one, constant children of
// a STRUCT are read past their end (docs/duckdb.md). Such a window either calls update
// itself, or, where it has an order, sorts first: then the caller is the ordered
// aggregate, and the code above that caller tells a window from a GROUP BY.
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
enum { WINDOW = 1, SORTED = 2 }; // roles of constant sites

#define NSITE 256u
static _Atomic uintptr_t site_ip[NSITE];
static _Atomic int site_kind[NSITE];
static _Atomic int site_role[NSITE];
// Distance from info to the return address of the site's own function, 0 = unknown,
// -1 = it differs.
static _Atomic intptr_t site_up[NSITE];
static pthread_mutex_t site_mu = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t n_fast, n_unwound, n_inspected;

static unsigned slot_of(uintptr_t ip) { return (unsigned)((ip * 0x9E3779B97F4A7C15ull) >> 56) % NSITE; }

// site_find is the site's slot, or -1.
static int site_find(uintptr_t ip) {
	for (unsigned k = 0, i = slot_of(ip); k < NSITE; k++, i = (i + 1) % NSITE) {
		uintptr_t have = atomic_load_explicit(&site_ip[i], memory_order_acquire);
		if (have == ip)
			return (int)i;
		if (have == 0)
			return -1;
	}
	return -1;
}

static int kind_at(int site) {
	return site < 0 ? UNKNOWN : atomic_load_explicit(&site_kind[site], memory_order_acquire);
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

#define NABOVE 8

struct walk {
	uintptr_t wrapper; // return address into DuckDB's C-API wrapper
	int want;          // how many frames above the wrapper, 0 = two
	bool seen;
	uintptr_t ip, cfa;     // of the wrapper's caller
	uintptr_t up, up_cfa;  // of the caller's caller
	uintptr_t above[NABOVE]; // return addresses from up on
	int n, depth;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *ctx, void *arg) {
	struct walk *w = arg;
	uintptr_t ip = _Unwind_GetIP(ctx);
	if (w->ip) {
		if (!w->up) {
			w->up = ip;
			w->up_cfa = _Unwind_GetCFA(ctx);
		}
		w->above[w->n++] = ip;
		return w->n < w->want ? _URC_NO_REASON : _URC_END_OF_STACK;
	}
	if (w->seen) {
		w->ip = ip;
		w->cfa = _Unwind_GetCFA(ctx);
		return _URC_NO_REASON;
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

// ---- windows ------------------------------------------------------------------

// Return addresses above the ordered aggregate, when a window finalises it and when
// anything else does.
#define NPARENT 64u
static _Atomic uintptr_t window_up[NPARENT], other_up[NPARENT];
static _Atomic bool window_known; // a window site has been shown

static bool in_set(_Atomic uintptr_t *set, uintptr_t ip) {
	for (unsigned i = 0; i < NPARENT; i++) {
		uintptr_t have = atomic_load_explicit(&set[i], memory_order_acquire);
		if (have == ip)
			return true;
		if (have == 0)
			return false;
	}
	return false;
}

static void add_to(_Atomic uintptr_t *set, uintptr_t ip) { // under site_mu
	for (unsigned i = 0; i < NPARENT; i++) {
		uintptr_t have = atomic_load(&set[i]);
		if (have == ip)
			return;
		if (have == 0) {
			atomic_store_explicit(&set[i], ip, memory_order_release);
			return;
		}
	}
}

// ---- routes -----------------------------------------------------------------

// In DuckDB 2 a GROUP BY can pass one state for the whole chunk from the same call site
// (lanes.go), but not where it filters rows: there the two return addresses above the
// wrapper are other ones. Rows of DISTINCT come from another function further above.
static _Atomic bool rules, warming;
static _Atomic uintptr_t plain_route[NPARENT], filtered_route[NPARENT];
static _Atomic uintptr_t plain_above[NPARENT], distinct_above[NPARENT];

void bglm_rules(bool on) { atomic_store(&rules, on); }
void bglm_warming(bool on) { atomic_store(&warming, on); }
bool bglm_ruled(void) { return atomic_load(&rules); }

static uintptr_t route_of(const struct walk *w) { return (w->ip * 0x9E3779B97F4A7C15ull ^ w->up) | 1; }

// one_tail: all entries but the first are equal, and differ from it.
static bool one_tail(void **states, idx_t n) {
	if (n < 2 || states[1] == states[0])
		return false;
	for (idx_t i = 2; i < n; i++)
		if (states[i] != states[1])
			return false;
	return true;
}

static int lanes_of(uintptr_t wrapper) {
	struct walk w = {.wrapper = wrapper, .want = NABOVE};
	_Unwind_Backtrace(step, &w);
	for (int i = 0; i < w.n; i++)
		if (in_set(distinct_above, w.above[i]) && !in_set(plain_above, w.above[i]))
			return BGLM_UNTAUGHT;
	bool plain = in_set(plain_route, route_of(&w)), filtered = in_set(filtered_route, route_of(&w));
	return plain == filtered ? BGLM_UNTAUGHT : plain ? BGLM_PLAIN : BGLM_FILTERED;
}

static void learn_route(int lesson, uintptr_t wrapper) {
	struct walk w = {.wrapper = wrapper, .want = NABOVE};
	_Unwind_Backtrace(step, &w);
	if (!w.up || kind_at(site_find(w.ip)) != FLAT)
		return;
	pthread_mutex_lock(&site_mu);
	if (lesson != BGLM_LESSON_DISTINCT)
		add_to(lesson == BGLM_LESSON_GROUPED ? plain_route : filtered_route, route_of(&w));
	for (int i = 0; i < w.n; i++)
		add_to(lesson == BGLM_LESSON_DISTINCT ? distinct_above : plain_above, w.above[i]);
	pthread_mutex_unlock(&site_mu);
}

void bglm_learn(int lesson, duckdb_ptr info, uintptr_t wrapper) {
	if (lesson >= BGLM_LESSON_GROUPED) {
		learn_route(lesson, wrapper);
		return;
	}
	struct walk w = {.wrapper = wrapper};
	_Unwind_Backtrace(step, &w);
	int site = w.ip ? site_find(w.ip) : -1;
	if (kind_at(site) != CONSTANT) // a GROUP BY in place of the window: nothing to learn
		return;
	pthread_mutex_lock(&site_mu);
	if (lesson == BGLM_LESSON_WINDOW) {
		atomic_fetch_or(&site_role[site], WINDOW);
		atomic_store(&window_known, true);
	} else {
		atomic_fetch_or(&site_role[site], SORTED);
		if (w.up)
			add_to(lesson == BGLM_LESSON_SORTED_WINDOW ? window_up : other_up, w.up);
		intptr_t up = -1;
#if defined(__x86_64__)
		uintptr_t at = w.up_cfa - sizeof(void *), base = (uintptr_t)info;
		if (w.up && at > base && at - base <= 65536 && *(uintptr_t *)at == w.up)
			up = (intptr_t)(at - base);
#else
		(void)info;
#endif
		intptr_t had = atomic_load(&site_up[site]);
		atomic_store(&site_up[site], had == 0 || had == up ? up : -1);
	}
	pthread_mutex_unlock(&site_mu);
}

// window_of says which kind of whole-partition window a constant site serves.
static int window_of(int site, bool constant, duckdb_ptr info, uintptr_t wrapper) {
	int role = site < 0 ? 0 : atomic_load_explicit(&site_role[site], memory_order_acquire);
	if (role & SORTED) {
		uintptr_t up;
		intptr_t off = atomic_load_explicit(&site_up[site], memory_order_acquire);
		if (off > 0) {
			up = *(uintptr_t *)((char *)info + off);
		} else {
			struct walk w = {.wrapper = wrapper};
			_Unwind_Backtrace(step, &w);
			up = w.up;
		}
		if (in_set(window_up, up))
			return BGLM_SORTED_WINDOW;
		return role & WINDOW ? BGLM_WINDOW : 0;
	}
	// There are two constant callers: what is not the one may be the other. Only when
	// no lesson came through must an unknown caller of one row count as a window too.
	if (constant || (role & WINDOW) || !atomic_load_explicit(&window_known, memory_order_acquire))
		return BGLM_WINDOW;
	return 0;
}

// ---- SET -----------------------------------------------------------------------

// DuckDB tells an extension of SET in no way but that it casts the value to the type of
// the option. Comparisons with current_setting() do that too: the return addresses that
// only SET has on the stack tell them apart.
#define NSET 10
static uintptr_t set_path[NSET]; // under site_mu; 0 = not SET's own
static int set_paths;            // that are not 0

struct stack {
	uintptr_t ip[NSET];
	int n;
};

static _Unwind_Reason_Code note(struct _Unwind_Context *ctx, void *arg) {
	struct stack *s = arg;
	s->ip[s->n++] = _Unwind_GetIP(ctx);
	return s->n < NSET ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static bool on_stack(const struct stack *s, uintptr_t ip) {
	for (int i = 0; i < s->n; i++)
		if (s->ip[i] == ip)
			return true;
	return false;
}

bool bglm_set_calls(int lesson) {
	struct stack s = {.n = 0};
	_Unwind_Backtrace(note, &s);
	pthread_mutex_lock(&site_mu);
	bool all = true;
	if (lesson == BGLM_HEAR_SET) {
		memcpy(set_path, s.ip, sizeof set_path);
		set_paths = s.n;
	}
	for (int i = 0; i < NSET; i++) {
		if (!set_path[i])
			continue;
		bool here = on_stack(&s, set_path[i]);
		if (lesson == BGLM_HEAR_OTHER && here) {
			set_path[i] = 0;
			set_paths--;
		}
		all &= here;
	}
	all &= set_paths > 0;
	pthread_mutex_unlock(&site_mu);
	return all;
}

bglm_caller bglm_classify(duckdb_ptr info, uintptr_t wrapper, void **states, idx_t n) {
	int site = -1, kind = UNKNOWN;
	bool lanes = bglm_ruled() && one_tail(states, n);
	intptr_t off = atomic_load_explicit(&ret_offset, memory_order_relaxed);
	if (off)
		kind = kind_at(site = site_find(*(uintptr_t *)((char *)info + off)));
	if (kind == FLAT || kind == CONSTANT) {
		atomic_fetch_add_explicit(&n_fast, 1, memory_order_relaxed);
	} else {
		struct walk w = {.wrapper = wrapper};
		_Unwind_Backtrace(step, &w);
		atomic_fetch_add_explicit(&n_unwound, 1, memory_order_relaxed);
		if (w.ip) {
			site = site_find(w.ip);
			kind = kind_at(site);
			learn_offset((uintptr_t)info, &w);
		}
		if (kind != FLAT && kind != CONSTANT && n > 1) {
			if (lanes && !atomic_load(&warming)) // says nothing of the caller
				return (bglm_caller){.lanes = BGLM_STRANGE};
			bool sure = false;
			int got = inspect(states, n, &sure);
			if (w.ip && sure && kind == UNKNOWN)
				site_learn(w.ip, got);
			kind = got;
		}
	}
	bglm_caller c = {.constant = kind == CONSTANT, .window = 0};
	if (lanes && kind == FLAT)
		c.lanes = lanes_of(wrapper);
	// One row of an unknown caller has one state either way.
	if (kind != FLAT && (kind == CONSTANT || n == 1))
		c.window = window_of(site, c.constant, info, wrapper);
	return c;
}

int bglm_readable(const void *p, uint64_t n) { // n >= 8
	char b[4096];
	for (uint64_t i = 0; i + sizeof b <= n; i += sizeof b)
		if (!safe_read((const char *)p + i, b, sizeof b))
			return 0;
	uint64_t rest = n % sizeof b < 8 ? 8 : n % sizeof b; // safe_read wants 8 bytes
	return safe_read((const char *)p + n - rest, b, rest);
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
	for (unsigned i = 0; i < NSITE; i++) {
		int role = atomic_load(&site_role[i]);
		out->windows += (role & WINDOW) != 0;
		out->sorted += (role & SORTED) != 0;
	}
	for (unsigned i = 0; i < NPARENT; i++) {
		out->grouped += atomic_load(&plain_route[i]) && !in_set(filtered_route, atomic_load(&plain_route[i]));
		out->filtered += atomic_load(&filtered_route[i]) && !in_set(plain_route, atomic_load(&filtered_route[i]));
		out->distinct += atomic_load(&distinct_above[i]) && !in_set(plain_above, atomic_load(&distinct_above[i]));
	}
	for (unsigned i = 0; i < NPARENT; i++)
		out->parents += atomic_load(&window_up[i]) && !in_set(other_up, atomic_load(&window_up[i]));
	out->fast = atomic_load(&n_fast);
	out->unwound = atomic_load(&n_unwound);
	out->inspected = atomic_load(&n_inspected);
}
