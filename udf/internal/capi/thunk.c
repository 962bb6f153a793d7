// The callbacks DuckDB calls. C walks the vectors, Go computes; everything that
// can throw a C++ exception (reserve, strings) runs with only C frames between
// DuckDB and DuckDB. Resources are released by cleanup handlers, which run on a
// return and on unwinding alike (-fexceptions).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "callsite.h"

bglm_api_table bglm_api;

// Go side; each returns without unwinding, whatever happens.
extern void bglmGoUpdate(uint64_t fid, bglm_node *nodes, int64_t ncol, int64_t nnode, uint64_t n, void *states,
                         bglm_caller *by, uint64_t shard, bglm_out *out);
extern void bglmGoCombine(uint64_t fid, void *source, void *target, uint64_t n, uint64_t shard, bglm_out *out);
extern void bglmGoFinalize(uint64_t fid, void *source, uint64_t n, uint64_t offset, bglm_first *first, bglm_out *out);
extern void bglmGoDestroy(void *states, uint64_t n);
extern void bglmGoRelease(uint64_t handle);
extern void bglmGoScalar(uint64_t fid, bglm_node *nodes, int64_t ncol, int64_t nnode, uint64_t n, bglm_out *out);
extern int64_t bglmGoConstant(uint64_t fid);
extern void bglmGoCheck(uint64_t fid, bglm_node *nodes, int64_t nnode, bglm_out *out);
extern void bglmGoSetting(uint64_t k, bglm_node *nodes, int64_t nnode, uint64_t n, bool set, bglm_out *out);
extern void bglmGoFill(uint64_t token, bglm_node *nodes, int64_t nnode, bglm_text **text, int64_t *ntext);
extern void bglmGoDrop(uint64_t token);

enum {
	T_DOUBLE = 11, T_VARCHAR = 17, T_DECIMAL = 19, T_ENUM = 23, T_LIST = 24, T_STRUCT = 25, T_MAP = 26, T_ARRAY = 33,
	MAX_NODES = 1 << 20, MAX_DEPTH_NODES = 64
};

// Threads are numbered as they come: the system gives a number again when its thread ends.
static uint32_t thread_id(void) {
	static _Atomic uint32_t last;
	static _Thread_local uint32_t id;
	if (!id)
		id = atomic_fetch_add(&last, 1) + 1;
	return id;
}

// ---- forked children -----------------------------------------------------------

// Only the thread that called fork lives on in the child, without Go's others: a call into
// Go would wait for ever.
static _Atomic bool forked;

static const char *const fork_error = "bglm cannot run in a process that was forked after bglm was loaded, because Go's runtime "
                                      "does not live on there: fork first and load bglm in the child, or start a new program (exec)";

const char *bglm_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed) ? fork_error : NULL; }

#if defined(__unix__) || defined(__APPLE__)
static void in_child(void) { atomic_store(&forked, true); }

void bglm_watch_forks(void) {
	static _Atomic bool watched;
	if (!atomic_exchange(&watched, true))
		pthread_atfork(NULL, NULL, in_child);
}
#else
void bglm_watch_forks(void) {}
#endif

// ---- node trees --------------------------------------------------------------

typedef struct {
	bglm_node *v;
	int64_t n, cap;
	const char *err;
} tree;

static void tree_free(tree *t) {
	for (int64_t i = 0; i < t->n; i++) {
		if (t->v[i].name)
			bglm_api.free(t->v[i].name);
		if (t->v[i].ltype)
			bglm_api.destroy_logical_type(&t->v[i].ltype);
	}
	free(t->v);
	t->v = NULL;
	t->n = 0;
}

