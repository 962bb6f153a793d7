// An object with static TLS (SIZE bytes), which is an add-on of Node too.
#ifndef SIZE
#define SIZE 16
#endif
static __thread char block[SIZE] __attribute__((tls_model("initial-exec"), aligned(8)));
char *touch_block(void) { return block; }
int node_api_module_get_api_version_v1(void) { return 8; }
void *napi_register_module_v1(void *env, void *exports) {
	(void)env;
	block[0] = 1;
	return exports;
}
