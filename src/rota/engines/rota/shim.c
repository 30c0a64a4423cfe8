/* The shim as a program of its own: what shim.py does, for machines where it could be compiled.

       rota-shim FOLDER FD PLAN

   FD is the pipe to the agent, PLAN a descriptor to read what is to be run from (`native.py` writes it).  Files,
   locks, exit codes, named crash points and order of events are those of shim.py, which says why; the same
   tests hold both to them.  A process of it has some 100 KB of its own where an interpreter has 6 MB, and starts
   in a tenth of the time. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { TAKEN = 75, NO_ROOM = 74, LEAVING = 85, LOCK_TRIES = 10, PLAN_VERSION = 1 };
static const off_t ROOM_BYTES = 1 << 16;
static const double ORPHAN_S = 2.0, NEVER = INFINITY, FENCED_AT = 0.9, LATEST_S = 5.0;
static const int REFUSED_US = 100000, REFUSED_MOST_US = 800000; /* until a record is tried again */
static const char SILENT[] = "the controller was silent for too long, and the job fences itself";
static const unsigned long long SMALLEST_DISK = 1 << 20;
static const int DEAF[] = {SIGTERM, SIGINT, SIGHUP};
static const int RESET[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ, SIGCHLD};
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct {
    char *path, *partial;
    int fd;
} Room;

typedef struct {
    int number, log, error_pipe, status;
    pid_t pid; /* 0 once it has ended */
    double ended_s, cpu_s;
    long long peak_bytes;
    bool has_ended;
    int core_count, *cores;
    char **env;
    char *output, *error; /* files of its user's choice; "" for none */
    int ends[2];          /* what it gets as its output and error */
} Rank;

/* What is to be run. */
static char *workdir, **command;
static double grace_s;
static bool switches_user;
static uid_t uid;
static gid_t gid, *groups;
static int group_count, cgroup_count, rank_count;
static char **cgroups;
static long long log_limit, output_limit; /* bytes; 0 is no limit */
static bool wants_terminal;               /* for its first process */
static const char *contact = "";          /* when the controller was heard, if the attempt fences itself */
static Rank *ranks;

/* What has become of it. */
static const char *folder, *stop_path;
static int agent, child_ends;
static pid_t process_group;
static int first_failed = -1;
static char *fault; /* why it could not be started */
static bool infrastructure;

/* -- small things ------------------------------------------------------------------------------- */

static void crash_point(const char *name) {
    const char *wanted = getenv("ROTA_CRASH_AT");
    if (wanted && !strcmp(wanted, name)) kill(getpid(), SIGKILL);
}

static char *text(const char *format, ...) {
    char *made;
    va_list values;
    va_start(values, format);
    if (vasprintf(&made, format, values) < 0) abort();
    va_end(values);
    return made;
}

static void *room_for(size_t count, size_t size) {
    void *made = calloc(count ? count : 1, size);
    if (!made) abort();
    return made;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Unix seconds by the wall clock as it stood at the first call: whoever sets it moves nothing that we say. */
static double unix_s(void) {
    static double ahead_s;
    if (!ahead_s) ahead_s = seconds(CLOCK_REALTIME) - seconds(CLOCK_MONOTONIC);
    return seconds(CLOCK_MONOTONIC) + ahead_s;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void tell(const char *what) {
    ssize_t ignored = write(agent, what, 1); /* to an agent that may be dead */
    (void)ignored;
}

/* All of a small file, ended by a zero; NULL if it cannot be read. */
static char *content(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t have = 0, size = 4096;
    char *data = room_for(size, 1);
    ssize_t got;
    while ((got = read(fd, data + have, size - have - 1)) > 0) {
        have += got;
        if (have + 1 >= size && !(data = realloc(data, size *= 2))) abort();
    }
    data[have] = 0;
    close(fd);
    return data;
}

/* The fields of /proc/PID/stat from the state on; NULL if the process is gone. */
static char *stat_of(pid_t pid) {
    char *path = text("/proc/%d/stat", pid), *all = content(path);
    free(path);
    char *end = all ? strrchr(all, ')') : NULL;
    if (!end) {
        free(all);
        return NULL;
    }
    memmove(all, end + 2, strlen(end + 2) + 1);
    return all;
}

static const char *field(const char *stat, int number) {
    while (number--) {
        stat = strchr(stat, ' ');
        if (!stat) return "0";
        stat++;
    }
    return stat;
}

static long long oom_kills(void) {
    char *all = content("/proc/vmstat"), *line = all ? strstr(all, "\noom_kill ") : NULL;
    long long count = line ? atoll(line + 10) : 0;
    free(all);
    return count;
}

#include "terminal.h"
#include "pump.h"

/* -- JSON --------------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at `at`; 0 if there is none. */
static int sequence(const unsigned char *at) {
    int length = *at >= 0xf0 && *at < 0xf5 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc2 ? 2 : 0;
    if (*at >= 0xf5) return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (length == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0))) return 0;
    if (length == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90))) return 0;
    return length;
}