// tree_grow appends k zeroed nodes and returns the index of the first, or -1.
static int64_t tree_grow(tree *t, int64_t k) {
	if (t->n + k > MAX_NODES) {
		t->err = "the argument's type has more than a million nested fields";
		return -1;
	}
	if (t->n + k > t->cap) {
		int64_t cap = t->cap ? t->cap * 2 : MAX_DEPTH_NODES;
		while (cap < t->n + k)
			cap *= 2;
		bglm_node *v = realloc(t->v, (size_t)cap * sizeof *v);
		if (!v) {
			t->err = "out of memory";
			return -1;
		}
		t->v = v;
		t->cap = cap;
	}
	if (k > 0) // a function without arguments has no nodes at all
		memset(t->v + t->n, 0, (size_t)k * sizeof *t->v);
	t->n += k;
	return t->n - k;
}

// tree_open fills node i from its vector and appends its children. With write,
// validity masks are made writable and lists grow by the numbers in add.
static bool tree_open(tree *t, int64_t i, const uint64_t *add, uint64_t nadd, uint64_t *iadd, bool write, bool in_list) {
	duckdb_ptr vec = t->v[i].vec;
	duckdb_ptr lt = bglm_api.vector_get_column_type(vec);
	int type = t->v[i].type = bglm_api.get_type_id(lt);
	bool keep = false;
	// Masks below a list stay as they are where there is no NULL: few results have one.
	if (write && (!in_list || t->v[i].nulls))
		bglm_api.vector_ensure_validity_writable(vec);
	switch (type) {
	case T_DECIMAL:
		t->v[i].scale = bglm_api.decimal_scale(lt);
		t->v[i].internal = bglm_api.decimal_internal_type(lt);
		break;
	case T_ENUM:
		t->v[i].internal = bglm_api.enum_internal_type(lt);
		keep = true;
		break;
	case T_STRUCT: {
		int64_t k = (int64_t)bglm_api.struct_type_child_count(lt);
		int64_t c = tree_grow(t, k);
		if (c < 0)
			break;
		t->v[i].child = c;
		t->v[i].nchild = (int32_t)k;
		for (int64_t j = 0; j < k; j++) {
			t->v[c + j].vec = bglm_api.struct_vector_get_child(vec, (idx_t)j);
			t->v[c + j].count = t->v[i].count;
			t->v[c + j].base = t->v[i].base;
			t->v[c + j].nulls = t->v[i].nulls;
			if (!write)
				t->v[c + j].name = bglm_api.struct_type_child_name(lt, (idx_t)j);
		}
		break;
	}
	case T_LIST:
	case T_MAP: {
		uint64_t base = bglm_api.list_vector_get_size(vec), more = 0;
		bool nulls = false;
		if (write) {
			if (*iadd < nadd) {
				nulls = add[*iadd] & BGLM_HAS_NULLS;
				more = add[(*iadd)++] & ~BGLM_HAS_NULLS;
			}
			bglm_api.list_vector_reserve(vec, base + more);
			bglm_api.list_vector_set_size(vec, base + more);
		}
		int64_t c = tree_grow(t, 1);
		if (c < 0)
			break;
		t->v[i].child = c;
		t->v[i].nchild = 1;
		t->v[c].vec = bglm_api.list_vector_get_child(vec);
		t->v[c].count = base + more;
		t->v[c].base = base;
		t->v[c].nulls = nulls;
		break;
	}
	case T_ARRAY: {
		int64_t c = tree_grow(t, 1);
		if (c < 0)
			break;
		t->v[i].array_size = bglm_api.array_type_array_size(lt);
		t->v[i].child = c;
		t->v[i].nchild = 1;
		t->v[c].vec = bglm_api.array_vector_get_child(vec);
		t->v[c].count = t->v[i].count * t->v[i].array_size;
		break;
	}
	}
	if (type != T_STRUCT && type != T_ARRAY)
		t->v[i].data = bglm_api.vector_get_data(vec);
	t->v[i].valid = bglm_api.vector_get_validity(vec);
	if (keep)
		t->v[i].ltype = lt;
	else
		bglm_api.destroy_logical_type(&lt);
	return t->err == NULL;
}

// tree_below opens the columns that are there, and all below them.
static void tree_below(tree *t) {
	for (int64_t i = 0; i < t->n; i++) // children are appended behind: breadth first
		if (!tree_open(t, i, NULL, 0, NULL, false, false))
			return;
}

