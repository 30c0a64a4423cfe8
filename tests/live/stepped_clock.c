/* The wall clock of a process is ahead of the machine's by the seconds that stand, as 8 bytes, in the file
   AHEAD.  Monotonic clocks go as they go. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *ahead;

__attribute__((constructor)) static void open_ahead(void) {
    int fd = open(AHEAD, O_RDONLY | O_CLOEXEC);
    void *shown = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, fd, 0);
    if (shown != MAP_FAILED) ahead = shown;
    if (fd >= 0) close(fd);
}

static void move(struct timespec *at) {
    if (!ahead) return;
    double by = *ahead;
    at->tv_sec += (time_t)by;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int code = (int)syscall(SYS_clock_gettime, clock, at);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(at);
    return code;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