/* As Python writes it: bytes that are no text become single surrogates. */
static void put_string(FILE *out, const char *string) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)string; *at; at++) {
        int length = *at < 0x80 ? 1 : sequence(at);
        if (*at == '"' || *at == '\\') fprintf(out, "\\%c", *at);
        else if (*at < 0x20) fprintf(out, "\\u%04x", *at);
        else if (!length) fprintf(out, "\\udc%02x", *at);
        else {
            fwrite(at, 1, length, out);
            at += length - 1;
        }
    }
    fputc('"', out);
}

static void put_identity(FILE *out, pid_t pid) {
    char *stat = stat_of(pid), *boot = content("/proc/sys/kernel/random/boot_id");
    if (boot) boot[strcspn(boot, "\n")] = 0;
    fprintf(out, "\"pid\": %d, \"started\": %lld, \"boot\": ", pid, stat ? atoll(field(stat, 19)) : 0);
    put_string(out, boot ? boot : "");
    free(stat);
    free(boot);
}

/* -- rooms -------------------------------------------------------------------------------------- */

static int make_room(Room *room, const char *name) {
    room->path = text("%s/%s.json", folder, name);
    room->partial = text("%s/.%s.json.room", folder, name);
    room->fd = open(room->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return room->fd < 0 ? errno : posix_fallocate(room->fd, 0, ROOM_BYTES);
}

/* Write the record and give it its name; returns false where the disk or file system refuses. */
static bool fill(const Room *room, const char *data) {
    size_t size = strlen(data), done = 0;
    while (done < size) {
        ssize_t wrote = pwrite(room->fd, data + done, size - done, done);
        if (wrote < 0) return false;
        done += wrote;
    }
    if (ftruncate(room->fd, size)) return false;
    char *unnamed = text("%s unnamed", strrchr(room->path, '/') + 1);
    crash_point(unnamed);
    free(unnamed);
    return !rename(room->partial, room->path);
}

/* Write the record of an end however long its file system takes nothing (it is read-only, or away): what has
   ended must not be taken for lost.  False only if the folder has gone. */
static bool insist(Room *room, const char *data) {
    for (int wait_us = REFUSED_US; !fill(room, data); wait_us *= wait_us < REFUSED_MOST_US ? 2 : 1) {
        if (errno == ENOENT || errno == ENOTDIR) return false;
        if (wait_us == REFUSED_US) tell("W");
        usleep(wait_us);
        int fd = open(room->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* it may be mounted anew */
        if (fd < 0) continue;
        close(room->fd);
        room->fd = fd;
    }
    return true;
}

/* Make a record and its name survive a power cut. */
static bool keep(const Room *room) {
    int above = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return above >= 0 && !fsync(room->fd) && !fsync(above);
}

/* -- processes ---------------------------------------------------------------------------------- */

static bool has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* Every living process below us, in an array that ends with 0; orphans of ours are ours again. */
static pid_t *descendants(void) {
    size_t count = 0, size = 256, found = 0;
    pid_t(*table)[2] = room_for(size, sizeof *table), *below;
    DIR *processes = has_children() ? opendir("/proc") : NULL;
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        char *stat = stat_of(atoi(entry->d_name));
        if (stat && ((*stat != 'Z' && *stat != 'X') || atoi(field(stat, 17)) > 1)) { /* its threads live */
            if (count == size && !(table = realloc(table, (size *= 2) * sizeof *table))) abort();
            table[count][0] = atoi(entry->d_name);
            table[count++][1] = atoi(field(stat, 1));
        }
        free(stat);
    }
    if (processes) closedir(processes);
    below = room_for(count + 1, sizeof *below);
    pid_t parent = getpid();
    for (size_t next = 0;; parent = below[next++]) {
        for (size_t i = 0; i < count; i++)
            if (table[i][1] == parent) below[found++] = table[i][0];
        if (next >= found) break;
    }
    free(table);
    return below;
}

static bool has_descendants(void) {
    pid_t *below = descendants();
    bool some = *below != 0;
    free(below);
    return some;
}

/* Send signals to everything below us; those gone already, or become another user's, are passed over. */
static void send_all(int number, int after) {
    pid_t *below = descendants();
    for (pid_t *pid = below; *pid; pid++) {
        kill(*pid, number);
        if (after) kill(*pid, after);
    }
    free(below);
}

static void kill_all(void) { send_all(SIGKILL, 0); }

/* Until a child ends, or for `wait_s`; what ranks write meanwhile goes where it belongs. */
static void sleep_for(double wait_s) {
    struct pollfd *all = room_for(pump_count + 3, sizeof *all);
    if (unseen_size) wait_s = fmin(wait_s, VIEWER_S);
    int wait_ms = wait_s > 1e6 ? -1 : (int)(1000 * (wait_s > 0 ? wait_s : 0)) + 1;
    struct signalfd_siginfo ignored[16];
    all[pump_count] = (struct pollfd){child_ends, POLLIN, 0};
    all[pump_count + 1] = (struct pollfd){viewer, viewer_events(), 0};
    all[pump_count + 2] = (struct pollfd){listener, POLLIN, 0};
    for (int i = 0; i < pump_count; i++) {
        short events = is_terminal(&pumps[i]) ? terminal_events() : POLLIN;
        all[i] = (struct pollfd){events ? pumps[i].fd : -1, events, 0};
    }
    if (poll(all, pump_count + 3, wait_ms) > 0) {
        for (int i = 0; i < pump_count; i++) {
            if (all[i].revents & POLLOUT) type_on();
            if (all[i].revents & ~POLLOUT) pump(&pumps[i]);
        }
        tend_viewer(all[pump_count + 1].revents, all[pump_count + 2].revents);
        if (all[pump_count].revents && read(child_ends, ignored, sizeof ignored) < 0) wait_ms = 0;
    } else {
        show_on();
    }
    free(all);
}

static bool failed(const Rank *rank) {
    return !(WIFEXITED(rank->status) && (WEXITSTATUS(rank->status) == 0 || WEXITSTATUS(rank->status) == LEAVING));
}

/* Bury who has ended; says whether a rank has just failed, or left by checkpoint. */
static void reap(bool *has_failed, bool *has_left) {
    int status, first = -1;
    struct rusage used;
    *has_failed = *has_left = false;
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &used)) > 0;)
        for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
            if (rank->pid != pid) continue;
            rank->pid = 0, rank->status = status, rank->has_ended = true;
            rank->ended_s = unix_s();
            rank->cpu_s = used.ru_utime.tv_sec + used.ru_stime.tv_sec
                          + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
            rank->peak_bytes = used.ru_maxrss * 1024LL;
            *has_left |= WIFEXITED(status) && WEXITSTATUS(status) == LEAVING;
            *has_failed |= failed(rank);
            if (failed(rank) && (first < 0 || rank->number < first)) first = rank->number;
        }
    if (first_failed < 0) first_failed = first;
}