static void tree_read(tree *t, duckdb_ptr chunk, uint64_t n) {
	int64_t ncol = (int64_t)bglm_api.data_chunk_get_column_count(chunk);
	if (tree_grow(t, ncol) < 0)
		return;
	for (int64_t i = 0; i < ncol; i++) {
		t->v[i].vec = bglm_api.data_chunk_get_vector(chunk, (idx_t)i);
		t->v[i].count = n;
	}
	tree_below(t);
}

static void tree_read_vector(tree *t, duckdb_ptr vec, uint64_t n) {
	if (tree_grow(t, 1) < 0)
		return;
	t->v[0].vec = vec;
	t->v[0].count = n;
	tree_below(t);
}

// write_open opens node i and, depth first, all below it, so that lists come in
// the preorder in which Go counted them.
static bool write_open(tree *t, int64_t i, const bglm_out *o, uint64_t *iadd, bool in_list) {
	if (!tree_open(t, i, o->list_add, o->nlist, iadd, true, in_list))
		return false;
	int64_t c = t->v[i].child, k = t->v[i].nchild;
	bool below = in_list || t->v[i].type == T_LIST || t->v[i].type == T_MAP;
	for (int64_t j = 0; j < k; j++)
		if (!write_open(t, c + j, o, iadd, below))
			return false;
	return true;
}

// ---- results -------------------------------------------------------------------

static void out_free(bglm_out *o) {
	if (o->token)
		bglmGoDrop(o->token);
	free(o->err);
	free(o->list_add);
	memset(o, 0, sizeof *o);
}

typedef struct {
	bglm_text *v;
	int64_t n;
} texts;

static void texts_free(texts *t) {
	for (int64_t i = 0; i < t->n; i++) {
		free(t->v[i].lens);
		free(t->v[i].bytes);
	}
	free(t->v);
}

// write_result copies the pending Go result into the vector from row offset on.
// NULL, or an error text with static lifetime.
static const char *write_result(bglm_out *o, duckdb_ptr result, uint64_t n, uint64_t offset) {
	__attribute__((cleanup(tree_free))) tree t = {0};
	__attribute__((cleanup(texts_free))) texts tx = {0};
	if (tree_grow(&t, 1) < 0)
		return t.err;
	t.v[0].vec = result;
	t.v[0].count = n;
	t.v[0].base = offset;
	uint64_t iadd = 0;
	if (!write_open(&t, 0, o, &iadd, false))
		return t.err;
	bglmGoFill(o->token, t.v, t.n, &tx.v, &tx.n);
	for (int64_t i = 0; i < tx.n; i++) {
		bglm_node *d = &t.v[tx.v[i].node];
		const char *p = tx.v[i].bytes;
		for (uint64_t r = 0; r < tx.v[i].n; r++) {
			if (tx.v[i].lens[r] == UINT64_MAX)
				continue;
			bglm_api.vector_assign_string_element_len(d->vec, d->base + r, p, tx.v[i].lens[r]);
			p += tx.v[i].lens[r];
		}
	}
	return NULL;
}

// ---- aggregate callbacks ---------------------------------------------------------

#define OUT __attribute__((cleanup(out_free))) bglm_out out = {0}
#define FID(get) ((uint64_t)(uintptr_t)bglm_api.get(info))

static idx_t agg_size(duckdb_ptr info) {
	(void)info;
	return sizeof(bglm_state);
}

// The state this thread initialised last.
static _Thread_local char *last_init;
static _Thread_local uint64_t last_place;
static _Thread_local uint32_t calls; // of agg_update, by this thread

