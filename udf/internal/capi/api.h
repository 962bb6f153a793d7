// The part of DuckDB's C API that bglm uses, reached through one table of
// function pointers. In a Go program the table holds the linked symbols; in the
// loadable extension it is copied from the stable function table (API v1.2.0).
#ifndef BGLM_API_H
#define BGLM_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t idx_t;
typedef void *duckdb_ptr; // every DuckDB handle is one pointer

typedef struct {
	idx_t f0, f1, f2;
	void *f3;
	char *f4;
	void *internal_data;
} bglm_result; // duckdb_result

typedef void (*bglm_delete_fn)(void *);
typedef idx_t (*bglm_size_fn)(duckdb_ptr info);
typedef void (*bglm_init_fn)(duckdb_ptr info, void *state);
typedef void (*bglm_update_fn)(duckdb_ptr info, duckdb_ptr chunk, void **states);
typedef void (*bglm_combine_fn)(duckdb_ptr info, void **source, void **target, idx_t n);
typedef void (*bglm_finalize_fn)(duckdb_ptr info, void **source, duckdb_ptr result, idx_t n, idx_t offset);
typedef void (*bglm_destroy_fn)(void **states, idx_t n);
typedef void (*bglm_scalar_fn)(duckdb_ptr info, duckdb_ptr chunk, duckdb_ptr out);
typedef void (*bglm_bind_fn)(duckdb_ptr info);
typedef bool (*bglm_cast_fn)(duckdb_ptr info, idx_t n, duckdb_ptr in, duckdb_ptr out);