static bool any_runs(void) {
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++)
        if (rank->pid) return true;
    return false;
}

/* -- the plan ----------------------------------------------------------------------------------- */

static char *plan_at, *plan_end;

static char *token(void) {
    char *start = plan_at;
    if (start >= plan_end) {
        fprintf(stderr, "the plan of the attempt ends too early\n");
        exit(70);
    }
    plan_at += strlen(start) + 1;
    return start;
}

static int number(void) { return atoi(token()); }

/* A counted list, with room for one more and NULL at its end. */
static char **list(int *count) {
    *count = number();
    char **items = room_for(*count + 2, sizeof *items);
    for (int i = 0; i < *count; i++) items[i] = token();
    return items;
}

static void read_plan(int fd) {
    struct stat status;
    if (fstat(fd, &status)) exit(70);
    char *data = room_for(status.st_size + 1, 1);
    ssize_t size = pread(fd, data, status.st_size, 0);
    close(fd);
    plan_at = data, plan_end = data + (size > 0 ? size : 0);
    if (number() != PLAN_VERSION) {
        fprintf(stderr, "the plan of the attempt is of another version of Rota\n");
        exit(70);
    }
    int count;
    workdir = token(), grace_s = atof(token());
    switches_user = number(), uid = strtoul(token(), NULL, 10), gid = strtoul(token(), NULL, 10);
    char **named = list(&group_count);
    groups = room_for(group_count, sizeof *groups);
    for (int i = 0; i < group_count; i++) groups[i] = strtoul(named[i], NULL, 10);
    cgroups = list(&cgroup_count), command = list(&count);
    rank_count = number();
    ranks = room_for(rank_count, sizeof *ranks);
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
        rank->number = number();
        char **cores = list(&rank->core_count);
        rank->cores = room_for(rank->core_count, sizeof *rank->cores);
        for (int i = 0; i < rank->core_count; i++) rank->cores[i] = atoi(cores[i]);
        rank->env = list(&count);
        rank->output = rank->error = "";
    }
    if (plan_at >= plan_end) return; /* of an agent that knows no such thing */
    log_limit = atoll(token()), output_limit = atoll(token());
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) rank->output = token(), rank->error = token();
    wants_terminal = plan_at < plan_end && number();
    if (plan_at < plan_end) contact = token();
}