static void agg_init(duckdb_ptr info, void *p) {
	bglm_state *s = p;
	// Memory used again after a combine that DuckDB never destroyed
	// (EXCLUDE frames): the old handle is nobody's any more.
	if (s->magic == BGLM_MAGIC && s->self == p && s->handle &&
	    (atomic_load_explicit(&s->flags, memory_order_relaxed) & BGLM_CONSUMED) && !bglm_forked())
		bglmGoRelease(s->handle);
	s->magic = BGLM_MAGIC;
	s->self = p;
	s->handle = 0;
	atomic_store_explicit(&s->flags, 0, memory_order_relaxed);
	s->tid = thread_id();
	s->epoch = calls;
	s->first = s->sig = 0;
	s->fid = (uint32_t)FID(aggregate_function_get_extra_info);
	s->place = (char *)p == last_init + sizeof *s ? last_place + 1 : 0;
	last_init = p;
	last_place = s->place;
}

// ---- lessons -------------------------------------------------------------------

static _Atomic int lesson;
static double lesson_token;

void bglm_lesson(int kind, double token) {
	lesson_token = token;
	atomic_store(&lesson, kind);
}

// taught is the lesson that these arguments carry the token of, or 0.
static int taught(const tree *t, uint64_t ncol) {
	int kind = atomic_load_explicit(&lesson, memory_order_acquire);
	if (!kind || ncol < 2 || t->v[1].type != T_LIST)
		return 0;
	const bglm_node *c = &t->v[t->v[1].child];
	return c->type == T_DOUBLE && c->count > 0 && *(double *)c->data == lesson_token ? kind : 0;
}

static void agg_update(duckdb_ptr info, duckdb_ptr chunk, void **states) {
	uintptr_t wrapper = (uintptr_t)__builtin_return_address(0);
	uint64_t n = bglm_api.data_chunk_get_size(chunk);
	if (n == 0)
		return;
	if (bglm_forked()) {
		bglm_api.aggregate_function_set_error(info, fork_error);
		return;
	}
	OUT;
	bglm_caller by = bglm_classify(info, wrapper, states, n);
	if (++calls >= BGLM_ELSEWHERE)
		calls = 1;
	if (bglm_ruled()) {
		by.call = calls;
		by.tid = thread_id();
	}
	__attribute__((cleanup(tree_free))) tree t = {0};
	tree_read(&t, chunk, n);
	if (t.err) {
		bglm_api.aggregate_function_set_error(info, t.err);
		return;
	}
	uint64_t ncol = bglm_api.data_chunk_get_column_count(chunk);
	int kind = taught(&t, ncol);
	if (kind)
		bglm_learn(kind, info, wrapper);
	bglmGoUpdate(FID(aggregate_function_get_extra_info), t.v, (int64_t)ncol, t.n, n, states, &by,
	             ((bglm_state *)states[0])->tid, &out);
	if (out.err)
		bglm_api.aggregate_function_set_error(info, out.err);
}

static void agg_combine(duckdb_ptr info, void **source, void **target, idx_t n) {
	if (bglm_forked()) {
		bglm_api.aggregate_function_set_error(info, fork_error);
		return;
	}
	OUT;
	bglmGoCombine(FID(aggregate_function_get_extra_info), source, target, n, thread_id(), &out);
	for (idx_t i = 0; i < n; i++) {
		bglm_state *s = source[i];
		if (s->self == source[i])
			atomic_fetch_or_explicit(&s->flags, BGLM_CONSUMED, memory_order_relaxed);
	}
	if (out.err)
		bglm_api.aggregate_function_set_error(info, out.err);
}

static void agg_finalize(duckdb_ptr info, void **source, duckdb_ptr result, idx_t n, idx_t offset) {
	if (n == 0)
		return;
	if (bglm_forked()) {
		bglm_api.aggregate_function_set_error(info, fork_error);
		return;
	}
	OUT;
	static _Thread_local bglm_first first; // ordered aggregates finalise a window's partitions one by one
	bglmGoFinalize(FID(aggregate_function_get_extra_info), source, n, offset, &first, &out);
	const char *err = out.err ? out.err : write_result(&out, result, n, offset);
	if (err)
		bglm_api.aggregate_function_set_error(info, err);
}