// X(slot in the stable table, result, name without duckdb_, parameters)
#define BGLM_API(X)                                                                                              \
	X(3, int, connect, (duckdb_ptr db, duckdb_ptr *con))                                                         \
	X(6, void, disconnect, (duckdb_ptr *con))                                                                    \
	X(7, const char *, library_version, (void))                                                                  \
	X(13, int, query, (duckdb_ptr con, const char *sql, bglm_result *out))                                       \
	X(14, void, destroy_result, (bglm_result *r))                                                                \
	X(21, const char *, result_error, (bglm_result *r))                                                          \
	X(25, void, free, (void *p))                                                                                 \
	X(92, void, destroy_value, (duckdb_ptr *value))                                                              \
	X(93, duckdb_ptr, create_varchar, (const char *text))                                                        \
	X(156, duckdb_ptr, create_logical_type, (int type))                                                          \
	X(158, void, logical_type_set_alias, (duckdb_ptr type, const char *alias))                                   \
	X(159, duckdb_ptr, create_list_type, (duckdb_ptr type))                                                      \
	X(161, duckdb_ptr, create_map_type, (duckdb_ptr key, duckdb_ptr value))                                      \
	X(163, duckdb_ptr, create_struct_type, (duckdb_ptr *types, const char **names, idx_t n))                     \
	X(165, duckdb_ptr, create_decimal_type, (uint8_t width, uint8_t scale))                                      \
	X(166, int, get_type_id, (duckdb_ptr type))                                                                  \
	X(168, uint8_t, decimal_scale, (duckdb_ptr type))                                                            \
	X(169, int, decimal_internal_type, (duckdb_ptr type))                                                        \
	X(170, int, enum_internal_type, (duckdb_ptr type))                                                           \
	X(171, uint32_t, enum_dictionary_size, (duckdb_ptr type))                                                    \
	X(172, char *, enum_dictionary_value, (duckdb_ptr type, idx_t i))                                            \
	X(175, idx_t, array_type_array_size, (duckdb_ptr type))                                                      \
	X(178, idx_t, struct_type_child_count, (duckdb_ptr type))                                                    \
	X(179, char *, struct_type_child_name, (duckdb_ptr type, idx_t i))                                           \
	X(184, void, destroy_logical_type, (duckdb_ptr *type))                                                       \
	X(186, duckdb_ptr, create_data_chunk, (duckdb_ptr *types, idx_t n))                                          \
	X(187, void, destroy_data_chunk, (duckdb_ptr *chunk))                                                        \
	X(189, idx_t, data_chunk_get_column_count, (duckdb_ptr chunk))                                               \
	X(190, duckdb_ptr, data_chunk_get_vector, (duckdb_ptr chunk, idx_t i))                                       \
	X(191, idx_t, data_chunk_get_size, (duckdb_ptr chunk))                                                       \
	X(193, duckdb_ptr, vector_get_column_type, (duckdb_ptr v))                                                   \
	X(194, void *, vector_get_data, (duckdb_ptr v))                                                              \
	X(195, uint64_t *, vector_get_validity, (duckdb_ptr v))                                                      \
	X(196, void, vector_ensure_validity_writable, (duckdb_ptr v))                                                \
	X(198, void, vector_assign_string_element_len, (duckdb_ptr v, idx_t i, const char *s, idx_t n))              \
	X(199, duckdb_ptr, list_vector_get_child, (duckdb_ptr v))                                                    \
	X(200, idx_t, list_vector_get_size, (duckdb_ptr v))                                                          \
	X(201, int, list_vector_set_size, (duckdb_ptr v, idx_t n))                                                   \
	X(202, int, list_vector_reserve, (duckdb_ptr v, idx_t n))                                                    \
	X(203, duckdb_ptr, struct_vector_get_child, (duckdb_ptr v, idx_t i))                                         \
	X(204, duckdb_ptr, array_vector_get_child, (duckdb_ptr v))                                                   \
	X(209, duckdb_ptr, create_scalar_function, (void))                                                           \
	X(210, void, destroy_scalar_function, (duckdb_ptr *f))                                                       \
	X(211, void, scalar_function_set_name, (duckdb_ptr f, const char *name))                                     \
	X(213, void, scalar_function_set_special_handling, (duckdb_ptr f))                                           \
	X(214, void, scalar_function_set_volatile, (duckdb_ptr f))                                                   \
	X(215, void, scalar_function_add_parameter, (duckdb_ptr f, duckdb_ptr type))                                 \
	X(216, void, scalar_function_set_return_type, (duckdb_ptr f, duckdb_ptr type))                               \
	X(217, void, scalar_function_set_extra_info, (duckdb_ptr f, void *info, bglm_delete_fn del))                 \
	X(218, void, scalar_function_set_function, (duckdb_ptr f, bglm_scalar_fn fn))                                \
	X(220, void *, scalar_function_get_extra_info, (duckdb_ptr info))                                            \
	X(221, void, scalar_function_set_error, (duckdb_ptr info, const char *msg))                                  \
	X(222, duckdb_ptr, create_scalar_function_set, (const char *name))                                           \
	X(223, void, destroy_scalar_function_set, (duckdb_ptr *set))                                                 \
	X(224, int, add_scalar_function_to_set, (duckdb_ptr set, duckdb_ptr f))                                      \
	X(225, int, register_scalar_function_set, (duckdb_ptr con, duckdb_ptr set))                                  \
	X(226, duckdb_ptr, create_aggregate_function, (void))                                                        \
	X(227, void, destroy_aggregate_function, (duckdb_ptr *f))                                                    \
	X(228, void, aggregate_function_set_name, (duckdb_ptr f, const char *name))                                  \
	X(229, void, aggregate_function_add_parameter, (duckdb_ptr f, duckdb_ptr type))                              \
	X(230, void, aggregate_function_set_return_type, (duckdb_ptr f, duckdb_ptr type))                            \
	X(231, void, aggregate_function_set_functions,                                                               \
	  (duckdb_ptr f, bglm_size_fn size, bglm_init_fn init, bglm_update_fn update, bglm_combine_fn combine,       \
	   bglm_finalize_fn finalize))                                                                               \
	X(232, void, aggregate_function_set_destructor, (duckdb_ptr f, bglm_destroy_fn destroy))                     \
	X(234, void, aggregate_function_set_special_handling, (duckdb_ptr f))                                        \
	X(235, void, aggregate_function_set_extra_info, (duckdb_ptr f, void *info, bglm_delete_fn del))              \
	X(236, void *, aggregate_function_get_extra_info, (duckdb_ptr info))                                         \
	X(237, void, aggregate_function_set_error, (duckdb_ptr info, const char *msg))                               \
	X(238, duckdb_ptr, create_aggregate_function_set, (const char *name))                                        \
	X(239, void, destroy_aggregate_function_set, (duckdb_ptr *set))                                              \
	X(240, int, add_aggregate_function_to_set, (duckdb_ptr set, duckdb_ptr f))                                   \
	X(241, int, register_aggregate_function_set, (duckdb_ptr con, duckdb_ptr set))                               \
	X(307, duckdb_ptr, create_cast_function, (void))                                                             \
	X(308, void, cast_function_set_source_type, (duckdb_ptr f, duckdb_ptr type))                                 \
	X(309, void, cast_function_set_target_type, (duckdb_ptr f, duckdb_ptr type))                                 \
	X(311, void, cast_function_set_function, (duckdb_ptr f, bglm_cast_fn fn))                                    \
	X(312, void, cast_function_set_extra_info, (duckdb_ptr f, void *info, bglm_delete_fn del))                   \
	X(313, void *, cast_function_get_extra_info, (duckdb_ptr info))                                              \
	X(315, void, cast_function_set_error, (duckdb_ptr info, const char *msg))                                    \
	X(317, int, register_cast_function, (duckdb_ptr con, duckdb_ptr f))                                          \
	X(318, void, destroy_cast_function, (duckdb_ptr *f))