/* -- a rank begins ------------------------------------------------------------------------------ */

static void write_file(const char *path, const char *what) { /* a help where the machine allows it */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t ignored = write(fd, what, strlen(what));
    (void)ignored;
    close(fd);
}

static const char *variable(char **env, const char *name) {
    size_t length = strlen(name);
    for (; *env; env++)
        if (!strncmp(*env, name, length) && (*env)[length] == '=') return *env + length + 1;
    return NULL;
}

/* Become the command, found as a shell would; returns with `errno` set where that fails. */
static void execute(char **env) {
    if (strchr(command[0], '/')) {
        execve(command[0], command, env);
        return;
    }
    const char *path = variable(env, "PATH");
    int last = ENOENT, real = 0;
    for (const char *at = path ? path : "/bin:/usr/bin";; at++) {
        size_t length = strcspn(at, ":");
        char *program = length ? text("%.*s/%s", (int)length, at, command[0]) : text("%s", command[0]);
        execve(program, command, env);
        last = errno;
        if (!real && last != ENOENT && last != ENOTDIR) real = last;
        free(program);
        at += length;
        if (!*at) break;
    }
    errno = real ? real : last;
}

static int limit_to(const Rank *rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < rank->core_count; i++) CPU_SET(rank->cores[i], &set);
    return rank->core_count ? sched_setaffinity(0, sizeof set, &set) : 0;
}

/* A child; in the control group of the attempt from its first moment on where the kernel can do that, since to
   move a process there takes many milliseconds on a quiet machine.  `*is_inside` says whether it is. */
static pid_t fork_into(const char *members, bool *is_inside) {
    int group = -1;
    if (members) {
        char *path = text("%.*s", (int)(strrchr(members, '/') - members), members);
        group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        free(path);
    }
    struct clone_args how = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = group};
    *is_inside = true;
    pid_t pid = group < 0 ? -1 : syscall(SYS_clone3, &how, sizeof how);
    if (pid < 0) {
        *is_inside = false;
        pid = fork();
    }
    if (pid && group >= 0) close(group);
    return pid;
}