static void agg_destroy(void **states, idx_t n) {
	if (!bglm_forked())
		bglmGoDestroy(states, n);
	for (idx_t i = 0; i < n; i++) {
		bglm_state *s = states[i];
		s->handle = 0;
		s->magic = 0;
	}
}

static void scalar_call(duckdb_ptr info, duckdb_ptr chunk, duckdb_ptr result) {
	uint64_t n = bglm_api.data_chunk_get_size(chunk);
	if (n == 0)
		return;
	OUT;
	__attribute__((cleanup(tree_free))) tree t = {0};
	tree_read(&t, chunk, n);
	const char *err = bglm_forked() ? fork_error : t.err;
	if (!err) {
		bglmGoScalar(FID(scalar_function_get_extra_info), t.v, (int64_t)bglm_api.data_chunk_get_column_count(chunk), t.n, n,
		             &out);
		err = out.err ? out.err : write_result(&out, result, n, 0);
	}
	if (err)
		bglm_api.scalar_function_set_error(info, err);
}

// ---- constant arguments at bind ---------------------------------------------------

static _Atomic bool ask_constants;

void bglm_ask_constants(bool on) { atomic_store(&ask_constants, on); }

// argument is argument i of a call that is bound, or NULL. DuckDB cannot copy a subquery:
// where one is asked for, it notes an error that the API cannot take back, and the query
// would fail. The note is a flag behind the four references with which its record of
// the call begins: set while all is well, it is set again where just that has happened. That
// it does so is tried when the functions are registered (bglm_ask_constants).
static duckdb_ptr argument(duckdb_ptr info, idx_t i) {
	unsigned char *well = (unsigned char *)info + 4 * sizeof(void *);
	if (*well != 1)
		return NULL;
	duckdb_ptr e = bglm_api.scalar_function_bind_get_argument(info, i);
	if (!e && *well == 0)
		*well = 1;
	return e;
}

// check reads the value of a constant expression.
static void check(duckdb_ptr info, duckdb_ptr e, uint64_t fid, bglm_out *out) {
	duckdb_ptr context = NULL, value = NULL;
	bglm_api.scalar_function_get_client_context(info, &context);
	duckdb_ptr failed = bglm_api.expression_fold(context, e, &value);
	bglm_api.destroy_client_context(&context);
	if (failed) // it fails again when the query runs
		bglm_api.destroy_error_data(&failed);
	if (!value)
		return;
	duckdb_ptr type = bglm_api.expression_return_type(e);
	duckdb_ptr chunk = bglm_api.create_data_chunk(&type, 1);
	bglm_api.destroy_logical_type(&type);
	if (chunk) {
		__attribute__((cleanup(tree_free))) tree t = {0};
		bglm_api.vector_reference_value(bglm_api.data_chunk_get_vector(chunk, 0), value);
		tree_read(&t, chunk, 1);
		if (!t.err)
			bglmGoCheck(fid, t.v, t.n, out);
	}
	bglm_api.destroy_value(&value);
	bglm_api.destroy_data_chunk(&chunk);
}

static void scalar_bind(duckdb_ptr info) {
	if (bglm_forked() || !atomic_load(&ask_constants))
		return;
	uint64_t fid = FID(scalar_function_bind_get_extra_info);
	int64_t i = bglmGoConstant(fid);
	if (i < 0 || (idx_t)i >= bglm_api.scalar_function_bind_get_argument_count(info))
		return;
	duckdb_ptr e = argument(info, (idx_t)i);
	if (!e)
		return;
	OUT;
	if (bglm_api.expression_is_foldable(e))
		check(info, e, fid, &out);
	bglm_api.destroy_expression(&e);
	if (out.err)
		bglm_api.scalar_function_bind_set_error(info, out.err);
}

// ---- settings -----------------------------------------------------------------------

static _Atomic int hear_lesson;
static char hear_token[64];

void bglm_hear(int lesson, const char *token) {
	if (token)
		snprintf(hear_token, sizeof hear_token, "%s", token);
	atomic_store(&hear_lesson, lesson);
}

