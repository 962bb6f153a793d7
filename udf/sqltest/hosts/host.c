// A plain C program that loads DuckDB's library and then bglm, among other things.
//
// usage: host SCENARIO LIBDUCKDB EXTENSION [OBJECT...]
//
// SCENARIO is one of the functions at the end. The objects are loaded before DuckDB. The
// exit code is 0 when all went as it should; messages go to standard error.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *handle;
typedef struct {
	unsigned long long f[3];
	void *p[3];
} result;

static int (*open_ext)(const char *, handle *, handle, char **);
static int (*create_config)(handle *), (*set_config)(handle, const char *, const char *);
static int (*connect_to)(handle, handle *), (*query)(handle, const char *, result *);
static const char *(*result_error)(result *);
static void (*destroy_result)(result *), (*disconnect)(handle *), (*close_db)(handle *);
static const char *extension;

static void die(const char *what, const char *why) {
	fprintf(stderr, "%s: %s\n", what, why ? why : "failed");
	_exit(1);
}

static void *symbol(void *lib, const char *name) {
	void *p = dlsym(lib, name);
	if (!p)
		die(name, dlerror());
	return p;
}

// run executes sql; its error must contain want, or there is none where want is NULL.
static void run(handle con, const char *sql, const char *want) {
	result r;
	memset(&r, 0, sizeof r);
	int failed = query(con, sql, &r);
	const char *m = failed ? result_error(&r) : NULL;
	if ((want == NULL) != (m == NULL) || (want && !strstr(m, want)))
		die(sql, m ? m : "no error");
	destroy_result(&r);
}

static handle open_db(handle *con) {
	handle config = NULL, db = NULL;
	char *err = NULL;
	if (create_config(&config) || set_config(config, "allow_unsigned_extensions", "true") || open_ext(NULL, &db, config, &err))
		die("open", err);
	if (connect_to(db, con))
		die("connect", NULL);
	return db;
}

static void load(handle con, const char *want) {
	char sql[4096];
	snprintf(sql, sizeof sql, "LOAD '%s'", extension);
	run(con, sql, want);
}

static const char *const check =
	"SELECT CASE WHEN count(*) = 500 AND bool_and(abs(r) < 1e-12) THEN 1 ELSE error('wrong answer') END FROM "
	"(SELECT g, bglm_rmse(i, i) AS r, bglm_adf(i % 3 = 0, {a: i / 1e3} ORDER BY i) AS f FROM (SELECT i, i % 500 AS g FROM range(20000) t(i)) GROUP BY g)";

// ---- scenarios ------------------------------------------------------------------

static void among(void) { // loaded after the objects, twice, into two databases
	handle a, b, da = open_db(&a), db = open_db(&b);
	load(a, NULL);
	run(a, check, NULL);
	load(a, NULL);
	load(b, NULL);
	run(b, check, NULL);
	run(a, check, NULL);
	disconnect(&a);
	close_db(&da);
	run(b, check, NULL); // the other one goes on
	disconnect(&b);
	close_db(&db);
	da = open_db(&a);
	load(a, NULL);
	run(a, check, NULL);
}

static void full(void) { // no static TLS is left: an error, not the end
	handle con;
	open_db(&con);
	load(con, "static TLS");
	run(con, "SELECT 1", NULL);
}

static void forks(void) {
	handle con;
	open_db(&con);
	load(con, NULL);
	run(con, "SET threads = 1", NULL);
	run(con, check, NULL);
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		run(con, "SELECT bglm_version()", "forked");
		run(con, "SELECT bglm_rmse(i, i) FROM range(10) t(i)", "forked");
		run(con, "SELECT sum(i) FROM range(10) t(i)", NULL);
		handle other;
		open_db(&other);
		load(other, "forked");
		_exit(0);
	}
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		die("child", strsignal(status & 127));
	run(con, check, NULL);
	child = fork(); // and one that starts another program
	if (child == 0) {
		execlp("true", "true", (char *)NULL);
		_exit(1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		die("exec in a child", NULL);
	run(con, check, NULL);
}

static volatile sig_atomic_t got[65];
static sigjmp_buf back;
static void on_signal(int s) { got[s]++; }
static void on_fault(int s) {
	got[s]++;
	siglongjmp(back, 1);
}

static void signals(void) { // handlers that were there before bglm still run
	int plain[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE};
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = on_signal;
	for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++)
		sigaction(plain[i], &a, NULL);
	a.sa_handler = on_fault;
	a.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &a, NULL);
	handle con;
	open_db(&con);
	load(con, NULL);
	run(con, check, NULL);
	for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) {
		raise(plain[i]);
		if (got[plain[i]] != 1)
			die("the host's handler was not called", strsignal(plain[i]));
	}
	if (sigsetjmp(back, 1) == 0)
		*(volatile int *)8 = 1;
	if (got[SIGSEGV] != 1)
		die("the host's handler was not called", "a fault");
	run(con, check, NULL);
}

static void *busy(void *con) {
	result r;
	memset(&r, 0, sizeof r);
	query(con, "SELECT bglm_adf(i % 3 = 0, {a: i % 100, b: i % 7}) FROM range(1000000000) t(i)", &r);
	return NULL;
}

static void leaves(void) { // exit while queries run
	handle con[3];
	handle db = open_db(&con[0]);
	load(con[0], NULL);
	run(con[0], check, NULL);
	for (int i = 1; i < 3; i++) {
		pthread_t t;
		if (connect_to(db, &con[i]) || pthread_create(&t, NULL, busy, con[i]))
			die("thread", NULL);
	}
	usleep(300000);
	alarm(60);
	exit(0);
}

static void other_go(void) { // the last object is another Go library
	handle con;
	open_db(&con);
	load(con, NULL);
	int (*work)(void) = (int (*)(void))symbol(RTLD_DEFAULT, "OtherWork");
	for (int i = 0; i < 20; i++) {
		if (work() != 42)
			die("OtherWork", NULL);
		run(con, check, NULL);
	}
}

int main(int argc, char **argv) {
	if (argc < 4)
		die("usage", "host SCENARIO LIBDUCKDB EXTENSION [OBJECT...]");
	int fill = !strcmp(argv[1], "full"); // as many objects as go, behind DuckDB
	void *lib = fill ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
	for (int i = 4; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) && !fill)
			die(argv[i], dlerror());
	if (!lib && !(lib = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)))
		die(argv[2], dlerror());
	extension = argv[3];
	open_ext = symbol(lib, "duckdb_open_ext");
	create_config = symbol(lib, "duckdb_create_config");
	set_config = symbol(lib, "duckdb_set_config");
	connect_to = symbol(lib, "duckdb_connect");
	query = symbol(lib, "duckdb_query");
	result_error = symbol(lib, "duckdb_result_error");
	destroy_result = symbol(lib, "duckdb_destroy_result");
	disconnect = symbol(lib, "duckdb_disconnect");
	close_db = symbol(lib, "duckdb_close");
	struct {
		const char *name;
		void (*run)(void);
	} all[] = {{"among", among}, {"full", full}, {"forks", forks}, {"signals", signals}, {"leaves", leaves}, {"other_go", other_go}};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].name, argv[1])) {
			all[i].run();
			_exit(0);
		}
	die(argv[1], "no such scenario");
}