/* In the child: turn into the rank, or tell the pipe `STEP ERRNO` and die. */
static void become(Rank *rank, int errors, pid_t shim, bool is_inside) {
    const char *step = "prepare";
    sigset_t none;
    sigemptyset(&none);
    if (wants_terminal ? setsid() < 0 || ioctl(rank->ends[0], TIOCSCTTY, 0) : setpgid(0, process_group)) goto broken;
    for (int i = is_inside ? 1 : 0; i < cgroup_count; i++) write_file(cgroups[i], "0");
    write_file("/proc/self/oom_score_adj", "300"); /* memory runs out: rather a rank than the shim */
    int input = wants_terminal ? rank->ends[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || dup2(input, 0) < 0 || dup2(rank->ends[0], 1) < 0 || dup2(rank->ends[1], 2) < 0) goto broken;
    if (limit_to(rank)) goto broken;
    if (switches_user && (setgroups(group_count, groups) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)))
        goto broken;
    for (size_t i = 0; i < COUNT(RESET); i++) signal(RESET[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of user would forget it */
    if (getppid() != shim) _exit(1);           /* it died before we could ask to die with it */
    step = "workdir";
    if (chdir(workdir)) goto broken;
    step = "command";
    execute(rank->env);
broken:;
    int why = errno ? errno : EINVAL;
    dprintf(errors, "%s %d", step, why);
    _exit(!strcmp(step, "command") && why == ENOENT ? 127 : 126);
}

/* One sentence about a rank that did not begin; `*is_ours` if that is no fault of the user. */
static char *blame(const Rank *rank, const char *step, int why, bool *is_ours) {
    const char *name = command[0], *path = variable(rank->env, "PATH"), *reason = strerror(why);
    *is_ours = !strcmp(step, "prepare");
    if (*is_ours) return text("this machine could not prepare the process: %s", reason);
    if (!strcmp(step, "workdir"))
        return text("the working folder '%s' cannot be entered on this machine: %s", workdir, reason);
    if (why == EACCES)
        return text("'%s' may not be executed; `chmod +x` it, or put its interpreter before it", name);
    if (why == ENOEXEC)
        return text("'%s' is no program and has no `#!` line; put its interpreter before it", name);
    if (why != ENOENT) return text("'%s' cannot be run: %s", name, reason);
    if (!strchr(name, '/'))
        return text("there is no command '%s' in PATH=%s", name, path ? path : "/bin:/usr/bin");
    char *file = *name == '/' ? text("%s", name) : text("%s/%s", workdir, name);
    bool is_there = exists(file);
    free(file);
    if (is_there)
        return text("the interpreter that the first line of '%s' names is not on this machine", name);
    return text("there is no file '%s' to run (working folder '%s')", name, workdir);
}

/* Whether the rank's command began; if not, say in its log and in the record what was wrong. */
static void check(Rank *rank) {
    char said[64] = "", step[32];
    size_t have = 0;
    for (ssize_t got; have < sizeof said - 1 && (got = read(rank->error_pipe, said + have, sizeof said - 1 - have)) > 0;)
        have += got;
    close(rank->error_pipe);
    int why;
    bool is_ours;
    if (sscanf(said, "%31s %d", step, &why) == 2) {
        char *sentence = blame(rank, step, why, &is_ours);
        dprintf(rank->log, "rota: %s\n", sentence);
        if (!fault) fault = sentence;
        infrastructure |= is_ours;
    }
    if (rank->ends[0] == rank->log) return (void)close(rank->log);
    close(rank->ends[1]); /* its own are open in it */
    if (!wants_terminal) close(rank->ends[0]); /* else a program that closes its own would be hung up */
}

/* This machine is to blame: nothing of the attempt may go on. */
static void give_up(const char *file, const char *why) {
    fault = text("the attempt could not be started: %s%s%s", file ? file : "", file ? ": " : "", why);
    infrastructure = true;
    kill_all();
}

/* -- files of the user's choice ----------------------------------------------------------------- */

/* Opened as the job's user, never through a link at its end; -1 with `errno` set. */
static int open_theirs(const char *path) {
    if (switches_user) setgroups(group_count, groups), setfsgid(gid), setfsuid(uid);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    int why = errno;
    if (switches_user) setfsuid(geteuid()), setfsgid(getegid()), setgroups(0, NULL);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode))) {
        close(fd);
        fd = -1, why = EINVAL;
    }
    errno = why;
    return fd;
}

/* Where what goes to `path` is written; one for all ranks that name the same. */
static Sink *theirs(char *path) {
    for (int i = 0; i < pump_count; i++)
        if (pumps[i].sinks[1] && !strcmp(pumps[i].sinks[1]->path, path)) return pumps[i].sinks[1];
    int fd = open_theirs(path);
    return fd < 0 ? NULL : sink_of(path, fd, output_limit);
}

