/* A driver with the calls that checkpoint processes, for tests.  What it knows of a process lies in
 * $TOY_CUDA: PID holds its state (no file: it has no context), PID.managed has its checkpoint refused,
 * PID.late the number of locks whose time runs out, `full` every restore.  A stopped process answers nothing,
 * as on a real driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DONE = 0, NO_MEMORY = 2, NOT_INITIALISED = 3, ILLEGAL_STATE = 401, NOT_READY = 600, NOT_SUPPORTED = 801 };

struct lock_arguments { unsigned timeout_ms, reserved; unsigned long long more[7]; };

static const char *path_of(int pid, const char *what, char *path) {
    snprintf(path, 512, "%s/%d%s", getenv("TOY_CUDA"), pid, what);
    return path;
}

static int number_in(const char *path) {
    int number = -1;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &number) != 1) number = -1;
        fclose(file);
    }
    return number;
}

static void write_number(const char *path, int number) {
    char other[520];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    fprintf(file, "%d", number);
    fclose(file);
    rename(other, path);
}

static int is_stopped(int pid) {
    char path[64], text[512] = "", *name;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    name = strrchr(text, ')');
    return name && name[2] == 'T';
}

/* Its state, once it answers. */
static int state_of(int pid) {
    char path[512];
    while (is_stopped(pid)) usleep(10000);
    return number_in(path_of(pid, "", path));
}

static int change(int pid, int from, int to) {
    char path[512];
    int state = state_of(pid);
    if (state < 0) return NOT_INITIALISED;
    if (state != from) return ILLEGAL_STATE;
    write_number(path_of(pid, "", path), to);
    return DONE;
}

int cuInit(unsigned flags) { return flags; }

int cuGetErrorName(int status, const char **text) {
    *text = status == NOT_READY ? "CUDA_ERROR_NOT_READY" : "CUDA_ERROR_TOY";
    return 0;
}

int cuCheckpointProcessGetState(int pid, int *state) {
    int found = state_of(pid);
    if (found < 0) return NOT_INITIALISED;
    *state = found;
    return DONE;
}

int cuCheckpointProcessLock(int pid, struct lock_arguments *arguments) {
    char path[512];
    int late = number_in(path_of(pid, ".late", path));
    if (!arguments || !arguments->timeout_ms || arguments->reserved) return 1;
    if (late > 0) {
        write_number(path, late - 1);
        return NOT_READY;
    }
    return change(pid, 0, 1);
}

int cuCheckpointProcessCheckpoint(int pid, void *arguments) {
    char path[512];
    if (arguments) return 1;
    if (access(path_of(pid, ".managed", path), F_OK) == 0) return NOT_SUPPORTED;
    return change(pid, 1, 2);
}

int cuCheckpointProcessRestore(int pid, void *arguments) {
    char path[512];
    if (arguments) return 1;
    snprintf(path, sizeof path, "%s/full", getenv("TOY_CUDA"));
    if (access(path, F_OK) == 0) return NO_MEMORY;
    return change(pid, 2, 1);
}

int cuCheckpointProcessUnlock(int pid, void *arguments) { return arguments ? 1 : change(pid, 1, 0); }
