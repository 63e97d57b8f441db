/* Preloaded: a process that calls kill_at_call(n) dies by SIGKILL before its n-th write, send, fsync, unlink or truncation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long left = -1;

void kill_at_call(long number)
{
    __atomic_store_n(&left, number, __ATOMIC_SEQ_CST);
}

static void count(void)
{
    if (__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0)
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

ssize_t write(int file, const void *bytes, size_t length)
{
    count();
    return syscall(SYS_write, file, bytes, length);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t position)
{
    count();
    return syscall(SYS_pwrite64, file, bytes, length, position);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t position)
{
    return pwrite64(file, bytes, length, position);
}

ssize_t sendto(int socket, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length)
{
    count();
    return syscall(SYS_sendto, socket, bytes, length, flags, to, to_length);
}

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
    return sendto(socket, bytes, length, flags, NULL, 0);
}

int fsync(int file)
{
    count();
    return syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    count();
    return syscall(SYS_fdatasync, file);
}

int unlink(const char *path)
{
    count();
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int ftruncate64(int file, off64_t length)
{
    count();
    return syscall(SYS_ftruncate, file, length);
}

int ftruncate(int file, off_t length)
{
    return ftruncate64(file, length);
}