/* It cannot begin, by its user's fault: as if it had ended with 126. */
static void refuse(Rank *rank, const char *path, int why) {
    const char *reason = why == ELOOP ? "it is a link" : why == EINVAL || why == ENXIO ? "it is no ordinary file" : strerror(why);
    fault = text("the output file '%s' cannot be written on this machine: %s", path, reason);
    dprintf(rank->log, "rota: %s\n", fault);
    rank->has_ended = true, rank->status = 126 << 8, rank->ended_s = unix_s();
    first_failed = rank->number;
}

static void pump_to(Pump one) {
    fcntl(one.fd, F_SETFL, O_NONBLOCK);
    if (!(pumps = realloc(pumps, (pump_count + 1) * sizeof *pumps))) abort();
    pumps[pump_count++] = one;
}

/* A rank of which people are the other end. */
static bool connect_terminal(Rank *rank) {
    Pump one = {.sinks = {sink_of(NULL, rank->log, log_limit), *rank->output ? theirs(rank->output) : NULL}};
    if (*rank->output && !one.sinks[1]) return refuse(rank, rank->output, errno), false;
    rank->ends[0] = open_terminal(folder, switches_user, uid);
    if (rank->ends[0] < 0) return give_up("its terminal", strerror(errno)), false;
    rank->ends[1] = fcntl(rank->ends[0], F_DUPFD_CLOEXEC, 3), one.fd = terminal;
    return pump_to(one), true;
}

/* What a rank gets as its output and error: its log, or pipes to us.  False if that is not to be had. */
static bool connect_ends(Rank *rank) {
    rank->ends[0] = rank->ends[1] = rank->log;
    if (wants_terminal) return connect_terminal(rank);
    if (!log_limit && !*rank->output && !*rank->error) return true;
    Sink *log = sink_of(NULL, rank->log, log_limit);
    char *paths[2] = {rank->output, *rank->error ? rank->error : rank->output};
    for (int i = 0; i < 2; i++) {
        if (i && !strcmp(paths[0], paths[1])) {
            rank->ends[1] = fcntl(rank->ends[0], F_DUPFD_CLOEXEC, 3);
            break;
        }
        int ends[2];
        Pump one = {.sinks = {log, *paths[i] ? theirs(paths[i]) : NULL}};
        if (*paths[i] && !one.sinks[1]) return refuse(rank, paths[i], errno), false;
        if (pipe2(ends, O_CLOEXEC)) return give_up(NULL, strerror(errno)), false;
        one.fd = ends[0], rank->ends[i] = ends[1];
        pump_to(one);
    }
    return true;
}

/* -- the life of an attempt --------------------------------------------------------------------- */

static void begin(Room *room) {
    if (exists(stop_path)) {
        fault = text("stopped before it began");
        return;
    }
    struct statvfs disk;
    char *logs = text("%s/logs", folder), *path;
    if (statvfs(logs, &disk)) return give_up(logs, strerror(errno));
    if (disk.f_blocks && (unsigned long long)disk.f_bavail * disk.f_frsize < SMALLEST_DISK)
        return give_up(logs, "the disk is full");
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
        path = text("%s/rank-%d.log", logs, rank->number);
        rank->log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640);
        struct stat status;
        if (rank->log < 0 || fstat(rank->log, &status)) return give_up(path, strerror(errno));
        if (!S_ISREG(status.st_mode) || status.st_nlink != 1) /* a trap that its user has set */
            return give_up(path, "no file of its own");
        if (switches_user && fchown(rank->log, uid, gid)) return give_up(path, strerror(errno));
    }
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++)
        if (!connect_ends(rank)) return;
    crash_point("logs opened");
    pid_t shim = getpid();
    double started_s = unix_s(), steady_s = seconds(CLOCK_MONOTONIC);
    char *started = text("ROTA_STARTED_S=%.6f", started_s);
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
        int ends[2], count = 0;
        while (rank->env[count]) count++;
        rank->env[count] = started; /* `list` left room for it */
        if (pipe2(ends, O_CLOEXEC)) return give_up(NULL, strerror(errno));
        bool is_inside;
        pid_t pid = fork_into(cgroup_count ? cgroups[0] : NULL, &is_inside);
        if (pid < 0) return give_up(NULL, strerror(errno));
        if (!pid) become(rank, ends[1], shim, is_inside);
        close(ends[1]);
        rank->error_pipe = ends[0], rank->pid = pid;
        if (!process_group) process_group = pid;
        if (!wants_terminal) setpgid(pid, process_group); /* it does so as well: whoever comes first is right */
        crash_point("rank started");
    }
    crash_point("ranks started");
    char *data;
    size_t size;
    FILE *out = open_memstream(&data, &size);
    fprintf(out, "{\"started_s\": %.6f, \"steady_s\": %.6f, \"pgid\": %d, \"ranks\": [", started_s, steady_s, process_group);
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
        fprintf(out, "%s{\"rank\": %d, ", rank == ranks ? "" : ", ", rank->number);
        put_identity(out, rank->pid);
        fprintf(out, "}");
    }
    fprintf(out, "]}");
    fclose(out);
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) check(rank);
    if (!fill(room, data)) return give_up(room->path, strerror(errno));
    crash_point("ranks written");
    tell("R");
}