// What DuckDB has from 1.5.4 on, in the slots of 1.5.4 to 1.5.6: looked up by version
// and never needed.
#define BGLM_MORE(X)                                                                                             \
	X(423, duckdb_ptr, create_config_option, (void))                                                             \
	X(424, void, destroy_config_option, (duckdb_ptr *o))                                                         \
	X(425, void, config_option_set_name, (duckdb_ptr o, const char *name))                                       \
	X(426, void, config_option_set_type, (duckdb_ptr o, duckdb_ptr type))                                        \
	X(427, void, config_option_set_default_value, (duckdb_ptr o, duckdb_ptr value))                              \
	X(428, void, config_option_set_default_scope, (duckdb_ptr o, int scope))                                     \
	X(429, void, config_option_set_description, (duckdb_ptr o, const char *text))                                \
	X(430, int, register_config_option, (duckdb_ptr con, duckdb_ptr o))                                          \
	X(469, void, destroy_error_data, (duckdb_ptr *e))                                                            \
	X(473, void, destroy_expression, (duckdb_ptr *e))                                                            \
	X(474, duckdb_ptr, expression_return_type, (duckdb_ptr e))                                                   \
	X(475, bool, expression_is_foldable, (duckdb_ptr e))                                                         \
	X(476, duckdb_ptr, expression_fold, (duckdb_ptr context, duckdb_ptr e, duckdb_ptr *value))                   \
	X(501, void, destroy_client_context, (duckdb_ptr *context))                                                  \
	X(511, void, scalar_function_set_bind, (duckdb_ptr f, bglm_bind_fn fn))                                      \
	X(512, void, scalar_function_bind_set_error, (duckdb_ptr info, const char *msg))                             \
	X(513, void, scalar_function_get_client_context, (duckdb_ptr info, duckdb_ptr *context))                     \
	X(516, void *, scalar_function_bind_get_extra_info, (duckdb_ptr info))                                       \
	X(517, idx_t, scalar_function_bind_get_argument_count, (duckdb_ptr info))                                    \
	X(518, duckdb_ptr, scalar_function_bind_get_argument, (duckdb_ptr info, idx_t i))                            \
	X(539, void, vector_reference_value, (duckdb_ptr v, duckdb_ptr value))

typedef struct {
#define X(slot, ret, name, args) ret(*name) args;
	BGLM_API(X)
	BGLM_MORE(X) // NULL where this DuckDB is older
#undef X
} bglm_api_table;

extern bglm_api_table bglm_api;

// bglm_link fills bglm_api; NULL, or the name of a function that is missing.
const char *bglm_link(const void *const *slots);
// bglm_more says whether the functions of BGLM_MORE are there.
static inline bool bglm_more(void) { return bglm_api.register_config_option != NULL; }

// ---- columnar views --------------------------------------------------------

// One vector of a nested column. The children of a node are contiguous.
typedef struct {
	int32_t type;     // DuckDB type id
	int32_t internal; // storage type id of DECIMAL and ENUM
	int32_t scale;    // DECIMAL scale
	int32_t nchild;
	int64_t child; // index of the first child
	uint64_t count;      // entries of this vector
	uint64_t array_size; // ARRAY length
	uint64_t base;       // results: first row to write
	bool nulls;          // results, below a list: there are NULLs
	void *data;
	uint64_t *valid; // NULL = all valid
	char *name;      // field name inside a STRUCT, else NULL
	duckdb_ptr vec;
	duckdb_ptr ltype; // ENUM only
} bglm_node;

// Of a number of entries that a list of a result gains: some of them hold NULL.
#define BGLM_HAS_NULLS ((uint64_t)1 << 63)

// Text of one result column: lens[i] == UINT64_MAX leaves row i alone.
typedef struct {
	int64_t node;
	uint64_t n;
	uint64_t *lens;
	char *bytes;
} bglm_text;

// What a Go callback hands back: an error text, or a token for the pending
// result and the number of entries each of its lists adds (preorder).
typedef struct {
	char *err;
	uint64_t token;
	uint64_t *list_add;
	uint64_t nlist;
} bglm_out;

// ---- aggregate states ------------------------------------------------------

#define BGLM_MAGIC 0x62676c6d5f737431ull
#define BGLM_CONSUMED 1u

// The bytes DuckDB owns and may copy: no pointer into Go memory.
typedef struct {
	uint64_t magic;
	void *self;      // address at init, for sanity checks only
	uint64_t handle; // slab index and generation; 0 = no Go state yet
	_Atomic uint32_t flags;
	uint32_t tid; // number of the thread that ran init
	// Place among states that one thread initialised one behind the other: 0 for the
	// first. A size of 56 bytes keeps states that were allocated singly apart.
	uint64_t place;
	// Which aggregate of a SELECT it belongs to (lanes.go). Update calls are numbered by
	// thread; first and sig are noted where the rules for DuckDB 2 are on.
	uint32_t epoch; // the last call of the thread before init
	uint32_t first; // the first call for this state, BGLM_ELSEWHERE by another thread, 0 = none
	uint32_t fid;   // the function
	uint32_t sig;   // hash of its argument types, 0 = no call yet
} bglm_state;

