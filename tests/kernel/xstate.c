/*
 * Registers of a CPU with AMX for User Mode Linux 6.12: preloaded, it stands before ptrace().
 *
 * Such a kernel keeps 2696 bytes of XSAVE state, which end with PKRU. Linux 5.14 and later set the
 * state of a process as a whole only, and with AMX it has 11008 bytes: PTRACE_SETREGSET fails with
 * EFAULT, and the kernel panics at its first process. Here the rest is what the process has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* The real one; and a place for the state, since the stacks of that kernel are small. */
static long (*real)(enum __ptrace_request, ...);
static char whole[64 * 1024];

__attribute__((constructor)) static void find_real(void)
{
    real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t process = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    long result = real(request, process, address, data);
    if (result != -1 || errno != EFAULT || request != PTRACE_SETREGSET ||
        address != (void *)NT_X86_XSTATE)
        return result;

    struct iovec part = *(struct iovec *)data, all = { whole, sizeof whole };
    result = real(PTRACE_GETREGSET, process, address, &all);
    if (result == -1)
        return result;
    memcpy(whole, part.iov_base, part.iov_len < all.iov_len ? part.iov_len : all.iov_len);
    return real(PTRACE_SETREGSET, process, address, &all);
}