/* For how long the attempt may go on if the agent hears nothing more. */
static double fenced_in_s(void) {
    char *line = *contact ? content(contact) : NULL;
    double last_s, lost_after_s, left_s = NEVER;
    if (line && sscanf(line, "%lf %lf", &last_s, &lost_after_s) == 2)
        left_s = last_s + fmax(FENCED_AT * lost_after_s, lost_after_s - LATEST_S) - seconds(CLOCK_BOOTTIME);
    free(line);
    return left_s;
}

/* Until every rank has ended: one that fails takes the others along. */
static void watch(void) {
    double terminate_s = NEVER, kill_s = NEVER;
    while (any_runs()) {
        sleep_for(fmin(fmin(terminate_s, kill_s) - seconds(CLOCK_MONOTONIC), fenced_in_s()));
        double now = seconds(CLOCK_MONOTONIC);
        bool has_failed, has_left;
        reap(&has_failed, &has_left);
        if ((has_failed || has_left) && exists(stop_path)) has_failed = has_left = false;
        if (has_left) terminate_s = fmin(terminate_s, now + grace_s); /* the others are about to leave as well */
        if (has_failed) terminate_s = fmin(terminate_s, now);
        if (now >= terminate_s && any_runs()) {
            killpg(process_group, SIGTERM);
            killpg(process_group, SIGCONT);
            terminate_s = NEVER, kill_s = fmin(kill_s, now + grace_s);
        }
        if (any_runs() && fenced_in_s() <= 0) {
            if (!fault) fault = text("%s", SILENT);
            infrastructure = true, kill_s = now, contact = "";
        }
        if (now >= kill_s) {
            kill_all();
            kill_s = now + 0.1; /* again, for those that were born meanwhile */
        }
    }
}

/* A number of the plan to stop. */
static double moment(const char *plan, const char *name) {
    const char *at = strstr(plan, name);
    at = at ? strchr(at, ':') : NULL;
    return at ? atof(at + 1) : 0.0;
}

/* The ranks are gone; what they left behind goes as well, and has the time a stop grants it. */
static void clear(void) {
    char *plan = content(stop_path);
    double now = seconds(CLOCK_MONOTONIC), until_s = now + ORPHAN_S;
    if (plan && moment(plan, "\"terminate_s\"") <= now) /* they have had their SIGTERM */
        until_s = moment(plan, "\"kill_s\"");
    else
        send_all(SIGTERM, SIGCONT);
    free(plan);
    while (has_descendants()) {
        double left_s = until_s - seconds(CLOCK_MONOTONIC);
        bool ignored;
        if (left_s <= 0) kill_all();
        sleep_for(fmin(fmax(left_s, 0.1), 1.0));
        reap(&ignored, &ignored);
    }
}