#define BGLM_ELSEWHERE UINT32_MAX

// How update was called, by the code that called it.
typedef struct {
	bool constant; // only states[0] is valid and stands for all rows
	int window;    // BGLM_WINDOW, BGLM_SORTED_WINDOW or 0
	int lanes;     // BGLM_PLAIN and so on where lanes.go decides on constant, else 0
	uint32_t call, tid; // number of the call and its thread; 0 where the rules for DuckDB 2 are off
} bglm_caller;

enum {
	BGLM_PLAIN = 1,    // a GROUP BY without FILTER
	BGLM_FILTERED = 2, // a GROUP BY with FILTER
	BGLM_UNTAUGHT = 3, // a GROUP BY with DISTINCT, or that no lesson has shown
	BGLM_STRANGE = 4,  // an unknown caller
};

enum {
	BGLM_WINDOW = 1,        // a window whose frame is the whole partition, row by row
	BGLM_SORTED_WINDOW = 2, // the same, the rows sorted and handed over at the end
};

// What the first partition of a window said, kept for the ones behind it.
typedef struct {
	uint64_t set, options, leaf;
	int32_t varies;
} bglm_first;

// bglm_lesson: until the next call, an update whose second argument is a list that
// begins with token comes from a caller of this kind.
enum {
	BGLM_LESSON_WINDOW = 1,
	BGLM_LESSON_SORTED = 2,
	BGLM_LESSON_SORTED_WINDOW = 3,
	BGLM_LESSON_GROUPED = 4,
	BGLM_LESSON_FILTERED = 5,
	BGLM_LESSON_DISTINCT = 6
};
void bglm_lesson(int kind, double token);
// bglm_rules turns the rules for DuckDB 2 (lanes.go) on or off.
void bglm_rules(bool on);
bool bglm_ruled(void);
// bglm_warming: queries that show the callers run, none of them with a constant chunk of
// several aggregates.
void bglm_warming(bool on);
// bglm_hear: until the next call, a cast to the type of a setting whose text is token is
// a lesson: made by SET (BGLM_HEAR_SET), or by anything else.
enum { BGLM_HEAR_SET = 1, BGLM_HEAR_OTHER = 2 };
void bglm_hear(int lesson, const char *token);
// bglm_ask_constants turns the reading of constant arguments at bind on or off.
void bglm_ask_constants(bool on);
// bglm_readable reports whether n bytes at p can be read.
int bglm_readable(const void *p, uint64_t n);

// bglm_watch_forks makes bglm_forked give an error text in children of this process, else
// NULL.
void bglm_watch_forks(void);
const char *bglm_forked(void);

// ---- entry points used from Go ---------------------------------------------

const char *bglm_register_aggregate(duckdb_ptr con, const char *name, uint64_t fid, const int32_t *arity,
                                    const duckdb_ptr *params, int32_t nover, duckdb_ptr ret);
const char *bglm_register_scalar(duckdb_ptr con, const char *name, const uint64_t *fid, const int32_t *arity,
                                 const duckdb_ptr *params, int32_t nover, const duckdb_ptr *ret, bool is_volatile, bool binds);
// bglm_register_setting adds the option name to SET; setting k hears its values.
const char *bglm_register_setting(duckdb_ptr con, const char *name, const char *about, uint64_t k);
// bglm_exec runs sql and drops the result; a malloc'ed error text or NULL.
char *bglm_exec(duckdb_ptr con, const char *sql);
duckdb_ptr bglm_type(int id);
duckdb_ptr bglm_type_list(duckdb_ptr elem);
duckdb_ptr bglm_type_map(duckdb_ptr key, duckdb_ptr value);
duckdb_ptr bglm_type_struct(duckdb_ptr *types, const char **names, uint64_t n);
void bglm_type_destroy(duckdb_ptr t);
char *bglm_enum_value(duckdb_ptr ltype, uint64_t i);
uint32_t bglm_enum_size(duckdb_ptr ltype);
void bglm_free(void *p);
const char *bglm_version(void);

// Counters of the call-site classifier: flat, constant and conflicting sites,
// updates decided by the fast path, by unwinding, and by inspection; then callers
// known as whole-partition windows, as ordered aggregates, and as windows above these.
typedef struct {
	uint64_t flat, constant, conflict, fast, unwound, inspected, windows, sorted, parents;
	uint64_t grouped, filtered, distinct; // routes known as GROUP BY without FILTER, with it, with DISTINCT
} bglm_sites;
void bglm_site_counts(bglm_sites *out);
#endif