// is_token: the first text is that of a lesson.
static bool is_token(const bglm_node *v) {
	if (v->type != T_VARCHAR || (v->valid && !(v->valid[0] & 1)))
		return false;
	uint32_t len = *(uint32_t *)v->data;
	const char *text = len <= 12 ? (char *)v->data + 4 : *(char **)((char *)v->data + 8);
	return len == strlen(hear_token) && memcmp(text, hear_token, len) == 0;
}

// setting_cast makes the value of a setting its text. Where SET calls, the setting hears
// of it first, and may refuse.
static bool setting_cast(duckdb_ptr info, idx_t n, duckdb_ptr in, duckdb_ptr result) {
	OUT;
	__attribute__((cleanup(tree_free))) tree t = {0};
	tree_read_vector(&t, in, n);
	const char *err = bglm_forked() ? fork_error : t.err;
	int lesson = atomic_load(&hear_lesson);
	if (!err && lesson && n > 0 && is_token(&t.v[0])) {
		bglm_set_calls(lesson);
		for (idx_t i = 0; i < n; i++)
			bglm_api.vector_assign_string_element_len(result, i, "auto", 4);
		return true;
	}
	if (!err) {
		bglmGoSetting(FID(cast_function_get_extra_info) - 1, t.v, t.n, n, bglm_set_calls(0), &out);
		err = out.err ? out.err : write_result(&out, result, n, 0);
	}
	if (err)
		bglm_api.cast_function_set_error(info, err);
	return err == NULL;
}

// ---- registration ------------------------------------------------------------------

const char *bglm_register_aggregate(duckdb_ptr con, const char *name, uint64_t fid, const int32_t *arity,
                                    const duckdb_ptr *params, int32_t nover, duckdb_ptr ret) {
	duckdb_ptr set = bglm_api.create_aggregate_function_set(name);
	const char *err = NULL;
	for (int32_t o = 0; o < nover && !err; o++) {
		duckdb_ptr f = bglm_api.create_aggregate_function();
		bglm_api.aggregate_function_set_name(f, name);
		for (int32_t i = 0; i < arity[o]; i++)
			bglm_api.aggregate_function_add_parameter(f, *params++);
		bglm_api.aggregate_function_set_return_type(f, ret);
		bglm_api.aggregate_function_set_functions(f, agg_size, agg_init, agg_update, agg_combine, agg_finalize);
		bglm_api.aggregate_function_set_destructor(f, agg_destroy);
		bglm_api.aggregate_function_set_special_handling(f);
		bglm_api.aggregate_function_set_extra_info(f, (void *)(uintptr_t)fid, NULL);
		if (bglm_api.add_aggregate_function_to_set(set, f) != 0)
			err = "overload refused";
		bglm_api.destroy_aggregate_function(&f);
	}
	// Refused when the name exists: the instance has these functions already.
	if (!err && bglm_api.register_aggregate_function_set(con, set) != 0)
		err = "exists";
	bglm_api.destroy_aggregate_function_set(&set);
	return err;
}

const char *bglm_register_scalar(duckdb_ptr con, const char *name, const uint64_t *fid, const int32_t *arity,
                                 const duckdb_ptr *params, int32_t nover, const duckdb_ptr *ret, bool is_volatile, bool binds) {
	duckdb_ptr set = bglm_api.create_scalar_function_set(name);
	const char *err = NULL;
	for (int32_t o = 0; o < nover && !err; o++) {
		duckdb_ptr f = bglm_api.create_scalar_function();
		bglm_api.scalar_function_set_name(f, name);
		for (int32_t i = 0; i < arity[o]; i++)
			bglm_api.scalar_function_add_parameter(f, *params++);
		bglm_api.scalar_function_set_return_type(f, ret[o]);
		bglm_api.scalar_function_set_function(f, scalar_call);
		bglm_api.scalar_function_set_special_handling(f);
		if (is_volatile)
			bglm_api.scalar_function_set_volatile(f);
		if (binds && bglm_more())
			bglm_api.scalar_function_set_bind(f, scalar_bind);
		bglm_api.scalar_function_set_extra_info(f, (void *)(uintptr_t)fid[o], NULL);
		if (bglm_api.add_scalar_function_to_set(set, f) != 0)
			err = "overload refused";
		bglm_api.destroy_scalar_function(&f);
	}
	if (!err && bglm_api.register_scalar_function_set(con, set) != 0)
		err = "refused";
	bglm_api.destroy_scalar_function_set(&set);
	return err;
}