static char *record(long long kills_before) {
    char *data;
    size_t size;
    bool is_first = true;
    FILE *out = open_memstream(&data, &size);
    double ended_s = unix_s(), steady_s = seconds(CLOCK_MONOTONIC);
    fprintf(out, "{\"version\": 1, \"ended_s\": %.6f, \"steady_s\": %.6f, \"ranks\": [", ended_s, steady_s);
    for (Rank *rank = ranks; rank < ranks + rank_count; rank++) {
        if (!rank->has_ended) continue;
        fprintf(out, "%s{\"rank\": %d, ", is_first ? "" : ", ", rank->number);
        if (WIFEXITED(rank->status)) fprintf(out, "\"code\": %d, \"signal\": null", WEXITSTATUS(rank->status));
        else fprintf(out, "\"code\": null, \"signal\": %d", WTERMSIG(rank->status));
        fprintf(out, ", \"ended_s\": %.6f, \"cpu_s\": %.6f, \"peak_bytes\": %lld}", rank->ended_s, rank->cpu_s,
                rank->peak_bytes);
        is_first = false;
    }
    if (first_failed < 0) fprintf(out, "], \"first\": null, \"error\": ");
    else fprintf(out, "], \"first\": %d, \"error\": ", first_failed);
    put_string(out, fault ? fault : "");
    fprintf(out, ", \"infrastructure\": %s, \"oom_kills\": %lld}", infrastructure ? "true" : "false",
            oom_kills() - kills_before);
    fclose(out);
    return data;
}

/* -- from start to end -------------------------------------------------------------------------- */

static bool take(int lock) {
    for (int i = 0; i < LOCK_TRIES; i++) { /* an agent that looks whether it is taken holds it for a moment */
        if (!flock(lock, LOCK_EX | LOCK_NB)) return true;
        usleep(20000);
    }
    return false;
}

static void write_identity(Room *room) {
    char *data;
    size_t size;
    FILE *out = open_memstream(&data, &size);
    fputc('{', out);
    put_identity(out, getpid());
    fputc('}', out);
    fclose(out);
    if (!fill(room, data)) exit(1);
    free(data);
}

static bool close_range_of(int first, unsigned last) {
    return (unsigned)first > last || !syscall(SYS_close_range, first, last, 0);
}

/* No descriptor of the agent but these two: only those that Python made close by themselves. */
static void close_others(int one, int other) {
    int low = one < other ? one : other, high = one < other ? other : one;
    if (close_range_of(3, low - 1) && close_range_of(low + 1, high - 1) && close_range_of(high + 1, ~0U)) return;
    for (int fd = 3; fd < 1024; fd++) /* a kernel before 5.9 */
        if (fd != one && fd != other) close(fd);
}

static void listen_to_children(void) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_SETMASK, &ends, NULL);
    child_ends = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (child_ends < 0) exit(1);
}

int main(int count, char **words) {
    if (count != 4) return 70;
    folder = words[1], agent = atoi(words[2]);
    fcntl(agent, F_SETFD, FD_CLOEXEC);
    close_others(agent, atoi(words[3]));
    for (size_t i = 0; i < COUNT(DEAF); i++) signal(DEAF[i], SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    crash_point("shim started");
    if (chdir("/")) return 1;
    char *lock_path = text("%s/lock", folder), *exit_path = text("%s/exit.json", folder);
    char *shim_path = text("%s/shim.json", folder);
    stop_path = text("%s/stop.json", folder);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) {
        fprintf(stderr, "%s: %s\n", lock_path, strerror(errno));
        return 1;
    }
    if (!take(lock) || exists(exit_path) || exists(shim_path)) return TAKEN;
    crash_point("lock taken");
    Room own, started, ended;
    int why = make_room(&own, "shim");
    if (!why) why = make_room(&started, "ranks");
    if (!why) why = make_room(&ended, "exit");
    if (why) {
        fprintf(stderr, "no room for the exit record: %s\n", strerror(why));
        return NO_ROOM;
    }
    read_plan(atoi(words[3]));
    pid_t child = fork(); /* it shares the open file, and with it the lock */
    if (child < 0) {
        fprintf(stderr, "no process could be started: %s\n", strerror(errno));
        return 1;
    }
    if (child) return 0;
    setsid();
    prctl(PR_SET_NAME, "rota-shim", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    crash_point("shim forked");
    listen_to_children();
    write_identity(&own);
    crash_point("shim written");
    tell("L");
    long long kills_before = oom_kills();
    begin(&started);
    watch();
    clear();
    drain();
    crash_point("all ended");
    if (!insist(&ended, record(kills_before))) return 1;
    crash_point("exit renamed");
    tell("E"); /* before the disk has it: to whom it may concern, what is told is on record elsewhere */
    return keep(&ended) ? 0 : 1;
}
