// A call to name is one to its first version, which glibc 2.2.5 has, or to another one.
#define OLD(name) OLDER(name, 2.2.5)
#define OLDER(name, version)                                                                                                \
	__asm__(".symver old_" #name ", " #name "@GLIBC_" #version "\n"                                                     \
	        ".text\n.globl __wrap_" #name "\n.hidden __wrap_" #name "\n.type __wrap_" #name ", @function\n"      \
	        "__wrap_" #name ": jmp *old_" #name "@GOTPCREL(%rip)\n"                                              \
	        ".size __wrap_" #name ", . - __wrap_" #name "\n");