// casts registers the cast of a type of values to that of setting k.
static void casts(duckdb_ptr con, duckdb_ptr from, duckdb_ptr to, uint64_t k) {
	duckdb_ptr f = bglm_api.create_cast_function();
	bglm_api.cast_function_set_source_type(f, from);
	bglm_api.cast_function_set_target_type(f, to);
	bglm_api.cast_function_set_function(f, setting_cast);
	bglm_api.cast_function_set_extra_info(f, (void *)(uintptr_t)(k + 1), NULL); // 0 would be none
	bglm_api.register_cast_function(con, f);
	bglm_api.destroy_cast_function(&f);
	bglm_api.destroy_logical_type(&from);
}

const char *bglm_register_setting(duckdb_ptr con, const char *name, const char *about, uint64_t k) {
	static const int plain[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, T_DOUBLE, 16, T_VARCHAR, 32, 36}; // BOOLEAN to SQLNULL
	enum { GLOBAL = 3, LITERAL = 18 };
	duckdb_ptr type = bglm_type(T_VARCHAR), initial = bglm_api.create_varchar("auto"), o = bglm_api.create_config_option();
	bglm_api.logical_type_set_alias(type, name); // a type of its own, so that casts to it are ours
	for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++)
		casts(con, bglm_type(plain[i]), type, k);
	for (uint8_t w = 1; w <= LITERAL; w++)
		for (uint8_t s = 0; s <= w; s++)
			casts(con, bglm_api.create_decimal_type(w, s), type, k);
	bglm_api.config_option_set_name(o, name);
	bglm_api.config_option_set_type(o, type);
	bglm_api.config_option_set_default_value(o, initial);
	bglm_api.config_option_set_default_scope(o, GLOBAL);
	bglm_api.config_option_set_description(o, about);
	const char *err = bglm_api.register_config_option(con, o) != 0 ? "refused" : NULL;
	bglm_api.destroy_config_option(&o);
	bglm_api.destroy_value(&initial);
	bglm_type_destroy(type);
	return err;
}

char *bglm_exec(duckdb_ptr con, const char *sql) {
	bglm_result r;
	memset(&r, 0, sizeof r);
	char *err = NULL;
	if (bglm_api.query(con, sql, &r) != 0) {
		const char *m = bglm_api.result_error(&r);
		err = strdup(m ? m : "unknown error");
	}
	bglm_api.destroy_result(&r);
	return err;
}

duckdb_ptr bglm_type(int id) { return bglm_api.create_logical_type(id); }
duckdb_ptr bglm_type_list(duckdb_ptr e) { return bglm_api.create_list_type(e); }
duckdb_ptr bglm_type_map(duckdb_ptr k, duckdb_ptr v) { return bglm_api.create_map_type(k, v); }
duckdb_ptr bglm_type_struct(duckdb_ptr *t, const char **names, uint64_t n) { return bglm_api.create_struct_type(t, names, n); }
void bglm_type_destroy(duckdb_ptr t) { bglm_api.destroy_logical_type(&t); }
char *bglm_enum_value(duckdb_ptr t, uint64_t i) { return bglm_api.enum_dictionary_value(t, i); }
uint32_t bglm_enum_size(duckdb_ptr t) { return bglm_api.enum_dictionary_size(t); }
void bglm_free(void *p) { bglm_api.free(p); }
const char *bglm_version(void) { return bglm_api.library_version(); }
